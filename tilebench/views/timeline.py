"""One block over time: bars by lane, coloured by phase; the measured block under the predicted one.

What a launch takes is a sum of such blocks (`TimelineInfo.terms`), and the sum is said. `chrome_trace` is
the same data for Perfetto and chrome://tracing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilebench.report import Report, TimelineInfo
from tilebench.views.base import (
    INK,
    QUIET,
    Still,
    clip,
    html_table,
    new_figure,
    number,
    png,
    quiet,
    titled,
    write,
)

PHASES = {"prologue": "#c9b3e6", "steady": "#8ecae6", "epilogue": "#ffcf8a", "": "#c4cbd2"}
BREAK = 0.05
"""Share of the picture's width that a stretch which is left out takes."""


def lanes(info: TimelineInfo) -> list[str]:
    """The lanes in the order in which they first appear."""
    return list(dict.fromkeys(b.lane for b in info.bars))


def sum_text(info: TimelineInfo) -> str:
    """'launch 2.5 + 3 x 84.6 (waves ...) + 84.6 (last wave ...) = 341 us', '' without terms."""
    if not info.terms:
        return ""
    parts = [
        f"{f'{number(t.count)} x ' if t.count != 1 else ''}{number(t.each_us)} ({t.text})" for t in info.terms
    ]
    return f"{' + '.join(parts)} = {number(info.total_us)} us"


def sentence(info: TimelineInfo) -> str:
    """One line that stands for the picture."""
    end = max((b.end_us for b in info.bars), default=0.0)
    where = ", ".join(lanes(info))
    line = f"{info.provenance} timeline: {len(info.bars)} bars on {where}, {number(end)} us; {info.note}"
    return f"{line}; launch: {sum_text(info)}" if info.terms else line


def nice(wanted: float) -> float:
    """A step of 1, 2 or 5 times a power of ten, at least `wanted`."""
    power = 10.0 ** math.floor(math.log10(wanted))
    return power * next(m for m in (1, 2, 5, 10) if wanted <= m * power * 1.0001)


class _Axis:
    """Times to places, cuts taken out and each drawn as a gap."""

    def __init__(self, info: TimelineInfo) -> None:
        self.cuts = info.cuts
        self.end = max((b.end_us for b in info.bars), default=1.0) or 1.0
        self.gap = BREAK * (self.end - sum(b - a for a, b in self.cuts))

    def __call__(self, us: float) -> float:
        shift = 0.0
        for start, end in self.cuts:
            if us >= end:
                shift += end - start - self.gap
            elif us > start:
                shift += (us - start) * (1 - self.gap / (end - start))
        return us - shift


def paint(ax: Any, info: TimelineInfo) -> None:
    """Draw the bars with their labels where they fit, and the sum that the launch is."""
    names = lanes(info)
    at = _Axis(info)
    end = at(at.end)
    for phase, colour in PHASES.items():
        for y, lane in enumerate(names):
            spans = [
                (at(b.start_us), max(at(b.end_us) - at(b.start_us), end / 600))
                for b in info.bars
                if b.lane == lane and b.phase == phase
            ]
            if spans:
                ax.broken_barh(spans, (y - 0.36, 0.72), facecolors=colour, edgecolors=INK, linewidth=0.4)
    for b in info.bars:
        room = (at(b.end_us) - at(b.start_us)) / end * 125
        label = f"{b.label} {b.iteration}" if b.iteration >= 0 else b.label
        short = str(b.iteration) if b.iteration >= 0 else ""
        fitting = next((t for t in (label, short) if t and len(t) + 1 < room), "")
        if fitting:
            middle = (at(b.start_us) + at(b.end_us)) / 2
            write(ax, middle, names.index(b.lane), clip(fitting, 24), ha="center", fontsize=6)
    for start, stop in info.cuts:
        ax.axvspan(at(start), at(stop), color="#eaeef2", linewidth=0)
        ax.annotate(
            f"⋯\n{number(stop - start)} us", ((at(start) + at(stop)) / 2, (len(names) - 1) / 2),
            ha="center", va="center", fontsize=6, color=QUIET,
        )  # fmt: skip
    ax.set_yticks(range(len(names)), [clip(n, 16) for n in names])
    for tick in ax.get_yticklabels():
        tick.set_parse_math(False)
    _ticks(ax, info, at, end)
    ax.set_ylim(len(names) - 0.45, -0.55)
    ax.set_xlim(0, end * 1.01)
    quiet(ax)
    where = f"{info.provenance}{f', {info.device}' if info.device else ''}"
    titled(ax, f"timeline of one block ({where}), microseconds")
    _notes(ax, [clip(info.note, 175), clip(f"launch: {sum_text(info)}", 175) if info.terms else ""])
    present = [p for p in PHASES if p and any(b.phase == p for b in info.bars)]
    for k, phase in enumerate(present):
        write(
            ax, 1.0 - 0.09 * (len(present) - k), 1.06, f"■ {phase}", transform=ax.transAxes, fontsize=6.5,
            color=QUIET,
        )  # fmt: skip
        ax.texts[-1].set_bbox({"facecolor": PHASES[phase], "edgecolor": "none", "pad": 1})


