"""The words of a magic's line: what a wrong one most likely stands for, and small values read from them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from IPython.core.error import UsageError

from tilebench.errors import nearest
from tilebench.notebook.completion import OPTIONS

_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
_UNKNOWN = re.compile(r"unrecognized arguments: (.*)")
_QUOTED = re.compile(r"""(--?[A-Za-z][\w-]*=)?(['"])(.*)\2""", re.DOTALL)
_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")


def split_line(line: str) -> list[str]:
    """The words of a magic's line; quotes keep spaces together, and are taken off a word that they surround.

    What stands in quotes behind an option is its value, also when it begins with a dash. Raises UsageError
    for a quote that is not closed.
    """
    words: list[str] = []
    for word in _words(line):
        match = _QUOTED.fullmatch(word)
        if match is None or _closes_early(match[3], match[2]):
            words.append(word)
            continue
        text = match[3].replace("\\" + match[2], match[2])
        if match[1] or not (text.startswith("-") and words and _OPTION.fullmatch(words[-1])):
            words.append((match[1] or "") + text)
        else:
            words[-1] += f"={text}"
    return words


def _words(line: str) -> list[str]:
    """Runs of characters without a space outside quotes."""
    words, start, quote, k = [""], 0, "", 0
    while k < len(line):
        letter = line[k]
        if quote and letter == "\\":
            words[-1] += letter
            k += 1
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote, start = letter, k
        if letter.isspace() and not quote:
            words.append("")
        else:
            words[-1] += line[k : k + 1]
        k += 1
    if quote:
        raise UsageError(f"the quote that opens at {line[start : start + 20]!r} is not closed")
    return [w for w in words if w]


def _closes_early(inner: str, quote: str) -> bool:
    """Whether the text between two quotes is not one string: 'a', 'b'."""
    return quote in re.sub(r"\\.", "", inner)


def is_quiet(text: str) -> bool:
    """Whether it ends in the `;` that silences a notebook's output (not one of a comment)."""
    last = text.rstrip().rpartition("\n")[2]
    return last.endswith(";") and "#" not in last


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
