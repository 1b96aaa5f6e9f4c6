"""Generated kernels on a GPU: each checked first on fresh random inputs, then timed side by side with its
peers.

    python tests/perf/h200.py [--rows gemm attention memory check] [--json FILE]

Prints one line a row: shape, time and rate of ours, of each peer, and the ratio to the best peer (above 1:
ours is faster). Candidates are interleaved, A B B A, and medians are taken; inputs are random; nothing is
timed before it is right.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.kernels import programs, references
from tilebench import compile as tb_compile
from tilebench.errors import TileError

ROUNDS = 15


def race(candidates: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, float]:
    """Median milliseconds of each candidate, interleaved there and back, about 6 ms a sample."""
    counts: dict[str, int] = {}
    for name, run in candidates.items():
        run()
        torch.cuda.synchronize()
        counts[name] = max(1, min(200, int(6 / max(_sample(run, 3), 1e-3))))
    times: dict[str, list[float]] = {name: [] for name in candidates}
    order = list(candidates)
    for k in range(rounds):
        for name in order if k % 2 == 0 else reversed(order):
            times[name].append(_sample(candidates[name], counts[name]))
    return {name: statistics.median(t) for name, t in times.items()}


def _sample(run: Callable[[], Any], count: int) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(count):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / count


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    """|got - want| / |want| in float64, NaN when anything is not finite."""
    a, b = got.double(), want.double()
    return float((a - b).norm() / b.norm())


def show(
    rows: list[dict[str, Any]],
    label: str,
    times: dict[str, float],
    error: float,
    bound: float,
    work: float,
    unit: str,
    kernel: Any,
) -> None:
    """Print and keep one row. work / ms gives the rate in `unit`."""
    ours = times["ours"]
    peers = {k: v for k, v in times.items() if k != "ours"}
    best = min(peers.values()) if peers else math.nan
    built = kernel.executable.built
    text = "  ".join(f"{k} {v:.4f} ms {work / v:.0f} {unit}" for k, v in times.items())
    ok = error <= bound
    print(
        f"{'ok  ' if ok else 'BAD '}{label:44s} {text}  ratio {best / ours:.3f}  error {error:.1e}  "
        f"regs {built.registers} spill {built.spill_bytes} smem {built.shared_bytes}",
        flush=True,
    )
    rows.append(
        {
            "row": label,
            "ms": times,
            "rate": work / ours,
            "unit": unit,
            "ratio": best / ours,
            "error": error,
            "ok": ok,
            "registers": built.registers,
            "spill": built.spill_bytes,
        }
    )


def compiled(candidates: list[tuple[Any, str]]) -> list[tuple[Any, str]]:
    """Kernels of the programs that compile."""
    out: list[tuple[Any, str]] = []
    for program, label in candidates:
        try:
            out.append((tb_compile(program, target="cuda"), label))
        except TileError as error:
            print(f"     {label}: {error.what}", flush=True)
    return out


def fastest(kernels: list[tuple[Any, str]], *tensors: torch.Tensor) -> tuple[Any, str]:
    """The configuration with the smallest median."""
    timed = race({label: kernel.bind(*tensors) for kernel, label in kernels}, rounds=3)
    label = min(timed, key=lambda k: timed[k])
    return next((k, name) for k, name in kernels if name == label)


def gemm_rows(rows: list[dict[str, Any]]) -> None:
    """GEMM against cuBLAS."""
    shapes = [(4096, 4096, 4096), (8192, 8192, 8192), (8192, 8192, 1024), (2048, 2048, 8192)]
    for dtype in ("float16", "bfloat16"):
        for transposed in (True, False):
            for m, n, k in shapes if dtype == "float16" else shapes[:1]:
                a = torch.randn(m, k, device="cuda").to(getattr(torch, dtype))
                b = torch.randn(*((n, k) if transposed else (k, n)), device="cuda").to(getattr(torch, dtype))
                c = torch.full((m, n), math.nan, device="cuda", dtype=a.dtype)
                configs = [
                    (block_K, stages, staged)
                    for block_K, stages in ((32, 3), (32, 4), (64, 3))
                    for staged in (False, True)
                ]
                kernels = compiled(
                    [
                        (
                            programs.gemm(
                                m,
                                n,
                                k,
                                dtype,
                                dtype,
                                transpose_B=transposed,
                                block_K=block_K,
                                num_stages=stages,
                                staged=staged,
                            ),
                            f"128x128x{block_K} s{stages}{' staged' if staged else ''}",
                        )
                        for block_K, stages, staged in configs
                    ]
                )
                kernel, config = fastest(kernels, a, b, c)
                kernel(a, b, c)
                want = a.float() @ (b.float().T if transposed else b.float())
                error = relative_error(c, want)
                times = race(
                    {
                        "ours": kernel.bind(a, b, c),
                        "cuBLAS": lambda a=a, b=b.T if transposed else b: torch.matmul(a, b),
                    }
                )
                show(
                    rows,
                    f"gemm {dtype} {'NT' if transposed else 'NN'} {m}x{n}x{k} [{config}]",
                    times,
                    error,
                    6e-3,
                    2 * m * n * k / 1e9,
                    "TFLOP/s",
                    kernel,
                )


def attention_rows(rows: list[dict[str, Any]]) -> None:
    """Attention forward against Triton and PyTorch's own."""
    from tests.perf import triton_peers

    for dim in (128, 64):
        for causal in (False, True):
            for s in (1024, 4096):
                batch, heads = (4, 32) if s < 4096 else (2, 32)
                q, k, v = (
                    torch.randn(batch, heads, s, dim, device="cuda", dtype=torch.float16) for _ in range(3)
                )
                o = torch.full_like(q, math.nan)
                configs = [
                    (128, 64, 2, 256),
                    (128, 64, 2, 128),
                    (64, 64, 2, 128),
                    (128, 128, 2, 256),
                    (128, 32, 3, 128),
                    (64, 128, 2, 128),
                ]
                kernels = compiled(
                    [
                        (
                            programs.attention(
                                batch,
                                heads,
                                s,
                                s,
                                dim,
                                causal,
                                block_M=bm,
                                block_N=bn,
                                num_stages=st,
                                threads=t,
                            ),
                            f"{bm}x{bn} s{st} t{t}",
                        )
                        for bm, bn, st, t in configs
                    ]
                )
                kernel, config = fastest(kernels, q, k, v, o)
                kernel(q, k, v, o)
                want = torch.nn.functional.scaled_dot_product_attention(
                    q.float(), k.float(), v.float(), is_causal=causal
                )
                error = relative_error(o, want)
                del want
                o2 = torch.empty_like(o)
                times = race(
                    {
                        "ours": kernel.bind(q, k, v, o),
                        "Triton": lambda q=q, k=k, v=v, o=o2, c=causal: triton_peers.attention(q, k, v, o, c),
                        "torch": lambda q=q, k=k, v=v, c=causal: (
                            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=c)
                        ),
                    }
                )
                flops = 4 * batch * heads * s * s * dim / (2 if causal else 1)
                show(
                    rows,
                    f"attention D{dim} S{s}{' causal' if causal else ''} [{config}]",
                    times,
                    error,
                    1e-2,
                    flops / 1e9,
                    "TFLOP/s",
                    kernel,
                )


