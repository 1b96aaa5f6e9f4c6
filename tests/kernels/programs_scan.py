"""Linear attention and the two heavy steps of Mamba-2: products along a sequence, chunk by chunk."""

from __future__ import annotations

from typing import Any

import tilebench.language as T

LOG2E = 1.44269504


def linear_attention(
    batch: int,
    seq: int,
    heads: int,
    dim: int,
    dtype: str = "float16",
    chunk: int = 64,
    block_V: int = 128,
    num_stages: int = 2,
    threads: int = 128,
) -> Any:
    """O = tril(Q K^T / sqrt(dim)) V, (batch, seq, heads, dim), in one pass.

    A block goes along a sequence. What earlier chunks leave behind is K^T V, kept in registers; a chunk's own
    part is a small masked product.
    """
    scale = (1.0 / dim) ** 0.5

    @T.prim_func
    def linear_attention_kernel(
        Q: T.Tensor((batch, seq, heads, dim), dtype),
        K: T.Tensor((batch, seq, heads, dim), dtype),
        V: T.Tensor((batch, seq, heads, dim), dtype),
        O: T.Tensor((batch, seq, heads, dim), dtype),
    ):
        with T.Kernel(dim // block_V, heads, batch, threads=threads) as (bx, by, bz):
            Q_s = T.alloc_shared((chunk, dim), dtype)
            K_s = T.alloc_shared((chunk, dim), dtype)
            V_s = T.alloc_shared((chunk, block_V), dtype)
            h_s = T.alloc_shared((dim, block_V), dtype)
            s = T.alloc_fragment((chunk, chunk), "float32")
            p = T.alloc_fragment((chunk, chunk), dtype)
            h = T.alloc_fragment((dim, block_V), "float32")
            o = T.alloc_fragment((chunk, block_V), "float32")
            T.clear(h)
            for t in T.Pipelined(seq // chunk, num_stages=num_stages):
                T.copy(Q[bz, t * chunk : (t + 1) * chunk, by, :], Q_s)
                T.copy(K[bz, t * chunk : (t + 1) * chunk, by, :], K_s)
                T.copy(V[bz, t * chunk : (t + 1) * chunk, by, bx * block_V : (bx + 1) * block_V], V_s)
                for i, j in T.Parallel(dim, block_V):
                    h_s[i, j] = T.cast(h[i, j] * scale, dtype)
                T.clear(s)
                T.gemm(Q_s, K_s, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.clear(o)
                T.gemm(Q_s, h_s, o, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(chunk, chunk):
                    p[i, j] = T.cast(T.if_then_else(i >= j, s[i, j] * scale, 0.0), dtype)
                T.gemm(p, V_s, o, policy=T.GemmWarpPolicy.FullRow)
                T.gemm(K_s, V_s, h, transpose_A=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(o, O[bz, t * chunk : (t + 1) * chunk, by, bx * block_V : (bx + 1) * block_V])

    return linear_attention_kernel


def chunk_scan(
    batch: int,
    seq: int,
    heads: int,
    chunk: int = 256,
    dim: int = 64,
    state: int = 128,
    groups: int = 1,
    dtype: str = "float16",
    block_M: int = 64,
    block_K: int = 64,
    num_stages: int = 2,
    threads: int = 128,
) -> Any:
    """Mamba-2's chunk_scan: what a chunk's own inputs and the state before it give.

    Y[l] = exp(A[l]) C[l] S^T + sum over k <= l of CB[l, k] exp(A[l] - A[k]) dt[k] X[k] + D X[l]. CB: (batch,
    chunks, groups, chunk, chunk); X, Y: (batch, seq, heads, dim); dt, A (summed up along the chunk): (batch,
    heads, chunks, chunk); C: (batch, seq, groups, state); S: (batch, chunks, heads, dim, state); D: (heads,).
    """
    chunks, ratio = seq // chunk, heads // groups

    @T.prim_func
    def chunk_scan_kernel(
        CB: T.Tensor((batch, chunks, groups, chunk, chunk), dtype),
        X: T.Tensor((batch, seq, heads, dim), dtype),
        dt: T.Tensor((batch, heads, chunks, chunk), dtype),
        A: T.Tensor((batch, heads, chunks, chunk), dtype),
        C: T.Tensor((batch, seq, groups, state), dtype),
        S: T.Tensor((batch, chunks, heads, dim, state), dtype),
        D: T.Tensor((heads,), dtype),
        Y: T.Tensor((batch, seq, heads, dim), dtype),
    ):
        with T.Kernel(chunk // block_M, heads, batch * chunks, threads=threads) as (bx, by, bz):
            C_s = T.alloc_shared((block_M, state), dtype)
            S_s = T.alloc_shared((dim, state), dtype)
            CB_s = T.alloc_shared((block_M, block_K), dtype)
            X_s = T.alloc_shared((block_K, dim), dtype)
            X_m = T.alloc_shared((block_M, dim), dtype)
            A_s = T.alloc_shared((block_K,), dtype)
            dt_s = T.alloc_shared((block_K,), dtype)
            cb = T.alloc_fragment((block_M, block_K), dtype)
            acc = T.alloc_fragment((block_M, dim), "float32")
            a_m = T.alloc_fragment((block_M,), "float32")
            a_k = T.alloc_fragment((block_K,), "float32")
            dt_k = T.alloc_fragment((block_K,), "float32")
            b, c = bz // chunks, bz % chunks
            row = c * chunk + bx * block_M

            T.copy(C[b, row : row + block_M, by // ratio, :], C_s)
            T.copy(S[b, c, by, :, :], S_s)
            T.copy(X[b, row : row + block_M, by, :], X_m)
            T.copy(A[b, by, c, bx * block_M : (bx + 1) * block_M], a_m)
            for i in T.Parallel(block_M):
                a_m[i] = a_m[i] * LOG2E
            T.clear(acc)
            T.gemm(C_s, S_s, acc, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                acc[i, j] = acc[i, j] * T.exp2(a_m[i])
            for k in T.Pipelined(T.ceildiv((bx + 1) * block_M, block_K), num_stages=num_stages):
                T.copy(CB[b, c, by // ratio, bx * block_M, k * block_K], CB_s)
                T.copy(X[b, c * chunk + k * block_K : c * chunk + (k + 1) * block_K, by, :], X_s)
                T.copy(A[b, by, c, k * block_K : (k + 1) * block_K], A_s)
                T.copy(dt[b, by, c, k * block_K : (k + 1) * block_K], dt_s)
                T.copy(A_s, a_k)
                T.copy(dt_s, dt_k)
                if (k + 1) * block_K > bx * block_M:
                    for i, j in T.Parallel(block_M, block_K):
                        weight = T.exp2(a_m[i] - a_k[j] * LOG2E) * dt_k[j]
                        inside = bx * block_M + i >= k * block_K + j
                        cb[i, j] = T.cast(
                            T.if_then_else(inside, T.cast(CB_s[i, j], "float32") * weight, 0.0), dtype
                        )
                else:
                    for i, j in T.Parallel(block_M, block_K):
                        weight = T.exp2(a_m[i] - a_k[j] * LOG2E) * dt_k[j]
                        cb[i, j] = T.cast(T.cast(CB_s[i, j], "float32") * weight, dtype)
                T.gemm(cb, X_s, acc, policy=T.GemmWarpPolicy.FullRow)
            skip = T.cast(D[by], "float32")
            for i, j in T.Parallel(block_M, dim):
                acc[i, j] += T.cast(X_m[i, j], "float32") * skip
            T.copy(acc, Y[b, row : row + block_M, by, :])

    return chunk_scan_kernel


def chunk_scan_heads(
    batch: int,
    seq: int,
    heads: int,
    chunk: int = 256,
    dim: int = 64,
    state: int = 128,
    groups: int = 1,
    dtype: str = "float16",
    block_M: int = 128,
    block_K: int = 64,
    block_H: int = 8,
    num_stages: int = 2,
    threads: int = 256,
) -> Any:
    """`chunk_scan`, block_H heads to a block: C and CB, which they share, stay in shared memory."""
    chunks, ratio = seq // chunk, heads // groups

    @T.prim_func
    def chunk_scan_heads_kernel(
        CB: T.Tensor((batch, chunks, groups, chunk, chunk), dtype),
        X: T.Tensor((batch, seq, heads, dim), dtype),
        dt: T.Tensor((batch, heads, chunks, chunk), dtype),
        A: T.Tensor((batch, heads, chunks, chunk), dtype),
        C: T.Tensor((batch, seq, groups, state), dtype),
        S: T.Tensor((batch, chunks, heads, dim, state), dtype),
        D: T.Tensor((heads,), dtype),
        Y: T.Tensor((batch, seq, heads, dim), dtype),
    ):
        with T.Kernel(chunk // block_M, heads // block_H, batch * chunks, threads=threads) as (bx, by, bz):
            C_s = T.alloc_shared((block_M, state), dtype)
            CB_s = T.alloc_shared((block_M, chunk), dtype)
            S_s = T.alloc_shared((dim, state), dtype)
            X_s = T.alloc_shared((chunk, dim), dtype)
            A_s = T.alloc_shared((chunk,), dtype)
            dt_s = T.alloc_shared((chunk,), dtype)
            cb = T.alloc_fragment((block_M, block_K), dtype)
            acc = T.alloc_fragment((block_M, dim), "float32")
            a_m = T.alloc_fragment((block_M,), "float32")
            a_k = T.alloc_fragment((block_K,), "float32")
            dt_k = T.alloc_fragment((block_K,), "float32")
            b, c, group = bz // chunks, bz % chunks, by * block_H // ratio
            row = c * chunk + bx * block_M

            T.copy(C[b, row : row + block_M, group, :], C_s)
            T.copy(CB[b, c, group, bx * block_M : (bx + 1) * block_M, :], CB_s)
            for h in T.Pipelined(block_H, num_stages=num_stages):
                T.copy(S[b, c, by * block_H + h, :, :], S_s)
                T.copy(X[b, c * chunk : (c + 1) * chunk, by * block_H + h, :], X_s)
                T.copy(A[b, by * block_H + h, c, :], A_s)
                T.copy(dt[b, by * block_H + h, c, :], dt_s)
                T.clear(acc)
                T.gemm(C_s, S_s, acc, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i in T.Parallel(block_M):
                    a_m[i] = T.cast(A_s[bx * block_M + i], "float32") * LOG2E
                for i, j in T.Parallel(block_M, dim):
                    acc[i, j] = acc[i, j] * T.exp2(a_m[i])
                for k in T.serial((bx + 1) * block_M // block_K):
                    for j in T.Parallel(block_K):
                        a_k[j] = T.cast(A_s[k * block_K + j], "float32") * LOG2E
                        dt_k[j] = T.cast(dt_s[k * block_K + j], "float32")
                    if (k + 1) * block_K > bx * block_M:
                        for i, j in T.Parallel(block_M, block_K):
                            weight = T.exp2(a_m[i] - a_k[j]) * dt_k[j]
                            inside = bx * block_M + i >= k * block_K + j
                            value = T.cast(CB_s[i, k * block_K + j], "float32") * weight
                            cb[i, j] = T.cast(T.if_then_else(inside, value, 0.0), dtype)
                    else:
                        for i, j in T.Parallel(block_M, block_K):
                            weight = T.exp2(a_m[i] - a_k[j]) * dt_k[j]
                            cb[i, j] = T.cast(T.cast(CB_s[i, k * block_K + j], "float32") * weight, dtype)
                    T.gemm(cb, X_s[k * block_K : (k + 1) * block_K, :], acc, policy=T.GemmWarpPolicy.FullRow)
                skip = T.cast(D[by * block_H + h], "float32")
                for i, j in T.Parallel(block_M, dim):
                    acc[i, j] += T.cast(X_s[bx * block_M + i, j], "float32") * skip
                T.copy(acc, Y[b, row : row + block_M, by * block_H + h, :])

    return chunk_scan_heads_kernel


def chunk_state(
    batch: int,
    seq: int,
    heads: int,
    chunk: int = 256,
    dim: int = 64,
    state: int = 128,
    groups: int = 1,
    dtype: str = "float16",
    block_N: int = 128,
    block_K: int = 64,
    num_stages: int = 3,
    threads: int = 128,
) -> Any:
    """Mamba-2's chunk_state: S = sum over l of X[l]^T (exp(A[last] - A[l]) dt[l] B[l]) for each chunk.

    B: (batch, seq, groups, state); S: (batch, chunks, heads, dim, state); the rest as in `chunk_scan`.
    """
    chunks, ratio = seq // chunk, heads // groups

    @T.prim_func
    def chunk_state_kernel(
        B: T.Tensor((batch, seq, groups, state), dtype),
        X: T.Tensor((batch, seq, heads, dim), dtype),
        dt: T.Tensor((batch, heads, chunks, chunk), dtype),
        A: T.Tensor((batch, heads, chunks, chunk), dtype),
        S: T.Tensor((batch, chunks, heads, dim, state), dtype),
    ):
        with T.Kernel(state // block_N, heads, batch * chunks, threads=threads) as (bx, by, bz):
            X_s = T.alloc_shared((block_K, dim), dtype)
            B_s = T.alloc_shared((block_K, block_N), dtype)
            A_s = T.alloc_shared((block_K,), dtype)
            dt_s = T.alloc_shared((block_K,), dtype)
            xt = T.alloc_fragment((dim, block_K), dtype)
            acc = T.alloc_fragment((dim, block_N), "float32")
            a_k = T.alloc_fragment((block_K,), "float32")
            dt_k = T.alloc_fragment((block_K,), "float32")
            b, c = bz // chunks, bz % chunks
            last = T.cast(A[b, by, c, chunk - 1], "float32")
            T.clear(acc)
            for k in T.Pipelined(chunk // block_K, num_stages=num_stages):
                T.copy(X[b, c * chunk + k * block_K : c * chunk + (k + 1) * block_K, by, :], X_s)
                here = c * chunk + k * block_K
                T.copy(B[b, here : here + block_K, by // ratio, bx * block_N : (bx + 1) * block_N], B_s)
                T.copy(A[b, by, c, k * block_K : (k + 1) * block_K], A_s)
                T.copy(dt[b, by, c, k * block_K : (k + 1) * block_K], dt_s)
                T.copy(A_s, a_k)
                T.copy(dt_s, dt_k)
                for j in T.Parallel(block_K):
                    dt_k[j] = dt_k[j] * T.exp2((last - a_k[j]) * LOG2E)
                for i, j in T.Parallel(dim, block_K):
                    xt[i, j] = T.cast(T.cast(X_s[j, i], "float32") * dt_k[j], dtype)
                T.gemm(xt, B_s, acc, policy=T.GemmWarpPolicy.FullRow)
            T.copy(acc, S[b, c, by, :, bx * block_N : (bx + 1) * block_N])

    return chunk_state_kernel
