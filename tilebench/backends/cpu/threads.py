"""Code that differs between threads: loops over the threads of the block, split where threads exchange
values.

A run of per-thread statements becomes one loop over the threads. Private arrays and names that live on have
one copy for each thread. A shuffle or vote first collects its argument from all threads, then the statement
runs with the result. An `if` that only some threads take and that holds such a statement becomes a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tilebench.backends.cpu.statements import Statements
from tilebench.backends.cpu.text import V, compute_type, i64
from tilebench.errors import TargetError
from tilebench.ir.dtype import bool_, int32, uint32
from tilebench.ir.expr import Call, Expr, Load, Var
from tilebench.ir.intrinsics import INTRINSICS
from tilebench.ir.rewrite import children, variables, walk
from tilebench.ir.simplify import linear
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
    Region,
    Seq,
    Stmt,
    Store,
    SyncThreads,
    TileOp,
    While,
)
from tilebench.ops.base import Op
from tilebench.passes.uniform import stores_only_private

WARP = 32


@dataclass(frozen=True)
class Slot:
    """One value for each thread, in memory."""

    base: str
    kind: str


def collective(e: Call) -> bool:
    """Whether the call looks at other threads."""
    row = INTRINSICS.get(e.name)
    return row is not None and row.per_thread and e.name != "dp4a"


def has_collective(s: Stmt) -> bool:
    """Whether threads exchange values or wait for each other inside."""
    return any((isinstance(n, Call) and collective(n)) or isinstance(n, SyncThreads) for n in walk(s))


def own_calls(s: Stmt) -> list[Call]:
    """Calls that look at other threads in the statement's own expressions, inner ones first."""
    found: list[Call] = []

    def visit(e: Expr) -> None:
        for c in children(e):
            if isinstance(c, Expr):
                visit(c)
        if isinstance(e, Call) and collective(e) and not any(e is f for f in found):
            found.append(e)

    for c in children(s):
        if isinstance(c, Expr):
            visit(c)
        elif isinstance(c, Region):
            for o in c.offsets:
                visit(o)
    return found


def _common_accesses(s: Stmt) -> Iterator[tuple[Buffer, tuple[Expr, ...] | None, bool]]:
    """Shared and global memory that a statement names: the buffer, the element (None: a tile), and whether it
    is written."""
    for n in walk(s):
        if isinstance(n, Load | Store | AtomicRMW) and n.buffer.scope in ("shared", "global"):
            yield (
                n.buffer.data,
                n.indices if n.buffer.data is n.buffer else None,
                not isinstance(n, Load),
            )
        elif isinstance(n, TileOp):
            for regions, writes in ((n.reads, False), (n.writes, True)):
                yield from (
                    (r.buffer.data, None, writes) for r in regions if r.buffer.scope in ("shared", "global")
                )


def spread_buffers(kernel: Kernel, per_thread: frozenset[Stmt]) -> tuple[set[Buffer], frozenset[Stmt]]:
    """Private buffers of which each thread has its own, and the statements that each thread runs: the
    per-thread ones and those that write such a buffer with the same value everywhere.
    """
    writers = [(n, r) for n in walk(kernel.body) if isinstance(n, Stmt) for r in _private_written(n)]
    found = {r for n, r in writers if n in per_thread}
    return found, per_thread | {n for n, r in writers if r in found}


def _private_written(s: Stmt) -> list[Buffer]:
    if isinstance(s, Store | AtomicRMW):
        buffers = [s.buffer]
    else:
        buffers = [r.buffer for r in s.writes] if isinstance(s, TileOp) else []
    return [b.data for b in buffers if b.scope in ("local", "var")]


