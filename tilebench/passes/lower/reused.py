"""Barriers before scratch is used again are left out where another one stands between.

Whoever sends values through shared scratch has the threads meet first, since some may still read what its
last user left there (Barrier.reuse). In a loop there often is a barrier between one iteration's reads and the
next one's writes already; then that one does for both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tilebench.ir.expr import Load, int_value
from tilebench.ir.hopper import FenceProxyAsync
from tilebench.ir.rewrite import Node, children, seq, walk
from tilebench.ir.thread import Barrier, Memory, Role
from tilebench.ir.tile import Break, Continue, For, If, Seq, Stmt, While

Bytes = tuple[int, int]
Dirty = frozenset[Bytes]
"""Scratch that some thread may have touched since all of them met."""


def without_idle_barriers(roles: tuple[Role, ...]) -> tuple[Role, ...]:
    """The roles without the barriers before scratch that no thread can still be reading."""
    bodies: dict[int, Stmt] = {}  # roles may share one
    for r in roles:
        if id(r.body) not in bodies:
            own = {_bytes(n.reuse) for n in walk(r.body) if isinstance(n, Barrier) and n.reuse is not None}
            threads = sum(x.threads for x in roles if x.body is r.body)
            bodies[id(r.body)] = _Reused(own, threads).cleared(r.body, frozenset())[0] if own else r.body
    return tuple(dataclasses.replace(r, body=bodies[id(r.body)]) for r in roles)


class _Reused:
    """The walk, in program order; a loop's end flows into its start."""

    def __init__(self, scratch: set[Bytes], threads: int) -> None:
        self.scratch = scratch
        self.threads = threads
        self.found: dict[int, Dirty] = {}
        """What there is in a statement."""
        self.meets: dict[int, bool] = {}
        self.left: list[tuple[set[Bytes], set[Bytes]]] = []
        """Of the loops around: what is dirty where one is left by a break, and where by a continue."""

    def cleared(self, s: Stmt, dirty: Dirty) -> tuple[Stmt, Dirty]:
        """The statement, and what is dirty behind it; dirty: before it."""
        if not self.has_barrier(s):
            return s, dirty | self.touched(s)
        match s:
            case Break() | Continue():
                self.left[-1][isinstance(s, Continue)].update(dirty)
                return s, frozenset()  # nothing comes here
            case Barrier(reuse=Memory() as memory) if not _overlaps(_bytes(memory), dirty):
                return seq(), dirty
            case Barrier():
                everyone = s.threads is None or s.threads == self.threads
                return s, frozenset() if everyone else dirty
            case Seq():
                parts: list[Stmt] = []
                for part in s.body:
                    new, dirty = self.cleared(part, dirty)
                    if isinstance(part, Barrier) and new is not part:
                        while parts and isinstance(parts[-1], FenceProxyAsync):
                            parts.pop()  # it was the barrier's; the next barrier has its own
                        continue
                    parts.append(new)
                return seq(*parts), dirty
            case If():
                dirty |= self.touched(s.condition)
                then, after = self.cleared(s.then, dirty)
                orelse, other = (None, dirty) if s.orelse is None else self.cleared(s.orelse, dirty)
                return dataclasses.replace(s, then=then, orelse=orelse), after | other
            case For() | While():
                return self.loop(s, dirty)
            case _:
                return s, dirty | self.touched(s)

    def loop(self, s: For | While, dirty: Dirty) -> tuple[Stmt, Dirty]:
        """A loop: what is dirty at its end is so at the start of the next iteration."""
        head = (s.start, s.stop, s.step) if isinstance(s, For) else (s.condition,)
        for e in head:
            dirty |= self.touched(e)
        while True:
            self.left.append((set(), set()))
            body, after = self.cleared(s.body, dirty)
            broken, continued = self.left.pop()
            after |= continued
            if after <= dirty:
                return dataclasses.replace(s, body=body), dirty | broken
            dirty |= after

    def has_barrier(self, s: Stmt) -> bool:
        """Whether there is a barrier in it, or a way out of a loop."""
        if id(s) not in self.meets:
            inside = (c for c in children(s) if isinstance(c, Stmt))
            self.meets[id(s)] = isinstance(s, Barrier | Break | Continue) or any(
                map(self.has_barrier, inside)
            )
        return self.meets[id(s)]

    def touched(self, node: Node) -> Dirty:
        """The scratch that something below names."""
        if id(node) not in self.found:
            named = {_bytes(m) for n in walk(node) for m in _named(n)}
            self.found[id(node)] = frozenset(x for x in self.scratch if any(_overlaps(x, {y}) for y in named))
        return self.found[id(node)]


def _named(node: Node) -> Iterator[Memory]:
    """The shared memories that a node itself names."""
    if isinstance(node, Load):
        if isinstance(node.buffer, Memory) and node.buffer.space == "shared":
            yield node.buffer
    elif isinstance(node, Stmt):
        for field in dataclasses.fields(node):
            value = getattr(node, field.name)
            if isinstance(value, Memory) and value.space == "shared":
                yield value


def _bytes(memory: Memory) -> Bytes:
    count = int_value(memory.shape[0])
    assert count is not None
    return memory.byte_offset, memory.byte_offset + -(-count * memory.dtype.bits // 8)


def _overlaps(x: Bytes, others: frozenset[Bytes] | set[Bytes]) -> bool:
    return any(x[0] < end and start < x[1] for start, end in others)


__all__ = ["without_idle_barriers"]
