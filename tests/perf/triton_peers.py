"""Peers in Triton: attention forward with online softmax, tuned over a few configurations.

Needs a GPU and triton.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


def _configs() -> list[Any]:
    return [
        triton.Config({"BM": bm, "BN": bn}, num_warps=warps, num_stages=stages)
        for bm, bn, warps in ((128, 64, 4), (128, 64, 8), (128, 128, 8), (64, 64, 4))
        for stages in (2, 3, 4)
    ]


@triton.autotune(configs=_configs(), key=["S_Q", "S_KV", "D", "CAUSAL"])
@triton.jit
def _attention(
    Q, K, V, O, scale, S_Q, S_KV, D: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1).to(tl.int64)
    dims = tl.arange(0, D)
    q = tl.load(Q + head * S_Q * D + rows[:, None] * D + dims[None, :], mask=rows[:, None] < S_Q, other=0.0)
    m = tl.full((BM,), -float("inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    stop = tl.minimum(S_KV, (tl.program_id(0) + 1) * BM + S_KV - S_Q) if CAUSAL else S_KV
    for start in range(0, stop, BN):
        columns = start + tl.arange(0, BN)
        k = tl.load(
            K + head * S_KV * D + columns[None, :] * D + dims[:, None],
            mask=columns[None, :] < S_KV,
            other=0.0,
        )
        s = tl.dot(q, k) * scale
        keep = columns[None, :] < S_KV
        if CAUSAL:
            keep = keep & (rows[:, None] + S_KV - S_Q >= columns[None, :])
        s = tl.where(keep, s, -float("inf"))
        fresh = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp2(m - fresh)
        p = tl.exp2(s - fresh[:, None])
        l = l * alpha + tl.sum(p, 1)
        v = tl.load(
            V + head * S_KV * D + columns[:, None] * D + dims[None, :],
            mask=columns[:, None] < S_KV,
            other=0.0,
        )
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = fresh
    tl.store(
        O + head * S_Q * D + rows[:, None] * D + dims[None, :],
        (acc / l[:, None]).to(O.dtype.element_ty),
        mask=rows[:, None] < S_Q,
    )


def attention(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, O: torch.Tensor, causal: bool) -> None:
    """O = softmax(Q K^T / sqrt(D)) V on contiguous (B, H, S, D) tensors with equal head counts."""
    batch, heads, s_q, d = Q.shape
    grid = lambda meta: (triton.cdiv(s_q, meta["BM"]), batch * heads)  # noqa: E731
    _attention[grid](Q, K, V, O, 1.4426950408889634 / d**0.5, s_q, K.shape[2], d, causal)
