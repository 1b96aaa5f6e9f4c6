"""Numbers with error bounds, and the arithmetic of the language on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilebench.ir.dtype import DType, round_to

TINY = {
    "float16": 2.0**-25, "float8_e4m3": 2.0**-10, "float8_e5m2": 2.0**-17, "float8_e8m0fnu": 2.0**-127,
    "bfloat16": 2.0**-134,
    "float32": 2.0**-150, "tfloat32": 2.0**-137, "float64": 0.0,
}  # fmt: skip
"""Half the smallest subnormal of each float type (float32: also what flush-to-zero may lose is charged by
FLUSH).
"""
FLUSH = 2.0**-126
"""Targets may flush float32 subnormals in special functions: charged there only."""


class OracleUnsupported(Exception):
    """The program has something that the oracle does not model (per-thread code). The message says what."""


@dataclass(frozen=True)
class Val:
    """Arrays (or scalars) of one dtype: value in float64 (int64 for integers, bool), bound >= 0, ambiguous or
    not.
    """

    value: Any
    bound: Any
    dtype: DType
    ambiguous: Any = False

    @property
    def exact(self) -> bool:
        """Whether no element carries any error."""
        return not np.any(self.bound)


def make(value: Any, dtype: DType, bound: Any = 0.0, ambiguous: Any = False) -> Val:
    """A Val with its value in the right NumPy type; integers wrap to the dtype."""
    array = np.asarray(value)
    if dtype.is_float:
        array = array.astype(np.float64)
    elif dtype.kind == "bool":
        array = array.astype(bool)
    else:
        array = wrap(array.astype(np.int64), dtype)
    return Val(array, bound, dtype, ambiguous)


def wrap(value: np.ndarray, dtype: DType) -> np.ndarray:
    """Two's complement reduction of int64 values to the dtype (64-bit types keep all bits)."""
    if dtype.bits >= 64:
        return value
    low = value & ((1 << dtype.bits) - 1)
    return np.where(low >> (dtype.bits - 1), low - (1 << dtype.bits), low) if dtype.kind == "int" else low


def rounded(value: np.ndarray, bound: Any, dtype: DType, ambiguous: Any = False) -> Val:
    """The float result of one rounded operation: u|r| is charged unless operands and result are exact."""
    if dtype.name == "float8_e8m0fnu":  # a magnitude is rounded up: where it is exact, so is the result
        power = round_to(value, dtype).astype(np.float64)
        return Val(
            power, np.where(np.asarray(bound) == 0, 0.0, power + 2 * np.asarray(bound)), dtype, ambiguous
        )
    with np.errstate(all="ignore"):
        nearest = round_to(value, dtype).astype(np.float64) if dtype.name != "float64" else value
        is_exact = (nearest == value) | np.isnan(value)
        charge = np.where(
            is_exact & (np.asarray(bound) == 0), 0.0, dtype.unit_roundoff * np.abs(value) + TINY[dtype.name]
        )
        overflow = np.isinf(nearest) & np.isfinite(value)
        # charged on |value| + bound: the true result may be larger than ours
        total = np.where(
            np.isfinite(value),
            bound + charge * (1 + dtype.unit_roundoff) + dtype.unit_roundoff * np.asarray(bound),
            0.0,
        )
        near_top = np.abs(value) + total > dtype.max
        unsure = (
            near_top & np.isfinite(value) & (np.abs(value) - total < dtype.max * (1 + dtype.unit_roundoff))
        )
    return Val(
        np.where(overflow, nearest, value),
        total,
        dtype,
        ambiguous | (unsure & ~overflow & (np.abs(value) > dtype.max)),
    )


def gamma(n: float, u: float) -> float:
    """n*u / (1 - n*u); infinite when n*u reaches 1."""
    return n * u / (1 - n * u) if n * u < 1 else np.inf


def integers_exact(total: np.ndarray, dtype: DType) -> np.ndarray:
    """Where every partial sum of integers with this sum of magnitudes is exact in the dtype, in any order."""
    return total <= (1.0 / dtype.unit_roundoff if dtype.unit_roundoff else 2.0**53)


def whole(values: np.ndarray) -> bool:
    """Whether all values are integers (finite)."""
    return bool(np.all(np.isfinite(values)) and np.all(values == np.rint(values)))


