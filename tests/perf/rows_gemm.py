"""Matrix products of other shapes and types: few rows, e4m3, int4 weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.kernels import (
    programs,
    programs_gemm,
    programs_int4,
)
from tests.perf.cases import (
    REFERENCE,
    Candidate,
    Case,
    Run,
    Setup,
    both,
    in_turn,
    one,
    same_arguments,
    shape_of,
)  # fmt: skip


def skinny_case(dtype: str, m: int = 64, n: int = 8192, k: int = 8192) -> Case:
    """Few rows: in one piece with narrow tiles, or K in parts and a second pass."""
    whole = partial(
        programs.gemm, m, n, k, dtype, dtype, transpose_B=True, block_M=64, block_K=64, threads=128
    )
    candidates = [
        one(f"64x{bn}x64 s{stages}", partial(whole, block_N=bn, num_stages=stages))
        for bn, stages in ((64, 8), (64, 12), (64, 6))
    ]
    for parts, bn, stages in ((2, 128, 8), (4, 256, 5), (4, 128, 4), (8, 256, 5)):
        make = partial(programs_gemm.gemm_parts, m, n, k, parts, dtype, block_N=bn, num_stages=stages)
        add = partial(programs_gemm.add_parts, m, n, parts, dtype)
        candidates.append(Candidate(f"{parts} parts of 64x{bn}x64 s{stages}", (make, add)))

    def prepare(folder: Path | None) -> Setup:
        import torch

        from tests.perf import peers

        kind = getattr(torch, dtype)
        a, b = torch.randn(m, k, device="cuda").to(kind), torch.randn(n, k, device="cuda").to(kind)
        c, c2, c3 = (torch.full((m, n), math.nan, device="cuda", dtype=kind) for _ in range(3))

        def bind(kernels: Sequence[Any], candidate: Candidate) -> Run:
            if len(kernels) == 1:
                return kernels[0].bind(a, b, c)
            w = torch.empty(shape_of(kernels[0], 2), device="cuda")
            return in_turn(kernels[0].bind(a, b, w), kernels[1].bind(w, c))

        def triton() -> Run:
            peers.module("triton")
            from tests.perf import triton_peers

            return lambda: (triton_peers.gemm(a, b.T, c3), c3)[1]

        return Setup(
            bind,
            [c],
            lambda: [a.float() @ b.float().T],
            {
                "cuBLAS": lambda: lambda: torch.mm(a, b.T, out=c2),
                "Triton": triton,
                f"{REFERENCE} 128x128": partial(peers.reference_gemm, folder, a, b, BN=128, stages=6),
            },
        )

    return Case(
        "gemm-skinny",
        f"{dtype} {m}x{n}x{k}",
        tuple(candidates),
        prepare,
        2 * m * n * k / 1e9,
        "TFLOP/s",
        6e-3,
    )


def e4m3_case(m: int = 8192, n: int = 8192, k: int = 8192) -> Case:
    """Operands of eight bits, both along K."""
    make = partial(programs.gemm, m, n, k, "float8_e4m3", "bfloat16", transpose_B=True, block_K=128)
    turns = {"TB_CONSUMERS_IN_TURN": True}
    ahead = {"TB_OVERLAP_LAUNCHES": True}
    candidates = tuple(
        one(
            f"128x{bn}x128 s{stages} p{panel}{way}",
            partial(make, block_N=bn, num_stages=stages, panel=panel, threads=128 if "turn" in way else 256),
            **configs,
        )
        for bn, stages, panel, way, configs in (
            (192, 4, 16, " in turn, launches overlap", {**turns, **ahead}),
            (192, 4, 8, " in turn, launches overlap", {**turns, **ahead}),
            (192, 4, 32, " in turn, launches overlap", {**turns, **ahead}),
            (192, 4, 16, "", {}),
            (256, 4, 16, "", {}),
            (256, 4, 16, " one block a tile", {"TB_PERSISTENT": False}),
        )
    )

    def prepare(folder: Path | None) -> Setup:
        import torch

        from tests.perf import peers

        a, b = (torch.randn(r, k, device="cuda").to(torch.float8_e4m3fn) for r in (m, n))
        c = torch.full((m, n), math.nan, device="cuda", dtype=torch.bfloat16)
        unit = torch.ones((), device="cuda")

        def cublas() -> Run:
            return lambda: torch._scaled_mm(
                a, b.T, scale_a=unit, scale_b=unit, out_dtype=torch.bfloat16, use_fast_accum=True
            )

        return Setup(
            same_arguments(a, b, c),
            [c],
            lambda: [a.float() @ b.float().T],
            {
                "cuBLASLt": cublas,
                f"{REFERENCE} 128x256 s4": partial(peers.reference_gemm, folder, a, b),
                f"{REFERENCE} 128x192 s4": partial(peers.reference_gemm, folder, a, b, BN=192),
            },
        )

    return Case("gemm-e4m3", f"NT {m}x{n}x{k}", candidates, prepare, 2 * m * n * k / 1e9, "TFLOP/s", 6e-3)


def packed_int4(m: int, n: int, k: int) -> tuple[Candidate, ...]:
    """Weights in their packed order: K in one piece, or in two for two warpgroups."""
    one_group = tuple(
        one(
            f"packed 64x{bk} s{stages}",
            partial(programs_int4.gemm_int4_packed, m, n, k, block_K=bk, num_stages=stages),
        )
        for bk, stages in ((256, 6), (128, 12), (256, 10))
    )
    two_groups = tuple(
        one(
            f"packed 64x2x{bk} s{stages}",
            partial(programs_int4.gemm_int4_groups, m, n, k, groups=2, block_K=bk, num_stages=stages),
        )
        for bk, stages in ((128, 8), (128, 12), (256, 6))
    )
    return (*two_groups, *one_group)


def int4_case(m: int, n: int = 8192, k: int = 8192) -> Case:
    """Weights of four bits."""
    settings = (
        ((16, 64, 128, 6, 128), (16, 64, 256, 4, 128), (16, 64, 256, 6, 128), (16, 128, 256, 3, 256))
        if m <= 16
        else ((256, 128, 64, 4, 256), (128, 128, 64, 4, 256), (192, 128, 64, 4, 256), (128, 256, 64, 4, 256))
    )
    candidates = tuple(
        one(
            f"{bm}x{bn}x{bk} s{stages} t{threads}",
            partial(
                programs_gemm.gemm_int4,
                m, n, k, block_M=bm, block_N=bn, block_K=bk, num_stages=stages, threads=threads,
                panel=8 if m > 16 else 0,
            ),
        )
        for bm, bn, bk, stages, threads in settings
    )  # fmt: skip
    if m > 16:
        candidates = both(candidates)
    else:
        candidates += tuple(
            Candidate(
                f"{parts} parts of 16x{bn}x{bk} s{stages} t{threads}",
                (
                    partial(
                        programs_gemm.gemm_int4_parts,
                        m, n, k, parts,
                        block_N=bn, block_K=bk, num_stages=stages, threads=threads,
                    ),
                    partial(programs_gemm.add_parts, m, n, parts),
                ),
            )
            for parts, bn, bk, stages, threads in (
                (2, 64, 256, 4, 128), (4, 64, 128, 4, 128), (2, 128, 256, 4, 256), (4, 128, 256, 3, 256),
            )
        )  # fmt: skip
        candidates = (*packed_int4(m, n, k), *candidates[1:2], *candidates[4:6])

    def prepare(folder: Path | None) -> Setup:
        import torch

        from tests.kernels import references_more

        del folder
        a = torch.randn(m, k, device="cuda", dtype=torch.float16)
        w = torch.randint(0, 256, (n, k // 2), device="cuda", dtype=torch.uint8)
        scale = (torch.rand(n, device="cuda") * 0.02 + 0.01).half()
        full = torch.randn(n, k, device="cuda", dtype=torch.float16)
        c, c2 = (torch.full((m, n), math.nan, device="cuda", dtype=torch.float16) for _ in range(2))

        def cublas() -> Run:
            return lambda: (torch.mm(a, full.T, out=c2), None)[1]

        def bind(kernels: Sequence[Any], candidate: Candidate) -> Run:
            made: Any = candidate.programs[0]
            if candidate.label.startswith("packed"):
                groups = made.keywords.get("groups", 1)
                packed = programs_int4.pack_int4(w, groups, made.keywords["block_K"])
                return kernels[0].bind(a.view(m * groups, k // groups), packed, scale, c)
            if len(kernels) == 1:
                return kernels[0].bind(a, w, scale, c)
            p = torch.empty(shape_of(kernels[0], 3), device="cuda")
            return in_turn(kernels[0].bind(a, w, scale, p), kernels[1].bind(p, c))

        return Setup(
            bind,
            [c],
            lambda: [references_more.gemm_int4(a, w, scale)],
            {"cuBLAS": cublas},
        )

    label = f"M{m} {n}x{k}"
    return Case(f"gemm-int4-M{m}", label, candidates, prepare, 2 * m * n * k / 1e9, "TFLOP/s", 2e-3)
