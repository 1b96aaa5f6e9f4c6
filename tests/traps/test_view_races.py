"""Races between a tensor and its view of another dtype: one memory, two names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench.backends.base import TensorArgument
from tilebench.backends.interp import build
from tilebench.errors import SyncError
from tilebench.kernel.emulate import emulate

Program = Any
TARGETS = ("interp", "emu:sm_90a", "emu:sm_80")


@T.prim_func
def as_integers(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "int32")):
    with T.Kernel(4, threads=32) as b:
        V = T.view(X, (64,), dtype="int32")
        for i in T.Parallel(16):
            X[b * 16 + i] = b
        for i in T.Parallel(16):
            Y[b * 16 + i] = V[(b * 16 + 16 + i) % 64]


@T.prim_func
def as_rows(X: T.Tensor((64,), "float32"), Y: T.Tensor((8, 8), "float32")):
    with T.Kernel(4, threads=32) as b:
        V = T.view(X, (8, 8))
        for i in T.Parallel(16):
            X[b * 16 + i] = b
        for i, j in T.Parallel(2, 8):
            Y[b * 2 + i, j] = V[(b * 2 + 2 + i) % 8, j]


@T.prim_func
def as_halves(X: T.Tensor((64,), "float32"), Y: T.Tensor((4,), "float32")):
    """Block b writes the second half of an element that block b + 1 reads."""
    with T.Kernel(4, threads=32) as b:
        V = T.view(X, (128,), dtype="float16")
        V[b * 32 + 31] = 1.0
        Y[b] = X[(b * 16 + 31) % 64]


@T.prim_func
def both_write(X: T.Tensor((64,), "float32")):
    with T.Kernel(4, threads=32) as b:
        V = T.view(X, (256,), dtype="uint8")
        for i in T.Parallel(16):
            X[b * 16 + i] = b + 1
        for i in T.Parallel(16):
            V[(b * 64 + 64 + 3 + 4 * i) % 256] = 7


@T.prim_func
def tiles(X: T.Tensor((64, 64), "float32"), Y: T.Tensor((64, 128), "float16")):
    with T.Kernel(4, threads=128) as b:
        V = T.view(X, (64, 128), dtype="float16")
        f, h = T.alloc_fragment((16, 64), "float32"), T.alloc_fragment((16, 128), "float16")
        T.fill(f, b)
        T.copy(f, X[b * 16, 0])
        T.copy(V[(b * 16 + 16) % 64, 0], h)
        T.copy(h, Y[b * 16, 0])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("program", [as_integers, as_rows, as_halves, both_write, tiles])
def test_blocks_that_meet_in_one_memory_under_two_names_are_told(program: Program, target: str) -> None:
    with pytest.raises(SyncError, match="TB431"):
        tilebench.run(program, target=target, check="full")


def test_both_names_are_said() -> None:
    with pytest.raises(SyncError) as caught:
        tilebench.run(as_integers, target="emu:sm_90a")
    assert "X[16] (the memory of V): block 0 thread 0 reads it" in str(caught.value)


@T.prim_func
def apart(X: T.Tensor((64,), "float32"), Y: T.Tensor((128,), "float16")):
    """Every block stays with its own bytes, by three names."""
    with T.Kernel(4, threads=32) as b:
        V = T.view(X, (128,), dtype="float16")
        W = T.view(X, (8, 8))
        for i in T.Parallel(32):
            V[b * 32 + i] = b
        for i, j in T.Parallel(2, 8):
            W[b * 2 + i, j] = W[b * 2 + i, j]
        for i in T.Parallel(16):
            X[b * 16 + i] = X[b * 16 + i]
        for i in T.Parallel(32):
            Y[b * 32 + i] = V[b * 32 + i]


@pytest.mark.parametrize("target", [*TARGETS, "cpu"])
def test_blocks_that_stay_apart_are_not_accused(target: str) -> None:
    y = np.zeros(128, np.float16)
    result = tilebench.run(apart, args=(np.zeros(64, np.float32), y), target=target, check="full")
    assert not [f for f in result.report.findings if f.kind in ("race", "unwritten")]
    np.testing.assert_array_equal(y, np.repeat(np.arange(4), 32).astype(np.float16))


@T.prim_func
def written_by_view(Y: T.Tensor((64,), "float32")):
    with T.Kernel(4, threads=32) as b:
        V = T.view(Y, (128,), dtype="float16")
        for i in T.Parallel(32):
            if b * 32 + i != 77:
                V[b * 32 + i] = 1.0


def test_an_element_half_of_which_a_view_wrote_is_not_written() -> None:
    kernel = tilebench.compile(written_by_view, target="interp")
    assert emulate(kernel, np.zeros(64, np.float32)).unwritten == {"Y": 1}
    watched = build(kernel.compilation.last, kernel.target, check_races=True)
    watched.launch([TensorArgument(0, (64,), (1,), np.zeros(64, np.float32))], {}, (4,))
    assert [f.text for f in watched.findings] == [
        "1 of 64 elements of Y are never written, the first is Y[38]"
    ]


@T.prim_func
def one_nest(X: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=32):
        V = T.view(X, (128,), dtype="float16")
        for i in T.Parallel(60):
            X[i] = V[2 * i + 9]


@T.prim_func
def own_halves(X: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=32):
        V = T.view(X, (128,), dtype="float16")
        for i in T.Parallel(60):
            X[i] = V[2 * i] + V[2 * i + 1]


def test_iterations_that_meet_in_one_memory_are_told() -> None:
    with pytest.raises(SyncError, match=r"TB430.*V\[9\] is read by i=0 and written by i=4"):
        tilebench.run(one_nest, target="interp", check="full")
    assert tilebench.run(own_halves, target="interp", check="full").report.ok is not False
