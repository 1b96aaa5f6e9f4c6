"""Nodes, which loop layouts are chosen for: a Parallel nest, or an op seen as one (copy, fill, transpose,
atomic, reduce, scan), as loop variables with extents and the accesses made in each iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilebench.errors import Loc
from tilebench.ir.dtype import int32
from tilebench.ir.expr import Call, Expr, Load, Var, cast, const, same
from tilebench.ir.rewrite import rebuild_keeping_binders, seq, substitute, walk
from tilebench.ir.thread import Memory
from tilebench.ir.tile import (
    AtomicRMW,
    Bind,
    Buffer,
    For,
    If,
    Parallel,
    Region,
    Seq,
    Stmt,
    Store,
    TileOp,
    While,
)  # fmt: skip
from tilebench.layouts import FragmentLayout
from tilebench.ops.atomic import AtomicTile
from tilebench.ops.copy import Copy
from tilebench.ops.elementwise import Fill
from tilebench.ops.reduce import Reduce
from tilebench.ops.regions import coordinates, squeezed
from tilebench.ops.scan import Scan
from tilebench.ops.transpose import Transpose


@dataclass(frozen=True)
class Access:
    """One element that each iteration touches."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    write: bool


@dataclass(frozen=True, eq=False)
class Node:
    """A nest, or an op as one. origin: the statement; reduced: the loop dimension that is folded or scanned.

    rereads: an iteration reads back from memory what it wrote there, so one thread alone must run it.
    """

    origin: Stmt
    names: tuple[Var, ...]
    extents: tuple[int, ...]
    accesses: tuple[Access, ...]
    loc: Loc | None
    reduced: int | None = None
    width: int | None = None
    layout: FragmentLayout | None = None
    rereads: bool = False

    def of(self, *scopes: str) -> Iterator[Access]:
        """Accesses to buffers of these scopes."""
        return (a for a in self.accesses if a.buffer.scope in scopes)


def loop_names(count: int) -> tuple[Var, ...]:
    """Fresh loop variables."""
    return tuple(Var("ijklmn"[d % 6], dtype=int32) for d in range(count))


def as_nest(op: TileOp) -> Parallel | None:
    """The op as a Parallel nest of one statement, with no guards (lowering guards global accesses itself);
    None for others."""
    body: Stmt
    match op:
        case Copy():
            extents = squeezed(op.destination.shape) or (1,)
            names = loop_names(len(extents))
            point = names if squeezed(op.destination.shape) else ()
            source = Load(op.source.buffer, coordinates(op.source, point), dtype=op.source.dtype)
            value = cast(source, op.destination.dtype)
            body = Store(op.destination.buffer, coordinates(op.destination, point), value, loc=op.loc)
        case Fill():
            extents = squeezed(op.destination.shape) or (1,)
            names = loop_names(len(extents))
            point = names if squeezed(op.destination.shape) else ()
            body = Store(op.destination.buffer, coordinates(op.destination, point), op.value, loc=op.loc)
        case Transpose():
            rows, columns = op.matrix
            extents = (columns, rows)
            names = loop_names(2)
            j, i = names
            source = Load(
                op.source.buffer,
                coordinates(op.source, [i] * (rows != 1) + [j] * (columns != 1)),
                dtype=op.source.dtype,
            )
            place = coordinates(op.destination, [j] * (columns != 1) + [i] * (rows != 1))
            body = Store(op.destination.buffer, place, cast(source, op.destination.dtype), loc=op.loc)
        case AtomicTile():
            extents = squeezed(op.destination.shape) or (1,)
            names = loop_names(len(extents))
            point = names if squeezed(op.destination.shape) else ()
            if isinstance(op.value, Region):
                value = Load(op.value.buffer, coordinates(op.value, point), dtype=op.value.dtype)
            else:
                value = op.value
            place = coordinates(op.destination, point)
            body = AtomicRMW(
                op.op,
                op.destination.buffer,
                place,
                cast(value, op.destination.dtype),
                order=op.order,
                loc=op.loc,
            )
        case _:
            return None
    width = op.coalesced_width if isinstance(op, Copy) else None
    return Parallel(names, extents, body, coalesced_width=width, loc=op.loc)


