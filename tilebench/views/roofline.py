"""Where a kernel stands between memory and arithmetic: the roofline, log-log, each point with its source."""

from __future__ import annotations

import math
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
    write,
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


def paint(ax: Any, info: RooflineInfo) -> None:
    """Draw the ceilings and the points; a measured point is filled, a predicted one is hollow."""
    low, high = extent(info)
    x = np.geomspace(low, high, 64)
    bands = [r for r in info.roofs if r.kind == "bandwidth"]
    rates = [r for r in info.roofs if r.kind == "compute"]
    band = max((r.value for r in bands), default=0.0)
    for r in rates:
        start = r.value / band if band else low
        ax.plot([max(low, start), high], [r.value, r.value], color=INK, linewidth=1)
        write(ax, high, r.value, clip(r.name, 26) + " ", ha="right", va="bottom", fontsize=6, color=QUIET)
    top = max((r.value for r in rates), default=float(band * high))
    for r in bands:
        ax.plot(x, np.minimum(x * r.value, top), color=ACCENT, linewidth=1)
        middle = float(np.sqrt(low * top / r.value)) if top > low * r.value else low
        write(
            ax,
            middle * 0.8,
            middle * r.value * 1.2,
            clip(r.name, 26),
            fontsize=6.5,
            color=ACCENT,
            va="bottom",
            ha="right",
        )
    for k, p in enumerate(info.points):
        rate = performance(p)
        if rate is None or p.time_us is None or intensity(p) <= 0:
            continue
        last = k == len(info.points) - 1
        filled = p.time_us.provenance == "measured"
        ax.plot(
            [intensity(p)],
            [rate],
            marker="o" if last else ".",
            color=BAD,
            markerfacecolor=BAD if filled else "white",
            markersize=6,
            zorder=3,
        )
        if last:
            share = f"{clip(p.label, 18)}: {rate_text(rate)}\n{p.time_us.provenance}"
            right = intensity(p) < np.sqrt(low * high)
            write(
                ax,
                intensity(p) * (1.15 if right else 1 / 1.15),
                rate,
                share,
                fontsize=6.5,
                ha="left" if right else "right",
                linespacing=1.1,
            )
    floor, ceiling = top / 2e4, top * 4
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
