"""What each operator, cast and intrinsic computes, on NumPy scalars and arrays in compute form (ir/dtype.py).

float16, bfloat16, fp8 and tf32 results are rounded after every operation; integers wrap around in two's
complement; // and % are floor division and its remainder; min and max of floats pass over NaN; a float
becomes an integer by truncation, clamped to the integer's range, NaN to 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import numpy as np

from tilebench.errors import TypeTileError
from tilebench.ir.dtype import DType, decode, encode, round_to

Value = Any
"""A NumPy scalar (the same for all iterations and threads), or an array over the axes in force."""

_ROUNDED = frozenset({"bfloat16", "tfloat32", "float8_e4m3", "float8_e5m2", "float8_e8m0fnu"})
_NARROW_INT = frozenset({"int4", "uint4"})


def settle(value: Value, dtype: DType) -> Value:
    """A fresh result brought into `dtype`: rounded where compute form is wider, int4 wrapped."""
    if dtype.name in _ROUNDED:
        return _scalar(round_to(np.asarray(value, np.float32), dtype))
    if dtype.name in _NARROW_INT:
        return _wrap4(value, dtype)
    return value


def choose(condition: Value, then: Value, orelse: Value) -> Value:
    """`then` where the condition holds, else `orelse`."""
    return cast("Any", np.where(condition, then, orelse))


def _scalar(array: np.ndarray) -> Value:
    return array[()] if array.ndim == 0 else array


def _wrap4(value: Value, dtype: DType) -> Value:
    low = np.asarray(value).astype(np.int16) & 15
    if dtype.name == "int4":
        low = np.where(low >= 8, low - 16, low)
    return _scalar(np.asarray(low).astype(dtype.compute_dtype))


def constant(value: int | float | bool, dtype: DType) -> Value:
    """A literal in compute form."""
    if dtype.is_float:
        return settle(dtype.compute_dtype.type(value), dtype)
    return np.array(value).astype(dtype.compute_dtype)[()] if dtype.kind != "bool" else np.bool_(value)


def _truncdiv(a: Value, b: Value) -> Value:
    if np.issubdtype(np.result_type(a), np.floating):
        return np.trunc(a / b)
    quotient = np.floor_divide(a, b)
    inexact = (quotient * b != a) & ((a < 0) != (b < 0))
    return (quotient + inexact.astype(quotient.dtype)).astype(quotient.dtype)


def _pow(a: Value, b: Value) -> Value:
    if np.issubdtype(np.result_type(a), np.integer):
        if np.any(np.asarray(b) < 0):
            raise TypeTileError(
                "TB271",
                "an integer to a negative power",
                why="the result is no integer",
                fix="cast the base to float32 first",
            )
        return np.power(a, b)
    return np.power(a, b)


BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floordiv": np.floor_divide,
    "floormod": np.mod,
    "truncdiv": _truncdiv,
    "truncmod": np.fmod,
    "min": np.fmin,
    "max": np.fmax,
    "pow": _pow,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "and": np.logical_and,
    "or": np.logical_or,
}
DIVISIONS = frozenset({"floordiv", "floormod", "truncdiv", "truncmod"})
SHIFTS = frozenset({"shl", "shr"})


def convert(value: Value, source: DType, target: DType) -> Value:
    """`value` cast from `source` to `target`."""
    if target.kind == "bool":
        return value != 0
    if source.is_float and target.is_int:
        return _float_to_int(value, target)
    if target.is_float:
        if target.name in _ROUNDED:
            return settle(np.asarray(value).astype(np.float32), target)
        return _scalar(np.asarray(value).astype(target.compute_dtype))
    return settle(_scalar(np.asarray(value).astype(target.compute_dtype)), target)


def _float_to_int(value: Value, target: DType) -> Value:
    wide = np.trunc(np.asarray(value, np.float64))
    low, high = float(target.min), float(target.max)
    inside = (wide >= low) & (wide <= high) if target.bits < 64 else (wide >= low) & (wide < high)
    safe = np.where(inside, wide, 0.0).astype(target.compute_dtype)
    clamped = np.where(
        wide > 0, np.array(target.max, target.compute_dtype), np.array(target.min, target.compute_dtype)
    )
    out = np.where(inside, safe, np.where(np.isnan(wide), np.array(0, target.compute_dtype), clamped))
    return _scalar(out.astype(target.compute_dtype))


def reinterpret(value: Value, source: DType, target: DType) -> Value:
    """The same bits as another dtype of the same width."""
    bits = np.ascontiguousarray(encode(np.asarray(value), source))
    return _scalar(np.asarray(decode(bits.view(target.storage_dtype).reshape(np.shape(value)), target)))


# ------------------------------------------------------------------ intrinsics


def _elementwise(function: Callable[[float], float]) -> Callable[[Value], Value]:
    each = np.frompyfunc(function, 1, 1)
    return lambda x: _scalar(np.asarray(each(np.asarray(x, np.float64)), dtype=np.float64))


def _exp10(x: Value) -> Value:
    return np.power(np.asarray(10.0, np.result_type(x)), x)


def _rsqrt(x: Value) -> Value:
    return 1.0 / np.sqrt(x)


def _rcp(x: Value) -> Value:
    return 1.0 / x


def _sigmoid(x: Value) -> Value:
    return 1.0 / (1.0 + np.exp(-x))


def _round_half_away(x: Value) -> Value:
    """C's round: halves go away from zero."""
    whole = np.trunc(x)
    return whole + choose(np.abs(x - whole) >= 0.5, np.copysign(np.ones_like(x), x), np.zeros_like(x))


