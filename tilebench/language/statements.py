"""Statements that neither assign nor branch: expressions, return, assert, raise, import, def."""

from __future__ import annotations

import ast
import importlib
from typing import Any

from tilebench.errors import SyntaxTileError, TypeTileError
from tilebench.ir.expr import Call, Expr, Load, Var, to_bool
from tilebench.ir.intrinsics import INTRINSICS
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import Assert, Buffer, Evaluate
from tilebench.language.inlining import local_function
from tilebench.language.scope import Frame
from tilebench.language.walker import Returned, Walker


def pass_(walker: Walker, node: ast.Pass, frame: Frame) -> None:
    """Nothing."""


def import_(walker: Walker, node: ast.Import, frame: Frame) -> None:
    """`import x.y as z`, while compiling."""
    for alias in node.names:
        module = _module(alias.name, node, frame)
        frame.names[alias.asname or alias.name.split(".")[0]] = (
            module if alias.asname else _module(alias.name.split(".")[0], node, frame)
        )


def import_from(walker: Walker, node: ast.ImportFrom, frame: Frame) -> None:
    """`from x import y`, while compiling."""
    module = _module(node.module or "", node, frame)
    for alias in node.names:
        if not hasattr(module, alias.name):
            raise TypeTileError(
                "TB211",
                f"cannot import {alias.name} from {node.module}",
                at=frame.loc(node),
                why="the module has no such name",
                fix="correct the name",
            )
        frame.names[alias.asname or alias.name] = getattr(module, alias.name)


def _module(name: str, node: ast.AST, frame: Frame) -> Any:
    try:
        return importlib.import_module(name)
    except (ImportError, ValueError) as error:
        raise TypeTileError(
            "TB211",
            f"the import failed: {error}",
            at=frame.loc(node),
            why="Python imports it while the kernel is compiled",
            fix="import it outside of the kernel, or install it",
        ) from error


def function_def(walker: Walker, node: ast.FunctionDef, frame: Frame) -> None:
    """A `def` inside the program: inlined where it is called; decorators may only say so."""
    frame.names[node.name] = local_function(walker, node, frame)
    frame.bound_at[node.name] = frame.depth


def expression(walker: Walker, node: ast.Expr, frame: Frame) -> None:
    """A call for its effect."""
    if isinstance(node.value, ast.Constant):
        return  # a docstring, or an ellipsis
    value = walker.evaluate(node.value, frame)
    if isinstance(value, Expr) and not isinstance(value, Load | Var) and _has_effect(value):
        walker.emit(Evaluate(value), frame.loc(node))


def _has_effect(e: Expr) -> bool:
    return any(isinstance(n, Call) and INTRINSICS[n.name].effect for n in walk(e))


def return_(walker: Walker, node: ast.Return, frame: Frame) -> None:
    """`return` of an inlined function, or the outputs of an eager one."""
    if frame.depth:
        raise SyntaxTileError(
            "TB104",
            "return inside a run-time loop or branch",
            at=frame.loc(node),
            why="a block runs its program to the end",
            fix="put the rest under an if",
        )
    raise Returned(None if node.value is None else _returned(walker, node.value, frame))


def _returned(walker: Walker, node: ast.expr, frame: Frame) -> Any:
    if isinstance(node, ast.Tuple) and not any(isinstance(n, ast.Starred) for n in node.elts):
        return tuple(_returned(walker, n, frame) for n in node.elts)
    if isinstance(node, ast.Name):
        known, value = frame.find(node.id)
        if known and isinstance(value, Buffer) and value.scope != "var":
            return value
    return walker.evaluate(node, frame)


def assert_(walker: Walker, node: ast.Assert, frame: Frame) -> None:
    """A condition that is known now is checked now; else the kernel checks it."""
    condition = walker.evaluate(node.test, frame)
    message = str(walker.evaluate(node.msg, frame)) if node.msg is not None else ast.unparse(node.test)
    if isinstance(condition, Expr):
        walker.emit(Assert(to_bool(condition), message), frame.loc(node))
    elif not condition:
        raise TypeTileError(
            "TB221",
            f"assertion failed: {message}",
            at=frame.loc(node),
            why="it does not hold for these parameters",
            fix="choose parameters for which it holds",
        )


def raise_(walker: Walker, node: ast.Raise, frame: Frame) -> None:
    """`raise` that is reached while compiling: the user's own check failed."""
    if frame.depth:
        raise SyntaxTileError(
            "TB102",
            "raise inside a run-time loop or branch",
            at=frame.loc(node),
            why="a kernel cannot raise a Python exception",
            fix="T.device_assert(condition, message)",
        )
    error = walker.evaluate(node.exc, frame) if node.exc is not None else "no exception"
    name = error.__name__ if isinstance(error, type) else type(error).__name__
    raise TypeTileError(
        "TB221",
        f"{name}: {error}" if not isinstance(error, type) else name,
        at=frame.loc(node),
        why="the program raises it for these parameters",
        fix="choose other parameters",
    )
