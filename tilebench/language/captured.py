"""What a function reads from around it, as a value: a program is made anew when that changes."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

import numpy as np

_LIBRARIES = frozenset({"tilebench", "tilelang", "numpy", "torch", "triton"}) | sys.stdlib_module_names
"""Packages whose functions, classes and constants stay as they are."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_LONGEST_ANNOTATION = 500
_MOST_BYTES = 1 << 16
"""An array up to this size is taken by its contents, a larger one by its identity."""
_MOST_VALUES = 20_000
"""So many values are looked into; what is left of a larger object is taken by its identity."""


class _Same:
    """Equal to itself only; keeps what it stands for alive, so that its id is not given again."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def freeze(value: Any) -> Any:
    """A hashable stand-in: by value for plain data, small arrays and what objects of the user's classes hold,
    by identity for the rest.
    """
    return _Freezer().value(value)


def captured(function: Callable[..., Any], scope: Mapping[str, Any] | None = None) -> Any:
    """Globals, closure cells, defaults and attributes of modules that a function reads, frozen, and the same
    of the functions that it calls: a kernel is rebuilt when one of them changes. scope: further names around
    the function, of which only those that it uses count.
    """
    return _Freezer().function(function, scope)


class _Freezer:
    """One stand-in being made. What is met again is named by when it was met first."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}

    def _is_full(self) -> bool:
        return len(self._met) > _MOST_VALUES

    def _before(self, value: Any) -> int | None:
        """When it was met first, None for now."""
        known = self._met.get(id(value))
        if known is None:
            self._met[id(value)] = len(self._met)
        return known

    def value(self, value: Any) -> Any:
        """The stand-in of any value."""
        kind = cast("type[Any]", type(value))
        if value is None or kind in (int, str, bool, bytes):
            return (kind.__name__, value)
        if kind in (float, complex):
            return (kind.__name__, repr(value))  # 0.0 and -0.0 are equal, and differ
        if isinstance(value, tuple):
            return (kind.__name__, *map(self.value, cast("tuple[Any, ...]", value)))
        if _is_opaque(value, kind):
            version = getattr(value, "_version", None) if hasattr(value, "data_ptr") else None
            return (_identity(value), version)  # torch counts the changes of a tensor
        if isinstance(value, types.FunctionType):
            return self.function(value)
        known = self._before(value)
        if known is not None:
            return ("again", known)
        if self._is_full():
            return _Same(value)
        if isinstance(value, Mapping):
            return (kind.__name__, *self._items(cast("Mapping[Any, Any]", value)))
        if isinstance(value, list):
            return (kind.__name__, *map(self.value, cast("list[Any]", value)))
        if isinstance(value, set | frozenset):
            return (kind.__name__, frozenset(map(self.value, cast("set[Any]", value))))
        if isinstance(value, np.ndarray):
            array = cast("np.ndarray[Any, Any]", value)
            if array.nbytes <= _MOST_BYTES and not array.dtype.hasobject:
                return ("array", array.dtype.str, array.shape, array.tobytes())
            return _Same(array)
        held = {k: v for k, v in getattr(value, "__dict__", {}).items() if not k.startswith("__")}
        return (_identity(value), *self._items(held))

    def _items(self, values: Mapping[Any, Any]) -> Iterator[Any]:
        for key, value in values.items():
            yield self.value(key), self.value(value)

    def function(self, function: Any, scope: Mapping[str, Any] | None = None) -> Any:
        """The stand-in of a function: its code, and what it reads, also of further names around it."""
        code = getattr(function, "__code__", None)
        if code is None or _is_library(function):
            return _Same(function)
        known = self._before(function)
        if known is not None:
            return ("again", known)
        names, words = _names(code)
        texts = [t for t in getattr(function, "__annotations__", {}).values() if isinstance(t, str)]
        used = dict.fromkeys((*names, *words, *(w for t in texts for w in _WORD.findall(t))))
        around = {n: m[n] for m in (function.__globals__, scope or {}) for n in used if n in m}
        around.update(zip(code.co_freevars, map(_cell, function.__closure__ or ()), strict=True))
        seen: list[Any] = [code, self.value((function.__defaults__, function.__kwdefaults__))]
        for name in sorted(around):
            value = around[name]
            if not isinstance(value, types.ModuleType):
                inner = getattr(value, "function", value)  # of a macro, a program, a @jit
                seen.append((name, self.value(inner if isinstance(inner, types.FunctionType) else value)))
            elif not _is_library(value):
                seen.append((name, *self._items({n: vars(value)[n] for n in names if n in vars(value)})))
        return tuple(seen)


def _identity(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return _Same(value)
    return (type(value).__name__, value)


def _is_opaque(value: Any, kind: Any) -> bool:
    """Whether nothing in the value can be looked at: modules, and what libraries made."""
    if isinstance(value, list | set | frozenset | Mapping | np.ndarray | types.FunctionType):
        return False
    return isinstance(value, types.ModuleType) or _is_library(value if isinstance(value, type) else kind)


def _is_library(x: Any) -> bool:
    """Whether a module, a class or a function is of a package that stays as it is."""
    name = x.__name__ if isinstance(x, types.ModuleType) else getattr(x, "__module__", None)
    return str(name or "builtins").partition(".")[0] in _LIBRARIES


@lru_cache(maxsize=1024)
def _names(code: types.CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names that a function's code and the functions inside it use, and the words in their texts (annotations
    may be text), but for what the function says of itself.
    """
    names, words = dict.fromkeys(code.co_names), dict[str, None]()
    spoken = bool(code.co_consts) and isinstance(code.co_consts[0], str)
    for constant in code.co_consts[1 if spoken else 0 :]:
        if inspect.iscode(constant):
            inner, text = _names(constant)
            names.update(dict.fromkeys(inner))
            words.update(dict.fromkeys(text))
        elif isinstance(constant, str) and len(constant) <= _LONGEST_ANNOTATION:
            words.update(dict.fromkeys(_WORD.findall(constant)))
    return tuple(names), tuple(w for w in words if w not in names)


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
