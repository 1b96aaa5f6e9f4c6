"""Allocated -> Synchronised: the barriers that accesses of different threads need, each with the pair that
needs it.

The body is walked in program order with the set of accesses since the last barrier. A statement that
conflicts with one of them (the same bytes, one of the two writes) gets a barrier before it, which empties the
set. A loop is walked until nothing changes, its end flowing into its start; of accesses of an earlier
iteration only the buffer is known, not which version or slice. An asynchronous copy is in flight until a Wait
of its token: a barrier does not end it, so its writes count as made by the Wait, after which other threads
need a barrier before they read.

What is inside of thread-dependent control flow is taken as one access of everything in it: no barrier can go
there. Memory reuse is covered since conflicts are looked for by byte ranges. Global memory counts too, when
the kernel writes it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import gcd
from typing import Literal

from tilebench.errors import Loc
from tilebench.ir.expr import Binary, Expr, Load, Var, const, int_value
from tilebench.ir.rewrite import calls, children, loads, seq, substitute, variables, walk
from tilebench.ir.simplify import bounds, from_linear, linear, simplify
from tilebench.ir.tile import (
    Bind,
    Break,
    Buffer,
    Continue,
    For,
    If,
    Issue,
    Kernel,
    Parallel,
    Pipelined,
    Region,
    Seq,
    Stmt,
    SyncThreads,
    TileOp,
    Versioned,
    Wait,
    While,
)  # fmt: skip
from tilebench.passes.regions import Mode, Touch, leaves_loop, own_touches, root_of, touches
from tilebench.passes.stages import Allocated, BarrierNote, Synchronised
from tilebench.passes.uniform import per_thread_statements

Hazard = Literal["RAW", "WAR", "WAW"]
NO_SYNC = "TL_DISABLE_THREAD_STORAGE_SYNC"


@dataclass(frozen=True, eq=False)
class Access:
    """One access since the last barrier. version: of a pipelined buffer, None when any; earlier: of another
    iteration.
    """

    buffer: Buffer
    mode: Mode
    region: Region | None
    version: Expr | None
    stmt: Stmt
    unit: Stmt
    """The statement that the block executes as one: the nest or the op that `stmt` is in."""
    earlier: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Two accesses with one key need not both be kept."""
        return (self.buffer, self.mode, id(self.region), id(self.version), self.stmt, self.earlier)


class Accesses:
    """A set of accesses, and the asynchronous writes that are in flight by token."""

    def __init__(self) -> None:
        self.pending: dict[tuple[object, ...], Access] = {}
        self.flying: dict[tuple[object, ...], tuple[object, Access]] = {}

    def copy(self) -> Accesses:
        """An independent copy."""
        new = Accesses()
        new.pending, new.flying = dict(self.pending), dict(self.flying)
        return new

    def merge(self, other: Accesses) -> None:
        """Either of the two."""
        self.pending.update(other.pending)
        self.flying.update(other.flying)

    def add(self, accesses: Iterable[Access]) -> None:
        """They happen."""
        for a in accesses:
            self.pending[a.key] = a

    def aged(self) -> Accesses:
        """As seen from the next iteration of a loop."""
        new = Accesses()
        for a in self.pending.values():
            old = a if a.earlier else dataclasses.replace(a, earlier=True)
            new.pending[old.key] = old
        for token, a in self.flying.values():
            old = a if a.earlier else dataclasses.replace(a, earlier=True)
            new.flying[old.key] = (token, old)
        return new


@dataclass
class _Loop:
    """Where break and continue of the innermost loop lead."""

    breaks: list[Accesses] = field(default_factory=list[Accesses])
    continues: list[tuple[Stmt, Accesses]] = field(default_factory=list[tuple[Stmt, Accesses]])


@dataclass(frozen=True)
class _Need:
    before: Access
    after: Access
    hazard: Hazard


def synchronise(allocated: Allocated) -> Synchronised:
    """Put the barriers in, unless the program asked for none (pass config TL_DISABLE_THREAD_STORAGE_SYNC)."""
    body = allocated.scheduled.body
    if allocated.kernel.attributes.get("pass_configs", {}).get(NO_SYNC, False):
        return Synchronised(allocated, body, ())
    return _Walker(allocated).run(body)


