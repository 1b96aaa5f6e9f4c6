"""What a tile statement touches: accesses to shared and global memory, for the passes that order and place
things.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tilebench.ir.expr import Expr, Load, Var
from tilebench.ir.rewrite import children, substitute, walk
from tilebench.ir.tile import (
    AtomicRMW,
    Bind,
    Break,
    Buffer,
    Continue,
    For,
    If,
    Parallel,
    Pipelined,
    Print,
    Region,
    Seq,
    Stmt,
    Store,
    TileOp,
    Versioned,
    While,
    whole,
)  # fmt: skip
from tilebench.ops.atomic import AtomicTile
from tilebench.ops.copy import Copy

Mode = Literal["read", "write", "atomic"]


@dataclass(frozen=True, eq=False)
class Touch:
    """One access to memory that threads share.

    buffer: the root of its views; region None: somewhere in it.
    """

    buffer: Buffer
    mode: Mode
    region: Region | None
    stmt: Stmt


def root_of(buffer: Buffer) -> Buffer:
    """`buffer.data`."""
    return buffer.data


def touches(s: Stmt) -> Iterator[Touch]:
    """Every access to shared and global memory in a statement and what is nested in it, in no particular
    order.
    """
    for part in _statements(s):
        yield from own_touches(part)


def own_touches(s: Stmt) -> Iterator[Touch]:
    """Accesses of the statement itself: of nested statements only those of a tile op's own expressions."""
    if isinstance(s, TileOp):
        atomic = isinstance(s, AtomicTile)
        for r in s.reads:
            if not (atomic and r is s.destination):
                yield from _touch(r.buffer, "read", r, s)
        for r in s.writes:
            yield from _touch(r.buffer, "atomic" if atomic else "write", r, s)
    elif isinstance(s, Store):
        yield from _touch(s.buffer, "write", _element(s.buffer, s.indices), s)
    elif isinstance(s, AtomicRMW):
        yield from _touch(s.buffer, "atomic", _element(s.buffer, s.indices), s)
    elif isinstance(s, Print) and s.buffer is not None:
        region = whole(s.buffer) if s.buffer.scope != "global" else None
        yield from _touch(s.buffer, "read", region, s)
    for child in children(s):
        if isinstance(child, Stmt):
            continue
        for node in walk(child):
            if isinstance(node, Load):
                yield from _touch(node.buffer, "read", _element(node.buffer, node.indices), s)


def _element(buffer: Buffer, indices: tuple[Expr, ...]) -> Region:
    return Region(buffer, indices, (1,) * len(indices))


def _touch(buffer: Buffer, mode: Mode, region: Region | None, s: Stmt) -> Iterator[Touch]:
    root = buffer.data
    if root.scope in ("shared", "global"):
        yield Touch(root, mode, region if root is buffer else None, s)


def _statements(s: Stmt) -> Iterator[Stmt]:
    yield s
    for child in children(s):
        if isinstance(child, Stmt):
            yield from _statements(child)


def straight(s: Stmt) -> Iterator[Stmt]:
    """The statements that run one after the other, Seqs and Versioned taken apart."""
    if isinstance(s, Seq):
        for part in s.body:
            yield from straight(part)
    elif isinstance(s, Versioned):
        yield from straight(s.body)
    else:
        yield s


def overwrites(s: Stmt, buffer: Buffer) -> bool:
    """Whether the statement certainly writes all of the buffer and reads none of it."""
    own = [t for t in touches(s) if t.buffer is buffer]
    if any(t.mode != "write" for t in own):
        return False
    if isinstance(s, TileOp):
        return any(t.region is not None and t.region.is_whole for t in own)
    if isinstance(s, Parallel):
        return any(
            isinstance(x, Store) and x.buffer is buffer and buffer.static_shape == s.extents
            and all(i is v for i, v in zip(x.indices, s.vars, strict=True))
            for x in straight(s.body)
        )  # fmt: skip
    return False


def leaves_loop(s: Stmt) -> bool:
    """Whether a break or continue in it belongs to the loop around it."""
    if isinstance(s, Break | Continue):
        return True
    if isinstance(s, For | While | Pipelined):
        return False
    return any(leaves_loop(c) for c in children(s) if isinstance(c, Stmt))


def uses(s: Stmt) -> tuple[set[Buffer], set[Buffer]]:
    """The buffers of every scope that a statement may read, and those that it may write; roots of views."""
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    for n in walk(s):
        if isinstance(n, TileOp):
            reads |= {r.buffer.data for r in n.reads}
            writes |= {r.buffer.data for r in n.writes}
        elif isinstance(n, Load):
            reads.add(n.buffer.data)
        elif (
            isinstance(n, Stmt)
            and not isinstance(n, Store)
            and isinstance(buffer := getattr(n, "buffer", None), Buffer)
        ):
            reads.add(buffer.data)
            writes.add(buffer.data)
        elif isinstance(n, Store):
            writes.add(n.buffer.data)
    return reads, writes


def guarded_copies(s: Stmt) -> Iterator[Copy]:
    """The copies of an if, and of the ifs in it; nothing for other statements."""
    if isinstance(s, If):
        for branch in (s.then, s.orelse):
            for p in (branch.body if isinstance(branch, Seq) else (branch,)) if branch is not None else ():
                yield from (p,) if isinstance(p, Copy) else guarded_copies(p)


def bound_indices(body: Stmt) -> Mapping[Var, Expr]:
    """Names bound once to integer expressions without loads: var -> value, in terms of names that are not in
    the mapping.
    """
    values: dict[Var, Expr] = {}
    for node in walk(body):
        if (
            isinstance(node, Bind)
            and node.value.dtype.is_int
            and not any(isinstance(n, Load) for n in walk(node.value))
        ):
            values[node.var] = substitute(node.value, values)
    return values
