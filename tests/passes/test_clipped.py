"""Accesses outside of tensors that the language defines are no errors on the host; wrong guards stay some."""

from __future__ import annotations

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench.errors import TypeTileError

TARGETS = ("interp", "cpu", "emu:sm_80")


def rows_of(wrong: int) -> object:
    @T.prim_func
    def some_rows(X: T.Tensor((48, 40), "float32"), n: T.int32, Y: T.Tensor((48, 40), "float32")):
        with T.Kernel(2, 2, threads=64) as (bx, by):
            f = T.alloc_fragment((32, 32), "float32")
            T.copy(X[by * 32, bx * 32], f)
            for i, j in T.Parallel(32, 32):
                if by * 32 + i < n + wrong:
                    Y[by * 32 + i, bx * 32 + j] = f[i, j] + 1.0

    return some_rows


@pytest.mark.parametrize("target", TARGETS)
def test_a_guarded_store_ends_where_its_tensor_does(target: str) -> None:
    X = np.random.default_rng(0).standard_normal((48, 40)).astype(np.float32)
    Y = np.zeros_like(X)
    tilebench.compile(rows_of(0), target=target)(X, 41, Y)
    np.testing.assert_array_equal(Y[:41], X[:41] + 1)
    assert not Y[41:].any()


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_a_guard_that_is_too_wide_is_still_an_error(target: str) -> None:
    X = np.zeros((48, 40), np.float32)
    with pytest.raises(TypeTileError, match="TB273"):
        tilebench.compile(rows_of(1), target=target)(X, 48, X.copy())


@T.prim_func
def gathered(X: T.Tensor((48, 40), "float32"), n: T.int32, Y: T.Tensor((64, 64), "float32")):
    with T.Kernel(2, 2, threads=64) as (bx, by):
        s = T.alloc_shared((32, 32), "float32")
        for i, j in T.Parallel(32, 32):
            s[i, j] = T.if_then_else(by * 32 + i < n, X[by * 32 + i, bx * 32 + j] * 2.0 + 1.0, -1.0)
        T.copy(s, Y[by * 32, bx * 32])


@pytest.mark.parametrize("target", TARGETS)
def test_a_guarded_load_reads_zero_where_its_tensor_ends(target: str) -> None:
    X = np.random.default_rng(0).standard_normal((48, 40)).astype(np.float32)
    Y = np.zeros((64, 64), np.float32)
    tilebench.compile(gathered, target=target)(X, 41, Y)
    want = np.full((64, 64), -1.0, np.float32)
    want[:41] = 1.0
    want[:41, :40] = X[:41] * 2 + 1
    np.testing.assert_array_equal(Y, want)


@T.prim_func
def padded(A: T.Tensor((7, 5), "float32"), B: T.Tensor((16, 8), "float32")):
    with T.Kernel(1, threads=32):
        T.annotate_safe_value({A: -9.0})
        for i, j in T.Parallel(16, 8):
            B[i, j] = A[i - 1, j]


@pytest.mark.parametrize("target", TARGETS)
def test_an_element_outside_reads_as_the_safe_value(target: str) -> None:
    A = np.arange(35, dtype=np.float32).reshape(7, 5)
    B = np.zeros((16, 8), np.float32)
    tilebench.compile(padded, target=target)(A, B)
    want = np.full((16, 8), -9.0, np.float32)
    want[1:8, :5] = A
    np.testing.assert_array_equal(B, want)
