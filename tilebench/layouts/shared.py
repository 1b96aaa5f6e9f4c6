"""Where an element of a shared-memory tile lies: strides, panels, and the XOR swizzle on byte offsets.

Shared memory has 32 banks of 4 bytes. Eight rows of 128 bytes read at the same column fall into the same four
banks, an 8-way conflict for ldmatrix. The swizzle XORs the row's number into the number of the 16-byte chunk,

    chunk' = chunk ^ (row % 8)          on byte offsets:  off ^ ((off >> 3) & 0x70)

so that eight rows at one chunk reach eight different bank groups, at no cost in memory. Hardware (bulk tensor
copies, wgmma descriptors) knows exactly three of these, for rows of 128, 64 and 32 bytes, and takes the XOR
on absolute addresses: a buffer must start at a multiple of the period (`alignment`) for offsets to agree with
addresses. A row wider than the span is cut into panels: panel p holds columns [p * span, (p + 1) * span) of
all rows.

Sources: PTX ISA, "Swizzling modes" of tensors and "Shared memory matrix layout" of wgmma; CUDA driver API,
cuTensorMapEncodeTiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.layouts.digits import add

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Swizzle:
    """off -> off ^ ((off >> shift) & mask) on byte offsets, mask = ((1 << bits) - 1) << base.

    bits 0 is the identity.
    """

    bits: int
    base: int = 4
    shift: int = 3

    @property
    def mask(self) -> int:
        """The byte-offset bits that change."""
        return ((1 << self.bits) - 1) << self.base

    @property
    def period(self) -> int:
        """Bytes after which the pattern repeats; a buffer starts at a multiple of it."""
        return 1 << (self.bits + self.base + self.shift) if self.bits else 1

    @property
    def span(self) -> int:
        """Bytes of a row that the swizzle permutes: 128, 64, 32; 0 for none."""
        return 1 << (self.bits + self.base) if self.bits else 0

    def apply(self, offset: Any) -> Any:
        """The swizzled byte offset; int, array or expression. It is its own inverse (shift >= bits)."""
        return offset ^ ((offset >> self.shift) & self.mask) if self.bits else offset

    def apply_elements(self, offset: Any, itemsize_bits: int) -> Any:
        """As `apply`, on an offset in elements: whole elements move together since base is 16 bytes."""
        if not self.bits:
            return offset
        mask = self.mask * 8 // itemsize_bits
        return offset ^ ((offset >> self.shift) & mask)


NONE = Swizzle(0)
SW32 = Swizzle(1)
SW64 = Swizzle(2)
SW128 = Swizzle(3)
"""PTX ISA's 128-byte swizzle: bits 4..6 ^= bits 7..9 of the byte address."""

_BY_SPAN = {128: SW128, 64: SW64, 32: SW32}


