"""What was found in an answer to an exercise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClaimInfo:
    """One thing that an exercise looked at. passed: None where it was not looked at.

    saw, means, where, look: what was seen, what that means, the place in words, what to look at next; line,
    step, element: the place as numbers (0, None, () where there is none).
    """

    claim: str
    passed: bool | None
    saw: str = ""
    means: str = ""
    where: str = ""
    look: str = ""
    line: int = 0
    step: int | None = None
    element: tuple[int, ...] = ()


@dataclass(frozen=True)
class ExerciseInfo:
    """An exercise with what was found in an answer. hints: from a nudge to nearly the answer."""

    name: str
    title: str
    claims: tuple[ClaimInfo, ...] = ()
    hints: tuple[str, ...] = ()
