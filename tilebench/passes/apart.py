"""Conditions of single threads, taken apart where threads under them use what others of them wrote.

    if tx < 48:                    if tx < 48:
        s[tx] = A[tx]        ->        s[tx] = A[tx]
        B[tx] = s[47 - tx]         if tx < 48:          # passes/sync.py puts a barrier between the two
                                       B[tx] = s[47 - tx]

A barrier cannot stand under the condition, as the other threads would not reach it; between two conditions
it can. A loop that all threads of the branch go round alike is put around the condition. A condition that
reads memory is evaluated once, and names that several pieces use are kept in variables of the thread.

Only what certainly meets is taken apart (passes/meetings.py). Where no barrier can go, in loops that threads
leave at different times, it is an error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from tilebench.errors import SyncError
from tilebench.ir.dtype import bool_
from tilebench.ir.expr import Expr, Load, Var, binary, const, is_const, select, unary
from tilebench.ir.rewrite import calls, loads, rebuild, seq, substitute, variables, walk
from tilebench.ir.tile import (
    AtomicRMW,
    Bind,
    Break,
    Buffer,
    Continue,
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
from tilebench.passes.meetings import Access, Meetings
from tilebench.passes.uniform import diverges, facts_of

NO_SYNC = "TL_DISABLE_THREAD_STORAGE_SYNC"


def take_apart(kernel: Kernel, warps: bool) -> Kernel:
    """The kernel with its conditions taken apart; itself where nothing needs to be.

    warps: the target has them, so that T.sync_warp and exchanges between lanes order what 32 threads do.
    Raises SyncError TB416 where threads certainly meet and no barrier can stand between.
    """
    shared = any(isinstance(n, Store) and n.buffer.scope == "shared" for n in walk(kernel.body))
    if not shared or kernel.configs.get(NO_SYNC):
        return kernel
    pass_ = _Apart(kernel, warps)
    body = pass_.visit(kernel.body)
    if body is kernel.body:
        return kernel
    return dataclasses.replace(kernel, body=body, buffers=(*kernel.buffers, *pass_.kept))


class _Apart:
    def __init__(self, kernel: Kernel, warps: bool) -> None:
        self.facts = facts_of(kernel)
        self.meetings = Meetings(kernel, self.facts, warps)
        self.kept: list[Buffer] = []

    # -- where all threads are

    def visit(self, s: Stmt) -> Stmt:
        """A statement that all threads reach."""
        if isinstance(s, TileOp | Parallel):
            return s
        if diverges(s, self.facts):
            if isinstance(s, If):
                return self.taken_apart(s)
            self.refuse(s)
            return s
        return rebuild(s, lambda c: self.visit(c) if isinstance(c, Stmt) else c)

    def taken_apart(self, s: If) -> Stmt:
        """A condition of single threads."""
        if not self.meetings.needs(s):
            return s
        where = self.stuck(s)
        if where is not None:
            self.refuse(s)
            return s
        out: list[Stmt] = []
        self.spread(s, const(True), out)
        return seq(*self.with_names(out))

    # -- taking apart

    def stuck(self, s: Stmt) -> Stmt | None:
        """A statement that cannot be moved from under its condition."""
        for n in walk(s):
            if isinstance(n, Break | Continue | SyncThreads) or (
                isinstance(n, TileOp) and not isinstance(n, SyncWarp)
            ):
                return n
            if isinstance(n, While | For | Pipelined) and self.stays(n) and self.meetings.needs(n):
                return n
        return None

    def stays(self, s: While | For | Pipelined) -> bool:
        """Whether a loop cannot be put around a condition: threads leave it at different times."""
        return isinstance(s, While) or diverges(s, self.facts) or bool(loads(s.start) or loads(s.stop))

    def spread(self, s: If, outer: Expr, out: list[Stmt]) -> None:
        """Append the pieces of a condition, each under all the conditions around it."""
        flag: Expr = s.condition
        if loads(flag) or calls(flag):
            name = Var("taken", dtype=bool_)
            out.append(Bind(name, select(outer, flag, const(False)), loc=s.loc))
            self.facts.vars.add(name)
            flag = name
        taken = binary("and", outer, flag)
        self.pieces(s.then, taken, out)
        if s.orelse is None:
            return
        last = out[-1]
        alone = is_const(outer, True) and isinstance(last, If) and last.condition is taken
        if alone and isinstance(last, If) and not self.meetings.needs(s.orelse):
            out[-1] = dataclasses.replace(last, orelse=s.orelse)
        else:
            self.pieces(s.orelse, binary("and", outer, unary("not", flag)), out)

    def pieces(self, branch: Stmt, condition: Expr, out: list[Stmt]) -> None:
        """Append the pieces of a branch."""
        waiting: list[Stmt] = []
        before: list[Access] = []

        def flush() -> None:
            if waiting:
                out.append(If(condition, seq(*waiting), loc=waiting[0].loc))
            waiting.clear()
            before.clear()

        for part in branch.body if isinstance(branch, Seq) else (branch,):
            if (
                isinstance(part, If | For | Pipelined)
                and self.meetings.meeting(part, (condition,)) is not None
            ):
                flush()
                if isinstance(part, If):
                    self.spread(part, condition, out)
                    continue
                inner: list[Stmt] = []
                self.pieces(part.body, condition, inner)
                out.append(dataclasses.replace(part, body=seq(*inner)))
                continue
            own = list(self.meetings.accesses(part, (condition,), {}))
            before[:] = self.meetings.after(part, before)
            if self.meetings.first(before, own) is not None:
                flush()
            waiting.append(part)
            before += own
        flush()

    def with_names(self, parts: list[Stmt]) -> list[Stmt]:
        """The pieces with names that several of them use kept in variables of the thread."""
        inside = [s for p in parts for s in _leaves(p)]
        bound: dict[Var, Stmt] = {}
        for leaf in inside:
            for n in walk(leaf):
                if isinstance(n, Bind):
                    bound[n.var] = leaf
                elif isinstance(n, AtomicRMW) and n.result is not None:
                    bound[n.result] = leaf
        carried = {v for v, leaf in bound.items() if any(v in variables(o) for o in inside if o is not leaf)}
        carried -= {p.var for p in parts if isinstance(p, Bind)}
        if not carried:
            return parts
        places: dict[Var, Buffer] = {
            v: Buffer(f"{v.name}_kept", (const(1),), v.dtype, "var") for v in carried
        }
        self.kept += places.values()
        reads: dict[Var, Expr] = {v: Load(b, (const(0),), dtype=v.dtype) for v, b in places.items()}

        def keep(s: Stmt) -> Stmt:
            if isinstance(s, If) and any(s is leaf for leaf in inside):
                mine = {v for v in carried if bound[v] is s}
                others = {v: e for v, e in reads.items() if v not in mine}
                return _stored(substitute(s, others), {v: places[v] for v in mine})
            if isinstance(s, TileOp | Parallel):
                return s
            return rebuild(s, lambda c: keep(c) if isinstance(c, Stmt) else substitute(c, reads))

        return [keep(p) for p in parts]

    # -- where no barrier can go

    def refuse(self, s: Stmt) -> None:
        """Raise TB416 when threads certainly meet in a statement that is left as it is."""
        found = self.meetings.meeting(s, ())
        if found is None:
            return
        a, b = found
        first, then = ("writes" if x.writes else "reads" for x in (a, b))
        raise SyncError(
            "TB416",
            f"an element of {a.buffer.name} that one thread {first}, another {then} afterwards, "
            "and no barrier can stand between",
            at=b.loc or s.loc,
            why="threads come and go here at different times: a barrier would wait for some that never come",
            fix="let all threads go round together, with a condition on the work, or use own elements only",
            notes=[(a.loc, "the access before it"), (s.loc, "where the threads part")],
        )


def _leaves(s: Stmt) -> Iterator[Stmt]:
    """The pieces in a statement that `spread` made: its ifs, and what stands beside them."""
    if isinstance(s, For | Pipelined):
        for part in s.body.body if isinstance(s.body, Seq) else (s.body,):
            yield from _leaves(part)
    else:
        yield s


def _stored(s: Stmt, places: Mapping[Var, Buffer]) -> Stmt:
    """The statement with each of these names stored where it is bound."""

    def store(n: Any) -> Any:
        new = rebuild(n, store) if isinstance(n, Stmt) else n
        var = new.var if isinstance(new, Bind) else new.result if isinstance(new, AtomicRMW) else None
        if var is not None and var in places:
            return seq(new, Store(places[var], (const(0),), var, loc=new.loc))
        return new

    return store(s) if places else s
