"""Four operators as one writes them to be short: tensors of any strides and sizes, tails clipped."""

from __future__ import annotations

from typing import Any

import tilebench
import tilebench.language as T

LOG2E = 1.44269504


@tilebench.jit
def gemm(A: Any, B: Any, block_M: int = 128, block_N: int = 128, block_K: int = 64) -> Any:
    """A @ B."""
    M, K = A.shape
    N = B.shape[1]
    C = T.empty((M, N), A.dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_s = T.alloc_shared((block_M, block_K), A.dtype)
        B_s = T.alloc_shared((block_K, block_N), B.dtype)
        acc = T.alloc_fragment((block_M, block_N), T.float32)
        T.use_swizzle(8)
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_s)
            T.copy(B[k * block_K, bx * block_N], B_s)
            T.gemm(A_s, B_s, acc)
        T.copy(acc, C[by * block_M, bx * block_N])
    return C


@tilebench.jit
def attention(Q: Any, K: Any, V: Any, causal: bool = False, block_M: int = 128, block_N: int = 64) -> Any:
    """softmax(Q K^T / sqrt(dim)) V, (batch, heads, seq, dim); K and V may have fewer heads."""
    batch, heads, seq, dim = Q.shape
    groups, length = K.shape[1:3]
    scale = LOG2E / dim**0.5
    O = T.empty((batch, heads, seq, dim), Q.dtype)
    with T.Kernel(T.ceildiv(seq, block_M), heads, batch, threads=128) as (bx, h, b):
        Q_s = T.alloc_shared((block_M, dim), Q.dtype)
        K_s, V_s = (T.alloc_shared((block_N, dim), Q.dtype) for _ in range(2))
        s, o = (T.alloc_fragment((block_M, n), T.float32) for n in (block_N, dim))
        p = T.alloc_fragment((block_M, block_N), Q.dtype)
        m, old, row, l = (T.alloc_fragment((block_M,), T.float32) for _ in range(4))
        T.copy(Q[b, h, bx * block_M : (bx + 1) * block_M, :], Q_s)
        T.clear(o)
        T.clear(l)
        T.fill(m, -T.infinity(T.float32))
        end = bx * block_M + 1 + length - seq if causal else length
        for k in T.Pipelined(T.ceildiv(T.min(length, end + block_M - 1), block_N), num_stages=2):
            T.copy(K[b, h // (heads // groups), k * block_N : (k + 1) * block_N, :], K_s)
            T.copy(V[b, h // (heads // groups), k * block_N : (k + 1) * block_N, :], V_s)
            for i, j in T.Parallel(block_M, block_N):
                s[i, j] = T.if_then_else(k * block_N + j < T.min(length, end + i), 0, -T.infinity(s.dtype))
            T.gemm(Q_s, K_s, s, transpose_B=True)
            T.copy(m, old)
            T.reduce_max(s, m, dim=1, clear=False)
            for i, j in T.Parallel(block_M, block_N):
                s[i, j] = p[i, j] = T.exp2((s[i, j] - m[i]) * scale)
            T.reduce_sum(s, row, dim=1)
            for i in T.Parallel(block_M):
                old[i] = T.exp2((old[i] - m[i]) * scale)
                l[i] = l[i] * old[i] + row[i]
            for i, j in T.Parallel(block_M, dim):
                o[i, j] = o[i, j] * old[i]
            T.gemm(p, V_s, o)
        for i, j in T.Parallel(block_M, dim):
            o[i, j] = o[i, j] / l[i]
        T.copy(o, O[b, h, bx * block_M : (bx + 1) * block_M, :])
    return O


@tilebench.jit
def linear_attention(Q: Any, K: Any, V: Any, chunk: int = 64, block_V: int = 64) -> Any:
    """tril(Q K^T / sqrt(dim)) V, (batch, seq, heads, dim): the state K^T V goes from chunk to chunk."""
    batch, seq, heads, dim = Q.shape
    O = T.empty((batch, seq, heads, dim), Q.dtype)
    with T.Kernel(T.ceildiv(dim, block_V), heads, batch, threads=128) as (bx, h, b):
        Q_s, K_s = (T.alloc_shared((chunk, dim), Q.dtype) for _ in range(2))
        V_s, state_s = (T.alloc_shared((n, block_V), Q.dtype) for n in (chunk, dim))
        s = T.alloc_fragment((chunk, chunk), T.float32)
        p = T.alloc_fragment((chunk, chunk), Q.dtype)
        o, state = (T.alloc_fragment((n, block_V), T.float32) for n in (chunk, dim))
        T.clear(state)
        for t in T.Pipelined(T.ceildiv(seq, chunk), num_stages=2):
            T.copy(Q[b, t * chunk : (t + 1) * chunk, h, :], Q_s)
            T.copy(K[b, t * chunk : (t + 1) * chunk, h, :], K_s)
            T.copy(V[b, t * chunk : (t + 1) * chunk, h, bx * block_V : (bx + 1) * block_V], V_s)
            for i, j in T.Parallel(dim, block_V):
                state_s[i, j] = state[i, j] * dim**-0.5
            T.gemm(Q_s, K_s, s, transpose_B=True, clear_accum=True)
            T.gemm(Q_s, state_s, o, clear_accum=True)
            for i, j in T.Parallel(chunk, chunk):
                p[i, j] = T.if_then_else(i >= j, s[i, j], 0) * dim**-0.5
            T.gemm(p, V_s, o)
            T.gemm(K_s, V_s, state, transpose_A=True)
            T.copy(o, O[b, t * chunk : (t + 1) * chunk, h, bx * block_V : (bx + 1) * block_V])
    return O


@tilebench.jit
def chunk_scan(
    CB: Any, X: Any, dt: Any, A: Any, C: Any, S: Any, D: Any, block_M: int = 64, block_K: int = 64
) -> Any:
    """Mamba-2's chunk_scan: exp(A) C S^T + (CB exp(A - A^T) dt, lower part) X + D X.

    CB: (batch, chunks, groups, chunk, chunk); X: (batch, seq, heads, dim); dt, A: (batch, heads, chunks,
    chunk); C: (batch, seq, groups, state); S: (batch, chunks, heads, dim, state); D: (heads,).
    """
    batch, seq, heads, dim = X.shape
    chunks, groups, chunk = CB.shape[1:4]
    Y = T.empty((batch, seq, heads, dim), X.dtype)
    with T.Kernel(T.ceildiv(chunk, block_M), heads, batch * chunks, threads=128) as (bx, h, bc):
        C_s = T.alloc_shared((block_M, C.shape[3]), X.dtype)
        S_s = T.alloc_shared((dim, C.shape[3]), X.dtype)
        CB_s = T.alloc_shared((block_M, block_K), X.dtype)
        X_s = T.alloc_shared((block_K, dim), X.dtype)
        p = T.alloc_fragment((block_M, block_K), X.dtype)
        acc, own = (T.alloc_fragment((block_M, dim), T.float32) for _ in range(2))
        a_m = T.alloc_fragment((block_M,), T.float32)
        a_k, dt_k = (T.alloc_fragment((block_K,), T.float32) for _ in range(2))
        b, c, g, row = bc // chunks, bc % chunks, h // (heads // groups), bx * block_M
        T.copy(C[b, c * chunk + row : c * chunk + row + block_M, g, :], C_s)
        T.copy(S[b, c, h, :, :], S_s)
        T.copy(A[b, h, c, row : row + block_M], a_m)
        T.gemm(C_s, S_s, acc, transpose_B=True, clear_accum=True)
        T.copy(X[b, c * chunk + row : c * chunk + row + block_M, h, :], own)
        for i, j in T.Parallel(block_M, dim):
            acc[i, j] = acc[i, j] * T.exp2(a_m[i] * LOG2E) + own[i, j] * D[h]
        for k in T.Pipelined(T.ceildiv(row + block_M, block_K), num_stages=2):
            T.copy(CB[b, c, g, row : row + block_M, k * block_K : (k + 1) * block_K], CB_s)
            T.copy(X[b, c * chunk + k * block_K : c * chunk + (k + 1) * block_K, h, :], X_s)
            T.copy(A[b, h, c, k * block_K : (k + 1) * block_K], a_k)
            T.copy(dt[b, h, c, k * block_K : (k + 1) * block_K], dt_k)
            for i, j in T.Parallel(block_M, block_K):
                weight = CB_s[i, j] * T.exp2((a_m[i] - a_k[j]) * LOG2E) * dt_k[j]
                p[i, j] = T.if_then_else(row + i >= k * block_K + j, weight, 0)
            T.gemm(p, X_s, acc)
        T.copy(acc, Y[b, c * chunk + row : c * chunk + row + block_M, h, :])
    return Y
