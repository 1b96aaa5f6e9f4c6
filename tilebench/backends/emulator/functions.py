"""The elementwise intrinsics in NumPy: half types are computed in float32 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilebench.backends.emulator.arithmetic import rounded
from tilebench.ir.dtype import DType, decode, encode
from tilebench.ir.expr import wrap

Function = Callable[..., Any]

_ERF: Function = np.frompyfunc(math.erf, 1, 1)


def _one(x: Any) -> Any:
    return x.dtype.type(1)


def _exp10(x: Any) -> Any:
    return np.power(x.dtype.type(10), x)


def _rsqrt(x: Any) -> Any:
    return _one(x) / np.sqrt(x)


def _rcp(x: Any) -> Any:
    return _one(x) / x


def _sigmoid(x: Any) -> Any:
    return _one(x) / (_one(x) + np.exp(-x))


def _erf(x: Any) -> Any:
    result: Any = np.asarray(_ERF(x))
    return result.astype(x.dtype)


def _round(x: Any) -> Any:
    """C round: halves away from zero."""
    wide: Any = np.asarray(x, dtype=np.float64)
    half = np.where(np.abs(wide) < 2.0**52, 0.5, 0.0)
    return np.trunc(wide + np.copysign(half, wide)).astype(x.dtype)


_FLOAT: dict[str, Function] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": _exp10, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": _rsqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": _erf, "sigmoid": _sigmoid,
    "floor": np.floor, "ceil": np.ceil, "round": _round, "trunc": np.trunc, "nearbyint": np.rint, "rcp": _rcp,
    "pow": np.power, "fmod": np.fmod, "atan2": np.arctan2, "copysign": np.copysign, "hypot": np.hypot,
}  # fmt: skip
_ANY: dict[str, Function] = {"abs": np.abs, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}


def _popcount(x: Any) -> Any:
    array = np.ascontiguousarray(x)
    octets = array.view(np.uint8).reshape(*array.shape, array.itemsize)
    return np.unpackbits(octets, axis=-1).sum(axis=-1, dtype=np.int32)


def _clz(x: Any) -> Any:
    array = np.asarray(x)
    bits = array.itemsize * 8
    unsigned: Any = array.view(f"u{array.itemsize}")
    count: Any = np.full(array.shape, bits, dtype=np.int32)
    for b in range(bits):
        is_set = (unsigned >> unsigned.dtype.type(b)) & _one(unsigned) != 0
        count = np.where(is_set, bits - 1 - b, count)
    return count.astype(np.int32)


def _reinterpret(value: Any, source: DType, target: DType) -> Any:
    stored = np.ascontiguousarray(encode(np.asarray(value, dtype=source.compute_dtype), source))
    return decode(stored.reshape(-1).view(target.storage_dtype).reshape(stored.shape), target)


def _dp4a(a: Any, b: Any, c: Any) -> Any:
    x, y = (np.ascontiguousarray(v, dtype=np.int32) for v in np.broadcast_arrays(a, b))
    octets = x.view(np.int8).reshape(*x.shape, 4).astype(np.int32) * y.view(np.int8).reshape(*y.shape, 4)
    return (octets.sum(axis=-1, dtype=np.int32) + np.asarray(c, dtype=np.int32)).astype(np.int32)


def _narrow(values: Any, dtype: DType) -> Any:
    """float32 or float64 results rounded once to `dtype`."""
    if dtype.name in ("float16", "float32", "float64"):
        return np.asarray(values).astype(dtype.compute_dtype)[()]
    return rounded(np.asarray(values).astype(np.float32), dtype)


def intrinsic(name: str, dtypes: tuple[DType, ...], result: DType) -> Function:
    """The NumPy function of an elementwise `Call`, on values in compute form."""
    first = dtypes[0]
    if name in _ANY:
        return _ANY[name]
    if name == "in_register":
        return _itself
    if name.startswith("f16x2"):
        return _of_pairs(name)
    if not first.is_float or name == "reinterpret":
        return _of_bits(name, first, result)
    if name in ("fma", "ldexp"):
        return _wide(name, first)
    if name == "nextafter":

        def nextafter(x: Any, y: Any) -> Any:
            return np.nextafter(np.asarray(x, first.compute_dtype), np.asarray(y, first.compute_dtype))

        return nextafter
    function = _FLOAT[name]
    kind = np.dtype(np.float32) if first.bits < 32 else first.compute_dtype

    def apply(*values: Any) -> Any:
        found = function(*(np.asarray(v, kind) for v in values))
        return _narrow(found, first) if first.bits < 32 else found

    return apply


def _itself(x: Any) -> Any:
    return x


def _halves(word: Any) -> Any:
    """float16 [..., 2] of words, the low half first."""
    octets = np.ascontiguousarray(np.asarray(word, np.uint32))
    return octets.reshape(*octets.shape, 1).view(np.float16)


def _of_pairs(name: str) -> Function:
    """Arithmetic of two float16 at once: each result is rounded once."""

    def apply(*values: Any) -> Any:
        if name in ("f16x2", "f16x2_finite"):
            parts = np.stack(np.broadcast_arrays(*(np.asarray(v, np.float32) for v in values)), axis=-1)
            found = (parts if name == "f16x2" else np.clip(parts, -65504, 65504)).astype(np.float16)
        else:
            a, b, *rest = (_halves(v).astype(np.float64) for v in np.broadcast_arrays(*values))
            match name:
                case "f16x2_add":
                    exact = a + b
                case "f16x2_sub":
                    exact = a - b
                case "f16x2_mul":
                    exact = a * b
                case _:
                    exact = a * b + rest[0]
            found = exact.astype(np.float16)
        return np.ascontiguousarray(found).view(np.uint32)[..., 0]

    return apply


def _of_bits(name: str, first: DType, result: DType) -> Function:
    kind = first.storage_dtype

    def apply(*values: Any) -> Any:
        if name == "reinterpret":
            return _reinterpret(values[0], first, result)
        if name == "popcount":
            return _popcount(np.asarray(values[0], dtype=kind))
        if name == "clz":
            return _clz(np.asarray(values[0], dtype=kind))
        if name == "dp4a":
            return _dp4a(*values)
        if name == "pow":
            return np.power(np.asarray(values[0], kind), np.asarray(values[1], kind))
        assert name == "fma", f"{name} takes no integers"
        total = values[0] * values[1] + values[2]
        return wrap(total, first) if isinstance(total, int) else total.astype(kind)

    return apply


def _wide(name: str, first: DType) -> Function:
    """fma and ldexp by way of float64, in which their result before rounding is (nearly) exact."""

    def apply(*values: Any) -> Any:
        x: Any = np.asarray(values[0], np.float64)
        if name == "ldexp":
            return _narrow(np.ldexp(x, np.asarray(values[1]).astype(np.int32)), first)
        return _narrow(x * np.asarray(values[1], np.float64) + np.asarray(values[2], np.float64), first)

    return apply
