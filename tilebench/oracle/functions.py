"""Intrinsic functions on numbers with bounds: the value in float64, the derivative for the operand's error,
ulps for the function's.

ULPS are the larger of CUDA's documented maximum for the single-precision function (CUDA C++ programming
guide, mathematical functions appendix), its approximate form where fast math may choose it, and 4 for
polynomials of other targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilebench.ir.dtype import DType
from tilebench.oracle.value import FLUSH, OracleUnsupported, Val, make, rounded

ULPS = {
    "exp": 4, "exp2": 4, "exp10": 4, "log": 4, "log2": 4, "log10": 4, "log1p": 4, "sqrt": 4, "rsqrt": 4,
    "rcp": 4, "sin": 4,
    "cos": 4, "tan": 8, "sinh": 8, "cosh": 8, "tanh": 8, "asin": 8, "acos": 8, "atan": 8, "asinh": 8,
    "acosh": 8, "atanh": 8,
    "erf": 8, "sigmoid": 8, "fmod": 0, "atan2": 8, "hypot": 8,
}  # fmt: skip
_erf = np.frompyfunc(math.erf, 1, 1)

VALUE: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(10.0, x), "log": np.log, "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "rcp": lambda x: 1 / x,
    "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": lambda x: np.asarray(_erf(x)).astype(np.float64),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip


def _away(x: Any) -> Any:
    """Nearest integer, halves away from zero."""
    return np.trunc(x + np.copysign(0.5, x))


_STEPS = {"floor": np.floor, "ceil": np.ceil, "round": _away, "trunc": np.trunc, "nearbyint": np.rint}


def _spread(name: str, x: Any, e: Any, r: Any) -> Any:
    """How far the function moves when its argument moves by e: exact where monotone, the steepest slope
    nearby elsewhere.
    """
    f = VALUE[name]
    if name in ("sin", "cos"):
        return np.minimum(np.abs(e), 2.0)
    low, high = x - e, x + e
    if name in ("log", "log2", "log10", "sqrt", "rsqrt"):
        low = np.maximum(low, 0.0)
    if name in ("asin", "acos", "atanh"):
        low, high = np.maximum(low, -1.0), np.minimum(high, 1.0)
    if name == "rcp":
        crossing = (low <= 0) & (high >= 0)
        return np.where(
            crossing & (np.asarray(e) > 0), np.inf, np.maximum(np.abs(f(low) - r), np.abs(f(high) - r))
        )
    top = np.cosh(np.abs(x) + e) - np.cosh(x) if name == "cosh" else 0.0
    return np.maximum(np.maximum(np.abs(f(low) - r), np.abs(f(high) - r)), top)


def intrinsic(name: str, args: list[Val], dtype: DType) -> Val:
    """An intrinsic of ir/intrinsics.py. Raises OracleUnsupported for per-thread ones."""
    a = args[0]
    ambiguous = a.ambiguous
    for other in args[1:]:
        ambiguous = ambiguous | np.asarray(other.ambiguous)
    with np.errstate(all="ignore"):
        if name in VALUE:
            return _elementary(name, a, dtype)
        if name in _STEPS:
            f = _STEPS[name]
            if not a.dtype.is_float:
                return a
            unsure = f(a.value - a.bound) != f(a.value + a.bound)
            return Val(f(a.value), 0.0, dtype, ambiguous | (unsure & np.isfinite(a.value)))
        match name:
            case "abs":
                return (
                    make(np.abs(a.value), dtype, a.bound, ambiguous)
                    if not dtype.is_float
                    else Val(np.abs(a.value), a.bound, dtype, ambiguous)
                )
            case "isnan":
                return Val(np.isnan(a.value), 0.0, dtype, ambiguous)
            case "isinf":
                return Val(np.isinf(a.value), 0.0, dtype, ambiguous)
            case "isfinite":
                return Val(np.isfinite(a.value), 0.0, dtype, ambiguous)
            case "fma":
                b, c = args[1], args[2]
                error = (
                    np.abs(a.value) * b.bound
                    + np.abs(b.value) * a.bound
                    + np.asarray(a.bound) * b.bound
                    + c.bound
                )
                return rounded(
                    a.value * b.value + c.value,
                    np.nan_to_num(error, nan=0.0, posinf=np.inf),
                    dtype,
                    ambiguous,
                )
            case "copysign":
                return Val(
                    np.copysign(a.value, args[1].value),
                    a.bound,
                    dtype,
                    ambiguous | (np.abs(args[1].value) <= args[1].bound) & (np.asarray(args[1].bound) > 0),
                )
            case "hypot":
                r = np.hypot(a.value, args[1].value)
                return rounded(
                    r,
                    a.bound + np.asarray(args[1].bound) + ULPS[name] * dtype.unit_roundoff * r,
                    dtype,
                    ambiguous,
                )
            case "atan2":
                y, x = a, args[1]
                size = np.maximum(np.hypot(y.value, x.value), 1e-300)
                r = np.arctan2(y.value, x.value)
                return rounded(
                    r,
                    (y.bound + np.asarray(x.bound)) / size * 2 + ULPS[name] * dtype.unit_roundoff * np.abs(r),
                    dtype,
                    ambiguous,
                )
            case "fmod":
                if not (a.exact and args[1].exact):
                    raise OracleUnsupported("fmod of inexact numbers")
                return rounded(np.fmod(a.value, args[1].value), 0.0, dtype, ambiguous)
            case "pow":
                from tilebench.oracle.value import binary

                return binary("pow", a, args[1], dtype)
            case "ldexp":
                scale = np.exp2(np.asarray(args[1].value, np.float64))
                return rounded(a.value * scale, a.bound * scale, dtype, ambiguous)
            case "popcount":
                bits = np.asarray(a.value).astype(np.int64) & ((1 << min(a.dtype.bits, 63)) - 1)
                return make(np.bitwise_count(bits), dtype, 0.0, ambiguous)
            case "clz":
                bits = np.asarray(a.value).astype(np.int64) & (
                    (1 << a.dtype.bits) - 1 if a.dtype.bits < 64 else -1
                )
                length = np.where(bits == 0, 0, np.floor(np.log2(np.maximum(bits, 1))).astype(np.int64) + 1)
                return make(a.dtype.bits - length, dtype, 0.0, ambiguous)
            case "reinterpret":
                return _reinterpret(a, dtype)
            case _:
                raise OracleUnsupported(f"{name} is per-thread")


def _elementary(name: str, a: Val, dtype: DType) -> Val:
    x, e = np.asarray(a.value, np.float64), np.asarray(a.bound)
    r = VALUE[name](x)
    u = max(dtype.unit_roundoff, 2.0**-24) if dtype.bits < 64 else dtype.unit_roundoff
    own = ULPS[name] * 2 * u * np.abs(r) + (FLUSH if dtype.bits < 64 else 0.0)
    if name in ("exp", "exp10", "sigmoid", "sinh", "cosh"):
        # exp through exp2: rounding x*log2(e) costs |x| u in the exponent
        own = own + np.abs(x) * (2 if name != "exp10" else 5) * u * np.abs(r)
    if name in ("sin", "cos", "tan"):
        own = own + 2.0**-21  # approximate forms have an absolute error (CUDA guide: 2**-21.19 for __cosf)
    if name in ("log", "log2", "log10"):
        own = own + 2.0**-21.5  # __log2f: absolute near 1
    spread = np.where(e > 0, _spread(name, x, e, r), 0.0)
    exact = (e == 0) & (r == np.rint(r)) & (name in ("exp2", "sqrt")) & (np.abs(r) < 2**20) & (r != 0)
    error = np.where(
        np.isfinite(r),
        np.nan_to_num(spread, nan=0.0, posinf=np.inf) + np.where(exact, 2 * u * np.abs(r), np.asarray(own)),
        0.0,
    )
    zero = (r == 0) | ~np.isfinite(x) & np.isfinite(r)
    error = np.where(
        zero & (e == 0), np.where(np.isfinite(x), FLUSH if name.startswith("exp") else 0.0, 0.0), error
    )
    return rounded(r, error, dtype, a.ambiguous)


def _reinterpret(a: Val, dtype: DType) -> Val:
    from tilebench.ir.dtype import decode, encode

    if not a.exact:
        raise OracleUnsupported("the bits of an inexact number")
    source = np.asarray(a.value).astype(a.dtype.compute_dtype)
    stored = encode(source, a.dtype) if a.dtype.is_float else source.astype(a.dtype.storage_dtype)
    fresh = np.ascontiguousarray(stored).view(dtype.storage_dtype).reshape(np.shape(a.value))
    return make(decode(fresh, dtype), dtype, 0.0, a.ambiguous)
