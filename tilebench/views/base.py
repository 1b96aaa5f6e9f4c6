"""What the still forms share: escaping, figures with their provenance, pictures as PNG, colours."""

from __future__ import annotations

import html
import io
import textwrap
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tilebench.report import Figure, Report

INK, QUIET, LINE, PAPER, PANEL = "#1b1f24", "#57606a", "#d0d7de", "#ffffff", "#f6f8fa"
GAP = "#eaeef2"
"""What is left out of a picture; behind QUIET text."""
GOOD, BAD, WARN, ACCENT = "#1a7f37", "#cf222e", "#9a6700", "#0550ae"
"""Colours of the stills: a light card that reads on a dark page too. Each is at least 4.5:1 on PAPER and
PANEL.
"""

ON_DARK = {GOOD: "#56d364", BAD: "#ff8b84", QUIET: "#a9b4c0"}
"""Some of them for HTML on a dark page; a browser without light-dark() leaves the text as it is."""
LANES = ("#afafff", "#afffaf", "#ffffaf", "#ffafaf", "#d2d2ff", "#d2ffd2", "#ffffd2", "#ffd2d2")
"""Thread % 8, in the order that CuTe's pictures have; black text reads on all of them."""
PIECES = ("#8ecae6", "#ffd166", "#a3d9a5", "#cdb4db", "#ffb87a", "#86d9cf", "#d9c2a7", "#b8c0ff")
"""16-byte pieces of a row of shared memory: no red, which would look like a conflict."""
WARPS = ("#8ecae6", "#ffd166", "#a3d9a5", "#f4a6a6", "#cdb4db", "#ffb87a", "#b7d7c9", "#d9c2a7")


@dataclass(frozen=True)
class Still:
    """A picture of a view, with the sentence that stands for it where it cannot be seen."""

    data: bytes
    mime: Literal["image/png", "image/svg+xml"]
    alt: str


def esc(text: object) -> str:
    """Any value as HTML text, safe inside an element and inside a quoted attribute."""
    return html.escape(str(text), quote=True)


def clip(text: str, limit: int) -> str:
    """At most `limit` characters on one line, control characters replaced, the cut shown by an ellipsis."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= limit else plain[: max(0, limit - 1)] + "…"


def wrapped(text: str, width: int, most: int = 3) -> list[str]:
    """The text in lines of at most `width` characters, at most so many; the cut shown by an ellipsis."""
    plain = clip(text, 10_000)
    lines = textwrap.wrap(plain, width) or [""]
    return lines if len(lines) <= most else [*lines[: most - 1], clip(" ".join(lines[most - 1 :]), width)]


def number(value: float) -> str:
    """The digits that a reader can take in: 12.3, 1234, 1.23e+09."""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if abs(value) < 1e6 and (abs(value) >= 100 or value == int(value)):
        return f"{value:.0f}"
    return f"{value:.3g}"


def signed(text: str) -> str:
    """A change with a minus as wide as its plus."""
    return text.replace("-", "−")


_SCALES = {
    "FLOP": ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")),
    "B": ((2.0**30, "GiB"), (2.0**20, "MiB"), (1024.0, "KiB")),
}


def figure_text(figure: Figure) -> str:
    """A figure with its unit and, always, where it comes from: '12.3 us, measured on NVIDIA H200'."""
    value, unit = figure.value, figure.unit
    for scale, name in _SCALES.get(unit, ()):
        if abs(value) >= scale:
            value, unit = value / scale, name
            break
    shown = f"{value:.0%}" if unit == "of warps" else number(value)
    joint = " on " if figure.provenance == "measured" else ": "
    origin = f"{figure.provenance}{joint}{figure.device}" if figure.device else figure.provenance
    if figure.rounds and figure.low is not None and figure.high is not None:
        ends = f"{number(figure.low)} to {number(figure.high)} {figure.unit}"
        origin += f"; median of {figure.rounds} rounds, half of them within {ends}"
    return f"{shown} {unit} ({origin}{'; ' if figure.note else ''}{figure.note})"


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """An escaped table; no styles beyond alignment, so that every page's own theme applies."""
    title = f"<caption style='text-align:left'>{esc(caption)}</caption>" if caption else ""
    top = "".join(f"<th scope='col' style='text-align:left'>{esc(h)}</th>" for h in head)
    body = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:left;vertical-align:top'>{esc(c)}</td>" for c in row)
        + "</tr>"
        for row in rows
    )
    return f"<table>{title}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>" if body else ""


