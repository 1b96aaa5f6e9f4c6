"""Who holds each element: fragments over threads and registers. The arithmetic is layouts/fragment.py's."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilebench.layouts.digits import Digit, merged
from tilebench.layouts.fragment import FragmentLayout
from tilebench.report import LayoutInfo, Report
from tilebench.views.base import (
    LANES,
    QUIET,
    Still,
    clip,
    hues,
    new_figure,
    no_axes,
    png,
    ramp,
    rgb,
    titled,
    write,
)

MAX_ELEMENTS = 1 << 20
"""Larger tiles are described in words only."""


@dataclass(frozen=True)
class Holders:
    """Per element of the tile, row-major: the lowest thread that holds it (-1: nobody), its register, how
    many hold it.
    """

    thread: np.ndarray
    register: np.ndarray
    count: np.ndarray


def fragment(info: LayoutInfo) -> FragmentLayout:
    """The FragmentLayout that a report's LayoutInfo describes."""
    if info.table is not None:
        flat = np.asarray(info.table, np.int64).reshape(info.threads, info.registers)
        coords = np.stack(np.unravel_index(np.maximum(flat, 0), info.shape), axis=-1).astype(np.int32)
        return FragmentLayout(info.shape, table=np.where(flat[..., None] >= 0, coords, np.int32(-1)))
    reg = tuple(Digit(d.size, None if d.dim < 0 else d.dim, d.stride) for d in info.reg)
    thread = tuple(Digit(d.size, None if d.dim < 0 else d.dim, d.stride) for d in info.thread)
    return FragmentLayout(info.shape, reg, thread)


def holders(info: LayoutInfo) -> Holders:
    """Who holds what, by enumeration of every place."""
    elements = fragment(info).elements()
    size = int(np.prod(info.shape))
    thread, register = np.full(size, -1, np.int32), np.full(size, -1, np.int32)
    flat = elements.ravel()
    places = np.flatnonzero(flat >= 0)[::-1]  # written backwards, the lowest place stays
    thread[flat[places]] = places // elements.shape[1]
    register[flat[places]] = places % elements.shape[1]
    count = np.bincount(flat[flat >= 0], minlength=size).astype(np.int32)
    return Holders(thread, register, count)


def fragments(report: Report) -> list[LayoutInfo]:
    """The fragments of a report that can be drawn, buffers before loops, the largest first."""
    drawn = [
        i
        for i in report.layouts
        if i.kind == "fragment"
        and 0 < np.prod(i.shape) <= MAX_ELEMENTS
        and (i.table is None or i.table.size == i.threads * i.registers)
    ]
    return sorted(drawn, key=lambda i: (i.buffer.startswith("loop@"), -int(np.prod(i.shape))))


def distinct(report: Report) -> list[tuple[LayoutInfo, tuple[str, ...]]]:
    """The fragments with different layouts, each with the names of the others that are laid out the same."""
    found: dict[object, list[LayoutInfo]] = {}
    for info in fragments(report):
        whole = fragment(info)
        table = None if info.table is None else np.asarray(info.table).tobytes()
        found.setdefault((info.shape, merged(whole.reg), merged(whole.thread), table), []).append(info)
    return [
        (same[0], tuple(i.buffer for i in same[1:] if not i.buffer.startswith("loop@")))
        for same in found.values()
    ]


