"""Barriers and other steps of the block under conditions that differ between threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tests.traps.running import EMULATED, TARGETS, check, numbers, refused


def barrier_of_half() -> Any:
    @T.prim_func
    def program(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            if t < 32:
                T.sync_threads()  # HERE
            A[t] = 1.0

    return program


def barrier_in_a_loop_of_each_thread() -> Any:
    @T.prim_func
    def program(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            for _ in T.serial(t % 3):
                T.sync_threads()  # HERE
            A[t] = 1.0

    return program


def barrier_while_a_thread_wants() -> Any:
    @T.prim_func
    def program(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            left = T.alloc_var("int32")
            left = t
            while left > 0:
                left = left - 1
                T.sync_threads()  # HERE
            A[t] = left

    return program


def barrier_where_data_say() -> Any:
    @T.prim_func
    def program(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            if A[t] > 0.0:
                T.sync_threads()  # HERE
            A[t] = 1.0

    return program


def barrier_after_threads_left() -> Any:
    @T.prim_func
    def program(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            for k in T.serial(4):
                if k == t:
                    T.loop_break()
                T.sync_threads()  # HERE
            A[t] = 1.0

    return program


def copy_of_half() -> Any:
    @T.prim_func
    def program(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64,), "float32")
            if T.get_thread_binding() < 32:
                T.copy(A, S)
            T.copy(S, B)

    return program


def reduction_of_half() -> Any:
    @T.prim_func
    def program(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=64):
            X = T.alloc_fragment((8, 8), "float32")
            x = T.alloc_fragment((8,), "float32")
            T.copy(A, X)
            T.clear(x)
            if T.get_thread_binding() % 2 == 0:
                T.reduce_sum(X, x, dim=1)  # HERE
            T.copy(x, B)

    return program


def count_of_half() -> Any:
    @T.prim_func
    def program(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            if t < 32:
                A[t] = T.syncthreads_count(t > 3)  # HERE

    return program


BARRIERS = [
    barrier_of_half,
    barrier_in_a_loop_of_each_thread,
    barrier_while_a_thread_wants,
    barrier_where_data_say,
    barrier_after_threads_left,
    count_of_half,
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", BARRIERS, ids=lambda f: f.__name__)
def test_a_barrier_that_some_threads_do_not_reach_is_refused(make: Any, target: str) -> None:
    refused(make, "TB410", "HERE", target)


@pytest.mark.parametrize("target", TARGETS)
def test_an_op_of_the_block_that_some_threads_do_not_reach_is_refused(target: str) -> None:
    refused(reduction_of_half, "TB411", "HERE", target)


def test_a_copy_of_some_threads_is_a_copy() -> None:
    a = numbers(64)
    check(copy_of_half(), [a], a)


@pytest.mark.parametrize("threads", [33, 96])
def test_barriers_under_conditions_of_the_block_are_barriers(threads: int) -> None:
    @T.prim_func
    def turn(
        A: T.Tensor((3, threads), "int32"), flag: T.Tensor((1,), "int32"), B: T.Tensor((3, threads), "int32")
    ):
        with T.Kernel(3, threads=threads) as b:
            t = T.get_thread_binding()
            S = T.alloc_shared((threads,), "int32")
            S[t] = A[b, t]
            if b > 0 and flag[0] > 0:
                T.sync_threads()
                v = S[threads - 1 - t]
                T.sync_threads()
                S[t] = v + b
            for k in T.serial(b):
                T.sync_threads()
                w = S[(t + 1) % threads]
                T.sync_threads()
                S[t] = w * 2 + k
            T.sync_threads()
            B[b, t] = S[t]

    a = numbers(3, threads, dtype=np.int32)
    want = a.copy()
    for b in range(3):
        s = a[b]
        if b > 0:
            s = s[::-1] + b
        for k in range(b):
            s = np.roll(s, -1) * 2 + k
        want[b] = s
    check(turn, [a, np.array([1], np.int32)], want)


def missing_barrier(n: int) -> Any:
    @T.prim_func
    def program(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=n):
            t = T.get_thread_binding()
            S = T.alloc_shared((n,), "int32")
            S[t] = A[t]
            B[t] = S[n - 1 - t]

    return program


@pytest.mark.parametrize("threads", [64, 96])
def test_a_barrier_left_out_between_threads_is_put_in(threads: int) -> None:
    a = numbers(threads, dtype=np.int32)
    check(missing_barrier(threads), [a], a[::-1].copy())


@pytest.mark.parametrize("target", EMULATED)
def test_without_it_the_race_is_found(target: str) -> None:
    from tilebench.kernel.emulate import emulate

    kernel = tilebench.compile(
        missing_barrier(64), target="interp", pass_configs={"TL_DISABLE_THREAD_STORAGE_SYNC": True}
    )
    a = numbers(64, dtype=np.int32)
    found = emulate(kernel, a, np.zeros_like(a), target=target).findings
    assert [f.code for f in found] == ["TB430"]