def memory_rows(rows: list[dict[str, Any]]) -> None:
    """Row softmax and RMSNorm against a copy of the same size and PyTorch."""
    m = n = 8192
    x = torch.randn(m, n, device="cuda", dtype=torch.float16)
    w = torch.randn(n, device="cuda", dtype=torch.float16)
    y = torch.full_like(x, math.nan)
    bytes_moved = 2 * x.numel() * 2 / 1e9
    for name, make, reference, inputs in (
        ("softmax", lambda **c: programs.softmax(m, n, **c), references.softmax, (x,)),
        ("rms_norm", lambda **c: programs.rms_norm(m, n, **c), references.rms_norm, (x, w)),
    ):
        configs = [
            {"block_M": bm, "threads": t}
            for bm, t in ((1, 128), (1, 256), (1, 512), (2, 256), (4, 512), (1, 1024))
        ]
        kernels = compiled([(make(**c), f"{c['block_M']} rows t{c['threads']}") for c in configs])
        kernel, config = fastest(kernels, *inputs, y)
        kernel(*inputs, y)
        error = relative_error(y, reference(*inputs))
        z = torch.empty_like(x)
        times = race(
            {
                "ours": kernel.bind(*inputs, y),
                "copy": lambda z=z, x=x: z.copy_(x),
                "torch": lambda r=reference, i=inputs: r(*i),
            }
        )
        show(rows, f"{name} {m}x{n} f16 [{config}]", times, error, 2e-3, bytes_moved * 1e3, "GB/s", kernel)


