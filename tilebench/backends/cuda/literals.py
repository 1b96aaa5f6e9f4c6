"""C++ literals, and how tightly C++ operators bind."""

from __future__ import annotations

import math

import numpy as np

from tilebench.ir.dtype import DType

# Precedence of C++ operators; larger binds tighter.
COMMA, TERNARY, OR, AND, BITOR, BITXOR, BITAND, EQUAL, LESS, SHIFT, ADD, MUL, UNARY, POSTFIX = range(14)
Text = tuple[str, int]
"""An expression and the precedence of its outermost operator."""


def constant(value: int | float | bool, dtype: DType) -> Text:
    """A literal of the computing type of `dtype` (float for narrow floats)."""
    if dtype.kind == "bool":
        return ("true" if value else "false"), POSTFIX
    if dtype == "float64":
        return _float_text(float(value), "", "__longlong_as_double(0x{:x}ll)", np.float64, np.uint64)
    if dtype.is_float:
        return _float_text(float(value), "f", "__uint_as_float(0x{:x}u)", np.float32, np.uint32)
    number = int(value)
    suffix = {"int64": "ll", "uint64": "ull", "uint32": "u"}.get(dtype.name, "")
    if number == dtype.min and dtype.kind == "int" and dtype.bits >= 32:
        return f"(-{-(number + 1)}{suffix} - 1)", POSTFIX
    return f"{number}{suffix}", POSTFIX if number >= 0 else UNARY


def _float_text(value: float, suffix: str, bits: str, kind: type[np.floating], raw: type[np.integer]) -> Text:
    with np.errstate(all="ignore"):
        exact = kind(value)
    if not math.isfinite(float(exact)):
        return bits.format(int(exact.view(raw))), POSTFIX
    plain = 1e-4 <= abs(exact) < 1e7 or exact == 0
    form = np.format_float_positional if plain else np.format_float_scientific
    text = form(exact, unique=True, trim="0")
    return text + suffix, UNARY if text.startswith("-") else POSTFIX


def at_least(text: Text, rank: int) -> str:
    """The expression, in parentheses where an operator of `rank` needs them."""
    return f"({text[0]})" if text[1] < rank else text[0]


def unsigned(dtype: DType) -> str:
    """The C++ type in which an integer type wraps."""
    return "unsigned long long" if dtype.bits == 64 else "unsigned"
