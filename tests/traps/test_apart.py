"""Threads under a condition of their own that use what others of them wrote: a barrier is needed where none
can stand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tests.traps.running import TARGETS, check, numbers, refused
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import SyncThreads
from tilebench.passes.stages import Synchronised


def barriers(program: Any) -> int:
    body = tilebench.compile(program, target="emu:sm_90a").compilation.stage(Synchronised).body
    return sum(isinstance(n, SyncThreads) for n in walk(body))


@pytest.mark.parametrize("group", [48, 63, 2])
def test_a_group_reverses_its_elements(group: int) -> None:
    @T.prim_func
    def program(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64,), "float32")
            t = T.get_thread_binding()
            if t < group:
                S[t] = A[t]
                B[t] = S[group - 1 - t]
            else:
                B[t] = A[t]

    a = numbers(64)
    check(program, [a], np.concatenate([a[:group][::-1], a[group:]]))
    assert barriers(program) == 1


def test_names_and_conditions_that_data_decide_are_kept() -> None:
    @T.prim_func
    def program(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64,), "float32")
            t = T.get_thread_binding()
            v = T.alloc_var("float32")
            v = A[t]
            S[t] = 0.0
            if v > 0.0:
                x = v * 2.0
                S[t] = x
                v = -5.0  # the condition is not asked again
                y = S[(t + 1) % 64]
                S[t] = y + x
                v = v + S[63 - t] + x
            B[t] = v

    a = numbers(64)
    s = np.where(a > 0, 2 * a, 0)
    s = np.where(a > 0, np.roll(s, -1) + 2 * a, 0)
    check(program, [a], np.where(a > 0, s[::-1] + 2 * a - 5, a).astype(np.float32))


def test_both_sides_and_conditions_in_conditions() -> None:
    @T.prim_func
    def program(A: T.Tensor((96,), "float32"), B: T.Tensor((96,), "float32")):
        with T.Kernel(1, threads=96):
            S = T.alloc_shared((96,), "float32")
            t = T.get_thread_binding()
            if t < 40:
                S[t] = A[t]
                if t < 20:
                    y = S[39 - t]
                    S[t] = y + 1.0
                    B[t] = S[19 - t] + y
                else:
                    B[t] = A[t]
            else:
                S[t] = A[t] * 3.0
                z = S[135 - t]
                B[t] = z

    a = numbers(96)
    y = a[:40][::-1][:20]
    check(program, [a], np.concatenate([(y + 1)[::-1] + y, a[20:40], (3 * a[40:])[::-1]]))


@pytest.mark.parametrize("threads", [64, 256])
def test_a_tree_of_sums_under_a_condition(threads: int) -> None:
    half = threads // 2
    steps = half.bit_length() - 1

    @T.prim_func
    def program(A: T.Tensor((threads,), "int32"), B: T.Tensor((3,), "int32")):
        with T.Kernel(1, threads=threads):
            S = T.alloc_shared((half,), "int32")
            t = T.get_thread_binding()
            if t < half:
                S[t] = A[t] + A[t + half]
                for i in T.serial(steps):
                    if t < (half // 2) >> i:
                        S[t] = S[t] + S[t + ((half // 2) >> i)]
                if t < 3:
                    B[t] = S[0]

    a = numbers(threads, dtype=np.int32)
    check(program, [a], np.full(3, a.sum(), np.int32))


def test_elements_are_read_before_they_are_written_again() -> None:
    @T.prim_func
    def program(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64,), "int32")
            t = T.get_thread_binding()
            S[t] = A[t]
            for k in T.serial(3):
                if t < 50:
                    x = S[49 - t]
                    S[t] = x * 2 + k
            B[t] = S[t]

    a = numbers(64, dtype=np.int32)
    s = a.copy()
    for k in range(3):
        s[:50] = s[:50][::-1] * 2 + k
    check(program, [a], s)


def test_a_warp_that_meets_by_itself_needs_no_barrier() -> None:
    @T.prim_func
    def program(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64,), "int32")
            t = T.get_thread_binding()
            if t < 32:
                S[t] = A[t]
                T.sync_warp()
                B[t] = S[31 - t]
            else:
                B[t] = A[t]

    a = numbers(64, dtype=np.int32)
    check(program, [a], np.concatenate([a[:32][::-1], a[32:]]))
    assert barriers(program) == 0


def test_elements_of_ones_own_need_nothing() -> None:
    @T.prim_func
    def program(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64,), "int32")
            t = T.get_thread_binding()
            if t % 3 > 0:
                S[63 - t] = A[t]
                B[t] = S[63 - t] + 1
            else:
                B[t] = A[t]

    a = numbers(64, dtype=np.int32)
    check(program, [a], (a + (np.arange(64) % 3 > 0)).astype(np.int32))
    assert barriers(program) == 0


def neighbours_in_a_loop_of_each_thread() -> Any:
    @T.prim_func
    def program(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64,), "int32")
            t = T.get_thread_binding()
            for i in T.serial(A[t]):
                S[t] = i
                B[t] = S[63 - t]  # HERE

    return program


def neighbours_while_a_thread_wants() -> Any:
    @T.prim_func
    def program(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64,), "int32")
            t = T.get_thread_binding()
            left = T.alloc_var("int32")
            left = A[t]
            if t < 50:
                while left > 0:
                    S[t] = left
                    left = left - S[49 - t]  # HERE
            B[t] = left

    return program


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [neighbours_in_a_loop_of_each_thread, neighbours_while_a_thread_wants])
def test_where_no_barrier_can_stand_it_is_an_error(make: Any, target: str) -> None:
    refused(make, "TB416", "HERE", target)
