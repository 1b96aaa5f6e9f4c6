"""What is worth knowing: kind, place in the cell, text, hint."""

from __future__ import annotations

from tilebench.report import Report
from tilebench.views.base import html_table

ORDER = {"error": 0, "warning": 1, "info": 2}


def rows(report: Report) -> list[tuple[str, str, str, str]]:
    """(severity, lines, text, hint), the worst first."""
    return [
        (f.severity, ", ".join(str(s.line) for s in f.spans), f"{f.kind}: {f.text}", f.hint)
        for f in sorted(report.findings, key=lambda f: ORDER[f.severity])
    ]


def html(report: Report) -> str:
    """The findings as a table, '' when there are none."""
    return html_table(("severity", "line", "finding", "hint"), rows(report))
