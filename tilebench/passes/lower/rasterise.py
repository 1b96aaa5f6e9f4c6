"""`T.use_swizzle`: blocks visited in panels of rows, so that neighbours in time share operands in the L2
cache."""

from __future__ import annotations

from typing import Any, cast

from tilebench.ir.expr import Expr, Var, binary, const, select
from tilebench.ir.tile import Bind
from tilebench.passes.lower.builder import Builder


def rasterised_blocks(b: Builder) -> tuple[Var, ...]:
    """The program's block variables; with a panel the kernel's own are bound to the permuted block.

    The attribute swizzle_panel is (size, order), or the size: a panel is `size` rows of the grid (columns
    with order 'column'), walked along its short side first, every other panel backwards.
    """
    kernel = b.kernel
    panel, order = _panel(kernel.attributes.get("swizzle_panel"))
    if not panel or len(kernel.blocks) < 2:
        return kernel.blocks
    raw = tuple(b.fresh(f"raw_{v.name}") for v in kernel.blocks)
    for own, old in zip(raw, kernel.blocks, strict=True):
        b.ranges[own] = b.ranges[old]
        b.root_names.add(own)
    x, y = raw[0], raw[1]
    width, height = kernel.grid[0], kernel.grid[1]
    number = x + y * width
    across, along = (height, width) if order == "column" else (width, height)
    full: Expr = across * const(panel)
    offset = b.bind("panel_offset", number % full)
    index = b.bind("panel", number // full)
    left = along - index * panel
    short = b.bind("panel_rows", binary("min", const(panel), left))
    step = b.bind("panel_step", offset // short)
    here = select(binary("eq", index % 2, const(1)), across - 1 - step, step)
    row = offset % short + index * panel
    first, second = (row, here) if order == "column" else (here, row)
    for var, value in zip(kernel.blocks[:2], (first, second), strict=True):
        b.emit(Bind(var, b.simple(value)))
    for var, own in zip(kernel.blocks[2:], raw[2:], strict=True):
        b.emit(Bind(var, own))
    return raw


def _panel(given: Any) -> tuple[int, str]:
    if isinstance(given, tuple):
        size, order = cast("tuple[int, str]", given)
        return int(size), str(order)
    return int(given or 0), "row"
