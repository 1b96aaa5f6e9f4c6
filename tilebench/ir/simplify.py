"""Integer reasoning on index expressions: linear forms, intervals, and the rewrites that they justify."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from tilebench.ir.expr import Binary, Cast, Const, Expr, Select, Unary, Var, as_expr, binary, const, int_value
from tilebench.ir.rewrite import rebuild

Interval = tuple[int, int]
Ranges = Mapping[Var, Interval]


@dataclass(frozen=True)
class Linear:
    """sum(coefficient * term) + constant; terms are expressions not themselves linear, mostly Vars."""

    terms: tuple[tuple[Expr, int], ...]
    constant: int

    def coefficient(self, var: Expr) -> int:
        """The factor of `var`, 0 when it does not occur as a term."""
        return sum(c for t, c in self.terms if t is var)


def linear(e: Expr) -> Linear:
    """`e` as a linear form over its non-linear parts (by identity)."""
    terms: dict[Expr, int] = {}
    constant = _collect(e, 1, terms)
    return Linear(tuple((t, c) for t, c in terms.items() if c), constant)


def _collect(e: Expr, factor: int, terms: dict[Expr, int]) -> int:
    match e:
        case Const() if not e.dtype.is_float:
            return factor * int(e.value)
        case Binary(op="add"):
            return _collect(e.left, factor, terms) + _collect(e.right, factor, terms)
        case Binary(op="sub"):
            return _collect(e.left, factor, terms) + _collect(e.right, -factor, terms)
        case Binary(op="mul") if (k := int_value(e.right)) is not None:
            return _collect(e.left, factor * k, terms)
        case Binary(op="mul") if (k := int_value(e.left)) is not None:
            return _collect(e.right, factor * k, terms)
        case Unary(op="neg"):
            return _collect(e.value, -factor, terms)
        case _:
            terms[e] = terms.get(e, 0) + factor
            return 0


def from_linear(form: Linear) -> Expr:
    """The shortest expression of a linear form."""
    total: Expr | None = None
    for term, factor in form.terms:
        part = term if factor == 1 else term * factor
        total = part if total is None else total + part
    if total is None:
        return const(form.constant)
    return total + form.constant if form.constant >= 0 else total - -form.constant


def bounds(e: Expr, ranges: Ranges) -> Interval | None:
    """Inclusive interval that holds every value of an integer expression; None when nothing is known."""
    match e:
        case Const() if not e.dtype.is_float:
            return int(e.value), int(e.value)
        case Var():
            return ranges.get(e)
        case Cast() if not e.value.dtype.is_float and e.dtype.bits >= 32:
            return bounds(e.value, ranges)
        case Unary(op="neg") if (a := bounds(e.value, ranges)) is not None:
            return -a[1], -a[0]
        case Select():
            a, b = bounds(e.then, ranges), bounds(e.orelse, ranges)
            return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))
        case Binary():
            return _binary_bounds(e, ranges)
        case _:
            return None


def _binary_bounds(e: Binary, ranges: Ranges) -> Interval | None:
    if e.dtype.kind == "bool":
        return 0, 1
    a, b = bounds(e.left, ranges), bounds(e.right, ranges)
    if e.op == "floormod" and b is not None and b[0] > 0:
        if a is not None and a[0] >= 0 and a[1] < b[0]:
            return a
        return 0, b[1] - 1
    if e.op == "bitand" and b is not None and b[0] == b[1] >= 0:
        return 0, b[1]
    if a is None or b is None:
        if e.op == "min":
            known = a or b
            return None if known is None else (-(2**62), known[1])
        return None
    match e.op:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "mul":
            corners = [x * y for x in a for y in b]
            return min(corners), max(corners)
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case "floordiv" if b[0] > 0:
            corners = [x // y for x in a for y in b]
            return min(corners), max(corners)
        case "truncdiv" if b[0] > 0 and a[0] >= 0:
            return a[0] // b[1], a[1] // b[0]
        case "truncmod" if b[0] > 0 and a[0] >= 0:
            return 0, min(a[1], b[1] - 1)
        case "shl" if b[0] >= 0 and b[1] < 62:
            corners = [x << y for x in a for y in b]
            return min(corners), max(corners)
        case "shr" if b[0] >= 0 and b[1] < 64:
            corners = [x >> y for x in a for y in b]
            return min(corners), max(corners)
        case "bitand" | "bitor" | "bitxor" if a[0] >= 0 and b[0] >= 0:
            top = (1 << max(a[1], b[1]).bit_length()) - 1
            return 0, min(a[1], b[1]) if e.op == "bitand" else top
        case _:
            return None


def prove(condition: Expr, ranges: Ranges) -> bool | None:
    """True or False when the intervals decide the condition, else None."""
    match condition:
        case Const():
            return bool(condition.value)
        case Binary(op="and"):
            a, b = prove(condition.left, ranges), prove(condition.right, ranges)
            return False if a is False or b is False else True if a and b else None
        case Binary(op="or"):
            a, b = prove(condition.left, ranges), prove(condition.right, ranges)
            return True if a or b else False if a is False and b is False else None
        case Unary(op="not"):
            a = prove(condition.value, ranges)
            return None if a is None else not a
        case Binary() if (
            condition.op in ("lt", "le", "gt", "ge", "eq", "ne") and not condition.left.dtype.is_float
        ):
            difference = bounds(from_linear(linear(condition.left - condition.right)), ranges)
            return None if difference is None else _sign(condition.op, *difference)
        case _:
            return None


def _sign(op: str, low: int, high: int) -> bool | None:
    table = {
        "lt": (high < 0, low >= 0), "le": (high <= 0, low > 0), "gt": (low > 0, high <= 0),
        "ge": (low >= 0, high < 0),
        "eq": (low == high == 0, low > 0 or high < 0), "ne": (low > 0 or high < 0, low == high == 0),
    }  # fmt: skip
    yes, no = table[op]
    return True if yes else False if no else None


def simplify(e: Expr, ranges: Ranges) -> Expr:
    """`e` with divisions, remainders, min/max, comparisons and selects resolved where intervals allow it."""

    def change(node: Expr) -> Expr:
        node = rebuild(node, change)
        match node:
            case Binary(op="floordiv" | "floormod") if (k := int_value(node.right)) is not None and k > 0:
                return _divide(node, k, ranges)
            case Binary(op="min" | "max"):
                decided = (
                    prove(binary("le", node.left, node.right), ranges) if not node.dtype.is_float else None
                )
                if decided is not None:
                    return node.left if decided == (node.op == "min") else node.right
            case Select():
                decided = prove(node.condition, ranges)
                if decided is not None:
                    return node.then if decided else node.orelse
            case Binary() if node.dtype.kind == "bool":
                decided = prove(node, ranges)
                if decided is not None:
                    return as_expr(decided)
            case _:
                pass
        return node

    return change(e)


def _divide(node: Binary, k: int, ranges: Ranges) -> Expr:
    """(k*a + b) // k -> a + b // k and (k*a + b) % k -> b % k; gone altogether when b is within [0, k)."""
    form = linear(node.left)
    whole = Linear(tuple((t, c // k) for t, c in form.terms if c % k == 0), form.constant // k)
    rest = Linear(tuple((t, c) for t, c in form.terms if c % k), form.constant % k)
    rest_expr = from_linear(rest)
    interval = bounds(rest_expr, ranges)
    inside = interval is not None and interval[0] >= 0 and interval[1] < k
    shared = gcd(k, *(c for _, c in rest.terms)) if rest.terms and not inside else 1
    if (
        shared > 1
    ):  # (g*a + c) // (g*b) = (a + c // g) // b, and the remainder is g * (a % b) when g divides c
        smaller = from_linear(Linear(tuple((t, c // shared) for t, c in rest.terms), rest.constant // shared))
        if node.op == "floordiv":
            return from_linear(whole) + binary("floordiv", smaller, k // shared)
        if rest.constant % shared == 0:
            return binary("floormod", smaller, k // shared) * shared
    if node.op == "floordiv":
        high: Expr = const(0, node.dtype) if inside else binary("floordiv", rest_expr, k)
        return from_linear(whole) + high
    return rest_expr if inside else binary("floormod", rest_expr, k)
