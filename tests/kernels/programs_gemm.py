"""GEMMs beside the plain one: split over K, and with weights of four bits."""

from __future__ import annotations

from typing import Any

import tilebench.language as T


def gemm_parts(
    M: int,
    N: int,
    K: int,
    parts: int,
    dtype: str = "float16",
    block_M: int = 64,
    block_N: int = 128,
    block_K: int = 64,
    num_stages: int = 6,
    threads: int = 128,
) -> Any:
    """W[p] = A @ B.T over the p-th part of K, in float32; `add_parts` adds them up. B is (N, K)."""
    depth = K // parts

    @T.prim_func
    def gemm_parts_kernel(
        A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), W: T.Tensor((parts, M, N), "float32")
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), parts, threads=threads) as (bx, by, bz):
            A_s = T.alloc_shared((block_M, block_K), dtype)
            B_s = T.alloc_shared((block_N, block_K), dtype)
            C_f = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_f)
            for k in T.Pipelined(depth // block_K, num_stages=num_stages):
                T.copy(A[by * block_M, bz * depth + k * block_K], A_s)
                T.copy(B[bx * block_N, bz * depth + k * block_K], B_s)
                T.gemm(A_s, B_s, C_f, transpose_B=True)
            T.copy(C_f, W[bz, by * block_M, bx * block_N])

    return gemm_parts_kernel


def add_parts(
    M: int, N: int, parts: int, dtype: str = "float16", block: int = 1024, threads: int = 128
) -> Any:
    """C = the sum of W[0], W[1], ..."""

    @T.prim_func
    def add_parts_kernel(W: T.Tensor((parts, M, N), "float32"), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block), M, threads=threads) as (bx, by):
            total = T.alloc_fragment((block,), "float32")
            T.clear(total)
            for p in T.unroll(parts):
                for j in T.Parallel(block):
                    total[j] += W[p, by, bx * block + j]
            T.copy(total, C[by, bx * block : (bx + 1) * block])

    return add_parts_kernel


def gemm_int4(
    M: int,
    N: int,
    K: int,
    dtype: str = "float16",
    block_M: int = 16,
    block_N: int = 128,
    block_K: int = 128,
    num_stages: int = 4,
    threads: int = 256,
    panel: int = 0,
) -> Any:
    """C = A @ (scale * (W - 8)).T with W of four bits, two to a byte along K (low half first).

    A: (M, K); W: (N, K // 2) uint8; scale: (N,). The product is taken the other way round, W's rows first:
    weights go from shared memory to registers, become numbers there, and never come back. A number from 0 to
    15 in the last bits of float32's 2**23 is 2**23 more than itself.
    """

    @T.prim_func
    def gemm_int4_kernel(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K // 2), "uint8"),
        scale: T.Tensor((N,), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_s = T.alloc_shared((block_M, block_K), dtype)
            W_s = T.alloc_shared((block_N, block_K // 2), "uint8")
            W_f = T.alloc_fragment((block_N, block_K), dtype)
            C_f = T.alloc_fragment((block_N, block_M), "float32")
            C_s = T.alloc_shared((block_M, block_N), dtype)
            T.use_swizzle(panel_size=panel, enable=panel > 0)
            T.clear(C_f)
            for k in T.Pipelined(K // block_K, num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_s)
                T.copy(W[bx * block_N, k * block_K // 2], W_s)
                for i, j in T.Parallel(block_N, block_K):
                    half = T.cast(W_s[i, j // 2], "uint32") >> T.cast(j % 2 * 4, "uint32")
                    W_f[i, j] = T.cast(T.reinterpret(half & 15 | 0x4B000000, "float32") - 8388616.0, dtype)
                T.gemm(W_f, A_s, C_f, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_N, block_M):
                C_s[j, i] = T.cast(C_f[i, j] * T.cast(scale[bx * block_N + i], "float32"), dtype)
            T.copy(C_s, C[by * block_M, bx * block_N])

    return gemm_int4_kernel


def gemm_int4_parts(
    M: int,
    N: int,
    K: int,
    parts: int,
    dtype: str = "float16",
    block_M: int = 16,
    block_N: int = 64,
    block_K: int = 256,
    num_stages: int = 4,
    threads: int = 128,
) -> Any:
    """P[p] = `gemm_int4` over the p-th part of K, in float32; `add_parts` adds them up."""
    depth = K // parts

    @T.prim_func
    def gemm_int4_parts_kernel(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K // 2), "uint8"),
        scale: T.Tensor((N,), dtype),
        P: T.Tensor((parts, M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), parts, threads=threads) as (bx, by, bz):
            A_s = T.alloc_shared((block_M, block_K), dtype)
            W_s = T.alloc_shared((block_N, block_K // 2), "uint8")
            W_f = T.alloc_fragment((block_N, block_K), dtype)
            C_f = T.alloc_fragment((block_N, block_M), "float32")
            C_s = T.alloc_shared((block_M, block_N), "float32")
            T.clear(C_f)
            for k in T.Pipelined(depth // block_K, num_stages=num_stages):
                T.copy(A[by * block_M, bz * depth + k * block_K], A_s)
                T.copy(W[bx * block_N, (bz * depth + k * block_K) // 2], W_s)
                for i, j in T.Parallel(block_N, block_K):
                    half = T.cast(W_s[i, j // 2], "uint32") >> T.cast(j % 2 * 4, "uint32")
                    W_f[i, j] = T.cast(T.reinterpret(half & 15 | 0x4B000000, "float32") - 8388616.0, dtype)
                T.gemm(W_f, A_s, C_f, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_N, block_M):
                C_s[j, i] = C_f[i, j] * T.cast(scale[bx * block_N + i], "float32")
            T.copy(C_s, P[bz, by * block_M, bx * block_N])

    return gemm_int4_parts_kernel
