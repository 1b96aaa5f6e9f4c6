"""Fragments read at shifted, turned, divided and looked-up indices: elements that other threads hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilebench.language as T
from tests.traps.running import TARGETS, Array, check, numbers, refused


def through(body: Any, m: int, n: int, threads: int) -> Any:
    """A program that loads X, lets `body` fill Y from it, and stores Y."""

    @T.prim_func
    def program(A: T.Tensor((m, n), "float32"), B: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=threads):
            X = T.alloc_fragment((m, n), "float32")
            Y = T.alloc_fragment((m, n), "float32")
            T.copy(A, X)
            T.clear(Y)
            body(X, Y, m, n)
            T.copy(Y, B)

    return program


@T.macro
def from_the_right(X: Any, Y: Any, m: Any, n: Any):
    for i, j in T.Parallel(m, n - 1):
        Y[i, j] = X[i, j + 1] - X[i, j]


@T.macro
def from_below_with_a_guard(X: Any, Y: Any, m: Any, n: Any):
    for i, j in T.Parallel(m, n):
        if i > 0:
            Y[i, j] = X[i - 1, j]
        else:
            Y[i, j] = X[m - 1, j]


@T.macro
def from_behind(X: Any, Y: Any, m: Any, n: Any):
    for i, j in T.Parallel(m, n):
        Y[i, j] = X[m - 1 - i, n - 1 - j]


@T.macro
def around(X: Any, Y: Any, m: Any, n: Any):
    for i, j in T.Parallel(m, n):
        Y[i, j] = X[(i + 2) % m, (j + 3) % n] + X[i, (j - 1) % n]


@T.macro
def pairs(X: Any, Y: Any, m: Any, n: Any):
    for i, j in T.Parallel(m, n):
        Y[i, j] = X[i // 2, j ^ 1 if n % 2 == 0 else j]


@T.macro
def selected(X: Any, Y: Any, m: Any, n: Any):
    for i, j in T.Parallel(m, n):
        Y[i, j] = T.if_then_else(j < n - 1, X[i, T.min(j + 1, n - 1)], 0.0)


def expected(name: str, x: Array) -> Array:
    m, n = x.shape
    y = np.zeros_like(x)
    i, j = np.indices(x.shape)
    if name == "from_the_right":
        y[:, :-1] = x[:, 1:] - x[:, :-1]
    elif name == "from_below_with_a_guard":
        y = np.roll(x, 1, 0)
    elif name == "from_behind":
        y = x[::-1, ::-1].copy()
    elif name == "around":
        y = x[(i + 2) % m, (j + 3) % n] + np.roll(x, 1, 1)
    elif name == "pairs":
        y = x[i // 2, j ^ 1 if n % 2 == 0 else j]
    else:
        y[:, :-1] = x[:, 1:]
    return y


BODIES = [from_the_right, from_below_with_a_guard, from_behind, around, pairs, selected]
NAMES = ["from_the_right", "from_below_with_a_guard", "from_behind", "around", "pairs", "selected"]


@pytest.mark.parametrize(("m", "n", "threads"), [(16, 32, 128), (7, 12, 96), (5, 33, 33)])
@pytest.mark.parametrize(("name", "body"), zip(NAMES, BODIES, strict=True), ids=NAMES)
def test_a_fragment_read_at_another_place(name: str, body: Any, m: int, n: int, threads: int) -> None:
    a = numbers(m, n)
    check(through(body, m, n, threads), [a], expected(name, a))


@pytest.mark.parametrize("threads", [64, 96])
def test_a_fragment_turned(threads: int) -> None:
    @T.prim_func
    def turn(A: T.Tensor((9, 20), "int32"), B: T.Tensor((20, 9), "int32")):
        with T.Kernel(1, threads=threads):
            X = T.alloc_fragment((9, 20), "int32")
            Y = T.alloc_fragment((20, 9), "int32")
            T.copy(A, X)
            for i, j in T.Parallel(20, 9):
                Y[i, j] = X[j, i]
            T.copy(Y, B)

    a = numbers(9, 20, dtype=np.int32)
    check(turn, [a], np.ascontiguousarray(a.T))


def test_a_fragment_read_where_data_says() -> None:
    @T.prim_func
    def gather(A: T.Tensor((50,), "float32"), at: T.Tensor((50,), "int32"), B: T.Tensor((50,), "float32")):
        with T.Kernel(1, threads=96):
            X = T.alloc_fragment((50,), "float32")
            where = T.alloc_fragment((50,), "int32")
            Y = T.alloc_fragment((50,), "float32")
            T.copy(A, X)
            T.copy(at, where)
            for i in T.Parallel(50):
                Y[i] = X[where[i]]
            T.copy(Y, B)

    a = numbers(50)
    at = np.random.default_rng(1).integers(0, 50, 50).astype(np.int32)
    check(gather, [a, at], a[at])


def test_a_fragment_written_where_data_says() -> None:
    @T.prim_func
    def scatter(A: T.Tensor((50,), "float32"), at: T.Tensor((50,), "int32"), B: T.Tensor((50,), "float32")):
        with T.Kernel(1, threads=96):
            X = T.alloc_fragment((50,), "float32")
            Y = T.alloc_fragment((50,), "float32")
            T.copy(A, X)
            T.fill(Y, 7)
            for i in T.Parallel(50):
                Y[at[i]] = X[i]
            T.copy(Y, B)

    a = numbers(50)
    at = np.random.default_rng(1).permutation(50).astype(np.int32)
    want = np.empty_like(a)
    want[at] = a
    check(scatter, [a, at], want)


def test_a_row_of_a_product_read_by_all() -> None:
    """The accumulator's layout is the instruction's; its neighbours are with other threads."""

    @T.prim_func
    def differences(
        A: T.Tensor((64, 32), "float16"), B: T.Tensor((64, 32), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 32), "float16")
            B_s = T.alloc_shared((64, 32), "float16")
            S = T.alloc_fragment((64, 64), "float32")
            D = T.alloc_fragment((64, 64), "float32")
            T.copy(A, A_s)
            T.copy(B, B_s)
            T.clear(S)
            T.gemm(A_s, B_s, S, transpose_B=True)
            for i, j in T.Parallel(64, 64):
                D[i, j] = S[(i + 1) % 64, j] - S[i, (j + 63) % 64] + S[0, j]
            T.copy(D, C)

    a, b = numbers(64, 32, dtype=np.float16), numbers(64, 32, dtype=np.float16, seed=1)
    s = a.astype(np.float32) @ b.astype(np.float32).T
    check(differences, [a, b], np.roll(s, -1, 0) - np.roll(s, 1, 1) + s[0])


def shift_in_place() -> Any:
    @T.prim_func
    def program(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            X = T.alloc_fragment((64,), "float32")
            T.copy(A, X)
            for i in T.Parallel(63):
                X[i] = X[i + 1]  # HERE
            T.copy(X, B)

    return program


def first_of_a_row() -> Any:
    @T.prim_func
    def program(A: T.Tensor((8, 64), "float32"), B: T.Tensor((8, 64), "float32")):
        with T.Kernel(1, threads=64) as b:
            S = T.alloc_shared((8, 64), "float32")
            T.copy(A, S)
            for i, j in T.Parallel(8, 64):
                old = S[i, 0]  # HERE
                S[i, j] = S[i, j] - old
            T.copy(S, B)

    return program


def written_then_read() -> Any:
    @T.prim_func
    def program(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32")):
        with T.Kernel(4, threads=64) as b:
            S = T.alloc_shared((4, 64), "float32")
            for i in T.Parallel(64):
                S[b, i] = A[b, i]
                B[b, i] = S[b, 63 - i]  # HERE

    return program


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [shift_in_place, first_of_a_row, written_then_read])
def test_iterations_that_read_what_others_write_are_refused(make: Any, target: str) -> None:
    refused(make, "TB413", "HERE", target)


@pytest.mark.parametrize("scope", ["shared", "fragment"])
def test_iterations_that_read_what_they_alone_write_are_not(scope: str) -> None:
    make = T.alloc_shared if scope == "shared" else T.alloc_fragment

    @T.prim_func
    def swap(A: T.Tensor((70,), "float32"), B: T.Tensor((70,), "float32")):
        with T.Kernel(1, threads=96):
            X = make((70,), "float32")
            T.copy(A, X)
            for i in T.Parallel(35):
                left = X[i]
                X[i] = X[69 - i]
                X[69 - i] = left
            for i in T.Parallel(20):
                X[i] = X[i + 50]
            for i in T.Parallel(70):
                if i % 2 == 0:
                    X[i] = X[i] + X[i + 1]
            T.copy(X, B)

    a = numbers(70)
    want = a[::-1].copy()
    want[:20] = want[50:]
    want[::2] += want[1::2]
    check(swap, [a], want)
