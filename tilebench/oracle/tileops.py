"""The tile ops on numbers with bounds, from the language's definition of each (not from the code in ops/).

Ops are known by their class name and fields, since the oracle stands below them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.ir.dtype import DType, float32, float64
from tilebench.oracle.value import (
    OracleUnsupported,
    Val,
    cast,
    gamma,
    integers_exact,
    make,
    rounded,
    whole,
    wrap,
)

if TYPE_CHECKING:
    from tilebench.oracle.evaluate import Frame, Machine

ACCUMULATION = {"float8_e4m3": 2.0**-13, "float8_e5m2": 2.0**-13}
"""Hopper's fp8 tensor cores keep about 14 bits while accumulating (DeepSeek-V3 report, section 3.3.2)."""
TENSOR_CORE_U = 2.0**-23
"""Tensor cores may truncate when they accumulate in float32 (Fasi et al., PeerJ CS 7:e330, 2021)."""


def run(op: Any, machine: Machine, f: Frame) -> None:
    """Carry out one tile op. Raises OracleUnsupported for an op that is not known here."""
    name = type(op).__name__
    if name not in _OPS:
        raise OracleUnsupported(f"the op {name}")
    _OPS[name](op, machine, f)


def _copy(op: Any, machine: Machine, f: Frame) -> None:
    outside = getattr(op, "outside", None)
    fill = (
        0.0
        if outside is None
        else float(np.asarray(machine.value(outside, f).value))
        if hasattr(outside, "dtype")
        else float(outside)
    )
    value = machine.read(op.source, f, fill)
    machine.write(op.destination, _reshaped(value, op.destination.shape), f)


def _reshaped(v: Val, shape: tuple[int, ...]) -> Val:
    return Val(
        v.value.reshape(shape),
        np.broadcast_to(v.bound, v.value.shape).reshape(shape),
        v.dtype,
        np.broadcast_to(v.ambiguous, v.value.shape).reshape(shape),
    )


def _fill(op: Any, machine: Machine, f: Frame) -> None:
    machine.write(op.destination, machine.value(op.value, f), f)


def _transpose(op: Any, machine: Machine, f: Frame) -> None:
    v = machine.read(op.source, f)
    turned = Val(
        np.swapaxes(v.value, -1, -2), np.swapaxes(v.bound, -1, -2), v.dtype, np.swapaxes(v.ambiguous, -1, -2)
    )
    machine.write(op.destination, _reshaped(turned, op.destination.shape), f)


def _matrix(v: Val, transposed: bool) -> Val:
    def turn(x: Any) -> Any:
        m = np.broadcast_to(x, v.value.shape).reshape(v.value.shape[-2:])
        return m.T if transposed else m

    return Val(turn(v.value), turn(v.bound), v.dtype, turn(v.ambiguous))


def _gemm(op: Any, machine: Machine, f: Frame) -> None:
    a = _matrix(machine.read(op.a, f), op.transpose_a)
    b = _matrix(machine.read(op.b, f), op.transpose_b)
    old = machine.read(op.c, f)
    dtype: DType = op.c.dtype
    shape = old.value.shape
    c = (
        Val(np.zeros(shape[-2:]), np.zeros(shape[-2:]), dtype, np.zeros(shape[-2:], bool))
        if op.clear_accum
        else _matrix(old, False)
    )
    ambiguous = np.asarray(c.ambiguous) | a.ambiguous.any(axis=1)[:, None] | b.ambiguous.any(axis=0)[None, :]
    if not dtype.is_float:
        total = a.value.astype(np.int64) @ b.value.astype(np.int64) + c.value.astype(np.int64)
        machine.write(
            op.c, _reshaped(make(wrap(total, dtype), dtype, np.zeros(total.shape), ambiguous), shape), f
        )
        return
    if a.dtype.name == "tfloat32" or b.dtype.name == "tfloat32":
        a, b = (
            cast(Val(a.value, a.bound, float64, a.ambiguous), a.dtype),
            cast(Val(b.value, b.bound, float64, b.ambiguous), b.dtype),
        )
    with np.errstate(all="ignore"):
        total = a.value @ b.value + c.value
        magnitude = np.abs(a.value) @ np.abs(b.value) + np.abs(c.value)
        error = np.asarray(c.bound) + np.zeros(total.shape)
        if np.any(a.bound) or np.any(b.bound):
            error = error + np.abs(a.value) @ b.bound + a.bound @ np.abs(b.value) + a.bound @ b.bound
    depth = a.value.shape[1]
    u = max(
        dtype.unit_roundoff,
        TENSOR_CORE_U if (dtype == "float32" and a.dtype.bits <= 19) or a.dtype.name == "tfloat32" else 0.0,
    )
    u = max(u, ACCUMULATION.get(a.dtype.name, 0.0))
    exact = whole(a.value) and whole(b.value) and whole(c.value) and not np.any(error)
    limit = np.minimum(magnitude, np.inf)
    is_exact = (
        integers_exact(limit, dtype) & (ACCUMULATION.get(a.dtype.name) is None or limit <= 2.0**13)
        if exact
        else np.zeros(total.shape, bool)
    )
    product_u = dtype.unit_roundoff if a.dtype.bits >= 32 and a.dtype.name != "tfloat32" else 0.0
    charge = np.where(is_exact, 0.0, (gamma(depth + 1, u) + product_u) * (magnitude + error))
    masked = np.isinf(c.value) & np.isinf(total)  # -inf stays -inf, whatever finite is added to it
    charge, error = np.where(masked, 0.0, charge), np.where(masked, np.asarray(c.bound), error)
    machine.write(
        op.c,
        _reshaped(Val(total, np.nan_to_num(error + charge, nan=0.0, posinf=np.inf), dtype, ambiguous), shape),
        f,
    )