def flattened(nest: Parallel) -> tuple[tuple[Var, ...], tuple[int, ...], Stmt]:
    """Variables, extents and body of a nest, perfectly nested Parallels joined."""
    names, extents, body = nest.vars, nest.extents, with_indices_inlined(nest.body)
    while True:
        inner = body.body[0] if isinstance(body, Seq) and len(body.body) == 1 else body
        if not isinstance(inner, Parallel):
            return names, extents, body
        names, extents, body = (*names, *inner.vars), (*extents, *inner.extents), inner.body


def with_indices_inlined(body: Stmt) -> Stmt:
    """Integer names bound in the body written out where they are used, so that indices are functions of the
    loop."""
    if isinstance(body, Seq):
        parts: list[Stmt] = []
        values: dict[Var, Expr] = {}
        for part in body.body:
            part = substitute(part, values) if values else part
            if isinstance(part, Bind) and not part.value.dtype.is_float and _is_short(part.value):
                values[part.var] = part.value
            else:
                parts.append(with_indices_inlined(part))
        return seq(*parts)
    if isinstance(body, For | If | While | Parallel):
        return rebuild_keeping_binders(body, lambda n: with_indices_inlined(n) if isinstance(n, Stmt) else n)
    return body


def _is_short(e: Expr) -> bool:
    nodes = list(walk(e))
    return len(nodes) <= 24 and not any(isinstance(n, Call | Load) for n in nodes)


def node_of_nest(nest: Parallel, origin: Stmt | None = None) -> Node:
    """A Parallel nest as a node."""
    names, extents, body = flattened(nest)
    found: list[Access] = []
    for n in walk(body):
        if isinstance(n, Store | AtomicRMW) and not isinstance(n.buffer, Memory):
            found.append(Access(n.buffer, n.indices, True))
        elif isinstance(n, Load) and not isinstance(n.buffer, Memory):
            found.append(Access(n.buffer, n.indices, False))
    layout = nest.layout if isinstance(nest.layout, FragmentLayout) else None
    again = _rereads(body)
    return Node(
        origin or nest, names, extents, tuple(found), nest.loc, None, nest.coalesced_width, layout, again
    )


def _rereads(body: Stmt) -> bool:
    """Whether memory that the body writes is also read, other than as the old value of the one element
    written."""
    writers: dict[Buffer, list[Store | AtomicRMW]] = {}
    for n in walk(body):
        if isinstance(n, Store | AtomicRMW) and n.buffer.scope in ("global", "shared"):
            writers.setdefault(n.buffer.data, []).append(n)
    if not writers:
        return False
    for n in walk(body):
        if isinstance(n, Load) and (found := writers.get(n.buffer.data)):
            only = found[0]
            if len(found) > 1 or not isinstance(only, Store) or only.buffer is not n.buffer:
                return True
            if not all(same(a, b) for a, b in zip(n.indices, only.indices, strict=True)):
                return True
            if not any(part is n for part in walk(only.value)):
                return True
    return False


def node_of(s: Stmt) -> Node | None:
    """A statement as a node, or None when it is neither a nest nor an op that is like one."""
    match s:
        case Parallel():
            return node_of_nest(s)
        case Reduce():
            shape = s.source.shape
            names = loop_names(len(shape))
            kept = len(s.destination.shape) == len(shape)
            rest = [const(0) if d == s.dim else v for d, v in enumerate(names) if kept or d != s.dim]
            if squeezed(s.destination.shape) != squeezed(tuple(n for d, n in enumerate(shape) if d != s.dim)):
                return None
            if len(rest) != len(s.destination.shape):
                point = [v for d, v in enumerate(names) if d != s.dim and shape[d] != 1]
                target = coordinates(s.destination, point)
            else:
                target = s.destination.index(tuple(rest))
            accesses = (
                Access(s.source.buffer, s.source.index(names), False),
                Access(s.destination.buffer, target, True),
            )
            return Node(s, names, shape, accesses, s.loc, s.dim)
        case Scan():
            names = loop_names(len(s.source.shape))
            accesses = (
                Access(s.source.buffer, s.source.index(names), False),
                Access(s.destination.buffer, s.destination.index(names), True),
            )
            return Node(s, names, s.source.shape, accesses, s.loc, s.dim)
        case TileOp():
            nest = as_nest(s)
            return None if nest is None else node_of_nest(nest, s)
        case _:
            return None
