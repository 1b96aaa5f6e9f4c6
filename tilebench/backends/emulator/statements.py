"""Statements of a thread program as Python source.

Uniform control flow becomes Python control flow; control flow that depends on the thread becomes masks. Loops
marked independent, and vectorised ones, run as one operation with a loop axis where their bodies allow; short
unrolled loops are written out, so that their addresses are computed outside the loops around them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tilebench.backends.emulator import async_statements
from tilebench.backends.emulator.expressions import Emitter, RegisterIndex, Scope, Value
from tilebench.backends.emulator.loops import leaves, loop_weight, runs_as_one
from tilebench.backends.emulator.memory import Place
from tilebench.backends.emulator.order import Columns
from tilebench.backends.emulator.record import is_step, register_written
from tilebench.backends.emulator.tensorcore import MmaSite
from tilebench.errors import InternalError, Loc, located
from tilebench.ir.expr import Expr, Var, int_value
from tilebench.ir.folds import FoldPairs, LaneFold, written_out
from tilebench.ir.thread import (
    Barrier,
    CpAsync,
    CpAsyncCommit,
    CpAsyncWait,
    LdMatrix,
    Memory,
    Mma,
    SyncWarp,
    Turn,
    VectorAtomic,
    VectorCopy,
)  # fmt: skip
from tilebench.ir.tile import (
    Assert,
    AtomicRMW,
    Bind,
    Break,
    Continue,
    Evaluate,
    For,
    If,
    Print,
    Seq,
    Stmt,
    Store,
    While,
)  # fmt: skip
from tilebench.ir.timers import ReadCounter, Timestamp

UNROLL_LIMIT = 16  # copies of a body that are written out
WIDE_LIMIT = 1 << 22  # elements of a value with loop axes


class _Masked(Exception):
    """A loop's body leaves it under a mask: write the loop with masks."""


@dataclass(eq=False)
class _Frame:
    """An open loop.

    Without masks Break is Python's; with them `left` and `skipped` are arrays of the threads that went.
    """

    masked: bool
    mask: Value | None
    left: str = ""
    skipped: str = ""