def _accumulator(dtype: DType) -> DType:
    return float32 if dtype.is_float and dtype.bits < 32 else dtype


def _reduce(op: Any, machine: Machine, f: Frame) -> None:
    v = machine.read(op.source, f)
    axis, kind = op.dim, op.kind
    shape = op.destination.shape
    old = None if op.clear else machine.read(op.destination, f)
    if kind in ("any", "all"):
        condition = cast(v, op.destination.dtype)
        value = (np.any if kind == "any" else np.all)(condition.value, axis=axis)
        # decided when some certain element decides
        decisive = np.asarray(condition.value) == (kind == "any")
        sure = np.any(decisive & ~np.asarray(condition.ambiguous), axis=axis)
        unsure = np.any(np.broadcast_to(condition.ambiguous, condition.value.shape), axis=axis) & ~sure
        if old is not None:
            value = (
                value | old.value.reshape(value.shape)
                if kind == "any"
                else value & old.value.reshape(value.shape)
            )
        machine.write(
            op.destination, Val(value.reshape(shape), 0.0, op.destination.dtype, unsure.reshape(shape)), f
        )
        return
    dtype = _accumulator(op.destination.dtype)
    v = cast(v, dtype)
    value, bound = np.asarray(v.value), np.broadcast_to(v.bound, v.value.shape)
    ambiguous = np.any(np.broadcast_to(v.ambiguous, v.value.shape), axis=axis)
    if kind in ("absmax", "abssum"):
        value = np.abs(value)
    with np.errstate(all="ignore"):
        result = _fold(kind, value, bound, axis, dtype, op.nan_propagate)
    r = Val(result[0], result[1], dtype, ambiguous)
    if old is not None:
        r = _merge(kind, r, cast(_reshaped(old, r.value.shape), dtype), dtype, op.nan_propagate)
    machine.write(
        op.destination,
        _reshaped(
            Val(
                r.value,
                np.broadcast_to(r.bound, r.value.shape),
                dtype,
                np.broadcast_to(r.ambiguous, r.value.shape),
            ),
            shape,
        ),
        f,
    )


def _fold(
    kind: str, value: np.ndarray, bound: np.ndarray, axis: int, dtype: DType, nan: bool
) -> tuple[Any, Any]:
    if kind in ("sum", "abssum"):
        total = value.sum(axis=axis)
        if not dtype.is_float:
            return wrap(total, dtype), np.zeros(total.shape)
        return total, _sum_bound(value, bound, axis, dtype)
    zero = (
        np.zeros(np.delete(np.array(value.shape), axis))
        if not dtype.is_float
        else bound.max(axis=axis, initial=0.0)
    )
    match kind:
        case "max" | "absmax":
            folded = (np.maximum if nan else np.fmax).reduce(value, axis=axis)
        case "min":
            folded = (np.minimum if nan else np.fmin).reduce(value, axis=axis)
        case "bitand":
            folded = np.bitwise_and.reduce(value, axis=axis)
        case "bitor":
            folded = np.bitwise_or.reduce(value, axis=axis)
        case "bitxor":
            folded = np.bitwise_xor.reduce(value, axis=axis)
        case _:
            raise OracleUnsupported(f"reduce_{kind}")
    if dtype.is_float and not nan and kind in ("max", "min"):
        folded = np.where(np.isnan(folded), -np.inf if kind == "max" else np.inf, folded)
    if kind == "absmax" and dtype.is_float and not nan:
        folded = np.where(np.isnan(folded), 0.0, folded)
    return folded, np.broadcast_to(zero, folded.shape)


