"""From the grid to the warps: which part of each tensor a block touches, and of each product a warp owns."""

from __future__ import annotations

import itertools
from math import prod
from typing import Any

from tilebench.report import BufferInfo, OpInfo, Report, SliceInfo
from tilebench.views.base import (
    INK,
    PANEL,
    QUIET,
    WARPS,
    Still,
    clip,
    html_table,
    new_figure,
    no_axes,
    number,
    png,
    titled,
    write,
)

HEIGHT = 4.6
"""Inches of the picture."""
MOST_BLOCKS = 65_536
"""Blocks of a grid over which reuse is counted."""
Box = tuple[tuple[int, int], ...]
"""(start, extent) of each dimension."""


def roles(report: Report) -> list[tuple[str, int, int]]:
    """(name, first warp, warps) of each role; one role 'all' when the report names none."""
    if report.roles:
        return [(r.name, r.first_thread // 32, max(1, -(-r.threads // 32))) for r in report.roles]
    return [("all", 0, max(1, -(-report.resources.threads // 32)))] if report.resources.threads else []


def gemms(report: Report) -> list[OpInfo]:
    """The products, which are divided among warps."""
    return [o for o in report.ops if o.name == "gemm"]


def tensors(report: Report) -> list[tuple[SliceInfo, BufferInfo]]:
    """Each part of a tensor that blocks touch, once, with the tensor."""
    params = {p.name: p for p in report.params}
    found: dict[tuple[object, ...], tuple[SliceInfo, BufferInfo]] = {}
    for op in report.ops:
        for s in op.slices:
            if s.buffer in params and s.extents and params[s.buffer].shape:
                key = (s.buffer, s.mode, s.extents, s.base, s.blocks, s.loop, s.trips)
                found.setdefault(key, (s, params[s.buffer]))
    return list(found.values())


def box(s: SliceInfo, block: tuple[int, ...], grid: tuple[int, ...], shape: tuple[int, ...]) -> Box:
    """What a block touches over all iterations, cut to the tensor."""
    flat = 0
    for x, n in zip(reversed(block), reversed(grid), strict=True):
        flat = flat * n + x
    out: list[tuple[int, int]] = []
    for d, extent in enumerate(s.extents):
        start = (
            int(s.table[flat, d])
            if s.table is not None
            else s.base[d] + sum(c * x for c, x in zip(s.blocks[d], block, strict=False))
        )
        end = min(shape[d], start + extent + s.loop[d] * (s.trips - 1))
        out.append((max(0, start), max(0, end - max(0, start))))
    return tuple(out)


def reuse(s: SliceInfo, grid: tuple[int, ...], shape: tuple[int, ...]) -> float | None:
    """How many blocks read each byte, on average; None for a grid that is not known or too large to count."""
    if not grid or not all(grid) or prod(grid) > MOST_BLOCKS:
        return None
    boxes: dict[Box, int] = {}
    asked = 0
    for place in itertools.product(*(range(n) for n in reversed(grid))):
        b = box(s, tuple(reversed(place)), grid, shape)
        boxes[b] = prod(n for _, n in b)
        asked += boxes[b]
    distinct = min(sum(boxes.values()), prod(shape))
    return asked / distinct if distinct else None


def sentence(report: Report) -> str:
    """One line that stands for the picture."""
    grid = report.resources.grid
    shown = " x ".join(map(str, grid)) or "?"
    parts = [f"grid {shown} of blocks with {report.resources.threads} threads"]
    parts += [f"role {name}: warps {first} to {first + count - 1}" for name, first, count in roles(report)]
    parts += [f"{clip(o.text, 40)}: warps {o.warp_grid[0]} x {o.warp_grid[1]}" for o in gemms(report)]
    for s, p in tensors(report):
        times = reuse(s, grid, p.shape) if s.mode == "read" else None
        if times is not None:
            blocks = "block" if times == 1 else "blocks"
            parts.append(f"each byte of {p.name} is read by {number(times)} {blocks} (predicted)")
    return "; ".join(parts)


def paint(ax: Any, report: Report) -> None:
    """Draw the warps of the first product over its tile, as rows x columns."""
    found = gemms(report)
    m, n = found[0].warp_grid if found else (1, max(1, report.resources.threads // 32))
    for w in range(m * n):
        i, j = w % m, w // m
        ax.add_patch(_box(j / n, 1 - (i + 1) / m, 1 / n, 1 / m, WARPS[w % 8]))
        write(ax, (j + 0.5) / n, 1 - (i + 0.5) / m, f"warp {w}", ha="center", fontsize=7)
    ax.set_xlim(-0.005, 1.005)
    ax.set_ylim(-0.005, 1.005)
    no_axes(ax)
    into = found[0].operands[2] if found and len(found[0].operands) == 3 else ""
    titled(ax, f"{m} x {n} warps over {clip(into, 16) or 'the product'}" if found else f"{m * n} warps")


def paint_roles(ax: Any, report: Report) -> None:
    """Draw a row of numbered warps for each role, its name and what it does below."""
    found = roles(report)
    notes = [r.note for r in report.roles] or [""] * len(found)
    ops = {o.id: o.name for o in report.ops}
    widest = max(8, *(count for _, _, count in found))
    ax.set_xlim(0, widest)
    ax.set_ylim(2.6 * len(found), 0)
    no_axes(ax)
    titled(ax, f"roles of the {sum(c for _, _, c in found)} warps of a block")
    for k, (name, first, count) in enumerate(found):
        y = 2.6 * k
        for w in range(count):
            ax.add_patch(_box(w + 0.04, y + 0.1, 0.92, 1.0, WARPS[(first + w) % 8]))
            write(ax, w + 0.5, y + 0.62, str(first + w), ha="center", fontsize=6.5)
        does = report.roles[k].ops if k < len(report.roles) else ()
        names = ", ".join(dict.fromkeys(ops[o] for o in does if o in ops))
        write(
            ax, 0.04, y + 1.5, clip(f"{name}: {names}" if names else name, 60), fontsize=7, fontweight="bold"
        )
        write(ax, 0.04, y + 2.05, clip(notes[k] if k < len(notes) else "", 80), fontsize=6, color=QUIET)


def first(grid: tuple[int, ...]) -> str:
    """'(0, 0)': the first block of a grid."""
    return f"({', '.join('0' for _ in grid)})"


def paint_grid(ax: Any, report: Report) -> None:
    """Draw the grid of blocks, the first one marked."""
    grid = report.resources.grid
    columns, rows = (*grid, 1)[:2]
    shown_columns, shown_rows = min(columns, 8), min(rows, 8)
    for y in range(shown_rows):
        for x in range(shown_columns):
            ax.add_patch(_box(x + 0.05, y + 0.05, 0.9, 0.9, WARPS[1] if x == y == 0 else PANEL))
            if shown_columns <= 5:
                write(ax, x + 0.5, y + 0.5, f"{x},{y}" if len(grid) > 1 else str(x), ha="center", fontsize=6)
    ax.set_xlim(0, max(shown_columns, shown_rows))
    ax.set_ylim(max(shown_columns, shown_rows), 0)
    ax.set_aspect("equal")
    ax.set_anchor("NW")
    no_axes(ax)
    titled(ax, f"grid {' x '.join(map(str, grid))}")
    cut = ", the first of them" if (shown_columns, shown_rows) != (columns, rows) else ""
    note = ax.annotate(
        f"block {first(grid)} is marked{cut}", (0, 0), xytext=(0, -8), xycoords="axes fraction",
        textcoords="offset points", fontsize=6.5, color=QUIET,
    )  # fmt: skip
    note.set_parse_math(False)


def paint_tensor(ax: Any, report: Report, s: SliceInfo, tensor: BufferInfo) -> None:
    """Draw a tensor along its last two dimensions with the part of the first block, and of its first step."""
    grid = report.resources.grid
    block = tuple(0 for _ in grid)
    whole = list(box(s, block, grid, tensor.shape))
    rows, columns = (1, *tensor.shape)[-2:]
    scale = max(rows, columns)
    ax.add_patch(_box(0, -rows / scale, columns / scale, rows / scale, PANEL))
    (y, height), (x, width) = [(0, 1), *whole][-2:]
    ax.add_patch(_box(x / scale, -(y + height) / scale, width / scale, height / scale, WARPS[1]))
    if s.trips > 1:
        tall, wide = (1, *s.extents)[-2:]
        ax.add_patch(_box(x / scale, -(y + tall) / scale, wide / scale, tall / scale, "#b3001b"))
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-1.02, 0.02)
    ax.set_aspect("equal")
    ax.set_anchor("NW")
    no_axes(ax)
    titled(ax, f"{clip(tensor.name, 10)} {'x'.join(map(str, tensor.shape))}, {s.mode}")
    notes = ["[" + ", ".join(f"{a}:{a + n}" if n != 1 else str(a) for a, n in whole) + "]"]
    times = reuse(s, grid, tensor.shape) if s.mode == "read" else None
    notes += (
        [f"each byte: read by {number(times)} block{'' if times == 1 else 's'}"] if times is not None else []
    )
    for k, text in enumerate(notes):
        note = ax.annotate(
            text, (0, 0), xytext=(0, -8 - 10 * k), xycoords="axes fraction", textcoords="offset points",
            fontsize=6.5, color=QUIET,
        )  # fmt: skip
        note.set_parse_math(False)


def _box(x: float, y: float, width: float, height: float, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), width, height, facecolor=colour, edgecolor=INK, linewidth=0.8)


def html(report: Report) -> str:
    """The roles as a table, and what was chosen for the kernel as a whole."""
    notes = [r.note for r in report.roles] or [""]
    rows = [
        (name, f"{first}–{first + count - 1}", note)
        for (name, first, count), note in zip(roles(report), notes, strict=False)
    ]
    chosen = [(line,) for line in report.schedule]
    return html_table(("role", "warps", ""), rows) + html_table(("what the compiler chose",), chosen)


def paint_all(ax: Any, report: Report) -> None:
    """Draw the way down: grid, the first block's part of each tensor, roles, the warps of the product."""
    no_axes(ax)
    figure, place = ax.figure, ax.get_position()

    def axes(x: float, y: float, width: float, height: float) -> Any:
        left, low = place.x0 + x * place.width, place.y0 + y * place.height
        return figure.add_axes((left, low, width * place.width, height * place.height))

    known = bool(report.resources.grid) and all(report.resources.grid)
    shown = tensors(report)[:4] if known else []
    if known:
        paint_grid(axes(0, 0.57, 0.17, 0.37), report)
    for k, (s, tensor) in enumerate(shown):
        paint_tensor(axes(0.21 + 0.2 * k, 0.57, 0.18, 0.37), report, s, tensor)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    if any(s.trips > 1 for s, _ in shown):
        text = f"yellow: what block {first(report.resources.grid)} touches; red: in its first iteration"
        write(ax, 0.21, 0.465, text, fontsize=6.5, color=QUIET)
    paint_roles(axes(0, 0, 0.44, 0.36), report)
    paint(axes(0.5, 0, 0.5, 0.36), report)


def still(report: Report) -> Still | None:
    """`paint_all` as a picture; None without threads."""
    if not roles(report):
        return None
    figure = new_figure(9.5, HEIGHT)
    paint_all(figure.add_axes((0.02, 0.03, 0.96, 0.95)), report)
    return Still(png(figure), "image/png", sentence(report))
