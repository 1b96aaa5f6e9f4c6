"""Scalar functions: math, bits, casts, selection. Plain functions from expressions to expressions."""

from __future__ import annotations

import math as _math
from collections.abc import Callable
from typing import Any

from tilebench.errors import TypeTileError
from tilebench.ir import expr as ir
from tilebench.ir.dtype import DType, bool_, float32, int32
from tilebench.ir.expr import Expr, as_expr
from tilebench.language.dtypes import dtype as as_scalar

_FLOAT_UNARY = (
    *("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh"),
    *("erf", "sigmoid"),
)
_STEPS = ("floor", "ceil", "trunc", "nearbyint")


def _floating(value: Any) -> Expr:
    e = as_expr(value)
    return e if e.dtype.is_float else e.astype(float32)


def _unary(name: str) -> Callable[..., Expr]:
    def function(x: Any, span: Any = None) -> Expr:
        del span
        e = _floating(x)
        return ir.call(name, (e,), e.dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name}(x), element by element, in x's dtype (integers become float32)."
    return function


exp, exp2, exp10, log, log2, log10, log1p, sqrt, rsqrt = (_unary(n) for n in _FLOAT_UNARY[:9])
sin, cos, tan, sinh, cosh, tanh, asin, acos, atan, asinh, acosh, atanh, erf, sigmoid = (
    _unary(n) for n in _FLOAT_UNARY[9:]
)
fast_rcp = _unary("rcp")


def _step(name: str) -> Callable[..., Expr]:
    def function(x: Any, span: Any = None) -> Expr:
        del span
        e = as_expr(x)
        return ir.call(name, (e,), e.dtype) if e.dtype.is_float else e

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name}(x); integers as they are."
    return function


floor, ceil, trunc, nearbyint = (_step(n) for n in _STEPS)


def round(x: Any, rounding_mode: Any = "ties-to-even", span: Any = None) -> Expr:
    """x to the nearest whole number; of two that are as near the even one, or with "ties-away-from-zero" the
    one further from 0. Integers as they are.
    """
    del span
    if rounding_mode not in ("ties-to-even", "ties-away-from-zero", None):
        raise TypeTileError(
            "TB209",
            f"rounding_mode={rounding_mode!r}",
            why="it says which of two whole numbers that are as near is taken",
            fix='"ties-to-even" or "ties-away-from-zero"',
        )
    return nearbyint(x) if rounding_mode != "ties-away-from-zero" else _round_away(x)


_round_away = _step("round")


def abs(x: Any) -> Expr:
    """|x|."""
    e = as_expr(x)
    return ir.call("abs", (e,), e.dtype)


def _pair(a: Any, b: Any) -> tuple[Expr, Expr]:
    both = ir.binary("add", a, b)
    if isinstance(both, ir.Binary):
        return both.left, both.right
    kind = both.dtype
    return as_expr(a).astype(kind), as_expr(b).astype(kind)


def _same(name: str, a: Any, b: Any) -> Expr:
    x, y = _pair(_floating(a), _floating(b))
    return ir.call(name, (x, y), x.dtype)


def pow(x: Any, y: Any) -> Expr:
    """x ** y."""
    return _same("pow", x, y)


def fmod(x: Any, y: Any) -> Expr:
    """C remainder: the sign of x."""
    return _same("fmod", x, y)


def atan2(y: Any, x: Any) -> Expr:
    """The angle of (x, y)."""
    return _same("atan2", y, x)


def copysign(x: Any, y: Any) -> Expr:
    """|x| with y's sign."""
    return _same("copysign", x, y)


def hypot(x: Any, y: Any) -> Expr:
    """sqrt(x*x + y*y)."""
    return _same("hypot", x, y)


def nextafter(x: Any, y: Any) -> Expr:
    """The next value after x towards y."""
    return _same("nextafter", x, y)


def ldexp(x: Any, n: Any) -> Expr:
    """x * 2**n."""
    e = _floating(x)
    return ir.call("ldexp", (e, as_expr(n).astype(int32)), e.dtype)


def fma(x: Any, y: Any, z: Any) -> Expr:
    """x*y + z, rounded once."""
    a, b = _pair(_floating(x), _floating(y))
    return ir.call("fma", (a, b, as_expr(z).astype(a.dtype)), a.dtype)


def max(a: Any, b: Any) -> Any:
    """The larger of two values; passes over NaN."""
    return ir.binary("max", a, b) if isinstance(a, Expr) or isinstance(b, Expr) else (a if a > b else b)


def min(a: Any, b: Any) -> Any:
    """The smaller of two values; passes over NaN."""
    return ir.binary("min", a, b) if isinstance(a, Expr) or isinstance(b, Expr) else (a if a < b else b)


def clamp(dst: Any, min_val: Any, max_val: Any) -> Any:
    """dst brought into [min_val, max_val]."""
    return min(max(dst, min_val), max_val)


def isnan(x: Any) -> Expr:
    """Whether x is NaN."""
    return ir.call("isnan", (x,), bool_)


def isinf(x: Any) -> Expr:
    """Whether x is infinite."""
    return ir.call("isinf", (x,), bool_)


def isfinite(x: Any) -> Expr:
    """Whether x is finite."""
    return ir.call("isfinite", (x,), bool_)


