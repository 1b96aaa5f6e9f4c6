"""`T.fill`, `T.clear`: one value everywhere in a tile."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilebench.errors import TypeTileError
from tilebench.ir.dtype import DType
from tilebench.ir.expr import Const, Expr, Load, as_expr
from tilebench.ir.tile import Buffer, Kernel, Region, Stmt, Store
from tilebench.ops.base import BlockValues, Cost, Op, as_region, register, scalar
from tilebench.ops.regions import is_private, over, region_bytes, squeezed, writable


@register
@dataclass(frozen=True, eq=False)
class Fill(Op):
    """destination[...] = value (already of destination's dtype); elements outside a global destination are
    skipped."""

    destination: Region
    value: Expr

    @property
    def reads(self) -> tuple[Region, ...]:
        return ()

    @property
    def writes(self) -> tuple[Region, ...]:
        return (self.destination,)

    def check(self) -> None:
        if self.value.dtype != self.destination.dtype:
            raise TypeTileError(
                "TB250",
                f"fill: the value is {self.value.dtype}, {self.destination.buffer.name} holds "
                f"{self.destination.dtype}",
                fix=f"cast the value: T.cast(value, '{self.destination.dtype}')",
            )
        writable(self.destination, "fill")

    def run(self, block: BlockValues) -> None:
        value = np.asarray(block.evaluate(self.value))
        block.write(self.destination, np.broadcast_to(value, self.destination.shape))

    def cost(self) -> Cost:
        return Cost(written={self.destination.buffer.scope: region_bytes(self.destination)})

    def expand(self) -> Stmt:
        return over(
            squeezed(self.destination.shape),
            lambda walk: walk.write(self.destination, walk.vars, self.value),
            is_private(self.destination),
        )


def fits(value: Any, dtype: DType, what: str) -> Expr:
    """`value` as an expression of `dtype`. Raises TypeTileError TB251 for a number that the dtype cannot
    hold."""
    e = as_expr(value)
    if isinstance(e, Const) and dtype.is_int:
        number = e.value
        if number != number or not dtype.min <= number <= dtype.max:
            near = dtype.min if number < dtype.min else dtype.max
            raise TypeTileError(
                "TB251",
                f"{what}: {number} does not fit in {dtype} ({dtype.min} to {dtype.max})",
                why="the value would wrap around without notice",
                fix=f"use {near}, or a buffer of a wider type",
            )
    return scalar(e, dtype)


def fill(buffer: Buffer | Region | Load, value: Any, annotations: Any = None) -> Stmt:
    """Set every element of a buffer or slice to `value` (cast to its dtype): `T.fill(m,
    -T.infinity(m.dtype))`."""
    if isinstance(buffer, Load):
        return Store(buffer.buffer, buffer.indices, fits(value, buffer.dtype, "fill"))
    destination = as_region(buffer, "the buffer to fill")
    return Fill(destination, fits(value, destination.dtype, "fill"))


def clear(buffer: Buffer | Region | Load, annotations: Any = None) -> Stmt:
    """Set every element of a buffer or slice to zero."""
    return fill(buffer, 0)


def _fill_example(dtype: str, value: Any) -> Callable[[], Kernel]:
    def build() -> Kernel:
        from tilebench.ops.copy.spec import copy
        from tilebench.ops.examples import Draft, tile

        d = Draft(f"fill_{dtype}", (2,))
        (bx,) = d.blocks
        out, direct = d.tensor("B", (50, 17), dtype, "out"), d.tensor("D", (50, 17), dtype, "out")
        part = d.fragment("part", (30, 17), dtype)
        d.add(fill(part, value), clear(tile(part, (3, 4), (0, 17))), copy(part, out[bx * 30, 0]))
        d.add(fill(tile(direct, (bx * 30, 30), (0, 17)), value))
        return d.kernel()

    build.__name__ = f"fill_{dtype}"
    return build


Fill.examples = (
    _fill_example("float16", 1.5),
    _fill_example("float32", -math.inf),
    _fill_example("bfloat16", 0.1),
    _fill_example("int32", -7),
    _fill_example("bool", True),
)
