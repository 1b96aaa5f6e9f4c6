"""Peers in Triton for products along a sequence: linear attention and Mamba-2's chunk_scan.

Tensors of any strides, sequences of any length. Needs a GPU and triton.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _linear_attention(
    Q, K, V, O, scale, S,
    stride_qb, stride_qs, stride_qh, stride_qd,
    stride_kb, stride_ks, stride_kh, stride_kd,
    stride_vb, stride_vs, stride_vh, stride_vd,
    stride_ob, stride_os, stride_oh, stride_od,
    D: tl.constexpr, CHUNK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    batch = tl.program_id(2).to(tl.int64)
    rows = tl.arange(0, CHUNK)
    dims = tl.arange(0, D)
    columns = tl.program_id(0) * BV + tl.arange(0, BV)
    q_ptrs = Q + batch * stride_qb + head * stride_qh + rows[:, None] * stride_qs + dims[None, :] * stride_qd
    k_ptrs = K + batch * stride_kb + head * stride_kh + rows[:, None] * stride_ks + dims[None, :] * stride_kd
    v_ptrs = (
        V + batch * stride_vb + head * stride_vh + rows[:, None] * stride_vs + columns[None, :] * stride_vd
    )
    o_ptrs = (
        O + batch * stride_ob + head * stride_oh + rows[:, None] * stride_os + columns[None, :] * stride_od
    )
    state = tl.zeros((D, BV), tl.float32)
    for start in range(0, S, CHUNK):
        inside = start + rows[:, None] < S
        q = tl.load(q_ptrs, mask=inside, other=0.0)
        k = tl.load(k_ptrs, mask=inside, other=0.0)
        v = tl.load(v_ptrs, mask=inside & (columns[None, :] < D), other=0.0)
        s = tl.dot(q, tl.trans(k))
        s = tl.where(rows[:, None] >= rows[None, :], s, 0.0)
        o = tl.dot(q, state.to(q.dtype))
        o = tl.dot(s.to(v.dtype), v, o) * scale
        state = tl.dot(tl.trans(k), v, state)
        tl.store(o_ptrs, o.to(O.dtype.element_ty), mask=inside & (columns[None, :] < D))
        q_ptrs += CHUNK * stride_qs
        k_ptrs += CHUNK * stride_ks
        v_ptrs += CHUNK * stride_vs
        o_ptrs += CHUNK * stride_os


def linear_attention(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, O: torch.Tensor) -> None:
    """O = tril(Q K^T / sqrt(dim)) V, all (batch, seq, heads, dim)."""
    batch, seq, heads, dim = Q.shape
    strides = *Q.stride(), *K.stride(), *V.stride(), *O.stride()
    grid = (triton.cdiv(dim, 64), heads, batch)
    _linear_attention[grid](Q, K, V, O, dim**-0.5, seq, *strides, dim, 64, 64, num_warps=4)


@triton.jit
def _chunk_scan(
    CB, X, DT, A, C, S, D, Y, CHUNKS, SIZE, RATIO,
    stride_cb_batch, stride_cb_chunk, stride_cb_group, stride_cb_m, stride_cb_k,
    stride_x_batch, stride_x_seq, stride_x_head, stride_x_dim,
    stride_dt_batch, stride_dt_head, stride_dt_chunk, stride_dt_size,
    stride_a_batch, stride_a_head, stride_a_chunk, stride_a_size,
    stride_c_batch, stride_c_seq, stride_c_group, stride_c_state,
    stride_s_batch, stride_s_chunk, stride_s_head, stride_s_dim, stride_s_state,
    stride_d_head,
    stride_y_batch, stride_y_seq, stride_y_head, stride_y_dim,
    DIM: tl.constexpr, STATE: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    head = tl.program_id(1)
    batch = (tl.program_id(2) // CHUNKS).to(tl.int64)
    chunk = tl.program_id(2) % CHUNKS
    group = head // RATIO
    rows = block * BM + tl.arange(0, BM)
    columns = tl.arange(0, BK)
    dims = tl.arange(0, DIM)
    states = tl.arange(0, STATE)
    CB += batch * stride_cb_batch + chunk * stride_cb_chunk + group * stride_cb_group
    X += batch * stride_x_batch + chunk * SIZE * stride_x_seq + head * stride_x_head
    DT += batch * stride_dt_batch + head * stride_dt_head + chunk * stride_dt_chunk
    A += batch * stride_a_batch + head * stride_a_head + chunk * stride_a_chunk
    C += batch * stride_c_batch + chunk * SIZE * stride_c_seq + group * stride_c_group
    S += batch * stride_s_batch + chunk * stride_s_chunk + head * stride_s_head
    Y += batch * stride_y_batch + chunk * SIZE * stride_y_seq + head * stride_y_head
    inside = rows < SIZE
    a_m = tl.load(A + rows * stride_a_size, mask=inside, other=0.0).to(tl.float32)
    c = tl.load(
        C + rows[:, None] * stride_c_seq + states[None, :] * stride_c_state, mask=inside[:, None], other=0.0
    )
    s = tl.load(S + dims[None, :] * stride_s_dim + states[:, None] * stride_s_state)
    acc = tl.dot(c, s) * tl.exp2(a_m * 1.4426950408889634)[:, None]
    cb_ptrs = CB + rows[:, None] * stride_cb_m + columns[None, :] * stride_cb_k
    x_ptrs = X + columns[:, None] * stride_x_seq + dims[None, :] * stride_x_dim
    a_ptrs = A + columns * stride_a_size
    dt_ptrs = DT + columns * stride_dt_size
    for k in range(0, tl.minimum((block + 1) * BM, SIZE), BK):
        left = columns < SIZE - k
        cb = tl.load(cb_ptrs, mask=inside[:, None] & left[None, :], other=0.0).to(tl.float32)
        x = tl.load(x_ptrs, mask=left[:, None], other=0.0)
        a_k = tl.load(a_ptrs, mask=left, other=0.0).to(tl.float32)
        dt = tl.load(dt_ptrs, mask=left, other=0.0).to(tl.float32)
        cb *= tl.exp2((a_m[:, None] - a_k[None, :]) * 1.4426950408889634) * dt[None, :]
        cb = tl.where(rows[:, None] >= k + columns[None, :], cb, 0.0)
        acc = tl.dot(cb.to(x.dtype), x, acc)
        cb_ptrs += BK * stride_cb_k
        x_ptrs += BK * stride_x_seq
        a_ptrs += BK * stride_a_size
        dt_ptrs += BK * stride_dt_size
    own_ptrs = X + rows[:, None] * stride_x_seq + dims[None, :] * stride_x_dim
    own = tl.load(own_ptrs, mask=inside[:, None], other=0.0).to(tl.float32)
    acc += own * tl.load(D + head * stride_d_head).to(tl.float32)
    y_ptrs = Y + rows[:, None] * stride_y_seq + dims[None, :] * stride_y_dim
    tl.store(y_ptrs, acc.to(Y.dtype.element_ty), mask=inside[:, None])


def chunk_scan(
    CB: torch.Tensor, X: torch.Tensor, dt: torch.Tensor, A: torch.Tensor, C: torch.Tensor, S: torch.Tensor,
    D: torch.Tensor, Y: torch.Tensor,
) -> None:  # fmt: skip
    """Y = exp(A) C S^T + (CB exp(A - A^T) dt, lower part) X + D X.

    CB: (batch, chunks, groups, chunk, chunk); X, Y: (batch, seq, heads, dim); dt, A: (batch, heads, chunks,
    chunk); C: (batch, seq, groups, state); S: (batch, chunks, heads, dim, state); D: (heads,).
    """
    batch, _, heads, dim = X.shape
    chunks, groups, size = CB.shape[1:4]
    strides = [n for tensor in (CB, X, dt, A, C, S, D, Y) for n in tensor.stride()]
    grid = (triton.cdiv(size, 64), heads, batch * chunks)
    _chunk_scan[grid](
        CB,
        X,
        dt,
        A,
        C,
        S,
        D,
        Y,
        chunks,
        size,
        heads // groups,
        *strides,
        dim,
        C.shape[3],
        64,
        64,
        num_warps=4,
    )