def infinity(dtype: Any = "float32") -> Expr:
    """+inf of a float type."""
    kind = as_scalar(dtype)
    if not kind.is_float or kind.name in ("float8_e4m3", "float8_e8m0fnu"):
        raise TypeTileError(
            "TB203",
            f"{kind} has no infinity",
            why="only floats with infinities do",
            fix=f"T.max_value({kind.name!r}) is its largest value",
        )
    return ir.const(_math.inf, kind)


def max_value(dtype: Any) -> Expr:
    """The largest finite value of a type."""
    kind = as_scalar(dtype)
    return ir.const(kind.max, kind)


def min_value(dtype: Any) -> Expr:
    """The lowest finite value of a type."""
    kind = as_scalar(dtype)
    return ir.const(kind.min, kind)


# ------------------------------------------------------------------ integers


def ceildiv(a: Any, b: Any) -> Any:
    """ceil(a / b) on integers."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return (a + (b - 1)) // b


def floordiv(a: Any, b: Any) -> Any:
    """Floor division, as Python's //."""
    return a // b


def floormod(a: Any, b: Any) -> Any:
    """Remainder of floor division, as Python's %."""
    return a % b


def truncdiv(a: Any, b: Any) -> Any:
    """Division that rounds towards zero, as C's /."""
    return ir.binary("truncdiv", a, b)


def truncmod(a: Any, b: Any) -> Any:
    """Remainder of truncdiv, as C's %."""
    return ir.binary("truncmod", a, b)


def align_up(x: Any, y: Any) -> Any:
    """The least multiple of y that is not below x."""
    return ceildiv(x, y) * y


def shift_left(a: Any, b: Any) -> Any:
    """a << b."""
    return ir.binary("shl", a, b)


def shift_right(a: Any, b: Any) -> Any:
    """a >> b (arithmetic for signed types)."""
    return ir.binary("shr", a, b)


def bitwise_and(a: Any, b: Any) -> Any:
    """a & b."""
    return ir.binary("bitand", a, b)


def bitwise_or(a: Any, b: Any) -> Any:
    """a | b."""
    return ir.binary("bitor", a, b)


def bitwise_xor(a: Any, b: Any) -> Any:
    """a ^ b."""
    return ir.binary("bitxor", a, b)


def bitwise_not(a: Any) -> Any:
    """~a."""
    return ir.unary("bitnot", a)


def popcount(x: Any) -> Expr:
    """Number of set bits."""
    return ir.call("popcount", (x,), int32)


def clz(x: Any) -> Expr:
    """Number of leading zero bits."""
    return ir.call("clz", (x,), int32)


def dp4a(A: Any, B: Any, C: Any) -> Expr:
    """C + the sum of four int8 products packed in A and B."""
    return ir.call("dp4a", (A, B, C), int32)


# ------------------------------------------------------------------ logic, casts, selection


def if_then_else(condition: Any, true_value: Any, false_value: Any) -> Any:
    """true_value where condition, else false_value; only the side taken is loaded."""
    if isinstance(condition, bool):
        return true_value if condition else false_value
    return ir.select(condition, true_value, false_value)


def Select(condition: Any, true_value: Any, false_value: Any, span: Any = None) -> Any:
    """Same as if_then_else."""
    del span
    return if_then_else(condition, true_value, false_value)


def And(*values: Any) -> Any:
    """All of the conditions."""
    total: Any = True
    for v in values:
        total = ir.binary("and", total, v)
    return total


def Or(*values: Any) -> Any:
    """Any of the conditions."""
    total: Any = False
    for v in values:
        total = ir.binary("or", total, v)
    return total


def Not(value: Any) -> Any:
    """The opposite condition."""
    return ir.unary("not", value)


def cast(
    value: Any, dtype: Any, round: str = "", sat: bool = True, rbits: Any = None, span: Any = None
) -> Expr:
    """The value as another type: floats round to nearest even, floats to integers truncate and clamp."""
    del round, sat, rbits, span
    return as_expr(value).astype(as_scalar(dtype))


def Cast(dtype: Any, value: Any) -> Expr:
    """cast with the type first."""
    return cast(value, dtype)


def reinterpret(value: Any, dtype: Any, span: Any = None) -> Expr:
    """The same bits as another type of the same width (the arguments may come in either order)."""
    del span
    if isinstance(value, str | DType):
        value, dtype = dtype, value
    if dtype == "handle":  # a null handle, of T.attr
        return value
    e, kind = as_expr(value), as_scalar(dtype)
    if e.dtype.bits != kind.bits:
        raise TypeTileError(
            "TB208",
            f"reinterpret: {e.dtype} has {e.dtype.bits} bits, {kind} has {kind.bits}",
            why="the bits stay the same",
            fix="choose a type of the same width",
        )
    return ir.call("reinterpret", (e,), kind)


def index_to_coordinates(index: Any, shape: Any) -> list[Any]:
    """The coordinates of a row-major position, one for each extent of `shape`."""
    rest: Any = index
    out: list[Any] = []
    for extent in reversed(list(shape)[1:]):
        out.append(rest % extent)
        rest = rest // extent
    return [rest, *reversed(out)]
