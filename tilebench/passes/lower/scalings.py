"""Nests that multiply rows by factors which are mostly one: a warp whose factors all are leaves its rows.

Attention rescales its result when a row's maximum grows; a program that lets the maximum lag behind a little
does so rarely. Whether to is asked of the warp as a whole, so that no thread goes another way than its
neighbours.
"""

from __future__ import annotations

from tilebench.ir.dtype import bool_
from tilebench.ir.expr import Binary, Expr, Load, binary, call, const
from tilebench.ir.tile import Buffer, Parallel, Seq, Store
from tilebench.layouts import FragmentLayout
from tilebench.passes.lower.builder import Builder
from tilebench.passes.place_rules import find_by_place

SKIP_ONES = "TB_SKIP_UNIT_SCALING"
"""Pass config: such nests stand under a vote of the warp."""


def factors_differ(b: Builder, s: Parallel) -> Expr | None:
    """Whether any lane of the warp has a factor other than one; None for any other nest, or without the
    config.
    """
    if not b.kernel.configs.get(SKIP_ONES):
        return None
    found = _scaled(s)
    if found is None:
        return None
    tile, factors = found
    layout, own, loop = b.layouts.get(tile), b.layouts.get(factors), find_by_place(b.placed.loops, s)
    if not isinstance(layout, FragmentLayout) or not isinstance(own, FragmentLayout) or loop is None:
        return None
    rows = layout.project(1)
    digits = tuple(d for d in rows.reg if d.dim is not None)
    if not loop.same_as(layout) or not FragmentLayout(rows.shape, digits, rows.thread).same_as(own):
        return None
    memory, _ = b.fragment(factors)
    other: Expr = const(False)
    for r in range(own.registers):
        differs = binary("ne", b.load(memory, r), const(1.0, factors.dtype))
        other = differs if r == 0 else binary("or", other, differs)
    return call("any_sync", (other,), bool_)


def _scaled(s: Parallel) -> tuple[Buffer, Buffer] | None:
    """(tile, factors) of `tile[i, j] = tile[i, j] * factors[i]` over all of a fragment."""
    body = s.body.body[0] if isinstance(s.body, Seq) and len(s.body.body) == 1 else s.body
    if not isinstance(body, Store) or len(s.vars) != 2 or not isinstance(body.value, Binary):
        return None
    tile, product = body.buffer, body.value
    if tile.scope != "fragment" or s.extents != tile.static_shape or product.op != "mul":
        return None
    if not all(i is v for i, v in zip(body.indices, s.vars, strict=True)):
        return None
    for old, factor in ((product.left, product.right), (product.right, product.left)):
        if not isinstance(old, Load) or not isinstance(factor, Load) or old.buffer is not tile:
            continue
        same = len(old.indices) == 2 and all(i is v for i, v in zip(old.indices, s.vars, strict=True))
        by_row = len(factor.indices) == 1 and factor.indices[0] is s.vars[0]
        if same and by_row and factor.buffer.scope == "fragment" and factor.buffer is not tile:
            return tile, factor.buffer
    return None


__all__ = ["factors_differ"]
