"""The points that were tried of a kernel's tunables: as sliders where there is a kernel, as a table
everywhere.
"""

from __future__ import annotations

from typing import Any

from tilebench.report import Report, TriedPoint, WhatIfInfo
from tilebench.views.base import (
    ACCENT,
    BAD,
    GOOD,
    INK,
    LINE,
    QUIET,
    Still,
    clip,
    figure_text,
    html_table,
    new_figure,
    no_axes,
    number,
    png,
    signed,
    titled,
    write,
)

PICTURED = 12
"""Points in the picture."""
LISTED = 40


def microseconds(point: TriedPoint) -> float | None:
    """The predicted time of a point, None for an illegal one or where the shapes are not known."""
    return point.point.time_us.value if point.point is not None and point.point.time_us is not None else None


def changed(point: TriedPoint, info: WhatIfInfo) -> str:
    """What a point changes of the base: 'block_M=64, num_stages=4', 'as it is' for the base."""
    parts = [f"{k}={v}" for k, v in point.config.items() if info.base.get(k) != v]
    return ", ".join(parts) or "as it is"


def registers(point: TriedPoint) -> str:
    """'192 (estimate)' before the compile, '213 (compiler's log)' after it."""
    count = point.resources.registers
    if count is None:
        return "–"
    return f"{count} ({origin(point)})"


def origin(point: TriedPoint) -> str:
    """Where the registers of a point are from."""
    return "compiler's log" if point.state == "compiled" else "estimate"


def ran(point: TriedPoint) -> str:
    """'0.92 ms (measured on ...), right' of a point that was run, why it failed, or ''."""
    parts: list[str] = []
    if point.measured is not None:
        result = {True: "right", False: f"wrong: {point.verdict}", None: "result not checked"}[point.ok]
        parts.append(f"{figure_text(point.measured)}, {result}")
    if point.problem:
        parts.append(f"it did not run: {point.problem}")
    return "; ".join(parts)


def order(info: WhatIfInfo) -> list[TriedPoint]:
    """The base, what was kept, then the rest, the fastest first; illegal points last."""

    def rank(p: TriedPoint) -> tuple[int, int, float]:
        base = p.config == info.base
        us = microseconds(p)
        return (0 if base else 1 if p.kept else 2 if us is not None else 3, 0, us if us is not None else 0.0)

    return sorted(info.tried, key=rank)


def rows(info: WhatIfInfo) -> list[tuple[str, ...]]:
    """(what changed, state, time, against the base, registers, spilled, shared, blocks an SM, limiter, what
    running it gave).
    """
    base = next((microseconds(p) for p in info.tried if p.config == info.base), None)
    out: list[tuple[str, ...]] = []
    for p in order(info)[:LISTED]:
        us, r = microseconds(p), p.resources
        if p.state == "illegal":
            out.append((changed(p, info), "illegal", p.reason, "", "", "", "", "", "", ""))
            continue
        ratio = signed(f"{100 * (us / base - 1):+.3g}%") if us and base and p.config != info.base else ""
        state = f"{p.state}{', kept' if p.kept else ''}"
        time = figure_text(p.point.time_us) if p.point is not None and p.point.time_us is not None else "–"
        spilled = "–" if r.spill_bytes is None else str(r.spill_bytes)
        blocks = "–" if r.blocks_per_sm is None else str(r.blocks_per_sm)
        shared = f"{r.shared_bytes / 1024:.1f} KiB"
        head = (changed(p, info), state, time, ratio, registers(p))
        out.append((*head, spilled, shared, blocks, p.limiter, ran(p)))
    return out


HEAD = (
    "tunables", "state", "time of a launch", "against the base", "registers", "spilled bytes",
    "shared memory", "blocks an SM", "limited by", "run and measured",
)  # fmt: skip


def best(info: WhatIfInfo) -> str:
    """'7 points tried, best predicted 14.8 us at num_stages=4'."""
    count = f"{len(info.tried)} point{'s' * (len(info.tried) != 1)} tried"
    timed = [(us, p) for p in info.tried if (us := microseconds(p)) is not None]
    if not timed:
        return f"{count}, none of them legal"
    us, point = min(timed, key=lambda pair: pair[0])
    return f"{count}, best predicted {number(us)} us ({changed(point, info)})"


