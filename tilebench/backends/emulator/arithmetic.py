"""Arithmetic of the thread program in NumPy: rounding, integer division, casts.

Values are in compute form (ir/dtype.py). A value that is the same in all threads is a Python int or bool, or
a NumPy float scalar; one that differs is an array whose last axis is the threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilebench.ir.dtype import DType, round_to
from tilebench.ir.expr import wrap


def round_bfloat16(values: Any) -> Any:
    """float32 values rounded to bfloat16, to nearest even; NaN stays NaN."""
    x = np.asarray(values, dtype=np.float32)
    bits = x.view(np.uint32)
    out = (
        (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) & np.uint32(0xFFFF0000)
    ).view(np.float32)
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
    """A value conversion.

    Floats round to nearest even, float to int truncates and saturates (NaN gives 0), ints wrap.
    """
    if isinstance(value, int) and not target.is_float:
        return bool(value) if target.kind == "bool" else wrap(int(value), target)
    if target.kind == "bool":
        return np.asarray(value) != 0
    array = np.asarray(value)
    if source.is_float and not target.is_float:
        low, high = int(target.min), int(target.max)
        wide = np.trunc(
            np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=float(high), neginf=float(low))
        )
        out = np.where(wide >= float(high), high, np.where(wide <= float(low), low, wide)).astype(
            target.storage_dtype
        )
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
    return np.asarray(np.where(condition, then, orelse), dtype=dtype)


def poison(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Fresh registers: NaN for floats, a telling pattern for integers."""
    kind = dtype.compute_dtype
    if kind.kind == "f":
        return np.full(shape, np.nan, dtype=kind)
    out = np.empty(shape, dtype=kind)
    out.reshape(-1).view(np.uint8)[...] = 0 if kind.kind == "b" else 0xA5
    return out
