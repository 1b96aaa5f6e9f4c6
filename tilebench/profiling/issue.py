"""What a statement of a warpgroup kernel keeps busy besides tensor cores and copies: issue slots, special
functions, shared memory.

Counted in thread instructions of the whole block, each weighed by how many of its kind an SM starts in a
clock against the 128 of FP32 (CUDA programming guide, "Arithmetic Instructions", compute capability 9.0). A
product that feeds a sum is one FMA. What does not depend on the innermost variable is done once a row, by the
four threads that hold the row in an accumulator's layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tilebench.ir.dtype import float16
from tilebench.ir.expr import COMPARISONS, Binary, Call, Cast, Expr, Load, Select, Unary, Var
from tilebench.ir.rewrite import variables, walk
from tilebench.ir.tile import AtomicRMW, Bind, Parallel, Stmt, Store
from tilebench.ops.base import Op
from tilebench.ops.copy import Copy
from tilebench.ops.reduce import Reduce
from tilebench.passes.indices import split_index

LANES = 128
"""FP32 instructions of threads that an SM starts in a clock."""
QUAD = 4
"""Threads that hold a row of an accumulator between them."""
HALF_RATE = 2.0
"""Weight of minimum, maximum, comparison and integer instructions: 64 in a clock."""
SHUFFLE = 4.0
"""Weight of a shuffle: 32 in a clock."""
DIVISION = 8.0
"""A division is a reciprocal and about eight steps of correction."""
ALONE = 2.0
"""Clocks from one instruction of a warp to its next, where it has its scheduler to itself: a result is there
after four (Luo et al., arXiv 2402.13499), and about two chains run beside each other. Warps of another
warpgroup take the clocks between.
"""
BANK = 4
"""Bytes that a bank of shared memory gives a thread, however few it asks for."""
PAIR = 2
"""Neighbours of a row that a thread holds in a product's layout: one access to shared memory."""
SHUFFLE_CLOCKS = 30
"""From one shuffle to the next that needs its result (order of magnitude)."""

_BINARY = {"add": 1.0, "sub": 1.0, "mul": 1.0, "min": HALF_RATE, "max": HALF_RATE}
FIELD = 1.25
"""A small integer out of a word as float16 (passes/lower/packed.py): of two of them, one lop3 at half rate,
and a shift for every eight.
"""
FIELD_BYTES = 0.5
"""Of shared memory for it, where words hold eight."""
BITS = frozenset({"bitand", "bitor", "bitxor"})
_PLAIN_CALLS = frozenset({"fma", "abs", "infinity"})


@dataclass(frozen=True)
class Pipes:
    """Weighed thread instructions (128 a clock), special-function results (16 a clock), bytes of shared
    memory, and clocks that pass with nothing to start.
    """

    issue: float = 0.0
    special: float = 0.0
    shared: float = 0.0
    latency: float = 0.0

    def __add__(self, other: Pipes) -> Pipes:
        return Pipes(
            self.issue + other.issue,
            self.special + other.special,
            self.shared + other.shared,
            self.latency + other.latency,
        )

    def times(self, n: float) -> Pipes:
        """n such, one after the other."""
        return Pipes(self.issue * n, self.special * n, self.shared * n, self.latency)


def pipes_of(s: Stmt) -> Pipes:
    """What one execution of an op or a nest takes, by all threads of the block."""
    if isinstance(s, Parallel):
        return _nest(s)
    if isinstance(s, Reduce):
        return _reduction(s)
    if isinstance(s, Copy):
        return _copy(s)
    if isinstance(s, Op):
        cost = s.cost()
        shared = cost.read.get("shared", 0.0) + cost.written.get("shared", 0.0)
        elements = max((prod(r.shape) for r in s.writes), default=0)
        return Pipes(max(cost.flops, float(elements)), cost.transcendentals, shared)
    return Pipes()


def _copy(s: Copy) -> Pipes:
    elements = float(prod(s.destination.shape))
    scopes = (s.source.buffer.scope, s.destination.buffer.scope)
    shared = sum(elements * r.dtype.bytes for r in (s.source, s.destination) if r.buffer.scope == "shared")
    converts = s.source.dtype != s.destination.dtype
    moves = elements / 4 if "shared" in scopes or "global" in scopes else 0.0
    rows = QUAD if len(s.destination.shape) == 1 and scopes == ("fragment", "fragment") else 1
    plain = elements if not converts and scopes == ("fragment", "fragment") else 0.0
    return Pipes((elements if converts else plain) * rows + moves, 0.0, float(shared))


def _reduction(s: Reduce) -> Pipes:
    elements = float(prod(s.source.shape))
    rows = elements / max(1, s.source.shape[s.dim])
    each = HALF_RATE if s.kind in ("max", "min", "absmax") else 1.0
    steps = 2.0 if s.source.buffer.scope == "fragment" else 0.0
    return Pipes(elements * each + rows * QUAD * steps * (SHUFFLE + each), 0.0, 0.0, steps * SHUFFLE_CLOCKS)


