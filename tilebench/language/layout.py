"""Layouts chosen by the user: `T.Layout`, `T.Fragment`, and the ready-made swizzles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilebench.errors import LayoutError
from tilebench.ir.tile import Buffer
from tilebench.layouts import FragmentLayout, SharedLayout, from_function, row_major, swizzled

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Layout:
    """Where an element goes: a function from indices to an offset, or to the indices of the target.

    `T.Layout((8, 64), lambda i, j: i * 64 + j)`. It has no element size: that comes from the buffer which
    `annotate_layout` gives it to.
    """

    def __init__(self, shape: Sequence[int], forward_fn: Callable[..., Any]) -> None:
        self.shape = tuple(int(s) for s in shape)
        self.forward = forward_fn

    def bind(self, buffer: Buffer) -> SharedLayout:
        """The layout for a buffer."""
        return from_function(self.shape, self.forward, buffer.dtype.bits)

    def __call__(self, *index: Any) -> tuple[Any, ...]:
        """The place of an element: the target's indices."""
        place = self.forward(*index)
        return tuple(cast("Sequence[Any]", place)) if isinstance(place, list | tuple) else (place,)

    def table(self) -> NDArray[np.int64]:
        """The place of every element: int64[*shape, rank of the target]."""
        return self._table

    @cached_property
    def _table(self) -> NDArray[np.int64]:
        found = [[int(x) for x in self(*index)] for index in np.ndindex(*self.shape)]
        return np.array(found, np.int64).reshape(*self.shape, -1)

    def get_input_shape(self) -> list[int]:
        """Extents of the elements' indices."""
        return list(self.shape)

    def get_output_shape(self) -> list[int]:
        """Extents of the target: one more than the largest place, for each of its indices."""
        return [int(n) + 1 for n in self._table.reshape(-1, self._table.shape[-1]).max(axis=0)]

    def map_forward_index(self, indices: Sequence[Any]) -> list[Any]:
        """The place of one element, as a list."""
        return list(self(*indices))

    def is_equal(self, other: Layout) -> bool:
        """Whether both put every element in the same place."""
        return self.shape == other.shape and np.array_equal(self._table, other.table())

    def expand(self, leading_shape: int | Sequence[int]) -> Layout:
        """The same for each index of new leading dimensions, which the target has too."""
        if not isinstance(leading_shape, int | list | tuple):
            raise TypeError(f"expand takes an extent or a list of extents, not {leading_shape!r}")
        lead = (leading_shape,) if isinstance(leading_shape, int) else tuple(int(n) for n in leading_shape)
        if any(n < 1 for n in lead):
            raise ValueError(f"extents are 1 or more, got {lead}")
        if not lead:
            return self
        return Layout(lead + self.shape, lambda *index: [*index[: len(lead)], *self(*index[len(lead) :])])

    def repeat(self, dim: int, factor: int) -> Layout:
        """The layout repeated `factor` times along a dimension; the target's first index says which."""
        if factor < 1:
            raise ValueError(f"factor is 1 or more, got {factor}")
        if not -len(self.shape) <= dim < len(self.shape):
            raise ValueError(f"dimension {dim} of a layout of {len(self.shape)} dimensions")
        if factor == 1:
            return self
        at = dim % len(self.shape)
        extent = self.shape[at]

        def place(*index: Any) -> list[Any]:
            inner = [x % extent if d == at else x for d, x in enumerate(index)]
            return [index[at] // extent, *self(*inner)]

        return Layout([n * factor if d == at else n for d, n in enumerate(self.shape)], place)

    def reshape(self, shape: Sequence[int]) -> Layout:
        """The same places for the elements counted through another shape, row by row."""
        fresh = tuple(int(n) for n in shape)
        if math.prod(fresh) != math.prod(self.shape):
            raise ValueError(f"{self.shape} has {math.prod(self.shape)} elements, {fresh} {math.prod(fresh)}")
        flat = self._table.reshape(*fresh, -1)
        return Layout(fresh, lambda *index: [int(x) for x in flat[index]])

    def inverse(self) -> Layout:
        """From places back to elements. Raises LayoutError TB306 where two elements share a place."""
        places = {tuple(int(x) for x in self._table[i]): i for i in np.ndindex(*self.shape)}
        extents = self.get_output_shape()
        if len(places) < math.prod(extents):
            raise LayoutError(
                "TB306",
                f"a layout of {'x'.join(map(str, self.shape))} elements has no inverse",
                why="each place of the target must hold one element",
                fix="check the function given to T.Layout",
            )
        return Layout(extents, lambda *place: list(places[place]))

    def __repr__(self) -> str:
        last = self(*(n - 1 for n in self.shape))
        return f"Layout({list(self.shape)} -> {self.get_output_shape()}, last element at {list(last)})"


MOST_ELEMENTS = 1 << 22
"""Of a fragment whose layout is a function."""


def Fragment(
    shape: Sequence[int],
    forward_fn: Callable[..., Any] | None = None,
    forward_thread_fn: Callable[..., Any] | None = None,
    replicate: int = 1,
    forward_index_fn: Callable[..., Any] | None = None,
) -> FragmentLayout:
    """A fragment's place: forward_fn(i, j[, replica]) -> (thread, register), or the two functions apart.

    Without forward_index_fn a thread keeps its elements in row-major order.
    """
    kept: dict[int, int] = {}  # elements placed so far, by thread
    if forward_fn is None and forward_thread_fn is None:
        raise LayoutError(
            "TB307",
            "T.Fragment needs forward_fn, or forward_thread_fn and forward_index_fn",
            why="they say where an element is",
            fix="T.Fragment((8, 8), lambda i, j: (thread, register))",
        )

    if math.prod(int(s) for s in shape) > MOST_ELEMENTS:
        raise LayoutError(
            "TB309",
            f"T.Fragment: {'x'.join(str(int(s)) for s in shape)} elements are more than a block can keep",
            why=f"the place of each element is looked up, of at most {MOST_ELEMENTS}",
            fix="work on a tile of fewer rows",
        )

    def both(*index: Any) -> tuple[Any, Any]:
        if forward_fn is not None:
            thread, register = forward_fn(*index)
        else:
            assert forward_thread_fn is not None, "checked above"
            thread = forward_thread_fn(*index)
            if forward_index_fn is not None:
                register = forward_index_fn(*index[: len(tuple(shape))])
            else:
                register = kept[int(thread)] = kept.get(int(thread), -1) + 1
        return thread, cast("list[Any]", register)[0] if isinstance(register, list | tuple) else register

    return (
        FragmentLayout.from_function(tuple(int(s) for s in shape), both, replicate=replicate)
        if replicate > 1
        else FragmentLayout.from_function(tuple(int(s) for s in shape), both)
    )


def make_swizzled_layout(buffer: Any, k_major: bool = True, allow_pad: bool = True) -> SharedLayout:
    """The conflict-free layout of a shared tile: rows of 128, 64 or 32 bytes, XOR of 16-byte chunks."""
    del k_major, allow_pad
    return swizzled(*_tile(buffer))


def make_wgmma_swizzled_layout(buffer: Any, continuity: Any = None, k_major: bool = True) -> SharedLayout:
    """The layout that warpgroup products read: the same swizzle."""
    del continuity, k_major
    return swizzled(*_tile(buffer))


def make_full_bank_swizzled_layout(*tile: Any) -> SharedLayout:
    """128-byte rows, three bits of XOR. Takes a buffer, or rows, columns and the bits of an element."""
    return swizzled(*_tile(*tile), span=128)


def make_half_bank_swizzled_layout(*tile: Any) -> SharedLayout:
    """64-byte rows, two bits of XOR. Takes a buffer, or rows, columns and the bits of an element."""
    return swizzled(*_tile(*tile), span=64)


def make_quarter_bank_swizzled_layout(*tile: Any) -> SharedLayout:
    """32-byte rows, one bit of XOR. Takes a buffer, or rows, columns and the bits of an element."""
    return swizzled(*_tile(*tile), span=32)


def _tile(buffer: Any, columns: int | None = None, bits: int = 16) -> tuple[tuple[int, ...], int]:
    """Shape and bits of an element."""
    if isinstance(buffer, Buffer):
        return buffer.static_shape, buffer.dtype.bits
    if columns is not None:
        return (int(buffer), int(columns)), int(bits)
    raise LayoutError(
        "TB307",
        f"a swizzled layout of a {type(buffer).__name__}",
        why="its rows are those of a tile",
        fix="give the shared buffer, or rows, columns and the bits of an element",
    )


def make_linear_layout(buffer: Buffer) -> SharedLayout:
    """Row-major, no swizzle."""
    return row_major(buffer.static_shape, buffer.dtype.bits)


def make_gemm_fragment_8x8() -> FragmentLayout:
    """An 8x8 operand as a warp holds it: thread 4 i + j // 2, register j % 2."""

    def place(i: int, j: int) -> tuple[int, int]:
        return i * 4 + j // 2, j % 2

    return Fragment((8, 8), place)


def make_gemm_fragment_8x8_transposed() -> FragmentLayout:
    """The same for the transposed operand: thread 4 j + i // 2, register i % 2."""

    def place(i: int, j: int) -> tuple[int, int]:
        return j * 4 + i // 2, i % 2

    return Fragment((8, 8), place)


def make_fully_replicated_layout_fragment(buffer: Buffer, threads: int) -> FragmentLayout:
    """Every thread has all elements, in row-major order."""
    shape = buffer.static_shape
    count = math.prod(shape)

    def place(*index: Any) -> tuple[Any, Any]:
        at = 0
        for n, i in zip(shape, index[:-1], strict=True):
            at = at * n + i
        return index[-1], at

    return (
        Fragment(shape, place, replicate=threads)
        if threads > 1
        else FragmentLayout.from_function(
            shape, lambda *index: (0, place(*index, 0)[1]), threads=1 if count else None
        )
    )
