"""Fences of the async proxy that nothing needs are left out.

A fence (ir/hopper.py: FenceProxyAsync) orders what its thread did in shared memory before what bulk copies
and products do there. Lowering puts one wherever there might be something to order; each costs a wait for all
that the thread has under way. Here those go that have no access of the thread to order: since the last fence,
on any way, it has not touched bytes that the async proxy touches somewhere in the program. A fence that is
needed in a loop only for what was done before it stands before the loop.
"""

from __future__ import annotations

import dataclasses
from functools import cache

from tilebench.ir.expr import Load, int_value
from tilebench.ir.hopper import (
    BulkLoad,
    BulkStore,
    FenceProxyAsync,
    MBarrierArrive,
    MBarrierExpect,
    MBarrierInit,
    MBarrierWait,
    Wgmma,
)
from tilebench.ir.rewrite import Node, children, seq, walk
from tilebench.ir.thread import Memory, Role
from tilebench.ir.tile import Break, Continue, For, If, Seq, Stmt, While

ASYNC = (Wgmma, BulkLoad, BulkStore)
ELSEWHERE = (*ASYNC, MBarrierInit, MBarrierArrive, MBarrierExpect, MBarrierWait)
"""Statements that name shared memory and do not reach it as threads do."""

Bytes = tuple[int, int]


def without_idle_fences(roles: tuple[Role, ...]) -> tuple[Role, ...]:
    """The roles without the fences that order nothing."""
    touched = {
        (m.byte_offset, _end(m))
        for r in roles
        for s in walk(r.body)
        if isinstance(s, ASYNC)
        for m in _named(s)
    }
    pass_ = _Fences(touched)
    bodies = {id(r.body): pass_.cleared(r.body, False) for r in roles}  # roles may share one
    return tuple(dataclasses.replace(r, body=bodies[id(r.body)]) for r in roles)


class _Fences:
    """`dirty`: an access that no fence closes may be there. What was found out of a statement is kept."""

    def __init__(self, touched: set[Bytes]) -> None:
        self.touched = touched
        self.reaches: dict[int, bool] = {}
        self.behind: dict[tuple[int, bool], bool] = {}
        self.fenced: dict[int, bool] = {}

    def cleared(self, s: Stmt, dirty: bool) -> Stmt:
        """The statement; dirty: before it."""
        if not self.has_fence(s):
            return s
        match s:
            case FenceProxyAsync():
                return s if dirty else seq()
            case Seq():
                parts: list[Stmt] = []
                for part in s.body:
                    parts.append(self.cleared(part, dirty))
                    dirty = self.after(part, dirty)
                return seq(*parts)
            case If():
                dirty = dirty or self.touches(s.condition)
                orelse = None if s.orelse is None else self.cleared(s.orelse, dirty)
                return dataclasses.replace(s, then=self.cleared(s.then, dirty), orelse=orelse)
            case For() | While():
                late = self.cleared(s.body, self.enters(s, dirty))
                if dirty and not self.enters(s, False):
                    # What was done before the loop is closed once, rather than in each iteration.
                    early = self.cleared(s.body, False)
                    if _fences_in(early) < _fences_in(late):
                        return seq(FenceProxyAsync(loc=s.loc), dataclasses.replace(s, body=early))
                return dataclasses.replace(s, body=late)
            case _:
                return s

    def after(self, s: Stmt, dirty: bool) -> bool:
        """Whether it is dirty behind the statement."""
        key = id(s), dirty
        if key not in self.behind:
            self.behind[key] = self._after(s, dirty)
        return self.behind[key]

    def _after(self, s: Stmt, dirty: bool) -> bool:
        match s:
            case FenceProxyAsync():
                return False
            case Seq():
                for part in s.body:
                    dirty = self.after(part, dirty)
                return dirty
            case If():
                dirty = dirty or self.touches(s.condition)
                return self.after(s.then, dirty) or (
                    dirty if s.orelse is None else self.after(s.orelse, dirty)
                )
            case For() | While():
                dirty = self.enters(s, dirty)
                return dirty or self.after(s.body, dirty)
            case _:
                return dirty or (not isinstance(s, ELSEWHERE) and self.touches(s))

    def enters(self, s: For | While, dirty: bool) -> bool:
        """Whether it is dirty where an iteration begins, the first or a later one. A loop that is left in the
        middle always is.
        """
        head = (s.start, s.stop, s.step) if isinstance(s, For) else (s.condition,)
        dirty = dirty or any(map(self.touches, head))
        return (
            dirty or self.after(s.body, dirty) or any(isinstance(n, Break | Continue) for n in walk(s.body))
        )

    def has_fence(self, s: Stmt) -> bool:
        """Whether there is a fence in it."""
        if id(s) not in self.fenced:
            inside = (c for c in children(s) if isinstance(c, Stmt))
            self.fenced[id(s)] = isinstance(s, FenceProxyAsync) or any(map(self.has_fence, inside))
        return self.fenced[id(s)]

    def touches(self, node: Node) -> bool:
        """Whether something below reaches bytes that the async proxy reaches too."""
        if id(node) not in self.reaches:
            self.reaches[id(node)] = any(
                m.byte_offset < end and start < _end(m)
                for n in walk(node)
                for m in _named(n)
                for start, end in self.touched
            )
        return self.reaches[id(node)]


def _fences_in(s: Stmt) -> int:
    return sum(isinstance(n, FenceProxyAsync) for n in walk(s))


def _named(node: Node) -> list[Memory]:
    """The shared memories that a node itself names."""
    if isinstance(node, Load):
        values: list[object] = [node.buffer]
    elif isinstance(node, Stmt):
        values = [getattr(node, name) for name in _fields(type(node))]
    else:
        return []
    return [m for m in values if isinstance(m, Memory) and m.space == "shared"]


@cache
def _fields(kind: type[Stmt]) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind))


def _end(memory: Memory) -> int:
    """Where it ends in the block's shared memory; beyond everything when that is not known."""
    count = int_value(memory.shape[0])
    return memory.byte_offset + (1 << 30 if count is None else count * memory.dtype.bits // 8)


__all__ = ["without_idle_fences"]