def text(report: Report) -> str:
    """The points in plain text, one a line."""
    info = report.whatif
    if info is None:
        return f"{report.name}: nothing was tried"
    lines = [f"{report.name} for {report.target}: {best(info)}"]
    for row in rows(info):
        what, state, time, ratio, count, _, shared, blocks, limiter, measured = row
        rest = (
            ""
            if state == "illegal"
            else f" {ratio}; {count} registers, {shared}, {blocks} blocks an SM; {limiter}"
        ) + (f"; {measured}" if measured else "")
        lines.append(f"  {what}: {state}, {time}{rest}".replace("  ;", ";").replace(" ;", ";"))
    return "\n".join(lines)


def html(report: Report) -> str:
    """The table of tried points, '' without any."""
    info = report.whatif
    if info is None:
        return ""
    offered = "; ".join(f"{t.name}: {', '.join(t.values)}" for t in info.tunables)
    return html_table(
        HEAD, rows(info), f"points tried of {report.name} (predicted for {info.device}); {offered}"
    )


def sentence(report: Report) -> str:
    """One line that stands for the picture."""
    tried = best(report.whatif) if report.whatif is not None else "nothing tried"
    return f"what-if of {report.name}: {tried}"


def barred(info: WhatIfInfo) -> list[TriedPoint]:
    """The points that are illegal, as many as there is room for."""
    legal = sum(microseconds(p) is not None for p in info.tried)
    return [p for p in info.tried if p.state == "illegal"][: max(0, PICTURED - legal)]


def lines(info: WhatIfInfo) -> int:
    """Lines of the picture: its points, and some room."""
    legal = min(PICTURED, sum(microseconds(p) is not None for p in info.tried))
    return max(4, legal + len(barred(info)))


def height(info: WhatIfInfo) -> float:
    """Inches that the picture needs."""
    return 0.7 + 0.24 * lines(info)


def paint(ax: Any, info: WhatIfInfo) -> None:
    """Draw the fastest points as bars against the base."""
    points = [p for p in order(info) if microseconds(p) is not None][:PICTURED]
    base = next((microseconds(p) for p in info.tried if p.config == info.base), None)
    longest = max((microseconds(p) or 0.0 for p in points), default=1.0) or 1.0
    no_axes(ax)
    ax.set_xlim(0, 1)
    ax.set_ylim(lines(info) - 0.4, -0.6)
    titled(ax, f"points tried (predicted for {clip(info.device, 30)}), microseconds of a launch")
    for k, p in enumerate(points):
        us = microseconds(p) or 0.0
        colour = (
            ACCENT
            if p.config == info.base
            else GOOD
            if base and us < base
            else BAD
            if base and us > base
            else QUIET
        )
        mark = "● " if p.kept else ""
        write(ax, 0.0, k, clip(f"{mark}{changed(p, info)}", 52), fontsize=7)
        ax.barh([k], [0.36 * us / longest], left=0.36, height=0.55, color=colour, linewidth=0)
        blocks = p.resources.blocks_per_sm
        count = "–" if p.resources.registers is None else str(p.resources.registers)
        words = f"{number(us)} us; {count} registers ({origin(p)}), {blocks} blocks an SM; {p.limiter}"
        if p.measured is not None:
            result = {True: "right", False: "wrong", None: "unchecked"}[p.ok]
            measured = f"{number(p.measured.value)} {p.measured.unit}"
            words = f"{number(us)} us; measured {measured}, {result}; {count} registers ({origin(p)})"
        write(ax, 0.365 + 0.36 * us / longest, k, clip(words, 72), fontsize=6.5, color=INK)
    for k, p in enumerate(barred(info), start=len(points)):
        write(ax, 0.0, k, clip(changed(p, info), 52), fontsize=7, color=QUIET)
        write(ax, 0.365, k, clip(f"cannot be had: {p.reason}", 100), fontsize=6.5, color=BAD)
    ax.axvline(0.36, color=LINE, linewidth=0.8)


def still(report: Report) -> Still | None:
    """The tried points as a picture, or None when nothing was tried."""
    info = report.whatif
    if info is None or not info.tried:
        return None
    figure = new_figure(9.5, height(info))
    paint(figure.add_axes((0.02, 0.03, 0.96, 0.83)), info)
    return Still(png(figure), "image/png", sentence(report))
