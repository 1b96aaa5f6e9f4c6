"""Indexing of buffers: `A[i, j]` is an element, anything with a slice or fewer indices a region (a box)."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from tilebench.errors import Loc, TypeTileError
from tilebench.ir.expr import Expr, Load, as_expr, const, int_value, same
from tilebench.ir.simplify import linear
from tilebench.ir.tile import Buffer, Region

_Slice: TypeAlias = "slice[Any, Any, Any]"


def element_or_region(base: Buffer | Region, index: Any, at: Loc) -> Load | Region:
    """What `base[index]` is. Raises TB216 (rank), TB217 (no whole number), TB218 (outside), TB219 (slice)."""
    items: list[Any] = list(cast("tuple[Any, ...]", index)) if isinstance(index, tuple) else [index]
    if isinstance(base, Region):
        return _of_region(base, items, at)
    rank = len(base.shape)
    items = _spelled(items, rank)
    if len(items) > rank:
        raise TypeTileError(
            "TB216",
            f"{base.name} has {rank} dimension{'s' * (rank != 1)} ({_shape_text(base)}), indexed with "
            f"{len(items)}",
            at=at,
            why="each dimension takes one index",
            fix=f"give {rank} ind{'ices' if rank != 1 else 'ex'}",
        )
    items += [slice(None)] * (rank - len(items))
    if not any(isinstance(i, slice) for i in items):
        return Load(
            base, tuple(_index(base, d, i, at) for d, i in enumerate(items)), dtype=base.dtype, loc=at
        )
    offsets: list[Expr] = []
    extents: list[int] = []
    for d, item in enumerate(items):
        start, extent = (
            _slice(base, d, cast("_Slice", item), at)
            if isinstance(item, slice)
            else (_index(base, d, item, at), 1)
        )
        offsets.append(start)
        extents.append(extent)
    dropped = frozenset(d for d, item in enumerate(items) if not isinstance(item, slice))
    return Region(base, tuple(offsets), tuple(extents), dropped, loc=at)


def _spelled(items: list[Any], rank: int) -> list[Any]:
    """Indices with `...` written out."""
    place = next((n for n, i in enumerate(items) if i is Ellipsis), None)
    return (
        items
        if place is None
        else [*items[:place], *[slice(None)] * (rank - len(items) + 1), *items[place + 1 :]]
    )


def _of_region(base: Region, items: list[Any], at: Loc) -> Load | Region:
    """An index into a slice: moved by the slice's offsets, bounded by its extents."""
    kept = [d for d in range(len(base.extents)) if d not in base.dropped]
    items = _spelled(items, len(kept))
    if len(items) > len(kept):
        raise TypeTileError(
            "TB216",
            f"this slice of {base.buffer.name} has {len(kept)} dimensions, indexed with {len(items)}",
            at=at,
            why="a dimension indexed with a number is gone",
            fix=f"give {len(kept)} indices",
        )
    offsets, extents, dropped = list(base.offsets), list(base.extents), set(base.dropped)
    part = Buffer(
        base.buffer.name, tuple(const(e) for e in base.extents), base.dtype, "shared"
    )  # its bounds are the slice's
    for d, item in zip(kept, items, strict=False):
        if isinstance(item, slice):
            start, extents[d] = _slice(part, d, cast("_Slice", item), at)
            offsets[d] = offsets[d] + start
        else:
            offsets[d] = offsets[d] + _index(part, d, item, at)
            extents[d] = 1
            dropped.add(d)
    if len(dropped) == len(extents):
        return Load(base.buffer, tuple(offsets), dtype=base.dtype, loc=at)
    return Region(base.buffer, tuple(offsets), tuple(extents), frozenset(dropped), loc=at)


def _shape_text(buffer: Buffer) -> str:
    from tilebench.ir.text import expr_text

    return " x ".join(expr_text(s) for s in buffer.shape)


