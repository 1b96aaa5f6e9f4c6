"""Calls: of functions that are inlined, of built-ins on run-time values, of functions that Python runs."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING, Any, cast

from tilebench.errors import SyntaxTileError, TypeTileError
from tilebench.ir import expr as ir
from tilebench.ir.expr import Expr
from tilebench.ir.tile import Buffer, Region, TileOp
from tilebench.language.dtypes import SCALARS
from tilebench.language.inlining import inline, is_inlined
from tilebench.language.markers import LoopSpec
from tilebench.language.scope import Frame

if TYPE_CHECKING:
    from tilebench.language.expressions import Expressions


def call(evaluate: Expressions, node: ast.Call, frame: Frame) -> Any:
    """The value of a call: inlined, a built-in on run-time values, or run by Python."""
    function = evaluate.base(node.func, frame)
    raw: list[Any] = []
    for a in node.args:
        if isinstance(a, ast.Starred):
            raw.extend(evaluate.iterated(evaluate(a.value, frame), a, frame))
        else:
            raw.append(evaluate.base(a, frame))
    named: dict[str, Any] = {}
    for k in node.keywords:
        if k.arg is not None:
            named[k.arg] = evaluate.base(k.value, frame)
            continue
        table = evaluate(k.value, frame)
        if not isinstance(table, dict):
            raise TypeTileError(
                "TB211",
                f"** of a {type(table).__name__}",
                at=frame.loc(k.value),
                why="it spreads a dict into arguments",
                fix="use a dict",
            )
        named.update(cast("dict[str, Any]", table))
    if is_inlined(function, raw, named):
        return inline(evaluate.walker, function, raw, named, node, frame)
    if function is print:
        _refuse_print([*raw, *named.values()], node, frame)
    positional = [evaluate.read(v) for v in raw]
    named = {k: evaluate.read(v) for k, v in named.items()}
    builtin = _builtin(function, positional, named, node, frame)
    if builtin is not NotImplemented:
        return builtin
    if not callable(function):
        raise TypeTileError(
            "TB214",
            f"{ast.unparse(node.func)} is a {type(function).__name__} and cannot be called",
            at=frame.loc(node.func),
            why="only functions can",
            fix="call a function",
        )
    what = getattr(function, "__name__", type(function).__name__)
    why, fix = _foreign(function, [*positional, *named.values()], node)
    value = evaluate.native(node, frame, lambda: function(*positional, **named), f"{what}()", why, fix)
    return evaluate.walker.finish_call(_annotated(value, named.get("annotations")), node, frame)


def _annotated(value: Any, given: Any) -> Any:
    """A tile op with the annotations that its call was given."""
    if not isinstance(value, TileOp) or not isinstance(given, dict):
        return value
    named = cast("dict[Any, Any]", given)
    return dataclasses.replace(value, annotations=tuple((str(k), v) for k, v in named.items()))


def _foreign(function: Any, values: list[Any], node: ast.Call) -> tuple[str, str]:
    """(why, fix) for another library's function of what only the running kernel knows: np.exp(x[i, j])."""
    ours = (getattr(function, "__module__", None) or "").startswith("tilebench.")
    if ours or not any(isinstance(v, Expr | Buffer | Region) for v in values):
        return "", ""
    from tilebench import language

    called, name = ast.unparse(node.func), getattr(function, "__name__", "")
    name = {"maximum": "max", "minimum": "min"}.get(name, name)
    why = f"{called} is Python's and runs once, while the kernel is compiled: the value is not known yet"
    fix = f"T.{name}(...)" if name in dir(language) else "the language's own functions: dir(T) lists them"
    return why, fix


def _refuse_print(values: list[Any], node: ast.Call, frame: Frame) -> None:
    """print() of what only the running kernel knows. Raises SyntaxTileError TB102."""
    named = [
        ast.unparse(a)
        for a, v in zip(node.args, values, strict=False)
        if isinstance(v, Expr | Buffer | Region)
    ]
    if named:
        raise SyntaxTileError(
            "TB102",
            f"print() of {', '.join(named)}, which only the running kernel knows",
            at=frame.loc(node),
            why="print() is Python's and runs once, while the kernel is compiled",
            fix=f"T.print({named[0]}) prints it from the kernel; print() of sizes and constants is fine",
        )


def _builtin(function: Any, values: list[Any], named: dict[str, Any], node: ast.Call, frame: Frame) -> Any:
    """Python built-ins that mean something on run-time values."""
    if function is range and len(values) in (1, 2, 3):
        if any(isinstance(v, Expr) for v in values):
            start, stop = (0, values[0]) if len(values) == 1 else values[:2]
            return LoopSpec("serial", start=start, stop=stop, step=values[2] if len(values) > 2 else 1)
        return NotImplemented
    if not any(isinstance(v, Expr) for v in values) or named:
        if any(isinstance(v, LoopSpec) for v in values):
            raise TypeTileError(
                "TB225",
                f"{ast.unparse(node.func)} of a run-time loop",
                at=frame.loc(node),
                why="its iterations are run by the kernel, not by Python",
                fix="loop over it with for",
            )
        return NotImplemented
    if function in (min, max) and len(values) > 1:
        total = values[0]
        for v in values[1:]:
            total = ir.binary("min" if function is min else "max", total, v, frame.loc(node))
        return total
    if function is abs:
        return ir.call("abs", values, values[0].dtype, frame.loc(node))
    if function in (int, float, bool):
        kind = {int: "int32", float: "float32", bool: "bool"}[function]
        return (
            ir.to_bool(values[0]) if function is bool else ir.cast(values[0], SCALARS[kind], frame.loc(node))
        )
    if function is pow and len(values) == 2:
        return ir.binary("pow", values[0], values[1], frame.loc(node))
    if function is divmod and len(values) == 2:
        left, right = values
        return (
            ir.binary("floordiv", left, right, frame.loc(node)),
            ir.binary("floormod", left, right, frame.loc(node)),
        )
    if function is round and len(values) == 1:
        return (
            ir.call("round", values, values[0].dtype, frame.loc(node))
            if values[0].dtype.is_float
            else values[0]
        )
    return NotImplemented
