"""`T.use_swizzle`: blocks visited in panels of rows, so that neighbours in time share operands in the L2
cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from tilebench.ir.dtype import int32
from tilebench.ir.expr import Expr, Var, binary, const, select
from tilebench.ir.tile import Bind, Stmt


def panel_of(given: Any) -> tuple[int, str]:
    """(size, order) of the attribute swizzle_panel: that pair, or the size; 0 for none."""
    if isinstance(given, tuple):
        size, order = cast("tuple[int, str]", given)
        return int(size), str(order)
    return int(given or 0), "row"


def permuted(
    raw: Sequence[Var], grid: Sequence[Expr], panel: int, order: str, blocks: Sequence[Var]
) -> list[Stmt]:
    """Statements that name the first two of `blocks`, permuted, from the numbers in `raw`.

    A panel is `panel` rows of the grid (columns with order 'column'), walked along its short side first,
    every other panel backwards.
    """
    out: list[Stmt] = []

    def named(name: str, value: Expr) -> Expr:
        var = Var(name, dtype=int32)
        out.append(Bind(var, value))
        return var

    width, height = grid[0], grid[1]
    number = raw[0] + raw[1] * width
    across, along = (height, width) if order == "column" else (width, height)
    full: Expr = across * const(panel)
    offset = named("panel_offset", number % full)
    index = named("panel", number // full)
    short = named("panel_rows", binary("min", const(panel), along - index * panel))
    step = named("panel_step", offset // short)
    here = select(binary("eq", index % 2, const(1)), across - 1 - step, step)
    row = offset % short + index * panel
    first, second = (row, here) if order == "column" else (here, row)
    return [*out, Bind(blocks[0], first), Bind(blocks[1], second)]
