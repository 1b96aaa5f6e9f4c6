"""Peers in Triton: GEMM, attention forward with online softmax, each tuned over a few configurations.

Needs a GPU and triton.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


def _gemm_configs() -> list[Any]:
    return [
        triton.Config({"BM": bm, "BN": bn, "BK": bk, "GROUP": 8}, num_warps=warps, num_stages=stages)
        for bm, bn, bk, warps, stages in (
            (128, 256, 64, 8, 3),
            (128, 256, 64, 8, 4),
            (128, 128, 64, 8, 4),
            (128, 128, 64, 4, 4),
            (64, 128, 128, 4, 4),
        )
    ]


@triton.autotune(configs=_gemm_configs(), key=["M", "N", "K", "stride_bk"])
@triton.jit
def _gemm(
    A, B, C, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0)
    high, wide = tl.cdiv(M, BM), tl.cdiv(N, BN)
    panel = number // (GROUP * wide)
    rows_here = tl.minimum(high - panel * GROUP, GROUP)
    rest = number % (GROUP * wide)
    row = panel * GROUP + rest % rows_here
    column = rest // rows_here
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    a = A + (rows % M)[:, None] * stride_am + depth[None, :] * stride_ak
    b = B + depth[:, None] * stride_bk + (columns % N)[None, :] * stride_bn
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a, mask=depth[None, :] < K - k, other=0.0)
        right = tl.load(b, mask=depth[:, None] < K - k, other=0.0)
        acc = tl.dot(left, right, acc)
        a += BK * stride_ak
        b += BK * stride_bk
    tl.store(
        C + rows[:, None] * N + columns[None, :],
        acc.to(C.dtype.element_ty),
        mask=(rows[:, None] < M) & (columns[None, :] < N),
    )


def gemm(A: torch.Tensor, B: torch.Tensor, C: torch.Tensor) -> None:
    """C = A @ B; A (M, K) and B (K, N) of any strides, C contiguous."""
    (m, k), n = A.shape, B.shape[1]
    grid = lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)  # noqa: E731
    _gemm[grid](A, B, C, m, n, k, *A.stride(), *B.stride())


def _configs() -> list[Any]:
    return [
        triton.Config({"BM": bm, "BN": bn}, num_warps=warps, num_stages=stages)
        for bm, bn, warps, stages in (
            (128, 128, 8, 2),
            (128, 128, 8, 3),
            (128, 64, 8, 3),
            (128, 64, 4, 3),
            (64, 64, 4, 3),
        )
    ]


@triton.autotune(configs=_configs(), key=["S_Q", "S_KV", "D", "CAUSAL"])
@triton.jit
def _attention(
    Q, K, V, O, scale, S_Q, S_KV, RATIO,
    D: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    if CAUSAL:
        block = tl.num_programs(0) - 1 - block
    rows = block * BM + tl.arange(0, BM)
    head = tl.program_id(1).to(tl.int64)
    kv_head = head // RATIO
    dims = tl.arange(0, D)
    q = tl.load(Q + head * S_Q * D + rows[:, None] * D + dims[None, :], mask=rows[:, None] < S_Q, other=0.0)
    m = tl.full((BM,), -float("inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    past = S_KV - S_Q
    whole = S_KV // BN * BN
    if CAUSAL:
        whole = tl.minimum(whole, (block * BM + past) // BN * BN)
    stop = tl.minimum(S_KV, (block + 1) * BM + past) if CAUSAL else S_KV
    for start in range(0, whole, BN):
        columns = start + tl.arange(0, BN)
        k = tl.load(K + kv_head * S_KV * D + columns[None, :] * D + dims[:, None])
        s = tl.dot(q, k) * scale
        fresh = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp2(m - fresh)
        p = tl.exp2(s - fresh[:, None])
        l = l * alpha + tl.sum(p, 1)
        v = tl.load(V + kv_head * S_KV * D + columns[:, None] * D + dims[None, :])
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = fresh
    for start in range(whole, stop, BN):
        columns = start + tl.arange(0, BN)
        k = tl.load(
            K + kv_head * S_KV * D + columns[None, :] * D + dims[:, None],
            mask=columns[None, :] < S_KV,
            other=0.0,
        )
        s = tl.dot(q, k) * scale
        keep = columns[None, :] < S_KV
        if CAUSAL:
            keep = keep & (rows[:, None] + past >= columns[None, :])
        s = tl.where(keep, s, -float("inf"))
        fresh = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp2(m - fresh)
        p = tl.exp2(s - fresh[:, None])
        l = l * alpha + tl.sum(p, 1)
        v = tl.load(
            V + kv_head * S_KV * D + columns[:, None] * D + dims[None, :],
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
    """O = softmax(Q K^T / sqrt(D)) V on contiguous (B, H, S, D) tensors; K and V may have fewer heads."""
    batch, heads, s_q, d = Q.shape
    ratio = heads // K.shape[1]
    grid = lambda meta: (triton.cdiv(s_q, meta["BM"]), batch * heads)  # noqa: E731
    _attention[grid](Q, K, V, O, 1.4426950408889634 / d**0.5, s_q, K.shape[2], ratio, d, causal)


@triton.jit
def _five(A, B, C, D, E, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = at < n
    total = tl.load(A + at, mask=keep) + tl.load(B + at, mask=keep)
    total += tl.load(C + at, mask=keep) + tl.load(D + at, mask=keep)
    tl.store(E + at, total, mask=keep)


def five(A: torch.Tensor, B: torch.Tensor, C: torch.Tensor, D: torch.Tensor, E: torch.Tensor) -> None:
    """E = A + B + C + D of 1024 elements: a launch with five tensors."""
    _five[(1,)](A, B, C, D, E, A.numel(), 1024)
