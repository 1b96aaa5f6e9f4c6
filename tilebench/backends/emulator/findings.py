"""What the emulator has to say, once for each pair of statements, in the words of the user's program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tilebench.report import Finding, Span

if TYPE_CHECKING:
    from tilebench.errors import Loc

Severity = Literal["error", "warning", "info"]


def span(at: Loc | None) -> tuple[Span, ...]:
    """The place of a node as a report span; () when it has none."""
    return () if at is None else (Span(at.line, at.column, at.end_line, at.end_column),)


def line(at: Loc | None) -> str:
    """'line 12', or 'compiler-made code'."""
    return "compiler-made code" if at is None else f"line {at.line}"


class Findings:
    """Findings in order of appearance; each key is reported once, with the number of times it was met."""

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit
        self.times: dict[tuple[object, ...], int] = {}
        self.found: dict[tuple[object, ...], Finding] = {}
        self.places: dict[tuple[object, ...], tuple[Loc | None, ...]] = {}

    def known(self, *key: object) -> bool:
        """Whether `key` was reported already; counts it."""
        if key in self.times:
            self.times[key] += 1
            return True
        return len(self.found) >= self.limit

    def add(
        self,
        key: tuple[object, ...],
        kind: str,
        severity: Severity,
        text: str,
        places: tuple[Loc | None, ...],
        hint: str = "",
        code: str = "",
    ) -> None:
        """Report `key` for the first time."""
        self.times[key] = 1
        spans = tuple(s for at in places for s in span(at))
        self.found[key] = Finding(kind, severity, text, spans, hint, code)
        self.places[key] = places

    def all(self) -> tuple[Finding, ...]:
        """Every finding, errors first."""
        order = {"error": 0, "warning": 1, "info": 2}
        return tuple(sorted(self.found.values(), key=lambda f: order[f.severity]))

    def first_error(self) -> tuple[Finding, tuple[Loc | None, ...]] | None:
        """The first finding that is an error, with its places."""
        for key, finding in self.found.items():
            if finding.severity == "error":
                return finding, self.places[key]
        return None