def _nest(s: Parallel) -> Pipes:
    total = Pipes()
    elements = float(prod(s.extents))
    inner = s.vars[-1]
    columns = s.extents[-1] if len(s.vars) > 1 else 1
    per_row = min(1.0, QUAD / columns) if len(s.vars) > 1 else float(QUAD)
    bound: dict[Var, Expr] = {n.var: n.value for n in walk(s.body) if isinstance(n, Bind)}
    for node in walk(s.body):
        if isinstance(node, Store | AtomicRMW):
            row = inner if len(s.vars) > 1 else None
            one = _Counter(row, per_row, bound).of(node.value)
            if node.buffer.scope == "shared":
                one += Pipes(0.25, 0.0, float(node.buffer.dtype.bytes))
            if len(s.vars) == 1 and node.buffer.scope == "fragment":
                one = one.times(per_row)
            total += one.times(elements)
    return total


def _is_field(e: Cast) -> bool:
    """Whether a float16 is made of some bits of a word in shared memory."""
    masked = e.value
    if e.dtype != float16 or not isinstance(masked, Binary) or masked.op != "bitand":
        return False
    return masked.dtype.bits == 32 and any(isinstance(n, Load) for n in walk(masked.left))


class _Counter:
    """Counts an element's instructions. inner: the variable along a row; per_row: executions an element of
    what does not depend on it.
    """

    def __init__(self, inner: Var | None, per_row: float, bound: Mapping[Var, Expr]) -> None:
        self.inner = inner
        self.per_row = per_row
        self.bound = bound

    def of(self, e: Expr) -> Pipes:
        """The instructions of an expression."""
        found = self.parts(e)
        return found.times(self.per_row) if self.inner is not None and not self.varies(e) else found

    def varies(self, e: Expr) -> bool:
        """Whether a value differs along a row."""
        names = variables(e)
        return self.inner in names or any(v in self.bound and self.varies(self.bound[v]) for v in names)

    def parts(self, e: Expr) -> Pipes:
        """The instruction of a node and those of its operands."""
        match e:
            case Load():
                return self.load(e)
            case Var():
                return self.of(self.bound[e]) if e in self.bound else Pipes()
            case Cast() if _is_field(e):
                return Pipes(FIELD, 0.0, FIELD_BYTES)
            case Cast():
                inner = self.of(e.value)
                changes = e.value.dtype.is_float and e.value.dtype != e.dtype
                return inner + Pipes(1.0) if changes else inner
            case Select():
                return self.of(e.condition) + self.of(e.then) + self.of(e.orelse) + Pipes(1.0)
            case Unary():
                return self.of(e.value)
            case Binary():
                return self.binary(e)
            case Call():
                operands = sum((self.of(a) for a in e.args), Pipes())
                special = 0.0 if e.name in _PLAIN_CALLS else 1.0
                return operands + Pipes(0.0 if e.name in ("exp2", "infinity") else 1.0, special)
            case _:
                return Pipes()

    def load(self, e: Load) -> Pipes:
        """From shared memory: two neighbours of a row at once, else each for itself."""
        if e.buffer.scope != "shared":
            return Pipes()
        if self.inner is None or self.is_along(e):
            return Pipes(1.0 / PAIR, 0.0, float(max(e.dtype.bytes, BANK / PAIR)))
        return Pipes(1.0, 0.0, float(max(e.dtype.bytes, BANK)))

    def is_along(self, e: Load) -> bool:
        """Whether neighbours along a row are neighbours in memory."""
        if self.inner is None or not e.indices:
            return False
        split = split_index(e.indices[-1], (self.inner,))
        return split is not None and split.coefficients == (1,)

    def binary(self, e: Binary) -> Pipes:
        """An arithmetic instruction; a product under a sum is part of it.

        Integers of indices alone are worked out beforehand, and two operations on bits are one (lop3).
        """
        operands = self.of(e.left) + self.of(e.right)
        if not e.left.dtype.is_float:
            if e.op not in COMPARISONS and not any(isinstance(n, Load) for n in walk(e)):
                return Pipes()
            inner = e.left.op if isinstance(e.left, Binary) else ""
            return operands + Pipes(0.0 if e.op in BITS and inner in BITS else HALF_RATE)
        if e.dtype == float16 and e.op in ("add", "sub", "mul"):
            return operands + Pipes(0.5)
        if e.op == "div":
            return operands + Pipes(DIVISION, 1.0)
        weight = _BINARY.get(e.op, HALF_RATE)
        if e.op in ("add", "sub"):
            for part in (e.left, e.right):
                if isinstance(part, Binary) and part.op == "mul" and part.dtype.is_float:
                    mul = 1.0 if self.inner is None or self.varies(part) else 0.0
                    return operands + Pipes(weight - mul)
        return operands + Pipes(weight)
