"""Linear attention and the scans of Mamba-2."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.kernels import (
    programs_mamba,
    programs_scan,
)
from tests.perf.cases import (
    Candidate,
    Case,
    Run,
    Setup,
    both,
    in_turn,
    one,
    same_arguments,
)  # fmt: skip

TWO_BLOCKS: Mapping[str, Any] = {"TB_BLOCKS_PER_SM": 2}


def two_blocks(c: Candidate) -> Candidate:
    """It with two blocks an SM."""
    return Candidate(f"{c.label}, 2 blocks an SM", c.programs, {**c.configs, **TWO_BLOCKS})


def linear_case(batch: int = 8, seq: int = 4096, heads: int = 16, dim: int = 128) -> Case:
    """Linear attention forward."""
    candidates = tuple(
        one(
            f"chunk {chunk} V{block_V} s{stages} t{threads}",
            partial(
                programs_scan.linear_attention,
                batch, seq, heads, dim, chunk=chunk, block_V=block_V, num_stages=stages, threads=threads,
            ),
        )
        for chunk, block_V, stages, threads in (
            (64, 64, 2, 128),
            (64, 128, 2, 128),
            (128, 128, 2, 256),
            (64, 32, 2, 128),
            (64, 64, 3, 128),
        )
    )  # fmt: skip
    candidates = (two_blocks(candidates[0]), *candidates)

    def prepare(folder: Path | None) -> Setup:
        import torch

        from tests.kernels import references_more
        from tests.perf import peers

        del folder
        q, k, v = (torch.randn(batch, seq, heads, dim, device="cuda", dtype=torch.float16) for _ in range(3))
        k = k / dim**0.5
        o = torch.full_like(q, math.nan)

        def fla() -> Run:
            attend = peers.module("fla.ops.linear_attn").chunk_linear_attn
            return lambda: attend(q, k, v, normalize=False)[0]

        def triton() -> Run:
            peers.module("triton")
            from tests.perf import triton_scan_peers

            out = torch.empty_like(o)
            return lambda: (triton_scan_peers.linear_attention(q, k, v, out), out)[1]

        return Setup(
            same_arguments(q, k, v, o),
            [o],
            lambda: [references_more.linear_attention(q, k, v)],
            {"fla": fla, "Triton": triton},
        )

    moved = 4 * batch * seq * heads * dim * 2 / 1e9
    given = {"given fla": 0.371, "given TileLang": 0.445}
    label = f"B{batch} S{seq} H{heads} D{dim} float16"
    return Case("linear-attention", label, candidates, prepare, moved, "TB/s", 5e-3, given)


def mamba_case(which: str, batch: int = 8, seq: int = 4096, heads: int = 80) -> Case:
    """One of Mamba-2's two heavy steps; chunk 256, 64 channels a head, 128 states."""
    chunk, dim, state, chunks = 256, 64, 128, seq // 256
    if which == "chunk-scan":
        candidates = tuple(
            one(
                f"{bm}x{bk} s{stages} t{threads}",
                partial(
                    programs_scan.chunk_scan,
                    batch, seq, heads, block_M=bm, block_K=bk, num_stages=stages, threads=threads,
                ),
            )
            for bm, bk, stages, threads in (
                (64, 64, 2, 128),
                (64, 64, 4, 128),
                (128, 64, 2, 256),
                (128, 64, 4, 256),
                (128, 128, 2, 256),
                (256, 64, 2, 256),
            )
        )  # fmt: skip
    else:
        candidates = tuple(
            one(
                f"64x{bn}x{bk} s{stages} t{threads}",
                partial(
                    programs_scan.chunk_state,
                    batch, seq, heads, block_N=bn, block_K=bk, num_stages=stages, threads=threads,
                ),
            )
            for bn, bk, stages, threads in (
                (128, 64, 3, 128),
                (128, 64, 4, 256),
                (64, 64, 2, 128),
                (64, 64, 4, 128),
                (128, 128, 2, 256),
            )
        )  # fmt: skip
    if which == "chunk-scan":
        shared = tuple(
            one(
                f"128x64 s2 t256, {block_H} heads",
                partial(programs_scan.chunk_scan_heads, batch, seq, heads, block_H=block_H),
            )
            for block_H in (8, 10)
        )
        split = tuple(
            Candidate(
                f"decay in factors, {block_H} heads",
                (
                    partial(programs_mamba.chunk_scan_weights, batch, seq, heads),
                    partial(programs_mamba.chunk_scan_split, batch, seq, heads, block_H=block_H),
                ),
            )
            for block_H in (16, 40)
        )
        candidates = (*both(split), *shared, candidates[2])
    else:
        two = [two_blocks(c) for c in (candidates[0], candidates[2])]
        candidates = (*both(two), *both((candidates[0], candidates[2])))

    def prepare(folder: Path | None) -> Setup:
        import torch

        from tests.kernels import references_more
        from tests.perf import peers

        del folder
        kind = {"device": "cuda", "dtype": torch.float16}
        cb = torch.randn(batch, chunks, 1, chunk, chunk, **kind)
        x = torch.randn(batch, seq, heads, dim, **kind)
        dt = torch.rand(batch, heads, chunks, chunk, device="cuda")
        a = -(torch.rand(batch, heads, chunks, chunk, device="cuda") * 0.05).cumsum(-1)
        dt, a = dt.half(), a.half()
        c = torch.randn(batch, seq, 1, state, **kind)
        s = torch.randn(batch, chunks, heads, dim, state, **kind)
        d = torch.randn(heads, **kind)
        out = torch.full_like(x if which == "chunk-scan" else s, math.nan)

        def tilelang() -> Run:
            example = peers.tilelang_example(f"linear_attention/example_mamba_{which.replace('-', '_')}.py")
            tiles = {"block_M": 64, "block_K": 64, "threads": 128}
            if which == "chunk-scan":
                tiles |= {"block_N": 64, "block_Dstate": 128, "num_stages": 2}
                return partial(example.chunk_scan_fwd, cb, x, dt, a, c, s, d, **tiles)
            return partial(example.chunk_state_fwd, c, x, dt, a, block_N=128, num_stages=4, **tiles)

        def triton() -> Run:
            peers.module("triton")
            from tests.perf import triton_scan_peers

            y = torch.empty_like(x)
            return lambda: (triton_scan_peers.chunk_scan(cb, x, dt, a, c, s, d, y), y)[1]

        if which == "chunk-scan":
            u = torch.empty(batch, heads, chunks, chunk, device="cuda")
            w = torch.empty(batch, heads, chunks, chunk, **kind)

            def bind(kernels: Sequence[Any], candidate: Candidate) -> Run:
                del candidate
                if len(kernels) == 1:
                    return kernels[0].bind(cb, x, dt, a, c, s, d, out)
                return in_turn(kernels[0].bind(dt, a, u, w), kernels[1].bind(cb, x, u, w, a, c, s, d, out))

            return Setup(
                bind,
                [out],
                lambda: [references_more.chunk_scan(cb, x, dt, a, c, s, d)],
                {"Triton": triton, "TileLang": tilelang},
            )
        return Setup(
            same_arguments(c, x, dt, a, out),
            [out],
            lambda: [references_more.chunk_state(c, x, dt, a)],
            {"TileLang": tilelang},
        )

    x_bytes, s_bytes = batch * seq * heads * dim * 2, batch * chunks * heads * dim * state * 2
    moved = (2 if which == "chunk-scan" else 1) * x_bytes + s_bytes
    given = {"given TileLang": 0.688 if which == "chunk-scan" else 0.332}
    label = f"B{batch} H{heads} S{seq} chunk {chunk} D{dim} N{state}"
    return Case(f"mamba2-{which}", label, candidates, prepare, moved / 1e9, "TB/s", 5e-3, given)
