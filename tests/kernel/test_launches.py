"""Programs of several launches: one after the other, with the same tensors."""

from __future__ import annotations

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench.errors import TileError
from tilebench.kernel.launches import Launches

TARGETS = ("interp", "cpu", "emu:sm_80")


@T.prim_func
def normalised(
    A: T.Tensor((40, 24), "float32"), sums: T.Tensor((24,), "float32"), B: T.Tensor((40, 24), "float32")
):
    with T.Kernel(3, threads=64) as bx:
        f = T.alloc_fragment((40, 8), "float32")
        s = T.alloc_fragment((8,), "float32")
        T.copy(A[0, bx * 8], f)
        T.reduce_sum(f, s, dim=0)
        T.copy(s, sums[bx * 8])
    with T.Kernel(5, threads=32) as bx:
        for i, j in T.Parallel(8, 24):
            B[bx * 8 + i, j] = A[bx * 8 + i, j] / sums[j]


@pytest.mark.parametrize("target", TARGETS)
def test_a_launch_reads_what_the_one_before_wrote(target: str) -> None:
    A = np.random.default_rng(0).random((40, 24)).astype(np.float32) + 0.5
    sums, B = np.zeros(24, np.float32), np.zeros_like(A)
    kernel = tilebench.compile(normalised, target=target)
    assert isinstance(kernel, Launches)
    assert [p.prim.grid[0].value for p in kernel.parts] == [3, 5]
    assert [p.role for p in kernel.params] == ["in", "inout", "out"]
    kernel(A, sums, B)
    np.testing.assert_allclose(B, A / A.sum(0), rtol=1e-5)
    again = np.zeros_like(A)
    kernel.bind(A, sums, again)()
    np.testing.assert_array_equal(again, B)


@pytest.mark.parametrize("target", TARGETS)
def test_outputs_are_allocated_once_for_all_launches(target: str) -> None:
    @tilebench.jit(target=target)
    def twice(A):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        B = T.empty((N,), "float32")
        for _ in range(2):
            with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
                for i in T.Parallel(32):
                    if bx * 32 + i < N:
                        B[bx * 32 + i] = A[bx * 32 + i]
                        A[bx * 32 + i] = A[bx * 32 + i] + 1.0
        return B

    torch = pytest.importorskip("torch")
    A = torch.arange(50, dtype=torch.float32)
    B = twice(A)
    assert torch.equal(B, torch.arange(50) + 1.0)
    assert torch.equal(A, torch.arange(50) + 2.0)


def test_what_is_of_one_launch_is_asked_of_one() -> None:
    kernel = tilebench.compile(normalised, target="interp")
    with pytest.raises(TileError, match="TB277"):
        tilebench.compiler.analyse(kernel.prim, kernel.target)
    assert kernel.parts[0].report() is not None


def test_tiles_and_blocks_of_an_earlier_launch_are_refused() -> None:
    @T.prim_func
    def tile(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8,), "float32")
            T.copy(A, s)
        with T.Kernel(1, threads=32):
            T.copy(s, A)

    @T.prim_func
    def block(A: T.Tensor((8,), "float32")):
        with T.Kernel(8, threads=32) as bx:
            A[bx] = 1.0
        with T.Kernel(8, threads=32) as by:
            A[by] = A[bx]

    @T.prim_func
    def inside(A: T.Tensor((8,), "float32")):
        with T.Kernel(8, threads=32) as bx, T.Kernel(8, threads=32):
            A[bx] = 1.0

    for program, code in ((tile, "TB105"), (block, "TB105"), (inside, "TB108")):
        with pytest.raises(TileError, match=code):
            tilebench.compile(program, target="interp")
