"""Calls of thread IR as C++ text: functions of the CUDA library and of the prelude, shuffles and votes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilebench.backends.cuda.literals import ADD, EQUAL, MUL, POSTFIX, TERNARY, UNARY, Text, unsigned
from tilebench.backends.cuda.prelude import NARROW_FLOATS, c_name
from tilebench.errors import TargetError
from tilebench.ir.dtype import DType
from tilebench.ir.expr import Call, Expr

if TYPE_CHECKING:
    from tilebench.backends.cuda.values import Values

_SAME_NAME = (
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh",
    "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "round",
    "trunc", "pow", "fmod", "atan2", "copysign", "hypot", "nextafter", "fma",
)  # fmt: skip
_LIBRARY = {name: name for name in _SAME_NAME} | {"nearbyint": "rint"}
_FAST_BUILTIN = {
    "exp": "__expf", "exp10": "__exp10f", "log": "__logf", "log2": "__log2f", "log10": "__log10f",
    "sin": "__sinf", "cos": "__cosf", "tan": "__tanf", "pow": "__powf",
}  # fmt: skip
_FAST_PIECE = {
    "rcp": "rcp_fast", "rsqrt": "rsqrt_fast", "sqrt": "sqrt_fast", "tanh": "tanh_fast",
    "sigmoid": "sigmoid_fast",
}  # fmt: skip
_SHUFFLES = {
    "shfl_xor": "__shfl_xor_sync",
    "shfl_up": "__shfl_up_sync",
    "shfl_down": "__shfl_down_sync",
    "shfl": "__shfl_sync",
}
_VOTES = {"ballot": "__ballot_sync", "any_sync": "__any_sync", "all_sync": "__all_sync"}
_BLOCK_VOTES = {
    "syncthreads_and": "__syncthreads_and",
    "syncthreads_or": "__syncthreads_or",
    "syncthreads_count": "__syncthreads_count",
}
_ROLE_VOTES = ("barrier_and", "barrier_or")
FULL_WARP = "0xffffffffu"


def moves_bits(e: Expr) -> bool:
    """Whether a call moves bits and does not calculate: shuffles and reinterpretations."""
    return isinstance(e, Call) and (e.name in _SHUFFLES or e.name == "reinterpret")


def call_text(values: Values, e: Call) -> Text:
    """A call: intrinsics, shuffles, votes, functions of the library. Raises TargetError TB507."""
    name = e.name
    if name in _SHUFFLES or name == "reinterpret":
        return bits_call(values, e), POSTFIX
    if name in _VOTES:
        vote = f"{_VOTES[name]}({FULL_WARP}, {values.text(e.args[0], TERNARY)})"
        return (vote, POSTFIX) if name == "ballot" else (f"{vote} != 0", EQUAL)
    if name in _BLOCK_VOTES:
        vote = f"{_BLOCK_VOTES[name]}({values.text(e.args[0], TERNARY)})"
        return (vote, POSTFIX) if name == "syncthreads_count" else (f"{vote} != 0", EQUAL)
    if name in _ROLE_VOTES:
        values.use(name)
        predicate, *where = (values.text(a, TERNARY) for a in e.args)
        return f"{name}<{', '.join(where)}>({predicate})", POSTFIX
    special = _SPECIAL.get(name)
    if special is not None:
        return special(values, e)
    if name not in _LIBRARY and name not in ("rcp", "sigmoid"):
        raise TargetError(
            "TB507",
            f"the CUDA back end does not have {name}",
            at=e.loc,
            why="it is not in the table of intrinsics",
            fix="write it with other functions",
        )
    return _math(values, e)


def _math(values: Values, e: Call) -> Text:
    double = e.dtype == "float64"
    arguments = ", ".join(values.text(a, TERNARY) for a in e.args)
    if e.name == "exp2" and not double:
        # as accurate as exp2f, which is the same instruction between two scalings; results below 2^-126
        # are zero
        values.use("exp2_fast")
        return f"exp2_fast({arguments})", POSTFIX
    if values.fast_math and not double:
        if e.name in _FAST_BUILTIN:
            return f"{_FAST_BUILTIN[e.name]}({arguments})", POSTFIX
        if e.name in _FAST_PIECE:
            values.use(_FAST_PIECE[e.name])
            return f"{_FAST_PIECE[e.name]}({arguments})", POSTFIX
    if e.name == "tanh" and not double:
        values.use("tanh_f32")
        return f"tanh_f32({arguments})", POSTFIX
    if e.name == "rcp":
        if double:
            return f"1.0 / {values.text(e.args[0], UNARY)}", MUL
        values.use("rcp")
        return f"rcp({arguments})", POSTFIX
    if e.name == "sigmoid":
        values.use("sigmoid")
        return f"sigmoid({arguments})", POSTFIX
    return f"{_LIBRARY[e.name]}{'' if double else 'f'}({arguments})", POSTFIX


def bits_call(values: Values, e: Call) -> str:
    """Shuffles and reinterpretations: they move bits, so narrow floats stay in stored form."""
    if e.name == "reinterpret":
        values.use("bit_cast")
        _use_type(values, e.dtype)
        return f"bit_cast<{c_name(e.dtype)}>({_as_type(e.args[0].dtype, values.stored(e.args[0]))})"
    lane = values.text(e.args[1], TERNARY)
    name, x = _SHUFFLES[e.name], e.args[0]
    if x.dtype.name in NARROW_FLOATS:
        c = c_name(x.dtype)
        values.use(c)
        width = "unsigned short" if x.dtype.bits == 16 else "unsigned char"
        return f"{c}{{({width}){name}({FULL_WARP}, (unsigned)({values.stored(x)}).x, {lane})}}"
    if x.dtype.bits < 32:
        return f"({c_name(x.dtype)}){name}({FULL_WARP}, (int){values.text(x, UNARY)}, {lane})"
    return f"{name}({FULL_WARP}, {values.text(x, TERNARY)}, {lane})"


def _use_type(values: Values, dtype: DType) -> None:
    if dtype.name in NARROW_FLOATS:
        values.use(c_name(dtype))


def _as_type(dtype: DType, text: str) -> str:
    return f"({c_name(dtype)})({text})" if dtype.bits < 32 and dtype.name not in NARROW_FLOATS else text


def _absolute(values: Values, e: Call) -> Text:
    text = values.text(e.args[0], TERNARY)
    if e.dtype.is_float:
        return f"fabs{'' if e.dtype == 'float64' else 'f'}({text})", POSTFIX
    if e.dtype.kind != "int":
        return values.value(e.args[0])
    return values.narrow(e.dtype, f"{'ll' if e.dtype.bits == 64 else ''}abs({text})", POSTFIX)


def _class_of(piece: str) -> Callable[[Values, Call], Text]:
    def print_it(values: Values, e: Call) -> Text:
        values.use(piece)
        return f"{piece}({values.text(e.args[0], TERNARY)})", POSTFIX

    return print_it


def _of_pair(values: Values, e: Call) -> Text:
    values.use(e.name)
    return f"{e.name}({', '.join(values.text(a, TERNARY) for a in e.args)})", POSTFIX


def _count_bits(values: Values, e: Call) -> Text:
    x = e.args[0]
    bits = x.dtype.bits
    word = unsigned(x.dtype) if bits >= 32 else "unsigned char" if bits <= 8 else "unsigned short"
    text = f"({word}){values.text(x, UNARY)}"
    if e.name == "popcount":
        return f"__popc{'ll' if bits == 64 else ''}({text})", POSTFIX
    if bits == 64:
        return f"__clzll((long long){text})", POSTFIX
    return (f"__clz((int){text})", POSTFIX) if bits == 32 else (f"__clz((int){text}) - {32 - bits}", ADD)


def _scale(values: Values, e: Call) -> Text:
    x, n = values.text(e.args[0], TERNARY), values.text(e.args[1], UNARY)
    return f"ldexp{'' if e.dtype == 'float64' else 'f'}({x}, (int){n})", POSTFIX


_SPECIAL: dict[str, Callable[[Values, Call], Text]] = {
    "abs": _absolute,
    "isnan": _class_of("is_nan"),
    "isinf": _class_of("is_inf"),
    "isfinite": _class_of("is_finite"),
    "popcount": _count_bits,
    "clz": _count_bits,
    "activemask": lambda values, e: ("__activemask()", POSTFIX),
    "ldexp": _scale,
    "dp4a": lambda values, e: (f"__dp4a({', '.join(values.text(a, TERNARY) for a in e.args)})", POSTFIX),
    **dict.fromkeys(
        ("f16x2", "f16x2_add", "f16x2_sub", "f16x2_mul", "f16x2_fma", "f16x2_finite", "in_register"), _of_pair
    ),
    "pow": lambda values, e: values.power(e.args[0], e.args[1], e.dtype),
}  # fmt: skip
