"""One block of a kernel: expressions over its axes, on top of its accesses (state to tiles)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilebench.backends.interp import warp
from tilebench.backends.interp.arithmetic import (
    BINARY,
    DIVISIONS,
    SHIFTS,
    Value,
    choose,
    constant,
    convert,
    intrinsic,
    settle,
)
from tilebench.backends.interp.tiles import Tiles
from tilebench.errors import InternalError, TypeTileError
from tilebench.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from tilebench.ir.intrinsics import INTRINSICS
from tilebench.ir.tile import Region


class Block(Tiles):
    """Values of one block."""

    def evaluate(self, e: Expr) -> Value:
        """The value of an expression (see the module's head)."""
        kind = type(e)
        if kind is Const:
            assert isinstance(e, Const)
            value = self.constants.get(e)
            if value is None:
                value = self.constants[e] = constant(e.value, e.dtype)
            return value
        if kind is Var:
            assert isinstance(e, Var)
            if e not in self.env:
                raise InternalError("TB902", f"the variable {e.name} has no value here", at=e.loc)
            value, made_under = self.env[e]
            return value if made_under == len(self.axes) else self.pad(value, made_under)
        match e:
            case Load():
                return self.load(e)
            case Binary():
                return self._binary(e)
            case Cast():
                return convert(self.evaluate(e.value), e.value.dtype, e.dtype)
            case Unary():
                return self._unary(e)
            case Select():
                return self._select(e)
            case Call():
                return self._call(e)
            case _:
                raise InternalError(
                    "TB902", f"{type(e).__name__} is no expression that interp knows", at=e.loc
                )

    def _unary(self, e: Unary) -> Value:
        value = self.evaluate(e.value)
        if e.op == "neg":
            return settle(-value, e.dtype)
        return np.logical_not(value) if e.op == "not" else np.invert(value)

    def _binary(self, e: Binary) -> Value:
        a = self.evaluate(e.left)
        if e.op in ("and", "or"):
            return self._logical(e, a)
        b = self.evaluate(e.right)
        if not e.dtype.is_float:
            if e.op in DIVISIONS:
                b = self._nonzero(e, b)
            elif e.op in SHIFTS:
                b = self._shift(e, b)
        out = BINARY[e.op](a, b)
        return out if e.dtype.kind == "bool" else settle(out, e.dtype)

    def _nonzero(self, e: Binary, divisor: Value) -> Value:
        zero = divisor == 0
        bad = self.bad_among_active(zero)
        if bad is not None:
            raise TypeTileError(
                "TB263",
                f"integer {'division' if e.op.endswith('div') else 'remainder'} by zero, {self.where(bad)}",
                at=e.loc,
                why="an integer has no quotient by 0",
                fix="guard the division: T.if_then_else(d != 0, x // d, 0)",
            )
        return choose(zero, divisor.dtype.type(1), divisor) if np.any(zero) else divisor

    def _shift(self, e: Binary, amount: Value) -> Value:
        wrong = (amount < 0) | (amount >= e.dtype.bits)
        bad = self.bad_among_active(wrong)
        if bad is not None:
            value = np.broadcast_to(amount, np.shape(bad))[np.nonzero(bad)][0] if np.ndim(bad) else amount
            raise TypeTileError(
                "TB264",
                f"a shift of {e.dtype} by {value}, {self.where(bad)}",
                at=e.loc,
                why=f"{e.dtype} has {e.dtype.bits} bits, so it can be shifted by 0 to {e.dtype.bits - 1}",
                fix="keep the shift below the width, or cast to a wider type",
            )
        return choose(wrong, amount.dtype.type(0), amount) if np.any(wrong) else amount

    def _logical(self, e: Binary, a: Value) -> Value:
        """`and`, `or`: the right side is evaluated only where the left one leaves it open."""
        if np.ndim(a) == 0:
            if bool(a) == (e.op == "or"):
                return a
            return self.evaluate(e.right)
        b = self._under(a if e.op == "and" else ~a, e.right)
        return BINARY[e.op](a, b)

    def _under(self, condition: Value, e: Expr) -> Value:
        saved, self.mask = self.mask, self.active(condition)
        try:
            return self.evaluate(e)
        finally:
            self.mask = saved

    def _select(self, e: Select) -> Value:
        condition = self.evaluate(e.condition)
        if np.ndim(condition) == 0:
            return self.evaluate(e.then if condition else e.orelse)
        if condition.all():
            return self.evaluate(e.then)
        then = self._under(condition, e.then)
        orelse = self._under(~condition, e.orelse)
        return choose(condition, then, orelse)

    def _call(self, e: Call) -> Value:
        row = INTRINSICS.get(e.name)
        if row is None:
            raise InternalError("TB902", f"the intrinsic {e.name} is not in ir/intrinsics.py", at=e.loc)
        args = [self.evaluate(a) for a in e.args]
        if row.per_thread and e.name != "dp4a":
            return warp.call(e.name, args, self.threads, len(self.axes), self.mask)
        return intrinsic(e.name, args, e.args[0].dtype if e.args else e.dtype, e.dtype)


class View:
    """What `Op.run` sees: the block, and of private buffers one thread's copy (ops/base.py, BlockValues)."""

    def __init__(self, block: Block, lane: int | None = None) -> None:
        self.block, self.lane = block, lane

    def read(self, region: Region) -> np.ndarray:
        """See BlockValues.read."""
        return self.block.read(region, self.lane)

    def write(self, region: Region, values: np.ndarray) -> None:
        """See BlockValues.write."""
        self.block.write(region, values, self.lane)

    def evaluate(self, e: Expr) -> Any:
        """See BlockValues.evaluate."""
        value = self.block.evaluate(e)
        if np.ndim(value) and value.size > 1:
            assert self.lane is not None, "a value of one thread in an op of the block"
            return value.reshape(value.shape[0])[self.lane]
        return value if np.ndim(value) == 0 else value.flat[0]
