"""Pipelined loops whose body is under a condition: copies still run ahead, and what is left out brings
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tests.traps.running import check, numbers
from tilebench.passes.stages import Schedule, Scheduled


def masked_product(trips: int, stages: int, condition: str = "mask") -> Any:
    length = 32 * trips

    @T.prim_func
    def program(
        A: T.Tensor((64, length), "float16"),
        B: T.Tensor((length, 64), "float16"),
        mask: T.Tensor((trips,), "int32"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 32), "float16")
            B_s = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            left = T.alloc_var("int32")
            left = trips
            T.clear(c)
            for k in T.Pipelined(trips, num_stages=stages):
                start = k * 32
                if left > 0 and mask[k] != 0 if condition == "var" else mask[start // 32] != 0:
                    T.copy(A[0, start], A_s)
                    T.copy(B[start, 0], B_s)
                    T.gemm(A_s, B_s, c)
                    if condition == "var":
                        left = left - 1
            T.copy(c, C)

    return program


def schedule(program: Any, target: str) -> Schedule:
    (found,) = tilebench.compile(program, target=target).compilation.stage(Scheduled).schedules
    return found


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(
    "mask", [[1], [0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [0, 1, 0, 0, 1], [1, 0, 1, 1, 0]]
)
def test_any_part_of_the_iterations_may_be_left_out(mask: list[int], stages: int) -> None:
    n = len(mask)
    a, b = numbers(64, 32 * n, dtype=np.float16), numbers(32 * n, 64, dtype=np.float16, seed=1)
    taken = np.repeat(np.array(mask) != 0, 32)
    want = a[:, taken].astype(np.float32) @ b[taken].astype(np.float32)
    check(masked_product(n, stages), [a, b, np.array(mask, np.int32)], want)


@pytest.mark.parametrize("target", ["emu:sm_90a", "emu:sm_80"])
def test_tiles_have_as_many_versions_as_without_a_condition(target: str) -> None:
    found = schedule(masked_product(5, 3), target)
    assert found.stages == 3
    assert "iterations whose condition is false" in found.reason.text


def test_a_condition_that_the_loop_changes_keeps_copies_in_order() -> None:
    program = masked_product(5, 3, "var")
    assert "it depends on left, which the loop changes" in schedule(program, "emu:sm_80").reason.text
    a, b = numbers(64, 160, dtype=np.float16), numbers(160, 64, dtype=np.float16, seed=1)
    mask = np.array([1, 0, 1, 1, 0], np.int32)
    taken = np.repeat(mask != 0, 32)
    check(program, [a, b, mask], a[:, taken].astype(np.float32) @ b[taken].astype(np.float32))


def skipping(trips: int, odd: int) -> Any:
    """`continue`, perhaps only in iterations of one parity."""

    @T.prim_func
    def program(
        A: T.Tensor((64, 32 * trips), "float16"),
        B: T.Tensor((32 * trips, 64), "float16"),
        mask: T.Tensor((trips,), "int32"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 32), "float16")
            B_s = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(trips, num_stages=3):
                if mask[k] == 0:
                    continue
                if k % 2 == odd:
                    if mask[k] == 2:
                        continue
                T.copy(A[0, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, c)
            T.copy(c, C)

    return program


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_continue_leaves_an_iteration_out(odd: int) -> None:
    mask = np.array([0, 2, 1, 2, 0, 1], np.int32)
    a, b = numbers(64, 192, dtype=np.float16), numbers(192, 64, dtype=np.float16, seed=1)
    left = (mask == 0) | ((np.arange(6) % 2 == odd) & (mask == 2))
    taken = np.repeat(~left, 32)
    check(skipping(6, odd), [a, b, mask], a[:, taken].astype(np.float32) @ b[taken].astype(np.float32))


@pytest.mark.parametrize("target", ["emu:sm_90a", "emu:sm_80"])
def test_continue_keeps_nothing_from_running_ahead(target: str) -> None:
    @T.prim_func
    def program(
        A: T.Tensor((64, 160), "float16"), B: T.Tensor((160, 64), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128) as b:
            A_s = T.alloc_shared((64, 32), "float16")
            B_s = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(5, num_stages=3):
                if (k + b) % 3 == 1:
                    continue
                T.copy(A[0, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, c)
            T.copy(c, C)

    found = schedule(program, target)
    assert found.stages == 3
    assert "iterations whose condition is false" in found.reason.text


def both_branches() -> Any:
    @T.prim_func
    def program(
        A: T.Tensor((64, 192), "float16"),
        B: T.Tensor((192, 64), "float16"),
        D: T.Tensor((192, 64), "float16"),
        kind: T.Tensor((6,), "int32"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            A_s, rest = (T.alloc_shared((64, 32), "float16") for _ in range(2))
            B_s, D_s = (T.alloc_shared((32, 64), "float16") for _ in range(2))
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(6, num_stages=3):
                if kind[k] > 0:
                    T.copy(A[0, k * 32], A_s)
                    if kind[k] > 1:
                        T.copy(B[k * 32, 0], B_s)
                        T.gemm(A_s, B_s, c)
                    else:
                        T.copy(D[k * 32, 0], D_s)
                        T.gemm(A_s, D_s, c)
                else:
                    T.copy(A[0, k * 32], rest)
                    for i, j in T.Parallel(64, 32):
                        c[i, j] = c[i, j] + rest[i, j]
            T.copy(c, C)

    return program


@pytest.mark.parametrize("kinds", [[0, 1, 2, 0, 2, 1], [2] * 6, [0] * 6])
def test_conditions_in_conditions_and_their_other_sides(kinds: list[int]) -> None:
    a = numbers(64, 192, dtype=np.float16)
    b, d = (numbers(192, 64, dtype=np.float16, seed=n) for n in (1, 2))
    want = np.zeros((64, 64), np.float32)
    for k, kind in enumerate(kinds):
        part, rows = a[:, 32 * k : 32 * k + 32].astype(np.float32), slice(32 * k, 32 * k + 32)
        if kind:
            want += part @ (b if kind > 1 else d)[rows].astype(np.float32)
        else:
            want[:, :32] += part
    check(both_branches(), [a, b, d, np.array(kinds, np.int32)], want)
    found = schedule(both_branches(), "emu:sm_90a")
    assert "3 versions of A_s, B_s, D_s, rest" in found.reason.text


def attention_with(inner: Callable[[Any, Any, Any, Any], None], length: int) -> Any:
    """Two chained products, the second of which could trail; `inner` adds to the scores of an iteration."""

    @T.prim_func
    def program(
        Q: T.Tensor((64, 64), "float16"),
        K: T.Tensor((length, 64), "float16"),
        V: T.Tensor((length, 64), "float16"),
        bias: T.Tensor((64, length), "float16"),
        O: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            Q_s, K_s, V_s, bias_s = (T.alloc_shared((64, 64), "float16") for _ in range(4))
            s, o = (T.alloc_fragment((64, 64), "float32") for _ in range(2))
            p = T.alloc_fragment((64, 64), "float16")
            T.copy(Q, Q_s)
            T.clear(o)
            for k in T.Pipelined(length // 64, num_stages=2):
                T.copy(K[k * 64, 0], K_s)
                T.clear(s)
                T.gemm(Q_s, K_s, s, transpose_B=True)
                inner(k, bias, bias_s, s)
                T.copy(s, p)
                T.copy(V[k * 64, 0], V_s)
                T.gemm(p, V_s, o)
            T.copy(o, O)

    return program


@T.macro
def bias_of_even_blocks(k: Any, bias: Any, bias_s: Any, s: Any) -> None:
    if k % 2 == 0:
        T.copy(bias[0, k * 64], bias_s)
        for i, j in T.Parallel(64, 64):
            s[i, j] = s[i, j] + bias_s[i, j]


@T.macro
def bias_in_a_loop(k: Any, bias: Any, bias_s: Any, s: Any) -> None:
    for _ in T.serial(2 - k % 2 * 2):
        T.copy(bias[0, k * 64], bias_s)
        for i, j in T.Parallel(64, 64):
            s[i, j] = s[i, j] + bias_s[i, j]


@pytest.mark.parametrize(("inner", "times"), [(bias_of_even_blocks, 1), (bias_in_a_loop, 2)])
def test_a_tile_brought_inside_of_an_iteration_has_one_ring(inner: Any, times: int) -> None:
    length = 320
    q, bias = numbers(64, 64, dtype=np.float16), numbers(64, length, dtype=np.float16, seed=3)
    k, v = (np.sign(numbers(length, 64, dtype=np.float16, seed=n)) for n in (1, 2))
    scores = q.astype(np.float32) @ k.astype(np.float32).T
    for start in range(0, length, 128):
        scores[:, start : start + 64] += times * bias[:, start : start + 64]
    check(attention_with(inner, length), [q, k, v, bias], scores @ v.astype(np.float32))
