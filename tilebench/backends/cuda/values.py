"""Expressions of thread IR as C++ text.

A narrow float has two forms: *stored* (the struct in memory) and *value* (a float that holds it exactly);
everything else has one. `value` gives an expression to calculate with, `stored` one to put into memory, both
rounded once. Integer arithmetic on indices is plain; on the program's own data it wraps (through unsigned),
as in NumPy.
"""

from __future__ import annotations

import math

import numpy as np

from tilebench.backends.cuda.calls import bits_call, call_text, moves_bits
from tilebench.backends.cuda.literals import (
    ADD,
    AND,
    BITAND,
    BITOR,
    BITXOR,
    COMMA,
    EQUAL,
    LESS,
    MUL,
    OR,
    POSTFIX,
    SHIFT,
    TERNARY,
    UNARY,
    Text,
    at_least,
    constant,
    unsigned,
)  # fmt: skip
from tilebench.backends.cuda.pairs import read_word
from tilebench.backends.cuda.prelude import NARROW_FLOATS, PIECES, Piece, c_name, storage_bits
from tilebench.errors import InternalError
from tilebench.ir.dtype import DType, float32, round_to
from tilebench.ir.expr import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
    int_value,
)
from tilebench.ir.rewrite import walk
from tilebench.ir.simplify import Interval, bounds
from tilebench.ir.thread import Memory

_OPERATORS: dict[str, Text] = {
    "add": ("+", ADD), "sub": ("-", ADD), "mul": ("*", MUL), "div": ("/", MUL), "bitand": ("&", BITAND),
    "bitor": ("|", BITOR), "bitxor": ("^", BITXOR), "eq": ("==", EQUAL), "ne": ("!=", EQUAL),
    "lt": ("<", LESS), "le": ("<=", LESS), "gt": (">", LESS), "ge": (">=", LESS), "and": ("&&", AND),
    "or": ("||", OR),
}  # fmt: skip


