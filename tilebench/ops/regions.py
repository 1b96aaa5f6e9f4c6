"""What the ops share: lining tiles up, walking over them in `expand`, and the sentences of their errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilebench.errors import TypeTileError
from tilebench.ir.dtype import int32
from tilebench.ir.expr import Expr, Load, Var, as_expr, binary, const, int_value, is_const, select
from tilebench.ir.rewrite import seq
from tilebench.ir.simplify import bounds, prove
from tilebench.ir.tile import Buffer, For, If, Parallel, Region, Stmt, Store, whole
from tilebench.ops.base import as_region

Shape = tuple[int, ...]


def squeezed(shape: Sequence[int]) -> Shape:
    """The shape without its unit dimensions."""
    return tuple(e for e in shape if e != 1)


def shape_text(shape: Sequence[int]) -> str:
    """'128x64', or 'one element' for a shape with no dimensions."""
    return "x".join(str(e) for e in shape) if shape else "one element"


def element_count(region: Region) -> int:
    """Elements of a region."""
    return math.prod(region.extents)


def region_bytes(region: Region) -> int:
    """Bytes of a region."""
    return element_count(region) * region.dtype.bytes


def extents_of(value: Any) -> Shape | None:
    """Extents that a value brings along: of a Region or a statically shaped Buffer; None for an element or a
    symbolic tensor."""
    if isinstance(value, Region):
        return value.shape
    if isinstance(value, Buffer):
        sizes = tuple(int_value(s) for s in value.shape)
        return tuple(s for s in sizes if s is not None) if None not in sizes else None
    return None


def fitting(extents: Shape, rank: int, what: str) -> Shape:
    """`extents` with unit dimensions removed until `rank` dimensions can hold them. Raises TypeTileError
    TB281."""
    extra = len(extents) - rank
    if extra <= 0:
        return extents
    if all(e == 1 for e in extents[:extra]):
        return extents[extra:]
    if len(squeezed(extents)) <= rank:
        return squeezed(extents)
    raise TypeTileError(
        "TB281",
        f"{what} has {rank} dimension{'s' * (rank != 1)}, but the tile on the other side is "
        f"{shape_text(extents)}",
        why="a start point takes the extents of the other side, lined up on the last dimensions",
        fix=f"index a buffer with at least {len(squeezed(extents))} dimensions, or copy slices of equal "
        "shape",
    )


def pair(source: Any, destination: Any, source_name: str, destination_name: str) -> tuple[Region, Region]:
    """Both sides as regions; an element marks where a tile of the other side's extents starts.

    A slice or statically shaped buffer gives the extents; a symbolic tensor takes them. Raises TypeTileError.
    """
    given = extents_of(source)
    wanted = extents_of(destination)
    a = _side(source, source_name, wanted)
    b = _side(destination, destination_name, given)
    return a, b


def _side(value: Any, what: str, other: Shape | None) -> Region:
    own = extents_of(value)
    if own is not None or not isinstance(value, Buffer | Load):
        return as_region(value, what)
    if other is None:
        if isinstance(value, Load):
            return as_region(value, what, (1,) * len(value.indices))
        raise TypeTileError(
            "TB282",
            f"the extents of {what} ({value.name}) are not known at compile time, and the other side has "
            "none to offer",
            why="a tile has a fixed size",
            fix=f"pass a slice with constant extents, such as {value.name}[i0 : i0 + 128]",
        )
    rank = len(value.indices) if isinstance(value, Load) else len(value.shape)
    return as_region(value, what, fitting(other, rank, what))


def normal_dim(dim: int, rank: int, what: str) -> int:
    """`dim` counted from the front. Raises TypeTileError TB240."""
    if not -rank <= dim < rank:
        raise TypeTileError(
            "TB240",
            f"{what}: dim={dim} is not a dimension of a tile with {rank} dimension{'s' * (rank != 1)}",
            why="dimensions are numbered from 0; negative numbers count from the end",
            fix=f"use a dim from {-rank} to {rank - 1}",
        )
    return dim % rank


def coordinates(region: Region, point: Sequence[Expr]) -> tuple[Expr, ...]:
    """Buffer indices of the element at `point`, which has one coordinate for each non-unit dimension of the
    tile."""
    rest = iter(point)
    full = tuple(const(0) if e == 1 else next(rest) for e in region.shape)
    return region.index(full)


def load(region: Region, point: Sequence[Expr]) -> Load:
    """The element of the tile at `point` (non-unit dimensions only), with no guard."""
    return Load(region.buffer, coordinates(region, point), dtype=region.dtype)


def _inside(region: Region, indices: Sequence[Expr], ranges: dict[Var, tuple[int, int]]) -> Expr:
    """Whether a global element exists; true for other scopes."""
    condition: Expr = as_expr(True)
    if region.buffer.scope != "global":
        return condition
    for index, extent in zip(indices, region.buffer.shape, strict=True):
        for test in (binary("ge", index, 0), binary("lt", index, extent)):
            if prove(test, ranges) is not True:
                condition = binary("and", condition, test)
    return condition


class Walk:
    """One pass over a tile inside `expand`: loop variables with their ranges, and guarded element
    accesses."""

    def __init__(self, extents: Shape, names: str = "ijklmn") -> None:
        self.extents = extents
        self.vars = tuple(
            Var(names[d] if d < len(names) else f"i{d}", dtype=int32) for d in range(len(extents))
        )
        self.ranges = {v: (0, e - 1) for v, e in zip(self.vars, extents, strict=True)}

    def inner(self, name: str, extent: int) -> Var:
        """A variable for a serial loop inside, known to run over 0..extent-1."""
        var = Var(name, dtype=int32)
        self.ranges[var] = (0, extent - 1)
        return var

    def read(self, region: Region, point: Sequence[Expr], outside: Expr | None = None) -> Expr:
        """The element at `point`; outside a global tensor, `outside` (zero by default)."""
        element = load(region, point)
        other = const(0, region.dtype) if outside is None else outside.astype(region.dtype)
        return select(_inside(region, element.indices, self.ranges), element, other)

    def write(self, region: Region, point: Sequence[Expr], value: Expr) -> Stmt:
        """Store `value` (cast) at `point`; nothing outside a global tensor."""
        indices = coordinates(region, point)
        store = Store(region.buffer, indices, value.astype(region.dtype))
        return self.guarded(region, indices, store)

    def guarded(self, region: Region, indices: Sequence[Expr], stmt: Stmt) -> Stmt:
        """`stmt` only where the element at `indices` exists."""
        inside = _inside(region, indices, self.ranges)
        return stmt if is_const(inside, True) else If(inside, stmt)

    def parallel(self, *body: Stmt, private: bool = False) -> Stmt:
        """The Parallel nest around `body`; a nest of one iteration when the tile is a single element.

        private: the tile belongs to each thread (local or var buffers), so every thread runs plain loops.
        """
        if private:
            inner = seq(*body)
            for var, extent in reversed(list(zip(self.vars, self.extents, strict=True))):
                inner = For(var, const(0), const(extent), inner)
            return inner
        if not self.vars:
            return Parallel((Var("i", dtype=int32),), (1,), seq(*body))
        return Parallel(self.vars, self.extents, seq(*body))


def is_private(*regions: Region) -> bool:
    """Whether one of the regions belongs to each thread on its own."""
    return any(r.buffer.scope in ("local", "var") for r in regions)


def over(extents: Shape, body: Callable[[Walk], Stmt], private: bool = False) -> Stmt:
    """`Parallel` over `extents` (plain loops when private) with the statement that `body` makes for the
    walk."""
    walk = Walk(extents)
    return walk.parallel(body(walk), private=private)


def accumulator(name: str, region_dtype: Any) -> Buffer:
    """A scalar of one iteration: a `var` buffer that is stored before it is read in every iteration."""
    return Buffer(name, (const(1),), region_dtype, "var")


def var_load(buffer: Buffer) -> Load:
    """The value of a `var` buffer."""
    return Load(buffer, (const(0),), dtype=buffer.dtype)


def var_store(buffer: Buffer, value: Expr) -> Stmt:
    """Assign a `var` buffer."""
    return Store(buffer, (const(0),), value.astype(buffer.dtype))


def on_chip(region: Region, what: str) -> None:
    """Raise TypeTileError TB244 for a region of a global tensor."""
    if region.buffer.scope == "global":
        name = region.buffer.name
        raise TypeTileError(
            "TB244",
            f"{what}: {name} is a global tensor",
            why=f"{what} works on tiles in shared memory or fragments",
            fix=f"move it through a tile: T.copy({name}[...], tile), or T.copy(tile, {name}[...])",
        )


def writable(region: Region, what: str) -> None:
    """Raise TypeTileError TB283 for a region that reaches out of its on-chip buffer for sure (global tails
    are clipped)."""
    buffer = region.buffer
    for dim, (offset, extent, size) in enumerate(
        zip(region.offsets, region.extents, buffer.shape, strict=True)
    ):
        total = int_value(size)
        interval = bounds(offset, {})
        if total is None or interval is None:
            continue
        low, high = interval[1], interval[0] + extent  # the friendliest start and end
        if buffer.scope != "global" and (high > total or low < 0):
            raise TypeTileError(
                "TB283",
                f"{what}: {buffer.name} has {total} elements in dimension {dim}, but the tile takes "
                f"{interval[0]} to {high - 1}",
                why=f"a {buffer.scope} buffer has no elements outside its shape (only global tensors are "
                "clipped)",
                fix=f"keep the end at most {total}: start at {max(total - extent, 0)} or take "
                f"{max(total - interval[0], 0)} elements",
            )


__all__ = [
    "Shape",
    "Walk",
    "accumulator",
    "coordinates",
    "element_count",
    "extents_of",
    "fitting",
    "is_private",
    "load",
    "normal_dim",
    "on_chip",
    "over",
    "pair",
    "region_bytes",
    "shape_text",
    "squeezed",
    "var_load",
    "var_store",
    "whole",
    "writable",
]
