"""Statements of one block, in order. A loop or if whose condition differs between threads runs under a
mask."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilebench.backends.interp.arithmetic import choose
from tilebench.backends.interp.block import Block, View
from tilebench.backends.interp.effects import Effects
from tilebench.backends.interp.iterations import Iterations
from tilebench.backends.interp.nests import Facts, Nest, nest_facts
from tilebench.backends.interp.storage import Cell
from tilebench.errors import InternalError, LaunchError, TileError, TypeTileError
from tilebench.ir.expr import Const, Expr, const
from tilebench.ir.rewrite import children
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
    Issue,
    Parallel,
    Pipelined,
    Print,
    Seq,
    Stmt,
    Store,
    SyncThreads,
    Versioned,
    Wait,
    While,
)
from tilebench.ops.atomic import AtomicTile
from tilebench.ops.base import Op

Signal = str | None
Observer = Callable[[Block, Stmt, tuple[Buffer, ...]], None]


@dataclass
class _Loop:
    """A loop under way. broken, skipped: threads that left it or this iteration while others go on."""

    broken: np.ndarray | None = None
    skipped: np.ndarray | None = None
    entered: np.ndarray | None = None


_ONE = const(1)
LOOP_LIMIT = 1_000_000
"""Iterations of one data-dependent loop in one block, as in the emulator."""
LOOP_SECONDS = 10.0
"""Seconds that one such loop may take before it counts as endless."""


class Runner(Effects):
    """Runs the statements of one block."""

    def __init__(
        self, block: Block, observer: Observer | None, facts: Facts, check_races: bool = False
    ) -> None:
        super().__init__(block)
        self.observer, self.check_races = observer, check_races
        self.nests, self.ops = facts.nests, facts.ops
        self.loops: list[_Loop] = []

    def run(self, s: Stmt) -> Signal:
        """Execute a statement. Gives 'break' or 'continue' when all threads do that."""
        self.block.statement = s
        try:
            signal = self._dispatch(s)
        except TileError as error:
            if error.at is None:
                error.at = s.loc
            raise
        if self.observer is not None and not isinstance(s, Seq):
            self.observer(self.block, s, _written(s))
        return signal

    def _dispatch(self, s: Stmt) -> Signal:
        block = self.block
        match s:
            case Seq():
                return self._sequence(s)
            case Op():
                self._op(s)
            case Store():
                block.store(s, s.buffer, s.indices, block.evaluate(s.value))
            case Bind():
                block.bind(s.var, block.evaluate(s.value))
            case For():
                return self._for(s, s.step)
            case Pipelined():
                return self._for(s, _ONE)
            case Parallel():
                self._parallel(s)
            case If():
                return self._if(s)
            case While():
                return self._while(s)
            case Break() | Continue():
                return self._leave(isinstance(s, Break))
            case AtomicRMW():
                old = block.atomic(
                    s, s.buffer, s.indices, block.evaluate(s.value), s.op, s.result is not None
                )
                if s.result is not None:
                    block.bind(s.result, old)
            case Evaluate():
                self.barrier_call(s)
                block.evaluate(s.value)
            case SyncThreads() | SyncWarp():
                if isinstance(s, SyncThreads):
                    self.everyone(s, "a barrier")
            case Assert():
                self.check_assertion(s)
            case Print():
                self.print_values(s)
            case Issue():
                for op in s.ops:
                    self.run(op)
            case Wait():
                pass
            case Versioned():
                return self.run(s.body)
            case _:
                raise InternalError(
                    "TB902", f"interp does not know {type(s).__name__}: {print_stmt(s).text}", at=s.loc
                )
        return None

    # -------------------------------------------------------------- control

    def _sequence(self, s: Seq) -> Signal:
        block = self.block
        saved = block.mask
        try:
            for part in s.body:
                signal = self.run(part)
                if signal is not None:
                    return signal
                if self.loops and self._cut(saved):
                    return None  # every active thread has left this iteration
        finally:
            block.mask = saved
        return None

    def _cut(self, entry: Any) -> bool:
        """Take the threads that left the iteration out of the mask; whether none is left."""
        loop = self.loops[-1]
        gone = None
        for some in (loop.broken, loop.skipped):
            if some is not None:
                gone = some if gone is None else gone | some
        if gone is None:
            return False
        mask = np.asarray(~gone if entry is None else entry & ~gone)
        self.block.mask = mask
        return not mask.any()

    def _leave(self, is_break: bool) -> Signal:
        loop, mask = self.loops[-1], self.block.mask
        whole = loop.entered
        if mask is None or (
            whole is not None and mask.shape == whole.shape and (mask == whole).all() and loop.broken is None
        ):
            return "break" if is_break else "continue"
        if is_break:
            loop.broken = mask if loop.broken is None else loop.broken | mask
        else:
            loop.skipped = mask if loop.skipped is None else loop.skipped | mask
        return None

    def _iterate(self, loop: _Loop, body: Stmt) -> bool:
        """One iteration; whether the loop goes on."""
        loop.skipped = None
        signal = self.run(body)
        if signal == "break":
            return False
        if loop.broken is None:
            return True
        mask = np.asarray(~loop.broken if loop.entered is None else loop.entered & ~loop.broken)
        self.block.mask = mask
        return bool(mask.any())

    def _for(self, s: For | Pipelined, by: Expr) -> Signal:
        block = self.block
        start, stop, step = (block.evaluate(e) for e in (s.start, s.stop, by))
        if np.any(step == 0):
            raise TypeTileError(
                "TB270", "a loop with step 0 never ends", at=s.loc, fix="use a step other than 0"
            )
        saved = block.mask
        loop = _Loop(entered=saved)
        self.loops.append(loop)
        kind = s.var.dtype.compute_dtype.type
        try:
            if all(np.ndim(v) == 0 for v in (start, stop, step)):
                for value in range(int(start), int(stop), int(step)):
                    block.env[s.var] = (kind(value), len(block.axes))
                    if not self._iterate(loop, s.body):
                        break
                return None
            self._for_each_thread(s, loop, start, stop, step)
        finally:
            self.loops.pop()
            block.mask = saved
        return None

    def _for_each_thread(self, s: For | Pipelined, loop: _Loop, start: Any, stop: Any, step: Any) -> None:
        """A loop whose bounds differ between threads: it goes on while a thread has an iteration left."""
        block = self.block
        value: np.ndarray = np.asarray(start) + np.zeros(
            np.broadcast_shapes(np.shape(start), np.shape(stop), np.shape(step)), np.asarray(start).dtype
        )
        while True:
            going: np.ndarray = choose(np.asarray(step) > 0, value < stop, value > stop)
            live: np.ndarray = going if loop.entered is None else going & loop.entered
            if loop.broken is not None:
                live = live & ~loop.broken
            if not live.any():
                return
            block.mask = live
            block.env[s.var] = (value, len(block.axes))
            loop.skipped = None
            if self.run(s.body) == "break":
                loop.broken = live if loop.broken is None else loop.broken | live
            value = value + step

    def _while(self, s: While) -> Signal:
        block = self.block
        saved = block.mask
        loop = _Loop(entered=saved)
        self.loops.append(loop)
        try:
            start, turns = time.monotonic(), 0
            while True:
                turns += 1
                if turns % 1024 == 0 and (turns > LOOP_LIMIT or time.monotonic() - start > LOOP_SECONDS):
                    raise self._endless(s, turns - 1)
                condition = block.evaluate(s.condition)
                if np.ndim(condition) == 0:
                    if not condition or not self._iterate(loop, s.body):
                        return None
                    continue
                live = block.active(condition)
                assert live is not None
                if not live.any():
                    return None
                block.mask = loop.entered = live
                loop.skipped = None
                if self.run(s.body) == "break":
                    return None
                if loop.broken is not None:
                    block.mask = loop.entered = live & ~loop.broken
                    loop.broken = None
        finally:
            self.loops.pop()
            block.mask = saved

    def _endless(self, s: While, turns: int) -> LaunchError:
        return LaunchError(
            "TB435",
            f"the loop ran {turns:,} times without ending ({self.block.where()})",
            at=s.loc,
            why="its condition stays true; on a GPU it would run until the machine is reset",
            fix="change a value that the condition reads in every iteration, or leave with break",
        )

    def _if(self, s: If) -> Signal:
        block = self.block
        condition = block.evaluate(s.condition)
        if np.ndim(condition) == 0:
            branch = s.then if condition else s.orelse
            return self.run(branch) if branch is not None else None
        saved = block.mask
        signals: list[Signal] = []
        try:
            for branch, chosen in ((s.then, condition), (s.orelse, ~condition)):
                if branch is None:
                    continue
                mask = chosen if saved is None else saved & chosen
                if not mask.any():
                    continue
                block.mask = mask
                signals.append(self.run(branch))
        finally:
            block.mask = saved
        return None if not signals else self._merge(signals)

    @staticmethod
    def _merge(signals: list[Signal]) -> Signal:
        """A signal of one branch is already in the loop's masks unless every active thread gave it."""
        return signals[0] if all(signal == signals[0] for signal in signals) else None

    def _parallel(self, s: Parallel) -> None:
        if any(e == 0 for e in s.extents):
            return
        block = self.block
        facts = self.nests.get(s)
        if facts is None:
            facts = self.nests[s] = nest_facts(s)
        if facts.private:
            self._serially(s, 0)
            return
        saved_mask, saved_axes, saved_parallel = block.mask, block.axes, block.parallel
        saved_cells = dict(block.cells)
        saved_loops, self.loops = self.loops, []
        block.axes = [*saved_axes, *s.extents]
        block.parallel = {**saved_parallel, **{v: len(saved_axes) + d for d, v in enumerate(s.vars)}}
        for d, var in enumerate(s.vars):
            block.env[var] = (block.iota(len(saved_axes) + d, var.dtype), len(block.axes))
        if saved_mask is not None:
            block.mask = saved_mask.reshape(saved_mask.shape + (1,) * len(s.extents))
        made = self._privatise(facts)
        outermost = self.check_races and len(saved_axes) == 1
        if outermost:
            block.iterations = Iterations(s.extents, lambda n: self._iteration_text(s, n))
        try:
            self.run(s.body)
            if block.iterations is not None and outermost:
                block.iterations.check(lambda buffer: block.array(buffer)[1].shape, block.where())
        finally:
            if outermost:
                block.iterations = None
            block.mask, block.axes, block.parallel = saved_mask, saved_axes, saved_parallel
            self.loops = saved_loops
            for root in made:
                if root in saved_cells:
                    block.cells[root] = saved_cells[root]
                else:
                    del block.cells[root]

    @staticmethod
    def _iteration_text(s: Parallel, number: int) -> str:
        place = np.unravel_index(number, s.extents)
        return ", ".join(f"{v.name}={int(p)}" for v, p in zip(s.vars, place, strict=True))

    def _serially(self, s: Parallel, depth: int) -> None:
        """A nest that writes private buffers only: every thread runs all of it."""
        if depth == len(s.vars):
            self.run(s.body)
            return
        var = s.vars[depth]
        for value in range(s.extents[depth]):
            self.block.env[var] = (var.dtype.compute_dtype.type(value), len(self.block.axes))
            self._serially(s, depth + 1)

    def _privatise(self, facts: Nest) -> list[Buffer]:
        """Give each iteration its own copy of the private buffers that the nest writes as scalars."""
        block = self.block
        made: list[Buffer] = []
        for root in facts.scalars:
            cell = block.cell(root)
            lead = cell.data.shape[: cell.lead]
            own = cell.data.shape[cell.lead :]
            middle = (1,) * (len(block.axes) - cell.lead)
            shape = (lead[0], *block.axes[1:], *own)
            data = np.broadcast_to(cell.data.reshape(*lead, *middle, *own), shape).copy()
            valid = cell.valid
            if valid is not None:
                valid = np.broadcast_to(valid.reshape(*lead, *middle, *own), shape).copy()
            block.cells[root] = Cell(data, cell.dtype, cell.raw, len(block.axes), valid)
            made.append(root)
        return made

    # -------------------------------------------------------------- ops and effects

    def _op(self, op: Op) -> None:
        block = self.block
        block.in_atomic = isinstance(op, AtomicTile)
        divergent = block.mask is not None and not block.mask.all()
        if not divergent and not self._varies(op):
            op.run(View(block))
            return
        private = [r.buffer for r in op.writes if r.buffer.scope in ("local", "var")]
        if divergent and len(private) < len(op.writes):
            self.everyone(op, f"T.{type(op).__name__.lower()}")
        for buffer in private:
            block.spread(buffer)
        active = np.ones(block.threads, bool)
        if block.mask is not None:
            active &= block.mask.reshape(block.mask.shape[0], -1)[:, 0]
        for lane in np.nonzero(active)[0]:
            op.run(View(block, int(lane)))

    def _varies(self, op: Op) -> bool:
        """Whether the op is a different one for each thread: its offsets or values differ, or it reads their
        own arrays."""
        block = self.block
        facts = self.ops.get(op)
        if facts is None:
            inside = [e for n in (op, *op.reads, *op.writes) for e in children(n) if isinstance(e, Expr)]
            own = tuple(r.buffer for r in op.reads if r.buffer.scope in ("local", "var"))
            facts = self.ops[op] = (tuple(e for e in inside if not isinstance(e, Const)), own)
        exprs, own = facts
        if any(block.cell(b).data.shape[0] > 1 for b in own):
            return True
        values = [block.evaluate(e) for e in exprs]
        return any(np.ndim(v) and v.shape[0] > 1 for v in values)


def _written(s: Stmt) -> tuple[Buffer, ...]:
    match s:
        case Store() | AtomicRMW():
            return (s.buffer,)
        case Op():
            return tuple(r.buffer for r in s.writes)
        case _:
            return ()