def _ticks(ax: Any, info: TimelineInfo, at: _Axis, end: float) -> None:
    step = nice(end / 8)
    every = [k * step for k in range(int(at.end / step) + 1)] if at.end / step < 1e5 else [0.0]
    kept = [t for t in every if not any(a < t < b for a, b in info.cuts)]
    ax.set_xticks([at(t) for t in kept], [f"{t:.6g}" for t in kept])


def _notes(ax: Any, lines: Sequence[str]) -> None:
    for k, line in enumerate(line for line in lines if line):
        note = ax.annotate(
            line, (0, 0), xytext=(0, -15 - 10 * k), xycoords="axes fraction", textcoords="offset points",
            va="top", fontsize=6.5, color=QUIET,
        )  # fmt: skip
        note.set_parse_math(False)


def still(report: Report) -> Still | None:
    """Every timeline of a report, one above the other, or None when there is none."""
    shown = [t for t in report.timelines if t.bars]
    if not shown:
        return None
    figure = new_figure(9.5, 0.9 + sum(0.7 + 0.35 * len(lanes(t)) for t in shown))
    for k, info in enumerate(shown):
        paint(figure.add_subplot(len(shown), 1, k + 1), info)
    figure.subplots_adjust(left=0.1, right=0.99, top=0.83, bottom=0.3, hspace=1.0)
    return Still(png(figure), "image/png", ". ".join(sentence(t) for t in shown))


def html(report: Report) -> str:
    """The sum that each timeline's launch is, as a table; '' without one."""
    out = ""
    for info in report.timelines:
        rows = [(t.text, number(t.count), number(t.each_us), number(t.count * t.each_us)) for t in info.terms]
        if rows:
            rows.append(("the whole launch", "", "", number(info.total_us)))
            out += html_table(
                ("what", "times", "us each", "us"),
                rows,
                f"time of the launch ({info.provenance}{f', {info.device}' if info.device else ''})",
            )
    return html_table(("what the compiler chose",), [(line,) for line in report.schedule]) + out


def chrome_trace(report: Report) -> dict[str, Any]:
    """The timelines in Chrome's trace format, as JSON data: a process for each, a thread for each lane.

    Times are microseconds since the block started. Open the file in ui.perfetto.dev or chrome://tracing.
    Source: "Trace Event Format", Google, complete events (X), flows (s, f) and metadata (M).
    """
    events: list[dict[str, Any]] = []
    for pid, info in enumerate(report.timelines):
        names = lanes(info)
        label = f"{report.name}: {info.provenance}{f', {info.device}' if info.device else ''}"
        events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": label}})
        events += [
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": lane}}
            for tid, lane in enumerate(names)
        ]
        for b in info.bars:
            events.append(
                {
                    "ph": "X", "cat": b.phase or "straight",
                    "name": f"{b.label} {b.iteration}" if b.iteration >= 0 else b.label,
                    "pid": pid, "tid": names.index(b.lane), "ts": b.start_us, "dur": b.end_us - b.start_us,
                    "args": {"op": b.op, "iteration": b.iteration, "line": b.line},
                }
            )  # fmt: skip
        for number_, (a, b) in enumerate(info.arrows):
            ends = (("s", info.bars[a], info.bars[a].end_us), ("f", info.bars[b], info.bars[b].start_us))
            for kind, bar, ts in ends:
                events.append(
                    {
                        "ph": kind, "cat": "dependence", "name": "waits for", "id": pid * 100000 + number_,
                        "pid": pid, "tid": names.index(bar.lane), "ts": ts,
                        **({"bp": "e"} if kind == "f" else {}),
                    }
                )  # fmt: skip
    return {
        "displayTimeUnit": "ns",
        "traceEvents": events,
        "otherData": {"kernel": report.name, "target": report.target},
    }
