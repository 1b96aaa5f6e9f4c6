"""How much a kernel does: floating-point operations, bytes by scope, by walking the tile IR with its trip
counts.

Trip counts that depend on the block (a causal loop) are evaluated on a sample of blocks and averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilebench.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from tilebench.ir.launches import grid_of, launches
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import (
    AtomicRMW,
    Bind,
    Buffer,
    For,
    If,
    Kernel,
    Parallel,
    Pipelined,
    Seq,
    Stmt,
    Store,
    Versioned,
    While,
)
from tilebench.ops.base import Op

SAMPLED_BLOCKS = 64
_TRANSCENDENTAL = frozenset(
    [
        "exp",
        "exp2",
        "exp10",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "erf",
        "sigmoid",
        "pow",
        "rcp",
    ]
)


@dataclass(frozen=True)
class Work:
    """What a whole launch does. flops; tensor_flops: those in gemms by operand dtype; transcendentals;

    read and written: bytes moved by scope as the blocks ask for them (global: before the caches);
    tensor_bytes: each argument that is touched once (the least that memory must move).
    """

    flops: float = 0.0
    tensor_flops: Mapping[str, float] = field(default_factory=dict[str, float])
    transcendentals: float = 0.0
    read: Mapping[str, float] = field(default_factory=dict[str, float])
    written: Mapping[str, float] = field(default_factory=dict[str, float])
    tensor_bytes: float = 0.0
    blocks: int = 0

    @property
    def global_bytes(self) -> float:
        """Bytes asked of global memory by all blocks."""
        return self.read.get("global", 0.0) + self.written.get("global", 0.0)


def evaluate(e: Expr, values: Mapping[Var, float]) -> float | None:
    """A scalar expression's value, None where it needs memory or an unknown name."""
    match e:
        case Const():
            return float(e.value)
        case Var():
            return values.get(e)
        case Cast():
            return evaluate(e.value, values)
        case Select():
            condition = evaluate(e.condition, values)
            return None if condition is None else evaluate(e.then if condition else e.orelse, values)
        case Unary():
            inner = evaluate(e.value, values)
            return (
                None
                if inner is None
                else (-inner if e.op == "neg" else float(not inner) if e.op == "not" else float(~int(inner)))
            )
        case Binary():
            a, b = evaluate(e.left, values), evaluate(e.right, values)
            if a is None or b is None:
                return None
            return _apply(e.op, a, b)
        case _:
            return None


def _apply(op: str, a: float, b: float) -> float | None:
    table: dict[str, Callable[[], float]] = {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b,
        "div": lambda: a / b if b else math.nan,
        "floordiv": lambda: a // b if b else math.nan, "floormod": lambda: a % b if b else math.nan,
        "min": lambda: min(a, b), "max": lambda: max(a, b),
        "truncdiv": lambda: float(int(a / b)) if b else math.nan,
        "truncmod": lambda: math.fmod(a, b) if b else math.nan,
        "eq": lambda: float(a == b), "ne": lambda: float(a != b), "lt": lambda: float(a < b),
        "le": lambda: float(a <= b),
        "gt": lambda: float(a > b), "ge": lambda: float(a >= b), "and": lambda: float(bool(a) and bool(b)),
        "or": lambda: float(bool(a) or bool(b)),
        "shl": lambda: float(int(a) << int(b)), "shr": lambda: float(int(a) >> int(b)),
        "bitand": lambda: float(int(a) & int(b)), "bitor": lambda: float(int(a) | int(b)),
        "bitxor": lambda: float(int(a) ^ int(b)),
    }  # fmt: skip
    return table[op]() if op in table else None


