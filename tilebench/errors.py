"""Source positions and the errors that users see: what, where, why, how to fix.

Codes: TB1 syntax, TB2 types and shapes, TB3 layout and memory, TB4 sync, pipeline and races,
TB5 target limits, TB6 launch, TB9 our own bug.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass


def lines_of(text: str) -> list[str]:
    """The lines that Python counts: str.splitlines() also ends one at form feeds and Unicode separators."""
    return re.split(r"\r\n|\r|\n", text)


@dataclass(frozen=True)
class Source:
    """A piece of program text: a notebook cell or a file. `first_line` is the number of its first line."""

    name: str
    text: str
    first_line: int = 1

    def line(self, number: int) -> str:
        """The text of line `number` (in the numbering that starts at first_line), '' when there is none."""
        lines = lines_of(self.text)
        index = number - self.first_line
        return lines[index] if 0 <= index < len(lines) else ""


@dataclass(frozen=True)
class Loc:
    """Where a node was written: lines from Source.first_line on, columns from 0, end exclusive.

    `call_site` is where the macro or helper that holds this line was called from.
    """

    source: Source
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    call_site: Loc | None = None

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column + 1}"

    def __repr__(self) -> str:
        return f"<{self}>"


WIDEST = 160
"""Longer source lines are shown as a window of this many characters."""


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def excerpt(at: Loc) -> list[str]:
    """The line of `at` with carets under its columns, and the chain of call sites below it."""
    text = at.source.line(at.line)
    gutter = f"{at.line:>4} | "
    lines = [f"  --> {at}"]
    if text.strip():
        shown = text.expandtabs(1)
        # ast columns count UTF-8 bytes; carets count display cells.
        raw = text.encode(errors="replace")
        start = len(raw[: at.column].decode(errors="replace"))
        stop = (
            len(raw[: at.end_column].decode(errors="replace")) if at.end_line in (0, at.line) else len(shown)
        )
        stop = max(stop, start + 1)
        if len(shown) > WIDEST:  # a window around the place
            first = max(0, min(start - WIDEST // 4, len(shown) - WIDEST))
            cut = shown[first : first + WIDEST]
            shown = ("…" if first else "") + cut + ("…" if first + WIDEST < len(text) else "")
            start, stop = start - first + bool(first), min(stop - first + bool(first), len(shown))
        carets = " " * _width(shown[:start]) + "^" * max(1, _width(shown[start:stop].rstrip()))
        lines += [f"  {gutter}{shown}", f"  {' ' * (len(gutter) - 2)}| {carets}"]
    if at.call_site is not None:
        lines.append(f"  called from {at.call_site}: {at.call_site.source.line(at.call_site.line).strip()}")
        if at.call_site.call_site is not None:
            lines.append(f"  called from {at.call_site.call_site}")
    return lines


class TileError(Exception):
    """An error in the user's program or call. Its text is made for the user; see `render`.

    code: 'TB' and three digits; what: one sentence with the user's numbers; at: where it was written;
    why: the rule that is broken; fix: what to write instead; notes: other places that matter. is_shown: its
    text is on the page already, so that a traceback need not say it again.
    """

    def __init__(
        self,
        code: str,
        what: str,
        *,
        at: Loc | None = None,
        why: str = "",
        fix: str = "",
        notes: Iterable[tuple[Loc | None, str]] = (),
    ) -> None:
        super().__init__(what)
        self.code, self.what, self.at, self.why, self.fix = code, what, at, why, fix
        self.notes: list[tuple[Loc | None, str]] = list(notes)
        self.is_shown = False

    def render(self) -> str:
        """The full text: `Kind[CODE]: what`, the line with carets, why, fix, notes."""
        lines = [f"{type(self).__name__}[{self.code}]: {self.what}"]
        if self.at is not None:
            lines += excerpt(self.at)
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        for at, text in self.notes:
            lines.append(f"  note: {text}")
            if at is not None:
                lines += excerpt(at)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()

    def _render_traceback_(self) -> list[str]:
        """IPython shows these lines in place of a Python traceback."""
        if self.is_shown:
            return [f"{type(self).__name__}[{self.code}]: this cell stopped, as said above"]
        return self.render().splitlines()


class SyntaxTileError(TileError):
    """TB1: a construct that the language does not have."""


class TypeTileError(TileError, ValueError):
    """TB2: shapes, dtypes, scopes, indices. A ValueError too, as programs written for TileLang expect."""


class ArgumentError(TypeTileError):
    """TB2: an argument that is wrong whatever stands around it: told where the program is defined."""


class LayoutError(TileError, ValueError):
    """TB3: layouts and memory."""


class SyncError(TileError, ValueError):
    """TB4: barriers, pipelines, races."""


class TargetError(TileError):
    """TB5: what a target cannot do."""


class LaunchError(TileError):
    """TB6: arguments of a call, the driver, the launch."""


class InternalError(TileError):
    """TB9: a bug of tilebench, wrapped with the user's line; its __cause__ is the Python exception."""


@contextmanager
def located(at: Loc | None) -> Generator[None]:
    """Give every TileError that passes through without a place the place `at`; wrap our own bugs as TB901."""
    try:
        yield
    except TileError as error:
        if error.at is None:
            error.at = at
        raise
    except (AssertionError, AttributeError, IndexError, KeyError, RecursionError) as error:
        raise InternalError(
            "TB901",
            f"tilebench failed on this line ({type(error).__name__}: {error})",
            at=at,
            why="this is a bug of tilebench, not of your program",
            fix="please report it with this cell; --traceback shows the Python stack",
        ) from error


def nearest(name: str, known: Iterable[str]) -> str:
    """', did you mean X?' for the closest known spelling, or ''."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""