def as_grid(info: LayoutInfo, values: np.ndarray) -> np.ndarray:
    """Per-element values as rows and columns: the last two dimensions of the first slice; rank 1 in rows of
    32.
    """
    if len(info.shape) == 1:
        width = min(32, info.shape[0])
        rows = -(-info.shape[0] // width)
        padded = np.full(rows * width, -1, values.dtype)
        padded[: len(values)] = values
        return padded.reshape(rows, width)
    return values.reshape(-1, *info.shape[-2:])[0]


def colours(info: LayoutInfo, mode: str = "lane") -> np.ndarray:
    """uint8 [rows, columns, 3] picture of a fragment. mode: lane (thread % 8), warp or register."""
    held = holders(info)
    thread, register = as_grid(info, held.thread), as_grid(info, held.register)
    match mode:
        case "lane":
            picture = rgb(LANES)[thread % 8]
        case "warp":
            warps = max(1, -(-info.threads // 32))
            picture = hues(max(8, warps))[thread // 32 % max(8, warps)]
        case "register":
            picture = ramp(max(1, info.registers))[register]
        case _:
            raise ValueError(f"no colour mode {mode!r}; modes are lane, warp, register")
    picture = picture.copy()
    picture[thread < 0] = 255
    return picture


def formula_lines(info: LayoutInfo) -> list[str]:
    """The layout's formulas, one a line."""
    return [line for line in info.formula.splitlines() if line.strip()]


def sentence(info: LayoutInfo) -> str:
    """One line that stands for the picture."""
    shape = "x".join(map(str, info.shape))
    copies = f", up to {info.replication} holders of an element" if info.replication > 1 else ""
    formula = "; ".join(line for line in formula_lines(info) if "=" in line)
    return f"{info.buffer}: {shape} over {info.threads} threads, {info.registers} registers each{copies}" + (
        f"; {formula}" if formula else ""
    )


def paint(ax: Any, info: LayoutInfo, room: int = 90, same: Sequence[str] = ()) -> None:
    """Draw one fragment: colour is thread % 8, outlines are warps, text where there is room for it."""
    held = holders(info)
    thread, register = as_grid(info, held.thread), as_grid(info, held.register)
    rows, columns = thread.shape
    named, flat = rows <= 16 and columns <= 16, rows > 8  # flat: a cell has the height of one line of text
    ax.imshow(
        colours(info),
        interpolation="nearest",
        aspect="auto" if rows * 4 < columns or columns * 4 < rows or (named and flat) else "equal",
    )
    warp = thread // 32
    _borders(ax, warp)
    if named:
        joint = ":" if flat else "\n"
        for i in range(rows):
            for j in range(columns):
                if thread[i, j] >= 0:
                    write(ax, j, i, f"T{thread[i, j]}{joint}{register[i, j]}", ha="center", fontsize=5)
    else:
        _warp_names(ax, warp)
    no_axes(ax)
    shape = "x".join(map(str, info.shape))
    titled(ax, f"{clip(info.buffer, 18)} {shape}, {info.threads} threads × {info.registers} regs")
    lines = [f"the same: {', '.join(same)}"] if same else []
    lines += [f"element 0 is top left, {columns} to a row"] if len(info.shape) == 1 and rows > 1 else []
    ax.set_anchor("NW")
    lines += [
        part
        for x in formula_lines(info)
        if x.startswith(("thread", "register"))
        for part in textwrap.wrap(x, room, subsequent_indent="    ")
    ]
    note = ax.annotate(
        "\n".join(clip(line, room + 6) for line in lines[:5]),
        (0, 0),
        xytext=(0, -3),
        xycoords="axes fraction",
        textcoords="offset points",
        va="top",
        fontsize=6,
        family="monospace",
        color=QUIET,
        linespacing=1.15,
    )
    note.set_parse_math(False)


def _borders(ax: Any, warp: np.ndarray) -> None:
    """Lines where the warp changes, joined into one collection."""
    from matplotlib.collections import LineCollection

    segments: list[tuple[tuple[float, float], tuple[float, float]]] = []
    for i, j in np.argwhere(warp[:, 1:] != warp[:, :-1]):
        segments.append(((j + 0.5, i - 0.5), (j + 0.5, i + 0.5)))
    for i, j in np.argwhere(warp[1:] != warp[:-1]):
        segments.append(((j - 0.5, i + 0.5), (j + 0.5, i + 0.5)))
    if len(segments) <= 4096:
        ax.add_collection(LineCollection(segments, colors="#24292f", linewidths=0.9))


def _warp_names(ax: Any, warp: np.ndarray) -> None:
    for w in np.unique(warp[warp >= 0])[:16]:
        where = np.argwhere(warp == w)
        top, left = where.min(axis=0)
        bottom, right = where.max(axis=0)
        if (bottom - top + 1) * (right - left + 1) == len(where):  # a rectangle has a middle of its own
            write(
                ax,
                (left + right) / 2,
                (top + bottom) / 2,
                f"warp {w}",
                ha="center",
                fontsize=7,
                bbox={"facecolor": "#ffffffd0", "edgecolor": "none", "pad": 1.2},
            )


def still(report: Report) -> Still | None:
    """The largest fragments of a report side by side, or None when there is none."""
    shown = distinct(report)[:3]
    if not shown:
        return None
    figure = new_figure(9.5, 3.6)
    for k, (info, same) in enumerate(shown):
        paint(figure.add_subplot(1, len(shown), k + 1), info, 150 // len(shown), same)
    figure.subplots_adjust(left=0.02, right=0.98, top=0.9, bottom=0.17, wspace=0.12)
    return Still(
        png(figure), "image/png", "Who holds each element. " + ". ".join(sentence(i) for i, _ in shown)
    )