def cast(a: Val, dtype: DType) -> Val:
    """Value conversion: to narrower floats rounds, to integers truncates and clamps, NaN gives 0, to bool is
    != 0.
    """
    if a.dtype == dtype:
        return a
    if dtype.kind == "bool":
        near = (np.abs(a.value) <= a.bound) & (np.asarray(a.bound) > 0)
        return Val(a.value != 0, 0.0, dtype, a.ambiguous | near)
    if dtype.is_float:
        value = np.asarray(a.value).astype(np.float64)
        saturating = dtype.name in ("float8_e4m3", "float8_e5m2")
        if saturating:
            value = np.clip(value, dtype.min, dtype.max)
        widening = a.dtype.is_float and dtype.bits >= 32 and a.dtype.bits <= 32 and dtype.name != "tfloat32"
        return (
            Val(value, a.bound, dtype, a.ambiguous)
            if widening
            else rounded(value, a.bound, dtype, a.ambiguous)
        )
    if a.dtype.is_float:
        low, high = np.trunc(a.value - a.bound), np.trunc(a.value + a.bound)
        with np.errstate(all="ignore"):
            clamped = np.clip(
                np.nan_to_num(np.trunc(a.value), nan=0.0, posinf=float(dtype.max), neginf=float(dtype.min)),
                float(dtype.min),
                float(dtype.max),
            )
        top = np.iinfo(np.int64).max
        return make(
            np.where(clamped >= float(top), top, clamped).astype(np.int64),
            dtype,
            0.0,
            a.ambiguous | (low != high),
        )
    return make(a.value, dtype, 0.0, a.ambiguous)


def binary(op: str, a: Val, b: Val, dtype: DType) -> Val:
    """`a op b`, both of one dtype; dtype: the result's."""
    both = a.ambiguous | np.asarray(b.ambiguous)
    if op in ("eq", "ne", "lt", "le", "gt", "ge"):
        return _compare(op, a, b, dtype)
    if op in ("and", "or"):
        value = np.logical_and(a.value, b.value) if op == "and" else np.logical_or(a.value, b.value)
        # a certain operand may decide alone
        decided_a = ~np.asarray(a.ambiguous) & (np.asarray(a.value) != (op == "and"))
        decided_b = ~np.asarray(b.ambiguous) & (np.asarray(b.value) != (op == "and"))
        return Val(value, 0.0, dtype, both & ~(decided_a | decided_b))
    if not a.dtype.is_float:
        return _integer(op, a, b, dtype, both)
    with np.errstate(all="ignore"):
        x, y, ex, ey = a.value, b.value, a.bound, b.bound
        match op:
            case "add":
                return rounded(x + y, ex + np.asarray(ey), dtype, both)
            case "sub":
                return rounded(x - y, ex + np.asarray(ey), dtype, both)
            case "mul":
                return rounded(
                    x * y, _finite(np.abs(x) * ey + np.abs(y) * ex + np.asarray(ex) * ey), dtype, both
                )
            case "div":
                r = x / y
                room = np.abs(y) - ey
                error = np.where(room > 0, (ex + np.abs(r) * ey) / np.where(room > 0, room, 1.0), np.inf)
                exact = (np.asarray(ex) == 0) & (np.asarray(ey) == 0)
                result = rounded(r, np.where(exact, 0.0, error), dtype, both)
                # targets may divide with 2 ulp (fast division): charged unless the quotient is exact
                slack = np.where(
                    exact & (np.asarray(result.bound) == 0), 0.0, 2 * dtype.unit_roundoff * np.abs(r)
                )
                return Val(result.value, _finite(result.bound + slack), dtype, result.ambiguous)
            case "min":
                return Val(np.fmin(x, y), np.maximum(ex, ey), dtype, both)
            case "max":
                return Val(np.fmax(x, y), np.maximum(ex, ey), dtype, both)
            case "floordiv" | "floormod" | "truncdiv" | "truncmod":
                q = np.floor(x / y) if op.startswith("floor") else np.trunc(x / y)
                unsure = both | (
                    (np.asarray(ex) + ey > 0)
                    & (
                        np.abs(x / y - np.rint(x / y)) * np.abs(y)
                        <= ex + np.abs(q) * ey + dtype.unit_roundoff * np.abs(x)
                    )
                )
                value = q if op.endswith("div") else x - q * y
                return rounded(value, 0.0 if op.endswith("div") else ex + np.abs(q) * ey, dtype, unsure)
            case "pow":
                r = np.power(x, y)
                from_x = np.abs(y) * ex / np.maximum(np.abs(x) - ex, 1e-300)
                from_y = np.abs(np.log(np.abs(x) + 1e-300)) * ey
                error = np.asarray(np.abs(r) * (np.expm1(from_x + from_y) + 16 * dtype.unit_roundoff))
                whole = (r == np.rint(r)) & (np.asarray(ex) == 0) & (np.asarray(ey) == 0)
                return rounded(
                    r,
                    _finite(np.where(whole, 4 * dtype.unit_roundoff * np.abs(r), error)),
                    dtype,
                    both,
                )
            case _:
                raise OracleUnsupported(f"operator {op} on {a.dtype}")