def _whole_number(buffer: Buffer, d: int, item: Any, at: Loc) -> Expr:
    if isinstance(item, Buffer | Region):
        name = item.name if isinstance(item, Buffer) else item.buffer.name
        raise TypeTileError(
            "TB217",
            f"{buffer.name}: index {d} is the tile {name}",
            at=at,
            why="an index is one whole number",
            fix=f"index with an element of it: {buffer.name}[{name}[i]]",
        )
    if not isinstance(item, Expr | int) and not hasattr(item, "__index__"):
        raise TypeTileError(
            "TB217",
            f"{buffer.name}: index {d} is {item!r:.40}, a {type(item).__name__}",
            at=at,
            why="an index is one whole number",
            fix="use // for division, or int(...)" if isinstance(item, float) else "index with integers",
        )
    e = item if isinstance(item, Expr) else as_expr(int(item))
    if e.dtype.is_float:
        raise TypeTileError(
            "TB217",
            f"{buffer.name}: index {d} is a {e.dtype}",
            at=at,
            why="an index is one whole number",
            fix="use // for division, or T.cast(x, 'int32')",
        )
    return e


def _index(buffer: Buffer, d: int, item: Any, at: Loc) -> Expr:
    """An index; a number below zero counts from the end."""
    e = _whole_number(buffer, d, item, at)
    number, size = int_value(e), int_value(buffer.shape[d])
    if number is not None and size is not None:
        if not -size <= number < size:
            raise _outside(buffer, d, number, size, at)
        return const(number % size)
    if number is not None and number < 0:
        return buffer.shape[d] + number
    return e


def _outside(buffer: Buffer, d: int, number: int, size: int, at: Loc) -> TypeTileError:
    if size == 0:
        return TypeTileError(
            "TB218",
            f"{buffer.name}: dimension {d} has no elements",
            at=at,
            why="its extent is 0",
            fix="guard with if, or use an extent of 1 or more",
        )
    index = ", ".join(str(size - 1) if k == d else "..." for k in range(len(buffer.shape)))
    return TypeTileError(
        "TB218",
        f"{buffer.name}: index {number} is outside of dimension {d}, which has {size} elements",
        at=at,
        why=f"valid indices are 0 to {size - 1}, and -{size} to -1 from the end",
        fix=f"the last element is {buffer.name}[{index}]",
    )


def _slice(buffer: Buffer, d: int, item: _Slice, at: Loc) -> tuple[Expr, int]:
    """(start, extent) of a slice; numbers below zero count from the end."""
    if item.step is not None and int_value(item.step if isinstance(item.step, Expr | int) else -1) != 1:
        raise TypeTileError(
            "TB219",
            f"{buffer.name}: a slice with a step",
            at=at,
            why="tiles are boxes without holes",
            fix="copy the box and pick the elements in a loop",
        )
    size = buffer.shape[d]
    start = _from_end(const(0) if item.start is None else _whole_number(buffer, d, item.start, at), size)
    stop = _from_end(size if item.stop is None else _whole_number(buffer, d, item.stop, at), size)
    extent = _extent(start, stop, buffer.name, d, at)
    first, last = int_value(start), int_value(size)
    if (
        buffer.scope != "global"
        and first is not None
        and last is not None
        and not 0 <= first <= first + extent <= last
    ):
        raise TypeTileError(
            "TB218",
            f"{buffer.name}: the slice {first}:{first + extent} is outside of dimension {d}, which has "
            f"{last} elements",
            at=at,
            why="a tile in shared memory or registers ends where it ends",
            fix=f"use a slice within 0:{last}",
        )
    return start, extent


def _from_end(e: Expr, size: Expr) -> Expr:
    number = int_value(e)
    return size + number if number is not None and number < 0 else e


def _extent(start: Expr, stop: Expr, name: str, d: int, at: Loc) -> int:
    """stop - start, which must be a number: both may be the same expression plus constants."""
    a, b = linear(stop), linear(start)
    left = list(b.terms)
    for term, factor in a.terms:
        match = next((t for t in left if t[1] == factor and same(t[0], term)), None)
        if match is None:
            left = [(term, factor)]
            break
        left.remove(match)
    if left:
        raise TypeTileError(
            "TB219",
            f"{name}: the extent of dimension {d} is not known when the kernel is compiled",
            at=at,
            why="tile shapes are fixed; only their place may vary",
            fix=f"write the slice as {name}[start : start + SIZE] with a Python number SIZE",
        )
    extent = a.constant - b.constant
    if extent < 1:
        raise TypeTileError(
            "TB219",
            f"{name}: the slice of dimension {d} has {extent} elements",
            at=at,
            why="a tile has at least one",
            fix="stop must be greater than start",
        )
    return extent
