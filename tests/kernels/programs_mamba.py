"""Mamba-2's chunk_scan with decay that is a product wherever it can be.

Within a chunk, a row l takes exp(A[l] - A[k]) of column k. Left of a tile of rows that starts behind column r
this is exp(A[l] - A[r]) exp(A[r] - A[k]), both at most 1: the second factor is one for each column, computed
once for all rows, the first one for each row. Only on the diagonal each element needs an exponential of its
own. Arithmetic on the weights is of float16, two at a time.
"""

from __future__ import annotations

from typing import Any

import tilebench.language as T

LOG2E = 1.44269504


def chunk_scan_weights(batch: int, seq: int, heads: int, chunk: int = 256, dtype: str = "float16") -> Any:
    """What `chunk_scan_split` takes beside A: U = A log2(e) - log2(dt) for all columns, and for those of the
    first half W = exp2(A[r] log2(e) - U), r the last of them. (batch, heads, chunks, chunk) and half of it.
    """
    chunks, rows, some = seq // chunk, chunk // 2, 8

    @T.prim_func
    def chunk_scan_weights_kernel(
        dt: T.Tensor((batch, heads, chunks, chunk), dtype),
        A: T.Tensor((batch, heads, chunks, chunk), dtype),
        U: T.Tensor((batch, heads, chunks, chunk), "float32"),
        W: T.Tensor((batch, heads, chunks, rows), dtype),
    ):
        with T.Kernel(chunks // some, heads, batch, threads=256) as (bx, by, bz):
            for k, j in T.Parallel(some, chunk):
                c = bx * some + k
                u = T.cast(A[bz, by, c, j], "float32") * LOG2E - T.log2(T.cast(dt[bz, by, c, j], "float32"))
                U[bz, by, c, j] = u
                if j < rows:
                    W[bz, by, c, j] = T.exp2(T.cast(A[bz, by, c, rows - 1], "float32") * LOG2E - u)

    return chunk_scan_weights_kernel


def chunk_scan_split(
    batch: int,
    seq: int,
    heads: int,
    chunk: int = 256,
    dim: int = 64,
    state: int = 128,
    groups: int = 1,
    dtype: str = "float16",
    block_H: int = 8,
    num_stages: int = 2,
) -> Any:
    """`chunk_scan` (programs_scan.py) with half a chunk of rows and block_H heads to a block; dt is positive.

    Two warpgroups have 64 rows each, and no thread waits for another. For a head, products of the state, of
    what lies left of the tile, and of two halves of the tile's own square; U, W from `chunk_scan_weights`.
    """
    chunks, ratio = seq // chunk, heads // groups
    rows, half = chunk // 2, chunk // 4
    full = T.GemmWarpPolicy.FullRow

    @T.prim_func
    def chunk_scan_split_kernel(
        CB: T.Tensor((batch, chunks, groups, chunk, chunk), dtype),
        X: T.Tensor((batch, seq, heads, dim), dtype),
        U: T.Tensor((batch, heads, chunks, chunk), "float32"),
        W: T.Tensor((batch, heads, chunks, rows), dtype),
        A: T.Tensor((batch, heads, chunks, chunk), dtype),
        C: T.Tensor((batch, seq, groups, state), dtype),
        S: T.Tensor((batch, chunks, heads, dim, state), dtype),
        D: T.Tensor((heads,), dtype),
        Y: T.Tensor((batch, seq, heads, dim), dtype),
    ):
        with T.Kernel(2, heads // block_H, batch * chunks, threads=256) as (bx, by, bz):
            C_s = T.alloc_shared((rows, state), dtype)
            CB_s = T.alloc_shared((rows, chunk), dtype)
            S_s = T.alloc_shared((dim, state), dtype)
            X_s = T.alloc_shared((chunk, dim), dtype)
            A_s = T.alloc_shared((chunk,), dtype)
            u_s = T.alloc_shared((chunk,), "float32")
            w_s = T.alloc_shared((rows,), dtype)
            left = T.alloc_fragment((rows, rows), dtype)
            first = T.alloc_fragment((rows, half), dtype)
            second = T.alloc_fragment((rows, half), dtype)
            u_0 = T.alloc_fragment((half,), "float32")
            u_1 = T.alloc_fragment((half,), "float32")
            w = T.alloc_fragment((rows,), dtype)
            from_state = T.alloc_fragment((rows, dim), "float32")
            from_left = T.alloc_fragment((rows, dim), "float32")
            acc = T.alloc_fragment((rows, dim), "float32")
            a_m = T.alloc_fragment((rows,), "float32")
            b, c, group = bz // chunks, bz % chunks, by * block_H // ratio
            row = c * chunk + bx * rows

            T.copy(C[b, row : row + rows, group, :], C_s)
            T.copy(CB[b, c, group, bx * rows : (bx + 1) * rows, :], CB_s)
            for h in T.Pipelined(block_H, num_stages=num_stages):
                T.copy(S[b, c, by * block_H + h, :, :], S_s)
                T.copy(X[b, c * chunk : (c + 1) * chunk, by * block_H + h, :], X_s)
                T.copy(A[b, by * block_H + h, c, :], A_s)
                T.copy(U[b, by * block_H + h, c, :], u_s)
                T.copy(W[b, by * block_H + h, c, :], w_s)
                T.gemm(C_s, S_s, from_state, transpose_B=True, clear_accum=True, policy=full)
                before = T.cast(A_s[rows - 1], "float32") * LOG2E
                for i in T.Parallel(rows):
                    a_m[i] = T.cast(A_s[bx * rows + i], "float32") * LOG2E
                if bx > 0:
                    T.copy(w_s, w)
                    for i, j in T.Parallel(rows, rows):
                        left[i, j] = CB_s[i, j] * w[j]
                else:
                    T.clear(left)
                T.gemm(left, X_s[0:rows, :], from_left, clear_accum=True, policy=full)
                T.copy(u_s[bx * rows : bx * rows + half], u_0)
                for i, j in T.Parallel(rows, half):
                    if i >= half:
                        first[i, j] = CB_s[i, bx * rows + j] * T.cast(T.exp2(a_m[i] - u_0[j]), dtype)
                    else:
                        value = CB_s[i, bx * rows + j] * T.cast(T.exp2(a_m[i] - u_0[j]), dtype)
                        first[i, j] = T.if_then_else(i >= j, value, 0)
                T.gemm(first, X_s[bx * rows : bx * rows + half, :], acc, clear_accum=True, policy=full)
                T.copy(u_s[bx * rows + half : (bx + 1) * rows], u_1)
                for i, j in T.Parallel(rows, half):
                    if i >= half:
                        value = CB_s[i, bx * rows + half + j] * T.cast(T.exp2(a_m[i] - u_1[j]), dtype)
                        second[i, j] = T.if_then_else(i >= half + j, value, 0)
                    else:
                        second[i, j] = 0
                T.gemm(second, X_s[bx * rows + half : (bx + 1) * rows, :], acc, policy=full)
                skip = T.cast(D[by * block_H + h], "float32")
                for i, j in T.Parallel(rows, dim):
                    acc[i, j] += from_state[i, j] * T.exp2(a_m[i])
                if bx > 0:
                    for i, j in T.Parallel(rows, dim):
                        acc[i, j] += from_left[i, j] * T.exp2(a_m[i] - before)
                for i, j in T.Parallel(rows, dim):
                    acc[i, j] += T.cast(X_s[bx * rows + i, j], "float32") * skip
                T.copy(acc, Y[b, row : row + rows, by * block_H + h, :])

    return chunk_scan_split_kernel