def _finite(error: Any) -> Any:
    return np.nan_to_num(error, nan=0.0, posinf=np.inf)


def _compare(op: str, a: Val, b: Val, dtype: DType) -> Val:
    functions = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    value = functions[op](a.value, b.value)
    ambiguous = a.ambiguous | np.asarray(b.ambiguous)
    if a.dtype.is_float:
        with np.errstate(all="ignore"):
            room = np.asarray(a.bound) + b.bound
            ambiguous = ambiguous | ((room > 0) & (np.abs(a.value - b.value) <= room))
    return Val(value, 0.0, dtype, ambiguous)


def _integer(op: str, a: Val, b: Val, dtype: DType, ambiguous: Any) -> Val:
    x, y = np.asarray(a.value).astype(np.int64), np.asarray(b.value).astype(np.int64)
    with np.errstate(all="ignore"):
        match op:
            case "add":
                value = x + y
            case "sub":
                value = x - y
            case "mul":
                value = x * y
            case "min":
                value = np.minimum(x, y)
            case "max":
                value = np.maximum(x, y)
            case "bitand":
                value = x & y
            case "bitor":
                value = x | y
            case "bitxor":
                value = x ^ y
            case "shl":
                value = x << y
            case "shr":
                value = (x & ((1 << dtype.bits) - 1) if dtype.kind == "uint" and dtype.bits < 64 else x) >> y
            case "floordiv" | "floormod" | "truncdiv" | "truncmod":
                if np.any(y == 0):
                    raise OracleUnsupported("integer division by zero")
                q = x // y
                if op.startswith("trunc"):
                    q = q + ((q * y != x) & ((x < 0) != (y < 0)))
                value = q if op.endswith("div") else x - q * y
            case "pow":
                value = x**y
            case _:
                raise OracleUnsupported(f"operator {op} on {a.dtype}")
    return make(value, dtype, 0.0, ambiguous)


def select(condition: Val, then: Val, orelse: Val) -> Val:
    """`then` where condition; where the condition is ambiguous the bound covers both arms (integers become
    ambiguous).
    """
    c = np.asarray(condition.value, bool)
    here, there = np.asarray(then.value), np.asarray(orelse.value)
    here_bound, there_bound = np.asarray(then.bound), np.asarray(orelse.bound)
    value = np.where(c, here, there)
    bound = np.where(c, here_bound, there_bound)
    ambiguous = np.where(c, np.asarray(then.ambiguous), np.asarray(orelse.ambiguous))
    unsure = np.asarray(condition.ambiguous)
    if np.any(unsure):
        if then.dtype.is_float:
            with np.errstate(all="ignore"):
                other, other_bound = np.where(c, there, here), np.where(c, there_bound, here_bound)
                apart = np.where(other == value, 0.0, np.abs(other - value))
            both = apart + other_bound
            finite = np.isfinite(both)
            bound = np.where(unsure & finite, np.maximum(bound, both), bound)
            ambiguous = ambiguous | (unsure & ~finite)
        else:
            ambiguous = ambiguous | (unsure & (np.asarray(then.value) != orelse.value))
    return Val(value, bound, then.dtype, ambiguous)
