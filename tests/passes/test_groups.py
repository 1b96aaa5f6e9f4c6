"""Tile ops under a condition on the thread: done by the whole block, with the group's values."""

from __future__ import annotations

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench.errors import SyncError

TARGETS = ("interp", "cpu", "emu:sm_80")


@T.prim_func
def softmax_beside_scale(
    X: T.Tensor((8, 16), "float32"), Y: T.Tensor((8, 16), "float32"), Z: T.Tensor((8, 16), "float32")
):
    with T.Kernel(1, threads=96):
        s = T.alloc_shared((8, 16), "float32")
        T.copy(X, s)
        if T.get_thread_binding() < 32:
            f = T.alloc_fragment((8, 16), "float32")
            m = T.alloc_fragment((8,), "float32")
            T.copy(s, f)
            for _ in T.serial(2):
                T.reduce_max(f, m, dim=1)
                for i, j in T.Parallel(8, 16):
                    f[i, j] = T.exp(f[i, j] - m[i])
                T.reduce_sum(f, m, dim=1)
                for i, j in T.Parallel(8, 16):
                    f[i, j] = f[i, j] / m[i]
            T.copy(f, Y)
        else:
            for k in T.serial(4):
                scale = X[0, k]
                for i, j in T.Parallel(8, 4):
                    Z[i, 4 * k + j] = s[i, 4 * k + j] * scale


@pytest.mark.parametrize("target", TARGETS)
def test_two_groups_of_threads_each_do_their_tile_ops(target: str) -> None:
    X = np.random.default_rng(1).standard_normal((8, 16)).astype(np.float32)
    Y, Z = np.zeros_like(X), np.zeros_like(X)
    tilebench.compile(softmax_beside_scale, target=target)(X, Y, Z)
    want = X.astype(np.float64)
    for _ in range(2):
        want = np.exp(want - want.max(1, keepdims=True))
        want /= want.sum(1, keepdims=True)
    np.testing.assert_allclose(Y, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(Z, X * np.repeat(X[0, :4], 4))


@T.prim_func
def own_and_shared_work(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        s = T.alloc_shared((64,), "float32")
        T.clear(s)
        with T.ws(0):
            if tx >= 16:
                v = X[tx]
                s[tx] = v * 2.0
                for i in T.Parallel(64):
                    Y[i] = X[i] + 1.0
        T.sync_threads()
        Y[tx] = Y[tx] + s[tx]


@pytest.mark.parametrize("target", TARGETS)
def test_what_single_threads_do_stays_under_the_condition(target: str) -> None:
    X = np.arange(64, dtype=np.float32)
    Y = np.zeros_like(X)
    tilebench.compile(own_and_shared_work, target=target)(X, Y)
    np.testing.assert_array_equal(Y, X + 1 + np.where(np.arange(64) >= 16, 2 * X, 0))


def test_a_group_that_a_value_of_the_run_decides_is_refused() -> None:
    @T.prim_func
    def some(X: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            if T.get_thread_binding() < n:
                for i in T.Parallel(64):
                    X[i] = 1.0

    with pytest.raises(SyncError, match="TB411"):
        tilebench.compile(some, target="cpu")


def test_a_value_of_one_thread_that_a_tile_op_reads_is_refused() -> None:
    @T.prim_func
    def own(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if tx < 32:
                v = X[tx]
                for i in T.Parallel(64):
                    Y[i] = v

    with pytest.raises(SyncError, match="TB411"):
        tilebench.compile(own, target="cpu")
