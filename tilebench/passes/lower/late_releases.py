"""Tiles that threads have read go back behind the next fence that stands anyway.

A fence of the async proxy waits for everything that its thread has under way, so two of them in a row cost
two such waits. Where the statements behind a release lead to another fence, and none of them waits for a
tile or for other threads, or names the ring's slot, the release can stand behind that one: the producer gets
the slot a little later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilebench.ir.dtype import int32
from tilebench.ir.expr import Load, int_value
from tilebench.ir.hopper import (
    BulkLoad,
    BulkStore,
    FenceProxyAsync,
    MBarrierArrive,
    MBarrierWait,
    Wgmma,
)
from tilebench.ir.rewrite import rebuild, seq, walk
from tilebench.ir.thread import Barrier, Memory, Role
from tilebench.ir.tile import Buffer, If, Seq, Stmt, Store, While

NEEDS_IT = (MBarrierWait, MBarrierArrive, Barrier, FenceProxyAsync, Wgmma, BulkLoad, BulkStore, While)
"""What waits, tells others, or may use what the first fence has ordered."""


def with_late_releases(roles: tuple[Role, ...]) -> tuple[Role, ...]:
    """The roles with such releases moved."""
    bodies = {id(r.body): r.body for r in roles}  # roles may share one
    bodies = {key: _visit(body) for key, body in bodies.items()}
    return tuple(dataclasses.replace(r, body=bodies[id(r.body)]) for r in roles)


def _visit(s: Stmt) -> Stmt:
    if not any(isinstance(n, FenceProxyAsync) for n in walk(s)):
        return s
    inner = rebuild(s, lambda c: _visit(c) if isinstance(c, Stmt) else c)
    return seq(*_moved(inner.body)) if isinstance(inner, Seq) else inner


def _moved(parts: Sequence[Stmt]) -> list[Stmt]:
    out = list(parts)
    i = 0
    while i < len(out):
        if isinstance(out[i], FenceProxyAsync):
            end = i + 1
            while end < len(out) and _is_release(out[end]):
                end += 1
            group = out[i + 1 : end]
            fence = _next_fence(out, end, group) if group else None
            if fence is not None:
                out[i : fence + 1] = [*out[end : fence + 1], *group]
                continue
        i += 1
    return out


def _is_release(s: Stmt) -> bool:
    """An arrival, or counting on to the next slot."""
    leaves = [n for n in walk(s) if isinstance(n, Stmt) and not isinstance(n, Seq | If)]
    return bool(leaves) and all(isinstance(n, MBarrierArrive) or _counts(n) for n in leaves)


def _counts(s: Stmt) -> bool:
    """Whether it stores what comes of counters alone into a counter, a register of its own."""
    return isinstance(s, Store) and all(map(_is_counter, _named(s)))


def _named(s: Stmt) -> set[Buffer]:
    return {n.buffer for n in walk(s) if isinstance(n, Load | Store)}


def _is_counter(buffer: Buffer) -> bool:
    return (
        isinstance(buffer, Memory)
        and buffer.space == "register"
        and buffer.dtype == int32
        and int_value(buffer.shape[0]) == 1
    )


def _next_fence(parts: Sequence[Stmt], start: int, group: Sequence[Stmt]) -> int | None:
    """Where the next fence of all threads stands, when the group may wait for it."""
    if not any(isinstance(n, MBarrierArrive) for s in group for n in walk(s)):
        return None
    counted = set[Buffer]().union(*map(_named, group))
    for k in range(start, len(parts)):
        if isinstance(parts[k], FenceProxyAsync):
            return k
        if _named(parts[k]) & counted:
            return None
        for n in walk(parts[k]):
            if isinstance(n, NEEDS_IT):
                return None
    return None


__all__ = ["with_late_releases"]
