"""The compiler pass by pass: how long each took and how many lines it changed."""

from __future__ import annotations

import difflib
from typing import Any

from tilebench.report import Report
from tilebench.views.base import (
    BAD,
    GOOD,
    INK,
    LINE,
    QUIET,
    WARPS,
    Still,
    clip,
    html_table,
    new_figure,
    no_axes,
    number,
    png,
    titled,
    write,
)

SHOWN_LINES = 3
"""Lines of a pass's text that the picture quotes."""


def changes(report: Report) -> list[tuple[str, float, int, int]]:
    """(pass, microseconds, lines added, lines removed) against the pass before; only passes that changed
    something.
    """
    rows: list[tuple[str, float, int, int]] = []
    before: list[str] = []
    for p in report.passes:
        after = p.text.splitlines()
        if p.changed and p.text:
            delta = [d[0] for d in difflib.ndiff(before, after)] if len(before) + len(after) < 400 else []
            added, removed = (delta.count("+"), delta.count("-")) if delta else (len(after), len(before))
            rows.append((p.name, p.microseconds, added, removed))
            before = after
    return rows


def quoted(report: Report) -> list[list[str]]:
    """For each pass that changed something, the first lines that it brought: what it decided."""
    found: list[list[str]] = []
    seen: set[str] = set()
    for p in report.passes:
        if p.changed and p.text:
            lines = [line.strip() for line in p.text.splitlines() if line.strip()]
            fresh = [line for line in lines if line not in seen]
            more = len(fresh) - SHOWN_LINES
            found.append(fresh[:SHOWN_LINES] + ([f"… {more} more lines"] if more > 0 else []))
            seen |= set(lines)
    return found


def sentence(report: Report) -> str:
    """One line that stands for the picture."""
    rows = changes(report)
    total = sum(us for _, us, _, _ in rows)
    parts = [f"{name} {number(us / 1e3)} ms, +{added} -{removed} lines" for name, us, added, removed in rows]
    return f"{len(rows)} passes in {number(total / 1e3)} ms (measured on this machine): {'; '.join(parts)}"


def _lines(report: Report) -> list[int]:
    return [max(2, len(q)) for q in quoted(report)]


def paint(ax: Any, report: Report) -> None:
    """Draw the passes one below the other: how long, how many lines, and the first lines that are new."""
    rows, texts, heights = changes(report), quoted(report), _lines(report)
    no_axes(ax)
    ax.set_xlim(0, 1)
    ax.set_ylim(sum(heights) + 0.4 * len(rows), 0)
    titled(ax, "pass by pass: what each one brought")
    longest = max((us for _, us, _, _ in rows), default=1.0) or 1.0
    y = 0.0
    for (name, us, added, removed), text, tall in zip(rows, texts, heights, strict=True):
        ax.axhline(y, color=LINE, linewidth=0.5)
        write(ax, 0.0, y + 0.7, clip(name, 14), fontsize=8, fontweight="bold")
        ax.barh(y + 0.7, 0.1 * us / longest, left=0.1, height=0.7, color=WARPS[0])
        write(ax, 0.21, y + 0.7, f"{number(us / 1e3)} ms", fontsize=7, color=QUIET)
        write(ax, 0.1, y + 1.6, f"+{added}", fontsize=7, color=GOOD)
        write(ax, 0.15, y + 1.6, f"−{removed} lines", fontsize=7, color=BAD)
        for k, line in enumerate(text):
            write(ax, 0.29, y + 0.7 + k, clip(line, 120), fontsize=6.5, family="monospace", color=INK)
        y += tall + 0.4


def height(report: Report) -> float:
    """Inches that the picture needs."""
    return 0.32 + 0.15 * (sum(_lines(report)) + 0.4 * len(changes(report)))


def still(report: Report) -> Still | None:
    """The passes as a picture, or None where nothing was changed."""
    if not changes(report):
        return None
    tall = height(report)
    figure = new_figure(9.5, tall)
    paint(figure.add_axes((0.02, 0.03, 0.96, 1 - 0.03 - 0.28 / tall)), report)
    return Still(png(figure), "image/png", sentence(report))


def html(report: Report) -> str:
    """A table: pass, milliseconds, lines it added and removed."""
    rows = [
        (name, f"{number(us / 1e3)} ms (measured on this machine)", f"+{added}", f"-{removed}")
        for name, us, added, removed in changes(report)
    ]
    return html_table(("pass", "time", "lines added", "lines removed"), rows)
