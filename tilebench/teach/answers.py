"""Answers that are plain values: a number, a set of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilebench.teach.exercise import Found
from tilebench.teach.outcome import Outcome, holds


def number(
    answer: Any, *, want: float, rtol: float, means: str, slips: Mapping[float, str] | None = None
) -> Found:
    """A number within rtol of what is wanted. means: the reason, said when it is right; slips: what some
    wrong numbers are the answer to.
    """
    claim = "the number is right"
    try:
        got = float(answer)
    except (TypeError, ValueError):
        return [Outcome(claim, False, "not-a-number", repr(answer), "a number is asked for")], None
    if abs(got - want) <= rtol * abs(want):
        return [holds(claim, f"{want:.4g}: {means}")], None
    for slip, meant in (slips or {}).items():
        if abs(got - slip) <= rtol * abs(slip):
            return [Outcome(claim, False, "slip", f"{got:.4g}", meant, look="the question once more")], None
    if abs(got * want - 1) <= rtol:
        return [
            Outcome(claim, False, "upside-down", f"{got:.4g}", "that is one over it", look="which is larger?")
        ], None
    return [
        Outcome(claim, False, "wrong", f"{got:.4g}", look="a case that is small enough to do by hand")
    ], None


def rows(answer: Any, *, want: frozenset[int], means: str) -> Found:
    """A set of row numbers."""
    claim = "these are the rows"
    try:
        got = frozenset(int(r) for r in answer)
    except (TypeError, ValueError):
        return [
            Outcome(claim, False, "not-rows", repr(answer), "a list of row numbers is asked for, as [3, 4]")
        ], None
    if got == want:
        return [holds(claim, f"{sorted(want)}: {means}")], None
    missing, extra = sorted(want - got), sorted(got - want)
    saw = "; ".join(
        [
            *(
                [f"{len(missing)} of the rows {'is' if len(missing) == 1 else 'are'} missing"]
                if missing
                else []
            ),
            *([f"{extra} are not among them"] if extra else []),
        ]
    )
    return [Outcome(claim, False, "wrong", saw, look="one such row, block by block")], None


__all__ = ["number", "rows"]
