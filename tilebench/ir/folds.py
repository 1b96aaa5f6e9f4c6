"""Folds in the thread IR: halves two at a time, and values between the lanes of a warp.

Both say in one statement what takes several; `written_out` gives these, which is what the emulator runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tilebench.ir.dtype import CANONICAL_NAN, bool_, uint16
from tilebench.ir.expr import Call, Expr, Load, Var, binary, call, const, select
from tilebench.ir.thread import Memory
from tilebench.ir.tile import Bind, Seq, Stmt, Store

FoldOp = Literal["sum", "max", "min", "bitand", "bitor", "bitxor"]
FOLDS: tuple[FoldOp, ...] = ("sum", "max", "min", "bitand", "bitor", "bitxor")
PAIRED = ("float16", "bfloat16")
"""Types of which two are a word that is folded as one. Source: PTX ISA, max and min with .f16x2, .bf16x2."""


@dataclass(frozen=True, eq=False)
class FoldPairs(Stmt):
    """`destination[d + k] = op(destination[d + k], source[s + k])` for k in (0, 1), halves in registers.

    op: max or min; nan: NaN when one of them is; absolute: of |source|. d and s are even.
    """

    op: FoldOp
    nan: bool
    absolute: bool
    destination: Memory
    destination_index: Expr
    source: Memory
    source_index: Expr


@dataclass(frozen=True, eq=False)
class LaneFold(Stmt):
    """Each of `count` registers from `destination_index` on becomes the fold over `threads // scale` lanes.

    They are `scale` apart (both powers of two, threads at most 32), and all take part.

    The values are exchanged together, one distance after the other; halves two in a word.
    """

    op: FoldOp
    nan: bool
    destination: Memory
    destination_index: Expr
    count: int
    scale: int
    threads: int

    @property
    def masks(self) -> tuple[int, ...]:
        """The distances, in order."""
        return tuple(1 << k for k in range(self.scale.bit_length() - 1, self.threads.bit_length() - 1))


def combined(op: FoldOp, nan: bool, a: Expr, b: Expr) -> Expr:
    """One step of a fold of two values of one type."""
    match op:
        case "sum":
            return binary("add", a, b)
        case "max" | "min":
            out = binary(op, a, b)
            if not (nan and a.dtype.is_float):
                return out
            broken = binary("or", call("isnan", (a,), bool_), call("isnan", (b,), bool_))
            return select(broken, const(math.nan, a.dtype), out)
        case "bitand" | "bitor" | "bitxor":
            return binary(op, a, b)


def _exactly(op: FoldOp, nan: bool, a: Expr, b: Expr) -> Expr:
    """The same with the bits that the instructions give.

    A NaN of max and min of halves is the canonical one of both types, 0x7fff (PTX ISA, "max", "min").
    """
    out = combined(op, nan, a, b)
    if op not in ("max", "min") or a.dtype.name not in PAIRED:
        return out
    canonical = call("reinterpret", (const(CANONICAL_NAN, uint16),), a.dtype)
    return select(call("isnan", (out,), bool_), canonical, out)


def written_out(s: FoldPairs | LaneFold) -> Stmt:
    """The same in statements of single registers."""
    parts: list[Stmt] = []
    dtype = s.destination.dtype

    def at(memory: Memory, index: Expr, k: int) -> Load:
        return Load(memory, (index + k,), dtype=dtype)

    if isinstance(s, FoldPairs):
        for k in (0, 1):
            value: Expr = at(s.source, s.source_index, k)
            value = call("abs", (value,), dtype) if s.absolute else value
            own = at(s.destination, s.destination_index, k)
            parts.append(Store(s.destination, own.indices, _exactly(s.op, s.nan, own, value), loc=s.loc))
        return Seq(tuple(parts))
    for mask in s.masks:
        for k in range(s.count):
            own = at(s.destination, s.destination_index, k)
            other = Var("other", dtype=dtype)
            parts.append(Bind(other, Call("shfl_xor", (own, const(mask)), dtype=dtype), loc=s.loc))
            parts.append(Store(s.destination, own.indices, _exactly(s.op, s.nan, own, other), loc=s.loc))
    return Seq(tuple(parts))


__all__ = ["FOLDS", "PAIRED", "FoldOp", "FoldPairs", "LaneFold", "combined", "written_out"]
