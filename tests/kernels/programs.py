"""The real kernels, as users write them: each is a factory of a @T.prim_func, with its PyTorch reference
beside it.
"""

from __future__ import annotations

from typing import Any

import tilebench.language as T


def gemm(
    M: int,
    N: int,
    K: int,
    dtype: str = "float16",
    out_dtype: str = "float16",
    accum_dtype: str = "float32",
    transpose_A: bool = False,
    transpose_B: bool = False,
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 32,
    num_stages: int = 3,
    threads: int = 128,
    panel: int = 0,
    staged: bool = False,
) -> Any:
    """C = op(A) @ op(B).

    panel: rasterise the blocks in panels of this many; staged: C leaves through shared memory.
    """
    A_shape = (K, M) if transpose_A else (M, K)
    B_shape = (N, K) if transpose_B else (K, N)
    A_tile = (block_K, block_M) if transpose_A else (block_M, block_K)
    B_tile = (block_N, block_K) if transpose_B else (block_K, block_N)

    @T.prim_func
    def gemm_kernel(A: T.Tensor(A_shape, dtype), B: T.Tensor(B_shape, dtype), C: T.Tensor((M, N), out_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_s = T.alloc_shared(A_tile, dtype)
            B_s = T.alloc_shared(B_tile, dtype)
            C_f = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.use_swizzle(panel_size=panel, enable=panel > 0)
            T.clear(C_f)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                if transpose_A:
                    T.copy(A[k * block_K, by * block_M], A_s)
                else:
                    T.copy(A[by * block_M, k * block_K], A_s)
                if transpose_B:
                    T.copy(B[bx * block_N, k * block_K], B_s)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_s)
                T.gemm(A_s, B_s, C_f, transpose_A, transpose_B)
            if staged:
                C_s = T.alloc_shared((block_M, block_N), out_dtype)
                T.copy(C_f, C_s)
                T.copy(C_s, C[by * block_M, bx * block_N])
            else:
                T.copy(C_f, C[by * block_M, bx * block_N])

    return gemm_kernel


def softmax(M: int, N: int, dtype: str = "float16", block_M: int = 4, threads: int = 128) -> Any:
    """Row softmax of an (M, N) matrix; a row fits in a block's registers."""

    @T.prim_func
    def softmax_kernel(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            m = T.alloc_fragment((block_M,), "float32")
            s = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_max(x, m, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = T.exp(x[i, j] - m[i])
            T.reduce_sum(x, s, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] / s[i]
            T.copy(x, Y[bx * block_M, 0])

    return softmax_kernel


def rms_norm(
    M: int,
    N: int,
    dtype: str = "float16",
    block_M: int = 4,
    threads: int = 128,
    eps: float = 1e-5,
    blocks: int = 1,
) -> Any:
    """Y = X * rsqrt(mean(X**2) + eps) * W. blocks: how many share a multiprocessor at least."""

    @T.prim_func
    def rms_norm_kernel(X: T.Tensor((M, N), dtype), W: T.Tensor((N,), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            square = T.alloc_fragment((block_M, N), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            w = T.alloc_fragment((N,), dtype)
            if blocks > 1:
                T.annotate_min_blocks_per_sm(blocks)
            T.copy(X[bx * block_M, 0], x)
            T.copy(W, w)
            for i, j in T.Parallel(block_M, N):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)
            for i in T.Parallel(block_M):
                total[i] = T.rsqrt(total[i] / N + eps)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] * total[i] * w[j]
            T.copy(x, Y[bx * block_M, 0])

    return rms_norm_kernel


def attention(
    batch: int,
    heads: int,
    seq_q: int,
    seq_kv: int,
    dim: int,
    causal: bool = False,
    kv_heads: int = 0,
    dtype: str = "float16",
    block_M: int = 128,
    block_N: int = 64,
    num_stages: int = 2,
    threads: int = 128,
) -> Any:
    """Attention forward with online softmax, BHSD.

    kv_heads < heads: grouped queries. causal: aligned at the end.
    """
    groups = kv_heads or heads
    ratio = heads // groups
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    past = seq_kv - seq_q

    @T.prim_func
    def attention_kernel(
        Q: T.Tensor((batch, heads, seq_q, dim), dtype),
        K: T.Tensor((batch, groups, seq_kv, dim), dtype),
        V: T.Tensor((batch, groups, seq_kv, dim), dtype),
        O: T.Tensor((batch, heads, seq_q, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(seq_q, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_s = T.alloc_shared((block_M, dim), dtype)
            K_s = T.alloc_shared((block_N, dim), dtype)
            V_s = T.alloc_shared((block_N, dim), dtype)
            s = T.alloc_fragment((block_M, block_N), "float32")
            p = T.alloc_fragment((block_M, block_N), dtype)
            o = T.alloc_fragment((block_M, dim), "float32")
            m = T.alloc_fragment((block_M,), "float32")
            m_old = T.alloc_fragment((block_M,), "float32")
            alpha = T.alloc_fragment((block_M,), "float32")
            row = T.alloc_fragment((block_M,), "float32")
            l = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_s)
            T.fill(o, 0)
            T.fill(l, 0)
            T.fill(m, -T.infinity("float32"))
            steps = (
                T.min(T.ceildiv(seq_kv, block_N), T.ceildiv((bx + 1) * block_M + past, block_N))
                if causal
                else T.ceildiv(seq_kv, block_N)
            )
            for k in T.Pipelined(steps, num_stages=num_stages):
                T.copy(K[bz, by // ratio, k * block_N : (k + 1) * block_N, :], K_s)
                for i, j in T.Parallel(block_M, block_N):
                    if causal:
                        s[i, j] = T.if_then_else(
                            bx * block_M + i + past >= k * block_N + j, 0, -T.infinity("float32")
                        )
                    else:
                        s[i, j] = T.if_then_else(k * block_N + j < seq_kv, 0, -T.infinity("float32"))
                T.gemm(Q_s, K_s, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, m_old)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    alpha[i] = T.exp2(m_old[i] * scale - m[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                T.reduce_sum(s, row, dim=1)
                for i in T.Parallel(block_M):
                    l[i] = l[i] * alpha[i] + row[i]
                T.copy(s, p)
                for i, j in T.Parallel(block_M, dim):
                    o[i, j] = o[i, j] * alpha[i]
                T.copy(V[bz, by // ratio, k * block_N : (k + 1) * block_N, :], V_s)
                T.gemm(p, V_s, o, policy=T.GemmWarpPolicy.FullRow)
            for i in T.Parallel(block_M):
                row[i] = 1.0 / l[i]
            for i, j in T.Parallel(block_M, dim):
                o[i, j] = o[i, j] * row[i]
            T.copy(o, O[bz, by, bx * block_M : (bx + 1) * block_M, :])

    return attention_kernel


def mlp(
    M: int,
    N: int,
    K: int,
    dtype: str = "float16",
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 32,
    threads: int = 128,
) -> Any:
    """Y = gelu(X @ W + bias), the tanh form, fused into the epilogue."""

    @T.prim_func
    def mlp_kernel(
        X: T.Tensor((M, K), dtype),
        W: T.Tensor((K, N), dtype),
        bias: T.Tensor((N,), dtype),
        Y: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            X_s = T.alloc_shared((block_M, block_K), dtype)
            W_s = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(X[by * block_M, k * block_K], X_s)
                T.copy(W[k * block_K, bx * block_N], W_s)
                T.gemm(X_s, W_s, acc)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] += T.if_then_else(
                    bx * block_N + j < N, T.cast(bias[bx * block_N + j], "float32"), 0.0
                )
                acc[i, j] = (
                    0.5
                    * acc[i, j]
                    * (
                        1.0
                        + T.tanh(0.7978845608 * (acc[i, j] + 0.044715 * acc[i, j] * acc[i, j] * acc[i, j]))
                    )
                )
            T.copy(acc, Y[by * block_M, bx * block_N])

    return mlp_kernel


def transpose(M: int, N: int, dtype: str = "float16", block: int = 64, threads: int = 128) -> Any:
    """Y = X.T through a shared tile."""

    @T.prim_func
    def transpose_kernel(X: T.Tensor((M, N), dtype), Y: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=threads) as (bx, by):
            tile = T.alloc_shared((block, block), dtype)
            turned = T.alloc_shared((block, block), dtype)
            T.copy(X[by * block, bx * block], tile)
            for i, j in T.Parallel(block, block):
                turned[i, j] = tile[j, i]
            T.copy(turned, Y[bx * block, by * block])

    return transpose_kernel


def histogram(N: int, bins: int, block: int = 1024, threads: int = 128) -> Any:
    """Counts of the values 0..bins-1; the shared histogram of each block is added to the global one."""

    @T.prim_func
    def histogram_kernel(X: T.Tensor((N,), "int32"), H: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
            local = T.alloc_shared((bins,), "int32")
            T.clear(local)
            for i in T.Parallel(block):
                if bx * block + i < N:
                    T.atomic_add(local[X[bx * block + i]], 1)
            for b in T.Parallel(bins):
                T.atomic_add(H[b], local[b])

    return histogram_kernel