@dataclass(frozen=True, eq=False)
class SharedLayout:
    """Index -> element offset of a tile in shared memory.

    offset = sum(index[d] * strides[d]), where with panels the term of dimension `inner` is
    index[inner] // panel * panel_stride + index[inner] % panel; then the swizzle, on bytes.
    table: element offset of each index, instead of all that (a user's layout).
    """

    shape: tuple[int, ...]
    itemsize_bits: int
    strides: tuple[int, ...] = ()
    panel: int | None = None
    swizzle: Swizzle = NONE
    table: NDArray[np.int32] | None = None
    panel_stride: int = 0
    inner: int = -1

    def __post_init__(self) -> None:
        assert self.itemsize_bits in (4, 8, 16, 32, 64), f"{self.itemsize_bits}-bit elements in shared memory"
        assert self.table is not None or len(self.strides) == len(self.shape), "one stride for each dimension"
        # Without panels no dimension is special, and equal layouts must compare equal.
        object.__setattr__(self, "inner", (self.inner if self.panel else -1) % len(self.shape))
        if self.table is not None:
            assert self.table.shape == self.shape, f"table of shape {self.table.shape} for {self.shape}"
            table = np.ascontiguousarray(self.table, np.int32)
            table.setflags(write=False)
            object.__setattr__(self, "table", table)

    def _key(self) -> tuple[object, ...]:
        table = None if self.table is None else self.table.tobytes()
        place = (self.strides, self.panel, self.panel_stride, self.inner, self.swizzle)
        return (self.shape, self.itemsize_bits, *place, table)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, SharedLayout) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    # -- sizes

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @cached_property
    def size(self) -> int:
        """Extent in elements: one more than the largest offset."""
        if self.table is not None:
            return int(self.table.max(initial=-1)) + 1
        if self.swizzle.bits or any(s < 0 for s in self.strides):
            return int(self.offsets().max(initial=-1)) + 1
        return self._linear_extent()

    def _linear_extent(self) -> int:
        last = sum(
            (n - 1) * s
            for d, (n, s) in enumerate(zip(self.shape, self.strides, strict=True))
            if d != self.inner
        )
        n = self.shape[self.inner]
        if self.panel is None:
            return last + (n - 1) * self.strides[self.inner] + 1
        return last + (n - 1) // self.panel * self.panel_stride + min(n, self.panel)

    @property
    def size_bytes(self) -> int:
        """Bytes that the tile needs, from its (aligned) start."""
        return (self.size * self.itemsize_bits + 7) // 8

    @property
    def alignment(self) -> int:
        """Bytes at which the buffer must start: the swizzle's period, else 128 (bulk copies) or 16."""
        if self.swizzle.bits:
            return self.swizzle.period
        return 128 if self.table is None and self.size_bytes % 16 == 0 and self.size_bytes >= 128 else 16

    # -- the function

    def linear_offset(self, *index: Any) -> Any:
        """Element offset before the swizzle; ints, arrays or IR expressions (+ * // % only)."""
        assert len(index) == self.rank, f"{len(index)} indices for a shared tile of shape {self.shape}"
        offset: Any = 0
        for d, (x, n, stride) in enumerate(zip(index, self.shape, self.strides, strict=True)):
            if n == 1 and isinstance(x, int):
                continue
            if d == self.inner and self.panel is not None and n > self.panel:
                outer = x // self.panel
                offset = add(offset, outer if self.panel_stride == 1 else outer * self.panel_stride)
                x = x % self.panel
            offset = add(offset, x if stride == 1 else x * stride)
        return offset

    def offset(self, *index: Any) -> Any:
        """Element offset of an index from the (aligned) start of the buffer.

        Works for ints, arrays and IR expressions that overload + * // % ^ & >> <<. Raises LayoutError TB305
        for an expression when a user's table has no XOR formula.
        """
        if self.table is None:
            if self._row_dim is not None:
                return self._chunk_xor_offset(index, self._row_dim)
            return self.swizzle.apply_elements(self.linear_offset(*index), self.itemsize_bits)
        if all(isinstance(x, (int, np.integer, np.ndarray)) for x in index):
            found = self.table[index]
            return int(found) if np.ndim(found) == 0 else found
        return self._xor_offset(index)

    def byte_offset(self, *index: Any) -> Any:
        """Byte offset of an index; of the byte that holds it for 4-bit elements."""
        if self.itemsize_bits == 4:
            return self.offset(*index) // 2
        step = self.itemsize_bits // 8
        offset = self.offset(*index)
        return offset if step == 1 else offset * step

    @cached_property
    def _row_dim(self) -> int | None:
        """The dimension that numbers the swizzle's rows, when the XOR can be done on the column alone.

        That holds when the panel is as wide as the span, one dimension steps by a panel row, and every other
        dimension and the panels step by whole periods.
        """
        if (
            not self.swizzle.bits
            or self.panel is None
            or self.panel * self.itemsize_bits != self.swizzle.span * 8
        ):
            return None
        steps = [s for d, s in enumerate(self.strides) if d != self.inner and self.shape[d] > 1]
        if self.shape[self.inner] > self.panel:
            steps.append(self.panel_stride)
        rows = [
            d for d, s in enumerate(self.strides) if s == self.panel and d != self.inner and self.shape[d] > 1
        ]
        period = self.swizzle.period * 8 // self.itemsize_bits
        if len(rows) != 1 or self.strides[self.inner] != 1:
            return None
        return rows[0] if all(s % period == 0 or s == self.panel for s in steps) else None

    def _chunk_xor_offset(self, index: Sequence[Any], row_dim: int) -> Any:
        """`offset` with the column XORed by the row's number: the same value, shorter, easier to simplify."""
        row, column = index[row_dim], index[self.inner]
        repeat, values = (
            128 // self.swizzle.span,
            1 << self.swizzle.bits,
        )  # rows per 128 bytes, rows until it repeats
        twist = row if repeat == 1 else row // repeat
        if self.shape[row_dim] > repeat * values:
            twist = twist % values
        twist = twist * (128 // self.itemsize_bits)
        panel = self.panel or 1
        split = self.shape[self.inner] > panel
        within = column % panel if split else column
        if isinstance(within, int) and within == 0:
            within = twist
        elif not (isinstance(twist, int) and twist == 0):
            within = within ^ twist
        offset: Any = 0
        for d, (x, n, stride) in enumerate(zip(index, self.shape, self.strides, strict=True)):
            if d != self.inner and not (n == 1 and isinstance(x, int)):
                offset = add(offset, x * stride)
        if split:
            offset = add(offset, column // panel * self.panel_stride)
        return add(offset, within)

    def _xor_offset(self, index: Sequence[Any]) -> Any:
        columns = self.linear
        if columns is None:
            from tilebench.errors import LayoutError

            raise LayoutError(
                "TB305",
                f"this {'x'.join(map(str, self.shape))} shared layout has no formula for its offsets",
                why="it was given as a function that is neither strides nor XORs of the indices' bits",
                fix="use T.make_swizzled_layout(buffer), or a function made of // % * + and ^",
            )
        offset: Any = 0
        for x, dim in zip(index, columns, strict=True):
            masks: dict[int, int] = {}  # left shift -> which bits of the index it takes there
            for bit, column in enumerate(dim):
                for to in range(column.bit_length()):
                    if column >> to & 1:
                        masks[to - bit] = masks.get(to - bit, 0) | 1 << bit
            every = (1 << len(dim)) - 1
            for shift, mask in sorted(masks.items()):
                term = x if mask == every else x & mask
                term = term << shift if shift > 0 else term >> -shift if shift < 0 else term
                offset = term if isinstance(offset, int) and offset == 0 else offset ^ term
        return offset

    def offsets(self) -> NDArray[np.int64]:
        """Element offset of every index: int64 of the tile's shape."""
        if self.table is not None:
            return self.table.astype(np.int64)
        index = np.indices(self.shape, dtype=np.int64, sparse=True)
        return np.broadcast_to(self.offset(*index), self.shape)

    @cached_property
    def linear(self) -> tuple[tuple[int, ...], ...] | None:
        """F2 columns per dimension: the element offset of each index bit. None when XOR is not enough."""
        if any(n & (n - 1) for n in self.shape):
            return None
        columns: list[tuple[int, ...]] = []
        expected = np.zeros((1,) * self.rank, np.int64)
        for d, n in enumerate(self.shape):
            column: list[int] = []
            image = np.zeros(n, np.int64)
            for bit in range(n.bit_length() - 1):
                unit = tuple(1 << bit if k == d else 0 for k in range(self.rank))
                column.append(int(self.offset(*unit)))
                image = np.where(np.arange(n) >> bit & 1, image ^ column[-1], image)
            columns.append(tuple(column))
            expected = expected ^ image.reshape([-1 if k == d else 1 for k in range(self.rank)])
        return tuple(columns) if np.array_equal(expected, self.offsets()) else None

    def is_injective(self) -> bool:
        """True when no two elements share a place."""
        flat = self.offsets().ravel()
        return len(np.unique(flat)) == flat.size

    def transpose(self, dims: Sequence[int] | None = None) -> SharedLayout:
        """The same memory, new dimension k being old dimension dims[k] (reversed by default)."""
        order = list(dims) if dims is not None else list(range(self.rank))[::-1]
        assert sorted(order) == list(range(self.rank)), f"{order} is no permutation of {self.rank} dimensions"
        return replace(
            self,
            shape=tuple(self.shape[d] for d in order),
            strides=tuple(self.strides[d] for d in order) if self.strides else (),
            inner=order.index(self.inner),
            table=None if self.table is None else self.table.transpose(order),
        )

    def describe(self) -> str:
        """One line: the formula in elements and what it asks for."""
        shape = "x".join(map(str, self.shape))
        head = f"{shape} of {self.itemsize_bits}-bit elements, {self.size_bytes} bytes"
        head += f", aligned to {self.alignment}"
        if self.table is not None:
            return f"{head}: user table" + (" (XOR of index bits)" if self.linear is not None else "")
        from tilebench.layouts.describe import index_names

        names = index_names(self.rank)
        terms: list[str] = []
        for d, (n, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            if d == self.inner and self.panel is not None and n > self.panel:
                terms += [f"{names[d]}//{self.panel}*{self.panel_stride}", f"{names[d]}%{self.panel}"]
            elif n > 1:
                terms.append(names[d] if stride == 1 else f"{names[d]}*{stride}")
        formula = " + ".join(terms) or "0"
        if self.swizzle.bits:
            mask = self.swizzle.mask * 8 // self.itemsize_bits
            formula = f"s ^ ((s >> {self.swizzle.shift}) & {mask:#x}), s = {formula}"
            head += f", {self.swizzle.span}-byte swizzle"
        return f"{head}: offset = {formula}"


def row_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense row-major array, in elements."""
    return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))


def row_major(shape: Sequence[int], bits: int) -> SharedLayout:
    """Dense, last dimension contiguous."""
    return SharedLayout(tuple(shape), bits, row_strides(shape))


def column_major(shape: Sequence[int], bits: int) -> SharedLayout:
    """Dense, first dimension contiguous."""
    return row_major(tuple(shape)[::-1], bits).transpose()


def padded(shape: Sequence[int], bits: int, pad: int) -> SharedLayout:
    """Row-major with `pad` unused elements after each row: the portable cure for bank conflicts."""
    wide = (*tuple(shape)[:-1], shape[-1] + pad)
    return SharedLayout(tuple(shape), bits, row_strides(wide))


def swizzled(shape: Sequence[int], bits: int, span: int = 128) -> SharedLayout:
    """Rows cut into panels of the largest of 128, 64, 32 bytes up to `span` that divides a row, and swizzled.

    Falls back to row-major when a row is no multiple of 32 bytes (a row of an odd number of 16-byte chunks
    has no conflicts between its rows anyway). A row narrower than `span` takes its own width.
    """
    shape = tuple(shape)
    row_bits = shape[-1] * bits
    for bytes_ in (128, 64, 32):
        if bytes_ <= span and row_bits % (bytes_ * 8) == 0 and len(shape) >= 2:
            panel = bytes_ * 8 // bits
            # Every leading index keeps its own dense rows x columns tile, so that it is an operand by itself.
            strides = (*(prod(shape[d + 1 :]) for d in range(len(shape) - 2)), panel, 1)
            return SharedLayout(shape, bits, strides, panel, _BY_SPAN[bytes_], panel_stride=shape[-2] * panel)
    return row_major(shape, bits)


def upright(shape: Sequence[int], bits: int) -> SharedLayout:
    """Columns of 16 bytes, one behind the other: an operand whose rows no swizzle divides."""
    each = 128 // bits
    strides = (*(prod(shape[d + 1 :]) for d in range(len(shape) - 2)), each, 1)
    return SharedLayout(tuple(shape), bits, strides, each, panel_stride=shape[-2] * each)


def swizzled_transposed(shape: Sequence[int], bits: int, span: int = 128) -> SharedLayout:
    """As `swizzled`, the first of two dimensions being the contiguous one (an M-major or N-major operand)."""
    assert len(shape) == 2, f"transposed layouts are for matrices, not {tuple(shape)}"
    return swizzled(tuple(shape)[::-1], bits, span).transpose()


def from_function(shape: Sequence[int], function: Callable[..., Any], bits: int) -> SharedLayout:
    """Layout from a user's function index -> offset, or index -> tuple (row-major over the tuples' range).

    The function is called once per element with ints. A result that is one of the layouts above is given as
    that layout, so that its formula is used. Raises LayoutError TB306 on a negative result or two elements in
    one place.
    """
    shape = tuple(shape)
    points = list(np.ndindex(*shape))
    results = [function(*point) for point in points]
    if results and isinstance(results[0], (tuple, list)):
        places = np.array([[int(x) for x in r] for r in results], np.int64)
        extents = places.max(axis=0) + 1
        offsets = places @ np.array(row_strides([int(n) for n in extents]), np.int64)
        lowest = int(places.min())
    else:
        offsets = np.array([int(r) for r in results], np.int64)
        lowest = int(offsets.min(initial=0))
    values, first, counts = np.unique(offsets, return_index=True, return_counts=True)
    if lowest < 0 or (counts > 1).any():
        from tilebench.errors import LayoutError

        if lowest < 0:
            what = f"gives the negative place {lowest}"
        else:
            k = int(np.argmax(counts > 1))
            second = int(np.flatnonzero(offsets == values[k])[1])
            what = (
                f"puts elements {points[int(first[k])]} and {points[second]} both at offset {int(values[k])}"
            )
        raise LayoutError(
            "TB306",
            f"the layout of a {'x'.join(map(str, shape))} shared buffer {what}",
            why="each element needs a place of its own at or after the buffer's start",
            fix="check the function given to T.Layout: show(layout) draws what it says",
        )
    return recognised(SharedLayout(shape, bits, table=offsets.reshape(shape).astype(np.int32)))


def reread(layout: SharedLayout, shape: Sequence[int], bits: int) -> SharedLayout | None:
    """The layout under which the same memory holds the tile read row-major with another shape and element
    width; None where wider elements would lie in pieces.

    bits: of an element, at least 8, as are the layout's.
    """
    offsets = layout.offsets().ravel()
    if bits <= layout.itemsize_bits:
        parts = layout.itemsize_bits // bits
        places = (offsets[:, None] * parts + np.arange(parts)).ravel()
    else:
        parts = bits // layout.itemsize_bits
        groups = offsets.reshape(-1, parts)
        if (groups[:, :1] % parts).any() or (groups != groups[:, :1] + np.arange(parts)).any():
            return None
        places = groups[:, 0] // parts
    return recognised(SharedLayout(tuple(shape), bits, table=places.reshape(tuple(shape)).astype(np.int32)))


def recognised(layout: SharedLayout) -> SharedLayout:
    """The same offsets as strides or a hardware swizzle, when they are that; else the layout itself."""
    table = layout.offsets()
    if table.flat[0] == 0:
        units = [tuple(int(k == d) for k in range(layout.rank)) for d in range(layout.rank)]
        strides = tuple(int(table[u]) if layout.shape[d] > 1 else 1 for d, u in enumerate(units))
        plain = SharedLayout(layout.shape, layout.itemsize_bits, strides)
        if np.array_equal(plain.offsets(), table):
            return plain
    candidates = [swizzled(layout.shape, layout.itemsize_bits, span) for span in (128, 64, 32)]
    if layout.rank == 2:
        candidates += [
            swizzled_transposed(layout.shape, layout.itemsize_bits, span) for span in (128, 64, 32)
        ]
    for candidate in candidates:
        if np.array_equal(candidate.offsets(), table):
            return candidate
    return layout