_MATH: dict[str, Callable[..., Value]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": _exp10,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _elementwise(math.erf),
    "sigmoid": _sigmoid,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": _round_half_away,
    "trunc": np.trunc,
    "nearbyint": np.rint,
    "rcp": _rcp,
    "pow": np.power,
    "fmod": np.fmod,
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "hypot": np.hypot,
    "nextafter": np.nextafter,
}
_IN_FLOAT64 = frozenset({"exp10", "rsqrt", "sigmoid", "erf", "rcp", "pow", "exp2", "log1p"})
"""Computed in float64 and rounded once, so that the float32 result is within an ulp."""
_IN_OWN_TYPE = frozenset({"copysign", "nextafter"})


def _popcount(x: Value, dtype: DType) -> Value:
    bits = np.asarray(x).astype(np.uint64) & np.uint64((1 << dtype.bits) - 1)
    total = np.zeros(bits.shape, np.int32)
    for shift in range(0, dtype.bits, 8):
        total += _BYTE_BITS[((bits >> np.uint64(shift)) & np.uint64(255)).astype(np.intp)]
    return _scalar(total)


_BYTE_BITS = np.array([bin(b).count("1") for b in range(256)], np.int32)


def _clz(x: Value, dtype: DType) -> Value:
    bits = np.asarray(x).astype(np.uint64) & np.uint64((1 << dtype.bits) - 1)
    count = np.full(bits.shape, dtype.bits, np.int32)
    for place in range(dtype.bits):
        count = np.where(bits >> np.uint64(place) != 0, dtype.bits - 1 - place, count)
    return _scalar(count.astype(np.int32))


def _dp4a(a: Value, b: Value, c: Value) -> Value:
    total = np.asarray(c, np.int64)
    for byte in range(4):
        x = (np.asarray(a, np.int64) >> (8 * byte)).astype(np.int8).astype(np.int64)
        y = (np.asarray(b, np.int64) >> (8 * byte)).astype(np.int8).astype(np.int64)
        total = total + x * y
    return _scalar(total.astype(np.int32))


def intrinsic(name: str, args: list[Value], argument: DType, result: DType) -> Value:
    """The value of an elementwise intrinsic. argument: dtype of the first argument. Raises KeyError for other
    names."""
    match name:
        case "abs":
            return settle(np.abs(args[0]), result)
        case "isnan":
            return np.isnan(args[0])
        case "isinf":
            return np.isinf(args[0])
        case "isfinite":
            return np.isfinite(args[0])
        case "popcount":
            return _popcount(args[0], argument)
        case "clz":
            return _clz(args[0], argument)
        case "reinterpret":
            return reinterpret(args[0], argument, result)
        case "dp4a":
            return _dp4a(*args)
        case "fma" if result.bits == 64:
            return _fma64(*(np.asarray(a, np.float64) for a in args))
        case "fma":
            wide = np.asarray(args[0], np.float64) * np.asarray(args[1], np.float64) + np.asarray(
                args[2], np.float64
            )
            return convert(_scalar(wide), result, result)
        case "ldexp":
            return convert(
                _scalar(np.ldexp(np.asarray(args[0], np.float64), np.asarray(args[1]).astype(np.int32))),
                result,
                result,
            )
        case _:
            pass
    function = _MATH[name]
    if name in _IN_OWN_TYPE:
        return settle(function(*args), result)
    wide_type = np.float64 if name in _IN_FLOAT64 or result.bits == 64 else np.float32
    out = function(*(np.asarray(a, wide_type) for a in args))
    return convert(_scalar(np.asarray(out)), result, result)


def _fma64(a: Any, b: Any, c: Any) -> Any:
    """x*y + z in float64, rounded once. Exact fractions where the rounded product is not the product."""
    with np.errstate(all="ignore"):
        plain = np.asarray(a * b + c)
        split = [x * 134217729.0 for x in (a, b)]
        high = [s - (s - x) for s, x in zip(split, (a, b), strict=True)]
        low = [x - h for x, h in zip((a, b), high, strict=True)]
        product = a * b
        error = ((high[0] * high[1] - product) + high[0] * low[1] + low[0] * high[1]) + low[0] * low[1]
    odd = np.broadcast_to((error != 0) & np.isfinite(plain), plain.shape)
    if not odd.any():
        return _scalar(plain)
    found = plain.copy()
    wide = [np.broadcast_to(x, plain.shape) for x in (a, b, c)]
    for i in np.ndindex(*plain.shape):
        if odd[i]:
            x, y, z = (Fraction(float(w[i])) for w in wide)
            found[i] = float(x * y + z)
    return _scalar(found)
