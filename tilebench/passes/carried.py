"""T.Parallel loops in which an iteration certainly reads what another one writes: they have no one answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from tilebench.errors import SyncError
from tilebench.ir.expr import Binary, Expr, Load, Select, Var
from tilebench.ir.rewrite import children, walk
from tilebench.ir.tile import Bind, Buffer, Parallel, Seq, Stmt, Store
from tilebench.passes.indices import evaluate, split_index

MOST = 1 << 20
"""Iterations of a nest that is looked at."""


def check_carried(nest: Parallel) -> None:
    """Raises SyncError TB413 for a read of an element that another iteration of the nest writes.

    Only what every iteration does counts (nothing under a condition), at indices that are known.
    """
    names, extents, body = _joined(nest)
    if not 1 < prod(extents) <= MOST:
        return
    stores: dict[Buffer, list[Store]] = {}
    reads: list[tuple[Load, Stmt]] = []
    for s in _certain(body):
        if isinstance(s, Store) and s.buffer.scope in ("shared", "fragment", "global"):
            stores.setdefault(s.buffer, []).append(s)
        reads += [(e, s) for e in _loads(s)]
    for e, s in reads:
        for store in stores.get(e.buffer, ()):
            if _other_writes(e.indices, store.indices, names, extents):
                raise SyncError(
                    "TB413",
                    f"an iteration of T.Parallel reads an element of {e.buffer.name} that another one writes",
                    at=e.loc or s.loc or nest.loc,
                    why="the iterations run on different threads, in no order, so either value may be read",
                    fix=f"write to another tile, or put what reads {e.buffer.name} and what writes it into "
                    "T.Parallel loops of their own",
                    notes=[(store.loc, "the write")],
                )


def _joined(nest: Parallel) -> tuple[tuple[Var, ...], tuple[int, ...], Stmt]:
    """Variables, extents and body, with loops directly inside each other joined."""
    names, extents, body = nest.vars, nest.extents, nest.body
    while isinstance(body, Parallel):
        names, extents, body = (*names, *body.vars), (*extents, *body.extents), body.body
    return names, extents, body


def _certain(s: Stmt) -> Iterator[Stmt]:
    """Stores and names of the body that every iteration comes to."""
    if isinstance(s, Seq):
        for part in s.body:
            yield from _certain(part)
    elif isinstance(s, Store | Bind):
        yield s


def _loads(node: Any) -> Iterator[Load]:
    """Loads that are certainly done: none on one side of a choice."""
    if isinstance(node, Select):
        yield from _loads(node.condition)
        return
    if isinstance(node, Binary) and node.op in ("and", "or"):
        yield from _loads(node.left)
        return
    if isinstance(node, Load):
        yield node
    for child in children(node):
        yield from _loads(child)


def _other_writes(
    read: Sequence[Expr], written: Sequence[Expr], names: Sequence[Var], extents: Sequence[int]
) -> bool:
    """Whether an iteration reads what another one writes; False where indices are not known."""
    grids = dict(zip(names, np.indices(extents, sparse=True), strict=True))
    mine: list[Any] = []
    theirs: list[Any] = []
    for a, b in zip(read, written, strict=True):
        x, y = evaluate(a, grids), evaluate(b, grids)
        if x is None or y is None:
            x, y = _affine(a, b, names, grids)
        if x is None or y is None:
            return False
        mine.append(np.broadcast_to(x, extents).reshape(-1))
        theirs.append(np.broadcast_to(y, extents).reshape(-1))
    if all(np.array_equal(x, y) for x, y in zip(mine, theirs, strict=True)):
        return False
    low = [int(min(x.min(), y.min())) for x, y in zip(mine, theirs, strict=True)]
    size = [int(max(x.max(), y.max())) - n + 1 for x, y, n in zip(mine, theirs, low, strict=True)]
    if prod(size) > 16 * MOST:
        return False
    at = np.ravel_multi_index(tuple(v - n for v, n in zip(mine, low, strict=True)), size)
    to = np.ravel_multi_index(tuple(v - n for v, n in zip(theirs, low, strict=True)), size)
    iterations = np.arange(prod(extents))
    writer = np.full(prod(size), -1)
    writer[to] = iterations
    return bool(((writer[at] >= 0) & (writer[at] != iterations)).any())


def _affine(a: Expr, b: Expr, names: Sequence[Var], grids: dict[Var, Any]) -> tuple[Any, Any]:
    """Both indices without what they share that is not known; (None, None) where they share less."""
    difference = split_index(a - b, names)
    form = split_index(b, names)
    if difference is None or difference.rest is not None or form is None:
        return None, None
    if any(isinstance(n, Load) for n in walk(b)):
        return None, None
    y = sum(c * grids[v] for c, v in zip(form.coefficients, names, strict=True))
    x = (
        y
        + difference.constant
        + sum(c * grids[v] for c, v in zip(difference.coefficients, names, strict=True))
    )
    return x, y
