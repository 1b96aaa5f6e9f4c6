"""Layouts chosen by the user: `T.Layout`, `T.Fragment`, and the ready-made swizzles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from tilebench.errors import LayoutError
from tilebench.ir.tile import Buffer
from tilebench.layouts import FragmentLayout, SharedLayout, from_function, row_major, swizzled


def Layout(shape: Sequence[int], forward_fn: Callable[..., Any]) -> Any:
    """A shared tile's place by a function from indices to an element offset, or to target indices."""
    return _Deferred(tuple(int(s) for s in shape), forward_fn)


class _Deferred:
    """A user's shared layout; the element size comes from the buffer that it is given to."""

    def __init__(self, shape: tuple[int, ...], forward: Callable[..., Any]) -> None:
        self.shape, self.forward = shape, forward

    def bind(self, buffer: Buffer) -> SharedLayout:
        """The layout for a buffer."""
        return from_function(self.shape, self.forward, buffer.dtype.bits)


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


def make_swizzled_layout(buffer: Buffer, k_major: bool = True, allow_pad: bool = True) -> SharedLayout:
    """The conflict-free layout of a shared tile: rows of 128, 64 or 32 bytes, XOR of 16-byte chunks."""
    del k_major, allow_pad
    return swizzled(buffer.static_shape, buffer.dtype.bits)


def make_linear_layout(buffer: Buffer) -> SharedLayout:
    """Row-major, no swizzle."""
    return row_major(buffer.static_shape, buffer.dtype.bits)