def verdict_mark(report: Report) -> tuple[str, str]:
    """(a word that stands for the verdict without colour, its colour)."""
    return {True: ("PASS", GOOD), False: ("FAIL", BAD), None: ("–", QUIET)}[report.ok]


# ------------------------------------------------------------------ pictures


def new_figure(width: float, height: float) -> Any:
    """A matplotlib figure of so many inches, without pyplot's global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=(width, height), dpi=100, facecolor=PAPER)
    FigureCanvasAgg(figure)
    return figure


def write(ax: Any, x: float, y: float, text: str, **style: Any) -> Any:
    """Text on axes or a figure, taken literally: a $ is a dollar."""
    style = {"color": INK, "fontsize": 8, "va": "center", **style}
    return ax.text(x, y, text, parse_math=False, **style)


def titled(ax: Any, text: str, colour: str = INK) -> None:
    """A panel's title, on the left, above the panel."""
    ax.set_title(
        clip(text, 110),
        loc="left",
        y=1.0,
        fontsize=8.5,
        color=colour,
        fontweight="bold",
        pad=4,
        parse_math=False,
    )


def quiet(ax: Any) -> None:
    """Thin grey axes, small labels."""
    ax.tick_params(labelsize=7, colors=QUIET, length=2, width=0.6)
    for spine in ax.spines.values():
        spine.set_color(LINE)
        spine.set_linewidth(0.8)


def no_axes(ax: Any) -> None:
    """A panel without ticks or frame."""
    ax.set_axis_off()


def png(figure: Any, colours: int = 255) -> bytes:
    """The figure as a PNG with a palette: a third of the size of full colour, and no difference to see."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.canvas.draw()
    rgba = np.asarray(figure.canvas.buffer_rgba())
    pixels = rgba[..., :3].copy()
    image = Image.fromarray(pixels).quantize(
        colours, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
    )
    _exact(image, pixels, (GAP, PANEL, PAPER))
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def _exact(image: Any, pixels: np.ndarray, names: Sequence[str]) -> None:
    """Large areas keep their very colours: the palette's entries for them are set, the last one wins."""
    entries, index = list(image.getpalette()), np.asarray(image)
    for colour in rgb(names):
        there = np.flatnonzero((pixels == colour).all(axis=-1))
        if there.size:
            at = 3 * int(index.ravel()[there[0]])
            entries[at : at + 3] = [int(c) for c in colour]
    image.putpalette(entries)


def rgb(names: Sequence[str]) -> np.ndarray:
    """uint8 [n, 3] of '#rrggbb' colours."""
    return np.array([[int(c[k : k + 2], 16) for k in (1, 3, 5)] for c in names], np.uint8)


def ramp(count: int) -> np.ndarray:
    """uint8 [count, 3]: a light ramp from blue over green to yellow, on which black text reads."""
    stops = np.array([[143, 170, 255], [140, 225, 225], [170, 235, 150], [255, 245, 140]], float)
    at = np.linspace(0, len(stops) - 1, max(count, 2))[:count]
    low = np.minimum(at.astype(int), len(stops) - 2)
    part = (at - low)[:, None]
    return np.round(stops[low] * (1 - part) + stops[low + 1] * part).astype(np.uint8)


def hues(count: int) -> np.ndarray:
    """uint8 [count, 3]: light colours around the circle, neighbours apart."""
    import colorsys

    return np.array(
        [[round(255 * c) for c in colorsys.hls_to_rgb(k / count, 0.78, 0.85)] for k in range(count)], np.uint8
    )
