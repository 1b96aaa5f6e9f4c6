"""Allocated -> Synchronised: the barriers that accesses of different threads need, each with the pair that
needs it.

The body is walked in program order with the set of accesses since the last barrier. A statement that
conflicts with one of them (the same bytes, one of the two writes) gets a barrier before it, which empties the
set. A loop is walked until nothing changes, its end flowing into its start; of accesses of an earlier
iteration only the buffer is known, not which version or slice. An asynchronous copy is in flight until a Wait
of its token: a barrier does not end it, so its writes count as made by the Wait, after which other threads
need a barrier before they read. A fold whose parts go from warp to warp through scratch is a barrier itself.

What is inside of thread-dependent control flow is taken as one access of everything in it: no barrier can go
there. Memory reuse is covered since conflicts are looked for by byte ranges. Global memory counts too, when
the kernel writes it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field

from tilebench.errors import Loc
from tilebench.ir.expr import Expr, Var, is_const
from tilebench.ir.rewrite import calls, children, seq
from tilebench.ir.tile import (
    Acquire,
    Break,
    Buffer,
    Continue,
    For,
    If,
    Issue,
    Parallel,
    Pipelined,
    Produce,
    Release,
    Seq,
    Stmt,
    SyncThreads,
    TileOp,
    Versioned,
    Wait,
    While,
)  # fmt: skip
from tilebench.ops.reduce import Reduce
from tilebench.passes.conflicts import Access, Conflicts, Hazard
from tilebench.passes.exchange import is_barrier
from tilebench.passes.regions import Touch, leaves_loop, own_touches, touches
from tilebench.passes.stages import Allocated, BarrierNote, Synchronised
from tilebench.passes.uniform import per_thread_statements

NO_SYNC = "TL_DISABLE_THREAD_STORAGE_SYNC"


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
        for key, a in other.pending.items():
            if key not in self.pending or not a.met:
                self.pending[key] = a
        self.flying.update(other.flying)

    def add(self, accesses: Iterable[Access]) -> None:
        """They happen."""
        for a in accesses:
            self.pending[a.key] = a

    def outside(self) -> Accesses:
        """As seen from behind a loop, where its counter means nothing."""
        new = Accesses()
        for a in self.pending.values():
            old = a if a.once is None else dataclasses.replace(a, once=None)
            new.pending[old.key] = old
        for token, a in self.flying.values():
            old = a if a.once is None else dataclasses.replace(a, once=None)
            new.flying[old.key] = (token, old)
        return new

    def aged(self, counter: Var | None = None) -> Accesses:
        """As seen from the next iteration of a loop, which `counter` counts."""
        new = Accesses()
        for a in self.pending.values():
            old = _aged(a, counter)
            new.pending[old.key] = old
        for token, a in self.flying.values():
            old = _aged(a, counter)
            new.flying[old.key] = (token, old)
        return new


def _counter(s: While | For | Pipelined) -> Var | None:
    """The variable that goes up by one from iteration to iteration."""
    if isinstance(s, Pipelined) or (isinstance(s, For) and is_const(s.step, 1)):
        return s.var
    return None


def _aged(a: Access, counter: Var | None) -> Access:
    if not a.earlier:
        return dataclasses.replace(a, earlier=True, once=counter)
    return a if a.once is None else dataclasses.replace(a, once=None)


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

    @property
    def group(self) -> bool:
        """Whether it is enough that each warpgroup meets: both sides are its own part of one buffer."""
        return self.before.alone and self.after.alone and self.before.buffer is self.after.buffer


def synchronise(allocated: Allocated) -> Synchronised:
    """Put the barriers in, unless the program asked for none (pass config TL_DISABLE_THREAD_STORAGE_SYNC)."""
    body = allocated.scheduled.body
    if allocated.kernel.configs.get(NO_SYNC):
        return Synchronised(allocated, body, ())
    return _Walker(allocated).run(body)


class _Walker:
    """The walk over the body; `needs` grows until a walk adds nothing."""

    def __init__(self, allocated: Allocated) -> None:
        self.allocated = allocated
        kernel = dataclasses.replace(allocated.kernel, body=allocated.scheduled.body)
        self.per_thread = per_thread_statements(kernel)
        self.needs: dict[tuple[Stmt, str], _Need] = {}
        """(statement, where) -> why; where is 'before' or, for the condition of a while, 'end'."""
        self.useful: set[tuple[Stmt, str]] = set()
        """Barriers that the current walk has seen a conflict for."""
        self.changed = False
        self.loops: list[_Loop] = []
        self.versions: dict[Buffer, Expr] = {}
        self.written = {
            t.buffer
            for t in touches(allocated.scheduled.body)
            if t.buffer.scope == "global" and t.mode != "read"
        }
        self.touched: dict[tuple[Stmt, bool], list[Touch]] = {}
        self.conflicts = Conflicts(kernel, kernel.body, allocated.slots)
        self.layouts = allocated.scheduled.placed.layouts
        self.threads = kernel.thread_count

    def run(self, body: Stmt) -> Synchronised:
        """Find the barriers and put them in.

        What a barrier is for may be done by one that was found later: such barriers are taken out again, one
        at a time.
        """
        while True:
            self.changed = False
            self.useful.clear()
            self.visit(body, Accesses())
            if self.changed:
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
                self.versions = {**saved, **{b.data: v for b, v in s.versions.items()}}
                state = self.visit(s.body, state)
                self.versions = saved
                return state
            case SyncThreads():
                state = state.copy()
                state.pending.clear()
                return state
            case Produce() | Acquire() | Release():
                return state  # the ring's mbarriers order what it is for
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
        if not self._is_barrier(s):
            state = self._ordered(s, "before", own, state)
            state.add(own)
            return state
        state = self._ordered(s, "before", [a for a in own if _is_before(a, s)], state)
        state.pending.clear()
        state.add(a for a in own if _is_behind(a, s))
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
                after.merge(other.aged(_counter(s)))
            fresh = entry.copy()
            fresh.merge(after)
            if len(fresh.pending) == len(entry.pending) and len(fresh.flying) == len(entry.flying):
                break
            entry = fresh
        for other in loop.breaks:
            after.merge(other.aged())
        return after.outside()

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
            self.versions = {**saved, **{b.data: v for b, v in s.versions.items()}}
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
                if key not in self.needs or (self.needs[key].group and not need.group):
                    self.needs[key] = need
                    self.changed = True
        if key in self.needs and self.needs[key].group:
            state.pending = {k: dataclasses.replace(a, met=True) for k, a in state.pending.items()}
        elif key in self.needs:
            state.pending.clear()
        return state

    def _need(self, own: list[Access], state: Accesses) -> _Need | None:
        """A conflict that needs all threads to meet, else one that needs warpgroups to, else None."""
        found: _Need | None = None
        for after in own:
            for before in state.pending.values():
                if before.stmt is not after.stmt or before.earlier:
                    hazard = self.conflicts.hazard(before, after)
                    need = None if hazard is None else _Need(before, after, hazard)
                    if need is not None and not need.group:
                        return need
                    if need is not None and not before.met:
                        found = found or need
        return found

    def _is_barrier(self, s: Stmt) -> bool:
        """Whether all threads meet in the statement: a call such as T.syncthreads_or, or a fold whose parts
        go from warp to warp, which reads before they meet and writes behind.
        """
        if isinstance(s, Reduce):
            return is_barrier(s, self.layouts, self.threads)
        return not isinstance(s, TileOp | Parallel) and any(
            c.name.startswith("syncthreads") for c in calls(s)
        )

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
        pair = (need.before.stmt, need.after.stmt)
        barrier = SyncThreads((pair,), need.group, loc=s.loc or need.after.stmt.loc)
        notes.append(
            BarrierNote(barrier, need.after.buffer, _loc(need.before), _loc(need.after), need.hazard)
        )
        return barrier


def _is_before(a: Access, s: Stmt) -> bool:
    """Whether a statement that is a barrier may make the access before the threads meet."""
    return not isinstance(s, Reduce) or (a.mode == "read" and a.buffer is s.source.buffer.data)


def _is_behind(a: Access, s: Stmt) -> bool:
    """Whether it may make it when they have met: a fold has read its source then."""
    return not isinstance(s, Reduce) or a.mode != "read" or a.buffer is s.destination.buffer.data


def _loc(a: Access) -> Loc | None:
    return a.stmt.loc
