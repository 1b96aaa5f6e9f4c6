"""Arithmetic of the thread program in NumPy: rounding, integer division, casts and the elementwise intrinsics.

Values are in compute form (ir/dtype.py). A value that is the same in all threads is a Python int or bool, or a NumPy
float scalar; one that differs is an array whose last axis is the threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilebench.ir.dtype import DTYPES, DType, decode, encode, round_to
from tilebench.ir.expr import wrap

_ERF: Callable[[Any], Any] = np.frompyfunc(math.erf, 1, 1)


def round_bfloat16(values: Any) -> Any:
    """float32 values rounded to bfloat16, to nearest even; NaN stays NaN."""
    x = np.asarray(values, dtype=np.float32)
    bits = x.view(np.uint32)
    out = ((bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) & np.uint32(0xFFFF0000)).view(np.float32)
    bad = np.isnan(x)
    if bad.any():
        out = np.where(bad, np.float32(np.nan), out)
    return out[()]


def rounded(values: Any, dtype: DType) -> Any:
    """`values` as `dtype` in compute form."""
    if dtype == "bfloat16":
        return round_bfloat16(values)
    return round_to(np.asarray(values), dtype)[()]


def convert(value: Any, source: DType, target: DType) -> Any:
    """Cast: narrower floats round to nearest even, float to int truncates and saturates (NaN gives 0), ints wrap."""
    if isinstance(value, int) and not target.is_float:
        return bool(value) if target.kind == "bool" else wrap(int(value), target)
    if target.kind == "bool":
        return np.asarray(value) != 0
    array = np.asarray(value)
    if source.is_float and not target.is_float:
        low, high = int(target.min), int(target.max)
        wide = np.trunc(np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=float(high), neginf=float(low)))
        out = np.where(wide >= float(high), high, np.where(wide <= float(low), low, wide)).astype(target.storage_dtype)
        # float64 cannot hold the largest 64-bit integers: where() above already replaced what reaches them
        return int(out) if out.ndim == 0 else out
    if not target.is_float:
        out = array.astype(target.storage_dtype)
        out = wrap4(out, target) if target.bits == 4 else out
        return int(out) if np.ndim(out) == 0 else out
    if target == "float16":
        wide = array if source.is_float else array.astype(np.float64)
        return wide.astype(np.float16)[()]
    if target.name in ("float32", "float64"):
        return array.astype(target.compute_dtype)[()]
    return rounded(array.astype(np.float32), target)


def wrap4(values: Any, dtype: DType) -> Any:
    """Values stored one to a byte, wrapped to 4 bits."""
    array = np.asarray(values)
    if dtype.kind == "uint":
        return array & 15
    return ((array + 8) & 15) - 8


def floordiv(a: Any, b: Any) -> Any:
    """Floor division of uniform integers; 0 where the divisor is 0, as NumPy gives."""
    return a // b if b else 0


def floormod(a: Any, b: Any) -> Any:
    """Remainder of `floordiv`; 0 where the divisor is 0."""
    return a % b if b else 0


def truncmod(a: Any, b: Any) -> Any:
    """C remainder: the sign of the dividend; 0 where the divisor is 0."""
    if isinstance(a, int) and isinstance(b, int):
        return (abs(a) % abs(b)) * (1 if a >= 0 else -1) if b else 0
    return np.fmod(a, b)


def truncdiv(a: Any, b: Any) -> Any:
    """C division: towards zero; 0 where the divisor is 0."""
    if isinstance(a, int) and isinstance(b, int):
        return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0
    return (a - np.fmod(a, b)) // b


def shl(a: int, b: int, bits: int) -> int:
    """Shift left of uniform integers; 0 from the width on."""
    return a << b if 0 <= b < bits else 0


def shr(a: int, b: int, bits: int) -> int:
    """Shift right of uniform integers (arithmetic for signed ones); the sign from the width on."""
    return a >> (b if 0 <= b < bits else bits)


def where(condition: Any, then: Any, orelse: Any, dtype: np.dtype[Any]) -> Any:
    """np.where with a result of `dtype` whatever Python scalars are among the arms."""
    out = np.where(condition, then, orelse)
    return out if out.dtype == dtype else out.astype(dtype)


def _round_half_away(x: Any) -> Any:
    return np.trunc(x + np.copysign(np.where(np.abs(x) < 2**23, np.float32(0.5), np.float32(0)), x))


def _c_round(x: Any) -> Any:
    wide = np.asarray(x, dtype=np.float64)
    return np.asarray(_round_half_away(wide)).astype(np.asarray(x).dtype)


_FLOAT: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(x.dtype.type(10), x), "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x), "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": lambda x: np.asarray(_ERF(x)).astype(x.dtype), "sigmoid": lambda x: x.dtype.type(1) / (x.dtype.type(1) + np.exp(-x)),
    "floor": np.floor, "ceil": np.ceil, "round": _c_round, "trunc": np.trunc, "nearbyint": np.rint,
    "rcp": lambda x: x.dtype.type(1) / x, "pow": np.power, "fmod": np.fmod, "atan2": np.arctan2, "copysign": np.copysign,
    "hypot": np.hypot, "nextafter": np.nextafter,
}  # fmt: skip


def _popcount(x: Any) -> Any:
    array = np.ascontiguousarray(x)
    octets = array.view(np.uint8).reshape(*array.shape, array.itemsize)
    return np.unpackbits(octets, axis=-1).sum(axis=-1, dtype=np.int32)


def _clz(x: Any) -> Any:
    array = np.asarray(x)
    bits = array.itemsize * 8
    unsigned = array.view(f"u{array.itemsize}")
    count = np.full(array.shape, bits, dtype=np.int32)
    for b in range(bits):
        count = np.where((unsigned >> unsigned.dtype.type(b)) & unsigned.dtype.type(1) != 0, bits - 1 - b, count)
    return count.astype(np.int32)


def _reinterpret(value: Any, source: DType, target: DType) -> Any:
    stored = np.ascontiguousarray(encode(np.asarray(value, dtype=source.compute_dtype), source))
    shaped = stored.reshape(-1).view(target.storage_dtype).reshape(stored.shape)
    return decode(shaped, target)


def _dp4a(a: Any, b: Any, c: Any) -> Any:
    x, y = (np.ascontiguousarray(v, dtype=np.int32) for v in np.broadcast_arrays(a, b))
    products = x.view(np.int8).reshape(*x.shape, 4).astype(np.int32) * y.view(np.int8).reshape(*y.shape, 4)
    return (products.sum(axis=-1, dtype=np.int32) + np.asarray(c, dtype=np.int32)).astype(np.int32)


def intrinsic(name: str, dtypes: tuple[DType, ...], result: DType) -> Callable[..., Any]:
    """The NumPy function of an elementwise `Call`; half types are computed in float32 and rounded once."""
    first = dtypes[0]
    if name == "abs":
        return np.abs
    if name in ("isnan", "isinf", "isfinite"):
        return {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}[name]
    if name == "popcount":
        return lambda x: _popcount(np.asarray(x, dtype=first.storage_dtype))
    if name == "clz":
        return lambda x: _clz(np.asarray(x, dtype=first.storage_dtype))
    if name == "reinterpret":
        return lambda x: _reinterpret(x, first, result)
    if name == "dp4a":
        return _dp4a
    narrow = first.is_float and first.bits < 32
    if name == "fma":
        if not first.is_float:
            return lambda x, y, z: (x * y + z).astype(first.storage_dtype) if hasattr(x * y + z, "dtype") else wrap(x * y + z, first)
        return lambda x, y, z: _narrow(np.asarray(x, np.float64) * np.asarray(y, np.float64) + np.asarray(z, np.float64), first)
    if name == "ldexp":
        return lambda x, n: _narrow(np.ldexp(np.asarray(x, np.float64), np.asarray(n).astype(np.int32)), first)
    if name == "nextafter":
        return lambda x, y: np.nextafter(np.asarray(x, first.compute_dtype), np.asarray(y, first.compute_dtype))
    if not first.is_float:  # pow of integers
        return lambda x, y: np.power(np.asarray(x, first.storage_dtype), np.asarray(y, first.storage_dtype))
    function = _FLOAT[name]
    if narrow:
        return lambda *xs: _narrow(function(*(np.asarray(x, np.float32) for x in xs)), first)
    kind = first.compute_dtype
    return lambda *xs: function(*(np.asarray(x, kind) for x in xs))


def _narrow(values: Any, dtype: DType) -> Any:
    if dtype == "float16":
        return np.asarray(values).astype(np.float16)[()]
    if dtype.bits >= 32 and dtype != "tfloat32":
        return np.asarray(values).astype(dtype.compute_dtype)[()]
    return rounded(np.asarray(values).astype(np.float32), dtype)


def poison(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Fresh registers: NaN for floats, a telling pattern for integers."""
    kind = dtype.compute_dtype
    if kind.kind == "f":
        return np.full(shape, np.nan, dtype=kind)
    out = np.empty(shape, dtype=kind)
    out.reshape(-1).view(np.uint8)[...] = 0 if kind.kind == "b" else 0xA5
    return out


assert "bfloat16" in DTYPES
