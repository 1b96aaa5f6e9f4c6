"""Fragments that are smaller than the loops over them."""

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench.errors import TypeTileError
from tilebench.passes.stages import Typed

TARGETS = ["interp", "cpu", "emu:sm_80"]


@T.prim_func
def too_small(
    A: T.Tensor((64, 4), "float32"), bias: T.Tensor((4,), "float32"), B: T.Tensor((64, 4), "float32")
):
    with T.Kernel(4, threads=64) as column:
        held = T.alloc_fragment([4], "float32")
        for i in T.Parallel(64):
            held[i] = bias[column] + A[i, column]
        for i in T.Parallel(64):
            held[i] *= 2.0
        for i in T.Parallel(64):
            B[i, column] = held[i]


@pytest.mark.parametrize("target", TARGETS)
def test_each_iteration_has_its_element(target):
    with pytest.warns(UserWarning, match="held is declared with 4 elements.*64"):
        kernel = tilebench.compile(too_small, target=target)
    a, bias = np.random.default_rng(0).random((64, 4), np.float32), np.arange(4, dtype=np.float32)
    b = np.zeros_like(a)
    if target == "cpu":
        torch = pytest.importorskip("torch")
        out = torch.zeros(64, 4)
        kernel(torch.from_numpy(a), torch.from_numpy(bias), out)
        b = out.numpy()
    else:
        kernel(a, bias, b)
    np.testing.assert_allclose(b, 2 * (a + bias), rtol=1e-6)


def test_a_report_says_so():
    with pytest.warns(UserWarning, match="given one for each iteration"):
        kernel = tilebench.compile(too_small, target="interp", pass_configs={"TL_ENABLE_FAST_MATH": True})
    assert [f.severity for f in kernel.report().findings if f.kind == "room"] == ["warning"]


def refused(program):
    with pytest.raises(TypeTileError) as caught:
        tilebench.compile(program, target="interp")
    assert caught.value.code == "TB260"


def test_a_fragment_that_a_tile_op_names_keeps_its_size():
    @T.prim_func
    def cleared(B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            held = T.alloc_fragment((8,), "float32")
            T.clear(held)
            for i in T.Parallel(64):
                held[i] = 1.0
            T.copy(held, B[0:8])

    refused(cleared)


def test_a_shifted_index_is_a_mistake():
    @T.prim_func
    def shifted(B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            held = T.alloc_fragment((64,), "float32")
            for i in T.Parallel(64):
                held[i + 1] = 1.0
            for i in T.Parallel(64):
                B[i] = held[i]

    refused(shifted)


def test_a_shared_tile_keeps_its_size():
    @T.prim_func
    def shared(B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            held = T.alloc_shared((8,), "float32")
            for i in T.Parallel(64):
                held[i] = 1.0
            for i in T.Parallel(64):
                B[i] = held[i]

    refused(shared)


def test_a_fragment_of_the_right_size_is_left_alone():
    @T.prim_func
    def right(B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            held = T.alloc_fragment((64,), "float32")
            for i in T.Parallel(64):
                held[i] = 1.0
            for i in T.Parallel(64):
                B[i] = held[i]

    kernel = tilebench.compile(right, target="interp")
    assert kernel.compilation.stage(Typed).kernel.buffers == kernel.prim.buffers
