"""A program as text and plain values, so that another process can make it again: no closures, no pickle.

What travels: the text of the function and of each function and macro of the user's that it names, lines where
they were (so the generated code is the same to the byte); the values that they name; for modules, classes and
functions of known packages their names. Whatever else the program names makes it not portable, and the reason
says which name that is.
"""

from __future__ import annotations
import __future__

import ast
import functools
import hashlib
import importlib
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, cast

import numpy as np

from tilebench.errors import Source, TileError
from tilebench.ir.dtype import DType, as_dtype
from tilebench.kernel.recall import TRUSTED, names_in
from tilebench.language.parse import parse_module
from tilebench.language.scope import node_of, outer_names, source_of

FUTURE = __future__.annotations.compiler_flag
Data = dict[str, Any]
"""Plain JSON data."""


class NotPortable(Exception):
    """The program names something that cannot be sent as text; the message says what."""


def encode(value: Any, name: str = "a value") -> Any:
    """JSON data for a plain value. Raises NotPortable."""
    match value:
        case Enum():
            return {"enum": _reference(cast("type[Any]", type(value)), name), "member": value.name}
        case None | bool() | int() | float() | str():
            return value
        case DType():
            return {"dtype": value.name}
        case np.generic():
            return encode(value.item(), name)
        case tuple() | list():
            items = [encode(v, name) for v in cast("Sequence[Any]", value)]
            return {"tuple": items} if isinstance(value, tuple) else {"list": items}
        case range():
            return {"range": [value.start, value.stop, value.step]}
        case Mapping():
            pairs = cast("Mapping[Any, Any]", value).items()
            return {"dict": [[encode(k, name), encode(v, name)] for k, v in pairs]}
        case types.ModuleType():
            if not _known(value.__name__):
                raise NotPortable(f"{name} is the module {value.__name__}, which a worker may not have")
            return {"module": value.__name__}
        case _:
            kind = cast("type[Any]", type(value))
            if kind.__module__ == "torch" and kind.__name__ == "dtype":
                return {"object": ["torch", str(value).removeprefix("torch.")]}
            return {"object": _reference(value, name)}


def decode(data: Any) -> Any:
    """The value that `encode` described."""
    if not isinstance(data, dict):
        return data
    match cast("Data", data):
        case {"enum": [module, path], "member": member}:
            return _find(module, path)[member]
        case {"dtype": name}:
            return as_dtype(name)
        case {"tuple": items}:
            return tuple(decode(v) for v in items)
        case {"list": items}:
            return [decode(v) for v in items]
        case {"range": [start, stop, step]}:
            return range(start, stop, step)
        case {"dict": pairs}:
            return {decode(k): decode(v) for k, v in pairs}
        case {"module": name}:
            return importlib.import_module(_trusted(name))
        case {"object": [module, path]}:
            return _find(module, path)
        case _:
            raise ValueError(f"no value is described by {sorted(cast('Data', data))}")


def _known(module: str | None) -> bool:
    return (module or "").partition(".")[0] in TRUSTED


def _trusted(module: str) -> str:
    if not _known(module):
        raise ValueError(f"{module} is not one of the packages that a program may name")
    return module


def _find(module: str, path: str) -> Any:
    return functools.reduce(getattr, path.split("."), importlib.import_module(_trusted(module)))


def _reference(value: Any, name: str) -> list[str]:
    """[module, path] of a class, function or constant of a known package."""
    module = str(getattr(value, "__module__", ""))
    paths = (getattr(value, a, None) for a in ("__qualname__", "__name__", "_name"))
    for path in (p for p in (*paths, name) if isinstance(p, str) and p.replace(".", "").isidentifier()):
        home = sys.modules.get(module) if _known(module) else None
        if home is not None and functools.reduce(_get, path.split("."), cast("Any", home)) is value:
            return [module, path]
    raise NotPortable(f"{name} is a {type(value).__name__}, which cannot be written as text")


def _get(holder: Any, name: str) -> Any:
    return getattr(holder, name, None)


# ------------------------------------------------------------------ functions


