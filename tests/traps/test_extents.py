"""Widths, numbers of threads and tails that are no powers of two."""

from __future__ import annotations

import numpy as np
import pytest

import tilebench.language as T
from tests.traps.running import check, numbers


@pytest.mark.parametrize("threads", [32, 33, 96, 160])
@pytest.mark.parametrize(("block", "dtype"), [((16, 24), "float16"), ((7, 13), "int8"), ((5, 33), "float32")])
def test_tiles_whose_tails_hang_over_the_edge(threads: int, block: tuple[int, int], dtype: str) -> None:
    bm, bn = block
    M, N = 37, 53

    @T.prim_func
    def shift_up(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
            S = T.alloc_shared((bm, bn), dtype)
            X = T.alloc_fragment((bm, bn), dtype)
            T.copy(A[by * bm, bx * bn], S)
            T.copy(S, X)
            for i, j in T.Parallel(bm, bn):
                X[i, j] = X[i, j] + T.cast(i - j, dtype)
            T.copy(X, B[by * bm, bx * bn])

    a = numbers(M, N, dtype=dtype)
    i, j = np.indices((M, N))
    check(shift_up, [a], (a + (i % bm - j % bn)).astype(dtype))


@pytest.mark.parametrize(("M", "N", "K"), [(37, 41, 53), (65, 129, 47), (16, 8, 16), (1, 9, 3)])
@pytest.mark.parametrize("threads", [128, 256])
def test_products_whose_tails_are_nothing(M: int, N: int, K: int, threads: int) -> None:
    bm, bn, bk = 64, 32, 32

    @T.prim_func
    def product(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
            A_s = T.alloc_shared((bm, bk), "float16")
            B_s = T.alloc_shared((bk, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=2):
                T.copy(A[by * bm, k * bk], A_s)
                T.copy(B[k * bk, bx * bn], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C[by * bm, bx * bn])

    a, b = numbers(M, K, dtype=np.float16), numbers(K, N, dtype=np.float16, seed=1)
    check(product, [a, b], a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("m", "n", "k", "threads"), [(48, 24, 48, 96), (80, 40, 16, 160), (16, 104, 32, 32)])
def test_products_of_tiles_that_are_no_powers_of_two(m: int, n: int, k: int, threads: int) -> None:
    @T.prim_func
    def product(
        A: T.Tensor((m, k), "float16"), B: T.Tensor((n, k), "float16"), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(1, threads=threads):
            A_s = T.alloc_shared((m, k), "float16")
            B_s = T.alloc_shared((n, k), "float16")
            acc = T.alloc_fragment((m, n), "float32")
            T.copy(A, A_s)
            T.copy(B, B_s)
            T.clear(acc)
            T.gemm(A_s, B_s, acc, transpose_B=True)
            T.copy(acc, C)

    a, b = numbers(m, k, dtype=np.float16), numbers(n, k, dtype=np.float16, seed=1)
    check(product, [a, b], a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize(("m", "n", "k", "threads"), [(5, 7, 3, 33), (17, 31, 9, 96)])
def test_products_that_no_instruction_has(m: int, n: int, k: int, threads: int) -> None:
    @T.prim_func
    def product(
        A: T.Tensor((m, k), "float32"), B: T.Tensor((k, n), "float32"), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(1, threads=threads):
            A_s = T.alloc_shared((m, k), "float32")
            B_s = T.alloc_shared((k, n), "float32")
            acc = T.alloc_fragment((m, n), "float32")
            T.copy(A, A_s)
            T.copy(B, B_s)
            T.gemm(A_s, B_s, acc, clear_accum=True)
            T.copy(acc, C)

    a, b = numbers(m, k), numbers(k, n, seed=1)
    check(product, [a, b], a @ b)


@pytest.mark.parametrize(
    ("m", "n", "threads"), [(3, 5, 32), (33, 100, 96), (6, 129, 160), (1, 1, 64), (65, 2, 33)]
)
@pytest.mark.parametrize("dim", [0, 1])
def test_reductions_over_odd_widths(m: int, n: int, threads: int, dim: int) -> None:
    left = n if dim == 0 else m

    @T.prim_func
    def folds(
        A: T.Tensor((m, n), "float32"),
        total: T.Tensor((left,), "float32"),
        most: T.Tensor((left,), "float32"),
        size: T.Tensor((left,), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            X = T.alloc_fragment((m, n), "float32")
            s = T.alloc_fragment((left,), "float32")
            x = T.alloc_fragment((left,), "float32")
            a = T.alloc_fragment((left,), "float32")
            T.copy(A, X)
            T.reduce_sum(X, s, dim=dim)
            T.fill(x, 2)
            T.reduce_max(X, x, dim=dim, clear=False)
            T.reduce_absmax(X, a, dim=dim)
            T.copy(s, total)
            T.copy(x, most)
            T.copy(a, size)

    a = numbers(m, n)
    check(folds, [a], a.sum(dim), np.maximum(a.max(dim), 2), np.abs(a).max(dim))


@pytest.mark.parametrize(("m", "n", "threads"), [(3, 37, 96), (33, 5, 32), (7, 129, 160)])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_over_odd_widths(m: int, n: int, threads: int, dim: int, reverse: bool) -> None:
    @T.prim_func
    def scan(A: T.Tensor((m, n), "int32"), B: T.Tensor((m, n), "int32"), C: T.Tensor((m, n), "int32")):
        with T.Kernel(1, threads=threads):
            S = T.alloc_shared((m, n), "int32")
            X = T.alloc_fragment((m, n), "int32")
            T.copy(A, S)
            T.copy(A, X)
            T.cumsum(S, dim=dim, reverse=reverse)
            T.cummax(X, dim=dim, reverse=reverse)
            T.copy(S, B)
            T.copy(X, C)

    a = numbers(m, n, dtype=np.int32)
    turned = np.flip(a, dim) if reverse else a
    total, most = np.cumsum(turned, dim, dtype=np.int32), np.maximum.accumulate(turned, dim)
    back = (np.flip(total, dim), np.flip(most, dim)) if reverse else (total, most)
    check(scan, [a], *back)


@pytest.mark.parametrize(("M", "N"), [(1, 1), (31, 33), (64, 50)])
def test_extents_known_at_the_call_only(M: int, N: int) -> None:
    m, n = T.dynamic("m, n")

    @T.prim_func
    def turn(A: T.Tensor((m, n), "float16"), B: T.Tensor((n, m), "float16"), s: T.Tensor((m,), "float32")):
        with T.Kernel(T.ceildiv(m, 24), threads=96) as b:
            tile = T.alloc_shared((24, 20), "float16")
            turned = T.alloc_shared((20, 24), "float16")
            X = T.alloc_fragment((24, 20), "float32")
            part = T.alloc_fragment((24,), "float32")
            T.clear(part)
            for c in T.serial(T.ceildiv(n, 20)):
                T.copy(A[b * 24, c * 20], tile)
                T.transpose(tile, turned)
                T.copy(turned, B[c * 20, b * 24])
                T.copy(tile, X)
                T.reduce_sum(X, part, dim=1, clear=False)
            T.copy(part, s[b * 24])

    a = numbers(M, N, dtype=np.float16)
    check(turn, [a], np.ascontiguousarray(a.T), a.astype(np.float32).sum(1))


def test_rows_of_softmax_with_a_width_of_100() -> None:
    """2**x of whole numbers and a sum that is a power of two: exact."""

    @T.prim_func
    def softmax(A: T.Tensor((6, 100), "float32"), B: T.Tensor((6, 100), "float32")):
        with T.Kernel(2, threads=96) as b:
            X = T.alloc_fragment((3, 100), "float32")
            m = T.alloc_fragment((3,), "float32")
            s = T.alloc_fragment((3,), "float32")
            T.copy(A[b * 3, 0], X)
            T.reduce_max(X, m, dim=1)
            for i, j in T.Parallel(3, 100):
                X[i, j] = T.exp2(X[i, j] - m[i])
            T.reduce_sum(X, s, dim=1)
            for i, j in T.Parallel(3, 100):
                X[i, j] = X[i, j] / s[i]
            T.copy(X, B[b * 3, 0])

    a = np.full((6, 100), -2.0, np.float32)
    for row in range(6):
        a[row, row * 7 : row * 7 + 3] = 5.0 + row
        a[row, 90:] = -np.inf
        a[row, 60:64] = 3.0 + row  # 4 / 4
    a[a == -2.0] = -np.inf
    weight = np.exp2(a - a.max(1, keepdims=True))
    assert np.all(weight.sum(1) == 4)
    check(softmax, [a], weight / 4)


@pytest.mark.parametrize(("threads", "first", "holding"), [(128, 32, 64), (160, 96, 32), (64, 0, 32)])
def test_fragments_laid_over_some_of_the_threads(threads: int, first: int, holding: int) -> None:
    rows, width = 3, 256
    each = width // holding

    @T.prim_func
    def program(A: T.Tensor((rows, width), "int32"), B: T.Tensor((rows, width), "int32")):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((rows, width), "int32")
            sums = T.alloc_fragment((rows,), "int32")
            T.annotate_layout(
                {
                    x: T.Fragment((rows, width), lambda i, j: (first + j // each, i * each + j % each)),
                    sums: T.Fragment((rows,), lambda i, copy: (first + copy, i), replicate=holding),
                }
            )
            T.copy(A, x)
            T.reduce_sum(x, sums, dim=1)
            for i, j in T.Parallel(rows, width):
                B[i, j] = x[i, j] * 2 - sums[i]

    a = numbers(rows, width, dtype=np.int32)
    check(program, [a], a * 2 - a.sum(1, keepdims=True, dtype=np.int32))
