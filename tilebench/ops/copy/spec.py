"""`T.copy`: a tile moved between any two scopes, with dtype conversion, zero fill outside, and clipped
stores."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from tilebench.errors import TypeTileError
from tilebench.ir.expr import Expr, Load, as_expr
from tilebench.ir.tile import Buffer, Region, Stmt, Store
from tilebench.ops.base import (
    BlockValues,
    Cost,
    Lowering,
    Offer,
    Op,
    PlaceContext,
    Requirement,
    register,
)  # fmt: skip
from tilebench.ops.copy import bulk, cp_async, stmatrix
from tilebench.ops.regions import is_private, over, pair, region_bytes, shape_text, squeezed, writable
from tilebench.targets import Target


@register
@dataclass(frozen=True, eq=False)
class Copy(Op):
    """destination[...] = source[...], equal tile shapes after dropping unit dimensions.

    Elements outside a global source read as 0.

    coalesced_width: elements a thread moves at once, as the user asked; asynchronous: T.async_copy (no wait);
    prefer: 'tma' | 'cp_async' | 'sync' | None; outside: what elements outside a global source read as (None:
    0; set by passes/check.py from T.annotate_safe_value). Stores outside a global destination are skipped.
    Values are converted as by a cast: float to narrower float rounds to nearest even, overflow gives inf
    (fp8: the largest finite value), NaN stays NaN; float to integer truncates.
    """

    lowerings: ClassVar[Mapping[str, Lowering]] = {
        "cp.async": cp_async.lower,
        bulk.STORE: bulk.lower_store,
        stmatrix.NAME: stmatrix.lower,
    }

    source: Region
    destination: Region
    coalesced_width: int | None = None
    disable_tma: bool = False
    asynchronous: bool = False
    prefer: str | None = None
    outside: Expr | None = None
    alone: bool = False
    """Set by passes: each warpgroup copies rows of its own, so that only its own threads need to meet."""
    operand: bool = False
    """Set by passes: the source is a left operand of warpgroup products, in registers, rows by warpgroup."""

    @property
    def reads(self) -> tuple[Region, ...]:
        return (self.source,)

    @property
    def writes(self) -> tuple[Region, ...]:
        return (self.destination,)

    def check(self) -> None:
        a, b = self.source, self.destination
        if squeezed(a.shape) != squeezed(b.shape):
            raise TypeTileError(
                "TB280",
                f"copy: the source {a.buffer.name} is {shape_text(a.shape)}, the destination "
                f"{b.buffer.name} is "
                f"{shape_text(b.shape)}",
                why="a copy moves a tile to a tile of the same shape (dimensions of extent 1 do not count)",
                fix=f"give {b.buffer.name} a tile of {shape_text(squeezed(a.shape))}, or take "
                f"{shape_text(squeezed(b.shape))} "
                f"of {a.buffer.name}",
            )
        if self.coalesced_width is not None and self.coalesced_width < 1:
            raise TypeTileError(
                "TB284",
                f"copy: coalesced_width={self.coalesced_width} is not a number of elements",
                fix="leave it out, or pass 1, 2, 4, 8 or 16",
            )
        writable(a, "copy")
        writable(b, "copy")

    def run(self, block: BlockValues) -> None:
        values = block.read(self.source)
        block.write(self.destination, values.reshape(self.destination.shape))

    def offers(self, target: Target, threads: int) -> tuple[Offer, ...]:
        hopper = (*bulk.offers(self, target), *stmatrix.offers(self, target))
        return (*hopper, *cp_async.offers(self, target, threads))

    def place(self, context: PlaceContext) -> tuple[Requirement, ...]:
        name = context.instruction(self).name
        if name not in (bulk.NAME, bulk.STORE):
            return ()
        tile = self.destination.buffer if name == bulk.NAME else self.source.buffer
        reason = "as bulk copies lay a tile down: rows of the hardware's swizzle"
        return (Requirement(tile, bulk.tile_layout(tile), True, reason, self.loc, yields=True),)

    def cost(self) -> Cost:
        return Cost(
            read={self.source.buffer.scope: region_bytes(self.source)},
            written={self.destination.buffer.scope: region_bytes(self.destination)},
        )

    def expand(self) -> Stmt:
        return over(
            squeezed(self.destination.shape),
            lambda walk: walk.write(
                self.destination, walk.vars, walk.read(self.source, walk.vars, self.outside)
            ),
            is_private(self.source, self.destination),
        )


def _copy(
    src: Any, dst: Any, coalesced_width: int | None, disable_tma: bool, prefer: str | None, asynchronous: bool
) -> Stmt:
    scalar_source = isinstance(src, int | float) or (isinstance(src, Expr) and not isinstance(src, Load))
    if isinstance(dst, Load) and (scalar_source or isinstance(src, Load)):
        return Store(dst.buffer, dst.indices, as_expr(src).astype(dst.dtype))
    source, destination = pair(src, dst, "the source", "the destination")
    destination = _filled(source, destination)
    return Copy(source, destination, coalesced_width, disable_tma, asynchronous, prefer)


def _filled(source: Region, destination: Region) -> Region:
    """The destination; the part that the source fills, where a larger slice of the same scope was given.

    TileLang goes over the extents of the source there, so programs of its exist; what is left out is told.
    """
    a, b = source.extents, destination.extents
    larger = len(a) == len(b) and a != b and all(x <= y for x, y in zip(a, b, strict=True))
    if not larger or 1 in a or source.dropped or destination.dropped:
        return destination
    if source.buffer.scope != destination.buffer.scope or destination.is_whole or source.is_whole:
        return destination
    warnings.warn(
        f"copy: the slice of {destination.buffer.name} is {shape_text(b)}, that of {source.buffer.name} "
        f"{shape_text(a)}: {shape_text(a)} elements are copied, the rest of {destination.buffer.name} stays",
        stacklevel=4,
    )
    return replace(destination, extents=a)


def copy(
    src: Buffer | Region | Load,
    dst: Buffer | Region | Load,
    *,
    coalesced_width: int | None = None,
    disable_tma: bool = False,
    eviction_policy: Any = None,
    prefer_instruction: Literal["tma", "cp_async", "sync"] | None = None,
    annotations: Any = None,
    loop_layout: Any = None,
) -> Stmt:
    """Copy a tile: `T.copy(A[by * 128, k * 32], A_shared)`.

    Each side is a buffer, a slice, or an element that marks where the tile starts (it takes the other side's
    extents). Element to element is a store with a cast. Outside a global tensor, reads give 0 and writes are
    skipped. eviction_policy, annotations and loop_layout are hints that change no value.
    """
    return _copy(src, dst, coalesced_width, disable_tma, prefer_instruction, False)


def async_copy(
    src: Buffer | Region | Load,
    dst: Buffer | Region | Load,
    *,
    coalesced_width: int | None = None,
    annotations: Any = None,
    loop_layout: Any = None,
) -> Stmt:
    """`T.copy` that the program waits for itself (T.ptx_wait_group); a plain copy where there is nothing
    asynchronous."""
    return _copy(src, dst, coalesced_width, False, "cp_async", True)
