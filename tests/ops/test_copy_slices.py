"""Copies between slices of different sizes: what TileLang defines is done and told, the rest is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tilebench
from tilebench.errors import TileError
from tilebench.kernel.program import define

HEAD = """@T.prim_func
def f(A: T.Tensor((8, 16), 'float32'), B: T.Tensor((8, 16), 'float32')):
    with T.Kernel(1, threads=32):
        S = T.alloc_shared((8, 16), 'float32')
"""


@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_80"])
def test_the_source_says_how_much_of_a_larger_slice_is_filled(target: str) -> None:
    text = HEAD + "        T.copy(A[:, 2:7], B[:, 4:11])\n"
    with pytest.warns(UserWarning, match="the slice of B is 8x7, that of A 8x5: 8x5 elements are copied"):
        program = define(text)[0]
    kernel = tilebench.compile(program, target=target)
    a, b = np.random.default_rng(0).standard_normal((2, 8, 16)).astype(np.float32)
    want = b.copy()
    want[:, 4:9] = a[:, 2:7]
    kernel(a, b)
    np.testing.assert_array_equal(b, want)


@pytest.mark.parametrize(
    "line",
    [
        "T.copy(A[:, :3], B[:, :2])",  # more than there is room for
        "T.copy(A[:4, :3], B[:3, :4])",
        "T.copy(A[:, :2], S[:, :3])",  # TileLang reads three columns here
        "T.copy(A[:, :2], B)",
        "T.copy(A[0:1, :2], B[:, :2])",  # a row is not repeated
    ],
)
def test_other_sizes_are_refused(line: str) -> None:
    with pytest.raises(TileError) as caught:
        tilebench.compile(define(HEAD + f"        {line}\n")[0], target="interp")
    assert caught.value.code == "TB280"
    assert caught.value.at is not None
    assert caught.value.at.line == 5