class Values:
    """Prints expressions. It collects the prelude pieces used, and knows the names and ranges of
    variables.

    names: variables in scope; memories: names of memories; ranges: intervals of integer variables; data:
    variables that hold the program's own data (not indices).
    """

    def __init__(self, fast_math: bool) -> None:
        self.fast_math = fast_math
        self.used: dict[str, Piece] = {}
        self.names: dict[Var, str] = {}
        self.memories: dict[Memory, str] = {}
        self.ranges: dict[Var, Interval] = {}
        self.data: set[Var] = set()
        self.long: set[Var] = set()
        self._data_cache: dict[int, tuple[Expr, bool]] = {}

    # ---------------------------------------------------------------- bookkeeping

    def use(self, piece: str | Piece) -> None:
        """Put a piece into the text."""
        piece = PIECES[piece] if isinstance(piece, str) else piece
        self.used[piece.name] = piece

    def is_data(self, e: Expr) -> bool:
        """Whether a value comes from memory, scalar arguments or calls rather than from indices alone."""
        known = self._data_cache.get(id(e))
        if known is not None:
            return known[1]
        match e:
            case Const():
                found = False
            case Var():
                return e in self.data
            case Load() | Call():
                found = True
            case Unary() | Cast():
                found = self.is_data(e.value)
            case Binary():
                found = self.is_data(e.left) or self.is_data(e.right)
            case Select():
                found = self.is_data(e.then) or self.is_data(e.orelse)
            case _:
                found = True
        self._data_cache[id(e)] = (e, found)
        return found

    def interval(self, e: Expr) -> Interval | None:
        """Bounds of an integer expression, None when unknown."""
        return bounds(e, self.ranges)

    def non_negative(self, e: Expr) -> bool:
        """Whether an integer expression is provably at least 0."""
        if e.dtype.kind == "uint":
            return True
        found = self.interval(e)
        return found is not None and found[0] >= 0

    def outgrows(self, e: Expr) -> bool:
        """Whether a 32-bit index may not fit in 32 bits (it then counts in 64; data wraps instead)."""
        if not e.dtype.is_int or e.dtype.bits != 32 or self.is_data(e):
            return False
        found = self.interval(e)
        return found is not None and (found[0] < -(2**31) or found[1] >= 2**31)

    def is_long(self, e: Expr) -> bool:
        """Whether a 32-bit expression has 64 bits in the text."""
        return any(isinstance(n, Var) and n in self.long for n in walk(e)) if self.long else False

    # ---------------------------------------------------------------- entry points

    def text(self, e: Expr, rank: int = COMMA) -> str:
        """The value of `e` to calculate with, in parentheses where an operator of `rank` needs them."""
        return at_least(self.value(e), rank)

    def stored(self, e: Expr) -> str:
        """`e` in the form that memory holds."""
        dtype = e.dtype
        if dtype.name not in NARROW_FLOATS:
            return self.text(e, TERNARY)
        c = c_name(dtype)
        self.use(c)
        match e:
            case Load():
                return self._element(e)
            case Var():
                return self.names[e]
            case Const():
                return f"{c}{{{storage_bits(float(e.value), dtype):#x}}}"
            case Select():
                return f"({self.text(e.condition, OR)} ? {self.stored(e.then)} : {self.stored(e.orelse)})"
            case Call() if moves_bits(e):
                return bits_call(self, e)
            case Cast():
                return self._narrowed(e, c)
            case _:
                self.use(f"{c}_f32")
                return f"to_{c}({self._raw(e)[0]})"

    def _narrowed(self, e: Cast, c: str) -> str:
        """A conversion to the narrow float `c`: from float, from double where the hardware rounds it
        directly, else by float.
        """
        source = e.value.dtype
        if source == "float64" and c == "f16":
            self.use("f16_f64")
            return f"to_f16({self.text(e.value, TERNARY)})"
        self.use(f"{c}_f32")
        is_float = source.is_float and source != "float64"
        return f"to_{c}({self.text(e.value, TERNARY) if is_float else '(float)' + self.text(e.value, UNARY)})"

    def value(self, e: Expr) -> Text:
        """The value of `e` to calculate with, and the rank of its outermost operator."""
        if e.dtype.name not in NARROW_FLOATS:
            return self._raw(e)
        if isinstance(e, Const):
            return constant(_rounded(e.value, e.dtype), e.dtype)
        if moves_bits(e) or isinstance(e, Load | Var | Select) or not _is_exact(e):
            if isinstance(e, Select):
                return self._select(e)
            self.use(f"f32_{c_name(e.dtype)}")
            return f"to_f32({self.stored(e)})", POSTFIX
        return self._raw(e)

    def address(self, memory: Memory, index: Expr) -> str:
        """`memory + index` as a pointer."""
        name = self.memories[memory]
        if int_value(index) == 0:
            return name
        return f"{name} + {self.index_text(memory, index, ADD + 1)}"

    def index_text(self, memory: Memory, index: Expr, rank: int = COMMA) -> str:
        """An element index; in 64 bits where the memory may have 2^31 elements or more."""
        if memory.space == "global" and index.dtype.bits < 64 and not self._is_small(memory):
            return at_least(self.wide(index), rank)
        return self.text(index, rank)

    def _is_small(self, memory: Memory) -> bool:
        found = self.interval(memory.shape[0])
        return found is not None and found[1] < 2**31

    def wide(self, e: Expr) -> Text:
        """An integer expression evaluated in 64 bits: only its leaves are 32-bit values."""
        found = self.interval(e)
        if (
            e.dtype.bits >= 64
            or isinstance(e, Const)
            or (found and found[0] >= -(2**31) and found[1] < 2**31)
        ):
            return self.value(e)
        match e:
            case Var() if e in self.long:
                return self.names[e], POSTFIX
            case Binary(op="add" | "sub" | "mul"):
                symbol, rank = _OPERATORS[e.op]
                left, right = at_least(self.wide(e.left), rank), at_least(self.wide(e.right), rank + 1)
                small = [x for x in (e.left, e.right) if self._narrow_leaf(x)]
                if len(small) == 2:
                    left = f"(long long){at_least(self.value(e.left), UNARY)}"
                return f"{left} {symbol} {right}", rank
            case Unary(op="neg"):
                return f"-{at_least(self.wide(e.value), UNARY)}", UNARY
            case _:
                return f"(long long){self.text(e, UNARY)}", UNARY

    def _narrow_leaf(self, e: Expr) -> bool:
        found = self.interval(e)
        return e.dtype.bits < 64 and (
            isinstance(e, Const) or bool(found and found[0] >= -(2**31) and found[1] < 2**31)
        )

    # ---------------------------------------------------------------- one node

    def _raw(self, e: Expr) -> Text:
        """The value of `e`; a narrow float not yet rounded."""
        match e:
            case Const():
                return constant(e.value, e.dtype)
            case Var():
                return self.names[e], POSTFIX
            case Load():
                return self._element(e), POSTFIX
            case Unary():
                return self._unary(e)
            case Cast():
                return self._cast(e)
            case Select():
                return self._select(e)
            case Binary():
                return self._binary(e)
            case Call():
                return call_text(self, e)
            case _:
                raise InternalError("TB902", f"{type(e).__name__} has no CUDA C++ form", at=e.loc)

    def _element(self, e: Load) -> str:
        assert isinstance(e.buffer, Memory), f"{e.buffer.name}: a tile-level buffer in thread IR"
        return f"{self.memories[e.buffer]}[{self.index_text(e.buffer, e.indices[0])}]"

    def _select(self, e: Select) -> Text:
        arms = f"{self.text(e.then, TERNARY)} : {self.text(e.orelse, TERNARY)}"
        return f"{self.text(e.condition, OR)} ? {arms}", TERNARY

    def _unary(self, e: Unary) -> Text:
        if e.op == "not":
            return f"!{self.text(e.value, UNARY)}", UNARY
        if e.op == "neg":
            if e.dtype.is_int and self.is_data(e):
                return self._wrapped(e.dtype, f"0u - ({unsigned(e.dtype)}){self.text(e.value, UNARY)}")
            text = self.text(e.value, UNARY)
            return ("-" + text if not text.startswith("-") else f"-({text})"), UNARY
        return self.narrow(e.dtype, f"~{self.text(e.value, UNARY)}", UNARY)

    def narrow(self, dtype: DType, text: str, rank: int) -> Text:
        """An integer result brought back to its width: C++ calculates in int."""
        if dtype.name == "int4":
            return f"((int)((unsigned)({text}) << 28) >> 28)", POSTFIX
        if dtype.name == "uint4":
            return f"(({text}) & 15)", POSTFIX
        if dtype.is_int and dtype.bits < 32:
            return f"({c_name(dtype)})({text})", UNARY
        return text, rank

    def _wrapped(self, dtype: DType, text: str) -> Text:
        if dtype.bits < 32:
            return self.narrow(dtype, text, ADD)
        return f"({c_name(dtype)})({text})", UNARY

    def _binary(self, e: Binary) -> Text:
        op, dtype = e.op, e.left.dtype
        if op in ("min", "max"):
            return self._extreme(e)
        if op in ("shl", "shr"):
            return self._shift(e)
        if op in ("floordiv", "floormod", "truncdiv", "truncmod"):
            return self._division(e)
        if op == "pow":
            return self.power(e.left, e.right, e.dtype)
        if op == "div" and dtype != "float64":
            return self._quotient(e)
        pair = read_word(e)
        if pair is not None:
            assert isinstance(pair.buffer, Memory)
            return f"*(const unsigned*)({self.address(pair.buffer, pair.indices[0])})", UNARY
        symbol, rank = _OPERATORS[op]
        if op in COMPARISONS or op in ("and", "or") or dtype.is_float:
            tight = rank + 1
            if op in ("and", "or"):
                same = [isinstance(x, Binary) and x.op == op for x in (e.left, e.right)]
                parts = (
                    self.text(x, rank if s else BITOR) for x, s in zip((e.left, e.right), same, strict=True)
                )
                return f" {symbol} ".join(parts), rank
            left = self.text(e.left, tight if op in COMPARISONS else rank)
            return f"{left} {symbol} {self.text(e.right, tight)}", rank
        if op in ("add", "sub", "mul") and dtype.kind == "int" and dtype.bits >= 32 and self.is_data(e):
            found = self.interval(e)
            limit = 1 << (dtype.bits - 1)
            if found is None or found[0] < -limit or found[1] >= limit:
                u = unsigned(dtype)
                parts = (f"({u}){self.text(x, UNARY)}" for x in (e.left, e.right))
                return self._wrapped(dtype, f" {symbol} ".join(parts))
        text = f"{self._operand(e.left, op, rank)} {symbol} {self._operand(e.right, op, rank + 1)}"
        if dtype.kind == "bool":
            return text, rank
        return self.narrow(e.dtype, text, rank)

    def _quotient(self, e: Binary) -> Text:
        """A division of floats. By a power of two it is a product; to a narrow float 2 ulp of float32
        round the same.
        """
        if isinstance(e.right, Const) and _has_exact_reciprocal(float(e.right.value)):
            factor = constant(1.0 / float(e.right.value), float32)[0]
            return f"{self.text(e.left, MUL)} * {factor}", MUL
        name = "divide_fast" if self.fast_math or e.dtype.name in NARROW_FLOATS else "divide"
        self.use(name)
        return f"{name}({self.text(e.left, TERNARY)}, {self.text(e.right, TERNARY)})", POSTFIX

    def _operand(self, e: Expr, op: str, rank: int) -> str:
        """An operand; one of a bit operator or shift that is itself made of operators is put in
        parentheses, to be read easily.
        """
        if op in ("add", "sub", "mul") or (isinstance(e, Binary) and e.op == op and op not in ("shl", "shr")):
            return self.text(e, rank)
        return self.text(e, UNARY)

    def _extreme(self, e: Binary) -> Text:
        a, b = self.text(e.left, TERNARY), self.text(e.right, TERNARY)
        if e.dtype.kind == "bool":
            symbol = "&" if e.op == "min" else "|"
            return f"{self.text(e.left, EQUAL)} {symbol} {self.text(e.right, EQUAL)}", BITOR
        if e.dtype.is_float:
            return f"f{e.op}{'' if e.dtype == 'float64' else 'f'}({a}, {b})", POSTFIX
        if e.dtype.bits < 32:
            return f"{e.op}((int){self.text(e.left, UNARY)}, (int){self.text(e.right, UNARY)})", POSTFIX
        if e.dtype.bits == 32 and self.is_long(e):
            a, b = (f"(long long){self.text(x, UNARY)}" for x in (e.left, e.right))
        return f"{e.op}({a}, {b})", POSTFIX

    def _shift(self, e: Binary) -> Text:
        amount = int_value(e.right)
        if amount is not None and 0 <= amount < e.dtype.bits:
            if e.op == "shl":
                if e.dtype.kind == "int" and e.dtype.bits >= 32 and self.is_data(e):
                    return self._wrapped(
                        e.dtype, f"({unsigned(e.dtype)}){self.text(e.left, UNARY)} << {amount}"
                    )
                return self.narrow(e.dtype, f"{self.text(e.left, UNARY)} << {amount}", SHIFT)
            return f"{self.text(e.left, UNARY)} >> {amount}", SHIFT
        name = "shift_left" if e.op == "shl" else "shift_right"
        self.use(name)
        c = c_name(e.dtype)
        return self.narrow(
            e.dtype, f"{name}<{c}>({self.text(e.left, TERNARY)}, (int){self.text(e.right, UNARY)})", POSTFIX
        )

    def _division(self, e: Binary) -> Text:
        k = int_value(e.right)
        quotient = e.op in ("floordiv", "truncdiv")
        floor = e.op in ("floordiv", "floormod")
        if k is not None and k > 0:
            if floor and k & (k - 1) == 0:
                if quotient:
                    return f"{self.text(e.left, UNARY)} >> {k.bit_length() - 1}", SHIFT
                return f"{self.text(e.left, UNARY)} & {constant(k - 1, e.dtype)[0]}", BITAND
            if not floor or self.non_negative(e.left):
                return self.narrow(
                    e.dtype,
                    f"{self.text(e.left, MUL)} {'/' if quotient else '%'} {constant(k, e.dtype)[0]}",
                    MUL,
                )
        name = "trunc" if not floor else "floor"
        name += "div" if quotient else "mod"
        if floor and self.non_negative(e.left) and self.non_negative(e.right):
            name += "_u"
        self.use(name)
        c = c_name(e.dtype)
        return f"{name}<{c}>({self.text(e.left, TERNARY)}, {self.text(e.right, TERNARY)})", POSTFIX

    def power(self, base: Expr, exponent: Expr, dtype: DType) -> Text:
        """base ** exponent."""
        if dtype.is_int:
            self.use("integer_power")
            return (
                f"integer_power<{c_name(dtype)}>({self.text(base, TERNARY)}, {self.text(exponent, TERNARY)})",
                POSTFIX,
            )
        if isinstance(exponent, Const) and exponent.value == 2:
            self.use("square")
            return f"square({self.text(base, TERNARY)})", POSTFIX
        name = "pow" if dtype == "float64" else "__powf" if self.fast_math else "powf"
        return f"{name}({self.text(base, TERNARY)}, {self.text(exponent, TERNARY)})", POSTFIX

    def _cast(self, e: Cast) -> Text:
        source, to = e.value.dtype, e.dtype
        text = self.text(e.value, UNARY)
        if to.kind == "bool":
            return f"{self.text(e.value, EQUAL + 1)} != 0", EQUAL
        if to == "tfloat32":
            self.use("tf32_f32")
            return f"to_tf32((float){text})", POSTFIX
        if to.is_float:
            if to == "float64":
                return f"(double){text}", UNARY
            is_float = source.is_float and source != "float64"
            return (text, UNARY) if is_float else (f"(float){text}", UNARY)
        if source.is_float and to.bits < 32:
            text = f"(int){text}"
        if to.name in ("int4", "uint4"):
            return self.narrow(to, text, UNARY)
        return f"({c_name(to)}){text}", UNARY


def _has_exact_reciprocal(value: float) -> bool:
    return math.isfinite(value) and abs(math.frexp(value)[0]) == 0.5 and 2.0**-100 < abs(value) < 2.0**100


def _rounded(value: float, dtype: DType) -> float:
    with np.errstate(all="ignore"):
        return float(round_to(np.asarray([value], np.float32), dtype)[0])


_EXACT_CALLS = frozenset({"abs", "floor", "ceil", "round", "trunc", "nearbyint", "copysign", "fmod"})


def _is_exact(e: Expr) -> bool:
    """Whether an operation on narrow floats gives a narrow float without rounding."""
    match e:
        case Binary(op="min" | "max") | Unary(op="neg"):
            return True
        case Call():
            return e.name in _EXACT_CALLS
        case _:
            return False
