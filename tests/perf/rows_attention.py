"""Attention beyond the forward pass of full tiles: ragged, decoding, latent, backward."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.kernels import (
    programs_attention,
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
    shape_of,
)  # fmt: skip

LENGTHS = (4096, 3000, 2500, 2048, 1700, 1300, 1000, 740)
"""Eight ragged sequences, 16384 rows in all."""


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


UNIFORM: Mapping[str, Any] = {"TB_UNIFORM_WARPGROUP": True}


def mla_case(batch: int = 66, heads: int = 128, seq: int = 8192) -> Case:
    """Latent attention, one row a head; held: columns of Q in registers."""
    candidates = tuple(
        one(
            f"{h}x{n} s{stages} t{threads}, {held} held{', uniform' if configs else ''}",
            partial(
                programs_attention.mla_decode,
                batch, heads, seq, block_H=h, block_N=n, num_stages=stages, threads=threads, held=held,
            ),
            **configs,
        )
        for h, n, stages, threads, held, configs in (
            (64, 64, 2, 256, 192, UNIFORM), (64, 64, 2, 256, 192, {}), (64, 64, 2, 256, 128, UNIFORM),
        )
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
        sums = torch.empty_like(logs)
        z = torch.empty(programs_attention.query_gradient_shape(*shape), device="cuda")
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
