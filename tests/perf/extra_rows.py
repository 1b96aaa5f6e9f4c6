"""Rows that are no race of kernels: correctness of the small kernels, launch overhead, compile times."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.kernels import programs, references
from tests.perf import racing

Step = Callable[[float, str], None]


def check_cases() -> list[tuple[str, Any, Any]]:
    """(label, maker of a program, PyTorch reference): small sizes with tails."""
    found: list[tuple[str, Any, Any]] = []
    for ta in (False, True):
        for tb in (False, True):
            for dtype, out, acc in (
                ("float16", "float16", "float32"),
                ("bfloat16", "bfloat16", "float32"),
                ("float32", "float32", "float32"),
                ("int8", "int32", "int32"),
            ):
                label = f"gemm {dtype} {'T' if ta else 'N'}{'T' if tb else 'N'}"
                make = partial(programs.gemm, 200, 144, 112, dtype, out, acc, ta, tb)
                found.append((label, make, references.gemm(ta, tb, out)))
    found.append(("softmax", partial(programs.softmax, 37, 1000), references.softmax))
    found.append(("rms_norm", partial(programs.rms_norm, 37, 1000), references.rms_norm))
    for d in (64, 80, 96, 128):
        for causal in (False, True):
            label = f"attention D{d}{' causal' if causal else ''}"
            make = partial(programs.attention, 1, 2, 200, 264, d, causal=causal, threads=256)
            found.append((label, make, references.attention(causal)))
    found.append(("gqa", partial(programs.attention, 2, 8, 128, 128, 64, kv_heads=2), references.attention()))
    found.append(("mlp", partial(programs.mlp, 200, 144, 112), references.mlp))
    found.append(("transpose", partial(programs.transpose, 200, 144), references.transpose))
    return found


def check_row(step: Step) -> dict[str, Any]:
    """Every small kernel against the oracle's bound and PyTorch."""
    import torch

    from tilebench import compile as tb_compile
    from tilebench.kernel.session import run

    lines: list[str] = []
    wrong: list[str] = []
    for label, make, reference in check_cases():
        step(40, label)
        try:
            result = run(make(), target="cuda", ref=reference, seed=1)
            ok, said = bool(result.report.ok), str(result.report.verdict)
        except Exception as error:  # every kernel is reported, the failing one too
            ok, said = False, f"{type(error).__name__}: {error}"
        lines.append(f"{label:28s} {'right' if ok else 'WRONG'} {said[:200]}")
        if not ok:
            wrong.append(label)
    x = torch.randint(0, 100, (50000,), dtype=torch.int32, device="cuda")
    h = torch.zeros(100, dtype=torch.int32, device="cuda")
    tb_compile(programs.histogram(50000, 100), target="cuda")(x, h)
    if not bool((h == torch.bincount(x.long(), minlength=100).int()).all()):
        wrong.append("histogram")
    lines.append(f"{len(lines) + 1 - len(wrong)} right, {len(wrong)} wrong {wrong or ''}")
    return {"ok": not wrong, "why": ", ".join(wrong), "lines": lines}


def launch_row(step: Step) -> dict[str, Any]:
    """Microseconds of the CPU for a call with five tensors, interleaved with Triton's."""
    import torch

    from tilebench import compile as tb_compile

    step(90, "launch")
    tensors = [torch.randn(1024, device="cuda") for _ in range(5)]
    kernel = tb_compile(five(), target="cuda")
    runs: dict[str, Any] = {"ours": lambda: kernel(*tensors), "bound": kernel.bind(*tensors)}
    absent: dict[str, str] = {}
    try:
        from tests.perf import triton_peers

        triton_peers.five(*tensors)
        runs["Triton"] = lambda: triton_peers.five(*tensors)
    except ImportError as error:
        absent["Triton"] = str(error)
    out = tensors[4]
    out.fill_(float("nan"))
    runs["ours"]()
    torch.cuda.synchronize()
    right = torch.allclose(out, tensors[0] + tensors[1] + tensors[2] + tensors[3])
    times: dict[str, list[float]] = {name: [] for name in runs}
    count = 300
    for k in range(31):
        for name in list(runs) if k % 2 == 0 else list(reversed(runs)):
            run = runs[name]
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(count):
                run()
            times[name].append((time.perf_counter() - start) / count * 1e3)
    torch.cuda.synchronize()
    ms = {name: list(racing.interval(t)) for name, t in times.items()}
    ratio = {name: list(r) for name, r in racing.ratios(times, "ours").items() if name != "bound"}
    text = "  ".join(f"{name} {m[0] * 1e3:.1f} us" for name, m in ms.items())
    return {
        "ok": bool(right),
        "why": "" if right else "wrong sum",
        "label": "five tensors",
        "ms": ms,
        "ratio": ratio,
        "absent": absent,
        "bound_us": ms["bound"][0] * 1e3,
        "lines": [f"a call with five tensors: {text}; the bound call's bar is 6 us"],
    }


def five() -> Any:
    """E = A + B + C + D, 1024 elements of float32."""
    import tilebench.language as T

    shape = (1024,)

    @T.prim_func
    def five_tensors(
        A: T.Tensor(shape, "float32"),
        B: T.Tensor(shape, "float32"),
        C: T.Tensor(shape, "float32"),
        D: T.Tensor(shape, "float32"),
        E: T.Tensor(shape, "float32"),
    ):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(1024):
                E[i] = A[i] + B[i] + C[i] + D[i]

    return five_tensors


_ATTENTION = partial(programs.attention, 1, 16, 4096, 4096, 128, block_N=128, threads=256)
_GEMM = partial(
    programs.gemm, 8192, 8192, 8192, transpose_B=True, block_N=256, block_K=64, num_stages=4, threads=256
)
COLD = (
    ("gemm", 600, _GEMM),
    ("attention", 900, _ATTENTION),
    ("attention causal", 1200, partial(_ATTENTION, causal=True)),
)
"""(name, bar in milliseconds, program)."""


def compile_row(step: Step) -> dict[str, Any]:
    """Cold compile times: nothing stored, NVRTC loaded; wall clock, median of three."""
    step(90, "compile")
    lines: list[str] = []
    found: dict[str, float] = {}
    for name, bar, make in COLD:
        walls = [cold_ms(make) for _ in range(3)]
        found[name] = statistics.median(walls)
        lines.append(f"{name}: {found[name]:.0f} ms (bar {bar} on two cores)")
    return {"ok": True, "label": "cold", "cold_ms": found, "lines": lines}


def cold_ms(make: Callable[[], Any]) -> float:
    """Milliseconds from a program to its binary, with an empty store and an empty memory."""
    from tilebench import compile as tb_compile
    from tilebench import config
    from tilebench.kernel import recall

    with tempfile.TemporaryDirectory() as folder, config.using(cache_dir=Path(folder)):
        recall.memory().clear()
        start = time.perf_counter()
        _ = tb_compile(make(), target="cuda:sm_90a").executable
        return (time.perf_counter() - start) * 1e3


if __name__ == "__main__":
    for text in compile_row(lambda seconds, what: None)["lines"]:
        print(text, file=sys.stdout)
