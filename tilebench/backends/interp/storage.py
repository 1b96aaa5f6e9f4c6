"""Where the values of one block live: tensors of the call, tiles of the block, and arrays of each thread.

Tiles and private arrays are kept in compute form, except where a view shows the same bytes as another dtype:
those are kept in storage form. Memory that nobody has written holds NaN (floats) or 0xA5 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tilebench.backends.interp.arithmetic import settle
from tilebench.backends.interp.sharing import Sharing
from tilebench.ir.dtype import DType, decode, encode
from tilebench.ir.tile import Buffer


@dataclass
class Cell:
    """The storage behind one buffer and its views.

    data: [lead..., *shape], lead being (lanes, *iteration axes) for private buffers and nothing for others;
    raw: storage form; lead: number of leading axes; valid: what has been written, same shape as data (None:
    not tracked); sharing: which block touched an element of a tensor (None: not tracked).
    """

    data: np.ndarray
    dtype: DType
    raw: bool
    lead: int = 0
    valid: np.ndarray | None = None
    sharing: Sharing | None = None

    def seen_by(self, buffer: Buffer, shape: tuple[int, ...]) -> Sharing | None:
        """`sharing` by the elements of a buffer of this shape, the cell's own or a view of it."""
        sharing = self.sharing
        return sharing if sharing is None or buffer.view_of is None else sharing.window(buffer, shape)

    def values(self, part: np.ndarray, dtype: DType) -> np.ndarray:
        """A part of the data in compute form."""
        return decode(part, dtype) if self.raw else part

    def stored(self, values: np.ndarray, dtype: DType) -> np.ndarray:
        """Values (any float or int array) as this cell keeps them, rounded to dtype."""
        if self.raw:
            return encode(values, dtype)
        if values.dtype != dtype.compute_dtype:
            values = values.astype(dtype.compute_dtype)
            return np.asarray(settle(values, dtype))
        return values


def poison(shape: tuple[int, ...], dtype: DType, raw: bool) -> np.ndarray:
    """Fresh memory: NaN for floats, 0xA5 bytes for integers, True for booleans."""
    kind = dtype.storage_dtype if raw else dtype.compute_dtype
    if dtype.kind == "bool":
        return np.ones(shape, kind)
    if np.issubdtype(kind, np.floating):
        return np.full(shape, np.nan, kind)
    if dtype.is_float:  # bfloat16 and fp8 in storage form: all ones is a NaN
        return np.full(shape, np.iinfo(kind).max, kind)
    return np.frombuffer(b"\xa5" * (kind.itemsize * math.prod(shape)), kind).reshape(shape).copy()


def raw_roots(buffers: Iterable[Buffer]) -> frozenset[Buffer]:
    """Buffers that some view shows as another dtype."""
    return frozenset(b.data for b in buffers if b.view_of is not None and b.dtype != b.data.dtype)


def viewed(array: np.ndarray, buffer: Buffer, lead: int) -> np.ndarray:
    """The root's array as `buffer` (a view of it) sees it; shares memory."""
    if buffer.view_of is None:
        return array
    front = array.shape[:lead]
    flat = array.reshape(*front, -1)
    if flat.dtype != buffer.dtype.storage_dtype and buffer.dtype != buffer.data.dtype:
        flat = flat.view(buffer.dtype.storage_dtype)
    return flat.reshape(*front, *buffer.static_shape)
