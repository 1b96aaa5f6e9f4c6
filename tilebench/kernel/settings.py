"""`--set NAME=VALUE`: values of a program's own names, in force while its cell is defined and compiled.

A setting wins over an assignment at the top of the cell and over a variable of the notebook, so it reaches
the annotations of the signature as well as the body; afterwards both are what they were. A name that nothing
in the program reads is an error, with the nearest name that is read.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import symtable
import types
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tilebench.errors import LaunchError, nearest
from tilebench.kernel.recall import names_in

HOOK = "__tile_setting__"
"""Behind an assignment of NAME in the cell, when it is executed, stands `NAME = HOOK('NAME', NAME)`."""
_CONST = re.compile(r"T\s*\.\s*const\(\s*[\"']([^\"']*)[\"']")
_DEPTH = 4


@contextmanager
def in_force(scope: dict[str, Any], settings: Mapping[str, Any]) -> Generator[None]:
    """The settings in the scope, assignments of them overruled; afterwards the scope has its own values."""
    before = {k: scope[k] for k in settings if k in scope}
    own: dict[str, Any] = {}

    def overrule(name: str, value: Any) -> Any:
        own[name] = value
        return settings[name]

    scope.update(settings)
    scope[HOOK] = overrule
    try:
        yield
    finally:
        scope.pop(HOOK, None)
        for name in settings:
            scope.pop(name, None)
        scope.update({**before, **own})


def overruled(tree: ast.Module, names: Sequence[str]) -> ast.Module:
    """The module with `NAME = HOOK('NAME', NAME)` behind each statement that assigns one of the names."""
    if not names:
        return tree
    body: list[ast.stmt] = []
    for node in tree.body:
        body.append(node)
        for name in sorted(_assigned(node) & set(names)):
            load: ast.expr = ast.Name(name, ast.Load())
            call = ast.Call(ast.Name(HOOK, ast.Load()), [ast.Constant(name), load], [])
            put = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], call), node)
            body.append(ast.fix_missing_locations(put))
    tree.body = body
    return tree


def _assigned(node: ast.stmt) -> set[str]:
    """Names that a statement assigns in its own scope."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return set()
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return set()
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    inner = {
        n.id
        for f in ast.walk(node)
        if isinstance(f, ast.FunctionDef | ast.Lambda)
        for n in ast.walk(f)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    return found - inner


def check_text(settings: Mapping[str, Any], text: str, scope: Mapping[str, Any]) -> None:
    """Raises LaunchError TB616 for a setting that nothing in the text (or in what it calls) reads."""
    if not settings:
        return
    try:
        known = _of_text(text, scope)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # not Python: running it says so better
    _refuse(settings, known, scope)


def check_program(settings: Mapping[str, Any], program: Any) -> None:
    """The same for a program that is an object: its settings are its own parameters and T.const names."""
    if not settings:
        return
    inner = getattr(program, "function", program)
    inner = getattr(inner, "function", inner)  # a tuned function holds a jit function
    known: set[str] = set()
    if inspect.isfunction(inner):
        known = set(inspect.signature(inner).parameters)
        try:
            known |= _consts(inspect.getsource(inner))
        except OSError:
            known |= set()
    _refuse(settings, known, {})


def settable(text: str, scope: Mapping[str, Any]) -> tuple[str, ...]:
    """Names that the text reads and that hold a number, a string or a tuple; () when it is not Python."""
    try:
        known = _of_text(text, scope)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(_plain(known, scope))


def _plain(known: set[str], scope: Mapping[str, Any]) -> list[str]:
    return sorted(
        k
        for k in known
        if k not in ("T", "tilebench")
        and not hasattr(builtins, k)
        and isinstance(scope.get(k, 0), int | float | str | tuple)
    )


def _refuse(settings: Mapping[str, Any], known: set[str], scope: Mapping[str, Any]) -> None:
    for name in settings:
        if name in known:
            continue
        plain = _plain(known, scope)
        raise LaunchError(
            "TB616",
            f"--set {name}: the program reads no such name{nearest(name, plain)}",
            why=f"names that can be set here: {', '.join(plain[:12]) or 'none'}",
            fix="a setting is a parameter of a factory, or a name that the cell or its functions read",
        )


def _of_text(text: str, scope: Mapping[str, Any]) -> set[str]:
    top = symtable.symtable(text, "<cell>", "exec")
    known = {s.get_name() for s in top.get_symbols() if s.is_referenced() or s.is_assigned()}
    known -= {s.get_name() for s in top.get_symbols() if s.is_imported() or s.is_namespace()}
    known |= _globals_of(top)
    known |= _parameters(ast.parse(text)) | _consts(text)
    functions = [scope[n] for n in list(known) if n in scope]
    return known | _read_by(functions, _DEPTH)


def _globals_of(table: symtable.SymbolTable) -> set[str]:
    found: set[str] = set()
    for child in table.get_children():
        found |= {s.get_name() for s in child.get_symbols() if s.is_global() and not s.is_namespace()}
        found |= _globals_of(child)
    return found


def _parameters(tree: ast.Module) -> set[str]:
    """Parameters of the functions at the top of a cell that can be values: not those declared as tensors."""
    return {
        a.arg
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        if a.annotation is None or not re.search(r"Tensor|Buffer", ast.unparse(a.annotation))
    }


def _consts(text: str) -> set[str]:
    return {n.strip() for names in _CONST.findall(text) for n in names.split(",")}


def _read_by(values: Sequence[Any], depth: int) -> set[str]:
    """Names that user functions among the values read, and the functions that those call."""
    found: set[str] = set()
    if not depth:
        return found
    for value in values:
        plain = getattr(value, "function", value)
        plain = getattr(plain, "function", plain)
        if not isinstance(plain, types.FunctionType) or plain.__module__.partition(".")[0] == "tilebench":
            continue
        names = set(names_in(plain.__code__))
        held = [plain.__globals__[n] for n in names if n in plain.__globals__]
        found |= names & plain.__globals__.keys() | _read_by(held, depth - 1)
    return found
