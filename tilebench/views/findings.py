"""What is worth knowing: kind, place in the cell, text, what to do; the worst first."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tilebench.report import Finding, Report
from tilebench.views.base import (
    BAD,
    INK,
    LINE,
    QUIET,
    WARN,
    Still,
    clip,
    html_table,
    new_figure,
    no_axes,
    png,
    wrapped,
    write,
)

ORDER = {"error": 0, "warning": 1, "info": 2}
MARKS = {"error": "✖", "warning": "▲", "info": "•"}
PICTURED = 8


def sorted_findings(report: Report) -> list[Finding]:
    """The findings, errors first."""
    return sorted(report.findings, key=lambda f: ORDER[f.severity])


def rows(report: Report) -> list[tuple[str, str, str, str]]:
    """(severity, lines, text, hint), the worst first."""
    return [
        (f.severity, ", ".join(str(s.line) for s in f.spans), f"{f.kind}: {f.text}", f.hint)
        for f in sorted_findings(report)
    ]


def html(report: Report) -> str:
    """The findings as a table, '' when there are none."""
    return html_table(("severity", "line", "finding", "hint"), rows(report))


def sentence(report: Report) -> str:
    """One line that stands for the picture."""
    count = Counter(f.severity for f in report.findings)
    head = ", ".join(f"{count[s]} {s}" for s in ORDER if count[s])
    worst = "; ".join(f"{f.kind}: {f.text}" for f in sorted_findings(report)[:3])
    return f"{len(report.findings)} findings ({head}): {worst}"


def _texts(f: Finding) -> tuple[list[str], list[str]]:
    """(the finding, what to do) in lines."""
    return wrapped(f"{f.kind}: {f.text}", 125, 3), wrapped(f"to do: {f.hint}", 145, 2) if f.hint else []


def height(report: Report) -> float:
    """Inches that the picture needs."""
    texts = [_texts(f) for f in sorted_findings(report)[:PICTURED]]
    return (
        0.1 + sum(0.12 + 0.16 * (len(a) + len(b)) for a, b in texts) + 0.2 * (len(report.findings) > PICTURED)
    )


def paint(ax: Any, report: Report) -> None:
    """Draw the findings as lines with marks."""
    no_axes(ax)
    ax.set_xlim(0, 1)
    ax.set_ylim(height(report), 0)
    found = sorted_findings(report)
    y = 0.05
    for f in found[:PICTURED]:
        colour = {"error": BAD, "warning": WARN}.get(f.severity, QUIET)
        where = f"line {', '.join(str(s.line) for s in f.spans)}" if f.spans else ""
        text, todo = _texts(f)
        write(
            ax,
            0.0,
            y + 0.14,
            f"{MARKS[f.severity]} {f.severity}",
            color=colour,
            fontsize=7.5,
            fontweight="bold",
        )
        write(ax, 0.1, y + 0.14, clip(where, 16), color=QUIET, fontsize=7)
        for k, line in enumerate(text):
            write(ax, 0.19, y + 0.14 + 0.16 * k, line, color=INK, fontsize=7.5)
        for k, line in enumerate(todo, len(text)):
            write(ax, 0.19, y + 0.14 + 0.16 * k, line, color=QUIET, fontsize=6.5)
        y += 0.12 + 0.16 * (len(text) + len(todo))
        ax.axhline(y, color=LINE, linewidth=0.5)
    if len(found) > PICTURED:
        write(ax, 0.19, y + 0.1, f"{len(found) - PICTURED} more", color=QUIET, fontsize=7)


def still(report: Report) -> Still | None:
    """The findings as a picture, or None when there are none."""
    if not report.findings:
        return None
    figure = new_figure(9.5, height(report) + 0.1)
    paint(figure.add_axes((0.02, 0.03, 0.96, 0.94)), report)
    return Still(png(figure), "image/png", sentence(report))
