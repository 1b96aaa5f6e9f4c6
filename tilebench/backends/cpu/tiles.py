"""Tile ops: copies, row reductions and products have code of their own, others run what `expand` gives."""

from __future__ import annotations

from tilebench.backends.cpu.fuse import Deep, deepened
from tilebench.backends.cpu.packs import Step
from tilebench.backends.cpu.products import Products
from tilebench.backends.cpu.text import V, i64
from tilebench.errors import located
from tilebench.ir.expr import int_value
from tilebench.ir.simplify import bounds
from tilebench.ir.tile import Bind, For, Kernel
from tilebench.ops.base import Op
from tilebench.ops.copy import Copy
from tilebench.ops.gemm import Gemm
from tilebench.ops.reduce import Reduce

PREFETCH = 4
"""Rows that the copy of a deep tile asks for ahead: rows of a large tensor lie on pages of their own, which
hardware does not prefetch across.
"""


class Tiles(Products):
    """Writes tile ops."""

    kernel: Kernel

    def op_statement(self, op: Op) -> None:
        """A tile op of the block, or what it expands to."""
        regions = (*op.reads, *op.writes)
        private = any(r.buffer.scope in ("local", "var") for r in regions)
        if self.thread_value is None:
            match op:
                case Gemm():
                    self.gemm(op)
                    return
                case Copy() if op.destination.buffer in self.sides and self.pack(
                    op, self.sides[op.destination.buffer]
                ):
                    return
                case Copy() if not private and self.move_rows(op):
                    return
                case Reduce() if self.fold_rows(op):
                    return
                case _:
                    pass
        self.statement(op.expand())

    def loop(self, s: For) -> None:
        """A loop; one over deep tiles is rearranged first."""
        deep = deepened(s, self.kernel) if self.thread_value is None and not self.in_nest else None
        self.steps.append(Step(s.var, s.start, s.stop))
        if deep is None:
            super().loop(s)
        else:
            self._deep_loop(s, deep)
        self.steps = [step for step in self.steps if step.var is not s.var]

    def bind(self, s: Bind) -> None:
        """A named value; packed tiles may be told apart by it."""
        super().bind(s)
        if s.value.dtype.is_int:
            self.steps.append(Step(s.var, s.value, None))

    def _deep_loop(self, s: For, deep: Deep) -> None:
        rounds = {s.var: deep.rounds} if int_value(s.start) is not None else {}
        start, stop = self.evaluate(s.start), self.evaluate(s.stop)
        first, last = bounds(s.start, self.ranges), bounds(s.stop, self.ranges)
        if first is not None and last is not None:
            self.ranges[s.var] = (first[0], max(last[1] - 1, first[0]))

        def step(k: V) -> None:
            self.check_abort()
            self.env[s.var] = self.narrow(k, s.var.dtype)
            for copy, side in deep.copies:
                with located(copy.loc):
                    if not self.pack(copy, side, rounds):
                        self.ahead = PREFETCH
                        self.statement(copy)
                        self.ahead = 0
            left = self.several("smin", self.raw("sub nsw", self.index(stop), k), i64(deep.rounds))
            with located(deep.product.loc):
                self.gemm(deep.product, self.raw("mul nsw", left, i64(deep.bk)))

        self.count(self.index(start), self.index(stop), deep.rounds, step)


__all__ = ["Tiles"]