def check_rows(rows: list[dict[str, Any]]) -> None:
    """Every real kernel on this GPU against the oracle's bound and PyTorch, small sizes with tails."""
    from tilebench.kernel.session import run

    cases: list[tuple[str, Any, Any]] = []
    for ta in (False, True):
        for tb in (False, True):
            for dtype, out, acc in (
                ("float16", "float16", "float32"),
                ("bfloat16", "bfloat16", "float32"),
                ("float32", "float32", "float32"),
                ("int8", "int32", "int32"),
            ):
                cases.append(
                    (
                        f"gemm {dtype} {'T' if ta else 'N'}{'T' if tb else 'N'}",
                        programs.gemm(200, 144, 112, dtype, out, acc, ta, tb),
                        references.gemm(ta, tb, out),
                    )
                )
    cases += [
        ("softmax", programs.softmax(37, 1000), references.softmax),
        ("rms_norm", programs.rms_norm(37, 1000), references.rms_norm),
    ]
    for d in (64, 80, 96, 128):
        cases.append((f"attention D{d}", programs.attention(1, 2, 200, 264, d), references.attention()))
        cases.append(
            (
                f"attention causal D{d}",
                programs.attention(1, 2, 200, 264, d, causal=True),
                references.attention(True),
            )
        )
    cases.append(("gqa", programs.attention(2, 8, 128, 128, 64, kv_heads=2), references.attention()))
    cases.append(("mlp", programs.mlp(200, 144, 112), references.mlp))
    cases.append(("transpose", programs.transpose(200, 144), references.transpose))
    for label, program, reference in cases:
        try:
            result = run(program, target="cuda", ref=reference, seed=1)
            ok = bool(result.report.ok)
            print(f"{'ok  ' if ok else 'BAD '}{label:28s} {result.report.verdict}", flush=True)
        except Exception as error:  # every row is reported, the failing one too
            ok = False
            print(f"BAD {label:28s} {type(error).__name__}: {error}", flush=True)
        rows.append({"row": label, "ok": ok})
    x = torch.randint(0, 100, (50000,), dtype=torch.int32, device="cuda")
    h = torch.zeros(100, dtype=torch.int32, device="cuda")
    tb_compile(programs.histogram(50000, 100), target="cuda")(x, h)
    ok = bool((h == torch.bincount(x.long(), minlength=100).int()).all())
    print(f"{'ok  ' if ok else 'BAD '}histogram", flush=True)
    rows.append({"row": "histogram", "ok": ok})


ROWS = {"check": check_rows, "gemm": gemm_rows, "attention": attention_rows, "memory": memory_rows}


def main() -> int:
    """Run the chosen rows; 1 when a result is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    print(torch.cuda.get_device_name(), torch.__version__, flush=True)
    rows: list[dict[str, Any]] = []
    for name in options.rows:
        ROWS[name](rows)
    if options.json:
        options.json.write_text(json.dumps({"device": torch.cuda.get_device_name(), "rows": rows}, indent=1))
    bad = [r["row"] for r in rows if not r["ok"]]
    print(f"{len(rows) - len(bad)} rows right, {len(bad)} wrong{': ' + ', '.join(bad) if bad else ''}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
