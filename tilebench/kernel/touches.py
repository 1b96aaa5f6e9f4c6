"""The global accesses of a program with what decides whether they happen: loops, guards, names written out.

For checks that need no run. Nothing is guessed: where a value depends on data, there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal

import numpy as np

from tilebench.errors import Loc
from tilebench.ir.expr import Binary, Call, Const, Expr, Load, Select, Var, binary, int_value, unary
from tilebench.ir.rewrite import children, substitute, walk
from tilebench.ir.simplify import bounds
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
    Stmt,
    Store,
    TileOp,
    While,
)
from tilebench.kernel.accesses import value

Array = np.ndarray
MOST = 1 << 20
"""Combinations of blocks and iterations that are looked at one by one."""

AxisKind = Literal["block", "loop", "parallel", "thread"]


@dataclass(frozen=True)
class Axis:
    """A variable and the values that it takes: range(start, stop, step), of the variables outside of it."""

    var: Var
    kind: AxisKind
    start: Expr
    stop: Expr
    step: int = 1


@dataclass(frozen=True)
class Touch:
    """One access to a global buffer.

    indices: its first element, with names written out; extents: of a tile op's region, 1 of an element;
    axes: outermost first; guards: all hold where it happens; certain: nothing else decides that (no `break`,
    no `while`); value: what an element store stores.
    """

    by: Stmt
    buffer: Buffer
    write: bool
    indices: tuple[Expr, ...]
    extents: tuple[int, ...]
    axes: tuple[Axis, ...]
    guards: tuple[Expr, ...]
    certain: bool
    at: Loc | None
    value: Expr | None = None


@dataclass(frozen=True)
class _Around:
    axes: tuple[Axis, ...]
    guards: tuple[Expr, ...] = ()
    certain: bool = True

    def given(self, *guards: Expr) -> _Around:
        return replace(self, guards=(*self.guards, *guards))


@dataclass
class _Walker:
    bound: dict[Var, Expr] = field(default_factory=dict[Var, Expr])
    found: list[Touch] = field(default_factory=list[Touch])

    def opened(self, e: Expr) -> Expr:
        return substitute(e, self.bound) if self.bound else e

    def statement(self, s: Stmt, around: _Around) -> None:
        match s:
            case For() | Pipelined():
                self._reads((s.start, s.stop), around, s)
                self._loop(s, around)
            case Parallel():
                more = [
                    Axis(v, "parallel", Const(0, dtype=v.dtype), Const(e, dtype=v.dtype))
                    for v, e in zip(s.vars, s.extents, strict=True)
                ]
                if all(e > 0 for e in s.extents):
                    self.statement(s.body, replace(around, axes=(*around.axes, *more)))
            case While():
                self._reads((s.condition,), around, s)
                self.statement(s.body, replace(around, certain=False))
            case If():
                self._reads((s.condition,), around, s)
                condition = self.opened(s.condition)
                self.statement(s.then, around.given(condition))
                if s.orelse is not None:
                    self.statement(s.orelse, around.given(unary("not", condition)))
            case Bind():
                self._reads((s.value,), around, s)
                self.bound[s.var] = self.opened(s.value)
            case Store() | AtomicRMW():
                self._reads((s.value, *s.indices), around, s)
                self._add(s, s.buffer, True, s.indices, (1,) * len(s.indices), around, s.value)
            case TileOp():
                for write, regions in ((False, s.reads), (True, s.writes)):
                    for r in regions:
                        self._add(s, r.buffer, write, r.offsets, r.extents, around, None)
            case _:
                for child in children(s):
                    if isinstance(child, Stmt):
                        self.statement(child, around)
                    elif isinstance(child, Expr):
                        self._reads((child,), around, s)

    def _loop(self, s: For | Pipelined, around: _Around) -> None:
        step = int_value(s.step) if isinstance(s, For) else 1
        start, stop = self.opened(s.start), self.opened(s.stop)
        axis = Axis(s.var, "loop", start, stop, step or 1)
        left = any(isinstance(n, Break | Continue) for n in walk(s.body))
        certain = around.certain and step is not None and step > 0 and not left
        runs = () if int_value(start) is not None and int_value(stop) is not None else (_less(start, stop),)
        first, last = int_value(start), int_value(stop)
        if certain and first is not None and last is not None and first >= last:
            return
        inner = replace(around.given(*runs), axes=(*around.axes, axis), certain=certain)
        self.statement(s.body, inner)

    def _add(
        self,
        by: Stmt,
        buffer: Buffer,
        write: bool,
        indices: Sequence[Expr],
        extents: tuple[int, ...],
        around: _Around,
        stored: Expr | None,
        at: Loc | None = None,
    ) -> None:
        if buffer.scope != "global" or len(indices) != len(buffer.shape):
            return
        opened = tuple(self.opened(i) for i in indices)
        kept = None if stored is None else self.opened(stored)
        self.found.append(
            Touch(
                by, buffer, write, opened, extents, around.axes, around.guards, around.certain,
                at or by.loc, kept,
            )
        )  # fmt: skip

    def _reads(self, exprs: Iterable[Expr], around: _Around, by: Stmt) -> None:
        for e in exprs:
            match e:
                case Load():
                    self._reads(e.indices, around, by)
                    ones = (1,) * len(e.indices)
                    self._add(by, e.buffer, False, e.indices, ones, around, None, e.loc or by.loc)
                case Select():
                    self._reads((e.condition,), around, by)
                    condition = self.opened(e.condition)
                    self._reads((e.then,), around.given(condition), by)
                    self._reads((e.orelse,), around.given(unary("not", condition)), by)
                case Binary(op="and" | "or"):
                    self._reads((e.left,), around, by)
                    left = self.opened(e.left)
                    self._reads((e.right,), around.given(left if e.op == "and" else unary("not", left)), by)
                case _:
                    self._reads((c for c in children(e) if isinstance(c, Expr)), around, by)


def _less(a: Expr, b: Expr) -> Expr:
    return binary("lt", a, b.astype(a.dtype) if a.dtype != b.dtype else b)


def touches(kernel: Kernel) -> tuple[Touch, ...]:
    """Every access of one launch to global memory, in the order of the text."""
    zero = [Const(0, dtype=b.dtype) for b in kernel.blocks]
    axes = [Axis(b, "block", z, e) for b, z, e in zip(kernel.blocks, zero, kernel.grid, strict=True)]
    thread = kernel.thread
    axes.append(
        Axis(thread, "thread", Const(0, dtype=thread.dtype), Const(kernel.thread_count, dtype=thread.dtype))
    )
    walker = _Walker()
    walker.statement(kernel.body, _Around(tuple(axes)))
    return tuple(walker.found)


# ------------------------------------------------------------------ what an expression depends on


def depends(e: Expr, axes: Sequence[Axis]) -> frozenset[Var] | None:
    """The variables that decide an expression, with those that decide the bounds of its loops.

    None: it depends on data.
    """
    found: set[Var] = set()
    by_var = {a.var: a for a in axes}
    stack: list[Expr] = [e]
    while stack:
        for node in walk(stack.pop()):
            if isinstance(node, Load | Call):
                return None
            if isinstance(node, Var) and node not in found:
                found.add(node)
                axis = by_var.get(node)
                if axis is not None:
                    stack += [axis.start, axis.stop]
    return frozenset(found)


def interval(e: Expr, axes: Sequence[Axis], symbols: Mapping[Var, int]) -> tuple[int, int] | None:
    """Bounds of an expression over all its axes; None when there are none."""
    ranges = {v: (n, n) for v, n in symbols.items()}
    for a in axes:
        low, high = bounds(a.start, ranges), bounds(a.stop, ranges)
        if low is not None and high is not None and a.step > 0:
            ranges[a.var] = (low[0], max(low[0], high[1] - 1))
    return bounds(e, ranges)


# ------------------------------------------------------------------ all combinations


@dataclass(frozen=True)
class Space:
    """All values of some axes: arrays that broadcast against each other, one dimension for each axis.

    inside: the combinations that occur.
    """

    axes: tuple[Axis, ...]
    known: Mapping[Var, Array | None]
    inside: Array

    def dims(self, *kinds: AxisKind) -> tuple[int, ...]:
        """The dimensions of the axes of these kinds."""
        return tuple(d for d, a in enumerate(self.axes) if a.kind in kinds)

    def full(self, e: Expr) -> Array | None:
        """An expression for all combinations; None where it has no value."""
        made = value(e, self.known)
        return None if made is None else np.broadcast_to(made, self.inside.shape)


def space(
    axes: Sequence[Axis], wanted: frozenset[Var], guards: Sequence[Expr], symbols: Mapping[Var, int]
) -> Space | None:
    """The combinations of the wanted axes for which the guards hold; None: too many, or not known."""
    chosen = tuple(a for a in axes if a.var in wanted)
    known: dict[Var, Array | None] = {v: np.asarray(n, np.int64) for v, n in symbols.items()}
    tests: list[Array] = []
    sizes: list[int] = []
    for d, a in enumerate(chosen):
        start, stop = value(a.start, known), value(a.stop, known)
        if start is None or stop is None or a.step < 1:
            return None
        low, high = int(start.min()), int(stop.max())
        sizes.append(max(high - low, 0))
        if prod(sizes) > MOST:
            return None
        shape = (1,) * d + (-1,) + (1,) * (len(chosen) - d - 1)
        numbers = np.arange(low, max(high, low)).reshape(shape)
        known[a.var] = numbers
        if start.ndim or stop.ndim:
            tests += [numbers >= start, numbers < stop]
        if a.step != 1:
            tests.append((numbers - start) % a.step == 0)
    for guard in guards:
        test = value(guard, known)
        if test is None:
            return None
        tests.append(np.asarray(test, bool))
    inside = np.ones(tuple(sizes), bool)
    for test in tests:
        inside = inside & test
    return Space(chosen, known, inside)


__all__ = ["Axis", "Space", "Touch", "depends", "interval", "space", "touches"]
