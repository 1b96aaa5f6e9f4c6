"""Copies and accesses that lie wholly beyond their tensor in some blocks: zeros are read, nothing is written.

Nothing else says so: a tile that passes the end of a tensor is clipped, as tails are meant to be, and one
that starts behind the end is clipped to nothing. It is said only when it is certain: for the grid and the
sizes of the call, block by block, iteration by iteration, with all guards. A read that only its constant
takes there, beside another read of the same tensor, is meant: the next tile fetched ahead of the last
iteration, or the neighbour of the last row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tilebench.errors import LaunchError
from tilebench.ir.expr import Expr, Var
from tilebench.ir.launches import grid_of, launches
from tilebench.ir.simplify import from_linear, linear
from tilebench.ir.tile import Buffer, Kernel, TileOp
from tilebench.kernel.facts import line_of, span
from tilebench.kernel.touches import Space, Touch, depends, interval, space, touches
from tilebench.ops.atomic import AtomicTile
from tilebench.ops.copy import Copy
from tilebench.report import Finding

CODE = "TB288"


@dataclass(frozen=True)
class Beyond:
    """An access beyond its tensor: in how many blocks of how many, and the first case."""

    touch: Touch
    dim: int
    size: int
    blocks: int
    of: int
    start: int
    case: tuple[tuple[str, int], ...]
    """Names and values of the block's numbers and the loops' where it first is beyond."""


def beyond(kernel: Kernel, symbols: Mapping[Var, int]) -> tuple[Beyond, ...]:
    """The accesses of all launches that are beyond their tensors in some block.

    symbols: values of sizes and whole-number arguments; what depends on others is not looked at.
    """
    found: list[Beyond] = []
    for launch in launches(kernel):
        try:
            total = prod(grid_of(launch, symbols))
        except LaunchError as error:  # a grid that is not known
            if error.code != "TB604":
                raise
            continue
        every = touches(launch)
        safe: Mapping[Buffer, Any] = launch.attributes.get("safe_values") or {}
        for t in every:
            if t.certain and total and not (t.buffer in safe and not t.write) and _is_clipped(t):
                others = any(o is not t and o.buffer is t.buffer and not o.write for o in every)
                made = _look(t, symbols, total, others)
                if made is not None:
                    found.append(made)
    return tuple(found)


def _is_clipped(t: Touch) -> bool:
    """Whether the access is a copy, or of one element: other ops say themselves what is outside."""
    return _is_element(t) or isinstance(t.by, Copy) or (isinstance(t.by, AtomicTile) and t.write)


def _is_element(t: Touch) -> bool:
    return not isinstance(t.by, TileOp)


def _look(t: Touch, symbols: Mapping[Var, int], total: int, others: bool) -> Beyond | None:
    for dim, (index, extent) in enumerate(zip(t.indices, t.buffer.shape, strict=True)):
        of = interval(extent, t.axes, symbols)
        if of is None or of[0] != of[1]:
            continue
        plain = from_linear(linear(index))
        reach = interval(plain, t.axes, symbols)
        if reach is not None and reach[1] < of[0]:
            continue  # the usual case: it starts inside everywhere
        made = _dimension(t, dim, index, of[0], symbols, total, others)
        if made is not None:
            return made
    return None


def _dimension(
    t: Touch, dim: int, index: Expr, size: int, symbols: Mapping[Var, int], total: int, others: bool
) -> Beyond | None:
    own = depends(index, t.axes)
    if own is None:
        return None
    parts = _components(t, own)
    if parts is None:
        return None
    spaces = [space(t.axes, names, guards, symbols) for names, guards in parts]
    mine = spaces[0]
    if mine is None or any(s is None or not s.inside.any() for s in spaces):
        return None
    starts = mine.full(index)
    if starts is None:
        return None
    inner = mine.dims("parallel", "thread", *(("loop",) if _is_element(t) else ()))
    outside = _all_outside(mine, starts, size, inner)
    if not outside.any():
        return None
    moved = linear(index).constant
    meant = others and not t.write and moved > 0  # a tile ahead, or a neighbour
    if meant and not _all_outside(mine, starts - moved, size, inner).any():
        return None
    loops = tuple(d for d in mine.dims("loop") if d not in inner)
    in_block = outside.any(axis=loops, keepdims=True)
    blocks = int(in_block.sum()) * prod(_block_count(s) for s in spaces[1:] if s is not None)
    named = {a.var for s in spaces if s is not None for a in s.axes}
    for a in t.axes:
        if a.kind == "block" and a.var not in named:
            extent = interval(a.stop, (), symbols)
            blocks *= extent[0] if extent else 1
    place = tuple(int(i) for i in np.argwhere(outside)[0])
    case = tuple(
        (a.var.name, int(np.asarray(mine.known[a.var]).reshape(-1)[place[d]]))
        for d, a in enumerate(mine.axes)
        if d not in inner
    )
    ran = np.where(mine.inside, starts, np.iinfo(np.int64).max).min(axis=inner, keepdims=True)
    return Beyond(t, dim, size, blocks, total, int(ran[place]), case)


def _all_outside(s: Space, starts: np.ndarray, size: int, inner: tuple[int, ...]) -> np.ndarray:
    """Where something is accessed and nothing of it starts inside; `inner` dimensions are kept, of size 1."""
    some = s.inside.any(axis=inner, keepdims=True)
    return np.asarray(some & ((starts >= size) | ~s.inside).all(axis=inner, keepdims=True))


def _block_count(s: Space) -> int:
    rest = tuple(d for d in range(len(s.axes)) if d not in s.dims("block"))
    return int(s.inside.any(axis=rest).sum())


def _components(t: Touch, own: frozenset[Var]) -> list[tuple[frozenset[Var], list[Expr]]] | None:
    """The variables of the index with all guards that touch them, then the other guards in groups that share
    variables; None when a guard depends on data."""
    known = {a.var for a in t.axes}
    left: list[tuple[frozenset[Var], Expr]] = []
    for guard in t.guards:
        names = depends(guard, t.axes)
        if names is None:
            return None
        left.append((names, guard))
    made: list[tuple[frozenset[Var], list[Expr]]] = []
    names = own
    while True:
        names, guards, left = _gathered(names, left, known)
        made.append((names, guards))
        if not left:
            return made
        names = left[0][0]


def _gathered(
    names: frozenset[Var], left: Sequence[tuple[frozenset[Var], Expr]], known: set[Var]
) -> tuple[frozenset[Var], list[Expr], list[tuple[frozenset[Var], Expr]]]:
    guards: list[Expr] = []
    rest = list(left)
    while True:
        # a guard without variables is of the first group, which has to hold too
        joined = [g for g in rest if g[0] & names & known or not g[0] & known]
        if not joined:
            return names, guards, rest
        rest = [g for g in rest if g not in joined]
        guards += [g for _, g in joined]
        names = names.union(*(n for n, _ in joined))


def findings(kernel: Kernel, symbols: Mapping[Var, int]) -> list[Finding]:
    """A warning for each access that is beyond its tensor in some block; one for each line and tensor."""
    found: dict[tuple[Any, ...], Finding] = {}
    for b in beyond(kernel, symbols):
        t = b.touch
        kind = "an access" if _is_element(t) else "copy" if isinstance(t.by, Copy) else "atomic"
        effect = "nothing is written" if t.write else "zeros are read"
        text = f"{kind} starts beyond {t.buffer.name} in {b.blocks} of {b.of} blocks: {effect}"
        where = ", ".join(f"{name} = {n}" for name, n in b.case)
        hint = (
            f"dimension {b.dim} of {t.buffer.name} has {b.size} elements, and it starts at {b.start}"
            f"{' for ' + where if where else ''}: is the index one of another dimension, or a grid or loop "
            "too long? An if around it says that it is meant"
        )
        place = span(t.at)
        key = (t.buffer, line_of(t.at), t.write)
        found.setdefault(key, Finding("beyond", "warning", text, (place,) if place else (), hint, CODE))
    return list(found.values())


__all__ = ["CODE", "Beyond", "beyond", "findings"]
