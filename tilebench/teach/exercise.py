"""`check(answer, "t06.q1")` and `hint("t06.q1", 1)`: the exercises of the tutorials, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilebench.errors import TileError, nearest
from tilebench.teach.outcome import Checked, Outcome, Unmet

Found = tuple[list[Outcome], Callable[[], Any] | None]
"""Outcomes, and what makes a recording of the first failing run (None: nothing to replay)."""


@dataclass(frozen=True)
class Exercise:
    """A question. examine: looks at an answer (a kernel, a tile program, a function or a plain value) and may
    raise TileError, which becomes an outcome; hints: from a nudge to nearly the answer.
    """

    name: str
    title: str
    examine: Callable[[Any], Found]
    hints: tuple[str, ...] = ()


def exercises() -> dict[str, Exercise]:
    """All exercises by name."""
    from tilebench.teach import fragments, online_softmax, tile_copy

    modules = (tile_copy, fragments, online_softmax)
    return {e.name: e for module in modules for e in module.EXERCISES}


def named(exercise: str) -> Exercise:
    """The exercise of a name. Raises ValueError naming the nearest."""
    known = exercises()
    if exercise not in known:
        raise ValueError(
            f"no exercise called {exercise!r}{nearest(exercise, known)}; there are {', '.join(known)}"
        )
    return known[exercise]


def check(answer: Any, exercise: str) -> Checked:
    """What holds of an answer and what does not, with the reason. Never raises for a wrong answer.

    answer: what the exercise asks for; None: not answered yet.
    """
    found = named(exercise)
    if answer is None:
        waiting = Outcome(
            "there is an answer", False, "no-answer", "None", "no answer yet", look="the text above"
        )
        return Checked(found.name, found.title, (waiting,), found.hints)
    again = None
    try:
        outcomes, again = found.examine(answer)
    except TileError as error:
        outcomes = [of_error(error)]
    except Unmet as unmet:
        outcomes = [unmet.outcome]
    return Checked(found.name, found.title, tuple(outcomes), found.hints, again)


def of_error(error: TileError) -> Outcome:
    """An error of the program as an outcome."""
    line = error.at.line if error.at is not None else 0
    return Outcome(
        "the program compiles and runs",
        False,
        "error",
        f"[{error.code}] {error.what}",
        error.why,
        f"line {line}" if line else "",
        error.fix,
        line,
    )


@dataclass(frozen=True)
class Hint:
    """One step of the ladder; displays as its text."""

    text: str

    def __repr__(self) -> str:
        return self.text


def hint(exercise: str, step: int = 1) -> Hint:
    """The hint of an exercise, from 1 (a nudge) on; of another step, how many there are. Raises ValueError
    for an exercise that is not there.
    """
    found = named(exercise)
    if not 1 <= step <= len(found.hints):
        count = f"{len(found.hints)} hint{'s' * (len(found.hints) != 1)}"
        return Hint(f"{exercise} has {count}, from 1 on: there is no hint {step}")
    more = f" (of {len(found.hints)})" if step < len(found.hints) else " (the last)"
    return Hint(f"hint {step}{more}: {found.hints[step - 1]}")


__all__ = ["Exercise", "Found", "Hint", "check", "exercises", "hint", "named", "of_error"]
