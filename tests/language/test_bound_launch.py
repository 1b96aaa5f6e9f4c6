"""Launches spelled as loops over threads, parameters whose shape the program says, and unroll factors."""

from __future__ import annotations

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tests.language.reading import refused
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import For
from tilebench.language.parse import parse_prim_func

TARGETS = ["interp", "cpu", "emu:sm_90a"]


@pytest.mark.parametrize("target", TARGETS)
def test_loops_over_blocks_and_threads_are_a_launch(target: str) -> None:
    @T.prim_func
    def transpose(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (6, 32), dtype=T.float32, align=16)
        B = T.match_buffer(b, (32, 6), "float32")
        for row in T.thread_binding(6, thread="blockIdx.x"):
            for column in T.thread_binding(32, thread="threadIdx.x"):
                B[column, row] = A[row, column] + row * 100

    x = np.random.default_rng(1).standard_normal((6, 32)).astype(np.float32)
    y = np.zeros((32, 6), np.float32)
    kernel = tilebench.compile(transpose, target=target)
    assert [p.name for p in kernel.params] == ["a", "b"]
    kernel(x, y)
    np.testing.assert_array_equal(y, (x + np.arange(6, dtype=np.float32)[:, None] * 100).T)


def test_every_axis_may_have_its_loop() -> None:
    @T.prim_func
    def count(C: T.Tensor((4, 3, 2, 8), "int32")):
        for y in T.thread_binding(3, "blockIdx.y"):
            for x in T.thread_binding(2, "blockIdx.x"):
                for u in T.thread_binding(4, "threadIdx.y"):
                    for v in T.thread_binding(8, "threadIdx.x"):
                        C[u, y, x, v] = u * 1000 + y * 100 + x * 10 + v

    kernel = parse_prim_func(count)
    assert (len(kernel.grid), kernel.threads) == (2, (8, 4))
    found = np.zeros((4, 3, 2, 8), np.int32)
    tilebench.compile(count, target="cpu")(found)
    u, y, x, v = np.indices(found.shape)
    np.testing.assert_array_equal(found, u * 1000 + y * 100 + x * 10 + v)


def test_a_launch_of_loops_takes_an_eager_functions_extents() -> None:
    @tilebench.jit(target="cpu")
    def negated(A):
        N = T.const("N")
        A: T.Tensor[[N], T.float32]
        B = T.empty((N,), T.float32)
        for i in T.thread_binding(N, "blockIdx.x"):
            B[i] = -A[i]
        return B

    np.testing.assert_array_equal(negated(np.arange(5, dtype=np.float32)), -np.arange(5, dtype=np.float32))


def test_wrong_launches_are_refused() -> None:
    head = "@T.prim_func\ndef f(A: T.Tensor((8,), 'float32'), n: T.int32):\n"
    loop = "for i in T.thread_binding(2, 'blockIdx.x'):\n"
    twice = f"    {loop}        {loop}"
    assert refused(head + twice + "            A[i] = 1.0\n").code == "TB222"
    unknown = "    for i in T.thread_binding(n, 'threadIdx.x'):\n        A[i] = 1.0\n"
    assert refused(head + unknown).code == "TB531"
    part = "    B = T.match_buffer(A, (4,), elem_offset=4)\n"
    assert refused(head + part + "    with T.Kernel(1, threads=32):\n        B[0] = 1.0\n").code == "TB205"
    assert refused(head + "    with T.Kernel(1):\n        for i in T.unroll(8, unroll_factor=0):\n"
                   "            A[i] = 1.0\n").code == "TB286"  # fmt: skip


def test_an_unroll_factor_is_that_of_the_text() -> None:
    @T.prim_func
    def fill(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=1):
            for i in T.unroll(0, 64, unroll_factor=4):
                A[i] = i
            for i in T.unroll(0, 64, 16):
                A[i] = 0.0

    loops = [n for n in walk(parse_prim_func(fill).body) if isinstance(n, For)]
    assert [loop.factor for loop in loops] == [4, 0]
    text = tilebench.lower(fill, target="cuda:sm_80").kernel_source
    assert [line.strip() for line in text.splitlines() if "pragma" in line] == [
        "#pragma unroll 4",
        "#pragma unroll",
    ]
    assert "unroll(0, 64, factor=4)" in tilebench.compile(fill, target="interp").get_source("tile")
    found = np.zeros(64, np.float32)
    tilebench.compile(fill, target="cpu")(found)
    np.testing.assert_array_equal(found, np.where(np.arange(64) % 16, np.arange(64), 0))


def test_registers_are_unrolled_whole() -> None:
    @T.prim_func
    def double(A: T.Tensor((32, 16), "float32")):
        with T.Kernel(1, threads=32):
            own = T.alloc_local((16,), "float32")
            row = T.get_thread_binding()
            for i in T.unroll(16, unroll_factor=2):
                own[i] = A[row, i]
            for i in T.serial(16):
                A[row, i] = own[i] * 2

    assert "#pragma unroll 2" not in tilebench.lower(double, target="cuda:sm_80").kernel_source


def test_a_kernel_is_no_test_for_pytest() -> None:
    assert tilebench.jit(lambda: None).__test__ is False
