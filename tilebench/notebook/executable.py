"""Which statements of a half-typed cell may be executed: those that compute a value and do nothing else."""

from __future__ import annotations

import ast
import math
import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any

PURE = frozenset(
    [
        "int", "float", "bool", "str", "len", "min", "max", "abs", "round", "sum", "range", "tuple", "list",
        "dict", "set", "sorted", "divmod", "pow", "zip", "enumerate",
    ]
)  # fmt: skip
"""Builtins that may be called; beside them, what belongs to one of MODULES."""
LARGEST_POWER, LARGEST_REPEAT = 64, 100_000
LARGEST_RANGE = 1_000_000
"""Numbers that all ranges of one expression may count through together, nested ones multiplied."""
MODULES = frozenset({"T", "tilebench", "tilelang", "math"})


def executable_part(body: str, scope: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The text with the top-level statements blanked out whose execution could do more than compute a value.

    Also the names that are unknown for that reason: functions, and variables that `scope` does not have.
    Lines keep their numbers. Text that is not Python comes back as it is: its error is the first thing to
    say.
    """
    try:
        tree = ast.parse(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return body, []
    lines = body.split("\n")
    missing: list[str] = []
    known = dict(scope)
    for statement in tree.body:
        if _is_pure(statement, known):
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    known[name] = _value(value, known)
                case _:
                    pass
            continue
        if isinstance(statement, ast.FunctionDef):
            missing.append(statement.name)  # perhaps the program itself
        else:
            stored = (
                n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            )
            missing += [n.id for n in stored if n.id not in scope]
        for k in range(statement.lineno - 1, statement.end_lineno or statement.lineno):
            lines[k] = ""
    return "\n".join(lines), list(dict.fromkeys(missing))


def _is_pure(statement: ast.stmt, scope: Mapping[str, Any]) -> bool:
    match statement:
        case ast.FunctionDef():
            outside = [*statement.decorator_list, *statement.args.defaults]
            outside += [d for d in statement.args.kw_defaults if d is not None]
            outside += [a.annotation for a in _arguments(statement.args) if a.annotation is not None]
            return all(_is_pure_expression(e, scope) for e in outside)
        case ast.Assign(targets=targets, value=value):
            return all(isinstance(t, ast.Name | ast.Tuple) for t in targets) and _is_pure_expression(
                value, scope
            )
        case ast.AnnAssign(target=ast.Name(), value=value):
            return value is None or _is_pure_expression(value, scope)
        case ast.Import(names=names):
            return all(n.name in sys.modules for n in names)
        case ast.ImportFrom(module=module):
            return module in sys.modules
        case ast.Pass():
            return True
        case _:
            return False


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _may_explode(e: ast.AST) -> bool:
    """Whether a power or a repeated sequence could fill the memory before it can be interrupted."""
    if not isinstance(e, ast.BinOp):
        return False
    if isinstance(e.op, ast.Pow):
        return not (isinstance(e.right, ast.Constant) and abs(_number(e.right)) <= LARGEST_POWER)
    sides = (e.left, e.right)
    if not isinstance(e.op, ast.Mult) or not any(_is_sequence(s) for s in sides):
        return False
    return not any(isinstance(s, ast.Constant) and 0 <= _number(s) <= LARGEST_REPEAT for s in sides)


def _is_sequence(e: ast.expr) -> bool:
    return isinstance(e, ast.List | ast.Tuple) or (
        isinstance(e, ast.Constant) and isinstance(e.value, str | bytes)
    )


def _number(e: ast.Constant) -> float:
    """The number that it is; infinite for anything else."""
    return e.value if isinstance(e.value, int | float) else math.inf


def _counts_too_far(e: ast.expr, scope: Mapping[str, Any]) -> bool:
    """Whether its ranges have too many numbers to go through while somebody types, as far as constants and
    known names tell.
    """
    total = 1.0
    for node in ast.walk(e):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            ends = [_value(a, scope) for a in node.args]
            if node.func.id == "range" and not node.keywords and 1 <= len(ends) <= 3:
                first, last = (0.0, ends[0]) if len(ends) == 1 else (ends[0], ends[1])
                step = ends[2] if len(ends) == 3 else 1.0
                count = (last - first) / step if step else math.nan
                total *= max(1.0, count) if not math.isnan(count) else 1.0
            elif node.func.id == "pow" and not (len(ends) > 1 and abs(ends[1]) <= LARGEST_POWER):
                return True
    return total > LARGEST_RANGE


def _value(e: ast.expr, scope: Mapping[str, Any]) -> float:
    """A number of constants and known names; NaN for anything else, infinite where it is too large."""
    match e:
        case ast.Constant():
            return _float(e.value) if isinstance(e.value, int | float) else math.nan
        case ast.Name(id=name):
            known = scope.get(name)
            return _float(known) if isinstance(known, int | float) else math.nan
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, scope)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            try:
                return _ARITHMETIC[type(op)](_value(left, scope), _value(right, scope))
            except (ArithmeticError, ValueError):
                return math.inf
        case _:
            return math.nan


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


_ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Pow: math.pow,
}


def _is_pure_expression(e: ast.expr, scope: Mapping[str, Any]) -> bool:
    """Whether it calls nothing but builtins of PURE and what MODULES hold, and comes to an end soon."""
    if _counts_too_far(e, scope):
        return False
    for node in ast.walk(e):
        if isinstance(node, ast.Call):
            called = node.func
            while isinstance(called, ast.Attribute):
                called = called.value
            if not isinstance(called, ast.Name):
                return False
            known = MODULES if called is not node.func else {*PURE, "jit"}
            if called.id not in known:
                return False
        elif (isinstance(node, ast.BinOp) and _may_explode(node)) or isinstance(
            node, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr
        ):
            return False
    return True
