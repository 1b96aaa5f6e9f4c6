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
    wrapped,
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
        [
            (d.what, d.before, d.after, d.change, MARKS[d.verdict].replace(" ", "\N{NO-BREAK SPACE}"))
            for d in ordered(info)
        ],
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


def _told(text: str) -> tuple[str, str]:
    """('21.5 us', 'predicted: model of H200') of '21.5 us (predicted: model of H200)'; other texts whole."""
    main, bracket, rest = text.partition(" (")
    return (main, rest[:-1]) if bracket and rest.endswith(")") else (text, "")


def _rows(info: CompareInfo) -> list[tuple[Delta, list[str], list[str], list[str]]]:
    """Each pictured delta with its texts in lines: before, after, and where the numbers come from."""
    rows: list[tuple[Delta, list[str], list[str], list[str]]] = []
    for d in ordered(info)[:PICTURED]:
        (old, one), (new, two) = (_told(t) if d.group != "result" else (t, "") for t in (d.before, d.after))
        source = one if one == two or not two else two if not one else f"{one} → {two}"
        rows.append((d, wrapped(old, 34), wrapped(new, 34), wrapped(source, 52, 2) if source else []))
    return rows


def _lines(row: tuple[Delta, list[str], list[str], list[str]]) -> int:
    return max(1, len(row[1]), len(row[2]), len(row[3]), len(wrapped(row[0].change, 28, 2)))


def height(info: CompareInfo) -> float:
    """Inches that the picture needs."""
    rows = _rows(info)
    return 0.75 + 0.15 * sum(_lines(r) for r in rows) + 0.1 * len(rows)


def paint(ax: Any, info: CompareInfo) -> None:
    """Draw the deltas as a table: what, before, after, how much and whether that is better, from where."""
    no_axes(ax)
    rows = _rows(info)
    gap = 0.7
    total = 2.9 + sum(_lines(r) + gap for r in rows)
    ax.set_xlim(0, 1)
    ax.set_ylim(total, 0)
    write(ax, 0, 0.5, clip(title(info), 90), fontsize=8.5, fontweight="bold")
    for x, word in ((0.2, "before"), (0.43, "after"), (0.66, "change"), (0.8, "where the numbers come from")):
        write(ax, x, 1.5, word, fontsize=6.5, color=QUIET)
    y = 2.0
    for d, old, new, source in rows:
        ax.axhline(y, color=LINE, linewidth=0.5)
        colour = {"better": GOOD, "worse": BAD}.get(d.verdict, INK)
        change = wrapped(f"{MARKS[d.verdict][:1]} {d.change}".strip(), 28, 2)
        bold = "bold" if d.verdict else "normal"
        for x, texts, ink, weight in (
            (0.0, wrapped(_what(d), 34, 1), INK, "normal"),
            (0.2, old, QUIET, "normal"), (0.43, new, INK, bold),
            (0.66, change, colour, bold), (0.8, source, QUIET, "normal"),
        ):  # fmt: skip
            for k, text in enumerate(texts):
                size = 6 if x == 0.8 else 7
                write(ax, x, y + gap / 2 + 0.5 + k, text, fontsize=size, color=ink, fontweight=weight)
        y += _lines((d, old, new, source)) + gap
    ax.axhline(y, color=LINE, linewidth=0.5)
    rest = len(info.deltas) - len(rows)
    words = [f"{rest} more changes"] if rest > 0 else []
    words += [f"layouts that moved: {', '.join(f'{m.buffer}{_moved(m)}' for m in info.layouts)}"][
        : len(info.layouts)
    ]
    words += [f"{t.level} +{t.added} −{t.removed} lines" for t in info.texts]
    write(ax, 0, y + 0.6, clip("; ".join(words), 170), fontsize=7, color=QUIET)


def still(report: Report) -> Still | None:
    """The card as a picture, or None when there is nothing to compare."""
    if report.compare is None:
        return None
    figure = new_figure(9.5, height(report.compare))
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
