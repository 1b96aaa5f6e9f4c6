"""The compiler pass by pass: how long each took and how many lines it changed."""

from __future__ import annotations

import difflib

from tilebench.report import Report
from tilebench.views.base import html_table, number


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


def html(report: Report) -> str:
    """A table: pass, milliseconds, lines it added and removed."""
    rows = [
        (name, f"{number(us / 1e3)} ms (measured on this machine)", f"+{added}", f"-{removed}")
        for name, us, added, removed in changes(report)
    ]
    return html_table(("pass", "time", "lines added", "lines removed"), rows)
