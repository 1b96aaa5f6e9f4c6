"""Shared memory: where each element lies, the swizzle, the banks, and which buffer has which bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilebench.layouts.shared import SharedLayout, Swizzle
from tilebench.report import BufferInfo, LayoutInfo, Report
from tilebench.views.base import (
    INK,
    PIECES,
    QUIET,
    WARPS,
    Still,
    clip,
    new_figure,
    no_axes,
    png,
    quiet,
    rgb,
    titled,
    write,
)

LINE_BYTES = 128
"""Bytes of one row of all 32 banks."""


def shared(info: LayoutInfo) -> SharedLayout:
    """The SharedLayout that a report's LayoutInfo describes. With panels, the inner dimension is the one of
    stride 1.
    """
    if info.table is not None:
        return SharedLayout(
            info.shape, info.itemsize_bits, table=np.asarray(info.table, np.int32).reshape(info.shape)
        )
    return SharedLayout(
        info.shape,
        info.itemsize_bits,
        info.strides,
        info.panel or None,
        Swizzle(*info.swizzle),
        panel_stride=info.panel_stride,
        inner=inner_of(info),
    )


def inner_of(info: LayoutInfo) -> int:
    """The dimension that panels cut: the last one of stride 1 that has more than one index."""
    ones = [d for d, (n, s) in enumerate(zip(info.shape, info.strides, strict=True)) if s == 1 and n > 1]
    return ones[-1] if ones else -1


def byte_offsets(info: LayoutInfo) -> np.ndarray:
    """int64 of the tile's shape: the byte, from the buffer's start, of each element."""
    return shared(info).offsets() * info.itemsize_bits // 8


def tiles(report: Report) -> list[LayoutInfo]:
    """The shared tiles of a report, the largest first."""
    drawn = [i for i in report.layouts if i.kind == "shared" and 0 < np.prod(i.shape) <= 1 << 20]
    return sorted(drawn, key=lambda i: -int(np.prod(i.shape)))


def bank_rows(info: LayoutInfo, rows: int = 16) -> tuple[np.ndarray, int]:
    """(int [rows, chunks]: the logical column in bytes / 16 of each 16-byte chunk of the first lines, -1 for
    none; all lines).

    Columns are the 8 groups of 4 banks in a 128-byte line; the number says which
    16-byte piece of its row lies there.
    """
    offsets = (
        byte_offsets(info).reshape(-1, *info.shape[-2:])[0]
        if len(info.shape) > 1
        else byte_offsets(info)[None]
    )
    inner = inner_of(info) % max(1, len(info.shape)) if info.table is None else len(info.shape) - 1
    if len(info.shape) > 1 and inner == len(info.shape) - 2:
        offsets = offsets.T
    column = np.indices(offsets.shape)[1] * info.itemsize_bits // 8 // 16
    lines = int(offsets.max()) // LINE_BYTES + 1
    grid = np.full((min(rows, lines), 8), -1, np.int64)
    inside = offsets < grid.shape[0] * LINE_BYTES
    grid[offsets[inside] // LINE_BYTES, offsets[inside] % LINE_BYTES // 16] = column[inside]
    return grid, lines


def swizzle_name(info: LayoutInfo) -> str:
    """'128-byte swizzle', 'no swizzle' or 'user table'."""
    if info.table is not None:
        return "user table"
    return f"{1 << (info.swizzle[0] + info.swizzle[1])}-byte swizzle" if info.swizzle[0] else "no swizzle"


def sentence(info: LayoutInfo) -> str:
    """One line that stands for the picture."""
    return f"{info.buffer}: {'x'.join(map(str, info.shape))}, {swizzle_name(info)}; {info.formula}"


def conflicts(report: Report, buffer: str) -> str:
    """The worst conflict of the accesses of a buffer, with where it comes from; '' when none is known."""
    parts: list[str] = []
    for provenance in ("predicted", "simulated"):
        ways = [
            a.conflict_ways
            for a in report.accesses
            if a.buffer == buffer and a.provenance == provenance and a.conflict_ways
        ]
        parts += [f"worst access {max(ways)}-way ({provenance})"] if ways else []
    return ", ".join(parts[-1:])


def paint(ax: Any, report: Report, info: LayoutInfo, rows: int = 16) -> None:
    """Draw the first 128-byte lines of a tile: colour and number say which 16-byte column of the tile lies
    there.
    """
    grid, lines = bank_rows(info, rows)
    picture = rgb(PIECES)[grid % 8].copy()
    picture[grid < 0] = 240
    ax.imshow(picture, interpolation="nearest", aspect="auto")
    for i, j in np.argwhere(grid >= 0):
        write(ax, j, i, str(grid[i, j]), ha="center", fontsize=6)
    no_axes(ax)
    for k in range(8):
        write(
            ax,
            k,
            len(grid) - 0.1,
            str(4 * k),
            ha="center",
            fontsize=6,
            color=QUIET,
            clip_on=False,
        )
    titled(ax, f"{clip(info.buffer, 20)}: {swizzle_name(info)}")
    shown = [f"first bank of four; bytes 0–{grid.shape[0] * LINE_BYTES - 1} of {lines * LINE_BYTES}"]
    shown += [note] if (note := conflicts(report, info.buffer)) else []
    for k, text in enumerate(shown):
        place = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
        line = ax.annotate(text, (0, 0), xytext=(0, -14 - 9 * k), fontsize=6.5, color=QUIET, **place)
        line.set_parse_math(False)


def placed(report: Report) -> list[BufferInfo]:
    """The shared buffers that have a place, and the scratch of ops, by their bytes."""
    found = [b for b in report.buffers if b.scope.startswith("shared") and b.offset is not None]
    found += [report.scratch] if report.scratch is not None else []
    return sorted(found, key=lambda b: (b.offset or 0, b.first))


def paint_map(ax: Any, report: Report) -> None:
    """Draw which buffer has which bytes while which statements run: time to the right, bytes downwards."""
    from matplotlib.patches import Rectangle

    buffers = placed(report)
    total = max(
        [report.resources.shared_bytes, *((b.offset or 0) + b.bytes * b.versions for b in buffers), 1]
    )
    end = max([len(report.statement_lines), *(b.last + 1 for b in buffers), 1])
    for k, b in enumerate(buffers):
        size = b.bytes * b.versions
        ax.add_patch(
            Rectangle(
                (b.first, b.offset or 0), b.last + 1 - b.first, size,
                facecolor=WARPS[k % len(WARPS)], edgecolor=INK, linewidth=0.7,
            )
        )  # fmt: skip
        copies = f" ×{b.versions}" if b.versions > 1 else ""
        write(
            ax, b.first + 0.02 * end, (b.offset or 0) + size / 2, clip(f"{b.name}{copies}", 22), fontsize=6.5
        )
    ax.set_xlim(0, end)
    ax.set_ylim(total, 0)
    ax.set_yticks([0, total])
    ax.set_xticks([])
    quiet(ax)
    titled(ax, f"{total} bytes over the program")


def lifetime(report: Report, buffer: BufferInfo) -> str:
    """'A_s: bytes 0 to 24575, 3 copies, used from line 50 to line 55'."""
    start, size = buffer.offset or 0, buffer.bytes * buffer.versions
    text = f"{buffer.name}: bytes {start} to {start + size - 1}"
    text += f", {buffer.versions} copies" if buffer.versions > 1 else ""
    lines = [n for n in report.statement_lines[buffer.first : buffer.last + 1] if n]
    return text + (f", used from line {lines[0]} to line {max(lines)}" if lines else "")


def still(report: Report) -> Still | None:
    """The byte map over time and the shared tiles of a report side by side, or None when there is none."""
    shown = tiles(report)[:3]
    if not shown:
        return None
    figure = new_figure(9.5, 3.4)
    mapped = placed(report)
    panels = len(shown) + bool(mapped)
    if mapped:
        paint_map(figure.add_subplot(1, panels, 1), report)
    for k, info in enumerate(shown):
        paint(figure.add_subplot(1, panels, k + 1 + bool(mapped)), report, info)
    figure.subplots_adjust(left=0.06 if mapped else 0.02, right=0.98, top=0.9, bottom=0.16, wspace=0.1)
    words = [sentence(i) for i in shown] + [lifetime(report, b) for b in mapped]
    return Still(png(figure), "image/png", "Shared memory by banks and over time. " + ". ".join(words))