class _Walker:
    """The walk over the body; `needs` grows until a walk adds nothing."""

    def __init__(self, allocated: Allocated) -> None:
        self.allocated = allocated
        self.slots = allocated.slots
        kernel = dataclasses.replace(allocated.kernel, body=allocated.scheduled.body)
        self.per_thread = per_thread_statements(kernel)
        self.needs: dict[tuple[Stmt, str], _Need] = {}
        """(statement, where) -> why; where is 'before' or, for the condition of a while, 'end'."""
        self.useful: set[tuple[Stmt, str]] = set()
        """Barriers that the current walk has seen a conflict for."""
        self.loops: list[_Loop] = []
        self.versions: dict[Buffer, Expr] = {}
        self.written = {
            t.buffer
            for t in touches(allocated.scheduled.body)
            if t.buffer.scope == "global" and t.mode != "read"
        }
        self.touched: dict[tuple[Stmt, bool], list[Touch]] = {}
        self.bound = {
            n.var: n.value for n in walk(kernel.body) if isinstance(n, Bind) and n.value.dtype.is_int
        }
        self.ranges = _ranges(kernel.body)
        self.uniform = _uniform(allocated.kernel, kernel.body)

    def run(self, body: Stmt) -> Synchronised:
        """Find the barriers and put them in.

        What a barrier is for may be done by one that was found later: such barriers are taken out again, one
        at a time.
        """
        while True:
            before = len(self.needs)
            self.useful.clear()
            self.visit(body, Accesses())
            if len(self.needs) != before:
                continue
            idle = next((key for key in self.needs if key not in self.useful), None)
            if idle is None:
                break
            del self.needs[idle]
        notes: list[BarrierNote] = []
        return Synchronised(self.allocated, self.rewrite(body, notes), tuple(notes))

    # -- the walk

    def visit(self, s: Stmt, state: Accesses | None) -> Accesses | None:
        """The accesses after the statement; None when what follows is not reached."""
        if state is None:
            return None
        match s:
            case Seq():
                for part in s.body:
                    state = self.visit(part, state)
                return state
            case Versioned():
                saved = self.versions
                self.versions = {**saved, **{root_of(b): v for b, v in s.versions.items()}}
                state = self.visit(s.body, state)
                self.versions = saved
                return state
            case SyncThreads():
                state = state.copy()
                state.pending.clear()
                return state
            case Issue():
                return self._issue(s, state)
            case Wait():
                state = state.copy()
                state.add(a for token, a in state.flying.values() if token is s.token)
                return state
            case Break() | Continue():
                if self.loops and isinstance(s, Break):
                    self.loops[-1].breaks.append(state)
                elif self.loops:
                    self.loops[-1].continues.append((s, state))
                return None
            case If() | While() | For() | Pipelined() if not self._diverges(s):
                return self._control(s, state)
            case _:
                return self._simple(s, state)

    def _simple(self, s: Stmt, state: Accesses) -> Accesses:
        own = self._accesses(s)
        state = self._ordered(s, "before", own, state)
        if _is_barrier(s):
            state.pending.clear()
        state.add(own)
        return state

    def _control(self, s: If | While | For | Pipelined, state: Accesses) -> Accesses | None:
        own = self._accesses(s, own=True)
        state = self._ordered(s, "before", own, state)
        state.add(own)
        if isinstance(s, If):
            then = self.visit(s.then, state.copy())
            orelse = self.visit(s.orelse, state.copy()) if s.orelse is not None else state
            if then is None or orelse is None:
                return orelse if then is None else then
            then.merge(orelse)
            return then
        return self._loop(s, state, own)

    def _loop(self, s: While | For | Pipelined, state: Accesses, own: list[Access]) -> Accesses:
        entry = state
        while True:
            self.loops.append(_Loop())
            end = self.visit(s.body, entry.copy())
            loop = self.loops.pop()
            after = state.copy()
            ends: list[tuple[Stmt, str, Accesses]] = [(c, "before", x) for c, x in loop.continues]
            if end is not None:
                ends.append((s, "end", end))
            for at, where, other in ends:
                if isinstance(s, While):
                    other = self._ordered(at, where, own, other)
                    other.add(own)
                after.merge(other.aged())
            fresh = entry.copy()
            fresh.merge(after)
            if len(fresh.pending) == len(entry.pending) and len(fresh.flying) == len(entry.flying):
                break
            entry = fresh
        for other in loop.breaks:
            after.merge(other.aged())
        return after

    def _issue(self, s: Issue, state: Accesses) -> Accesses:
        own = [a for part in s.ops for a in self._issued(part)]
        state = self._ordered(s, "before", own, state)
        state.add(a for a in own if a.mode == "read")
        for a in own:
            if a.mode != "read":
                state.flying[a.key] = (s.token, a)
        return state

    def _issued(self, s: Stmt) -> list[Access]:
        if isinstance(s, Versioned):
            saved = self.versions
            self.versions = {**saved, **{root_of(b): v for b, v in s.versions.items()}}
            found = self._issued(s.body)
            self.versions = saved
            return found
        if isinstance(s, Seq | If):
            found = self._accesses(s, own=True)
            return found + [a for c in children(s) if isinstance(c, Stmt) for a in self._issued(c)]
        return self._accesses(s)

    def _accesses(self, s: Stmt, own: bool = False) -> list[Access]:
        """What the statement touches; own: not what statements nested in it do."""
        key = (s, own)
        if key not in self.touched:
            self.touched[key] = [
                t
                for t in (own_touches(s) if own else touches(s))
                if t.buffer.scope != "global" or t.buffer in self.written
            ]
        return [
            Access(t.buffer, t.mode, t.region, self.versions.get(t.buffer), t.stmt, s)
            for t in self.touched[key]
        ]

    def _ordered(self, s: Stmt, where: str, own: list[Access], state: Accesses) -> Accesses:
        """The state in which `s` may make the accesses: behind a barrier when it needs one."""
        key = (s, where)
        state = state.copy()
        if key not in self.useful:
            need = self._need(own, state)
            if need is not None:
                self.useful.add(key)
                self.needs.setdefault(key, need)
        if key in self.needs:
            state.pending.clear()
        return state

    def _need(self, own: list[Access], state: Accesses) -> _Need | None:
        for after in own:
            for before in state.pending.values():
                if before.stmt is not after.stmt or before.earlier:
                    hazard = self._hazard(before, after)
                    if hazard is not None:
                        return _Need(before, after, hazard)
        return None

    def _diverges(self, s: Stmt) -> bool:
        """Whether only some threads may be inside of an if or loop: no barrier can go there."""
        if s in self.per_thread:
            return True
        return isinstance(s, For | While | Pipelined) and self._left_by_some(s.body)

    def _left_by_some(self, s: Stmt) -> bool:
        """Whether a break or continue of the loop around `s` stands under a condition of each thread."""
        if isinstance(s, For | While | Pipelined):
            return False
        if isinstance(s, If) and s in self.per_thread:
            return any(leaves_loop(part) for part in (s.then, s.orelse) if part is not None)
        return any(self._left_by_some(c) for c in children(s) if isinstance(c, Stmt))

    # -- conflicts

    def _hazard(self, before: Access, after: Access) -> Hazard | None:
        if before.mode == "read" and after.mode == "read":
            return None
        if before.mode == "atomic" and after.mode == "atomic" and before.buffer is after.buffer:
            return None
        if not self._overlap(before, after):
            return None
        if before.mode == "read":
            return "WAR"
        return "RAW" if after.mode == "read" else "WAW"

    def _overlap(self, a: Access, b: Access) -> bool:
        if a.buffer is not b.buffer:
            x, y = self.slots.get(a.buffer), self.slots.get(b.buffer)
            return (
                x is not None
                and y is not None
                and x.offset < y.offset + y.size
                and y.offset < x.offset + x.size
            )
        earlier = a.earlier or b.earlier
        if (
            a.version is not None
            and b.version is not None
            and not earlier
            and self._differ(a.version, b.version)
        ):
            return False
        if a.region is None or b.region is None:
            return True
        if a.unit is b.unit and a.version is b.version and self._same_or_apart(a.region, b.region):
            return False
        return not any(
            self._apart(p, n, q, m, earlier)
            for p, n, q, m in zip(
                a.region.offsets, a.region.extents, b.region.offsets, b.region.extents, strict=True
            )
        )

    def _differ(self, a: Expr, b: Expr) -> bool:
        """Whether two version numbers of one iteration are never equal: tried for every value of the stage
        counter.
        """
        a, b = (
            self.bound.get(x, x) if isinstance(x, Var) and not _counts(self.bound.get(x)) else x
            for x in (a, b)
        )
        names = variables(a) | variables(b)
        if not names:
            return int_value(a) != int_value(b)
        counter = next(iter(names))
        stages = _counts(self.bound.get(counter))
        if len(names) > 1 or not stages:
            return False
        for k in range(stages):
            at = {counter: const(k)}
            x, y = int_value(simplify(substitute(a, at), {})), int_value(simplify(substitute(b, at), {}))
            if x is None or y is None or x == y:
                return False
        return True

    def _same_or_apart(self, p: Region, q: Region) -> bool:
        """Whether one statement, executed twice, touches the same element by the same thread or else other
        elements.

        So it is when the parts of each index that differ between executions step over all that one execution
        covers.
        """
        for x, n, y in zip(p.offsets, p.extents, q.offsets, strict=True):
            form = linear(x)
            difference = linear(x - y)
            if (
                any(c for _, c in difference.terms)
                or difference.constant
                or any(isinstance(t, Load) for e in (x, y) for t in walk(e))
            ):
                return False
            step, low, high = 0, 0, n - 1
            for term, c in form.terms:
                if variables(term) <= self.uniform:
                    step = gcd(step, c)
                    continue
                reach = bounds(term, self.ranges) if isinstance(term, Var) else None
                if reach is None:
                    return False
                low, high = low + min(c * reach[0], c * reach[1]), high + max(c * reach[0], c * reach[1])
            if step and step < high - low + 1:
                return False
        return True

    def _apart(self, p: Expr, n: int, q: Expr, m: int, earlier: bool) -> bool:
        """Whether [p, p + n) and [q, q + m) share nothing. Offsets of an earlier iteration are known by their
        range only.
        """
        if any(isinstance(x, Load) for e in (p, q) for x in walk(e)):
            return False
        if earlier or not variables(p) | variables(q) <= self.uniform:
            a, b = bounds(p, self.ranges), bounds(q, self.ranges)
            return a is not None and b is not None and (a[1] + n <= b[0] or b[1] + m <= a[0])
        between = bounds(from_linear(linear(p - q)), self.ranges)
        return between is not None and (between[0] >= m or between[1] <= -n)

    # -- the result

    def rewrite(self, s: Stmt, notes: list[BarrierNote]) -> Stmt:
        """The statement with its barriers."""
        match s:
            case Seq():
                new: Stmt = seq(*(self.rewrite(part, notes) for part in s.body))
            case Versioned():
                new = dataclasses.replace(s, body=self.rewrite(s.body, notes))
            case If() if not self._diverges(s):
                orelse = None if s.orelse is None else self.rewrite(s.orelse, notes)
                new = dataclasses.replace(s, then=self.rewrite(s.then, notes), orelse=orelse)
            case While() | For() | Pipelined() if not self._diverges(s):
                tail = self._barrier(s, "end", notes)
                new = dataclasses.replace(s, body=seq(self.rewrite(s.body, notes), tail))
            case _:
                new = s
        return seq(self._barrier(s, "before", notes), new)

    def _barrier(self, s: Stmt, where: str, notes: list[BarrierNote]) -> SyncThreads | None:
        need = self.needs.get((s, where))
        if need is None:
            return None
        barrier = SyncThreads(((need.before.stmt, need.after.stmt),), loc=s.loc or need.after.stmt.loc)
        notes.append(
            BarrierNote(barrier, need.after.buffer, _loc(need.before), _loc(need.after), need.hazard)
        )
        return barrier


