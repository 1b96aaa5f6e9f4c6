"""From the grid to the warps: which warps have which role, and which part of each product a warp owns."""

from __future__ import annotations

from typing import Any

from tilebench.report import Report
from tilebench.views.base import WARPS, Still, clip, html_table, new_figure, no_axes, png, titled, write


def roles(report: Report) -> list[tuple[str, int, int]]:
    """(name, first warp, warps) of each role; one role 'all' when the report names none."""
    if report.roles:
        return [(r.name, r.first_thread // 32, max(1, -(-r.threads // 32))) for r in report.roles]
    return [("all", 0, max(1, -(-report.resources.threads // 32)))] if report.resources.threads else []


def gemms(report: Report) -> list[tuple[str, tuple[int, int]]]:
    """(text, warps along M and N) of each product that is divided among warps."""
    return [(o.text, o.warp_grid) for o in report.ops if o.name == "gemm"]


def sentence(report: Report) -> str:
    """One line that stands for the picture."""
    grid = " x ".join(map(str, report.resources.grid)) or "?"
    parts = [f"grid {grid} of blocks with {report.resources.threads} threads"]
    parts += [f"role {name}: warps {first} to {first + count - 1}" for name, first, count in roles(report)]
    parts += [f"{clip(text, 40)}: warps {m} x {n}" for text, (m, n) in gemms(report)]
    return "; ".join(parts)


def paint(ax: Any, report: Report) -> None:
    """Draw the warps of the first product over its tile, as rows x columns."""
    found = gemms(report)
    m, n = found[0][1] if found else (1, max(1, report.resources.threads // 32))
    for w in range(m * n):
        i, j = w % m, w // m
        ax.add_patch(_box(j / n, 1 - (i + 1) / m, 1 / n, 1 / m, WARPS[w % 8]))
        write(ax, (j + 0.5) / n, 1 - (i + 0.5) / m, f"warp {w}", ha="center", fontsize=7)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    no_axes(ax)
    titled(ax, f"warps {m} x {n} over {clip(found[0][0], 40)}" if found else f"{m * n} warps")


def _box(x: float, y: float, width: float, height: float, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), width, height, facecolor=colour, edgecolor="#24292f", linewidth=0.8)


def html(report: Report) -> str:
    """The roles as a table."""
    return html_table(
        ("role", "warps"), [(name, f"{first}–{first + count - 1}") for name, first, count in roles(report)]
    )


def still(report: Report) -> Still | None:
    """The warps of a report, or None without threads."""
    if not roles(report):
        return None
    figure = new_figure(4, 2.6)
    paint(figure.add_axes((0.03, 0.04, 0.94, 0.84)), report)
    return Still(png(figure), "image/png", sentence(report))
