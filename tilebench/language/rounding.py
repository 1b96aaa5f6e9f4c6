"""Arithmetic with a chosen rounding: `T.ieee_*(..., rounding_mode)` on float32 and float64, on every target.

The operation is rounded to nearest, and the sign of what rounding left out says whether the neighbour is the
directed result. What is left out is computed without error: for float32 in float64, for float64 by error-free
transformations (T. J. Dekker 1971; S. Boldo and J.-M. Muller, "Exact and approximated error of the FMA",
2011), which need results above 2**-969.
"""

from __future__ import annotations

from typing import Any

from tilebench.errors import TypeTileError
from tilebench.ir import expr as ir
from tilebench.ir.dtype import bool_, float32, float64
from tilebench.ir.expr import Expr, as_expr, binary, const
from tilebench.language.math import fma, rsqrt, sqrt

MODES = ("rn", "rz", "ru", "rd")


class RoundingError(TypeTileError):
    """A rounding mode that there is not."""


def _operands(name: str, mode: str, *values: Any) -> list[Expr]:
    """The operands in one type. Raises RoundingError TB209."""
    if mode not in MODES:
        raise RoundingError(
            "TB209",
            f"Invalid rounding mode {mode!r} of {name}",
            why="nearest even, towards zero, up and down are the four",
            fix="rn, rz, ru or rd",
        )
    given = [as_expr(v) for v in values]
    kind = next((e.dtype for v, e in zip(values, given, strict=True) if isinstance(v, Expr)), float32)
    kind = kind if kind.is_float else float32
    if mode != "rn" and kind not in (float32, float64):
        raise RoundingError(
            "TB209",
            f"{name}: Only rounding mode 'rn' is available for half precision, not {mode!r} in {kind}",
            why="GPUs round narrow floats to nearest even",
            fix="compute in float32, or use rounding_mode='rn'",
        )
    return [e if e.dtype == kind else ir.cast(e, kind) for e in given]


def _is_finite(e: Expr) -> Expr:
    return ir.call("isfinite", (e,), bool_)


def _sign_of(e: Expr) -> Expr:
    """1 or -1 with the sign of e."""
    return ir.call("copysign", (const(1.0, e.dtype), e), e.dtype)