class _Collector:
    """Gathers functions by the source they stand in, and values by name."""

    def __init__(self) -> None:
        self.sources: dict[str, tuple[Source, list[tuple[int, ast.FunctionDef]]]] = {}
        self.functions: dict[str, Any] = {}
        self.values: Data = {}
        self.later: dict[str, bool] = {}

    def add(self, function: types.FunctionType, *, decorated: bool) -> None:
        """The function's text and what it names. decorated: keep the lines of its decorators."""
        name = function.__name__
        if name in self.functions:
            if self.functions[name] is not function:
                raise NotPortable(f"two functions are called {name}")
            return
        self.functions[name] = function
        try:
            source = source_of(function)
            node = node_of(function, source)
        except TileError as error:
            raise NotPortable(f"{name}: {error.what}") from None
        first = node.lineno
        if decorated and node.decorator_list:
            first = min(d.lineno for d in node.decorator_list)
        self.sources.setdefault(source.name, (source, []))[1].append((first, node))
        known = outer_names(function)
        for used in sorted(_used(function, node, decorated=decorated) & known.keys()):
            self._name(used, known[used])
        later = bool(function.__code__.co_flags & FUTURE)
        self.later.setdefault(source.name, later)
        for used in sorted(_annotating(node) & known.keys() - self.values.keys() - self.functions.keys()):
            try:
                self._name(used, known[used])
            except NotPortable:
                if not later:  # else it stays text, and a worker that needs the value says so
                    raise

    def _name(self, name: str, value: Any) -> None:
        inner = getattr(value, "function", value)  # a macro or program of the language, or a function
        own = inner is value or type(value).__module__.startswith("tilebench.language")
        if isinstance(inner, types.FunctionType) and own and not _known(inner.__module__):
            self.add(inner, decorated=True)
            if inner.__name__ != name:
                self._value(name, {"alias": inner.__name__})
            return
        self._value(name, encode(value, name))

    def _value(self, name: str, data: Any) -> None:
        if self.values.setdefault(name, data) != data:
            raise NotPortable(f"{name} has two values in the functions of the program")


def _used(function: types.FunctionType, node: ast.FunctionDef, *, decorated: bool) -> set[str]:
    """Names that the function's text reads from around it."""
    loaded = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    inside = set(names_in(function.__code__)) | set(function.__code__.co_freevars)
    outside: list[ast.AST] = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
    outside += node.decorator_list if decorated else []
    return (loaded & inside) | {n.id for o in outside for n in ast.walk(o) if isinstance(n, ast.Name)}


def _annotating(node: ast.FunctionDef) -> set[str]:
    """Names in the annotations of the function and of those inside it."""
    texts: list[ast.AST] = []
    for part in ast.walk(node):
        if isinstance(part, ast.arg) and part.annotation is not None:
            texts.append(part.annotation)
        elif isinstance(part, ast.FunctionDef) and part.returns is not None:
            texts.append(part.returns)
    return {n.id for t in texts for n in ast.walk(t) if isinstance(n, ast.Name)}


def describe(function: Callable[..., Any]) -> Data:
    """The program as JSON data: its name, texts with their first lines, and values. Raises NotPortable."""
    if not inspect.isfunction(function):
        raise NotPortable(f"{type(function).__name__} is not a function with a text")
    collector = _Collector()
    collector.add(function, decorated=False)
    texts = [
        [_kept(*entry, later=collector.later[name]), entry[0].first_line]
        for name, entry in collector.sources.items()
    ]
    overlap = collector.values.keys() & collector.functions.keys()
    if overlap:
        raise NotPortable(f"{min(overlap)} has two values in the functions of the program")
    return {"name": function.__name__, "texts": texts, "values": collector.values}


def _kept(source: Source, nodes: Iterable[tuple[int, ast.FunctionDef]], *, later: bool) -> str:
    """The source with every line blank that belongs to none of the functions; those begin at column 0."""
    lines = source.text.splitlines()
    kept = [""] * len(lines)
    shift = source.first_line
    for first, node in nodes:
        for number in range(first, (node.end_lineno or node.lineno) + 1):
            line = lines[number - shift]
            lead = len(line) - len(line.lstrip())
            kept[number - shift] = line[min(node.col_offset, lead) :]
    if later and not kept[0]:
        kept[0] = "from __future__ import annotations"
    return "\n".join(kept).rstrip() + "\n"


def restore(data: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that `describe` described, defined anew in a namespace of its own."""
    aliases: dict[str, str] = {}
    scope: dict[str, Any] = {}
    for name, value in data["values"].items():
        if isinstance(value, dict) and "alias" in value:
            aliases[name] = cast("Data", value)["alias"]
        else:
            scope[name] = decode(value)
    for text, first in data["texts"]:
        label = hashlib.sha256(text.encode()).hexdigest()[:8]
        parse_module(Source(f"<tuned {data['name']} {label}>", text, first), scope)
    for name, other in aliases.items():
        scope[name] = scope[other]
    return cast("Callable[..., Any]", scope[data["name"]])
