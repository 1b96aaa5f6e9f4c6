"""Bulk reductions that each warpgroup makes on its own: when a product's warpgroups share its columns, and
these are whole panels of the tile that goes out, none needs to wait for another.
"""

from __future__ import annotations

from dataclasses import replace

from tilebench.ir.rewrite import transform, walk
from tilebench.ir.tile import Kernel, Region, Stmt, TileOp
from tilebench.ops.atomic import AtomicTile
from tilebench.ops.copy import Copy
from tilebench.ops.copy.bulk_reduce import NAME as REDUCE
from tilebench.ops.copy.bulk_reduce import panels_of_columns
from tilebench.ops.gemm import Gemm, GemmWarpPolicy
from tilebench.ops.gemm.wgmma import NAME as WGMMA
from tilebench.ops.gemm.wgmma import splits
from tilebench.passes.regions import touches
from tilebench.passes.stages import Selected


def with_reductions_alone(selected: Selected) -> Kernel:
    """The kernel with `alone` set on such reductions and on the copies into their tiles; itself when there
    are none.
    """
    kernel = selected.kernel
    fresh: dict[Stmt, Stmt] = {}
    for op, instruction in selected.instructions.items():
        if instruction.name == REDUCE and isinstance(op, AtomicTile) and not op.alone:
            copy = _copy_into(op, selected)
            if copy is not None:
                fresh[op], fresh[copy] = replace(op, alone=True), replace(copy, alone=True)
    if not fresh:
        return kernel
    return replace(
        kernel, body=transform(kernel.body, lambda n: fresh.get(n) if isinstance(n, TileOp) else None)
    )


def _copy_into(op: AtomicTile, selected: Selected) -> Copy | None:
    """The copy that fills the reduction's tile, each warpgroup some columns; None when others touch it."""
    assert isinstance(op.value, Region)
    tile = op.value.buffer
    users = {t.stmt for t in touches(selected.kernel.body) if t.buffer is tile} - {op}
    copy = next(iter(users), None)
    if len(users) != 1 or not isinstance(copy, Copy) or not op.value.is_whole:
        return None
    source, groups = copy.source, selected.kernel.thread_count // 128
    if not source.is_whole or not copy.destination.is_whole or source.buffer.scope != "fragment":
        return None
    makers = [n for n in walk(selected.kernel.body) if isinstance(n, Gemm) and n.c.buffer is source.buffer]
    if not makers or not panels_of_columns(op.value, groups):
        return None
    return copy if all(_by_columns(g, selected) for g in makers) else None


def _by_columns(g: Gemm, selected: Selected) -> bool:
    """Whether the product's warpgroups certainly have columns of its result to themselves."""
    if selected.instructions[g].name != WGMMA:
        return False
    m, n, _ = g.mnk
    groups = selected.kernel.thread_count // 128
    possible = list(splits(m, n, selected.kernel.thread_count))
    return (1, groups) in possible and (len(possible) == 1 or g.policy is GemmWarpPolicy.FullCol)


__all__ = ["with_reductions_alone"]
