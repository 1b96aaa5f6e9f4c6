"""Which accesses to shared memory certainly meet: one thread uses an element that another one used before.

Indices and conditions that the thread (and counters of loops) decide are tried for every thread; an index
that data decide says nothing, a condition that they decide may hold for every thread.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilebench.errors import Loc
from tilebench.ir.expr import Binary, BinaryOp, Expr, Var, binary, const, int_value, select, unary
from tilebench.ir.rewrite import calls, children, loads, substitute, transform, variables, walk
from tilebench.ir.tile import (
    Buffer,
    For,
    If,
    Kernel,
    Parallel,
    Pipelined,
    Seq,
    Stmt,
    Store,
    SyncThreads,
    TileOp,
    While,
)  # fmt: skip
from tilebench.ops.sync import SyncWarp
from tilebench.passes.indices import evaluate
from tilebench.passes.regions import bound_indices
from tilebench.passes.uniform import Facts

SAMPLES = (0, 1, 7)
"""Values at which counters and arguments that threads agree on are tried: a meeting must be one at each."""
MOST = 1 << 16
"""Executions of one access that are tried."""

Values = Mapping[Var, Any]


@dataclass(frozen=True)
class Access:
    """One load or store: the threads that make it, the elements that it touches, by sample of the rest.

    met: the threads of each warp have met since.
    """

    buffer: Buffer
    writes: bool
    at: tuple[tuple[Any, Any], ...]
    loc: Loc | None
    met: bool = False


class Meetings:
    """What meets in a kernel's statements. warps: T.sync_warp and exchanges order what 32 threads do."""

    def __init__(self, kernel: Kernel, facts: Facts, warps: bool) -> None:
        self.kernel = kernel
        self.facts = facts
        self.warps = warps
        self.names = bound_indices(kernel.body)

    def needs(self, s: Stmt) -> bool:
        """Whether threads inside of a statement use what others inside of it wrote before."""
        return self.meeting(s, ()) is not None

    def meeting(self, s: Stmt, conditions: tuple[Expr, ...]) -> tuple[Access, Access] | None:
        """Two accesses that meet, the second after the first."""
        match s:
            case Seq():
                before: list[Access] = []
                for part in s.body:
                    found = self.meeting(part, conditions)
                    if found is not None:
                        return found
                    before = self.after(part, before)
                    own = list(self.accesses(part, conditions, {}))
                    found = self.first(before, own)
                    if found is not None:
                        return found
                    before += own
                return None
            case If():
                for branch, condition in branches_of(s):
                    found = self.meeting(branch, (*conditions, condition))
                    if found is not None:
                        return found
                return None
            case For() | Pipelined():
                return self.meeting(s.body, conditions) or self.carried(s, conditions)
            case While():
                return self.meeting(s.body, conditions)
            case _:
                return None

    def carried(self, s: For | Pipelined, conditions: tuple[Expr, ...]) -> tuple[Access, Access] | None:
        """Accesses of one iteration that meet those of the next."""
        start, stop = int_value(s.start), int_value(s.stop)
        if start is None or stop is None or any(_orders(n) for n in walk(s.body)):
            return None
        if self.warps and any(isinstance(n, SyncWarp) or _is_exchange(n) for n in walk(s.body)):
            return None
        for k in range(start, min(stop, start + 8) - 1):
            first = list(self.accesses(s.body, conditions, {s.var: k}))
            second = list(self.accesses(s.body, conditions, {s.var: k + 1}))
            found = self.first(first, second)
            if found is not None:
                return found
        return None

    def after(self, s: Stmt, before: list[Access]) -> list[Access]:
        """What a statement leaves unordered of the accesses before it."""
        if any(_orders(n) for n in walk(s)):
            return []
        if self.warps and any(isinstance(n, SyncWarp) or _is_exchange(n) for n in walk(s)):
            return [dataclasses.replace(a, met=True) for a in before]
        return before

    def first(self, before: Sequence[Access], own: Sequence[Access]) -> tuple[Access, Access] | None:
        """The first two that meet."""
        for b in own:
            for a in before:
                if a.buffer is b.buffer and (a.writes or b.writes) and _meet(a, b):
                    return a, b
        return None

    def accesses(self, s: Stmt, conditions: tuple[Expr, ...], values: Values) -> Iterator[Access]:
        """The accesses to shared memory in a statement whose elements are known."""
        match s:
            case Seq():
                for part in s.body:
                    yield from self.accesses(part, conditions, values)
            case If():
                yield from self.loads_of(s.condition, conditions, values)
                for branch, condition in branches_of(s):
                    yield from self.accesses(branch, (*conditions, condition), values)
            case For() | Pipelined() | Parallel():
                inner = dict(values)
                heads = (
                    [(v, 0, n) for v, n in zip(s.vars, s.extents, strict=True)]
                    if isinstance(s, Parallel)
                    else [(s.var, int_value(s.start), int_value(s.stop))]
                )
                for axis, (var, start, stop) in enumerate(heads):
                    if var in inner:
                        continue
                    if start is None or stop is None or not 0 < stop - start <= MOST:
                        return
                    inner[var] = np.arange(start, stop).reshape(-1, *(1,) * (axis + 1 + len(values)))
                yield from self.accesses(s.body, conditions, inner)
            case While():
                return
            case Store():
                for e in (*s.indices, s.value):
                    yield from self.loads_of(e, conditions, values)
                yield from self.access(s.buffer, s.indices, True, conditions, values, s.loc)
            case _:
                for child in children(s):
                    if isinstance(child, Expr):
                        yield from self.loads_of(child, conditions, values)

    def loads_of(self, e: Expr, conditions: tuple[Expr, ...], values: Values) -> Iterator[Access]:
        """The loads of an expression."""
        for load in loads(e):
            yield from self.access(load.buffer, load.indices, False, conditions, values, load.loc)

    def access(
        self,
        buffer: Buffer,
        indices: Sequence[Expr],
        writes: bool,
        conditions: tuple[Expr, ...],
        values: Values,
        loc: Loc | None,
    ) -> Iterator[Access]:
        """One access, tried for every thread; nothing when data decide where it goes."""
        if buffer.scope != "shared" or buffer.view_of is not None:
            return
        indices = [substitute(i, self.names) for i in indices]
        conditions = tuple(substitute(c, self.names) for c in conditions)
        threads = np.arange(self.kernel.thread_count)
        known_here = {self.kernel.thread, *values}
        # A condition that data decide may hold for every thread.
        conditions = tuple(c for c in conditions if not (variables(c) - known_here) & self.facts.vars)
        open_ = {v for e in (*indices, *conditions) for v in variables(e)} - known_here
        if open_ & self.facts.vars:
            return
        found: list[tuple[Any, Any]] = []
        for sample in SAMPLES if open_ else (0,):
            known: dict[Var, Any] = {**dict.fromkeys(open_, sample), **values, self.kernel.thread: threads}
            places = [_value(i, known) for i in indices]
            if any(p is None for p in places):
                return
            active: Any = np.bool_(True)
            for c in conditions:
                holds = _value(c, known)
                active = active if holds is None else np.logical_and(active, holds)
            total: Any = np.zeros((), np.int64)
            for p, n in zip(places, buffer.static_shape, strict=True):
                total = total * n + p
            who, where, on = np.broadcast_arrays(threads, total, active)
            if who.size > MOST:
                return
            found.append((who[on].ravel(), where[on].ravel()))
        yield Access(buffer, writes, tuple(found), loc)


