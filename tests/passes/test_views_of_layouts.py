"""A shared tile with a layout of its own, read through views: the same bytes on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench.cuda.intrinsics.layout.mma_layout import make_mma_swizzle_layout
from tilebench.errors import LayoutError

TARGETS = ("interp", "cpu", "emu:sm_80")


def reread(shape: Any, dtype: str, new_shape: Any, new_dtype: str, on_view: bool = False) -> Any:
    @T.prim_func
    def program(A: T.Tensor(shape, dtype), B: T.Tensor(new_shape, new_dtype)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared(shape, dtype)
            v = T.view(s, new_shape, dtype=new_dtype)
            T.annotate_layout({v if on_view else s: make_mma_swizzle_layout(v if on_view else s)})
            T.copy(A, s)
            T.copy(v, B)

    return program


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "dtype", "new_shape", "new_dtype", "on_view"),
    [
        ((32, 32), "float32", (1024,), "float32", False),
        ((32, 32), "float32", (32, 64), "float16", False),
        ((32, 64), "float16", (32, 32), "float32", False),
        ((48, 64), "float16", (48, 32), "float32", True),
        ((1024,), "float32", (32, 32), "float32", True),
    ],
)
def test_a_view_of_a_swizzled_tile_reads_what_the_tile_holds(
    target: str, shape: Any, dtype: str, new_shape: Any, new_dtype: str, on_view: bool
) -> None:
    A = np.random.default_rng(5).integers(0, 1000, shape).astype(dtype)
    B = np.zeros(new_shape, new_dtype)
    tilebench.compile(reread(shape, dtype, new_shape, new_dtype, on_view), target=target)(A, B)
    assert B.tobytes() == A.tobytes()


def test_a_layout_that_takes_wider_elements_apart_is_refused() -> None:
    @T.prim_func
    def program(B: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((16, 32), "float16")
            v = T.view(s, (16, 16), dtype="float32")
            T.annotate_layout({s: T.Layout((16, 32), lambda i, j: j * 16 + i)})
            T.clear(s)
            T.copy(v, B)

    with pytest.raises(LayoutError, match=r"TB309.*takes elements of v apart"):
        tilebench.compile(program, target="emu:sm_80")
