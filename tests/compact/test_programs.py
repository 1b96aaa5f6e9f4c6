"""The short programs give what PyTorch gives, for tails, fewer heads and strided tensors, on every target."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.compact import programs
from tests.kernels.references_more import chunk_scan as reference_chunk_scan
from tests.kernels.references_more import linear_attention as reference_linear_attention
from tilebench import config

TARGETS = ["cpu", "emu:sm_90a", "emu:sm_80"]
Torch = torch.Tensor


def normal(*shape: int, seed: int = 0) -> Torch:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).half()


def close(got: Any, want: Torch) -> None:
    torch.testing.assert_close(got.float(), want.float(), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("target", TARGETS)
def test_gemm(target: str) -> None:
    a, b = normal(70, 50), normal(50, 90, seed=1)
    want = a.float() @ b.float()
    with config.using(target=target):
        close(programs.gemm(a, b, block_M=64, block_N=64, block_K=32), want)
        close(programs.gemm(a.T.contiguous().T, b.T.contiguous().T, block_M=64, block_N=64, block_K=32), want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("causal", [False, True])
def test_attention(target: str, causal: bool) -> None:
    q, k, v = normal(1, 4, 50, 32), normal(1, 2, 90, 32, seed=1), normal(1, 90, 2, 32, seed=2).transpose(1, 2)
    wide = [x.float() for x in (q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))]
    mask = torch.ones(50, 90).tril(40).bool() if causal else None
    want = torch.nn.functional.scaled_dot_product_attention(*wide, attn_mask=mask)
    with config.using(target=target):
        close(programs.attention(q, k, v, causal=causal, block_M=64, block_N=32), want)


@pytest.mark.parametrize("target", TARGETS)
def test_linear_attention(target: str) -> None:
    q, k, v = (normal(1, 100, 2, 64, seed=n) * 0.25 for n in range(3))
    want = reference_linear_attention(q, k, v)
    strided = v.transpose(1, 2).contiguous().transpose(1, 2)
    with config.using(target=target):
        close(programs.linear_attention(q, k, strided, chunk=32, block_V=32), want)


@pytest.mark.parametrize("target", TARGETS)
def test_chunk_scan(target: str) -> None:
    batch, seq, heads, dim, chunk, groups, state = 1, 128, 2, 32, 64, 1, 16
    chunks = seq // chunk
    values = [
        normal(batch, chunks, groups, chunk, chunk) * 0.1,
        normal(batch, seq, heads, dim, seed=1),
        normal(batch, heads, chunks, chunk, seed=2).abs() * 0.1,
        -normal(batch, heads, chunks, chunk, seed=3).abs().float().cumsum(-1).mul(0.05).half(),
        normal(batch, seq, groups, state, seed=4) * 0.3,
        normal(batch, chunks, heads, dim, state, seed=5) * 0.3,
        normal(heads, seed=6),
    ]
    want = reference_chunk_scan(*values)
    with config.using(target=target):
        close(programs.chunk_scan(*values, block_M=32, block_K=32), want)
