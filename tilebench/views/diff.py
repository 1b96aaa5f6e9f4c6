"""The result against its references: heat map of error over bound, worst elements, the rule that decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tilebench.report import LARGEST_ERROR, LARGEST_RATIO, DiffInfo, Report, WorstElement
from tilebench.views.base import (
    BAD,
    GOOD,
    LINE,
    QUIET,
    Still,
    clip,
    html_table,
    new_figure,
    no_axes,
    number,
    png,
    signed,
    titled,
    write,
)


def shown(report: Report) -> DiffInfo | None:
    """The comparison to picture: the first that failed, else the first."""
    failed = [d for d in report.diffs if d.verdict == "fail"]
    return (failed or list(report.diffs) or [None])[0]


def lean(report: Report) -> Report:
    """The report with heat maps in half precision, plenty for a colour: what a notebook keeps."""
    diffs = tuple(
        d if d.heat is None else replace(d, heat=np.clip(d.heat, 0, 60000).astype(np.float16))
        for d in report.diffs
    )
    return replace(report, diffs=diffs)


def heat_colours(heat: np.ndarray) -> np.ndarray:
    """uint8 [rows, columns, 3] of max |error| / bound: white at 0, blue to 1 (the bound), yellow to red
    beyond.

    The steps match the legend: 0 to 1 linear, above 1 by the logarithm up to 1e6.
    """
    ratio = np.nan_to_num(np.asarray(heat, float), nan=1e30, posinf=1e30, neginf=0.0)
    inside = np.clip(ratio, 0, 1)[..., None]
    beyond = np.clip(np.log10(np.maximum(ratio, 1)) / 6, 0, 1)[..., None]
    low = np.array([247, 250, 255]) * (1 - inside) + np.array([107, 158, 230]) * inside
    high = np.array([255, 196, 61]) * (1 - beyond) + np.array([190, 20, 30]) * beyond
    return np.round(np.where(ratio[..., None] > 1, high, low)).astype(np.uint8)


def said(value: float) -> str:
    """A value of an element: NaN and infinities by their names."""
    return "NaN" if value != value else signed(number(value))


def figures(w: WorstElement) -> tuple[str, str, str, str]:
    """(got, reference, error, error / bound) of an element; '–' where there is no such number."""
    return (
        said(w.value) if w.written else "never written",
        said(w.reference),
        number(w.error) if w.error < LARGEST_ERROR else "–",
        number(w.ratio) if w.ratio < LARGEST_RATIO else "–",
    )


def worst(d: DiffInfo) -> str:
    """The worst of |error| / bound, '–' where it is no number."""
    return number(d.max_ratio) if d.max_ratio < LARGEST_RATIO else "–"


def sentence(d: DiffInfo) -> str:
    """One line: verdict, rule, counts."""
    line = f"{d.output} against {d.against}: {d.verdict} ({d.how})"
    line += f"; {d.wrong} of {d.checked} checked elements wrong"
    if d.unwritten:
        line += f", {d.unwritten} of them never written"
    if d.special:
        line += f", {d.special} of them NaN or infinite on one side"
    if not d.wrong or d.wrong > d.unwritten + d.special:
        line += f", largest |error| {number(d.max_abs)}"
        line += f", {worst(d)} times its bound" if d.max_ratio < LARGEST_RATIO else ""
    if d.ambiguous:
        line += f"; {d.ambiguous} ambiguous elements left out"
    if d.checked < d.total:
        line += f"; {d.total} elements in all"
    return line + (f"; pattern: {d.pattern}" if d.pattern else "")


def paint(ax: Any, d: DiffInfo) -> None:
    """Draw the heat map, or the sentence when there is none."""
    if d.heat is not None and d.heat.ndim == 2 and d.heat.size:
        ax.imshow(heat_colours(d.heat), interpolation="nearest", aspect="auto")
    no_axes(ax)
    ax.axhspan(*ax.get_ylim(), fill=False, edgecolor=LINE, linewidth=1.2)
    titled(
        ax,
        f"{clip(d.output, 14)} against {clip(d.against, 10)}: {d.verdict}",
        {"pass": GOOD, "fail": BAD}.get(d.verdict, QUIET),
    )
    which = " (yellow to red)" if d.wrong and d.heat is not None else ""
    counts = f"{d.wrong} of {d.checked} wrong{which}"
    counts += f"; {d.unwritten} never written" if d.unwritten else ""
    counts += f"; worst {worst(d)} × bound" if d.max_ratio < LARGEST_RATIO else ""
    lines = [counts, d.pattern or d.how]
    for k, line in enumerate(lines):
        write(ax, 0.0, -0.06 - 0.075 * k, clip(line, 58), transform=ax.transAxes, fontsize=6.5, color=QUIET)


def html(report: Report) -> str:
    """The verdict of each comparison, and the worst elements of those that failed."""
    out = html_table(
        ("output", "against", "verdict", "wrong", "checked", "worst |error| / bound", "rule"),
        [(d.output, d.against, d.verdict, d.wrong, d.checked, worst(d), d.how) for d in report.diffs],
    )
    for d in report.diffs:
        if d.verdict == "fail":
            rows = [(list(w.coord), *figures(w), w.line or "–") for w in d.worst[:5]]
            out += html_table(
                ("element", "got", "reference", "error", "error / bound", "line"),
                rows,
                f"worst elements of {d.output}",
            )
    return out


def still(report: Report) -> Still | None:
    """The heat map of a report's comparison, or None when nothing was compared."""
    d = shown(report)
    if d is None:
        return None
    figure = new_figure(4.5, 3.6)
    paint(figure.add_axes((0.03, 0.14, 0.94, 0.77)), d)
    return Still(png(figure), "image/png", sentence(d))
