"""Completion inside the body of a `%%tile` cell: the language's names, their arguments, names of the cell.

It answers at once, and in a cell that does not parse yet. What it has no answer for is left to IPython.
"""

from __future__ import annotations

import builtins
import inspect
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

Kind = Literal["function", "param", "class", "instance", "keyword"]
_MEMBER = re.compile(r"(?<![\w.])(\w+)\.(\w*)$")
_WORD = re.compile(r"(?<![\w.])([A-Za-z_]\w*)$")
_CALLED = re.compile(r"(?<![\w.])(\w+)\.(\w+)$")
_STRING = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|#.*")
_NAMES = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
OFFERED_BUILTINS = (
    "range",
    "min",
    "max",
    "len",
    "print",
    "int",
    "float",
    "bool",
    "abs",
    "True",
    "False",
    "None",
)


@dataclass(frozen=True)
class Found:
    """What can stand in place of `fragment`, the last characters before the cursor."""

    fragment: str
    names: tuple[tuple[str, Kind], ...]


def names_at(text: str, place: int, scope: Mapping[str, Any]) -> Found | None:
    """Completions at a place of a cell's body; None where others know better.

    text: of the whole cell; place: the cursor, in characters from its start; scope: the user's variables.
    """
    before = text[:place]
    line = before.rpartition("\n")[2]
    if _inside_text(line):
        return None
    member = _MEMBER.search(line)
    if member is not None:
        language = _language(member[1], scope)
        return None if language is None else Found(member[2], _members(language, member[2]))
    word = _WORD.search(line)
    if word is None:
        return None
    start = word[1]
    rest = before[: -len(start)].partition("\n")[2] + text[place:]
    own = set(_NAMES.findall(_STRING.sub("", rest)))
    found: dict[str, Kind] = {f"{name}=": "param" for name in _arguments(before, scope)}
    found |= {n: "instance" for n in sorted(own) if not keyword.iskeyword(n)}
    found |= {n: _kind(v) for n, v in sorted(scope.items()) if not n.startswith("_")}
    found |= {n: _kind(getattr(builtins, n)) for n in OFFERED_BUILTINS}
    found |= dict.fromkeys(keyword.kwlist, "keyword")
    return Found(start, tuple((n, kind) for n, kind in found.items() if n.startswith(start)))


def _inside_text(line: str) -> bool:
    """Whether the line ends in a string or a comment."""
    rest = _STRING.sub(lambda m: "" if m[0][0] != "#" else "#", line)
    return any(mark in rest for mark in "'\"#")


def _language(name: str, scope: Mapping[str, Any]) -> ModuleType | None:
    """The language when `name` stands for it: T always, unless the user gave it another meaning."""
    import tilebench.language as language

    value = scope.get(name, language if name == "T" else None)
    return language if value is language else None


def _members(language: ModuleType, start: str) -> tuple[tuple[str, Kind], ...]:
    names: list[str] = [*language.__all__]
    shown = [n for n in sorted(names, key=str.lower) if n.startswith(start)]
    return tuple((n, _kind(getattr(language, n, None))) for n in shown if start or not n.startswith("_"))


def _kind(value: Any) -> Kind:
    if inspect.isclass(value):
        return "class"
    return "function" if callable(value) else "instance"


def _arguments(before: str, scope: Mapping[str, Any]) -> list[str]:
    """The parameters of the `T.` call that the cursor is in."""
    depth = 0
    for k in range(len(before) - 1, max(-1, len(before) - 2000), -1):
        letter = before[k]
        if letter in ")]}":
            depth += 1
        elif letter in "([{" and depth:
            depth -= 1
        elif letter in "[{":
            continue
        elif letter == "(":
            called = _CALLED.search(before[:k])
            if called is None:
                continue  # a tuple, or another call around the cursor: look further out
            language = _language(called[1], scope)
            function = getattr(language, called[2], None) if language is not None else None
            return _parameters(function)
    return []


def _parameters(function: Any) -> list[str]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in signature.parameters.values() if p.kind in named and not p.name.startswith("_")]
