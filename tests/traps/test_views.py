"""Views of a tensor argument that read its bits as another type, with wider and narrower elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilebench.language as T
from tests.traps.running import check
from tilebench import compile as compile_

PAIRS = [
    ("float32", "float16"),
    ("float16", "float32"),
    ("int32", "int8"),
    ("uint8", "uint32"),
    ("int32", "float32"),
]


def shape_of(n: int, old: str, new: str) -> tuple[int, int]:
    return 32, n * np.dtype(old).itemsize // np.dtype(new).itemsize // 32


def reading(n: int, old: str, new: str) -> Any:
    shape = shape_of(n, old, new)

    @T.prim_func
    def read_view(A: T.Tensor((n,), old), B: T.Tensor(shape, new)):
        with T.Kernel(1, threads=128):
            seen = T.view(A, shape, dtype=new)
            T.copy(seen, B)

    return read_view


def writing(n: int, old: str, new: str) -> Any:
    shape = shape_of(n, old, new)

    @T.prim_func
    def write_view(A: T.Tensor(shape, new), B: T.Tensor((n,), old)):
        with T.Kernel(4, threads=64) as bx:
            seen = T.view(B, shape, dtype=new)
            for i, j in T.Parallel(8, shape[1]):
                seen[bx * 8 + i, j] = A[bx * 8 + i, j]

    return write_view


def bits(count: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Random bytes, none of them an exponent of all ones."""
    return np.random.default_rng(count).integers(0, 0x70, count, dtype=np.uint8)


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_view_reads_the_bits_of_the_tensor(old: str, new: str) -> None:
    n = 2048
    a = bits(n * np.dtype(old).itemsize).view(old)
    check(reading(n, old, new), [a], a.view(new).reshape(shape_of(n, old, new)))


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_view_writes_the_bits_of_the_tensor(old: str, new: str) -> None:
    n = 2048
    want = bits(n * np.dtype(old).itemsize).view(old)
    check(writing(n, old, new), [want.view(new).reshape(shape_of(n, old, new))], want)


def test_the_text_reads_it_through_a_pointer_of_that_type() -> None:
    text = compile_(reading(2048, "float32", "float16"), target="cpu").get_kernel_source()
    assert "f16* const" in text
    assert "__restrict__" not in text.split("tile_kernel(")[1].split(")")[0]