class _Tally:
    def __init__(self) -> None:
        self.flops = 0.0
        self.transcendentals = 0.0
        self.tensor: dict[str, float] = {}
        self.read: dict[str, float] = {}
        self.written: dict[str, float] = {}
        self.touched: set[Buffer] = set()

    def expression(self, e: Expr, times: float) -> None:
        for node in walk(e):
            if (
                isinstance(node, Binary)
                and node.left.dtype.is_float
                and node.op in ("add", "sub", "mul", "div", "min", "max")
            ):
                self.flops += times
            elif isinstance(node, Call) and node.name in _TRANSCENDENTAL:
                self.transcendentals += times
                self.flops += times
            elif isinstance(node, Call) and node.name == "fma":
                self.flops += 2 * times
            elif isinstance(node, Load):
                self.add(self.read, node.buffer, times * node.dtype.bytes)

    def add(self, table: dict[str, float], buffer: Buffer, amount: float) -> None:
        table[buffer.scope] = table.get(buffer.scope, 0.0) + amount
        self.touched.add(buffer)

    def visit(self, s: Stmt, times: float, values: dict[Var, float]) -> None:
        if isinstance(s, Op):
            self._op(s, times)
            return
        match s:
            case Seq():
                for part in s.body:
                    if isinstance(part, Bind):
                        value = evaluate(part.value, values)
                        if value is not None:
                            values = {**values, part.var: value}
                    self.visit(part, times, values)
            case Parallel():
                self.visit(s.body, times * math.prod(s.extents), values)
            case For() | Pipelined():
                start, stop = evaluate(s.start, values), evaluate(s.stop, values)
                step = (evaluate(s.step, values) or 1.0) if isinstance(s, For) else 1.0
                trips = 1.0 if start is None or stop is None else max(0.0, math.ceil((stop - start) / step))
                middle = 0.0 if start is None else start + step * (trips // 2)
                self.visit(s.body, times * trips, {**values, s.var: middle})
            case If():
                decided = evaluate(s.condition, values)
                self.expression(s.condition, times)
                if decided is None or decided:
                    self.visit(s.then, times, values)
                if s.orelse is not None and not decided:
                    self.visit(s.orelse, times, values)
            case While():
                self.visit(s.body, times, values)
            case Versioned():
                self.visit(s.body, times, values)
            case Bind():
                self.expression(s.value, times)
            case Store():
                self.expression(s.value, times)
                self.add(self.written, s.buffer, times * s.buffer.dtype.bytes)
            case AtomicRMW():
                self.expression(s.value, times)
                self.add(self.written, s.buffer, times * s.buffer.dtype.bytes)
            case _:
                pass

    def _op(self, op: Op, times: float) -> None:
        cost = op.cost()
        self.flops += cost.flops * times
        self.transcendentals += cost.transcendentals * times
        operand = getattr(op, "a", None)
        if operand is not None:
            name = operand.dtype.name
            self.tensor[name] = self.tensor.get(name, 0.0) + cost.flops * times
        for table, part in ((self.read, cost.read), (self.written, cost.written)):
            for scope, amount in part.items():
                table[scope] = table.get(scope, 0.0) + amount * times
        for region in (*op.reads, *op.writes):
            self.touched.add(region.buffer)


def work_of(stmt: Stmt, values: Mapping[Var, float]) -> Work:
    """The Work of one execution of a statement by a block. tensor_bytes is 0: a launch has it, a step does
    not.
    """
    tally = _Tally()
    tally.visit(stmt, 1.0, dict(values))
    return Work(tally.flops, tally.tensor, tally.transcendentals, tally.read, tally.written, 0.0, 1)


def typical_block(kernel: Kernel, grid: tuple[int, ...], symbols: Mapping[Var, int]) -> tuple[int, ...]:
    """The index of the block whose work is nearest to the average (blocks of a causal loop differ).

    The first of several that are equally near; (0, ...) for an empty grid.
    """
    total = math.prod(grid)
    if total == 0:
        return tuple(0 for _ in grid)
    indices: list[tuple[int, ...]] = []
    efforts: list[float] = []
    for flat in _sampled(total):
        index = _index(flat, grid)
        tally = _Tally()
        tally.visit(kernel.body, 1.0, block_values(kernel, index, symbols))
        moved = tally.read.get("global", 0.0) + tally.written.get("global", 0.0)
        indices.append(index)
        efforts.append(tally.flops + moved)
    mean = sum(efforts) / len(efforts)
    return min(zip(indices, efforts, strict=True), key=lambda pair: abs(pair[1] - mean))[0]


def block_values(kernel: Kernel, index: tuple[int, ...], symbols: Mapping[Var, int]) -> dict[Var, float]:
    """What is known in the block at `index`: its indices and the symbols of the call."""
    values: dict[Var, float] = {v: float(x) for v, x in symbols.items()}
    return values | {v: float(i) for v, i in zip(kernel.blocks, index, strict=False)}


def _sampled(total: int) -> list[int]:
    return [int(f) for f in np.unique(np.linspace(0, total - 1, min(total, SAMPLED_BLOCKS)).astype(int))]


def _index(flat: int, grid: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, tuple(reversed(grid)))[::-1])


def count(kernel: Kernel, grid: tuple[int, ...], symbols: Mapping[Var, int]) -> Work:
    """The Work of a launch on `grid` with these symbol values, and of those that follow it.

    Blocks are sampled evenly when there are many.
    """
    work = _count(kernel, grid, symbols)
    for part in launches(kernel)[1:]:
        work = _sum(work, _count(part, grid_of(part, symbols), symbols))
    return work


def _sum(a: Work, b: Work) -> Work:
    def both(x: Mapping[str, float], y: Mapping[str, float]) -> dict[str, float]:
        return {k: x.get(k, 0.0) + y.get(k, 0.0) for k in {**x, **y}}

    return Work(
        a.flops + b.flops, both(a.tensor_flops, b.tensor_flops), a.transcendentals + b.transcendentals,
        both(a.read, b.read), both(a.written, b.written), a.tensor_bytes + b.tensor_bytes, a.blocks,
    )  # fmt: skip


def _count(kernel: Kernel, grid: tuple[int, ...], symbols: Mapping[Var, int]) -> Work:
    total = math.prod(grid)
    if total == 0:
        return Work(0.0, {}, 0.0, {}, {}, 0.0, 0)
    chosen = _sampled(total)
    tally = _Tally()
    for flat in chosen:
        tally.visit(kernel.body, 1.0, block_values(kernel, _index(flat, grid), symbols))
    scale = total / len(chosen)
    sizes = {**{v: float(x) for v, x in symbols.items()}}
    tensor_bytes = 0.0
    for param in kernel.params:
        buffer = param.value
        if isinstance(buffer, Buffer) and buffer in tally.touched:
            extents = [evaluate(e, sizes) or 0.0 for e in buffer.shape]
            tensor_bytes += math.prod(extents) * buffer.dtype.bytes * (2 if param.role == "inout" else 1)
    return Work(
        tally.flops * scale, _scaled(tally.tensor, scale), tally.transcendentals * scale,
        _scaled(tally.read, scale),
        _scaled(tally.written, scale), tensor_bytes, total,
    )  # fmt: skip


def _scaled(table: Mapping[str, float], factor: float) -> dict[str, Any]:
    return {k: v * factor for k, v in table.items()}
