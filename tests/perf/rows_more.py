"""The rows whose programs stand in programs_gemm, _int4, _attention, _scan and _mamba."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.kernels import (
    programs,
    programs_attention,
    programs_gemm,
    programs_int4,
    programs_mamba,
    programs_scan,
)
from tests.perf.cases import (
    REFERENCE,
    Candidate,
    Case,
    Run,
    Setup,
    both,
    one,
    same_arguments,
)  # fmt: skip

LENGTHS = (4096, 3000, 2500, 2048, 1700, 1300, 1000, 740)
"""Eight ragged sequences, 16384 rows in all."""


def in_turn(*runs: Run) -> Run:
    """One launch after the other."""

    def run() -> Any:
        for launch in runs:
            launch()

    return run


def shape_of(kernel: Any, position: int) -> tuple[int, ...]:
    """The shape of a kernel's parameter."""
    return kernel.params[position].value.static_shape


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
    make = partial(
        programs.gemm, m, n, k, "float8_e4m3", "bfloat16", transpose_B=True, block_K=128, threads=256
    )
    candidates = tuple(
        one(
            f"128x{bn}x128 s{stages} p{panel}{' one block a tile' if configs else ''}",
            partial(make, block_N=bn, num_stages=stages, panel=panel),
            **configs,
        )
        for bn, stages, panel, configs in (
            (256, 4, 16, {}),
            (256, 4, 8, {}),
            (192, 4, 16, {}),
            (192, 4, 8, {}),
            (192, 5, 16, {}),
            (224, 4, 16, {}),
            (192, 4, 32, {}),
            (256, 4, 4, {}),
            (128, 5, 16, {}),
            (256, 4, 16, {"TB_PERSISTENT": False}),
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


def varlen_case(causal: bool, heads: int = 16, kv_heads: int = 16, dim: int = 128) -> Case:
    """Eight ragged sequences."""
    total, longest = sum(LENGTHS), max(LENGTHS)
    make = partial(
        programs_attention.attention_varlen,
        len(LENGTHS), total, longest, heads, kv_heads, dim, causal, "bfloat16",
    )  # fmt: skip
    candidates = both(
        [
            one(f"{bm}x{bn} t{threads}", partial(make, block_M=bm, block_N=bn, threads=threads))
            for bm, bn, threads in ((128, 128, 256), (64, 128, 128), (128, 160, 256))
        ]
    )

    def prepare(folder: Path | None) -> Setup:
        import torch

        from tests.kernels import references_more

        del folder
        q = torch.randn(total, heads, dim, device="cuda", dtype=torch.bfloat16)
        k, v = (torch.randn(total, kv_heads, dim, device="cuda", dtype=q.dtype) for _ in range(2))
        ends = [sum(LENGTHS[:i]) for i in range(len(LENGTHS) + 1)]
        cu = torch.tensor(ends, device="cuda", dtype=torch.int32)
        o = torch.full_like(q, math.nan)

        def flash() -> Run:
            forward = torch.ops.aten._flash_attention_forward
            return lambda: forward(q, k, v, cu, cu, longest, longest, 0.0, causal, False)[0]

        def cudnn() -> Run:
            forward = torch.ops.aten._cudnn_attention_forward
            return lambda: forward(q, k, v, None, cu, cu, longest, longest, False, 0.0, causal, False)[0]

        return Setup(
            same_arguments(q, k, v, cu, o),
            [o],
            lambda: [references_more.attention_varlen(q, k, v, cu, causal)],
            {"FA2": flash, "cuDNN": cudnn},
        )

    flops = 4 * heads * dim * sum(n * n for n in LENGTHS) / (2 if causal else 1)
    label = f"bfloat16 8 sequences, {total} rows, H{heads} D{dim}{' causal' if causal else ''}"
    return Case("varlen", label, candidates, prepare, flops / 1e9, "TFLOP/s", 1e-2)


def decode_case(batch: int = 16, heads: int = 32, kv_heads: int = 8, seq: int = 8192, dim: int = 128) -> Case:
    """Grouped queries, one row a head, against a cache."""
    candidates = tuple(
        Candidate(
            f"{parts} parts, 64x{bn} s{stages}",
            (
                partial(
                    programs_attention.decode_parts,
                    batch, heads, kv_heads, seq, dim, parts, block_N=bn, num_stages=stages,
                ),
                partial(programs_attention.join_parts, batch, heads, parts, dim),
            ),
        )
        for parts, bn, stages in ((4, 64, 3), (8, 64, 3), (2, 64, 3), (1, 64, 6), (8, 64, 2), (16, 64, 3))
    )  # fmt: skip
    candidates = both(candidates)

    def prepare(folder: Path | None) -> Setup:
        import torch

        from tests.kernels import references_more
        from tests.perf import peers
        from tests.perf.racing import quick

        del folder
        q = torch.randn(batch, heads, dim, device="cuda", dtype=torch.float16)
        k, v = (torch.randn(batch, kv_heads, seq, dim, device="cuda", dtype=torch.float16) for _ in range(2))
        o = torch.full_like(q, math.nan)

        def bind(kernels: Sequence[Any], candidate: Candidate) -> Run:
            p, l = (torch.empty(shape_of(kernels[0], i), device="cuda") for i in (3, 4))
            return in_turn(kernels[0].bind(q, k, v, p, l), kernels[1].bind(p, l, o))

        def tilelang() -> Run:
            example = peers.tilelang_example("flash_decoding/example_gqa_decode.py")
            rows = [t.transpose(1, 2).contiguous() for t in (k, v)]
            every = torch.ones(batch, seq, kv_heads, device="cuda", dtype=torch.uint8)
            config, _ = example.get_heuristic_config()
            splits = {
                n: partial(
                    example.flashattn(batch, heads, kv_heads, seq, dim, **{**config, "num_split": n}),
                    q, *rows, every,
                )
                for n in (1, 2, 4, 8)
            }  # fmt: skip
            rough = quick(splits)
            return splits[min(rough, key=lambda n: rough[n])]

        row = q[:, :, None]
        return Setup(
            bind,
            [o],
            lambda: [references_more.decode(q, k, v)],
            {
                "FA2": partial(peers.sdpa, row, k, v, False, "FLASH_ATTENTION"),
                "cuDNN": partial(peers.sdpa, row, k, v, False, "CUDNN_ATTENTION"),
                "TileLang": tilelang,
            },
        )

    moved = 2 * batch * kv_heads * seq * dim * 2 / 1e9
    label = f"GQA B{batch} {heads}q/{kv_heads}kv S{seq} D{dim}"
    return Case("decode", label, candidates, prepare, moved, "TB/s", 5e-3)


def mla_case(batch: int = 66, heads: int = 128, seq: int = 8192) -> Case:
    """Latent attention, one row a head."""
    candidates = tuple(
        one(
            f"{h}x{n} s{stages} t{threads}",
            partial(
                programs_attention.mla_decode,
                batch, heads, seq, block_H=h, block_N=n, num_stages=stages, threads=threads,
            ),
        )
        for h, n, stages, threads in ((64, 64, 2, 256), (64, 32, 2, 256), (64, 32, 3, 256))
    )  # fmt: skip

    def prepare(folder: Path | None) -> Setup:
        import torch

        from tests.kernels import references_more
        from tests.perf import peers

        del folder
        q, r, c, e = (
            torch.randn(*shape, device="cuda", dtype=torch.float16)
            for shape in ((batch, heads, 512), (batch, heads, 64), (batch, seq, 512), (batch, seq, 64))
        )
        o = torch.full_like(q, math.nan)
        whole, keys = torch.cat([q, r], -1)[:, None], torch.cat([c, e], -1)[:, None]

        def tilelang() -> Run:
            example = peers.tilelang_example("deepseek_mla/example_mla_decode.py")
            kernel = example.flashattn(batch, heads, 1, seq, 512, 64, 64, 64, 1, 576**-0.5)
            return partial(kernel, q, r, c[:, :, None], e[:, :, None])

        def matmul() -> Run:
            def run() -> Any:
                s = torch.matmul(whole, keys.mT) * 576**-0.5
                return torch.matmul(s.softmax(-1), c[:, None])[:, 0]

            return run

        return Setup(
            same_arguments(q, r, c, e, o),
            [o],
            lambda: [references_more.mla_decode(q, r, c, e)],
            {"PyTorch": matmul, "TileLang": tilelang},
        )

    flops = 2 * batch * heads * seq * (576 + 512) / 1e9
    return Case("decode-mla", f"B{batch} H{heads} 512+64 S{seq}", candidates, prepare, flops, "TFLOP/s", 5e-3)


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
            for block_H in (8, 16, 20)
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
            w = torch.empty(batch, heads, chunks, chunk // 2, **kind)

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


def backward_case(causal: bool, batch: int = 4, heads: int = 16, seq: int = 4096, dim: int = 128) -> Case:
    """Gradients of attention."""
    shape = (batch, heads, seq, dim)
    launches = (
        partial(programs_attention.backward_sums, *shape),
        partial(programs_attention.attention_backward, *shape, causal),
        partial(programs_attention.backward_scaled, *shape),
    )
    candidates = both((Candidate("128x64 s2 t256", launches),))

    def prepare(folder: Path | None) -> Setup:
        import torch
        import torch.nn.functional as F

        from tests.kernels import references_more
        from tests.perf import peers

        del folder
        q, k, v, g = (torch.randn(*shape, device="cuda", dtype=torch.float16) for _ in range(4))
        o = peers.attention_reference(q, k, v, causal)
        logs = torch.empty(batch, heads, seq, device="cuda")
        mask = torch.ones(seq, seq, dtype=torch.bool, device="cuda").triu(1)
        for b in range(batch):
            for h in range(heads):
                s = q[b, h].float() @ k[b, h].float().T / dim**0.5
                logs[b, h] = (s.masked_fill(mask, -math.inf) if causal else s).logsumexp(-1) / math.log(2)
        sums, z = torch.empty_like(logs), torch.empty(*shape, device="cuda")
        dq, dk, dv = (torch.full_like(q, math.nan) for _ in range(3))

        def bind(kernels: Sequence[Any], candidate: Candidate) -> Run:
            return in_turn(
                kernels[0].bind(o, g, sums, z),
                kernels[1].bind(q, k, v, g, logs, sums, z, dk, dv),
                kernels[2].bind(z, dq),
            )

        def torch_backward(backend: str) -> Run:
            from torch.nn.attention import SDPBackend, sdpa_kernel

            inputs = [t.detach().requires_grad_() for t in (q, k, v)]
            with sdpa_kernel(getattr(SDPBackend, backend)):
                out = F.scaled_dot_product_attention(*inputs, is_causal=causal)
            return lambda: torch.autograd.grad(out, inputs, g, retain_graph=True)[0]

        return Setup(
            bind,
            [dq, dk, dv],
            lambda: references_more.attention_gradients(q, k, v, g, causal),
            {
                "cuDNN": partial(torch_backward, "CUDNN_ATTENTION"),
                "FA2": partial(torch_backward, "FLASH_ATTENTION"),
            },
        )

    flops = 10 * batch * heads * seq * seq * dim / (2 if causal else 1) / 1e9
    label = f"float16 B{batch} H{heads} S{seq} D{dim}{' causal' if causal else ''}"
    return Case("attention-backward", label, candidates, prepare, flops, "TFLOP/s", 1e-2)


def cases() -> dict[str, list[Case]]:
    """Rows by name."""
    return {
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
