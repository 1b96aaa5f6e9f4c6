"""What a check found, as data; text and HTML are renderings of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tilebench.report import ClaimInfo, ExerciseInfo
from tilebench.views.base import BAD, GOOD, ON_DARK, QUIET, esc


@dataclass(frozen=True)
class Outcome:
    """One thing that was looked at.

    claim: what should hold, as a sentence; passed: None where it was not looked at (an earlier one failed);
    kind: the name of the mistake, '' when there is none; saw, means, where, look: what was seen, what that
    means, the line and element, and what to look at next; line, step, element: the place as numbers.
    """

    claim: str
    passed: bool | None
    kind: str = ""
    saw: str = ""
    means: str = ""
    where: str = ""
    look: str = ""
    line: int = 0
    step: int | None = None
    element: tuple[int, ...] = ()


def holds(claim: str, saw: str = "") -> Outcome:
    """A claim that was found true; saw: on what evidence."""
    return Outcome(claim, True, saw=saw)


class Unmet(Exception):
    """Ends a check: without this, nothing else can be looked at."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.saw)
        self.outcome = outcome


def skipped(claim: str, why: str) -> Outcome:
    """A claim that was not looked at."""
    return Outcome(claim, None, saw=why)


@dataclass(frozen=True)
class Checked:
    """The outcomes of one exercise. Displays as a card; `replay()` steps through the first failing run.

    hints: from a nudge to nearly the answer; again: makes that recording, None when there is nothing to
    replay.
    """

    exercise: str
    title: str
    outcomes: tuple[Outcome, ...]
    hints: tuple[str, ...] = ()
    again: Callable[[], Any] | None = field(default=None, compare=False, repr=False)

    @property
    def passed(self) -> bool:
        """True when every claim was looked at and holds."""
        return bool(self.outcomes) and all(o.passed for o in self.outcomes)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The mistakes found, in order."""
        return tuple(o.kind for o in self.outcomes if o.passed is False)

    def replay(self) -> Any:
        """The first failing run, recorded step by step, with what was found beside it. Raises ValueError when
        there is none.
        """
        if self.again is None:
            raise ValueError(f"{self.exercise}: no run to replay: {self._headline()}")
        made = self.again()
        return replace(made, report=replace(made.report, exercise=self.info()))

    def info(self) -> ExerciseInfo:
        """The same as data for the exercise view."""
        claims = tuple(
            ClaimInfo(o.claim, o.passed, o.saw, o.means, o.where, o.look, o.line, o.step, o.element)
            for o in self.outcomes
        )
        return ExerciseInfo(self.exercise, self.title, claims, () if self.passed else self.hints)

    def data(self) -> Mapping[str, Any]:
        """Plain data for a grader: exercise, passed, and each outcome's fields."""
        return {
            "exercise": self.exercise,
            "passed": self.passed,
            "outcomes": [dict(vars(o)) for o in self.outcomes],
        }

    def _headline(self) -> str:
        good = sum(o.passed is True for o in self.outcomes)
        return f"{good} of {len(self.outcomes)} hold" + (": done" if self.passed else "")

    def _hint(self) -> str:
        return (
            f"stuck? hint({self.exercise!r}, 1) of {len(self.hints)}"
            if self.hints and not self.passed
            else ""
        )

    def __str__(self) -> str:
        lines = [f"{self.exercise} {self.title}: {self._headline()}"]
        for o in self.outcomes:
            lines.append(f"  {MARKS[o.passed]} {o.claim}" + (f" ({o.saw})" if o.passed and o.saw else ""))
            if o.passed is not True:
                lines += [f"      {name + ':':<15}{text}" for name, text in _parts(o)]
        if self.again is not None and not self.passed:
            lines.append("  step through the failing run: check(...).replay()")
        return "\n".join([*lines, *([f"  {self._hint()}"] if self._hint() else [])])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        colour = GOOD if self.passed else BAD
        style = f"border-left:4px solid {colour};padding:.4em 1em"
        out = [
            f'<div class="tilebench-check" role="group" style="{style}" aria-label="{esc(self.exercise)}">'
            f"<b>{esc(self.exercise)} {esc(self.title)}</b>: {esc(self._headline())}"
        ]
        for o in self.outcomes:
            ink = {True: GOOD, False: BAD, None: QUIET}[o.passed]
            mark = f'<b style="color:light-dark({ink},{ON_DARK[ink]})">{esc(MARKS[o.passed])}</b>'
            out.append(
                f'<div style="margin-top:.3em">{mark} '
                f"{esc(o.claim)}"
                + (f' <span style="opacity:.75">({esc(o.saw)})</span>' if o.passed and o.saw else "")
                + "</div>"
            )
            if o.passed is not True and (parts := _parts(o)):
                rows = "".join(
                    '<tr><td style="text-align:left;vertical-align:top;opacity:.75;white-space:nowrap">'
                    f'{esc(name)}</td><td style="text-align:left">{esc(text)}</td></tr>'
                    for name, text in parts
                )
                out.append(f'<table style="margin:.1em 0 .3em 1.5em">{rows}</table>')
        tail = [
            *(["<code>check(...).replay()</code> steps through the failing run"] if self._replays() else []),
            *([esc(self._hint())] if self._hint() else []),
        ]
        return (
            "".join(out)
            + (f'<div style="margin-top:.3em">{" · ".join(tail)}</div>' if tail else "")
            + "</div>"
        )

    def _replays(self) -> bool:
        return self.again is not None and not self.passed


MARKS: Mapping[bool | None, str] = {True: "yes", False: "NO", None: "–"}


def _parts(o: Outcome) -> list[tuple[str, str]]:
    named = (("seen", o.saw), ("that means", o.means), ("where", o.where), ("look at", o.look))
    return [(name, text) for name, text in named if text]


__all__ = ["Checked", "Outcome", "Unmet", "holds", "skipped"]