class Statements(Emitter):
    """Statements to source, in the scopes of an Emitter."""

    def __init__(self, places: dict[Memory, Place], checks: bool, threads: int, columns: Columns) -> None:
        super().__init__(places, checks)
        self.threads, self.columns = threads, columns
        self.suppliers: Mapping[Memory, tuple[tuple[Loc | None, str], ...]] = {}
        self.frames: list[_Frame] = []
        self.width = 1
        self.counted: list[tuple[str, int]] = []
        self.recording = False  # write a call of the recorder after each statement (record.py)
        self.counters: list[Var] = []  # variables of the counted loops that are open

    def capture(self, body: Callable[[], None]) -> list[str]:
        """The lines that `body` writes, indented.

        Lines that it puts into outer scopes come before what is put next.
        """
        self.scopes.append(Scope())
        try:
            body()
        finally:
            inner = self.scopes.pop()
        return ["    " + text for text in inner.lines or ["pass"]]

    def block(self, header: str, body: Callable[[], None]) -> None:
        """`header:` with what `body` writes indented below it."""
        inner = self.capture(body)
        self.scopes[-1].lines += [header, *inner]

    def count(self, kind: str, at: Loc | None, warps: int) -> None:
        """Count executions of a statement (times `warps` instructions each)."""
        self.counted.append((kind, warps * self.width))
        self.put(f"executed[{len(self.counted) - 1}] += 1")

    # -------------------------------------------------------------- dispatch

    def statement(self, s: Stmt) -> None:
        """Write one statement."""
        self.begin(s.loc or self.at)
        with located(self.at):
            self._write(s)
            if self.recording and is_step(s):
                self._record(s)

    def _record(self, s: Stmt) -> None:
        array = register_written(s)
        held = "None" if array is None else f"R{self.register_number(array)}"
        at = "".join(f"{self.env[v].code}, " for v in self.counters)
        self.put(f"rs.block.machine.recorder.step(rs, {self.constant(s)}, {held}, ({at}))")

    def _write(self, s: Stmt) -> None:
        match s:
            case Seq():
                self._sequence(s)
            case For():
                self._for(s)
            case While():
                self._loop(lambda frame: self._while(s, frame))
            case If():
                self._if(s)
            case Break() | Continue():
                self._leave(s)
            case Bind():
                self._bind(s.var, s.value)
            case Store():
                self._store(s)
            case AtomicRMW():
                self._atomic(s)
            case Evaluate():
                self.value(s.value)
            case Assert():
                c = self.value(s.condition)
                self.put(
                    f"rs.check_assert({c.code}, {self.mask_code}, "
                    f"{self.constant(s.message, ('text', s.message))}, {self.constant(self.at)})"
                )
            case Print():
                values = "".join(self.value(v).code + ", " for v in s.values)
                self.put(
                    f"rs.show({self.constant(s.message, ('text', s.message))}, ({values}), {self.mask_code})"
                )
            case VectorCopy():
                self._vector_copy(s)
            case VectorAtomic():
                self._vector_atomic(s)
            case FoldPairs() | LaneFold():
                self._write(written_out(s))
            case CpAsync():
                self._cp_async(s)
            case CpAsyncCommit():
                self.put(f"rs.copies.commit({self.mask_code})")
            case CpAsyncWait():
                self.put(f"rs.copies.wait({s.pending}, {self.mask_code})")
            case Barrier():
                self.count("barrier", s.loc, self.threads // 32)
                self.put(
                    f"yield from barrier(rs, {int(s.id)}, {s.threads and int(s.threads)}, "
                    f"{self.mask_code}, {self.constant(self.at)})"
                )
            case Turn():
                self.count("barrier", s.loc, self.threads // 64)
                self.put(
                    f"yield from rs.block.turns.use(rs, {s.id}, {s.threads}, {s.take}, {self.mask_code}, "
                    f"{self.constant(self.at)})"
                )
            case SyncWarp():
                self.put(f"rs.sync_warp({self.mask_code}, {self.constant(self.at)})")
            case LdMatrix():
                self._ldmatrix(s)
            case Mma():
                self._mma(s)
            case Timestamp():
                at, end = self.register_number(s.at), self.register_number(s.end)
                slot = self.places[s.buffer].slot
                self.put(f"stamp(rs, {slot}, R{at}, R{end}, {s.tag}, {self.mask_code})")
            case ReadCounter():
                index, slot = self.index(s.index).code, self.places[s.buffer].slot
                self.put(f"read_counter(rs, {slot}, {index}, {s.counter!r}, {self.mask_code})")
            case _ if async_statements.write(self, s):
                pass
            case _:
                raise InternalError(
                    "TB902",
                    f"the emulator does not know {type(s).__name__}",
                    at=s.loc,
                    why="it is no statement of a thread program",
                )

    def _sequence(self, s: Seq) -> None:
        for part in s.body:
            self.statement(part)
            if self.frames and self.frames[-1].masked and leaves(part):
                frame = self.frames[-1]
                code = f"~({frame.left} | {frame.skipped})"
                if self.mask is not None:
                    code = f"{self.mask.code} & {code}"
                axes = self.mask.axes if self.mask is not None else frozenset[int]()
                self.mask = self.effect(code, axes, True)

    # -------------------------------------------------------------- control flow

    def _scoped(self, body: Stmt, mask: Value | None) -> None:
        saved, self.mask = self.mask, mask
        self.statement(body)
        self.mask = saved

    def _if(self, s: If) -> None:
        c = self.value(s.condition)
        if c.view:
            c = self.effect(f"{c.code}.copy()", c.axes, True)
        if c.uniform:
            then = self.capture(lambda: self._scoped(s.then, self.mask))
            orelse = s.orelse
            other = self.capture(lambda: self._scoped(orelse, self.mask)) if orelse is not None else []
            self.scopes[-1].lines += [f"if {c.code}:", *then, *(["else:", *other] if other else [])]
            return
        for body, condition in ((s.then, c), (s.orelse, None)):
            if body is None:
                continue
            condition = condition or self.pure(f"~{c.code}", c)
            mask = self.with_mask(condition)
            chosen = body
            self.block(f"if {mask.code}.any():", lambda chosen=chosen, mask=mask: self._scoped(chosen, mask))

    def _leave(self, s: Break | Continue) -> None:
        frame = self.frames[-1]
        if not frame.masked:
            if self.mask is not frame.mask:
                raise _Masked
            self.put("break" if isinstance(s, Break) else "continue")
            return
        gone = frame.left if isinstance(s, Break) else frame.skipped
        self.put(f"{gone} = {gone} | {self.mask_code if self.mask is not None else 'True'}")

    def _loop(self, write: Callable[[_Frame], None]) -> None:
        """A loop without masks, or with them if a condition that differs between threads leaves it."""
        depth, saved_mask = len(self.scopes), self.mask
        lines, counted = len(self.scopes[-1].lines), len(self.counted)
        frame = _Frame(False, self.mask)
        self.frames.append(frame)
        try:
            write(frame)
        except _Masked:
            del self.scopes[depth:]
            # temporaries put outside the loop meanwhile stay: the memo knows them; the loop's own are gone
            del self.counted[counted:]
            assert len(self.scopes[-1].lines) >= lines
            self.mask = saved_mask
            frame.masked = True
            write(frame)
        finally:
            self.frames.pop()
            self.mask = saved_mask

    def _enter_masked(self, frame: _Frame) -> tuple[str, Value]:
        """Before a masked loop: the array of threads that left it, and the mask at its start."""
        frame.left, frame.skipped = self.name("left"), self.name("skip")
        self.put(f"{frame.left} = np.zeros(rs.threads, bool)")
        self.put(f"{frame.skipped} = np.zeros(rs.threads, bool)")
        start = Value("all_threads", 0, thread=True) if frame.mask is None else frame.mask
        return frame.left, start

    def _while(self, s: While, frame: _Frame) -> None:
        at = self.constant(s.loc or self.at)
        if not frame.masked:

            def plain() -> None:
                self.begin(s.loc)
                self.put(f"rs.tick({at})")
                c = self.value(s.condition)
                if not c.uniform:
                    raise _Masked
                self.put(f"if not {c.code}: break")
                self.statement(s.body)

            self.block("while True:", plain)
            return
        left, start = self._enter_masked(frame)

        def masked() -> None:
            self.begin(s.loc)
            self.put(f"rs.tick({at})")
            self.put(f"{frame.skipped} = np.zeros(rs.threads, bool)")
            self.mask = self.effect(f"{start.code} & ~{left}", start.axes, True)
            c = self.value(s.condition)
            self.mask = self.effect(f"{self.mask.code} & {c.code}", start.axes, True)
            self.put(f"if not {self.mask.code}.any(): break")
            self.put(f"{left} = {left} | ~{self.mask.code}")
            self.statement(s.body)

        self.block("while True:", masked)

    def _for(self, s: For) -> None:
        start, stop, step = int_value(s.start), int_value(s.stop), int_value(s.step)
        if start is not None and stop is not None and step:
            trips = len(range(start, stop, step))
            if trips == 0:
                return
            if trips == 1 and not leaves(s.body):
                self._unrolled(s, range(start, stop, step))
                return
            if (
                (s.independent or s.kind == "vectorized")
                and self.width * trips * self.threads <= WIDE_LIMIT
                and runs_as_one(s)
            ):
                self._as_one(s, range(start, stop, step))
                return
            if (
                s.kind in ("unroll", "vectorized")
                and trips * loop_weight(s.body) <= UNROLL_LIMIT
                and not leaves(s.body)
            ):
                self._unrolled(s, range(start, stop, step))
                return
        first, last, by = (self.value(e) for e in (s.start, s.stop, s.step))
        if step is None:
            at = self.constant(s.loc or self.at)
            self.put(f"rs.check_step({by.code}, {self.mask_code}, {at})")
        if first.uniform and last.uniform and by.uniform:
            self._loop(lambda frame: self._counted(s, frame, first, last, by))
        else:
            self._loop(lambda frame: self._uneven(s, frame, first, last, by))

    def _unrolled(self, s: For, values: range) -> None:
        for i in values:
            self.env[s.var] = Value(f"({i})" if i < 0 else str(i), 0)
            self.ranges[s.var] = (i, i)
            self.statement(s.body)

    def _as_one(self, s: For, values: range) -> None:
        axis = self.axis_count
        shape = (len(values),) + (1,) * (axis + 1)
        array = np.arange(values.start, values.stop, values.step, dtype=s.var.dtype.storage_dtype).reshape(
            shape
        )
        key = ("axis", axis, values.start, values.stop, values.step, s.var.dtype.name)
        self.env[s.var] = Value(self.constant(array, key), 0, frozenset({axis}))
        self.ranges[s.var] = (min(values[0], values[-1]), max(values[0], values[-1]))
        self.axis_count += 1
        self.width *= len(values)
        self.statement(s.body)
        self.axis_count -= 1
        self.width //= len(values)

    def _range(self, s: For) -> None:
        low, high, step = self.known(s.start), self.known(s.stop), int_value(s.step)
        if low is not None and high is not None and step is not None and step > 0:
            self.ranges[s.var] = (low[0], max(low[0], high[1] - 1))

    def _counted(self, s: For, frame: _Frame, first: Value, last: Value, by: Value) -> None:
        variable = self.name("i")
        self._range(s)
        left = ""
        start: Value | None = None
        if frame.masked:
            left, start = self._enter_masked(frame)

        def body() -> None:
            self.env[s.var] = Value(variable, self.depth)
            self.counters.append(s.var)
            if start is not None:
                self.put(f"{frame.skipped} = np.zeros(rs.threads, bool)")
                self.mask = self.effect(f"{start.code} & ~{left}", start.axes, True)
                self.put(f"if not {self.mask.code}.any(): break")
            try:
                self.statement(s.body)
            finally:
                self.counters.pop()

        self.block(f"for {variable} in range({first.code}, {last.code}, {by.code}):", body)

    def _uneven(self, s: For, frame: _Frame, first: Value, last: Value, by: Value) -> None:
        """A loop whose trip count differs between threads."""
        frame.masked = True
        variable, end, stride = self.name("i"), self.name(), self.name()
        kind = self.constant(s.var.dtype.storage_dtype, ("numpy", s.var.dtype.storage_dtype.str))
        self.put(f"{variable} = np.broadcast_to({first.code}, (rs.threads,)).astype({kind})")
        self.put(f"{end} = np.array({last.code})")
        self.put(f"{stride} = np.array({by.code}, {kind})")
        left, start = self._enter_masked(frame)
        self._range(s)

        def body() -> None:
            self.put(f"rs.tick({self.constant(s.loc or self.at)})")
            self.put(f"{frame.skipped} = np.zeros(rs.threads, bool)")
            more = f"np.where({stride} > 0, {variable} < {end}, {variable} > {end})"
            self.mask = self.effect(f"{start.code} & ~{left} & {more}", start.axes, True)
            self.put(f"if not {self.mask.code}.any(): break")
            now = self.effect(variable, frozenset(), True)
            self.env[s.var] = now
            self.put(f"{variable} = {variable} + {stride}")
            self.statement(s.body)

        self.block("while True:", body)

    # -------------------------------------------------------------- values and memory

    def _bind(self, var: Var, e: Expr) -> None:
        v = self.value(e)
        if e.dtype != var.dtype:
            v = self._cast(v, e.dtype, var.dtype)
        if v.view:
            v = self.effect(f"{v.code}.copy()", v.axes, v.thread)
        known = self.known(e)
        if known is not None:
            self.ranges[var] = known
        self.env[var] = v

    def _typed_value(self, e: Expr, memory: Memory) -> Value:
        v = self.value(e)
        return v if e.dtype == memory.dtype else self._cast(v, e.dtype, memory.dtype)

    def _store(self, s: Store) -> None:
        memory = s.buffer
        assert isinstance(memory, Memory), f"{memory.name} is no memory of a thread program"
        v = self._typed_value(s.value, memory)
        if memory.space != "register":
            index = self.index(s.indices[0])
            site = self.site(memory, 1, "store")
            self.put(f"{site}.store(rs, {index.code}, {v.code}, {self.mask_code})")
            return
        index = self.register_index(memory, s.indices[0], 1, "written")
        array = f"R{self.register_number(memory)}"
        if self.mask is not None:
            self.put(f"write({array}, {index.code}, {index.columns}, {v.code}, {self.mask_code})")
        else:
            place = index.code if index.columns == "None" else f"{index.code}, {index.columns}"
            self.put(f"{array}[{place}] = {v.code}")
        self.note_written(memory, index, 1)

    def _atomic(self, s: AtomicRMW) -> None:
        memory = s.buffer
        assert isinstance(memory, Memory), f"{memory.name} is no memory of a thread program"
        v, index = self._typed_value(s.value, memory), self.index(s.indices[0])
        site = self.site(memory, 1, "atomic")
        code = (
            f"{site}.atomic(rs, {s.op!r}, {index.code}, {v.code}, {self.mask_code}, {s.result is not None})"
        )
        if s.result is None:
            self.put(code)
        else:
            self.env[s.result] = self.effect(code, index.axes | v.axes, True)

    def _vector_atomic(self, s: VectorAtomic) -> None:
        start = self.register_index(s.source, s.source_index, s.lanes, "read")
        self.check_written(s.source, start, s.lanes)
        index = self.index(s.destination_index)
        site = self.site(s.destination, s.lanes, "atomic")
        values = f"read_rows(R{self.register_number(s.source)}, {start.code}, {start.columns}, {s.lanes})"
        code = f"{site}.add_vector(rs, {index.code}, {values}, {self.mask_code}, {s.old is not None})"
        if s.old is None:
            self.put(code)
            return
        assert s.old_index is not None, "old values have a place"
        old = self.effect(code, index.axes, True)
        to = self.register_index(s.old, s.old_index, s.lanes, "written")
        self._write_rows(s.old, to, s.lanes, old.code, self.mask_code)
        self.note_written(s.old, to, s.lanes)

    def _write_rows(self, memory: Memory, index: RegisterIndex, count: int, values: str, mask: str) -> None:
        self.put(
            f"write_rows(R{self.register_number(memory)}, {index.code}, {index.columns}, "
            f"{count}, {values}, {mask})"
        )

    def _vector_copy(self, s: VectorCopy) -> None:
        inner = self.mask
        if s.predicate is not None:
            p = self.value(s.predicate)
            inner = self.with_mask(p)
        inner_code = "None" if inner is None else inner.code
        self.count("vector-copy", s.loc, self.threads // 32)
        if s.destination.space == "register":
            index = self.index(s.source_index)
            site = self.site(s.source, s.lanes, "copy-in")
            loaded = self.effect(f"{site}.gather(rs, {index.code}, {inner_code})", index.axes, True)
            to = self.register_index(s.destination, s.destination_index, s.lanes, "written")
            saved = self.mask
            if not s.zero_fill:
                self.mask = inner
            self._write_rows(s.destination, to, s.lanes, loaded.code, self.mask_code)
            self.note_written(s.destination, to, s.lanes)
            self.mask = saved
            return
        saved, self.mask = self.mask, inner
        start = self.register_index(s.source, s.source_index, s.lanes, "read")
        self.check_written(s.source, start, s.lanes)
        index = self.index(s.destination_index)
        site = self.site(s.destination, s.lanes, "copy-out")
        values = f"read_rows(R{self.register_number(s.source)}, {start.code}, {start.columns}, {s.lanes})"
        self.put(f"{site}.scatter(rs, {index.code}, {values}, {inner_code})")
        self.mask = saved

    def _cp_async(self, s: CpAsync) -> None:
        p = "None" if s.predicate is None else self.value(s.predicate).code
        to, start = self.index(s.destination_index), self.index(s.source_index)
        self.count("cp.async", s.loc, self.threads // 32)
        destination, source = (
            self.site(s.destination, s.lanes, "cp.async"),
            self.site(s.source, s.lanes, "copy-in"),
        )
        self.put(f"rs.copies.issue({destination}, {source}, {to.code}, {start.code}, {self.mask_code}, {p})")

    def _ldmatrix(self, s: LdMatrix) -> None:
        index = self.index(s.source_index)
        itemsize = s.source.dtype.storage_dtype.itemsize
        site = self.site(s.source, 16 // itemsize, "ldmatrix")
        self.count("ldmatrix", s.loc, self.threads // 32)
        count = s.matrices * (4 // itemsize)
        axes = index.axes | (self.mask.axes if self.mask is not None else frozenset[int]())
        loaded = self.effect(
            f"ldmatrix(rs, {site}, {index.code}, {self.mask_code}, {s.matrices}, {bool(s.transpose)})",
            axes,
            True,
        )
        to = self.register_index(s.destination, s.destination_index, count, "written")
        self._write_rows(s.destination, to, count, loaded.code, self.mask_code)
        self.note_written(s.destination, to, count)

    def _mma(self, s: Mma) -> None:
        _, _, k = s.shape
        e = 32 // s.a.dtype.bits if s.a.dtype.bits < 32 else 1
        halves = k // (4 * e)
        self.count(f"mma.m16n8k{k}", s.loc, self.threads // 32)
        parts: list[str] = []
        for memory, at, count in (
            (s.d, s.d_index, 4),
            (s.a, s.a_index, 2 * e * halves),
            (s.b, s.b_index, e * halves),
        ):
            index = self.register_index(memory, at, count, "read")
            if index.columns != "None":
                raise InternalError(
                    "TB902", "an mma fragment starts at a register that differs between threads", at=s.loc
                )
            self.check_written(memory, index, count)
            parts += [f"R{self.register_number(memory)}", index.code]
        site = self.constant(MmaSite(s))
        self.put(f"{site}(rs, {', '.join(parts)}, {self.mask_code})")
