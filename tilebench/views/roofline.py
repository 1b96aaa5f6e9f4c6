"""Where a kernel stands between memory and arithmetic: the roofline, log-log, each point with its source."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilebench.report import Report, RooflineInfo, RooflinePoint
from tilebench.views.base import (
    ACCENT,
    BAD,
    INK,
    QUIET,
    Still,
    clip,
    figure_text,
    new_figure,
    number,
    png,
    quiet,
    titled,
)


def performance(point: RooflinePoint) -> float | None:
    """FLOP/s of a point, None without a time."""
    return (
        point.flops / (point.time_us.value * 1e-6)
        if point.time_us and point.time_us.value > 0 and point.flops > 0
        else None
    )


def intensity(point: RooflinePoint) -> float:
    """FLOP per byte of memory traffic."""
    return point.flops / point.bytes if point.bytes > 0 else 0.0


def rate_text(rate: float) -> str:
    """FLOP/s with a prefix: '12.5 TFLOP/s'."""
    for scale, name in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if rate >= scale:
            return f"{rate / scale:.3g} {name}FLOP/s"
    return f"{rate:.3g} FLOP/s"


def extent(info: RooflineInfo) -> tuple[float, float]:
    """The intensities to show: every ridge and every point, with a decade of room."""
    rates = [r.value for r in info.roofs if r.kind == "compute"]
    bands = [r.value for r in info.roofs if r.kind == "bandwidth"]
    at = [c / b for c in rates for b in bands if b > 0 and c > 0] + [
        intensity(p) for p in info.points if intensity(p) > 0
    ]
    return (min(at, default=1.0) / 8, max(at, default=10.0) * 8)


def sentence(info: RooflineInfo) -> str:
    """One line that stands for the picture."""
    parts = [f"roofline of {info.device}"]
    for p in info.points[-1:]:
        rate = performance(p)
        parts.append(
            f"{p.label}: {number(intensity(p))} FLOP/byte" + (f", {rate_text(rate)}" if rate else "")
        )
        if p.time_us:
            parts.append(figure_text(p.time_us))
    if info.limiter:
        parts.append(f"limited by {info.limiter} (predicted)")
    return "; ".join(parts)


class _Labels:
    """Labels in pixels of the axes, each at the first of its places that overlaps no earlier one."""

    CHARACTER, LINE = 3.9, 9.0  # of the font below, in points

    def __init__(self, ax: Any) -> None:
        self.ax = ax
        self.taken: list[tuple[float, float, float, float]] = []

    def put(
        self, x: float, y: float, text: str, places: Sequence[tuple[float, float, str]], **style: Any
    ) -> None:
        """Write `text` beside the data point (x, y): at offsets in points, with an alignment."""
        px, py = self.ax.transData.transform((x, y)) * 72 / self.ax.figure.dpi
        lines = text.split("\n")
        width, height = max(map(len, lines)) * self.CHARACTER, len(lines) * self.LINE
        frame = self.ax.bbox.extents * 72 / self.ax.figure.dpi
        for dx, dy, align in places:
            left = px + dx - {"left": 0.0, "right": width, "center": width / 2}[align]
            box = (left, py + dy - height / 2, left + width, py + dy + height / 2)
            inside = box[0] > frame[0] and box[2] < frame[2] and box[1] > frame[1] and box[3] < frame[3]
            if inside and not any(
                box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3] for t in self.taken
            ):
                self.taken.append(box)
                note = self.ax.annotate(
                    text, (x, y), xytext=(dx, dy), textcoords="offset points", ha=align, va="center",
                    **{"fontsize": 6.5, "linespacing": 1.1, "color": INK, **style},
                )  # fmt: skip
                note.set_parse_math(False)
                return

    def block(self, x: float, y: float, radius: float) -> None:
        """Keep labels off a data point."""
        px, py = self.ax.transData.transform((x, y)) * 72 / self.ax.figure.dpi
        self.taken.append((px - radius, py - radius, px + radius, py + radius))


def paint(ax: Any, info: RooflineInfo) -> None:
    """Draw the ceilings and the path of points; a measured point is filled, a predicted one is hollow."""
    low, high = extent(info)
    bands = sorted((r for r in info.roofs if r.kind == "bandwidth"), key=lambda r: -r.value)
    rates = [r for r in info.roofs if r.kind == "compute"]
    band = max((r.value for r in bands), default=0.0)
    top = max((r.value for r in rates), default=float(band * high))
    timed = [p for p in info.points if performance(p) is not None and intensity(p) > 0]
    slowest = min((performance(p) or top for p in timed), default=top)
    _axes(ax, info, (low, high), (min(top / 2e4, slowest / 4), top * 4))
    labels = _Labels(ax)
    for p in timed:
        labels.block(intensity(p), performance(p) or 0.0, 5)
    for k, r in enumerate(bands):
        x = np.geomspace(low, top / r.value, 24) if top > low * r.value else np.array([low, high])
        dim = k < len(bands) - 1
        ax.plot(
            x, x * r.value, color=ACCENT, linewidth=1, linestyle="--" if dim else "-", alpha=0.7 if dim else 1
        )
        ends = ax.transData.transform([(x[0], x[0] * r.value), (x[-1], x[-1] * r.value)])
        angle = math.degrees(math.atan2(*(ends[1] - ends[0])[::-1]))
        shown = max(float(x[0]), ax.get_ylim()[0] / r.value)  # the left end: ceilings cross it further right
        at = shown * (float(x[-1]) / shown) ** 0.24
        over = (k == 0 and len(bands) > 1) or len(bands) == 1
        note = ax.annotate(
            clip(r.name, 26), (at, at * r.value), xytext=(0, 5 if over else -6), textcoords="offset points",
            rotation=angle, rotation_mode="anchor", ha="center", va="center", fontsize=6.5, color=ACCENT,
        )  # fmt: skip
        note.set_parse_math(False)
        for step in x:
            labels.block(float(step), float(step * r.value), 2)
    for r in rates:
        start = max(low, r.value / band if band else low)
        ax.plot([start, high], [r.value, r.value], color=INK, linewidth=1)
        for at in np.geomspace(start, high, 40) if start < high else ():
            labels.block(float(at), r.value, 0.4)
        labels.put(
            high, r.value, clip(r.name, 26), ((-3, 5, "right"), (-3, -5, "right")), color=QUIET, fontsize=6
        )
    if len(timed) > 1:
        path = [(intensity(p), performance(p)) for p in timed]
        ax.plot(*zip(*path, strict=True), color=QUIET, linewidth=0.8, linestyle=":", zorder=2)
    for p in reversed(timed):
        rate, last = performance(p) or 0.0, p is timed[-1]
        assert p.time_us is not None, "a point with a performance has a time"
        filled = p.time_us.provenance == "measured"
        ax.plot(
            [intensity(p)], [rate], marker="o", color=BAD, markerfacecolor=BAD if filled else "white",
            markersize=6 if last else 4, zorder=3,
        )  # fmt: skip
        number_ = f"{info.points.index(p) + 1}. " if len(info.points) > 1 else ""
        text = (
            f"{number_}{clip(p.label, 18)}: {rate_text(rate)}\n{p.time_us.provenance}"
            if last
            else number_[:-2]
        )
        labels.put(
            intensity(p), rate, text,
            ((8, 0, "left"), (-8, 0, "right"), (0, 14, "center"), (0, -14, "center"), (8, -12, "left"),
             (-8, -12, "right")) if last else
            tuple((side * 8, dy, at) for dy in (0, -4, 4) for side, at in ((1, "left"), (-1, "right"))),
        )  # fmt: skip


def _axes(ax: Any, info: RooflineInfo, across: tuple[float, float], up: tuple[float, float]) -> None:
    (low, high), (floor, ceiling) = across, up
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.minorticks_off()
    xs = [10.0**k for k in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    ys = [10.0**k for k in range(math.ceil(math.log10(floor)), math.floor(math.log10(ceiling)) + 1)]
    ax.set_xticks(
        xs, [f"{x:g}" for x in xs]
    )  # plain words: the default labels are set as mathematics, slowly
    ax.set_yticks(ys, [rate_text(y).removesuffix("FLOP/s") for y in ys])
    ax.set_xlim(low, high)
    ax.set_ylim(floor, ceiling)
    ax.grid(True, color="#eaeef2", linewidth=0.6)
    quiet(ax)
    ax.set_xlabel("FLOP per byte", fontsize=7, color=QUIET, labelpad=1)
    titled(ax, f"roofline of {clip(info.device, 34)}, FLOP/s")


def still(report: Report) -> Still | None:
    """The roofline of a report, or None when there is none."""
    if report.roofline is None:
        return None
    figure = new_figure(5.5, 3.6)
    paint(figure.add_axes((0.11, 0.13, 0.86, 0.77)), report.roofline)
    return Still(png(figure), "image/png", sentence(report.roofline))
