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


def paint(ax: Any, report: Report) -> None:
    """Draw the findings as lines with marks."""
    no_axes(ax)
    ax.set_xlim(0, 1)
    ax.set_ylim(PICTURED + 0.5, -0.6)
    found = sorted_findings(report)
    for k, f in enumerate(found[:PICTURED]):
        colour = {"error": BAD, "warning": WARN}.get(f.severity, QUIET)
        where = f"line {', '.join(str(s.line) for s in f.spans)}" if f.spans else ""
        write(ax, 0.0, k, f"{MARKS[f.severity]} {f.severity}", color=colour, fontsize=7.5)
        write(ax, 0.1, k, where, color=QUIET, fontsize=7)
        write(ax, 0.19, k - 0.17, clip(f"{f.kind}: {f.text}", 130), color=INK, fontsize=7.5)
        write(ax, 0.19, k + 0.22, clip(f.hint, 140), color=QUIET, fontsize=6.5)
        ax.axhline(k + 0.5, color=LINE, linewidth=0.5)
    if len(found) > PICTURED:
        write(ax, 0.19, PICTURED, f"{len(found) - PICTURED} more", color=QUIET, fontsize=7)


def still(report: Report) -> Still | None:
    """The findings as a picture, or None when there are none."""
    if not report.findings:
        return None
    figure = new_figure(9.5, 2.6)
    paint(figure.add_axes((0.02, 0.03, 0.96, 0.94)), report)
    return Still(png(figure), "image/png", sentence(report))