def branches_of(s: If) -> list[tuple[Stmt, Expr]]:
    """The branches of an if, with the condition of each."""
    found = [(s.then, s.condition)]
    return found if s.orelse is None else [*found, (s.orelse, unary("not", s.condition))]


def _orders(n: object) -> bool:
    """Whether a node makes threads wait for others."""
    if isinstance(n, SyncThreads):
        return True
    return isinstance(n, TileOp) and not isinstance(n, SyncWarp)


def _is_exchange(n: object) -> bool:
    """Whether the threads of a warp meet in an expression."""
    return isinstance(n, Expr) and any(
        c.name.startswith(("shfl", "ballot", "any_sync", "all_sync", "match")) for c in calls(n)
    )


def _value(e: Expr, known: Values) -> Any | None:
    """`evaluate`, with divisions towards 0."""

    def rule(n: Any) -> Expr | None:
        if not isinstance(n, Binary) or n.op not in ("truncdiv", "truncmod"):
            return None
        op: BinaryOp = "floordiv" if n.op == "truncdiv" else "floormod"
        below = unary("neg", binary(op, unary("neg", n.left), n.right))
        return select(binary("lt", n.left, const(0)), below, binary(op, n.left, n.right))

    return evaluate(transform(e, rule), known)


def _meet(a: Access, b: Access) -> bool:
    """Whether, at every sample, one thread's access of `a` is another's of `b`."""
    for (who, where), (other, there) in zip(
        a.at if len(a.at) == len(b.at) else a.at * len(b.at),
        b.at if len(a.at) == len(b.at) else b.at * len(a.at),
        strict=True,
    ):
        if not who.size or not other.size:
            return False
        if a.met or b.met:
            who, other = who // 32, other // 32
        low, high = min(where.min(), there.min()), max(where.max(), there.max())
        if high - low > MOST:
            return False
        least = np.full(high - low + 1, np.iinfo(np.int64).max)
        most = np.full(high - low + 1, -1)
        np.minimum.at(least, where - low, who)
        np.maximum.at(most, where - low, who)
        at = there - low
        if not ((most[at] >= 0) & ((least[at] != other) | (most[at] != other))).any():
            return False
    return True
