"""Expressions of both IR levels: immutable trees whose dtype is known at construction.

Operators are overloaded, so index formulas (of a layout, of a user's helper function) work on ints, NumPy
arrays and expressions alike. `a == b` builds an expression; use `same(a, b)` to compare trees and `is` for
identity. Construction folds constants and the neutral elements (x + 0, x * 1, x // 1, x % 1), nothing more:
simplify.py does. Integer `//` and `%` are floor division and its remainder, as in Python.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from tilebench.errors import Loc, TypeTileError
from tilebench.ir.dtype import DType, bool_, float32, int32, int64, promote

if TYPE_CHECKING:
    from tilebench.ir.tile import Buffer

BinaryOp = Literal[
    "add", "sub", "mul", "div", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max", "pow",
    "and", "or", "bitand", "bitor", "bitxor", "shl", "shr", "eq", "ne", "lt", "le", "gt", "ge",
]  # fmt: skip
UnaryOp = Literal["neg", "not", "bitnot"]
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
LOGICAL = frozenset({"and", "or"})
_ids = count()


@dataclass(frozen=True, eq=False)
class Expr:
    """Base of all expressions.

    dtype: the element type; loc: where the user wrote it, None for made-up nodes.
    """

    dtype: DType = field(kw_only=True)
    loc: Loc | None = field(default=None, kw_only=True, repr=False)

    def __bool__(self) -> bool:
        raise TypeTileError(
            "TB201",
            "the value of an expression is not known while the kernel is compiled",
            at=self.loc,
            why="Python asked whether it is true (an `if`, `and`, `in` or `assert` outside the tile program)",
            fix="use `if` in the tile program itself, or T.if_then_else(condition, a, b)",
        )

    __hash__ = object.__hash__

    def __add__(self, o: Any) -> Expr:
        return binary("add", self, o)

    def __radd__(self, o: Any) -> Expr:
        return binary("add", o, self)

    def __sub__(self, o: Any) -> Expr:
        return binary("sub", self, o)

    def __rsub__(self, o: Any) -> Expr:
        return binary("sub", o, self)

    def __mul__(self, o: Any) -> Expr:
        return binary("mul", self, o)

    def __rmul__(self, o: Any) -> Expr:
        return binary("mul", o, self)

    def __truediv__(self, o: Any) -> Expr:
        return binary("div", self, o)

    def __rtruediv__(self, o: Any) -> Expr:
        return binary("div", o, self)

    def __floordiv__(self, o: Any) -> Expr:
        return binary("floordiv", self, o)

    def __rfloordiv__(self, o: Any) -> Expr:
        return binary("floordiv", o, self)

    def __mod__(self, o: Any) -> Expr:
        return binary("floormod", self, o)

    def __rmod__(self, o: Any) -> Expr:
        return binary("floormod", o, self)

    def __pow__(self, o: Any) -> Expr:
        return binary("pow", self, o)

    def __rpow__(self, o: Any) -> Expr:
        return binary("pow", o, self)

    def __and__(self, o: Any) -> Expr:
        return binary("bitand", self, o)

    def __rand__(self, o: Any) -> Expr:
        return binary("bitand", o, self)

    def __or__(self, o: Any) -> Expr:
        return binary("bitor", self, o)

    def __ror__(self, o: Any) -> Expr:
        return binary("bitor", o, self)

    def __xor__(self, o: Any) -> Expr:
        return binary("bitxor", self, o)

    def __rxor__(self, o: Any) -> Expr:
        return binary("bitxor", o, self)

    def __lshift__(self, o: Any) -> Expr:
        return binary("shl", self, o)

    def __rlshift__(self, o: Any) -> Expr:
        return binary("shl", o, self)

    def __rshift__(self, o: Any) -> Expr:
        return binary("shr", self, o)

    def __rrshift__(self, o: Any) -> Expr:
        return binary("shr", o, self)

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def __pos__(self) -> Expr:
        return self

    def __invert__(self) -> Expr:
        return unary("bitnot", self)

    def __eq__(self, o: object) -> Expr:  # pyright: ignore[reportIncompatibleMethodOverride] # builds an expression
        return binary("eq", self, o)

    def __ne__(self, o: object) -> Expr:  # pyright: ignore[reportIncompatibleMethodOverride] # likewise
        return binary("ne", self, o)

    def __lt__(self, o: Any) -> Expr:
        return binary("lt", self, o)

    def __le__(self, o: Any) -> Expr:
        return binary("le", self, o)

    def __gt__(self, o: Any) -> Expr:
        return binary("gt", self, o)

    def __ge__(self, o: Any) -> Expr: return binary("ge", self, o)  # fmt: skip

    def astype(self, dtype: DType) -> Expr:
        """This value cast to `dtype`."""
        return cast(self, dtype)


@dataclass(frozen=True, eq=False)
class Const(Expr):
    """A literal. value: int, float or bool (inf and nan allowed for floats)."""

    value: int | float | bool

    def __int__(self) -> int:
        """The number, without what follows the point."""
        return int(self.value)


@dataclass(frozen=True, eq=False)
class Var(Expr):
    """A scalar name: loop index, block index, thread index, scalar parameter, bound value.

    Identity is what counts.
    """

    name: str
    id: int = field(default_factory=lambda: next(_ids), kw_only=True)


@dataclass(frozen=True, eq=False)
class Load(Expr):
    """`buffer[indices]`, one element. At tile level one index a dimension; at thread level one flat index."""

    buffer: Buffer
    indices: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Unary(Expr):
    """neg | not (logical) | bitnot."""

    op: UnaryOp
    value: Expr


@dataclass(frozen=True, eq=False)
class Binary(Expr):
    """Both operands have the same dtype (shifts excepted); comparisons and and/or give bool."""

    op: BinaryOp
    left: Expr
    right: Expr


@dataclass(frozen=True, eq=False)
class Cast(Expr):
    """Value conversion; float to narrower float rounds to nearest even, float to int truncates."""

    value: Expr


@dataclass(frozen=True, eq=False)
class Select(Expr):
    """`then` where `condition` else `orelse`. Short-circuit: the side not taken is not loaded from memory."""

    condition: Expr
    then: Expr
    orelse: Expr


@dataclass(frozen=True, eq=False)
class Call(Expr):
    """An intrinsic by name: see ir/intrinsics.py for the closed table of names, arities and meanings."""

    name: str
    args: tuple[Expr, ...]


Number = int | float | bool


def const(value: Number, dtype: DType | None = None, loc: Loc | None = None) -> Const:
    """A Const; the dtype defaults to bool, int32 (int64 when it does not fit), float32.

    Wraps ints to the dtype. Raises TypeTileError TB202 for an int that no float is close to.
    """
    if dtype is None:
        if isinstance(value, bool):
            dtype = bool_
        elif isinstance(value, int):
            dtype = int32 if -(2**31) <= value < 2**31 else int64
        else:
            dtype = float32
    if dtype.kind == "bool":
        value = bool(value)
    elif dtype.is_float:
        try:
            value = float(value)
        except OverflowError:
            raise TypeTileError(
                "TB202",
                f"an integer of {int(value).bit_length()} bits is no {dtype}",
                why="a float that is written as an integer is below 2**1024",
                fix="use a smaller number, or T.infinity(dtype)",
            ) from None
    else:
        value = wrap(int(value), dtype)
    return Const(value, dtype=dtype, loc=loc)


def wrap(value: int, dtype: DType) -> int:
    """`value` reduced to the range of an integer dtype (two's complement)."""
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def as_expr(value: Any, dtype: DType | None = None) -> Expr:
    """An Expr from an Expr or a Python/NumPy number. Raises TypeTileError TB202 for anything else."""
    if isinstance(value, Expr):
        return value if dtype is None else cast(value, dtype)
    if isinstance(value, bool | int | float):
        if dtype is None and isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise TypeTileError(
                "TB202",
                f"the number {value if abs(value) < 2**128 else 'with ' + str(value.bit_length()) + ' bits'} "
                "fits in no integer type",
                why="the widest have 64 bits",
                fix="use a smaller number, or a float: float(x)",
            )
        return const(value, dtype)
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "ndim", 0) == 0:
        return as_expr(item(), dtype)
    raise TypeTileError(
        "TB202",
        f"{type(value).__name__} {str(value)[:60]!r} is not a scalar value",
        why="arithmetic in a tile program is on scalars: elements, indices, numbers",
        fix="index a buffer to get an element, as in A[i, j]",
    )