def _sum_bound(value: np.ndarray, bound: np.ndarray, axis: int, dtype: DType) -> np.ndarray:
    magnitude = np.abs(value).sum(axis=axis)
    carried = bound.sum(axis=axis)
    exact = (
        integers_exact(magnitude, dtype)
        if whole(value) and not np.any(bound)
        else np.zeros(magnitude.shape, bool)
    )
    count = value.shape[axis]
    return np.nan_to_num(
        carried + np.where(exact, 0.0, gamma(max(count - 1, 0), dtype.unit_roundoff) * (magnitude + carried)),
        nan=0.0,
        posinf=np.inf,
    )


def _merge(kind: str, a: Val, b: Val, dtype: DType, nan: bool) -> Val:
    ambiguous = np.asarray(a.ambiguous) | b.ambiguous
    bound = np.maximum(a.bound, b.bound)
    match kind:
        case "sum" | "abssum":
            if not dtype.is_float:
                return make(a.value + b.value, dtype, np.zeros(np.shape(a.value)), ambiguous)
            return rounded(a.value + b.value, np.asarray(a.bound) + b.bound, dtype, ambiguous)
        case "max" | "absmax":
            return Val((np.maximum if nan else np.fmax)(a.value, b.value), bound, dtype, ambiguous)
        case "min":
            return Val((np.minimum if nan else np.fmin)(a.value, b.value), bound, dtype, ambiguous)
        case "bitand":
            return make(a.value & b.value, dtype, bound, ambiguous)
        case "bitor":
            return make(a.value | b.value, dtype, bound, ambiguous)
        case _:
            return make(a.value ^ b.value, dtype, bound, ambiguous)


def _scan(op: Any, machine: Machine, f: Frame) -> None:
    dtype = _accumulator(op.destination.dtype)
    v = cast(machine.read(op.source, f), dtype)
    axis = op.dim
    value, bound = np.asarray(v.value), np.broadcast_to(v.bound, v.value.shape)
    ambiguous = np.broadcast_to(v.ambiguous, v.value.shape)
    if op.reverse:
        value, bound, ambiguous = (np.flip(x, axis) for x in (value, bound, ambiguous))
    if op.kind == "sum":
        total = np.cumsum(value, axis=axis)
        error: Any = np.zeros(total.shape)
        if dtype.is_float:
            magnitude, carried = np.cumsum(np.abs(value), axis=axis), np.cumsum(bound, axis=axis)
            exact = (
                integers_exact(magnitude, dtype)
                if whole(value) and not np.any(bound)
                else np.zeros(total.shape, bool)
            )
            n = value.shape[axis]
            error = carried + np.where(
                exact, 0.0, gamma(max(n - 1, 0), dtype.unit_roundoff) * (magnitude + carried)
            )
        else:
            total = wrap(total, dtype)
    else:
        total = np.fmax.accumulate(value, axis=axis)
        error = np.maximum.accumulate(bound, axis=axis)
    unsure = np.logical_or.accumulate(ambiguous, axis=axis)
    if op.reverse:
        total, error, unsure = (np.flip(x, axis) for x in (total, error, unsure))
    machine.write(op.destination, _reshaped(Val(total, error, dtype, unsure), op.destination.shape), f)


def _atomic(op: Any, machine: Machine, f: Frame) -> None:
    from tilebench.ir.expr import Expr

    value = machine.value(op.value, f) if isinstance(op.value, Expr) else machine.read(op.value, f)
    full = _reshaped(
        Val(
            np.broadcast_to(
                value.value, op.destination.shape if isinstance(op.value, Expr) else value.value.shape
            ),
            value.bound,
            value.dtype,
            value.ambiguous,
        ),
        op.destination.extents,
    )
    machine.atomic(op.op, op.destination.buffer, machine.places(op.destination, f), full, _uniform(f))


def _uniform(f: Frame) -> Frame:
    from tilebench.oracle.evaluate import Frame as NewFrame

    return NewFrame(f.values)


_OPS: dict[str, Callable[[Any, Machine, Frame], None]] = {
    "Copy": _copy, "Fill": _fill, "Gemm": _gemm, "Reduce": _reduce, "Scan": _scan, "Transpose": _transpose,
    "AtomicTile": _atomic,
}  # fmt: skip
