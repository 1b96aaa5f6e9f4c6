"""Statements that the block does as one: control, and Parallel nests as loops of vectors."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tilebench.backends.cpu.expressions import conjuncts
from tilebench.backends.cpu.indices import Overlay, Site
from tilebench.backends.cpu.text import Loop, V, compute_type, i64, storage_type, vector
from tilebench.backends.cpu.updates import Updates
from tilebench.backends.interp.nests import nest_facts
from tilebench.errors import InternalError, located
from tilebench.ir.expr import Binary, Call, Expr, Load, Select, Var, int_value
from tilebench.ir.rewrite import walk
from tilebench.ir.simplify import bounds
from tilebench.ir.text import print_stmt
from tilebench.ir.thread import SyncWarp
from tilebench.ir.tile import (
    Assert,
    AtomicRMW,
    Bind,
    Break,
    Buffer,
    Continue,
    Evaluate,
    For,
    If,
    Parallel,
    Pipelined,
    Print,
    Seq,
    Stmt,
    Store,
    SyncThreads,
    While,
)
from tilebench.ops.base import Op


class Statements(Updates):
    """Writes statements."""

    loops: list[Loop]

    def op_statement(self, op: Op) -> None:
        """A tile op (tiles.py)."""
        raise NotImplementedError

    # -------------------------------------------------------------- dispatch

    def statement(self, s: Stmt) -> None:
        """Write one statement."""
        saved = self.line
        if s.loc is not None:
            self.line = s.loc.line
        try:
            with located(s.loc):
                self.dispatch(s)
        finally:
            self.line = saved

    def dispatch(self, s: Stmt) -> None:
        """What `statement` does for each kind."""
        match s:
            case Seq():
                self.sequence(s)
            case Op():
                self.op_statement(s)
            case Store():
                self.store(s.buffer, s.indices, self.evaluate(s.value), s.loc)
            case Bind():
                self.bind(s)
            case For():
                self.loop(s)
            case Pipelined():
                self.statement(For(s.var, s.start, s.stop, s.body, loc=s.loc))
            case Parallel():
                self.parallel(s)
            case If():
                self.conditional(s)
            case While():
                self.repeat(s)
            case Break():
                self.jump(self.loops[-1].leave)
            case Continue():
                self.jump(self.loops[-1].again)
            case AtomicRMW():
                self.atomic(s)
            case Evaluate():
                self.evaluate(s.value)
            case SyncThreads() | SyncWarp():
                pass
            case Assert():
                self.fail_unless(self.evaluate(s.condition), Site("assert", s.loc, text=s.message))
            case Print():
                self.print_values(s)
            case _:
                raise InternalError(
                    "TB902", f"cpu does not know {type(s).__name__}: {print_stmt(s).text}", at=s.loc
                )

    def sequence(self, s: Seq) -> None:
        """Statements in order; nothing after a jump."""
        for part in s.body:
            if self.closed:
                return
            self.statement(part)

    def bind(self, s: Bind) -> None:
        """A named value.

        Index arithmetic is kept as the expression, so that its steps from lane to lane stay known.
        """
        if self.lane_var is not None and s.value.dtype.is_int and _pure_index(s.value):
            self.inline[s.var] = s.value
        else:
            self.env[s.var] = self.evaluate(s.value)
        interval = bounds(s.value, self.ranges) if s.value.dtype.is_int else None
        if interval is not None and s.value.dtype.min <= interval[0] and interval[1] <= s.value.dtype.max:
            self.ranges[s.var] = interval

    # -------------------------------------------------------------- control

    def check_abort(self) -> None:
        """Leave the kernel when another block failed or the user interrupted."""
        flag = self.op("load atomic i64, ptr %abort monotonic, align 8")
        stop = self.op(f"icmp ne i64 {flag}, 0")
        out, on = self.fresh("stop"), self.fresh("go")
        self.branch(stop, out, on, unlikely=True)
        self.start(out)
        self.finish()
        self.start(on)

    def loop(self, s: For) -> None:
        """A serial loop; its variable is an SSA value."""
        start, stop, step = (self.evaluate(e) for e in (s.start, s.stop, s.step))
        first, last = bounds(s.start, self.ranges), bounds(s.stop, self.ranges)
        known = int_value(s.step)
        if known is None:
            self.fail_unless(self.compare("icmp ne", step, self.constant(0, step.dtype)), Site("step", s.loc))
        if first is not None and last is not None and known:
            self.ranges[s.var] = (
                (first[0], max(last[1] - 1, first[0]))
                if known > 0
                else (min(last[0] + 1, first[1]), first[1])
            )
        kind = compute_type(s.var.dtype)
        head, body, again, leave = (self.fresh(h) for h in ("for", "body", "next", "done"))
        slot = self.alloca(kind)
        self.put(f"store {kind} {start.name}, ptr {slot}")
        self.start(head)
        value = V(self.op(f"load {kind}, ptr {slot}"), s.var.dtype)
        up = self.compare("icmp sgt", step, self.constant(0, step.dtype)) if known is None else step
        if known is not None:
            going = self.compare("icmp slt" if known > 0 else "icmp sgt", value, stop)
        else:
            going = self.choose(
                up, self.compare("icmp slt", value, stop), self.compare("icmp sgt", value, stop)
            )
        self.branch(going.name, body, leave)
        self.start(body)
        if self.in_nest == 0 and not _short(s):
            self.check_abort()
        self.env[s.var] = value
        self.loops.append(Loop(leave, again))
        self.statement(s.body)
        self.loops.pop()
        self.start(again)
        following = V(self.op(f"add {kind} {value.name}, {step.name}"), s.var.dtype)
        self.put(f"store {kind} {following.name}, ptr {slot}")
        if _may_wrap(s, known, last):
            wrapped = self.compare("icmp slt", following, value)
            if known is None:
                wrapped = self.choose(up, wrapped, self.compare("icmp sgt", following, value))
            elif known < 0:
                wrapped = self.compare("icmp sgt", following, value)
            self.branch(wrapped.name, leave, head)
        else:
            self.jump(head)
        self.start(leave)

    def repeat(self, s: While) -> None:
        """While."""
        head, body, leave = (self.fresh(h) for h in ("while", "body", "done"))
        self.start(head)
        self.check_abort()
        going = self.evaluate(s.condition)
        self.branch(going.name, body, leave)
        self.start(body)
        self.loops.append(Loop(leave, head))
        self.statement(s.body)
        self.loops.pop()
        self.jump_open(head)
        self.start(leave)

    def jump_open(self, label: str) -> None:
        """End the block with a jump unless it has ended."""
        if not self.closed:
            self.jump(label)

    def conditional(self, s: If) -> None:
        """A branch, or a mask where the lanes differ."""
        condition = self.evaluate(s.condition)
        facts = conjuncts(s.condition)
        if condition.w == 1:
            yes, no, end = self.fresh("then"), self.fresh("else"), self.fresh("end")
            self.branch(condition.name, yes, no if s.orelse is not None else end)
            self.start(yes)
            with self.given(facts):
                self.statement(s.then)
            self.jump_open(end)
            if s.orelse is not None:
                self.start(no)
                self.statement(s.orelse)
                self.jump_open(end)
            self.start(end)
            return
        saved = self.mask
        for wanted, body, true in ((condition, s.then, facts), (None, s.orelse, [])):
            if body is None:
                continue
            here = wanted if wanted is not None else self.invert(condition)
            self.mask = here if saved is None else self.raw("and", saved, here)
            with self.given(true):
                self.statement(body)
            self.mask = saved

    @contextmanager
    def given(self, facts: list[Expr]) -> Generator[None]:
        """Conditions that hold inside."""
        count = len(self.facts)
        self.facts.extend(facts)
        try:
            yield
        finally:
            del self.facts[count:]

    # -------------------------------------------------------------- nests

    def parallel(self, s: Parallel) -> None:
        """Loops over all but the last wide dimension, vectors along it."""
        if any(e == 0 for e in s.extents):
            return
        facts = nest_facts(s)
        saved_overlays, saved_ranges = dict(self.overlays), dict(self.ranges)
        for var, extent in zip(s.vars, s.extents, strict=True):
            self.ranges[var] = (0, extent - 1)
        wide = [d for d, e in enumerate(s.extents) if e > 1]
        along = wide[-1] if wide else len(s.extents) - 1
        w = self.width(s, s.extents[along], facts.scalars)
        order = [d for d in range(len(s.extents)) if d != along]

        def level(depth: int) -> None:
            if depth < len(order):
                d = order[depth]

                def inner(i: V) -> None:
                    self.env[s.vars[d]] = self.narrow(i, s.vars[d].dtype)
                    level(depth + 1)

                self.count(i64(0), i64(s.extents[d]), 1, inner)
            else:
                self.spans(i64(0), i64(s.extents[along]), w, innermost)

        def innermost(i: V, lanes: int) -> None:
            var = s.vars[along]
            base = self.narrow(i, var.dtype)
            saved = self.lane_var, self.lanes, dict(self.inline)
            self.lane_base = base
            if lanes > 1:
                self.lane_var, self.lanes = var, lanes
                kind = compute_type(var.dtype)
                ramp = V("<" + ", ".join(f"{kind} {n}" for n in range(lanes)) + ">", var.dtype, lanes)
                self.env[var] = self.raw("add nsw", base, ramp)
            else:
                self.lane_var, self.lanes = None, 1
                self.env[var] = base
            loops, self.loops = self.loops, []
            self.overlay(facts.scalars, lanes, saved_overlays)
            self.in_nest += 1
            self.statement(s.body)
            self.in_nest -= 1
            self.overlays = dict(saved_overlays)
            self.loops = loops
            self.lane_var, self.lanes, self.inline = saved

        level(0)
        self.ranges = saved_ranges

    in_nest: int = 0

    def overlay(self, scalars: tuple[Buffer, ...], lanes: int, outer: dict[Buffer, Overlay]) -> None:
        """Give each lane its own copy of the private buffers that the nest writes."""
        for root in scalars:
            count = 1
            for s in root.static_shape:
                count *= s
            kind = vector(storage_type(root.dtype), lanes)
            base = self.alloca(kind, count)
            old = outer.get(root)
            source = (
                old.base if old is not None else self.places_of[root].base if root in self.places_of else None
            )
            if source is not None and root not in self.spread and (old is None or old.w == 1):
                for k in range(count):
                    p = self.op(f"getelementptr {storage_type(root.dtype)}, ptr {source}, i64 {k}")
                    one = self.from_storage(
                        self.op(f"load {storage_type(root.dtype)}, ptr {p}"), root.dtype, 1
                    )
                    q = self.op(f"getelementptr {kind}, ptr {base}, i64 {k}")
                    self.put(f"store {kind} {self.to_storage(self.splat(one, lanes))}, ptr {q}")
            self.overlays[root] = Overlay(base, lanes)

    def width(self, s: Parallel, extent: int, scalars: tuple[Buffer, ...]) -> int:
        """Lanes that the nest can run in."""
        bound = {n.var for n in walk(s.body) if isinstance(n, Bind)} | set(s.vars)
        for node in walk(s.body):
            match node:
                case While() | Break() | Continue() | Print() | Assert():
                    return 1
                case AtomicRMW() if node.result is not None:
                    return 1
                case For():
                    inner = [v for e in (node.start, node.stop, node.step) for v in walk(e)]
                    if any(
                        isinstance(v, Load) or (isinstance(v, Var) and any(v is b for b in bound))
                        for v in inner
                    ):
                        return 1
                case _:
                    pass
        if any(r.scope == "local" for r in scalars) or any(
            isinstance(n, Store) and n.buffer.scope == "local" for n in walk(s.body)
        ):
            return 1
        w = self.width_of_host
        while w > extent:
            w //= 2
        return w

    width_of_host: int = 8


def _pure_index(e: Expr) -> bool:
    """Integer arithmetic of variables, cheap enough to repeat."""
    parts = list(walk(e))
    return len(parts) <= 12 and not any(
        isinstance(n, Load | Call | Select) or (isinstance(n, Binary) and n.op in _COSTLY) for n in parts
    )


_COSTLY = frozenset({"floordiv", "floormod", "truncdiv", "truncmod", "pow", "shl", "shr"})


def _may_wrap(s: For, step: int | None, stops: tuple[int, int] | None) -> bool:
    """Whether the value after the last one may be beyond the loop variable's type, and so start anew."""
    if step is None or stops is None:
        return step not in (1, -1)
    end = 1 << (s.var.dtype.bits - 1)
    return stops[1] - 1 + step >= end if step > 0 else stops[0] + 1 + step < -end


def _short(s: For) -> bool:
    """Whether a loop is over in no time: few rounds, nothing but plain statements inside."""
    start, stop, step = int_value(s.start), int_value(s.stop), int_value(s.step)
    if start is None or stop is None or not step or abs(stop - start) // abs(step) > 4096:
        return False
    return not any(isinstance(n, Op | Parallel | For | While | Pipelined) for n in walk(s.body))


__all__ = ["Statements"]
