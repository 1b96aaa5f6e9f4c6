"""Bulk reductions that each warpgroup makes on its own: when a product's warpgroups share its columns, and
these are whole panels of the tile that goes out, or all go to rows of it that no other warpgroup fills, none
needs to wait for another.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilebench.ir.expr import Load
from tilebench.ir.rewrite import transform, walk
from tilebench.ir.tile import Buffer, Kernel, Parallel, Region, Stmt, Store
from tilebench.ops.atomic import AtomicTile
from tilebench.ops.copy import Copy
from tilebench.ops.copy.bulk_reduce import NAME as REDUCE
from tilebench.ops.copy.bulk_reduce import panels_of_columns
from tilebench.ops.gemm import Gemm, GemmWarpPolicy
from tilebench.ops.gemm.wgmma import NAME as WGMMA
from tilebench.ops.gemm.wgmma import splits
from tilebench.passes.indices import evaluate
from tilebench.passes.regions import straight, touches
from tilebench.passes.stages import Selected


def with_reductions_alone(selected: Selected) -> Kernel:
    """The kernel with `alone` set on such reductions and on what fills their tiles; itself when there are
    none.
    """
    kernel = selected.kernel
    fresh: dict[Stmt, Stmt] = {}
    for op, instruction in selected.instructions.items():
        if instruction.name == REDUCE and isinstance(op, AtomicTile) and not op.alone:
            filler = _filler(op, selected)
            if filler is not None:
                rows = isinstance(filler, Parallel)
                fresh[op], fresh[filler] = replace(op, alone=True, by_rows=rows), replace(filler, alone=True)
    if not fresh:
        return kernel
    return replace(
        kernel, body=transform(kernel.body, lambda n: fresh.get(n) if isinstance(n, Stmt) else None)
    )


def _filler(op: AtomicTile, selected: Selected) -> Copy | Parallel | None:
    """The copy that fills the reduction's tile, each warpgroup some columns, or the nest that does, each some
    rows; None when others touch it.
    """
    assert isinstance(op.value, Region)
    tile = op.value.buffer
    body = selected.kernel.body
    users = {t.stmt for t in touches(body) if t.buffer is tile} - {op}
    user = next(iter(users), None)
    if len(users) != 1 or not op.value.is_whole:
        return None
    if isinstance(user, Copy):
        source, filler = user.source.buffer, user
        if not user.source.is_whole or not user.destination.is_whole or source.scope != "fragment":
            return None
        if not panels_of_columns(op.value, selected.kernel.thread_count // 128):
            return None
    elif isinstance(user, Store):
        nest = next((n for n in walk(body) if isinstance(n, Parallel) and user in straight(n.body)), None)
        if nest is None or (found := _rows_of(nest, user, selected)) is None:
            return None
        source, filler = found, nest
    else:
        return None
    makers = [n for n in walk(body) if isinstance(n, Gemm) and n.c.buffer is source]
    return filler if makers and all(_by_columns(g, selected) for g in makers) else None


def _rows_of(nest: Parallel, store: Store, selected: Selected) -> Buffer | None:
    """The fragment that a nest of one store puts into a tile, when equal parts of its columns go to equal
    parts of the tile's rows, as many as there are warpgroups.
    """
    loads = [n for n in walk(nest) if isinstance(n, Load)]
    if [*straight(nest.body)] != [store] or len(loads) != 1 or loads[0].buffer.scope != "fragment":
        return None
    source, tile, groups = loads[0].buffer, store.buffer, selected.kernel.thread_count // 128
    if len(source.static_shape) != 2 or len(tile.static_shape) != 2:
        return None
    grids = dict(zip(nest.vars, np.indices(nest.extents, sparse=True), strict=True))
    column, row = evaluate(loads[0].indices[1], grids), evaluate(store.indices[0], grids)
    columns, rows = source.static_shape[1], tile.static_shape[0]
    if column is None or row is None or columns % groups or rows % groups:
        return None
    return source if np.all(column // (columns // groups) == row // (rows // groups)) else None


def _by_columns(g: Gemm, selected: Selected) -> bool:
    """Whether the product's warpgroups certainly have columns of its result to themselves."""
    if selected.instructions[g].name != WGMMA:
        return False
    m, n, _ = g.mnk
    groups = selected.kernel.thread_count // 128
    possible = list(splits(m, n, selected.kernel.thread_count))
    return (1, groups) in possible and (len(possible) == 1 or g.policy is GemmWarpPolicy.FullCol)


__all__ = ["with_reductions_alone"]
