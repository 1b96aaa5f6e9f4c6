"""Warpgroups that go through a loop in step take turns at the tensor cores.

Where all warpgroups of a block meet in every iteration, they want the tensor cores at the same time, and
leave them alone at the same time: issuing a product holds a warp until the products before it are nearly
done, so that what a warpgroup computes is hidden by the other's products, not by its own. Of each run of
products the second warpgroup issues its part when the first has issued its own; while one multiplies, the
other computes, stores or waits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilebench.ir.expr import Var, binary, const
from tilebench.ir.hopper import MBarrierWait, Wgmma, WgmmaCommit, WgmmaFence
from tilebench.ir.rewrite import rebuild, seq, walk
from tilebench.ir.thread import Barrier, Role, Turn
from tilebench.ir.tile import Bind, For, If, Seq, Stmt
from tilebench.passes.specialise import WARPGROUP

TURNS = "TB_TURNS"
"""Pass config: False lets both warpgroups issue their products as they come."""
GROUPS = 2
BARRIERS = 16
"""Named barriers of a block. Source: PTX ISA, bar."""


def with_turns(roles: tuple[Role, ...], thread: Var, configs: Mapping[str, object]) -> tuple[Role, ...]:
    """The roles, two warpgroups of consumers taking turns in loops in which there are two runs of products or
    more and a barrier for both. Nothing changes for other loops, or when no named barriers are left.
    """
    if not configs.get(TURNS, True):
        return roles
    used = {n.id for r in roles for n in walk(r.body) if isinstance(n, Barrier)}
    free = [i for i in range(1, BARRIERS) if i not in used]
    threads: dict[int, int] = {}
    for r in roles:  # consumers share a body
        threads[id(r.body)] = threads.get(id(r.body), 0) + r.threads
    bodies: dict[int, Stmt] = {}
    for r in roles:
        if threads[id(r.body)] == GROUPS * WARPGROUP and id(r.body) not in bodies:
            bodies[id(r.body)] = _Turns(thread, free).visit(r.body)
    return tuple(dataclasses.replace(r, body=bodies.get(id(r.body), r.body)) for r in roles)


class _Turns:
    """Rewrites the body of the consumers."""

    def __init__(self, thread: Var, free: list[int]) -> None:
        self.thread, self.free = thread, free

    def visit(self, s: Stmt) -> Stmt:
        """A statement; innermost loops first."""
        if not any(isinstance(n, For) for n in walk(s)):
            return s
        inner = rebuild(s, lambda c: self.visit(c) if isinstance(c, Stmt) else c)
        if not isinstance(inner, For) or any(
            isinstance(n, For) and _has_products(n) for n in walk(inner.body)
        ):
            return inner
        parts = list(inner.body.body) if isinstance(inner.body, Seq) else [inner.body]
        runs = _runs(parts)
        meets = any(isinstance(p, Barrier) and p.threads in (None, GROUPS * WARPGROUP) for p in parts)
        if len(runs) < 2 or not meets or len(runs) > len(self.free):
            return inner
        for first, last in reversed(runs):
            id = self.free.pop(0)
            parts[last:last] = [self.turn(id, False)]
            parts[first:first] = [self.turn(id, True)]
        return dataclasses.replace(inner, body=seq(*parts))

    def turn(self, id: int, take: bool) -> Stmt:
        """The second warpgroup takes its turn, or the first one passes it on."""
        mine = binary("eq", self.thread // WARPGROUP, const(1 if take else 0))
        return If(mine, Turn(id, GROUPS * WARPGROUP, take))


def _has_products(s: Stmt) -> bool:
    return any(isinstance(n, Wgmma) for n in walk(s))


def _runs(parts: Sequence[Stmt]) -> list[tuple[int, int]]:
    """[first, last) of the statements that issue two groups of products or more with nothing between."""
    found: list[tuple[int, int]] = []
    first: int | None = None
    for k, p in enumerate([*parts, seq()]):
        if isinstance(p, MBarrierWait | WgmmaFence | Wgmma | WgmmaCommit | Bind):
            first = k if first is None else first
            continue
        if first is not None and sum(isinstance(q, WgmmaCommit) for q in parts[first:k]) > 1:
            start = next(i for i in range(first, k) if not isinstance(parts[i], Bind))
            found.append((start, 1 + max(i for i in range(first, k) if isinstance(parts[i], WgmmaCommit))))
        first = None
    return found


__all__ = ["TURNS", "with_turns"]
