"""The program's block variables: the grid's own, or numbers from which the kernel's are permuted."""

from __future__ import annotations

from tilebench.ir.expr import Var
from tilebench.ir.tile import Bind
from tilebench.passes.lower.builder import Builder
from tilebench.passes.lower.statements import lower_stmt
from tilebench.passes.rasterise import panel_of, permuted


def rasterised_blocks(b: Builder) -> tuple[Var, ...]:
    """The block variables of the program; with a panel the kernel's own are bound to the permuted block."""
    kernel = b.kernel
    panel, order = panel_of(kernel.attributes.get("swizzle_panel"))
    if not panel or len(kernel.blocks) < 2:
        return kernel.blocks
    raw = tuple(b.fresh(f"raw_{v.name}") for v in kernel.blocks)
    for own, old in zip(raw, kernel.blocks, strict=True):
        b.ranges[own] = b.ranges[old]
        b.root_names.add(own)
    for s in permuted(raw, kernel.grid, panel, order, kernel.blocks):
        lower_stmt(b, s)
    for var, own in zip(kernel.blocks[2:], raw[2:], strict=True):
        b.emit(Bind(var, own))
    return raw