def is_const(value: Expr, number: Number | None = None) -> bool:
    """Whether `value` is a Const (equal to `number`, when given)."""
    return isinstance(value, Const) and (number is None or value.value == number)


def int_value(value: Expr | int) -> int | None:
    """The Python int of a constant integer expression, else None."""
    if isinstance(value, int):
        return int(value)
    return int(value.value) if isinstance(value, Const) and not value.dtype.is_float else None


_PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge,
    "bitand": lambda a, b: a & b, "bitor": lambda a, b: a | b, "bitxor": lambda a, b: a ^ b,
    "and": lambda a, b: bool(a) and bool(b), "or": lambda a, b: bool(a) or bool(b),
}  # fmt: skip


def _fold(op: str, a: Const, b: Const, dtype: DType) -> Expr | None:
    x, y = a.value, b.value
    if op in _PYTHON:
        if a.dtype.is_float and op in ("min", "max") and (math.isnan(x) or math.isnan(y)):
            return None
        if a.dtype.is_float and a.dtype.bits < 64 and op in ("add", "sub", "mul"):
            return None  # rounding is the target's business
        return const(_PYTHON[op](x, y), dtype)
    if a.dtype.is_float:
        return None
    x, y = int(x), int(y)
    if op == "floordiv" and y:
        return const(x // y, dtype)
    if op == "floormod" and y:
        return const(x % y, dtype)
    if op == "truncdiv" and y:
        return const(abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1), dtype)
    if op == "truncmod" and y:
        return const(x - y * (abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)), dtype)
    if op == "shl" and 0 <= y < a.dtype.bits:
        return const(x << y, dtype)
    if op == "shr" and 0 <= y < a.dtype.bits:
        return const(x >> y, dtype)
    return None


