"""Symbolic extents that are found from an extent with arithmetic in it."""

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench import TileError


def padded():
    n = T.dynamic("n")

    @T.prim_func
    def f(X: T.Tensor((3 * n + 1,), "int32"), Y: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.serial(n):
                Y[i] = X[3 * i] + X[3 * i + 1]

    return f


@pytest.mark.parametrize("target", ["interp", "cpu"])
@pytest.mark.parametrize("n", [0, 1, 5])
def test_the_one_unknown_of_an_extent_is_solved_for(target, n):
    m = T.dynamic("m")

    @T.prim_func
    def filled(A: T.Tensor((m * 4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.serial(4 * m):
                A[i] = m

    a = np.full(4 * n, -1, np.int32)
    tilebench.compile(filled, target=target)(a)
    np.testing.assert_array_equal(a, n)
    x, y = np.arange(3 * n + 1, dtype=np.int32), np.zeros(n, np.int32)
    tilebench.compile(padded(), target=target)(x, y)
    np.testing.assert_array_equal(y, 6 * np.arange(n) + 1)


def test_outputs_have_the_solved_extent():
    n = T.dynamic("n")

    @T.prim_func
    def f(X: T.Tensor((2 * n,), "float32"), Y: T.Tensor((n + 1,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.serial(n + 1):
                Y[i] = i

    made = tilebench.compile(f, out_idx=[1], target="cpu")(np.zeros(6, np.float32))
    assert made.tolist() == [0, 1, 2, 3]


def test_a_shape_that_no_whole_number_gives_is_refused():
    kernel = tilebench.compile(padded(), target="cpu")
    for size in (5, 0):
        with pytest.raises(TileError, match="no whole number n") as caught:
            kernel(np.zeros(size, np.int32), np.zeros(1, np.int32))
        assert caught.value.code == "TB604"
    with pytest.raises(TileError, match="expected") as caught:
        kernel(np.zeros(7, np.int32), np.zeros(3, np.int32))
    assert caught.value.code == "TB604"


def test_two_unknowns_are_not_determined_by_one_extent():
    n, m = T.dynamic("n, m")

    @T.prim_func
    def f(X: T.Tensor((n + m,), "float32")):
        with T.Kernel(1, threads=32):
            X[0] = n

    with pytest.raises(TileError) as caught:
        tilebench.compile(f, target="cpu")
    assert caught.value.code == "TB265"


def test_made_up_inputs_need_the_sizes_that_a_call_determines():
    profiler = tilebench.compile(padded(), target="cpu").get_profiler()
    with pytest.raises(ValueError, match="n is known only at the call"):
        profiler.do_bench(dynamic_symbolic_constraints={"m": 4})
    assert profiler.do_bench(dynamic_symbolic_constraints={"n": 4}, warmup=0, rep=1) > 0