def _two_sum(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """The rounded sum, and what rounding left out."""
    s = a + b
    part = s - a
    return s, (a - (s - part)) + (b - part)


def _directed(result: Expr, rest: Expr, mode: str, *operands: Expr, pole: Expr | None = None) -> Expr:
    """The result moved to its neighbour where the mode asks for it.

    rest: of the sign of exact minus result. pole: where an infinite result is exact (a division by zero).
    """
    infinity = const(float("inf"), result.dtype)
    zero = const(0.0, result.dtype)
    finite = _is_finite(operands[0])
    for e in operands[1:]:
        finite = binary("and", finite, _is_finite(e))
    if pole is not None:
        finite = binary("and", finite, ir.unary("not", pole))
    overflow = binary("and", finite, ir.call("isinf", (result,), bool_))
    rest = ir.select(overflow, ir.cast(ir.unary("neg", _sign_of(result)), rest.dtype), rest)
    above, below = rest > const(0.0, rest.dtype), rest < const(0.0, rest.dtype)
    if mode == "ru":
        moves, towards = above, infinity
    elif mode == "rd":
        moves, towards = below, ir.unary("neg", infinity)
    else:
        moves = ir.select(result > zero, below, above)
        towards = zero
    moved = ir.call("nextafter", (result, towards), result.dtype)
    return ir.select(binary("and", finite, moves), moved, result)


def ieee_add(x: Any, y: Any, rounding_mode: str = "rn") -> Any:
    """x + y, rounded once: to nearest even (rn), towards zero (rz), up (ru) or down (rd)."""
    a, b = _operands("ieee_add", rounding_mode, x, y)
    if rounding_mode == "rn":
        return a + b
    total, rest = _two_sum(a, b)
    found = _directed(total, rest, rounding_mode, a, b)
    if rounding_mode == "rd":  # an exact zero is negative, unless both terms are +0
        negative = binary("or", _sign_of(a) < 0.0, _sign_of(b) < 0.0)
        found = ir.select(binary("and", found == const(0.0, a.dtype), negative),
                          const(-0.0, a.dtype), found)  # fmt: skip
    return found


def ieee_sub(x: Any, y: Any, rounding_mode: str = "rn") -> Any:
    """x - y, rounded once: to nearest even (rn), towards zero (rz), up (ru) or down (rd)."""
    a, b = _operands("ieee_sub", rounding_mode, x, y)
    return a - b if rounding_mode == "rn" else ieee_add(a, ir.unary("neg", b), rounding_mode)


def ieee_mul(x: Any, y: Any, rounding_mode: str = "rn") -> Any:
    """x * y, rounded once: to nearest even (rn), towards zero (rz), up (ru) or down (rd)."""
    a, b = _operands("ieee_mul", rounding_mode, x, y)
    product = a * b
    if rounding_mode == "rn":
        return product
    if a.dtype == float32:
        rest = ir.cast(a, float64) * ir.cast(b, float64) - ir.cast(product, float64)
    else:
        rest = fma(a, b, ir.unary("neg", product))
    return _directed(product, rest, rounding_mode, a, b)


def ieee_fdiv(x: Any, y: Any, rounding_mode: str = "rn") -> Any:
    """x / y, rounded once: to nearest even (rn), towards zero (rz), up (ru) or down (rd)."""
    a, b = _operands("ieee_fdiv", rounding_mode, x, y)
    quotient = a / b
    if rounding_mode == "rn":
        return quotient
    if a.dtype == float32:
        wide = ir.cast(b, float64)
        rest = ir.cast(a, float64) - ir.cast(quotient, float64) * wide
    else:
        wide = b
        rest = fma(ir.unary("neg", quotient), b, a)
    rest = ir.select(wide < const(0.0, wide.dtype), ir.unary("neg", rest), rest)
    return _directed(quotient, rest, rounding_mode, a, b, pole=b == const(0.0, b.dtype))


def ieee_frcp(x: Any, rounding_mode: str = "rn") -> Any:
    """1 / x, rounded once: to nearest even (rn), towards zero (rz), up (ru) or down (rd)."""
    (a,) = _operands("ieee_frcp", rounding_mode, x)
    return ieee_fdiv(const(1.0, a.dtype), a, rounding_mode)


def ieee_fsqrt(x: Any, rounding_mode: str = "rn") -> Any:
    """sqrt(x), rounded once: to nearest even (rn), towards zero (rz), up (ru) or down (rd)."""
    (a,) = _operands("ieee_fsqrt", rounding_mode, x)
    root = sqrt(a)
    if rounding_mode == "rn":
        return root
    if a.dtype == float32:
        wide = ir.cast(root, float64)
        rest = ir.cast(a, float64) - wide * wide
    else:
        rest = fma(ir.unary("neg", root), root, a)
    return _directed(root, rest, rounding_mode, a)


def ieee_fmaf(x: Any, y: Any, z: Any, rounding_mode: str = "rn") -> Any:
    """x * y + z, rounded once: to nearest even (rn), towards zero (rz), up (ru) or down (rd)."""
    a, b, c = _operands("ieee_fmaf", rounding_mode, x, y, z)
    result = fma(a, b, c)
    if rounding_mode == "rn":
        return result
    if a.dtype == float32:
        total, lost = _two_sum(ir.cast(a, float64) * ir.cast(b, float64), ir.cast(c, float64))
        rest = (total - ir.cast(result, float64)) + lost
    else:
        high = a * b
        low = fma(a, b, ir.unary("neg", high))
        carried, last = _two_sum(c, low)
        total, lost = _two_sum(high, carried)
        rest = ((total - result) + lost) + last
    return _directed(result, rest, rounding_mode, a, b, c)


def ieee_frsqrt(x: Any) -> Any:
    """1 / sqrt(x), rounded to nearest, in float32 and narrower. Raises RoundingError TB209 for float64."""
    (a,) = _operands("ieee_frsqrt", "rn", x)
    if a.dtype == float64:
        raise RoundingError(
            "TB209",
            "ieee_frsqrt is not supported for float64",
            why="no GPU has the instruction",
            fix="1.0 / T.sqrt(x)",
        )
    return rsqrt(a)