def _match(op: str, left: Any, right: Any) -> tuple[Expr, Expr]:
    """Both operands as expressions of one dtype: a Python number takes the other's type where it can."""
    if not isinstance(left, Expr) and isinstance(right, Expr):
        left = _literal(left, right.dtype)
    elif not isinstance(right, Expr) and isinstance(left, Expr):
        right = _literal(right, left.dtype)
    a, b = as_expr(left), as_expr(right)
    if op in LOGICAL:
        return to_bool(a), to_bool(b)
    if op in ("shl", "shr"):
        return a, cast(b, a.dtype)
    if a.dtype != b.dtype:
        # an integer literal in the user's text adopts the other operand's type
        common = promote(a.dtype, b.dtype)
        a, b = cast(a, common), cast(b, common)
    return a, b


def _literal(value: Any, other: DType) -> Expr:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return as_expr(value)
    if isinstance(value, float):
        return const(value, other if other.is_float else float32)
    if other.is_float:
        return const(value, other)
    fits = other.kind != "bool" and other.min <= value <= other.max
    return const(value, other) if fits else as_expr(value)


def binary(op: BinaryOp, left: Any, right: Any, loc: Loc | None = None) -> Expr:
    """`left op right` with operands brought to one dtype and constants folded."""
    a, b = _match(op, left, right)
    if op == "div" and not a.dtype.is_float:
        a, b = cast(a, float32), cast(b, float32)
    if a.dtype.kind == "bool" and op in (
        "add",
        "sub",
        "mul",
        "floordiv",
        "floormod",
        "truncdiv",
        "truncmod",
        "shl",
        "shr",
    ):
        a, b = cast(a, int32), cast(b, int32)
    if op in ("bitand", "bitor", "bitxor") and a.dtype.is_float:
        raise TypeTileError(
            "TB203",
            f"{a.dtype} has no bitwise operators",
            at=loc or a.loc,
            why="& | ^ work on the bits of integers and on booleans",
            fix="T.reinterpret(x, 'int32') gives the bits of a float; `and`/`or` combine conditions",
        )
    dtype = bool_ if op in COMPARISONS or op in LOGICAL else a.dtype
    if isinstance(a, Const) and isinstance(b, Const):
        folded = _fold(op, a, b, dtype)
        if folded is not None:
            return folded
    if not a.dtype.is_float:
        neutral = _neutral(op, a, b)
        if neutral is not None:
            return neutral
    return Binary(op, a, b, dtype=dtype, loc=loc)


