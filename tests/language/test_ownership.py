"""What a T.Parallel loop may index: tiles, not a thread's own array; fragments by extents that are known."""

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench import TileError


def refused(program, code, words):
    """The ValueError that compiling the program gives."""
    with pytest.raises(ValueError, match=words) as caught:
        tilebench.compile(program, target="cpu")
    assert isinstance(caught.value, TileError)
    assert caught.value.code == code
    assert caught.value.at is not None


def test_an_array_of_each_thread_is_not_indexed_by_a_parallel_loop():
    @T.prim_func
    def stored(Y: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            mine = T.alloc_local((8,), "float32")
            for i in T.Parallel(8):
                mine[7 - i] = 1

    @T.prim_func
    def read_in_a_nest(Y: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            mine = T.alloc_local((8,), "float32")
            for k in T.serial(8):
                mine[k] = k
            for i in T.Parallel(2):
                for j in T.Parallel(4):
                    Y[i * 4 + j] = mine[i * 4 + j]

    @T.prim_func
    def of_unknown_extent(Y: T.Tensor((8,), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            mine = T.alloc_local((8,), "float32")
            for i in T.Parallel(n):
                mine[i] = 1

    for program in (stored, read_in_a_nest, of_unknown_extent):
        refused(program, "TB415", "mine is indexed by T.Parallel loop variable [ij]")


def test_a_fragment_is_not_indexed_by_a_loop_of_unknown_extent():
    @T.prim_func
    def plain(Y: T.Tensor((8,), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((8,), "float32")
            T.clear(tile)
            for i in T.Parallel(n):
                tile[i % 8] = 1
            T.copy(tile, Y)

    @T.prim_func
    def nested(Y: T.Tensor((8,), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((8,), "float32")
            T.clear(tile)
            for i in T.Parallel(n // 4):
                for j in T.Parallel(4):
                    tile[i * 4 + j] = 1
            T.copy(tile, Y)

    refused(plain, "TB226", "tile is indexed by i")
    refused(nested, "TB226", "tile is indexed by i")


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_an_array_filled_in_each_iteration_belongs_to_it(target):
    @T.prim_func
    def f(X: T.Tensor((32,), "float32"), Y: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            powers = T.alloc_local((4,), "float32")
            for i in T.Parallel(32):
                for k in T.vectorized(4):
                    powers[k] = X[i] * (k + 1)
                Y[i] = powers[0] + 10 * powers[3]

    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    tilebench.compile(f, target=target)(x, y)
    np.testing.assert_array_equal(y, x + 40 * x)
