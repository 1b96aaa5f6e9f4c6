"""The words of a magic's line: what a wrong one most likely stands for, and small values read from them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from IPython.core.error import UsageError

from tilebench.errors import nearest
from tilebench.notebook.completion import OPTIONS

_UNKNOWN = re.compile(r"unrecognized arguments: (.*)")
_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")


def suggest(message: str, line: str, kernels: Iterable[str] = ()) -> str:
    """A usage message with the nearest option or value that there is. line: the magic's."""
    unknown = _UNKNOWN.search(message)
    if unknown is not None:
        word = unknown[1].split()[0]
        name = word.partition("=")[0]
        guess = nearest(name, OPTIONS) if name.startswith("-") else ""
        if not name.startswith("-") and re.search(r"(--args|--ref|--set|--sweep|-[ars])\b", line):
            guess = "; an expression with spaces stands in quotes: --ref 'lambda a, b: a @ b'"
        elif not name.startswith("-"):
            guess = "; a cell takes one kernel's name, and the values of an option follow it"
        return f"unknown option {word}{guess} (%%tile? lists all)"
    choice = _CHOICE.search(message)
    if choice is not None and "did you mean" not in message:
        known = [w.strip().strip("'") for w in choice[2].split(",")]
        guess = nearest(choice[1], known)
        if not guess and choice[1] in set(kernels):
            guess = "; write the kernel's name before the options"
        return message + guess
    return message


def triple(text: str) -> tuple[int, ...]:
    """(1, 2) of '1,2': one to three block numbers. Raises UsageError."""
    parts = [p.strip() for p in text.split(",")]
    if not 1 <= len(parts) <= 3 or not all(p.isdigit() for p in parts):
        raise UsageError(f"argument --cta: expected X,Y,Z with numbers of blocks, got {text!r}")
    return tuple(int(p) for p in parts)
