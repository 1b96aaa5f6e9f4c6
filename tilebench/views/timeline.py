"""The pipeline over time: bars by lane, coloured by phase, always said to be predicted or measured."""

from __future__ import annotations

import math
from typing import Any

from tilebench.report import Report, TimelineInfo
from tilebench.views.base import INK, QUIET, Still, clip, new_figure, number, png, quiet, titled, write

PHASES = {"prologue": "#c9b3e6", "steady": "#8ecae6", "epilogue": "#ffcf8a", "": "#c4cbd2"}


def lanes(info: TimelineInfo) -> list[str]:
    """The lanes in the order in which they first appear."""
    return list(dict.fromkeys(b.lane for b in info.bars))


def sentence(info: TimelineInfo) -> str:
    """One line that stands for the picture."""
    end = max((b.end_us for b in info.bars), default=0.0)
    where = ", ".join(lanes(info))
    return f"{info.provenance} timeline: {len(info.bars)} bars on {where}, {number(end)} us; {info.note}"


def nice(wanted: float) -> float:
    """A step of 1, 2 or 5 times a power of ten, at least `wanted`."""
    power = 10.0 ** math.floor(math.log10(wanted))
    return power * next(m for m in (1, 2, 5, 10) if wanted <= m * power * 1.0001)


def paint(ax: Any, info: TimelineInfo) -> None:
    """Draw the bars with their labels where they fit."""
    names = lanes(info)
    end = max((b.end_us for b in info.bars), default=1.0) or 1.0
    for phase, colour in PHASES.items():
        for y, lane in enumerate(names):
            spans = [
                (b.start_us, max(b.end_us - b.start_us, end / 600))
                for b in info.bars
                if b.lane == lane and b.phase == phase
            ]
            if spans:
                ax.broken_barh(spans, (y - 0.36, 0.72), facecolors=colour, edgecolors=INK, linewidth=0.4)
    for b in info.bars:
        room = (b.end_us - b.start_us) / end * 125
        label = f"{b.label} {b.iteration}" if b.iteration >= 0 else b.label
        short = str(b.iteration) if b.iteration >= 0 else ""
        fitting = next((t for t in (label, short) if t and len(t) + 1 < room), "")
        if fitting:
            write(
                ax,
                (b.start_us + b.end_us) / 2,
                names.index(b.lane),
                clip(fitting, 24),
                ha="center",
                fontsize=6,
            )
    ax.set_yticks(range(len(names)), [clip(n, 16) for n in names])
    for tick in ax.get_yticklabels():
        tick.set_parse_math(False)
    step = nice(end / 8)
    xs = [k * step for k in range(int(end / step) + 1)]
    ax.set_xticks(xs, [f"{x:g}" for x in xs])
    ax.set_ylim(len(names) - 0.45, -0.55)
    ax.set_xlim(0, end * 1.01)
    quiet(ax)
    titled(ax, f"timeline ({info.provenance}), microseconds")
    note = ax.annotate(
        clip(info.note, 150),
        (0, 0),
        xytext=(0, -15),
        xycoords="axes fraction",
        textcoords="offset points",
        va="top",
        fontsize=6.5,
        color=QUIET,
    )
    note.set_parse_math(False)
    present = [p for p in PHASES if p and any(b.phase == p for b in info.bars)]
    for k, phase in enumerate(present):
        write(
            ax,
            1.0 - 0.09 * (len(present) - k),
            1.06,
            f"■ {phase}",
            transform=ax.transAxes,
            fontsize=6.5,
            color=QUIET,
        )
        ax.texts[-1].set_bbox({"facecolor": PHASES[phase], "edgecolor": "none", "pad": 1})


def still(report: Report) -> Still | None:
    """Every timeline of a report, one above the other, or None when there is none."""
    if not report.timelines:
        return None
    figure = new_figure(9.5, 0.7 + sum(0.6 + 0.35 * len(lanes(t)) for t in report.timelines))
    for k, info in enumerate(report.timelines):
        paint(figure.add_subplot(len(report.timelines), 1, k + 1), info)
    figure.subplots_adjust(left=0.1, right=0.99, top=0.83, bottom=0.24, hspace=0.7)
    return Still(png(figure), "image/png", ". ".join(sentence(t) for t in report.timelines))
