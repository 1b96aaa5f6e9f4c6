"""The difference card of two compiles: what got better or worse, layouts that moved, then the texts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilebench.report import CompareInfo, Delta, LayoutDelta, Report
from tilebench.views.base import (
    BAD,
    GOOD,
    INK,
    LINE,
    QUIET,
    Still,
    clip,
    esc,
    html_table,
    new_figure,
    no_axes,
    png,
    write,
)
from tilebench.views.differences import compare

MARKS = {"better": "▲ better", "worse": "▼ worse", "": ""}
PICTURED = 14
"""Deltas in the picture."""
ORDER = ("result", "time", "resource", "setting", "instruction")


def ordered(info: CompareInfo) -> list[Delta]:
    """Results and times first, instruction counts last."""
    return sorted(info.deltas, key=lambda d: ORDER.index(d.group))


def has(report: Report) -> bool:
    """Whether something differs."""
    return report.compare is not None and bool(
        report.compare.deltas or report.compare.layouts or report.compare.texts
    )


def title(info: CompareInfo) -> str:
    """'gemm (0a1b2c3d) → gemm'."""
    return f"{info.before} ({info.before_id[:8]}) → {info.after}"


def sentence(info: CompareInfo) -> str:
    """One line that stands for the card."""
    parts = [
        f"{d.what} {d.before} to {d.after}{f' ({d.change})' if d.change else ''}" for d in ordered(info)[:6]
    ]
    parts += [f"layout of {m.buffer} changed" for m in info.layouts[:4]]
    return f"{title(info)}: " + ("; ".join(parts) or "nothing changed")


def text(info: CompareInfo) -> str:
    """The card in plain text, one change a line."""
    lines = [f"{_what(d)}: {d.before} -> {d.after} {d.change}".rstrip() for d in ordered(info)]
    lines += [f"layout of {m.buffer}: {m.before} -> {m.after}{_moved(m)}" for m in info.layouts]
    lines += [f"{t.level}: +{t.added} -{t.removed} lines" for t in info.texts]
    return "\n".join(lines) or "nothing changed"


def _what(d: Delta) -> str:
    return f"setting {d.what}" if d.group == "setting" else d.what


def _moved(m: LayoutDelta) -> str:
    return f" ({m.moved} of {m.total} elements moved)" if m.total else ""


def html(report: Report) -> str:
    """The card as escaped tables, texts folded; '' without a comparison."""
    info = report.compare
    if info is None:
        return ""
    out = html_table(
        ("what", "before", "after", "change", ""),
        [(d.what, d.before, d.after, d.change, MARKS[d.verdict]) for d in ordered(info)],
        title(info),
    )
    out += html_table(
        ("layout of", "before", "after", "elements moved"),
        [(m.buffer, m.before, m.after, f"{m.moved} of {m.total}" if m.total else "–") for m in info.layouts],
    )
    for t in info.texts:
        body = "\n".join(f"{mark} {line}" for mark, line in t.lines) + (f"\n… {t.cut} more" if t.cut else "")
        head = f"{t.level}: +{t.added} -{t.removed} lines"
        out += f"<details><summary>{esc(head)}</summary><pre>{esc(body)}</pre></details>"
    return out


def paint(ax: Any, info: CompareInfo) -> None:
    """Draw the deltas as a table with marks."""
    no_axes(ax)
    ax.set_xlim(0, 1)
    rows = ordered(info)
    ax.set_ylim(PICTURED + 1.2, -0.6)
    write(ax, 0, -0.2, clip(title(info), 90), fontsize=8.5, fontweight="bold")
    for k, d in enumerate(rows[:PICTURED], 1):
        ax.axhline(k - 0.5, color=LINE, linewidth=0.5)
        colour = {"better": GOOD, "worse": BAD}.get(d.verdict, INK)
        for x, word, ink, room in (
            (0.0, d.what, QUIET, 34), (0.26, d.before, INK, 40), (0.55, d.after, INK, 40),
            (0.84, f"{MARKS[d.verdict][:1]} {d.change}".strip(), colour, 22),
        ):  # fmt: skip
            write(ax, x, k, clip(word, room), fontsize=7, color=ink)
    rest = len(rows) - PICTURED
    words = [f"{rest} more changes"] if rest > 0 else []
    words += [f"layouts: {', '.join(m.buffer for m in info.layouts)}"] if info.layouts else []
    words += [f"{t.level} +{t.added} -{t.removed}" for t in info.texts]
    write(ax, 0, min(len(rows), PICTURED) + 1, clip("; ".join(words) or "", 150), fontsize=7, color=QUIET)


def still(report: Report) -> Still | None:
    """The card as a picture, or None when there is nothing to compare."""
    if report.compare is None:
        return None
    figure = new_figure(9.5, 3.8)
    paint(figure.add_axes((0.02, 0.02, 0.96, 0.96)), report.compare)
    return Still(png(figure), "image/png", sentence(report.compare))


class Comparison:
    """The difference of two reports as a notebook output, live where there is a front end for it."""

    def __init__(self, before: Report, after: Report, static: bool = False) -> None:
        from tilebench.views.board import Board

        self.before = before
        self.after = replace(after, compare=compare(before, after))
        self.info = self.after.compare
        self.board = Board(self.after, ("compare",), static=static)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        del include, exclude
        data, metadata = self.board.bundle()
        return {**data, "text/plain": repr(self), "text/html": self.html()}, metadata

    def html(self) -> str:
        """The card without a script."""
        return html(self.after) if has(self.after) else "<p>nothing changed</p>"

    def __repr__(self) -> str:
        assert self.info is not None, "made in the constructor"
        return text(self.info)


__all__ = ["Comparison", "compare", "has", "html", "ordered", "paint", "sentence", "still", "text"]