class Threads(Statements):
    """Writes statements of a block, per-thread ones as loops."""

    thread_var: Var
    slots: dict[Var, Slot]
    thread_mask: str = ""

    # -------------------------------------------------------------- dispatch

    def sequence(self, s: Seq) -> None:
        """Statements in order; neighbours that are per thread share one loop over threads."""
        if self.thread_value is not None or self.in_nest:
            super().sequence(s)
            return
        run: list[Stmt] = []
        for part in s.body:
            if part in self.per_thread and not isinstance(part, Seq):
                run.append(part)
                continue
            self._flush(run)
            run = []
            if not self.closed:
                self.statement(part)
        self._flush(run)

    def dispatch(self, s: Stmt) -> None:
        """One statement, for the block or inside a loop over threads."""
        if self.thread_value is not None and isinstance(s, Parallel):
            self._serially(s)
            return
        if self.thread_value is None and not self.in_nest and not isinstance(s, Seq):
            if s in self.per_thread:
                self._flush([s])
                return
            if isinstance(s, For | While) and any(True for _ in self._escapes(s.body)):
                self._refuse_shared(s)
                self._thread_loop(lambda: super(Threads, self).dispatch(s))
                return
        super().dispatch(s)

    def evaluate(self, e: Expr) -> V:
        """An expression; names bound per thread are read from their slots."""
        if isinstance(e, Var) and e in self.slots:
            slot = self.slots[e]
            assert self.thread_value is not None, f"{e.name} is read outside a thread"
            p = self._element(slot)
            return V(self.op(f"load {slot.kind}, ptr {p}"), e.dtype)
        return super().evaluate(e)

    def coefficient(self, e: Expr) -> int | None:
        """How an expression grows with the vector index; names bound per thread do not."""
        if isinstance(e, Var) and e in self.slots:
            return 0
        return super().coefficient(e)

    def _escapes(self, s: Stmt, divergent: bool = False) -> Iterator[Stmt]:
        """Breaks and continues of this loop that only some threads take."""
        if isinstance(s, Break | Continue) and (divergent or s in self.per_thread):
            yield s
        if not isinstance(s, For | While | Pipelined):
            inside = divergent or (isinstance(s, If) and s in self.per_thread)
            for c in children(s):
                if isinstance(c, Stmt):
                    yield from self._escapes(c, inside)

    def _refuse_shared(self, loop: Stmt) -> None:
        """A loop that threads leave one by one may hold nothing that the block does together."""
        for n in walk(loop):
            together = (
                isinstance(n, SyncThreads)
                or (isinstance(n, Call) and collective(n))
                or (isinstance(n, Op) and any(r.buffer.scope not in ("local", "var") for r in n.writes))
                or (isinstance(n, Parallel) and not stores_only_private(n))
                or (isinstance(n, AtomicRMW) and n not in self.per_thread)
            )
            if together:
                raise TargetError(
                    "TB542",
                    "a loop that some threads leave before others holds a step of the whole block",
                    at=getattr(n, "loc", None) or loop.loc,
                    why="on a CPU the threads of a block take turns, and each runs such a loop to its end",
                    fix="end the loop on a condition that is the same for all threads, or move the step "
                    "out of it",
                    notes=[(loop.loc, "the loop")],
                )

    # -------------------------------------------------------------- runs

    def _flush(self, run: Sequence[Stmt]) -> None:
        plain: list[Stmt] = []

        def emit() -> None:
            if plain:
                todo = tuple(plain)
                plain.clear()
                self._thread_loop(lambda: [self._one(p) for p in todo])

        for s in run:
            if not has_collective(s):
                if self._exchange(plain, s):
                    emit()
                plain.append(s)
                continue
            emit()
            if isinstance(s, If):
                self._masked(s)
            elif isinstance(s, For | While | Pipelined | Parallel | Op):
                self._thread_loop(lambda s=s: self._one(s))  # raises TB541 at the call
            else:
                self._staged(s)
        emit()

    def _exchange(self, run: Sequence[Stmt], last: Stmt) -> bool:
        """Whether threads may see in `last` what others do to common memory in `run`, or the other way round:
        then all of them do the run before any does the last.
        """
        before = [access for s in run for access in _common_accesses(s)]
        if not before:
            return False
        bound = {n.var for s in (*run, last) for n in walk(s) if isinstance(n, Bind | For)}
        varying = {self.thread_var, *self.slots, *bound}
        return any(
            buffer is other and (writes or wrote) and not self._own_element(indices, places, varying)
            for buffer, indices, writes in _common_accesses(last)
            for other, places, wrote in before
        )

    def _own_element(self, a: tuple[Expr, ...] | None, b: tuple[Expr, ...] | None, varying: set[Var]) -> bool:
        """Whether both are one element that no other thread has: an index is a multiple of the thread number
        plus what is the same for all."""
        if a is None or b is None or len(a) != len(b):
            return False
        for x, y in zip(a, b, strict=True):
            difference = linear(x - y)
            if difference.terms or difference.constant:
                return False
        for x in a:
            terms = [t for t, _ in linear(x).terms if variables(t) & varying]
            if len(terms) == 1 and terms[0] is self.thread_var:
                return True
        return False

    def _one(self, s: Stmt) -> None:
        """A statement inside the loop over threads; names that it binds live on in memory."""
        if isinstance(s, Op) and any(r.buffer.scope not in ("local", "var") for r in s.writes):
            raise TargetError(
                "TB543",
                f"T.{type(s).__name__.lower()} of the block with a value that differs between threads",
                at=s.loc,
                why="a tile op is carried out once for the block, so it needs one value",
                fix="store the threads' values to a shared buffer first, or write the loop over elements "
                "for one thread",
            )
        self.statement(s)
        var = s.var if isinstance(s, Bind) else s.result if isinstance(s, AtomicRMW) else None
        if var is None:
            return
        value = self.evaluate(var)
        slot = Slot(self._array(compute_type(var.dtype)), compute_type(var.dtype))
        self.put(f"store {slot.kind} {value.name}, ptr {self._element(slot)}")
        self.slots[var] = slot
        self.inline.pop(var, None)

    def _array(self, kind: str) -> str:
        """Memory for one value of each thread."""
        if self.threads <= 32:
            return self.alloca(kind, self.threads)
        size = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "float": 4}.get(kind, 8)
        start = self.take(size * self.threads)
        self.count_names += 1
        name = f"%a{self.count_names}"
        self.allocas.append(f"  {name} = getelementptr i8, ptr %arena, i64 {start}")
        return name

    count_names: int = 0

    def _element(self, slot: Slot, at: str = "") -> str:
        assert at or self.thread_value is not None
        place = at or self.index(self.thread_value).name  # type: ignore[arg-type]
        return self.op(f"getelementptr {slot.kind}, ptr {slot.base}, i64 {place}")

    def _thread_loop(self, body: Callable[[], object], masked: bool = True) -> None:
        """`body` for each thread (each active one) in turn."""

        def inner(t: V) -> None:
            self.thread_value = self.narrow(t, self.thread_var.dtype)
            self.env[self.thread_var] = self.thread_value
            end = ""
            if masked and self.thread_mask:
                flag = self.op(f"load i8, ptr {self._element(Slot(self.thread_mask, 'i8'))}")
                do, end = self.fresh("active"), self.fresh("next")
                self.branch(self.op(f"icmp ne i8 {flag}, 0"), do, end)
                self.start(do)
            # Names made in here are no longer known after the loop.
            env, ranges = dict(self.env), dict(self.ranges)
            loops, self.loops = self.loops, []
            body()
            self.loops = loops
            self.env, self.ranges = env, {**self.ranges, **ranges}
            if end:
                self.start(end)
            elif self.closed:
                self.start(self.fresh("next"))

        self.count(i64(0), i64(self.threads), 1, inner)
        self.thread_value = None
        self.env.pop(self.thread_var, None)

    def _serially(self, s: Parallel) -> None:
        """A nest that writes private buffers only: the thread runs all of it."""
        if not stores_only_private(s):
            raise TargetError(
                "TB543",
                "T.Parallel of the block with values that differ between threads",
                at=s.loc,
                why="its iterations are spread over the threads, so which thread's value is meant is not "
                "said",
                fix="store the threads' values to a shared buffer first, or use a serial loop",
            )

        def level(depth: int) -> None:
            if depth == len(s.vars):
                self.statement(s.body)
                return
            var = s.vars[depth]
            self.ranges[var] = (0, s.extents[depth] - 1)

            def inner(i: V) -> None:
                self.env[var] = self.narrow(i, var.dtype)
                level(depth + 1)

            self.count(i64(0), i64(s.extents[depth]), 1, inner)

        level(0)

    # -------------------------------------------------------------- masks and exchanges

    def _masked(self, s: If) -> None:
        """An if that some threads take, statement by statement under a mask."""
        outer = self.thread_mask
        taken, other = self._array("i8"), self._array("i8")
        for base in (taken, other):
            self._thread_loop(lambda base=base: self._flag(base, "0"), masked=False)

        def ask() -> None:
            condition = self.evaluate(s.condition)
            self._flag(taken, self.op(f"zext i1 {condition.name} to i8"))
            self._flag(other, self.op(f"zext i1 {self.invert(condition).name} to i8"))

        for call in own_calls(s):
            self._stage(call)
        self._thread_loop(ask)
        for base, body in ((taken, s.then), (other, s.orelse)):
            if body is not None:
                self.thread_mask = base
                self._flush(body.body if isinstance(body, Seq) else [body])
        self.thread_mask = outer

    def _flag(self, base: str, value: str) -> None:
        self.put(f"store i8 {value}, ptr {self._element(Slot(base, 'i8'))}")

    def _staged(self, s: Stmt) -> None:
        """A statement whose expressions look at other threads."""
        calls = own_calls(s)
        for call in calls:
            self._stage(call)
        if not isinstance(s, SyncThreads):
            self._thread_loop(lambda: self._one(s))
        for call in calls:
            self.staged.pop(id(call), None)

    def _stage(self, call: Call) -> None:
        """Collect the argument of a shuffle or vote from all threads."""
        name = call.name
        argument = call.args[0] if call.args else None
        if name.startswith("shfl"):
            assert argument is not None
            slot = Slot(self._array(compute_type(argument.dtype)), compute_type(argument.dtype))

            def keep() -> None:
                self.put(f"store {slot.kind} {self.evaluate(argument).name}, ptr {self._element(slot)}")

            self._thread_loop(keep, masked=self.risky(argument))
            self.staged[id(call)] = lambda: self._shuffled(call, slot)
            return
        flags = Slot(self._array("i8"), "i8")
        wrong = name in ("all_sync", "syncthreads_and")
        if self.thread_mask:
            self._thread_loop(lambda: self._flag(flags.base, "0"), masked=False)

        def vote() -> None:
            value = V("true", bool_) if argument is None else self.evaluate(argument)
            value = self.invert(value) if wrong else value
            self._flag(flags.base, self.op(f"zext i1 {value.name} to i8"))

        self._thread_loop(vote)
        if name.startswith("syncthreads"):
            self._vote_of_block(call, flags)
        else:
            self._vote_of_warps(call, flags)

    def _shuffled(self, call: Call, slot: Slot) -> V:
        t = self.index(self.thread_value)  # type: ignore[arg-type]
        lane = self.raw("and", t, i64(WARP - 1))
        first = self.raw("sub", t, lane)
        argument = self.index(self.evaluate(call.args[1]))
        match call.name:
            case "shfl_xor":
                wanted = self.raw("xor", lane, argument)
            case "shfl_up":
                wanted = self.raw("sub", lane, argument)
            case "shfl_down":
                wanted = self.raw("add", lane, argument)
            case _:
                wanted = self.raw("and", argument, i64(WARP - 1))
        source = self.raw("add", first, wanted)
        outside = self.raw(
            "or",
            self.compare("icmp uge", wanted, i64(WARP)),
            self.compare("icmp uge", source, i64(self.threads)),
        )
        source = self.choose(outside, t, source)
        return V(self.op(f"load {slot.kind}, ptr {self._element(slot, source.name)}"), call.dtype)

    def _vote_of_block(self, call: Call, flags: Slot) -> None:
        total = self.alloca("i32")
        self.put(f"store i32 0, ptr {total}")

        def add(t: V) -> None:
            flag = self.op(f"load i8, ptr {self._element(flags, t.name)}")
            wide = self.op(f"zext i8 {flag} to i32")
            old = self.op(f"load i32, ptr {total}")
            self.put(f"store i32 {self.op(f'add i32 {old}, {wide}')}, ptr {total}")

        self.count(i64(0), i64(self.threads), 1, add)
        number = V(self.op(f"load i32, ptr {total}"), int32)
        zero = self.constant(0, int32)
        results = {
            "syncthreads_count": lambda: number,
            "syncthreads_or": lambda: self.compare("icmp ne", number, zero),
            "syncthreads_and": lambda: self.compare("icmp eq", number, zero),
        }
        value = results[call.name]()
        self.staged[id(call)] = lambda: value

    def _vote_of_warps(self, call: Call, flags: Slot) -> None:
        warps = -(-self.threads // WARP)
        words = Slot(self.alloca("i32", warps), "i32")
        for w in range(warps):
            self.put(f"store i32 0, ptr {self._element(words, str(w))}")

        def add(t: V) -> None:
            flag = self.op(f"load i8, ptr {self._element(flags, t.name)}")
            wide = self.op(f"zext i8 {flag} to i32")
            lane = self.op(f"trunc i64 {self.raw('and', t, i64(WARP - 1)).name} to i32")
            bit = self.op(f"shl i32 {wide}, {lane}")
            p = self._element(words, self.raw("lshr", t, i64(5)).name)
            old = self.op(f"load i32, ptr {p}")
            self.put(f"store i32 {self.op(f'or i32 {old}, {bit}')}, ptr {p}")

        self.count(i64(0), i64(self.threads), 1, add)

        def word() -> V:
            t = self.index(self.thread_value)  # type: ignore[arg-type]
            p = self._element(words, self.raw("lshr", t, i64(5)).name)
            return V(self.op(f"load i32, ptr {p}"), uint32)

        zero = self.constant(0, uint32)
        self.staged[id(call)] = {
            "any_sync": lambda: self.compare("icmp ne", word(), zero),
            "all_sync": lambda: self.compare("icmp eq", word(), zero),
        }.get(call.name, word)


__all__ = ["Threads", "spread_buffers"]
