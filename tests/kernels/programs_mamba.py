"""Mamba-2's chunk_scan with decay that is a product wherever it can be.

Within a chunk, a row l takes exp(A[l] - A[k]) of column k. A chunk is four tiles of columns. In a tile that
lies left of the row and ends with column r this is exp(A[l] - A[r]) exp(A[r] - A[k]), both at most 1: the
second factor is one for each column, computed once for all rows, the first one for each row and tile. Only on
the diagonal each element needs an exponential of its own. Arithmetic on the weights is of float16, two at a
time. What all heads share, C and CB, stays in registers, where products take their left operands from.
"""

from __future__ import annotations

from typing import Any

import tilebench.language as T

LOG2E = 1.44269504
LARGEST = 65504.0
"""Of float16. Above the diagonal CB is 0, and what it is multiplied with must be finite."""


def chunk_scan_weights(batch: int, seq: int, heads: int, chunk: int = 256, dtype: str = "float16") -> Any:
    """What `chunk_scan_split` takes beside A, (batch, heads, chunks, chunk): U = A log2(e) - log2(dt), and
    W = exp2(A[r] log2(e) - U), r the last column of the quarter of the chunk that the column is in.
    """
    chunks, tile, some = seq // chunk, chunk // 4, 8

    @T.prim_func
    def chunk_scan_weights_kernel(
        dt: T.Tensor((batch, heads, chunks, chunk), dtype),
        A: T.Tensor((batch, heads, chunks, chunk), dtype),
        U: T.Tensor((batch, heads, chunks, chunk), "float32"),
        W: T.Tensor((batch, heads, chunks, chunk), dtype),
    ):
        with T.Kernel(chunks // some, heads, batch, threads=256) as (bx, by, bz):
            for k, j in T.Parallel(some, chunk):
                c = bx * some + k
                u = T.cast(A[bz, by, c, j], "float32") * LOG2E - T.log2(T.cast(dt[bz, by, c, j], "float32"))
                U[bz, by, c, j] = u
                last = T.cast(A[bz, by, c, j // tile * tile + tile - 1], "float32") * LOG2E
                W[bz, by, c, j] = T.exp2(last - u)

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
    block_H: int = 40,
    num_stages: int = 2,
) -> Any:
    """`chunk_scan` (programs_scan.py) with half a chunk of rows and block_H heads to a block; dt is positive.

    Two warpgroups have a tile of rows each, and no thread waits for another. A head takes a product of the
    state, of the first tile of the block's own square (for the upper warpgroup on the diagonal, for the lower
    one left of it), of the two tiles left of the square (the lower half of a chunk has them), and of the
    second tile of the square. D counts on the diagonal. What threads read comes before products are issued,
    behind which their loads would queue. U, W from `chunk_scan_weights`.
    """
    chunks, ratio = seq // chunk, heads // groups
    rows, tile = chunk // 2, chunk // 4
    full = T.GemmWarpPolicy.FullRow

    @T.macro
    def factors(A_s, w_s, start, a_m, r, w):
        """Of rows, and of the columns from `start` on."""
        last = T.cast(A_s[start + tile - 1], "float32") * LOG2E
        for i in T.Parallel(rows):
            r[i] = T.cast(T.exp2(a_m[i] - last), dtype)
        T.copy(w_s[start : start + tile], w)

    @T.macro
    def left(cb, r, w, m, X_s, start, acc):
        """The product of a tile that lies left of all rows."""
        for i, j in T.Parallel(rows, tile):
            m[i, j] = cb[i, j] * (w[j] * r[i])
        T.gemm(m, X_s[start : start + tile, :], acc, policy=full)

    @T.prim_func
    def chunk_scan_split_kernel(
        CB: T.Tensor((batch, chunks, groups, chunk, chunk), dtype),
        X: T.Tensor((batch, seq, heads, dim), dtype),
        U: T.Tensor((batch, heads, chunks, chunk), "float32"),
        W: T.Tensor((batch, heads, chunks, chunk), dtype),
        A: T.Tensor((batch, heads, chunks, chunk), dtype),
        C: T.Tensor((batch, seq, groups, state), dtype),
        S: T.Tensor((batch, chunks, heads, dim, state), dtype),
        D: T.Tensor((heads,), dtype),
        Y: T.Tensor((batch, seq, heads, dim), dtype),
    ):
        with T.Kernel(2, heads // block_H, batch * chunks, threads=256) as (bx, by, bz):
            S_s = T.alloc_shared((dim, state), dtype)
            X_s = T.alloc_shared((chunk, dim), dtype)
            A_s = T.alloc_shared((chunk,), dtype)
            u_s = T.alloc_shared((chunk,), "float32")
            w_s = T.alloc_shared((chunk,), dtype)
            c_m = T.alloc_fragment((rows, state), dtype)
            cb_0, cb_1, cb_2, cb_3 = (T.alloc_fragment((rows, tile), dtype) for _ in range(4))
            m_0, m_1, m_2, m_3 = (T.alloc_fragment((rows, tile), dtype) for _ in range(4))
            w_0, w_1, w_2 = (T.alloc_fragment((tile,), dtype) for _ in range(3))
            r_0, r_1, r_2 = (T.alloc_fragment((rows,), dtype) for _ in range(3))
            u_2, u_3 = (T.alloc_fragment((tile,), "float32") for _ in range(2))
            eye = T.alloc_fragment((rows, tile), dtype)
            a_m = T.alloc_fragment((rows,), "float32")
            acc = T.alloc_fragment((rows, dim), "float32")
            b, c, group = bz // chunks, bz % chunks, by * block_H // ratio
            lower = (bx + bz) % 2  # blocks that follow each other have the two halves in turn
            row, start = c * chunk + lower * rows, lower * rows

            T.copy(C[b, row : row + rows, group, :], c_m)
            if lower > 0:
                T.copy(CB[b, c, group, start : start + rows, 0:tile], cb_0)
                T.copy(CB[b, c, group, start : start + rows, tile:rows], cb_1)
            T.copy(CB[b, c, group, start : start + rows, start : start + tile], cb_2)
            T.copy(CB[b, c, group, start : start + rows, start + tile : start + rows], cb_3)
            for i, j in T.Parallel(rows, tile):
                eye[i, j] = T.if_then_else(i % tile == j, 1, 0)
                if i < j:
                    cb_2[i, j] = 0
                if i < tile + j:
                    cb_3[i, j] = 0
            for h in T.Pipelined(block_H, num_stages=num_stages):
                skip = D[by * block_H + h]
                T.copy(S[b, c, by * block_H + h, :, :], S_s)
                T.copy(X[b, c * chunk : (c + 1) * chunk, by * block_H + h, :], X_s)
                T.copy(A[b, by * block_H + h, c, :], A_s)
                T.copy(U[b, by * block_H + h, c, :], u_s)
                T.copy(W[b, by * block_H + h, c, :], w_s)
                for i in T.Parallel(rows):
                    a_m[i] = T.cast(A_s[start + i], "float32") * LOG2E
                factors(A_s, w_s, start, a_m, r_2, w_2)
                T.copy(u_s[start : start + tile], u_2)
                T.gemm(c_m, S_s, acc, transpose_B=True, clear_accum=True, policy=full)
                for i, j in T.Parallel(rows, tile):
                    if i >= tile:
                        m_2[i, j] = cb_2[i, j] * (w_2[j] * r_2[i])
                    else:
                        weight = T.cast(T.min(T.exp2(a_m[i] - u_2[j]), LARGEST), dtype)
                        m_2[i, j] = T.fma(cb_2[i, j], weight, eye[i, j] * skip)
                for i, j in T.Parallel(rows, dim):
                    acc[i, j] *= T.exp2(a_m[i])
                T.gemm(m_2, X_s[start : start + tile, :], acc, policy=full)
                if lower > 0:
                    factors(A_s, w_s, 0, a_m, r_0, w_0)
                    factors(A_s, w_s, tile, a_m, r_1, w_1)
                    left(cb_0, r_0, w_0, m_0, X_s, 0, acc)
                    left(cb_1, r_1, w_1, m_1, X_s, tile, acc)
                T.copy(u_s[start + tile : start + rows], u_3)
                for i, j in T.Parallel(rows, tile):
                    if i >= tile:
                        weight = T.cast(T.min(T.exp2(a_m[i] - u_3[j]), LARGEST), dtype)
                        m_3[i, j] = T.fma(cb_3[i, j], weight, eye[i, j] * skip)
                    else:
                        m_3[i, j] = 0
                T.gemm(m_3, X_s[start + tile : start + rows, :], acc, policy=full)
                T.copy(acc, Y[b, row : row + rows, by * block_H + h, :])

    return chunk_scan_split_kernel
