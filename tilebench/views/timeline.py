"""One block over time: bars by lane, coloured by phase; the measured block under the predicted one. What a
thread only waits for is hollow, work that it only starts is flat.

What a launch takes is a sum of such blocks (`TimelineInfo.terms`), and the sum is said. `chrome_trace` is
the same data for Perfetto and chrome://tracing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilebench.report import Report, TimelineBar, TimelineInfo
from tilebench.views.base import (
    GAP,
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
    line = f"{info.provenance} timeline: {len(info.bars)} bars on {where}, {number(end)} {info.unit}"
    line = f"{line}; {info.note}"
    return f"{line}; launch: {sum_text(info)}" if info.terms else line


def nice(wanted: float) -> float:
    """A step of 1, 2 or 5 times a power of ten, at least `wanted`."""
    power = 10.0 ** math.floor(math.log10(wanted))
    return power * next(m for m in (1, 2, 5, 10) if wanted <= m * power * 1.0001)


def one_of_each(info: TimelineInfo) -> tuple[TimelineBar, ...]:
    """The bars of the first warp of each role: of a measured block, the others do much the same."""
    if not info.warps:
        return info.bars
    grouped = any(b.lane == "producer" or b.lane.startswith("warpgroup ") for b in info.bars)

    def role(warp: int) -> int:
        return warp // 4 if grouped else 0

    first = {role(w): w for w in sorted(info.warps, reverse=True)}
    return tuple(b for b in info.bars if b.warp < 0 or first[role(b.warp)] == b.warp)


def pack(bars: Sequence[TimelineBar]) -> tuple[list[int], int]:
    """The row of each bar such that none overlaps another in its row, and how many rows there are."""
    ends: list[float] = []
    rows = [0] * len(bars)
    for k in sorted(range(len(bars)), key=lambda k: (bars[k].start_us, bars[k].end_us)):
        row = next((r for r, end in enumerate(ends) if end <= bars[k].start_us + 1e-9), len(ends))
        if row == len(ends):
            ends.append(0.0)
        ends[row] = bars[k].end_us
        rows[k] = row
    return rows, max(1, len(ends))


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
    shown = one_of_each(info)
    for y, lane in enumerate(names):
        mine = [b for b in shown if b.lane == lane]
        rows, count = pack(mine)
        for bar, row in zip(mine, rows, strict=True):
            height = 0.72 / count
            _bar(ax, bar, at, end, (y - 0.36 + row * height, height))
    for start, stop in info.cuts:
        ax.axvspan(at(start), at(stop), color=GAP, linewidth=0)
        ax.annotate(
            f"⋯\n{number(stop - start)} {info.unit}", ((at(start) + at(stop)) / 2, (len(names) - 1) / 2),
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
    unit = "microseconds" if info.unit == "us" else "steps of the emulator"
    titled(ax, f"timeline of one block ({where}), {unit}")
    _notes(ax, [clip(info.note, 175), clip(f"launch: {sum_text(info)}", 175) if info.terms else ""])
    present = [p for p in PHASES if p and any(b.phase == p for b in info.bars)]
    for k, phase in enumerate(present):
        label = write(ax, 1.0 - 0.09 * (len(present) - k), 1.06, phase, transform=ax.transAxes, fontsize=6.5)
        label.set_bbox({"facecolor": PHASES[phase], "edgecolor": "none", "pad": 2})


def _bar(ax: Any, b: TimelineBar, at: _Axis, end: float, place: tuple[float, float]) -> None:
    """One bar, with its label where that fits. place: top and height in lanes."""
    top, height = place
    span = (at(b.start_us), max(at(b.end_us) - at(b.start_us), end / 600))
    if b.kind == "issue":
        top, height = top + height / 2, height / 2
    waiting = b.kind == "wait"
    ax.broken_barh(
        [span], (top, height), facecolors="none" if waiting else PHASES[b.phase],
        edgecolors=QUIET if waiting else INK, linewidth=0.4, linestyle="--" if waiting else "-",
    )  # fmt: skip
    room = (at(b.end_us) - at(b.start_us)) / end * 125
    label = f"{b.label} {b.iteration}" if b.iteration >= 0 else b.label
    short = str(b.iteration) if b.iteration >= 0 else ""
    fitting = next((t for t in (label, short) if t and len(t) + 1 < room), "")
    if fitting and b.kind != "issue" and height > 0.2:
        middle = (at(b.start_us) + at(b.end_us)) / 2
        write(ax, middle, top + height / 2, clip(fitting, 24), ha="center", fontsize=6)


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
    inches = [0.95 + 0.3 * len(lanes(t)) for t in shown]
    whole = 0.2 + sum(inches)
    figure = new_figure(9.5, whole)
    top = whole - 0.2
    for info, height in zip(shown, inches, strict=True):  # a title above the axes, ticks and notes below
        paint(figure.add_axes((0.1, (top - height + 0.55) / whole, 0.89, (height - 0.9) / whole)), info)
        top -= height
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
        threads, of = _threads(info)
        scale = ", a step as 1 us" if info.unit == "steps" else ""
        label = f"{report.name}: {info.provenance}{f', {info.device}' if info.device else ''}{scale}"
        events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": label}})
        events += [
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
            for tid, name in enumerate(threads)
        ]
        for k, b in enumerate(info.bars):
            events.append(
                {
                    "ph": "X", "cat": b.phase or "straight",
                    "name": f"{b.label} {b.iteration}" if b.iteration >= 0 else b.label,
                    "pid": pid, "tid": of[k], "ts": b.start_us, "dur": b.end_us - b.start_us,
                    "args": {
                        "op": b.op, "iteration": b.iteration, "line": b.line, "kind": b.kind, "warp": b.warp
                    },
                }
            )  # fmt: skip
        for number_, (a, b) in enumerate(info.arrows):
            arrives = info.bars[b].end_us if info.bars[b].kind == "wait" else info.bars[b].start_us
            for kind, bar, ts in (("s", a, info.bars[a].end_us), ("f", b, arrives)):
                events.append(
                    {
                        "ph": kind, "cat": "dependence", "name": "waits for", "id": pid * 100000 + number_,
                        "pid": pid, "tid": of[bar], "ts": ts,
                        **({"bp": "e"} if kind == "f" else {}),
                    }
                )  # fmt: skip
    return {
        "displayTimeUnit": "ns",
        "traceEvents": events,
        "otherData": {"kernel": report.name, "target": report.target},
    }


def _threads(info: TimelineInfo) -> tuple[list[str], list[int]]:
    """The threads of a trace, one for each lane and warp (several where bars overlap), and the one of each
    bar.
    """
    keys = [f"{b.lane}, warp {b.warp}" if b.warp >= 0 else b.lane for b in info.bars]
    threads: list[str] = []
    of = [0] * len(keys)
    for key in dict.fromkeys(keys):
        mine = [k for k, own in enumerate(keys) if own == key]
        rows, count = pack([info.bars[k] for k in mine])
        for k, row in zip(mine, rows, strict=True):
            of[k] = len(threads) + row
        threads += [f"{key} ({r + 1})" if r else key for r in range(count)]
    return threads, of
