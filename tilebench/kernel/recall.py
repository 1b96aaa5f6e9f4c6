"""What was compiled in this process, by what it was compiled from: a second run of a cell compiles nothing.

The key of a program is its text and the value of everything that the text can name: globals, closure cells,
defaults, annotations, the same of each function and macro that it calls; then the target, the options and the
configuration. A program that names a value which may change without its key changing (a tensor, an object of
the user's class, a module of the user's, `globals()`) has no key, and is compiled each time; the store of
binaries still saves the longest part.
"""

from __future__ import annotations

import functools
import inspect
import re
import threading
import types
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, cast

import numpy as np

from tilebench import compiler, config
from tilebench.errors import TileError
from tilebench.ir import tile
from tilebench.ir.dtype import DType
from tilebench.ir.expr import Var
from tilebench.targets import Target

ENTRIES = 64
_PACKAGES = """builtins tilebench numpy torch math cmath typing functools itertools operator dataclasses enum
collections __future__"""
TRUSTED = frozenset(_PACKAGES.split())
"""Packages whose functions, classes and constants do not change while a notebook lives."""
_BUILTINS = "globals locals vars eval exec open input print id random __import__"
IMPURE = frozenset(_BUILTINS.split())
"""Built-in functions whose value or effect is not in the text."""
_WORD = re.compile(r"[A-Za-z_]\w*")


class NoKey(Exception):
    """The program names something that may change without its key changing."""


@dataclass(frozen=True)
class Recalled:
    """A parsed program with its options, and what the compiler made of it."""

    prim: tile.Kernel
    compilation: compiler.Compilation


class Memory:
    """The last ENTRIES compilations. Safe to use from several threads."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Any, Recalled] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any) -> Recalled | None:
        """The compilation with this key, which becomes the last to be forgotten."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key: Any, value: Recalled) -> None:
        """Keep a compilation; the one not asked for longest goes."""
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            while len(self._entries) > ENTRIES:
                self._entries.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()


@functools.cache
def memory() -> Memory:
    """The one memory of this process."""
    return Memory()


def key_of(program: Any, target: Target, *options: Any) -> Any:
    """A hashable key of a program (a function or a @T.prim_func), or None when it has none."""
    freezer = _Freezer()
    try:
        return freezer.value(program), freezer.value(options), str(target), config.current()
    except (NoKey, RecursionError, TileError):
        return None


class _Freezer:
    """Hashable stand-ins for values: equal exactly when the values mean the same to the compiler."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def value(self, x: Any) -> Any:
        """The stand-in of `x`. Raises NoKey when it has none."""
        match x:
            case None | DType():
                return (_name(x), str(x))
            case bool() | int() | str() | bytes():
                return (_name(x), x)
            case float() | complex():
                return (_name(x), repr(x))  # 0.0 and -0.0 are equal, and differ
            case Enum():
                return ("enum", _name(x), x.name, self.value(x.value))
            case tuple() | list():
                return (_name(x), *map(self.value, cast("tuple[Any, ...]", x)))
            case set() | frozenset():
                return (_name(x), frozenset(map(self.value, cast("set[Any]", x))))
            case Mapping():
                items = cast("Mapping[Any, Any]", x).items()
                return ("mapping", *((self.value(key), self.value(item)) for key, item in items))
            case range():
                return (_name(x), x.start, x.stop, x.step)
            case slice():
                part = cast("Any", x)
                return (_name(x), self.value(part.start), self.value(part.stop), self.value(part.step))
            case _:
                return self._object(x)

    def _object(self, x: Any) -> Any:
        known = self._seen.get(id(x))
        if known is not None:
            return ("again", known)
        self._seen[id(x)] = len(self._seen)
        match x:
            case types.FunctionType():
                if _is_trusted(x.__module__):
                    return ("library", x.__module__, x.__qualname__)
                return self._function(x)
            case types.ModuleType():
                return self._library(x.__name__, "")
            case type():
                return self._library(x.__module__, x.__qualname__)
            case np.ufunc():
                return self._library("numpy", x.__name__)
            case types.BuiltinFunctionType():
                if x.__name__ in IMPURE:
                    raise NoKey(x.__name__)
                return self._library(x.__module__, x.__qualname__)
            case functools.partial():
                part = cast("functools.partial[Any]", x)
                return ("partial", self.value(part.func), self.value(part.args), self.value(part.keywords))
            case _:
                return self._instance(x, cast("type[Any]", type(x)))

    def _library(self, module: str | None, name: str) -> Any:
        if not _is_trusted(module):
            raise NoKey(name or module)
        return ("library", module, name)

    def _instance(self, x: Any, kind: type[Any]) -> Any:
        """Element types and scalars of NumPy and torch; markers, symbols and programs of the language."""
        package = kind.__module__.partition(".")[0]
        if package in ("numpy", "torch") and (
            kind.__name__ == "dtype" or issubclass(kind, np.generic | np.dtype)
        ):
            return (_name(x), repr(x))
        if package != "tilebench":
            raise NoKey(kind.__name__)
        if issubclass(kind, Var) or kind.__name__ == "ConstVar":
            return (kind.__name__, x.name, str(getattr(x, "dtype", "")))  # which of them it is: by `again`
        function = getattr(x, "function", None)
        if function is not None:
            facts = tuple(
                (name, self.value(getattr(x, name, None))) for name in ("options", "attrs", "configs")
            )
            scope: Mapping[str, Any] = getattr(x, "scope", {})
            if isinstance(function, types.FunctionType):
                return (kind.__name__, self._function(function, scope), facts)
            return (kind.__name__, self.value(function), facts)
        if is_dataclass(kind) and kind.__dataclass_params__.frozen:
            return (kind.__name__, *((f.name, self.value(getattr(x, f.name))) for f in fields(kind)))
        raise NoKey(kind.__name__)

    def _function(self, function: types.FunctionType, scope: Mapping[str, Any] | None = None) -> Any:
        """A user's function: where and what its text is, and the values of the names in it."""
        from tilebench.language.scope import outer_names, source_of

        self._seen.setdefault(id(function), len(self._seen))
        source, code = source_of(function), function.__code__
        known = {**(scope or {}), **outer_names(function)}
        names = set(names_in(code)) | set(code.co_freevars)
        if names & IMPURE - known.keys():
            raise NoKey("a built-in function")
        annotations: dict[str, Any] = dict(function.__annotations__)
        for text in annotations.values():
            names |= set(_WORD.findall(text)) if isinstance(text, str) else set()
        return (
            "function",
            (function.__qualname__, code.co_firstlineno, source.name, source.text, source.first_line, code),
            tuple((name, self.value(known[name])) for name in sorted(names & known.keys())),
            self.value(annotations),
            self.value(function.__defaults__),
            self.value(function.__kwdefaults__),
        )


def names_in(code: types.CodeType) -> list[str]:
    """Every global and attribute name in a function's code and in the functions inside it."""
    found = list(code.co_names)
    for constant in code.co_consts:
        if inspect.iscode(constant):
            found += names_in(constant)
    return found


def _is_trusted(module: str | None) -> bool:
    return (module or "").partition(".")[0] in TRUSTED


def _name(x: Any) -> str:
    kind = cast("type[Any]", type(x))
    return f"{kind.__module__}.{kind.__qualname__}"
