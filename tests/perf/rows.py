"""The rows of the table: GEMM, attention, memory-bound kernels; more in rows_gemm, _attention and _scan.py.

Nothing here touches the GPU before a case's `prepare`; the programs of its candidates are made on call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from tests.kernels import programs, references
from tests.perf.cases import REFERENCE, Bar, Candidate, Case, NotHere, Run, Setup, one, same_arguments

GEMM_SHAPES = ((8192, 8192, 8192), (4096, 4096, 4096), (8192, 8192, 1024), (2048, 2048, 8192))
LENGTHS = (1024, 2048, 4096, 8192, 16384)


def gemm_case(row: str, dtype: str, m: int, n: int, k: int, transposed: bool) -> Case:
    """C = A @ B, B as (N, K) when transposed."""
    make = partial(programs.gemm, m, n, k, dtype, dtype, transpose_B=transposed, block_K=64, threads=256)
    settings = (
        (128, 128, 4, 8, {}),
        (128, 192, 4, 16, {}),
        (128, 256, 4, 16, {}),
        (128, 256, 4, 8, {}),
        (128, 192, 5, 16, {"TB_PERSISTENT": False}),
        (128, 256, 4, 16, {"TB_PERSISTENT": False}),
        (256, 128, 4, 8, {}),
    )
    candidates = tuple(
        one(
            f"{bm}x{bn}x64 s{stages} p{panel}{' one block a tile' if configs else ''}",
            partial(make, block_M=bm, block_N=bn, num_stages=stages, panel=panel),
            **configs,
        )
        for bm, bn, stages, panel, configs in settings
    )

    def prepare(folder: Path | None) -> Setup:
        import torch

        from tests.perf import peers

        kind = getattr(torch, dtype)
        a = torch.randn(m, k, device="cuda").to(kind)
        b = torch.randn(*((n, k) if transposed else (k, n)), device="cuda").to(kind)
        c, c2, c3 = (torch.full((m, n), math.nan, device="cuda", dtype=kind) for _ in range(3))
        right = b.T if transposed else b

        def triton() -> Run:
            peers.module("triton")
            from tests.perf import triton_peers

            return lambda: (triton_peers.gemm(a, right, c3), c3)[1]

        tb = {} if transposed else {"tb": 1}
        reference = {
            f"{REFERENCE} {label}": partial(peers.reference_gemm, folder, a, b, **options, **tb)
            for label, options in (
                ("128x256 s4", {}),
                ("128x192 s4", {"BN": 192}),
                ("128x256 s3", {"stages": 3}),
            )
        }
        return Setup(
            same_arguments(a, b, c),
            [c],
            lambda: [a.float() @ right.float()],
            {"cuBLAS": lambda: lambda: torch.mm(a, right, out=c2), "Triton": triton, **reference},
        )

    label = f"{dtype} {'NT' if transposed else 'NN'} {m}x{n}x{k}"
    return Case(row, label, candidates, prepare, 2 * m * n * k / 1e9, "TFLOP/s", 6e-3)


WAYS: Mapping[str, Mapping[str, bool]] = {"": {}, "one block a tile": {"TB_PERSISTENT": False}}
"""Ways to go through equal tiles, as pass configs; persistent blocks unless said."""
WAYS_CAUSAL: Mapping[str, Mapping[str, bool]] = {
    "one block a tile": {"TB_PERSISTENT": False},
    "pairs": {"TB_PERSISTENT": True, "TB_PAIRED_TILES": True},
}
"""Ways to go through tiles of growing length."""


def attention_case(
    row: str, dtype: str, batch: int, heads: int, kv_heads: int, s: int, dim: int, causal: bool
) -> Case:
    """Attention forward."""
    make = partial(programs.attention, batch, heads, s, s, dim, causal, kv_heads=kv_heads, dtype=dtype)
    settings = [(128, 128, 2, 256, way) for way in (WAYS_CAUSAL if causal else WAYS)]
    if dim == 128 and not causal:
        settings += [(128, 160, 2, 256, ""), (128, 176, 2, 256, "one block a tile")]
    if dim == 64:
        settings += [(192, 128, 2, 384, way) for way in (WAYS_CAUSAL if causal else WAYS)]
    candidates = tuple(
        one(
            f"{bm}x{bn} s{stages} t{threads}{' ' if way else ''}{way}",
            partial(make, block_M=bm, block_N=bn, num_stages=stages, threads=threads),
            **(WAYS_CAUSAL if causal else WAYS)[way],
        )
        for bm, bn, stages, threads, way in settings
    )

    def prepare(folder: Path | None) -> Setup:
        import torch

        from tests.perf import peers

        kind = getattr(torch, dtype)
        q = torch.randn(batch, heads, s, dim, device="cuda").to(kind)
        k, v = (torch.randn(batch, kv_heads, s, dim, device="cuda").to(kind) for _ in range(2))
        o, o2 = (torch.full_like(q, math.nan) for _ in range(2))

        def triton() -> Run:
            peers.module("triton")
            from tests.perf import triton_peers

            return lambda: (triton_peers.attention(q, k, v, o2, causal), o2)[1]

        choices = [("persistent", {}), ("one block a tile", {"persistent": False})]
        choices += [
            ("hoisted wait", {"overlap": 0}),
            ("hoisted wait, one block a tile", {"overlap": 0, "persistent": False}),
        ]
        if dim == 128:
            choices += [("kv tile 160", {"BN": 160})]
        reference = {
            f"{REFERENCE} {label}": partial(peers.reference_attention, folder, q, k, v, causal, **options)
            for label, options in choices
        }
        return Setup(
            same_arguments(q, k, v, o),
            [o],
            lambda: [peers.attention_reference(q, k, v, causal)],
            {
                "cuDNN": partial(peers.sdpa, q, k, v, causal, "CUDNN_ATTENTION"),
                "FA2": partial(peers.sdpa, q, k, v, causal, "FLASH_ATTENTION"),
                "Triton": triton,
                **reference,
            },
        )

    flops = 4 * batch * heads * s * s * dim / (2 if causal else 1)
    grouped = f" {heads}q/{kv_heads}kv" if heads != kv_heads else f" H{heads}"
    label = f"{dtype} B{batch}{grouped} S{s} D{dim}{' causal' if causal else ''}"
    return Case(row, label, candidates, prepare, flops / 1e9, "TFLOP/s", 1e-2)


def memory_case(row: str, m: int = 8192, n: int = 8192, copies: int = 3) -> Case:
    """Row softmax or RMSNorm; buffers are rotated, so that nothing stays in the L2 cache."""
    factory: Any = getattr(programs, row)
    candidates = tuple(
        one(f"{bm} rows t{threads}", partial(factory, m, n, block_M=bm, threads=threads))
        for bm, threads in ((1, 128), (1, 256), (1, 512), (2, 256), (1, 1024), (2, 512))
    )
    if row == "rms_norm":
        candidates += (
            one("1 rows t512, 3 blocks an SM", partial(factory, m, n, block_M=1, threads=512, blocks=3)),
        )

    def prepare(folder: Path | None) -> Setup:
        import torch

        from tests.perf import peers

        del folder
        xs = [torch.randn(m, n, device="cuda", dtype=torch.float16) for _ in range(copies)]
        ys = [torch.full_like(x, math.nan) for x in xs]
        zs = [torch.empty_like(x) for x in xs]
        rest = () if row == "softmax" else (torch.randn(n, device="cuda", dtype=torch.float16),)
        reference = getattr(references, row)

        def bind(kernels: Sequence[Any], candidate: Candidate) -> Run:
            del candidate
            return rotated([kernels[0].bind(x, *rest, y) for x, y in zip(xs, ys, strict=True)])

        def inductor() -> Run:
            fast = peers.compiled(reference, xs[0], *rest)
            return rotated([partial(fast, x, *rest) for x in xs])

        return Setup(
            bind,
            ys[:1],
            lambda: [reference(xs[0], *rest)],
            {
                "copy": lambda: rotated([partial(z.copy_, x) for x, z in zip(xs, zs, strict=True)], False),
                "inductor": inductor,
                "PyTorch": lambda: rotated([partial(reference, x, *rest) for x in xs]),
            },
        )

    return Case(row, f"float16 {m}x{n}", candidates, prepare, 2 * m * n * 2 / 1e9, "TB/s", 2e-3)


def rotated(runs: Sequence[Run], result: bool = True) -> Run:
    """One after the other, call by call. result: give what the first gives, on its turn."""
    turn = cycle(range(len(runs)))

    def run() -> Any:
        k = next(turn)
        got = runs[k]()
        return got if result and k == 0 else None

    return run


def cases() -> dict[str, list[Case]]:
    """Every row with its shapes, the most telling first."""
    from tests.perf.rows_attention import backward_case, decode_case, mla_case, varlen_case
    from tests.perf.rows_gemm import e4m3_case, int4_case, skinny_case
    from tests.perf.rows_scan import linear_case, mamba_case

    rows: dict[str, list[Case]] = {}
    rows["gemm"] = [
        gemm_case("gemm", dtype, *shape, transposed)
        for dtype, transposed in (
            ("float16", True),
            ("bfloat16", True),
            ("float16", False),
            ("bfloat16", False),
        )
        for shape in GEMM_SHAPES
    ]
    for dim in (128, 64):
        for causal in (False, True):
            name = f"attention-D{dim}{'-causal' if causal else ''}"
            rows[name] = [
                attention_case(name, dtype, max(1, 16384 // s), 2048 // dim, 2048 // dim, s, dim, causal)
                for dtype, s in [*(("bfloat16", s) for s in LENGTHS), ("float16", 4096)]
            ]
    rows["gqa"] = [
        attention_case("gqa", "bfloat16", max(1, 16384 // s), 32, 8, s, 128, causal)
        for s in (2048, 8192)
        for causal in (False, True)
    ]
    rows["softmax"] = [memory_case("softmax")]
    rows["rms_norm"] = [memory_case("rms_norm")]
    rows |= {
        "gemm-skinny": [skinny_case("float16"), skinny_case("bfloat16")],
        "gemm-e4m3": [e4m3_case()],
        "varlen": [varlen_case(False), varlen_case(True)],
        "decode": [decode_case()],
        "decode-mla": [mla_case()],
        "linear-attention": [linear_case()],
        "mamba2-chunk-scan": [mamba_case("chunk-scan")],
        "mamba2-chunk-state": [mamba_case("chunk-state")],
        "gemm-int4-M16": [int4_case(16)],
        "gemm-int4-M4096": [int4_case(4096)],
        "attention-backward": [backward_case(False), backward_case(True)],
    }
    return rows


BARS: Mapping[str, tuple[Bar, ...]] = {
    "gemm": (Bar("cuBLAS", 1.02), Bar(REFERENCE, 0.98)),
    "attention-D128": (Bar("cuDNN", 1.08), Bar("Triton", 1.25), Bar(REFERENCE, 0.98)),
    "attention-D128-causal": (Bar("cuDNN", 1.12), Bar("Triton", 1.30), Bar(REFERENCE, 0.98)),
    "attention-D64": (Bar("cuDNN", 1.00), Bar(REFERENCE, 0.98)),
    "attention-D64-causal": (Bar("cuDNN", 1.04), Bar(REFERENCE, 0.98)),
    "gqa": (Bar("cuDNN|FA2", 1.05),),
    "softmax": (Bar("inductor", 1.00), Bar("copy", 0.95)),
    "rms_norm": (Bar("inductor", 1.00), Bar("copy", 0.95)),
    "gemm-skinny": (Bar("cuBLAS", 1.00),),
    "gemm-e4m3": (Bar("cuBLASLt", 1.10), Bar(REFERENCE, 0.98)),
    "varlen": (Bar("cuDNN|FA2", 1.05),),
    "attention-backward": (Bar("cuDNN", 1.00),),
    "linear-attention": (Bar("fla|given fla", 2.10),),
    "mamba2-chunk-scan": (Bar("TileLang|given TileLang", 1.96),),
    "mamba2-chunk-state": (Bar("TileLang|given TileLang", 1.50),),
    "decode": (Bar("TileLang", 1.10),),
    "decode-mla": (Bar("TileLang", 1.10),),
    "gemm-int4-M16": (Bar("cuBLAS", 2.50),),
    "gemm-int4-M4096": (Bar("cuBLAS", 0.85),),
    "launch": (Bar("Triton", 1.00),),
}
"""A row's bars: of the fastest of several peers where they are joined by |."""

__all__ = ["BARS", "NotHere", "cases"]
