"""Register arrays: NumPy arrays [count, threads] in compute form; reads, writes and initialisation.

An index is one of: an int (the same element in all threads), an array over loop axes (the same element in all
threads for each iteration of loops that run as one), or an array with the threads as last axis; `columns`
(arange of the threads) is given in the last case only. The axes of several consecutive elements come first:
[elements, loops..., threads].
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np


def spread(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """np.broadcast_to, at no cost when there is nothing to do."""
    if type(values) is np.ndarray and values.shape == shape:
        return values
    return np.broadcast_to(values, shape)


def extent(threads: int, *values: Any) -> tuple[int, ...]:
    """The shape [loops..., threads] that values (None is left out) broadcast to."""
    shape: tuple[int, ...] = (threads,)
    for value in values:
        other = () if value is None else np.shape(value)
        if other and other != shape:
            shape = np.broadcast_shapes(shape, other)
    return shape


def _elements(index: Any, count: int) -> Any:
    array = np.asarray(index)
    return array + np.arange(count).reshape((count,) + (1,) * array.ndim)


def read_rows(registers: np.ndarray, index: Any, columns: Any, count: int) -> np.ndarray:
    """`count` consecutive elements from `index` on: [count, loops..., threads]."""
    if columns is not None:
        return registers[_elements(index, count), columns]
    if isinstance(index, int):
        return registers[index : index + count]
    return registers[_elements(index, count)]


def write_rows(
    registers: np.ndarray, index: Any, columns: Any, count: int, values: np.ndarray, mask: Any
) -> None:
    """Write values [count, loops..., threads] to consecutive elements where `mask` holds (None: all).

    Values that are the same in all iterations may come without the loops' axes.
    """
    if isinstance(index, int) and mask is None and columns is None:
        registers[index : index + count] = values
        return
    rows = _elements(index, count)
    missing = rows.ndim + (columns is None) - np.ndim(values)
    if missing > 0 and np.ndim(values) > 1:
        values = values.reshape(values.shape[:1] + (1,) * missing + values.shape[1:])
    if mask is not None:
        _masked(registers, rows, columns, values, np.asarray(mask))
    elif columns is not None:
        registers[rows, columns] = values
    else:
        registers[rows] = values


def write(registers: np.ndarray, index: Any, columns: Any, value: Any, mask: np.ndarray) -> None:
    """Write one element a thread where `mask` holds."""
    if columns is None and isinstance(index, int):
        if mask.ndim == 1:
            np.copyto(registers[index], value, where=mask, casting="unsafe")
            return
        index = np.asarray(index)
    _masked(registers, np.asarray(index), columns, value, mask)


def _masked(registers: np.ndarray, rows: np.ndarray, columns: Any, value: Any, mask: np.ndarray) -> None:
    if columns is None:
        rows = rows[..., None]
    across = cast("np.ndarray", np.arange(registers.shape[1]) if columns is None else columns)
    shape = np.broadcast_shapes(rows.shape, across.shape, mask.shape, np.shape(value))
    active = np.broadcast_to(mask, shape)
    place = np.broadcast_to(rows, shape)[active], np.broadcast_to(across, shape)[active]
    registers[place] = np.broadcast_to(value, shape)[active]


class Validity:
    """Which elements of a register array have been written, per thread."""

    __slots__ = ("complete", "known")

    def __init__(self, count: int, threads: int) -> None:
        self.known = np.zeros((count, threads), dtype=bool)
        self.complete = False

    def wrote(self, index: Any, columns: Any, count: int, mask: Any) -> bool:
        """Note a write; true when every element is now known."""
        write_rows(self.known, index, columns, count, np.True_, mask)  # type: ignore[arg-type]
        self.complete = bool(self.known.all())
        return self.complete

    def missing(self, index: Any, columns: Any, count: int, mask: Any) -> np.ndarray | None:
        """Where a read meets elements never written: [count, loops..., threads], or None."""
        if isinstance(index, int) and columns is None:
            index = max(0, min(index, self.known.shape[0] - count))
        known = read_rows(self.known, index, columns, count)
        if known.all():
            return None
        bad = ~known if mask is None else ~known & mask
        return bad if bad.any() else None
