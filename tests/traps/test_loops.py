"""Several T.Parallel loops of different extents, orders and ranks over one fragment."""

from __future__ import annotations

import numpy as np
import pytest

import tilebench.language as T
from tests.traps.running import check, numbers


@pytest.mark.parametrize("threads", [32, 96, 128])
@pytest.mark.parametrize("n", [48, 33])
def test_a_part_then_the_whole_then_another_part(n: int, threads: int) -> None:
    @T.prim_func
    def parts(A: T.Tensor((12, n), "float32"), B: T.Tensor((12, n), "float32")):
        with T.Kernel(1, threads=threads):
            X = T.alloc_fragment((12, n), "float32")
            T.copy(A, X)
            for i, j in T.Parallel(5, n - 10):
                X[i, j] = X[i, j] * 2
            for i, j in T.Parallel(12, n):
                X[i, j] = X[i, j] + 1
            for i, j in T.Parallel(7, 10):
                X[i + 5, j + n - 10] = X[i + 5, j + n - 10] * 3
            for i in T.Parallel(12):
                X[i, 0] = 100
            T.copy(X, B)

    a = numbers(12, n)
    want = a.copy()
    want[:5, : n - 10] *= 2
    want += 1
    want[5:, n - 10 :] *= 3
    want[:, 0] = 100
    check(parts, [a], want)


@pytest.mark.parametrize("threads", [64, 96])
def test_loops_in_the_other_order(threads: int) -> None:
    @T.prim_func
    def turned(A: T.Tensor((6, 40), "int32"), B: T.Tensor((6, 40), "int32")):
        with T.Kernel(1, threads=threads):
            X = T.alloc_fragment((6, 40), "int32")
            T.copy(A, X)
            for j, i in T.Parallel(40, 6):
                X[i, j] = X[i, j] + j * 100
            for i, j in T.Parallel(6, 40):
                X[i, j] = X[i, j] * 2 + i
            T.copy(X, B)

    a = numbers(6, 40, dtype=np.int32)
    i, j = np.indices((6, 40), dtype=np.int32)
    check(turned, [a], (a + j * 100) * 2 + i)


@pytest.mark.parametrize("threads", [64, 96])
def test_one_loop_over_a_fragment_of_two_dimensions(threads: int) -> None:
    @T.prim_func
    def flat(A: T.Tensor((6, 40), "int32"), B: T.Tensor((6, 40), "int32"), C: T.Tensor((240,), "int32")):
        with T.Kernel(1, threads=threads):
            X = T.alloc_fragment((6, 40), "int32")
            Y = T.alloc_fragment((240,), "int32")
            T.copy(A, X)
            for q in T.Parallel(240):
                X[q // 40, q % 40] = X[q // 40, q % 40] + q
            for i, j in T.Parallel(6, 40):
                Y[i * 40 + j] = X[i, j] * 2
            for q in T.Parallel(120):
                Y[2 * q] = Y[2 * q] + 5
            T.copy(X, B)
            T.copy(Y, C)

    a = numbers(6, 40, dtype=np.int32)
    want = a + np.arange(240, dtype=np.int32).reshape(6, 40)
    flat_want = want.reshape(-1) * 2
    flat_want[::2] += 5
    check(flat, [a], want, flat_want)


@pytest.mark.parametrize("threads", [32, 96, 128])
def test_rows_and_elements_in_turn(threads: int) -> None:
    @T.prim_func
    def both(
        A: T.Tensor((10, 24), "float32"), B: T.Tensor((10, 24), "float32"), s: T.Tensor((10,), "float32")
    ):
        with T.Kernel(1, threads=threads):
            X = T.alloc_fragment((10, 24), "float32")
            r = T.alloc_fragment((10,), "float32")
            c = T.alloc_fragment((24,), "float32")
            T.copy(A, X)
            T.reduce_sum(X, r, dim=1)
            T.reduce_sum(X, c, dim=0)
            for i in T.Parallel(4):
                r[i] = r[i] + 10
            for i, j in T.Parallel(10, 24):
                X[i, j] = X[i, j] + r[i] - c[j]
            for i in T.Parallel(10):
                r[9 - i] = r[9 - i] * 2
            for j in T.Parallel(12):
                c[j] = c[j + 12] + c[j]
            for i, j in T.Parallel(10, 12):
                X[i, j] = X[i, j] + c[j]
            T.copy(X, B)
            T.copy(r, s)

    a = numbers(10, 24)
    r, c = a.sum(1), a.sum(0)
    r[:4] += 10
    want = a + r[:, None] - c
    want[:, :12] += c[12:] + c[:12]
    check(both, [a], want, r * 2)


def test_the_accumulator_of_a_product_in_parts() -> None:
    @T.prim_func
    def halves(
        A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 64), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 32), "float16")
            B_s = T.alloc_shared((32, 64), "float16")
            S = T.alloc_fragment((64, 64), "float32")
            T.copy(A, A_s)
            T.copy(B, B_s)
            for i, j in T.Parallel(64, 64):
                S[i, j] = T.if_then_else(i >= j, 0.0, 5.0)
            for i, j in T.Parallel(20, 30):
                S[i, j + 7] = 3.0
            T.gemm(A_s, B_s, S)
            for i, j in T.Parallel(32, 64):
                S[i, j] = -S[i, j]
            for i, j in T.Parallel(64, 17):
                S[i, j + 47] = S[i, j + 47] + 1
            T.copy(S, C)

    a, b = numbers(64, 32, dtype=np.float16), numbers(32, 64, dtype=np.float16, seed=1)
    i, j = np.indices((64, 64))
    want = np.where(i >= j, 0, 5).astype(np.float32)
    want[:20, 7:37] = 3
    want += a.astype(np.float32) @ b.astype(np.float32)
    want[:32] *= -1
    want[:, 47:] += 1
    check(halves, [a, b], want)


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_an_extent_that_changes_from_step_to_step(trips: int) -> None:
    @T.prim_func
    def grows(A: T.Tensor((16, 16), "int32"), B: T.Tensor((16, 16), "int32")):
        with T.Kernel(1, threads=96):
            X = T.alloc_fragment((16, 16), "int32")
            T.copy(A, X)
            for k in T.serial(trips):
                for i, j in T.Parallel(16, 16):
                    if i <= k * 3 and j < 16 - k:
                        X[i, j] = X[i, j] * 2 - 1
            T.copy(X, B)

    a = numbers(16, 16, dtype=np.int32)
    want = a.copy()
    for k in range(trips):
        want[: k * 3 + 1, : 16 - k] = want[: k * 3 + 1, : 16 - k] * 2 - 1
    check(grows, [a], want)
