"""A gemm of one multiply-add at a time: each thread has a tile of registers, operands come from shared
memory.

For dtypes that tensor cores do not multiply exactly (float32, float64) and for shapes that they do not have.
Any layout of C made of digits will do; the thread's rows are those of its register digits along M, its
columns those along N.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from tilebench.ir.dtype import float32
from tilebench.ir.expr import Expr, as_expr, binary, cast, const
from tilebench.ir.thread import Memory, VectorCopy
from tilebench.ir.tile import Region
from tilebench.layouts import Digit, FragmentLayout
from tilebench.ops.base import ThreadBuilder
from tilebench.ops.divisors import whole_chunks

if TYPE_CHECKING:
    from tilebench.ops.gemm.spec import Gemm


def accumulator_layout(m: int, n: int, threads: int, vector: int = 4) -> FragmentLayout:
    """C (m, n) with about square tiles for each thread, spread over the block.

    vector: how many neighbours along N a thread has at most. With B stored along K, 1: threads side by side
    then read rows side by side, which a swizzle keeps apart.
    """
    vector = next(v for v in (4, 2, 1) if v <= vector and n % v == 0)
    across = _threads_along_n(m, n // vector, vector, threads)
    down = threads // across
    rows = -(-m // down)
    groups = -(-n // (vector * across))
    reg = (Digit(vector, 1, 1), Digit(groups, 1, vector * across), Digit(rows, 0, down))
    return FragmentLayout(
        (m, n),
        tuple(d for d in reg if d.size > 1),
        tuple(d for d in (Digit(across, 1, vector), Digit(down, 0, 1)) if d.size > 1),
    )


def _threads_along_n(m: int, groups: int, vector: int, threads: int) -> int:
    """How many threads go along N: fewest registers, then fewest operands to read for a step of K."""

    def cost(t: int) -> tuple[int, int]:
        rows, columns = -(-m // (threads // t)), vector * -(-groups // t)
        return rows * columns, rows + columns

    return min((t for t in range(1, threads + 1) if threads % t == 0), key=cost)


def lower(op: Gemm, b: ThreadBuilder) -> None:
    """Thread code of the product."""
    c, layout = b.fragment(op.c.buffer)
    if not layout.is_digits or any(d.dim is None and d.size > 1 for d in layout.reg):
        b.expand(op.expand())
        return
    _Product(op, b, c, layout).run()


class _Product:
    """One product being written: the thread's rows and columns, and its operands' registers."""

    def __init__(self, op: Gemm, b: ThreadBuilder, c: Memory, layout: FragmentLayout) -> None:
        self.op, self.b, self.c = op, b, c
        rank = layout.rank
        self.m, self.n, self.k = op.mnk
        self.padded = layout.padded_dims[-2:]
        start = layout.coordinate(b.thread, const(0))
        self.row0, self.column0 = (
            b.bind(name, as_expr(x)) for name, x in zip(("row", "column"), start[-2:], strict=True)
        )
        self.rows, self.columns = (_Along.of(layout, rank - 2 + d) for d in range(2))
        self.dtype = op.c.dtype if op.c.dtype.bits >= 32 else float32
        self.step = next(s for s in (4, 2, 1) if self.k % s == 0)
        self.a = b.registers("a", self.rows.count * self.step, op.a.dtype)
        self.b_registers = b.registers("b", self.columns.count * self.step, op.b.dtype)
        self.total = c if self.dtype == c.dtype else b.registers("total", layout.registers, self.dtype)

    def run(self) -> None:
        """Emit it."""
        b, op, c = self.b, self.op, self.c
        if op.clear_accum or self.total is not c:
            for at in self._elements():
                b.store(
                    self.total,
                    at,
                    const(0, self.dtype) if op.clear_accum else cast(b.load(c, at), self.dtype),
                )
        with b.loop(self.k // self.step, unroll=False, name="k") as k:
            k = k * self.step
            self._load(op.a, op.transpose_a, self.rows, self.row0, self.m, self.padded[0], k, self.a)
            self._load(
                op.b,
                not op.transpose_b,
                self.columns,
                self.column0,
                self.n,
                self.padded[1],
                k,
                self.b_registers,
            )
            with (
                b.loop(self.step, name="s") as s,
                self.rows.loops(b) as (i, at_i),
                self.columns.loops(b) as (j, at_j),
                self._inside(i, j),
            ):
                x = b.load(self.a, self._place(op.transpose_a, self.rows, i, s))
                y = b.load(self.b_registers, self._place(not op.transpose_b, self.columns, j, s))
                product = cast(x, self.dtype) * cast(y, self.dtype)
                b.store(self.total, at_i + at_j, b.load(self.total, at_i + at_j) + product)
        if self.total is not c:
            for at in self._elements():
                b.store(c, at, b.load(self.total, at))

    def _elements(self) -> Iterator[Expr]:
        """Once, inside of loops over the thread's elements of C: the place of one."""
        with (
            self.rows.loops(self.b) as (i, at_i),
            self.columns.loops(self.b) as (j, at_j),
            self._inside(i, j),
        ):
            yield at_i + at_j

    @contextmanager
    def _inside(self, i: Expr, j: Expr) -> Generator[None, None, None]:
        """Only where row number i and column number j of the thread are in the tile."""
        row = binary("lt", self.rows.coordinate(self.row0, i), const(self.m)) if self.padded[0] else None
        column = (
            binary("lt", self.columns.coordinate(self.column0, j), const(self.n)) if self.padded[1] else None
        )
        with self.b.when(row), self.b.when(column):
            yield

    def _place(self, k_outer: bool, along: _Along, i: Expr, s: Expr) -> Expr:
        """Register of element (row or column number i, step s): in the order in which memory has them."""
        return s * along.count + i if k_outer else i * self.step + s

    def _load(
        self,
        region: Region,
        k_outer: bool,
        along: _Along,
        start: Expr,
        extent: int,
        padded: bool,
        k: Expr,
        registers: Memory,
    ) -> None:
        """The operand's registers for `step` steps of K from k; k_outer: it is stored with K as the first
        dimension.
        """
        b = self.b
        _, layout, _ = b.shared(region.buffer)
        wanted = along.run if k_outer else self.step
        lanes = next(
            v
            for v in (8, 4, 2, 1)
            if wanted % v == 0
            and v * region.dtype.bytes <= 16
            and (v == 1 or whole_chunks(region, layout, v))
        )
        if k_outer and extent % lanes:
            lanes = 1
        if k_outer:
            with b.loop(self.step, independent=True, name="s") as s, along.loops(b, by=lanes) as (i, _):
                self._copy(
                    region,
                    k + s,
                    self._clamped(along.coordinate(start, i), extent - lanes, padded),
                    True,
                    registers,
                    s * along.count + i,
                    lanes,
                )
        else:
            with along.loops(b) as (i, _), b.loop(self.step // lanes, independent=True, name="s") as s:
                at = self._clamped(along.coordinate(start, i), extent - 1, padded)
                self._copy(region, k + s * lanes, at, False, registers, i * self.step + s * lanes, lanes)

    def _clamped(self, x: Expr, last: int, padded: bool) -> Expr:
        """Registers that only pad the tile read its last element: what they compute is not looked at."""
        return binary("min", x, const(last)) if padded else x

    def _copy(
        self, region: Region, k: Expr, i: Expr, k_outer: bool, registers: Memory, to: Expr, lanes: int
    ) -> None:
        b = self.b
        point = (k, i) if k_outer else (i, k)
        memory, index = b.shared_index(region, (*(const(0) for _ in region.shape[:-2]), *point))
        if lanes == 1:
            b.store(registers, to, b.load(memory, index))
        else:
            b.emit(VectorCopy(registers, to, memory, index, lanes))


@dataclass(frozen=True)
class _Along:
    """A thread's rows (or columns): digits (size, step in elements, step in C's registers), fastest first."""

    digits: tuple[tuple[int, int, int], ...]

    @staticmethod
    def of(layout: FragmentLayout, dim: int) -> _Along:
        """Those of a dimension."""
        found: list[tuple[int, int, int]] = []
        weight = 1
        for d in layout.reg:
            if d.dim == dim and d.size > 1:
                found.append((d.size, d.stride, weight))
            weight *= d.size
        return _Along(tuple(found))

    @property
    def count(self) -> int:
        """How many."""
        return prod(size for size, _, _ in self.digits)

    @property
    def run(self) -> int:
        """How many neighbours the first digit steps over."""
        return self.digits[0][0] if self.digits and self.digits[0][1] == 1 else 1

    @contextmanager
    def loops(self, b: ThreadBuilder, by: int = 1) -> Generator[tuple[Expr, Expr], None, None]:
        """Loops over all of them, `by` of the first digit at a time: (number, place in C's registers)."""
        with ExitStack() as stack:
            number: Expr = const(0)
            place: Expr = const(0)
            below = 1
            for at, (size, _, weight) in enumerate(self.digits):
                step = by if at == 0 else 1
                d = stack.enter_context(b.loop(size // step, independent=True, name="t")) * step
                number, place = number + d * below, place + d * weight
                below *= size
            yield number, place

    def coordinate(self, start: Expr, number: Expr) -> Expr:
        """The row of a number that `loops` gave."""
        x, below = start, 1
        for size, stride, _ in self.digits:
            x = x + number // below % size * stride
            below *= size
        return x
