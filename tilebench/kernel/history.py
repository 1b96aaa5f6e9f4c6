"""A kernel compiled again: earlier compiles on its roofline, and what changed since the last one."""

from __future__ import annotations

from dataclasses import replace

from tilebench.report import Report

REMEMBERED = 12
"""Points of earlier compiles that a report carries."""


def continued(report: Report, before: Report | None) -> Report:
    """The report with the path of compiles that led to it, oldest first, and the difference card.

    before: the report of the compile before it, which has its own path; the same compile run again adds
    nothing. Points of another device are left out: two data sheets do not belong on one roofline.
    """
    if before is None:
        return report
    made = report
    if before.roofline is not None and report.roofline is not None:
        earlier = [p for p in before.roofline.points if before.roofline.device == report.roofline.device]
        own = {p.id for p in report.roofline.points if p.id}
        while earlier and earlier[-1].id in own:
            earlier.pop()
        points = (*earlier[-REMEMBERED:], *report.roofline.points)
        made = replace(made, roofline=replace(report.roofline, points=points))
    if before.id != report.id:
        from tilebench.views.differences import compare

        made = replace(made, compare=compare(before, report))
    return made
