"""Mixtures of the themes that a user's program has: each against NumPy, on every target."""

from __future__ import annotations

import numpy as np

import tilebench.language as T
from tests.traps.running import check, numbers


def test_elements_changed_and_swapped() -> None:
    @T.prim_func
    def p(A: T.Tensor((6, 20), "float32"), B: T.Tensor((6, 20), "float32")):
        with T.Kernel(1, threads=96):
            x = T.alloc_fragment((6, 20), "float32")
            T.copy(A, x)
            for i, j in T.Parallel(6, 20):
                x[i, j] += x[i, j]
                x[i, j] *= 2
            y = T.alloc_fragment((6, 20), "float32")
            z = T.alloc_shared((6, 20), "float32")
            for i, j in T.Parallel(6, 20):
                z[i, j] = y[i, j] = x[i, j] - 1
            for i, j in T.Parallel(6, 20):
                y[i, j], z[i, j] = z[i, j] * 2, y[i, j] * 3
            for i, j in T.Parallel(6, 20):
                B[i, j] = y[i, j] + z[5 - i, j]

    a = numbers(6, 20)
    w = a * 4 - 1
    check(p, [a], w * 2 + w[::-1] * 3)


def test_a_name_keeps_the_value_that_it_was_given() -> None:
    @T.prim_func
    def p(A: T.Tensor((40,), "int32"), B: T.Tensor((40,), "int32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((40,), "int32")
            T.copy(A, x)
            for i in T.Parallel(40):
                old = x[i]
                x[i] = old * 2
                new = x[i]
                B[i] = old * 100 + new

    a = numbers(40, dtype=np.int32)
    check(p, [a], a * 102)


def test_loops_that_skip_and_leave() -> None:
    @T.prim_func
    def p(A: T.Tensor((7, 33), "int32"), B: T.Tensor((33,), "int32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((33,), "int32")
            T.clear(x)
            s = T.alloc_var("int32", 0)
            for k in range(7):
                if k % 2 == 1:
                    continue
                s = s + k
                for i in T.Parallel(33):
                    x[i] = x[i] * 2 + A[k, 32 - i] + s
                if s > 8:
                    break
            T.copy(x, B)

    a = numbers(7, 33, dtype=np.int32)
    x = np.zeros(33, np.int32)
    s = 0
    for k in range(7):
        if k % 2 == 1:
            continue
        s += k
        x = x * 2 + a[k, ::-1] + s
        if s > 8:
            break
    check(p, [a], x)


def test_a_product_with_its_left_side_in_registers() -> None:
    m, n, k = 48, 40, 32

    @T.prim_func
    def p(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=96):
            a = T.alloc_fragment((m, k), "float16")
            b = T.alloc_shared((k, n), "float16")
            c = T.alloc_fragment((m, n), "float32")
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(m, k):
                a[i, j] = a[i, j] + T.cast(j % 3, "float16")
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(c, C)

    A = numbers(m, k, dtype=np.float16)
    B = numbers(k, n, dtype=np.float16, seed=1)
    check(p, [A, B], (A + (np.arange(k) % 3).astype(np.float16)).astype(np.float32) @ B.astype(np.float32))


def test_folds_and_scans_of_a_product() -> None:
    m, n, k = 80, 24, 16

    @T.prim_func
    def p(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((n, k), "float16"),
        C: T.Tensor((m,), "float32"),
        D: T.Tensor((n,), "float32"),
    ):
        with T.Kernel(1, threads=160):
            a = T.alloc_shared((m, k), "float16")
            b = T.alloc_shared((n, k), "float16")
            c = T.alloc_fragment((m, n), "float32")
            r = T.alloc_fragment((m,), "float32")
            q = T.alloc_fragment((n,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, transpose_B=True)
            T.reduce_max(c, r, dim=1)
            T.reduce_sum(c, q, dim=0)
            T.cumsum(c, dim=1)
            for i in T.Parallel(m):
                r[i] = r[i] + c[i, n - 1]
            T.copy(r, C)
            T.copy(q, D)

    A = numbers(m, k, dtype=np.float16)
    B = numbers(n, k, dtype=np.float16, seed=1)
    c = A.astype(np.float32) @ B.astype(np.float32).T
    check(p, [A, B], c.max(1) + c.sum(1), c.sum(0))


def test_three_dimensions_turned() -> None:
    @T.prim_func
    def p(A: T.Tensor((3, 5, 7), "int32"), B: T.Tensor((3, 7), "int32"), C: T.Tensor((7, 5, 3), "int32")):
        with T.Kernel(1, threads=33):
            x = T.alloc_fragment((3, 5, 7), "int32")
            y = T.alloc_fragment((3, 7), "int32")
            z = T.alloc_fragment((7, 5, 3), "int32")
            T.copy(A, x)
            T.reduce_sum(x, y, dim=1)
            for i, j, k in T.Parallel(7, 5, 3):
                z[i, j, k] = x[k, j, i] + x[k, (j + 1) % 5, 6 - i]
            T.copy(y, B)
            T.copy(z, C)

    a = numbers(3, 5, 7, dtype=np.int32)
    check(
        p,
        [a],
        a.sum(1, dtype=np.int32),
        np.ascontiguousarray(a.transpose(2, 1, 0) + np.roll(a, -1, 1)[:, :, ::-1].transpose(2, 1, 0)),
    )


def test_a_product_of_bytes() -> None:
    m, n, k = 32, 24, 40

    @T.prim_func
    def p(A: T.Tensor((m, k), "int8"), B: T.Tensor((n, k), "int8"), C: T.Tensor((m, n), "int32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((m, k), "int8")
            b = T.alloc_shared((n, k), "int8")
            c = T.alloc_fragment((m, n), "int32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    A = np.random.default_rng(0).integers(-128, 128, (m, k)).astype(np.int8)
    B = np.random.default_rng(1).integers(-128, 128, (n, k)).astype(np.int8)
    check(p, [A, B], A.astype(np.int32) @ B.astype(np.int32).T)


def test_warp_groups_copy_a_part_each() -> None:
    @T.prim_func
    def p(A: T.Tensor((2, 40), "int32"), B: T.Tensor((2, 40), "int32")):
        with T.Kernel(1, threads=256):
            S = T.alloc_shared((2, 40), "int32")
            with T.ws(0):
                T.copy(A[0, :], S[0, :])
            with T.ws(1):
                T.copy(A[1, :], S[1, :])
            T.sync_threads()
            for i, j in T.Parallel(2, 40):
                B[i, j] = S[1 - i, 39 - j]

    a = numbers(2, 40, dtype=np.int32)
    check(p, [a], a[::-1, ::-1].copy())


def test_atomics_of_tiles_and_elements() -> None:
    @T.prim_func
    def p(A: T.Tensor((5, 13), "float16"), B: T.Tensor((5, 13), "float16"), M: T.Tensor((3,), "int32")):
        with T.Kernel(3, threads=96) as b:
            x = T.alloc_fragment((5, 13), "float16")
            T.copy(A, x)
            T.atomic_add(B, x)
            for i, j in T.Parallel(5, 13):
                T.atomic_max(M[0], T.cast(x[i, j], "int32") * (b + 1))
                T.atomic_min(M[1], T.cast(x[i, j], "int32") - b)
                T.atomic_or(M[2], 1 << (j % 5))

    a = numbers(5, 13, dtype=np.float16)
    check(
        p,
        [a],
        (a * 3 + 1).astype(np.float16),
        np.array([9, -5, 31], np.int32),
        start=[np.ones((5, 13), np.float16), np.array([-99, 99, 0], np.int32)],
    )


def test_a_pipeline_that_does_not_start_at_0() -> None:
    @T.prim_func
    def p(A: T.Tensor((9, 24), "int32"), B: T.Tensor((24,), "int32")):
        with T.Kernel(1, threads=96):
            S = T.alloc_shared((24,), "int32")
            x = T.alloc_fragment((24,), "int32")
            T.clear(x)
            for k in T.Pipelined(2, 7, num_stages=3):
                T.copy(A[8 - k, :], S)
                for i in T.Parallel(24):
                    x[i] = x[i] * 3 + S[i] - k
            T.copy(x, B)

    a = numbers(9, 24, dtype=np.int32)
    x = np.zeros(24, np.int32)
    for k in range(2, 7):
        x = x * 3 + a[8 - k] - k
    check(p, [a], x)


def test_a_copy_that_only_some_iterations_make() -> None:
    @T.prim_func
    def p(A: T.Tensor((6, 24), "int32"), B: T.Tensor((24,), "int32")):
        with T.Kernel(1, threads=96):
            S = T.alloc_shared((24,), "int32")
            x = T.alloc_fragment((24,), "int32")
            T.clear(x)
            T.fill(S, 7)
            for k in T.Pipelined(6, num_stages=2):
                if k % 2 == 0:
                    T.copy(A[k, :], S)
                for i in T.Parallel(24):
                    x[i] = x[i] * 2 + S[i]
            T.copy(x, B)

    a = numbers(6, 24, dtype=np.int32)
    x = np.zeros(24, np.int32)
    s = None
    for k in range(6):
        if k % 2 == 0:
            s = a[k]
        x = x * 2 + s
    check(p, [a], x)


def test_a_pipeline_inside_a_pipeline() -> None:
    @T.prim_func
    def p(A: T.Tensor((3, 4, 24), "int32"), W: T.Tensor((3, 24), "int32"), B: T.Tensor((24,), "int32")):
        with T.Kernel(1, threads=96):
            S = T.alloc_shared((24,), "int32")
            R = T.alloc_shared((24,), "int32")
            x = T.alloc_fragment((24,), "int32")
            T.clear(x)
            for h in T.Pipelined(3, num_stages=2):
                T.copy(W[h, :], R)
                for k in T.Pipelined(4, num_stages=3):
                    T.copy(A[h, k, :], S)
                    for i in T.Parallel(24):
                        x[i] = x[i] * 2 + S[i] * R[23 - i]
            T.copy(x, B)

    a = numbers(3, 4, 24, dtype=np.int32)
    w = numbers(3, 24, dtype=np.int32, seed=3)
    x = np.zeros(24, np.int32)
    for h in range(3):
        for k in range(4):
            x = x * 2 + a[h, k] * w[h, ::-1]
    check(p, [a, w], x)


def test_iterations_that_a_mask_leaves_out() -> None:
    @T.prim_func
    def p(A: T.Tensor((6, 24), "float32"), M: T.Tensor((6, 24), "bool"), B: T.Tensor((24,), "float32")):
        with T.Kernel(1, threads=96):
            S = T.alloc_shared((24,), "float32")
            x = T.alloc_fragment((24,), "float32")
            T.clear(x)
            for k in T.Pipelined(6, num_stages=2):
                if T.any_of(M[k, :]):
                    T.copy(A[k, :], S)
                    for i in T.Parallel(24):
                        x[i] = x[i] * 2 + S[i]
            T.copy(x, B)

    a = numbers(6, 24)
    mask = np.zeros((6, 24), bool)
    mask[1, 3] = mask[4, 23] = True
    x = np.zeros(24, np.float32)
    for k in (1, 4):
        x = x * 2 + a[k]
    check(p, [a, mask], x)
