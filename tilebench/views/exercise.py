"""What an exercise found in an answer: each claim, whether it holds, what was seen and what that means."""

from __future__ import annotations

from typing import Any

from tilebench.report import ClaimInfo, ExerciseInfo, Report
from tilebench.views.base import (
    BAD,
    GOOD,
    INK,
    LINE,
    QUIET,
    Still,
    clip,
    html_table,
    new_figure,
    no_axes,
    png,
    wrapped,
    write,
)

MARKS: dict[bool | None, str] = {True: "✓ holds", False: "✖ does not hold", None: "– not looked at"}
COLOURS: dict[bool | None, str] = {True: GOOD, False: BAD, None: QUIET}
PICTURED = 7


def headline(info: ExerciseInfo) -> str:
    """'t06.q1 Online statistics: 2 of 3 claims hold'."""
    good = sum(c.passed is True for c in info.claims)
    return f"{info.name} {info.title}: {good} of {len(info.claims)} claims hold"


def parts(c: ClaimInfo) -> list[tuple[str, str]]:
    """What is said of a claim, by the question that it answers."""
    named = (("seen", c.saw), ("that means", c.means), ("where", c.where), ("look at", c.look))
    return [(name, text) for name, text in named if text]


def html(report: Report) -> str:
    """The claims as a table, '' without an exercise."""
    info = report.exercise
    if info is None:
        return ""
    rows = [(MARKS[c.passed], c.claim, "; ".join(f"{n}: {t}" for n, t in parts(c))) for c in info.claims]
    return html_table(("", "claim", "what was found"), rows, headline(info))


def sentence(info: ExerciseInfo) -> str:
    """One line that stands for the picture."""
    failed = [f"{c.claim}: {c.saw or 'no'}" for c in info.claims if c.passed is False]
    return "; ".join([headline(info), *failed[:3]])


def _found(c: ClaimInfo) -> list[str]:
    """What was found of a claim, in lines."""
    return [line for name, text in parts(c) for line in wrapped(f"{name}: {text}", 150, 2)]


def height(info: ExerciseInfo) -> float:
    """Inches that the picture needs."""
    return 0.45 + sum(0.3 + 0.15 * len(_found(c)) for c in info.claims[:PICTURED])


def paint(ax: Any, info: ExerciseInfo) -> None:
    """Draw the claims as lines with marks, what was found below each."""
    no_axes(ax)
    ax.set_xlim(0, 1)
    total = height(info)
    ax.set_ylim(total, 0)
    write(ax, 0, 0.12, clip(headline(info), 110), fontsize=8.5, fontweight="bold")
    y = 0.3
    for c in info.claims[:PICTURED]:
        ax.axhline(y, color=LINE, linewidth=0.5)
        write(ax, 0.0, y + 0.14, MARKS[c.passed], color=COLOURS[c.passed], fontsize=7.5, fontweight="bold")
        write(ax, 0.13, y + 0.14, clip(c.claim, 120), color=INK, fontsize=7.5)
        for k, line in enumerate(_found(c)):
            write(ax, 0.13, y + 0.31 + 0.15 * k, line, color=QUIET, fontsize=6.5)
        y += 0.3 + 0.15 * len(_found(c))
    if len(info.claims) > PICTURED:
        write(ax, 0.13, y + 0.1, f"{len(info.claims) - PICTURED} more", color=QUIET, fontsize=7)


def still(report: Report) -> Still | None:
    """The claims as a picture, or None without an exercise."""
    if report.exercise is None:
        return None
    figure = new_figure(9.5, height(report.exercise))
    paint(figure.add_axes((0.02, 0.03, 0.96, 0.94)), report.exercise)
    return Still(png(figure), "image/png", sentence(report.exercise))
