"""Placed -> Scheduled: pipelined loops opened so that copies run ahead of the statements that need them.

A loop `for k in T.Pipelined(n, num_stages=S)` whose asynchronous copies bring tiles to shared memory becomes

    issue the copies of iterations 0 .. S-2                       (one group each, into versions 0 .. S-2)
    for k in range(n):
        wait until the group of iteration k has landed            (at most S-2 later groups are under way)
        issue the copies of iteration k + S-1, if there is one    (into the version that iteration k-1 used)
        the other statements, on version k % S

From COPIES_LAST stages on, the last two change places. Every iteration closes a group, also an empty one, so
that the count of groups is the same for any number of trips. A body that is one `if` (a mask may leave blocks
out) is opened in the same way, its copies under the condition of their own iteration. The barrier that other
threads need after the wait also keeps iteration k-1's reads before the copies that overwrite them;
passes/sync.py finds it. What cannot run ahead stays where it is, and the schedule's reason says why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilebench.ir.dtype import int32
from tilebench.ir.expr import Expr, Var, binary, cast, const, int_value, is_const, select
from tilebench.ir.rewrite import children, loads, rebuild, seq, substitute, variables, walk
from tilebench.ir.tile import (
    Bind,
    Buffer,
    For,
    If,
    Issue,
    Pipelined,
    Seq,
    Stmt,
    TileOp,
    Token,
    Versioned,
    Wait,
    While,
)  # fmt: skip
from tilebench.ops.copy import Copy
from tilebench.passes.handover import hand_over
from tilebench.passes.pipeline_table import Table, read_table
from tilebench.passes.regions import Touch, bound_indices, leaves_loop, overwrites, touches
from tilebench.passes.schedule import key_tile_of, scheduled_op
from tilebench.passes.select import ASYNCHRONOUS
from tilebench.passes.stages import Placed, Reason, Schedule, Scheduled


def pipeline(placed: Placed) -> Scheduled:
    """Open the pipelined loops. Raises SyncError TB43x for an order=, stage= or group= that is no schedule of
    the loop.
    """
    if placed.partitioned.specialised:
        return hand_over(placed)
    opener = _Opener(placed)
    body = opener.visit(placed.kernel.body)
    return Scheduled(placed, body, tuple(opener.schedules), opener.versions)


@dataclass(frozen=True)
class _Ahead:
    """What runs ahead: the copies with the names of the body written out, their buffers, and why other copies
    do not.
    """

    copies: tuple[Copy, ...]
    buffers: tuple[Buffer, ...]
    why_not: tuple[str, ...]
    condition: Expr | None = None
    """Under which an iteration makes the copies, the names of the body written out."""


class _Opener:
    """Rewrites the body; collects schedules and versions."""

    def __init__(self, placed: Placed) -> None:
        self.placed = placed
        self.selected = placed.partitioned.selected
        self.schedules: list[Schedule] = []
        self.versions: dict[Buffer, int] = {}

    def visit(self, s: Stmt) -> Stmt:
        """The statement with its pipelined loops opened."""
        if isinstance(s, TileOp):
            return s
        new = rebuild(s, lambda child: self.visit(child) if isinstance(child, Stmt) else child)
        return self._open(s, new) if isinstance(s, Pipelined) and isinstance(new, Pipelined) else new

    def _open(self, original: Pipelined, loop: Pipelined) -> Stmt:
        parts = _parts(loop.body)
        table = read_table(original, parts)
        trips = _trips(loop)
        stages = loop.num_stages if trips is None else min(loop.num_stages, trips)
        guard = _guard(parts) if table is None and not self._is_per_thread(parts) else None
        if guard is not None:
            parts = [p for p in parts if p is not guard] + _parts(guard.then)
        ahead = self._ahead(original, loop, parts, table, stages, guard)
        if not ahead.copies:
            why = "; ".join(ahead.why_not) or "no copy from global to shared memory in it"
            self._record(original, parts, (), 1, f"one iteration after the other: {why}", table)
            body = seq(*_in_order(parts, table)) if guard is None else loop.body
            return For(loop.var, loop.start, loop.stop, body, loc=loop.loc)
        for buffer in ahead.buffers:
            self.versions[buffer] = max(stages, self.versions.get(buffer, 1))
        names = ", ".join(b.name for b in ahead.buffers)
        text = f"copies to {names} run {stages - 1} iteration{'s' * (stages > 2)} ahead in {stages} versions"
        if stages < loop.num_stages:
            text += f" (num_stages={loop.num_stages}, but there are only {trips} iterations)"
        if guard is not None:
            text += "; iterations whose condition is false copy nothing"
        if ahead.why_not:
            text += "; " + "; ".join(ahead.why_not)
        self._record(original, parts, ahead.copies, stages, text, table)
        rest = [p for p in _in_order(parts, table) if not any(_is_part(p, c) for c in ahead.copies)]
        if guard is not None:
            names = [p for p in rest if isinstance(p, Bind) and not any(p is q for q in _parts(guard.then))]
            inner = [p for p in rest if not any(p is q for q in names)]
            rest = [*names, dataclasses.replace(guard, then=seq(*inner))]
        return _opened(loop, ahead, rest, stages)

    def _is_per_thread(self, parts: Sequence[Stmt]) -> bool:
        per_thread = self.selected.typed.per_thread
        return any(isinstance(p, If) and p in per_thread for p in parts)

    # -- which copies

    def _ahead(
        self,
        original: Pipelined,
        loop: Pipelined,
        parts: Sequence[Stmt],
        table: Table | None,
        stages: int,
        guard: If | None,
    ) -> _Ahead:
        candidates = [
            p
            for p in parts
            if isinstance(p, Copy)
            and p.source.buffer.scope == "global"
            and p.destination.buffer.scope == "shared"
        ]
        if stages < 2:
            return _Ahead(
                (),
                (),
                (f"num_stages={loop.num_stages}",)
                if loop.num_stages < 2
                else ("it has at most one iteration",),
            )
        if leaves_loop(loop.body):
            return _Ahead((), (), ("break or continue would skip the copies of later iterations",))
        written_out = bound_indices(loop.body)
        accesses = {id(p): list(touches(p)) for p in parts}
        condition: Expr | None = None
        if guard is not None:
            condition = substitute(guard.condition, written_out) if written_out else guard.condition
            if against := _unknown(condition, loop, parts, accesses):
                return _Ahead((), (), (f"the condition that the copies are under: {against}",))
        why: list[str] = []
        usable: dict[Buffer, list[tuple[Copy, Copy]]] = {}
        for p in candidates:
            against = self._against(p, original, loop, parts, accesses, table)
            fresh = substitute(p, written_out) if written_out else p
            assert isinstance(fresh, Copy)
            if not against:
                against = _depends(fresh, loop, parts, accesses)
            if against:
                why.append(f"the copy to {p.destination.buffer.name} stays in order: {against}")
            else:
                usable.setdefault(p.destination.buffer.data, []).append((p, fresh))
        for buffer in list(usable):
            against = _incomplete(buffer, [p for p, _ in usable[buffer]], parts, accesses)
            if not against and not _unseen_outside(self.placed.kernel.body, original, buffer):
                against = "the program reads it outside of the loop"
            if against:
                why.append(f"{buffer.name} keeps one version: {against}")
                del usable[buffer]
        kept = {id(p): fresh for ps in usable.values() for p, fresh in ps}
        copies = tuple(kept[id(p)] for p in candidates if id(p) in kept)
        return _Ahead(copies, tuple(usable), tuple(dict.fromkeys(why)), condition)

    def _against(
        self,
        copy: Copy,
        original: Pipelined,
        loop: Pipelined,
        parts: Sequence[Stmt],
        accesses: Mapping[int, list[Touch]],
        table: Table | None,
    ) -> str:
        if self.selected.instructions[copy].name != ASYNCHRONOUS:
            declined = self.selected.declined.get(copy, ())
            return declined[0].text if declined else self.selected.reasons[copy].text
        if table is not None and not table.ahead(parts.index(copy)):
            return "its stage is the last one"
        if copy.destination.buffer.view_of is not None:
            return "its destination is a view of another buffer"
        if any(t.buffer is copy.source.buffer and t.mode != "read" for ts in accesses.values() for t in ts):
            return f"the loop writes {copy.source.buffer.name}"
        return ""

    def _record(
        self,
        loop: Pipelined,
        parts: Sequence[Stmt],
        copies: Sequence[Copy],
        stages: int,
        text: str,
        table: Table | None,
    ) -> None:
        ops = [
            scheduled_op(
                p,
                stages - 1 if any(_is_part(p, c) for c in copies) else 0,
                k,
                any(_is_part(p, c) for c in copies),
            )
            for k, p in enumerate(q for q in _in_order(parts, table) if not isinstance(q, Bind))
        ]
        at = next((p.loc for p in parts if p.loc is not None), None)
        why = Reason(text, loop.loc, (at,) if at is not None else ())
        self.schedules.append(Schedule(loop, stages, tuple(ops), why, key_tile=key_tile_of(parts)))


def _in_order(parts: Sequence[Stmt], table: Table | None) -> list[Stmt]:
    return list(parts) if table is None else table.arrange(parts)


def _is_part(part: Stmt, copy: Copy) -> bool:
    """Whether `copy` is `part`, possibly with names written out."""
    return part is copy or (
        isinstance(part, Copy)
        and part.source.buffer is copy.source.buffer
        and part.destination is copy.destination
    )


def _trips(loop: Pipelined) -> int | None:
    start, stop = int_value(loop.start), int_value(loop.stop)
    return max(0, stop - start) if start is not None and stop is not None else None


# -- the opened loop

COPIES_LAST = 3
"""From this many stages on the next copies are issued behind the computation: a whole iteration is under way
anyway, and the first operands are then not read behind the copies' stores to shared memory.
"""


def _opened(loop: Pipelined, ahead: _Ahead, rest: Sequence[Stmt], stages: int) -> Stmt:
    token = Token("copies", "cp_async")
    k, start, stop = loop.var, loop.start, loop.stop
    loc = loop.loc

    def issue(at: Expr, exists: Expr, version: Expr) -> Issue:
        if is_const(exists, False):
            return Issue(token, (), loc=loc)
        body = seq(*(dataclasses.replace(substitute(c, {k: at})) for c in ahead.copies))
        if ahead.condition is not None:
            body = If(substitute(ahead.condition, {k: at}), body, loc=loc)
        body = body if is_const(exists, True) else If(exists, body, loc=loc)
        return Issue(token, (Versioned(dict.fromkeys(ahead.buffers, version), body, loc=loc),), loc=loc)

    slot, free, later = (Var(name, dtype=int32) for name in ("slot", "free", "later"))
    prologue = [issue(start + s, binary("lt", start + s, stop), const(s)) for s in range(stages - 1)]
    distance = stages - 1
    following = issue(later, binary("lt", k, stop - distance), free)
    compute = Versioned(dict.fromkeys(ahead.buffers, slot), seq(*rest), loc=loc)
    steady = seq(
        Bind(slot, cast(binary("truncmod", k - start, stages), int32), loc=loc),
        Bind(free, select(binary("eq", slot, 0), const(distance), slot - 1), loc=loc),
        # No further than the last iteration: then indices are seen to be in range with no test of their own.
        Bind(later, binary("min", k + distance, stop - 1), loc=loc),
        Wait(token, stages - 2, loc=loc),
        *((compute, following) if stages >= COPIES_LAST else (following, compute)),
    )
    return seq(*prologue, For(k, start, stop, steady, loc=loc))


# -- conditions


def _depends(copy: Copy, loop: Pipelined, parts: Sequence[Stmt], accesses: Mapping[int, list[Touch]]) -> str:
    """Why the place that the copy reads is not known an iteration ahead."""
    offsets = (*copy.source.offsets, *copy.destination.offsets)
    return next((why for e in offsets if (why := _unknown(e, loop, parts, accesses))), "")


def _unknown(e: Expr, loop: Pipelined, parts: Sequence[Stmt], accesses: Mapping[int, list[Touch]]) -> str:
    """Why the value of `e` is not known an iteration ahead."""
    named = variables(e) & {n.var for n in walk(loop.body) if isinstance(n, Bind | For | Pipelined)}
    if named:
        return f"it depends on {next(iter(named)).name}, which each iteration calculates"
    for load in loads(e):
        root = load.buffer.data
        if root.scope in ("fragment", "local", "var"):
            if any(b.data is root for p in parts for b in _private_writes(p)):
                return f"it depends on {load.buffer.name}, which the loop changes"
        elif any(t.buffer is root and t.mode != "read" for ts in accesses.values() for t in ts):
            return f"it depends on {load.buffer.name}, which the loop changes"
    return ""


def _parts(s: Stmt) -> list[Stmt]:
    return list(s.body) if isinstance(s, Seq) else [s]


def _guard(parts: Sequence[Stmt]) -> If | None:
    """The if that is all of a body but for names, where it has no else; None for other bodies."""
    rest = [p for p in parts if not isinstance(p, Bind)]
    only = rest[0] if len(rest) == 1 else None
    return only if isinstance(only, If) and only.orelse is None else None


def _private_writes(s: Stmt) -> Iterator[Buffer]:
    for n in walk(s):
        if isinstance(n, TileOp):
            yield from (r.buffer for r in n.writes)
        elif isinstance(n, Stmt) and isinstance(buffer := getattr(n, "buffer", None), Buffer):
            yield buffer


def _incomplete(
    buffer: Buffer, copies: Sequence[Copy], parts: Sequence[Stmt], accesses: Mapping[int, list[Touch]]
) -> str:
    """Why an iteration may see what an earlier one left in the buffer."""
    writers = [p for p in parts if any(t.buffer is buffer and t.mode != "read" for t in accesses[id(p)])]
    if any(not any(p is c for c in copies) for p in writers):
        return "another statement of the loop writes it too"
    last = max(k for k, p in enumerate(parts) if any(p is c for c in copies))
    if any(t.buffer is buffer and t.mode == "read" for p in parts[:last] for t in accesses[id(p)]):
        return "it is read before it is written"
    if len(copies) == 1:
        return "" if overwrites(copies[0], buffer) else "the copy writes a part of it only"
    boxes = [
        [(int_value(o), e) for o, e in zip(c.destination.offsets, c.destination.extents, strict=True)]
        for c in copies
    ]
    if any(o is None for box in boxes for o, _ in box):
        return "which parts the copies write depends on the iteration"
    apart = all(
        any((o or 0) + e <= (q or 0) or (q or 0) + f <= (o or 0) for (o, e), (q, f) in zip(a, b, strict=True))
        for i, a in enumerate(boxes)
        for b in boxes[:i]
    )
    if not apart or sum(prod(e for _, e in box) for box in boxes) != prod(buffer.static_shape):
        return "the copies do not write each part of it once"
    return ""


def _unseen_outside(body: Stmt, loop: Pipelined, buffer: Buffer) -> bool:
    """Whether nothing outside of the loop can read what the loop leaves in the buffer: it is always written
    anew first.
    """

    def safe(s: Stmt, fresh: bool) -> bool:
        for part in s.body if isinstance(s, Seq) else (s,):
            if part is loop:
                fresh = False
                continue
            if not any(t.buffer is buffer for t in touches(part)):
                continue
            if overwrites(part, buffer):
                fresh = True
                continue
            inner = [c for c in children(part) if isinstance(c, Stmt)]
            if isinstance(part, TileOp) or not inner:
                if not fresh and any(t.buffer is buffer and t.mode != "write" for t in touches(part)):
                    return False
                continue
            own = [t for t in touches(part) if t.stmt is part and t.buffer is buffer]
            if own and not fresh:
                return False
            around = any(n is loop for n in walk(part))
            again = around and isinstance(part, For | While | Pipelined)
            if not all(safe(c, fresh and not again) for c in inner):
                return False
            fresh = fresh and not around
        return True

    return safe(body, False)