def _loc(a: Access) -> Loc | None:
    return a.stmt.loc


def _is_barrier(s: Stmt) -> bool:
    """Whether the statement ends with all threads having met (a call such as T.syncthreads_or)."""
    return not isinstance(s, TileOp | Parallel) and any(c.name.startswith("syncthreads") for c in calls(s))


def _counts(e: Expr | None) -> int:
    """S for the stage counter `k % S`, else 0."""
    return (int_value(e.right) or 0) if isinstance(e, Binary) and e.op in ("truncmod", "floormod") else 0


def _uniform(kernel: Kernel, body: Stmt) -> set[Var]:
    """Variables that all threads of a block agree on at one time: blocks, arguments, counters of loops, names
    made of them.
    """
    found = {*kernel.blocks, *kernel.symbols, *(p.value for p in kernel.params if isinstance(p.value, Var))}
    for n in walk(body):
        if (isinstance(n, For | Pipelined) and variables(n.start) | variables(n.stop) <= found) or (
            isinstance(n, Bind) and variables(n.value) <= found and not loads(n.value) and not calls(n.value)
        ):
            found.add(n.var)
    return found


def _ranges(body: Stmt) -> dict[Var, tuple[int, int]]:
    """What the variables of loops and nests range over, where that is constant."""
    found: dict[Var, tuple[int, int]] = {}
    for n in walk(body):
        if isinstance(n, Parallel):
            found.update({v: (0, max(0, e - 1)) for v, e in zip(n.vars, n.extents, strict=True)})
        elif isinstance(n, For | Pipelined):
            start, stop = int_value(n.start), int_value(n.stop)
            if start is not None and stop is not None and start < stop:
                found[n.var] = (start, stop - 1)
    return found
