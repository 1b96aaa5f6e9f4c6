"""Parts of shared tiles (and of fragments) in copies, fills, reductions, scans, products and atomics."""

from __future__ import annotations

import numpy as np
import pytest

import tilebench.language as T
from tests.traps.running import check, numbers


@pytest.mark.parametrize("threads", [96, 128])
def test_parts_in_copies_and_fills(threads: int) -> None:
    @T.prim_func
    def parts(A: T.Tensor((20, 30), "float32"), B: T.Tensor((24, 40), "float32")):
        with T.Kernel(1, threads=threads):
            S = T.alloc_shared((24, 40), "float32")
            T.fill(S, 9)
            T.copy(A[3:16, 5:24], S[1:14, 7:26])
            T.fill(S[20:24, 30:37], -1)
            T.clear(S[0, 0:3])
            T.copy(S[1:8, 7:20], S[15:22, 0:13])
            T.copy(S, B)

    a = numbers(20, 30)
    want = np.full((24, 40), 9, np.float32)
    want[1:14, 7:26] = a[3:16, 5:24]
    want[20:24, 30:37] = -1
    want[0, 0:3] = 0
    want[15:22, 0:13] = want[1:8, 7:20].copy()
    check(parts, [a], want)


@pytest.mark.parametrize("scope", ["shared", "fragment"])
def test_parts_that_a_loop_chooses(scope: str) -> None:
    make = T.alloc_shared if scope == "shared" else T.alloc_fragment

    @T.prim_func
    def turn(A: T.Tensor((12, 36), "int32"), B: T.Tensor((36, 12), "int32")):
        with T.Kernel(1, threads=96):
            S = make((12, 36), "int32")
            R = T.alloc_shared((36, 12), "int32")
            P = T.alloc_fragment((12, 12), "int32")
            T.copy(A, S)
            for k in T.serial(3):
                T.copy(S[:, k * 12 : k * 12 + 12], P)
                for i, j in T.Parallel(12, 12):
                    P[i, j] = P[i, j] + k
                T.copy(P, R[(2 - k) * 12 : (3 - k) * 12, :])
            T.copy(R, B)

    a = numbers(12, 36, dtype=np.int32)
    want = np.concatenate([a[:, 12 * k : 12 * k + 12] + k for k in (2, 1, 0)])
    check(turn, [a], want)


@pytest.mark.parametrize("scope", ["shared", "fragment"])
@pytest.mark.parametrize("threads", [64, 96])
def test_parts_in_reductions(scope: str, threads: int) -> None:
    make = T.alloc_shared if scope == "shared" else T.alloc_fragment

    @T.prim_func
    def folds(
        A: T.Tensor((10, 33), "float32"), rows: T.Tensor((7,), "float32"), columns: T.Tensor((11,), "float32")
    ):
        with T.Kernel(1, threads=threads):
            S = make((10, 33), "float32")
            r = T.alloc_fragment((7,), "float32")
            c = T.alloc_fragment((11,), "float32")
            T.copy(A, S)
            T.fill(c, 1)
            T.reduce_sum(S[2:9, 4:29], r, dim=1)
            T.reduce_max(S[0:5, 20:31], c, dim=0, clear=False)
            T.copy(r, rows)
            T.copy(c, columns)

    a = numbers(10, 33)
    check(folds, [a], a[2:9, 4:29].sum(1), np.maximum(a[0:5, 20:31].max(0), 1))


def test_a_reduction_into_a_part() -> None:
    @T.prim_func
    def folds(A: T.Tensor((5, 24), "float32"), B: T.Tensor((3, 5), "float32")):
        with T.Kernel(1, threads=96):
            S = T.alloc_shared((5, 24), "float32")
            R = T.alloc_shared((3, 5), "float32")
            T.copy(A, S)
            T.reduce_sum(S[:, 0:8], R[0, :], dim=1)
            T.reduce_max(S[:, 8:16], R[1, :], dim=1)
            T.reduce_min(S[:, 16:24], R[2, :], dim=1)
            T.copy(R, B)

    a = numbers(5, 24)
    check(folds, [a], np.stack([a[:, :8].sum(1), a[:, 8:16].max(1), a[:, 16:].min(1)]))


