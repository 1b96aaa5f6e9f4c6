"""GEMM with weights of four bits that were put in order once: a thread reads its own in one piece.

`place` says where a weight of a tile of 64 rows lies: the threads of a warpgroup product hold neighbours of a
row two by two, so thread after thread has 16 bytes for each 64 columns. In a word, the second of two
neighbours lies 16 bits above the first. `pack_int4` puts weights there, the programs read them by the same
formula.
"""

from __future__ import annotations

from typing import Any

import tilebench.language as T

ROWS = 64
"""Of a tile: what a warpgroup multiplies at a time."""
ROW_WORDS = 32
"""Words of a row of the packed tensor: 128 bytes."""


def place(i: Any, j: Any) -> tuple[Any, Any, Any]:
    """(row, word, bit) of weight j of row i of a packed tile; ints, arrays or indices of a program."""
    thread = i // 16 % 4 * 32 + i % 8 * 4 + j % 8 // 2
    number = i // 8 % 2 + j // 8 % 2 * 2 + j % 2 * 4
    return j // 64 * 16 + thread // 8, thread % 8 * 4 + j // 16 % 4, number * 4


def pack_int4(w: Any, groups: int = 1, block_K: int = 64) -> Any:
    """(N // 64, K // 4, 32) uint32 of weights (N, K // 2) uint8, two to a byte along K, the low half first.

    groups: parts of K that a block multiplies side by side; block_K columns of each follow each other.
    """
    import torch

    n, k = w.shape[0], w.shape[1] * 2
    plain = torch.stack((w & 15, w >> 4), dim=-1).reshape(n, k).int()
    steps = k // groups // block_K
    tiles = plain.reshape(n // ROWS, ROWS, groups, steps, block_K).permute(0, 3, 2, 1, 4)
    i, j = torch.meshgrid(torch.arange(ROWS), torch.arange(block_K), indexing="ij")
    row, word, bit = (x.to(w.device) for x in place(i, j))
    lines = block_K // 4
    packed = torch.zeros(n // ROWS, steps, groups, lines * ROW_WORDS, dtype=torch.int64, device=w.device)
    packed.scatter_add_(
        3,
        (row * ROW_WORDS + word).reshape(-1).expand(n // ROWS, steps, groups, -1),
        (tiles.long() << bit).reshape(n // ROWS, steps, groups, -1),
    )
    packed = packed.reshape(n // ROWS, k // 4, ROW_WORDS)
    return torch.where(packed >= 1 << 31, packed - (1 << 32), packed).int().view(torch.uint32)


def gemm_int4_packed(
    M: int, N: int, K: int, dtype: str = "float16", block_K: int = 256, num_stages: int = 6
) -> Any:
    """C = A @ (scale * (W - 8)).T, W packed by `pack_int4(w, 1, block_K)`; A: (M, K), M at most 16 or so.

    A block of one warpgroup has 64 columns of C. Its weights become numbers in registers, half a step at a
    time, so that one half is multiplied while the other is made.
    """
    half = block_K // 2

    @T.prim_func
    def gemm_int4_packed_kernel(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((N // ROWS, K // 4, ROW_WORDS), "uint32"),
        scale: T.Tensor((N,), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(N // ROWS, threads=128) as bx:
            A_s = T.alloc_shared((M, block_K), dtype)
            W_s = T.alloc_shared((block_K // 4, ROW_WORDS), "uint32")
            W_0 = T.alloc_fragment((ROWS, half), dtype)
            W_1 = T.alloc_fragment((ROWS, half), dtype)
            C_f = T.alloc_fragment((ROWS, M), "float32")
            C_s = T.alloc_shared((M, ROWS), dtype)
            T.clear(C_f)
            for k in T.Pipelined(K // block_K, num_stages=num_stages):
                T.copy(W[bx, k * (block_K // 4), 0], W_s)
                T.copy(A[0, k * block_K], A_s)
                for i, j in T.Parallel(ROWS, half):
                    row, word, bit = place(i, j)
                    W_0[i, j] = T.cast(W_s[row, word] >> T.cast(bit, "uint32") & 15, dtype) - 8
                T.gemm(W_0, A_s[:, 0:half], C_f, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(ROWS, half):
                    row, word, bit = place(i, half + j)
                    W_1[i, j] = T.cast(W_s[row, word] >> T.cast(bit, "uint32") & 15, dtype) - 8
                T.gemm(W_1, A_s[:, half:block_K], C_f, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(ROWS, M):
                C_s[j, i] = T.cast(C_f[i, j] * T.cast(scale[bx * ROWS + i], "float32"), dtype)
            T.copy(C_s, C[0, bx * ROWS])

    return gemm_int4_packed_kernel


def gemm_int4_groups(
    M: int,
    N: int,
    K: int,
    groups: int = 2,
    dtype: str = "float16",
    block_K: int = 128,
    num_stages: int = 8,
) -> Any:
    """`gemm_int4_packed` with K in as many parts as the block has warpgroups.

    W is packed by `pack_int4(w, groups, block_K)`. A row of A counts as `groups` rows, a part each: A is its
    (M * groups, K // groups). A warpgroup multiplies the weights of its own part by all of them; what belongs
    together is added up at the end.
    """
    lines, half = block_K // 4, block_K // 2

    @T.prim_func
    def gemm_int4_groups_kernel(
        A: T.Tensor((M * groups, K // groups), dtype),
        W: T.Tensor((N // ROWS, K // 4, ROW_WORDS), "uint32"),
        scale: T.Tensor((N,), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(N // ROWS, threads=128 * groups) as bx:
            A_s = T.alloc_shared((M * groups, block_K), dtype)
            W_s = T.alloc_shared((groups * lines, ROW_WORDS), "uint32")
            W_0 = T.alloc_fragment((groups * ROWS, half), dtype)
            W_1 = T.alloc_fragment((groups * ROWS, half), dtype)
            C_f = T.alloc_fragment((groups * ROWS, M * groups), "float32")
            C_p = T.alloc_shared((groups, M, ROWS), "float32")
            total = T.alloc_fragment((M, ROWS), "float32")
            T.clear(C_f)
            for k in T.Pipelined(K // groups // block_K, num_stages=num_stages):
                T.copy(W[bx, k * groups * lines, 0], W_s)
                T.copy(A[0, k * block_K], A_s)
                for i, j in T.Parallel(groups * ROWS, half):
                    row, word, bit = place(i, j)
                    weight = T.cast(W_s[i // ROWS * lines + row, word] >> T.cast(bit, "uint32") & 15, dtype)
                    W_0[i, j] = weight - 8
                T.gemm(W_0, A_s[:, 0:half], C_f, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(groups * ROWS, half):
                    row, word, bit = place(i, half + j)
                    weight = T.cast(W_s[i // ROWS * lines + row, word] >> T.cast(bit, "uint32") & 15, dtype)
                    W_1[i, j] = weight - 8
                T.gemm(W_1, A_s[:, half:block_K], C_f, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(groups * ROWS, M * groups):
                if j % groups == i // ROWS:
                    C_p[j % groups, j // groups, i % ROWS] = C_f[i, j]
            T.clear(total)
            for g in T.unroll(groups):
                for i, j in T.Parallel(M, ROWS):
                    total[i, j] += C_p[g, i, j]
            for i, j in T.Parallel(M, ROWS):
                C[i, bx * ROWS + j] = T.cast(total[i, j] * T.cast(scale[bx * ROWS + j], "float32"), dtype)

    return gemm_int4_groups_kernel
