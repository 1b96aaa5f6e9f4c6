"""Fences of the async proxy that nothing needs are left out.

A fence (ir/hopper.py: FenceProxyAsync) orders what its thread did in shared memory before what bulk copies
and products do there. Lowering puts one wherever there might be something to order; each costs a wait for all
that the thread has under way. Here those go that have no access of the thread to order: since the last fence,
on any way, it has not touched bytes that the async proxy touches somewhere in the program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from tilebench.ir.expr import int_value
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
from tilebench.ir.rewrite import Node, seq, walk
from tilebench.ir.thread import Memory, Role
from tilebench.ir.tile import Break, Continue, For, If, Seq, Stmt, While

ASYNC = (Wgmma, BulkLoad, BulkStore)
ELSEWHERE = (*ASYNC, MBarrierInit, MBarrierArrive, MBarrierExpect, MBarrierWait)
"""Statements that name shared memory and do not reach it as threads do."""

Bytes = tuple[int, int]


def without_idle_fences(roles: tuple[Role, ...]) -> tuple[Role, ...]:
    """The roles without the fences that order nothing."""
    touched = {_bytes(m) for r in roles for s in walk(r.body) if isinstance(s, ASYNC) for m in _named(s)}
    bodies = {id(r.body): _cleared(r.body, False, touched)[0] for r in roles}  # roles may share one
    return tuple(dataclasses.replace(r, body=bodies[id(r.body)]) for r in roles)


def _cleared(s: Stmt, dirty: bool, touched: set[Bytes]) -> tuple[Stmt, bool]:
    """The statement, and whether an access that no fence closes may be there behind it. dirty: before it."""
    match s:
        case FenceProxyAsync():
            return (s if dirty else seq()), False
        case Seq():
            parts: list[Stmt] = []
            for part in s.body:
                new, dirty = _cleared(part, dirty, touched)
                parts.append(new)
            return seq(*parts), dirty
        case If():
            dirty = dirty or _touches(s.condition, touched)
            then, after = _cleared(s.then, dirty, touched)
            orelse, otherwise = (None, dirty) if s.orelse is None else _cleared(s.orelse, dirty, touched)
            return dataclasses.replace(s, then=then, orelse=orelse), after or otherwise
        case For() | While():
            head = (s.start, s.stop, s.step) if isinstance(s, For) else (s.condition,)
            dirty = dirty or any(_touches(e, touched) for e in head)
            leaves = any(isinstance(n, Break | Continue) for n in walk(s.body))
            again = leaves or _cleared(s.body, dirty, touched)[1]
            new, after = _cleared(s.body, dirty or again, touched)
            return dataclasses.replace(s, body=new), dirty or after or leaves
        case _:
            return s, dirty or (not isinstance(s, ELSEWHERE) and _touches(s, touched))


def _touches(node: Node, touched: set[Bytes]) -> bool:
    """Whether something below reaches bytes that the async proxy reaches too."""
    return any(
        low < end and start < high
        for n in walk(node)
        for low, high in map(_bytes, _named(n))
        for start, end in touched
    )


def _named(node: Node) -> Iterable[Memory]:
    """The shared memories that a node itself names."""
    values = (getattr(node, f.name) for f in dataclasses.fields(node))
    return [m for m in values if isinstance(m, Memory) and m.space == "shared"]


def _bytes(memory: Memory) -> Bytes:
    """Where it lies in the block's shared memory: up to its end, wherever that is not known."""
    count = int_value(memory.shape[0])
    size = 1 << 30 if count is None else count * memory.dtype.bits // 8
    return memory.byte_offset, memory.byte_offset + size


__all__ = ["without_idle_fences"]
