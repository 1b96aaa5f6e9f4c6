"""Tensors of more than 2**31 - 1 elements: the indices into them, and the guards, are of 64 bits."""

import numpy as np
import pytest
import torch

import tilebench
import tilebench.language as T
from tilebench.ir.dtype import int32, int64
from tilebench.ir.expr import Binary
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import Parallel, Store
from tilebench.kernel.args import evaluate
from tilebench.language.parse import parse_prim_func
from tilebench.passes.check import check
from tilebench.targets import parse

LARGE = 2**31 + 1000


def filled(n):
    @T.prim_func
    def f(X: T.Tensor((n,), "int8")):
        with T.Kernel(T.ceildiv(n, 512), threads=128) as bx:
            for i in T.Parallel(512):
                if bx * 512 + i < n:
                    X[bx * 512 + i] = 3

    return f


def pieces(n):
    kernel = check(parse_prim_func(filled(n)), parse("cpu")).kernel
    nest = next(s for s in walk(kernel.body) if isinstance(s, Parallel))
    store = next(s for s in walk(kernel.body) if isinstance(s, Store))
    guard = next(e for e in walk(kernel.body) if isinstance(e, Binary) and e.op == "lt")
    return kernel.blocks[0], nest.vars[0], store.indices[0], guard.left


def test_an_index_beyond_32_bits_is_the_number_that_is_meant():
    for n in (LARGE, T.dynamic("n", "int64")):
        bx, i, index, guard = pieces(n)
        for e in (index, guard):
            assert e.dtype == int64
            assert all(x.dtype == int64 for x in walk(e) if isinstance(x, Binary))
            assert evaluate(e, {bx: 2**22 + 1, i: 7}) == 2**31 + 519


def test_small_tensors_are_indexed_in_32_bits():
    for n in (2**31 - 1, T.dynamic("n")):
        _, _, index, _ = pieces(n)
        assert index.dtype == int32


@pytest.mark.parametrize("target", ["cpu"])
def test_elements_behind_2_to_the_31_are_reached(target):
    """One element stands for all of them: a stride of 0."""

    @T.prim_func
    def f(X: T.StridedTensor((LARGE,), (0,), "int32"), Y: T.Tensor((512,), "int32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(512):
                Y[i] = X[(2**22 - 1) * 512 + i + 900]

    y = np.zeros(512, np.int32)
    tilebench.compile(f, target=target)(torch.full((1,), 7, dtype=torch.int32).expand(LARGE), y)
    assert (y == 7).all()