def _neutral(op: str, a: Expr, b: Expr) -> Expr | None:
    if op == "and":
        if is_const(a):
            return b if is_const(a, True) else a
        return (a if is_const(b, True) else b) if is_const(b) else None
    if op == "or":
        if is_const(a):
            return a if is_const(a, True) else b
        return (b if is_const(b, True) else a) if is_const(b) else None
    if isinstance(b, Const) and b.dtype.kind != "bool":
        if b.value == 0 and op in ("add", "sub", "bitor", "bitxor", "shl", "shr"):
            return a
        if b.value == 0 and op in ("mul", "bitand"):
            return b
        if b.value == 1 and op in ("mul", "floordiv", "truncdiv"):
            return a
        if b.value == 1 and op in ("floormod", "truncmod"):
            return const(0, b.dtype)
    if isinstance(a, Const) and a.dtype.kind != "bool":
        if a.value == 0 and op in ("add", "bitor", "bitxor"):
            return b
        if a.value == 0 and op in ("mul", "bitand"):
            return a
        if a.value == 1 and op == "mul":
            return b
    return None


def unary(op: UnaryOp, value: Any, loc: Loc | None = None) -> Expr:
    """`op value`, folded when constant."""
    a = to_bool(as_expr(value)) if op == "not" else as_expr(value)
    if isinstance(a, Const):
        if op == "neg":
            return const(-a.value, int32 if a.dtype.kind == "bool" else a.dtype, loc)
        if op == "not":
            return const(not a.value, bool_, loc)
        if not a.dtype.is_float:
            return const(~int(a.value), a.dtype, loc)
    if op == "bitnot" and a.dtype.kind == "bool":
        op = "not"
    return Unary(op, a, dtype=a.dtype, loc=loc)


def cast(value: Expr, dtype: DType, loc: Loc | None = None) -> Expr:
    """`value` as `dtype`; no node when it already has it; exact constants are converted now."""
    if value.dtype == dtype:
        return value
    if isinstance(value, Const) and not (value.dtype.is_float and not dtype.is_float):
        if math.isfinite(value.value):
            is_small_int = float(value.value) == int(value.value) and abs(value.value) <= 16
            exact = dtype.bits >= 32 or not dtype.is_float or is_small_int
        else:
            exact = dtype.bits >= 16
        if exact:
            return const(value.value, dtype, value.loc)
    return Cast(value, dtype=dtype, loc=loc or value.loc)


def to_bool(value: Expr) -> Expr:
    """`value != 0` for numbers; booleans as they are."""
    return value if value.dtype.kind == "bool" else binary("ne", value, const(0, value.dtype))


def select(condition: Any, then: Any, orelse: Any, loc: Loc | None = None) -> Expr:
    """A Select with both arms of one dtype; folded when the condition is constant."""
    c = to_bool(as_expr(condition))
    a, b = _match("add", then, orelse)
    if isinstance(c, Const):
        return a if c.value else b
    return Select(c, a, b, dtype=a.dtype, loc=loc)


def call(name: str, args: Sequence[Any], dtype: DType, loc: Loc | None = None) -> Call:
    """An intrinsic call; names are in ir/intrinsics.py."""
    return Call(name, tuple(as_expr(a) for a in args), dtype=dtype, loc=loc)


def same(a: Expr, b: Expr) -> bool:
    """Whether two trees are equal: same nodes, operators, constants, variables and buffers."""
    if a is b:
        return True
    if type(a) is not type(b) or a.dtype != b.dtype:
        return False
    match a, b:
        case Const(), Const():
            return a.value == b.value or (a.value != a.value and b.value != b.value)
        case Var(), Var():
            return False
        case Load(), Load():
            return a.buffer is b.buffer and _all_same(a.indices, b.indices)
        case Unary(), Unary():
            return a.op == b.op and same(a.value, b.value)
        case Binary(), Binary():
            return a.op == b.op and same(a.left, b.left) and same(a.right, b.right)
        case Cast(), Cast():
            return same(a.value, b.value)
        case Select(), Select():
            return same(a.condition, b.condition) and same(a.then, b.then) and same(a.orelse, b.orelse)
        case Call(), Call():
            return a.name == b.name and _all_same(a.args, b.args)
        case _:
            return False


def _all_same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
