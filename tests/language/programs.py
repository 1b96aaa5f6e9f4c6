"""Programs of the kind that users write, in both surfaces, small enough that their IR can be read."""

# ruff: noqa: E501 -- programs and what they become stand side by side

from __future__ import annotations

from typing import Any

import tilebench.language as T


def quickstart(
    A: Any, B: Any, block_M: int = 32, block_N: int = 32, block_K: int = 16, dtype: T.dtype = T.float16
):
    """relu(A @ B), eager: shapes come from the tensors."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor[[M, K], dtype]
    B: T.Tensor[[K, N], dtype]
    C = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_s = T.alloc_shared((block_M, block_K), dtype)
        B_s = T.alloc_shared((block_K, block_N), dtype)
        acc = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(acc)
        for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, ko * block_K], A_s)
            T.copy(B[ko * block_K, bx * block_N], B_s)
            T.gemm(A_s, B_s, acc)
        for i, j in T.Parallel(block_M, block_N):
            acc[i, j] = T.max(acc[i, j], 0)
        T.copy(acc, C[by * block_M, bx * block_N])
    return C


def elementwise(n_tile: int = 256, dtype: Any = "float32") -> Any:
    """z = alpha * x + y over a vector of unknown length."""
    n = T.dynamic("n")

    @T.prim_func
    def axpy(x: T.Tensor((n,), dtype), y: T.Tensor((n,), dtype), z: T.Tensor((n,), dtype), alpha: T.float32):
        with T.Kernel(T.ceildiv(n, n_tile), threads=128) as bx:
            for i in T.Parallel(n_tile):
                at = bx * n_tile + i
                if at < n:
                    z[at] = alpha * x[at] + y[at]

    return axpy


def linear_attention(
    batch: int, heads: int, length: int, dim: int, chunk: int = 16, dtype: str = "float16"
) -> Any:
    """Causal linear attention without a decay, chunk by chunk: the state K^T V is carried in registers."""
    shape = (batch, length, heads, dim)

    @T.prim_func
    def linear_attention_kernel(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        O: T.Tensor(shape, dtype),
    ):
        with T.Kernel(heads, batch, threads=128) as (head, item):
            q = T.alloc_shared([chunk, dim], dtype)
            k = T.alloc_shared([chunk, dim], dtype)
            v = T.alloc_shared([chunk, dim], dtype)
            state = T.alloc_fragment([dim, dim], "float32")
            state_s = T.alloc_shared([dim, dim], dtype)
            scores = T.alloc_fragment([chunk, chunk], "float32")
            scores_s = T.alloc_shared([chunk, chunk], dtype)
            o = T.alloc_fragment([chunk, dim], "float32")
            T.clear(state)
            for c in T.Pipelined(0, T.ceildiv(length, chunk), num_stages=2):
                rows = slice_of(c, chunk)
                T.copy(Q[item, rows, head, :], q)
                T.copy(K[item, rows, head, :], k)
                T.copy(V[item, rows, head, :], v)
                T.copy(state, state_s)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(chunk, chunk):
                    scores_s[i, j] = T.if_then_else(i >= j, scores[i, j], 0)
                T.gemm(scores_s, v, o, clear_accum=True)
                T.gemm(q, state_s, o)
                T.gemm(k, v, state, transpose_A=True)
                T.copy(o, O[item, rows, head, :])

    return linear_attention_kernel


def slice_of(number: Any, size: int) -> slice:
    """The rows of chunk `number`."""
    return slice(number * size, number * size + size)


def chunk_scan(
    batch: int, heads: int, groups: int, length: int, chunk: int, dim: int, state: int, dtype: str = "float16"
) -> Any:
    """The output of a state space model: within a chunk by a masked product, before it by the carried states."""
    chunks = T.ceildiv(length, chunk)
    log2e = 1.44269504

    @T.prim_func
    def chunk_scan_kernel(
        CB: T.Tensor((batch, chunks, groups, chunk, chunk), dtype),
        X: T.Tensor((batch, length, heads, dim), dtype),
        Dt: T.Tensor((batch, heads, chunks, chunk), dtype),
        A_sum: T.Tensor((batch, heads, chunks, chunk), "float32"),
        C: T.Tensor((batch, length, groups, state), dtype),
        S: T.Tensor((batch, chunks, heads, dim, state), dtype),
        D: T.Tensor((heads,), dtype),
        O: T.Tensor((batch, length, heads, dim), dtype),
    ):
        with T.Kernel(heads, chunks, batch, threads=128) as (h, c, b):
            g = h // (heads // groups)
            first: T.int32 = c * chunk
            c_s = T.alloc_shared((chunk, state), dtype)
            s_s = T.alloc_shared((dim, state), dtype)
            x_s = T.alloc_shared((chunk, dim), dtype)
            weights = T.alloc_shared((chunk, chunk), dtype)
            sums = T.alloc_shared((chunk,), "float32")
            acc = T.alloc_fragment((chunk, dim), "float32")

            T.copy(A_sum[b, h, c, :], sums)
            T.copy(C[b, first : first + chunk, g, :], c_s)
            T.copy(S[b, c, h, :, :], s_s)
            T.gemm(c_s, s_s, acc, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(chunk, dim):
                acc[i, j] *= T.exp2(sums[i] * log2e)
            for i, j in T.Parallel(chunk, chunk):
                decay = T.exp2((sums[i] - sums[j]) * log2e) * Dt[b, h, c, j]
                weights[i, j] = CB[b, c, g, i, j] * decay if j <= i else 0
            T.copy(X[b, first : first + chunk, h, :], x_s)
            T.gemm(weights, x_s, acc)
            skip = D[h]
            for i, j in T.Parallel(chunk, dim):
                acc[i, j] += skip * x_s[i, j]
            T.copy(acc, O[b, first : first + chunk, h, :])

    return chunk_scan_kernel