@pytest.mark.parametrize("scope", ["shared", "fragment"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_parts_in_scans(scope: str, dim: int, reverse: bool) -> None:
    make = T.alloc_shared if scope == "shared" else T.alloc_fragment

    @T.prim_func
    def scan(A: T.Tensor((9, 40), "int32"), B: T.Tensor((9, 40), "int32"), C: T.Tensor((6, 17), "int32")):
        with T.Kernel(1, threads=96):
            S = make((9, 40), "int32")
            R = make((6, 17), "int32")
            T.copy(A, S)
            T.cumsum(S[2:8, 3:20], R, dim=dim, reverse=reverse)
            T.cumsum(S[1:7, 21:38], dim=dim, reverse=reverse)
            T.copy(S, B)
            T.copy(R, C)

    a = numbers(9, 40, dtype=np.int32)

    def total(x: np.ndarray) -> np.ndarray:
        y = np.flip(x, dim) if reverse else x
        y = np.cumsum(y, dim, dtype=np.int32)
        return np.flip(y, dim) if reverse else y

    want = a.copy()
    want[1:7, 21:38] = total(a[1:7, 21:38])
    check(scan, [a], want, np.ascontiguousarray(total(a[2:8, 3:20])))


@pytest.mark.parametrize("dim", [0, -1])
def test_one_row_of_a_tile_is_scanned(dim: int) -> None:
    @T.prim_func
    def scan(A: T.Tensor((4, 50), "float32"), B: T.Tensor((4, 50), "float32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((4, 50), "float32")
            T.copy(A, S)
            for r in T.serial(4):
                T.cumsum(S[r, :], dim=dim)
            T.copy(S, B)

    a = numbers(4, 50)
    check(scan, [a], np.cumsum(a, 1, dtype=np.float32))


@pytest.mark.parametrize("trans", [False, True])
def test_parts_in_products(trans: bool) -> None:
    shape = (48, 64) if trans else (64, 48)

    @T.prim_func
    def product(
        A: T.Tensor((64, 96), "float16"), B: T.Tensor(shape, "float16"), C: T.Tensor((64, 32), "float32")
    ):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 96), "float16")
            B_s = T.alloc_shared(shape, "float16")
            acc = T.alloc_fragment((64, 32), "float32")
            T.copy(A, A_s)
            T.copy(B, B_s)
            T.clear(acc)
            for k in T.serial(3):
                if trans:
                    T.gemm(A_s[:, k * 32 : k * 32 + 32], B_s[16:48, 16:48], acc, transpose_B=True)
                else:
                    T.gemm(A_s[:, k * 32 : k * 32 + 32], B_s[16:48, 16:48], acc)
            T.copy(acc, C)

    a, b = numbers(64, 96, dtype=np.float16), numbers(*shape, dtype=np.float16, seed=1)
    af, bf = a.astype(np.float32), b.astype(np.float32)[16:48, 16:48]
    left = af[:, :32] + af[:, 32:64] + af[:, 64:]
    check(product, [a, b], left @ (bf.T if trans else bf))


def test_parts_in_atomics_and_transposes() -> None:
    @T.prim_func
    def add(A: T.Tensor((11, 23), "float32"), B: T.Tensor((30, 30), "float32")):
        with T.Kernel(3, threads=96) as b:
            S = T.alloc_shared((11, 23), "float32")
            R = T.alloc_shared((20, 13), "float32")
            T.copy(A, S)
            T.fill(R, 1)
            T.transpose(S[1:10, 2:20], R[1:19, 3:12])
            T.atomic_add(B[b * 2 : b * 2 + 18, b : b + 9], R[1:19, 3:12])
            T.atomic_add(B[25:30, 20:30], S[0:5, 0:10])

    a = numbers(11, 23)
    want = np.ones((30, 30), np.float32)
    for b in range(3):
        want[b * 2 : b * 2 + 18, b : b + 9] += a[1:10, 2:20].T
        want[25:30, 20:30] += a[0:5, 0:10]
    check(add, [a], want, start=[np.ones((30, 30), np.float32)])


def test_copies_with_extra_dimensions_of_one() -> None:
    @T.prim_func
    def heads(A: T.Tensor((2, 3, 18, 20), "float16"), B: T.Tensor((2, 18, 3, 20), "float16")):
        with T.Kernel(3, 2, threads=96) as (h, b):
            S = T.alloc_shared((18, 20), "float16")
            K = T.alloc_shared((1, 9, 1, 20), "float16")
            X = T.alloc_fragment((9, 20), "float16")
            T.copy(A[b, h, 0:18, :], S)
            T.copy(A[b, h, 9:18, :], K[0, :, 0, :])
            T.copy(K[0, :, 0, :], X)
            T.copy(S[0:9, :], B[b, 0:9, h, :])
            T.copy(X, B[b, 9:18, h, 0:20])

    a = numbers(2, 3, 18, 20, dtype=np.float16)
    check(heads, [a], np.ascontiguousarray(a.transpose(0, 2, 1, 3)))
