"""Time travel: a block step by step. The still form is a filmstrip of key steps with a table."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np

from tilebench.codec import to_json
from tilebench.report import Report, Trace
from tilebench.views import trace as codec
from tilebench.views.base import (
    QUIET,
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

SAVED_BYTES, SAVED_VALUES = 250_000, 150_000
"""Of JSON that a report with its traces may take in a saved notebook; of it at most so many of traces."""
FRAMES, FILM = 7, (980, 560)
"""Frames of a filmstrip, and its pixels."""
NAN, LOW, HIGH, EMPTY = (255, 0, 200), (38, 44, 54), (255, 214, 10), (208, 213, 219)
_BLUE, _WHITE, _RED = (33, 102, 172), (250, 250, 248), (178, 24, 43)
_WARM = ((255, 252, 240), (253, 190, 110), (140, 30, 100))


def lean(report: Report, limit: int = SAVED_BYTES) -> Report:
    """The report with the key steps of its traces alone, in at most `limit` bytes of JSON where that can be:
    what a notebook keeps.
    """
    if not report.traces:
        return report
    left = limit - len(json.dumps(to_json(replace(report, traces=()))))
    share = min(SAVED_VALUES, max(left, 0)) // len(report.traces)
    return replace(report, traces=tuple(codec.saved(t, share) for t in report.traces))


def sentence(trace: Trace, names: bool = True) -> str:
    """One line: which block, how many steps, what is followed, what was found."""
    block = ", ".join(map(str, trace.block))
    line = f"{trace.total} steps of block ({block}) at {trace.level} level"
    if trace.kept:
        line += f" ({len(trace.steps)} key steps kept)"
    followed = [b.name for b in trace.buffers if b.shape and b.scope not in ("global", "shared")][:8]
    line += f"; follows {', '.join(followed)}" if names and followed else ""
    nan = next((k for k, s in enumerate(trace.steps) if any(w.nan for w in s.writes)), None)
    wrong = next((k for k, s in enumerate(trace.steps) if any(c.wrong for c in s.checks)), None)
    if wrong is not None:
        line += f"; first wrong at step {codec.number_of(trace, wrong)}, line {_line(trace, wrong)}"
    elif trace.reference:
        line += "; every step agrees with its reference"
    if nan is not None:
        line += f"; first NaN at step {codec.number_of(trace, nan)}, line {_line(trace, nan)}"
    return line + (f"; stopped: {trace.stopped}" if trace.stopped else "")


def _line(trace: Trace, step: int) -> int:
    return trace.sites[trace.steps[step].site].line


def title_of(trace: Trace, step: int) -> str:
    """'k = 2, step 31' or 'step 4'."""
    i = codec.iteration(trace, step)
    name = f"step {codec.number_of(trace, step)}"
    return name if i is None else f"{codec.loop_of(trace)} = {i}, {name}"


def colours(values: np.ndarray, written: np.ndarray) -> np.ndarray:
    """uint8 [..., 3]: blue, white, red around 0, light to dark where nothing is negative; NaN, infinities and
    elements not yet written in colours of their own.
    """
    finite = values[np.isfinite(values) & written]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    stops = np.array((_BLUE, _WHITE, _RED) if low < 0 else _WARM, float)
    top = max(-low, high) or 1.0
    part = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    at = np.clip((part + top) / (2 * top) if low < 0 else part / top, 0, 1) * 2
    left = np.minimum(at.astype(int), 1)
    share = (at - left)[..., None]
    out = stops[left] * (1 - share) + stops[left + 1] * share
    for special, colour in ((np.isnan(values), NAN), (values == -np.inf, LOW), (values == np.inf, HIGH)):
        out[special] = colour
    out[~written] = EMPTY
    return np.round(out).astype(np.uint8)


def shown(trace: Trace) -> tuple[list[int], list[int]]:
    """(tiles, row vectors) of the filmstrip, by number: those of the block's own memory with the commonest
    number of rows, in the order of their last write.
    """
    own = [i for i, b in enumerate(trace.buffers) if b.shape and b.scope in ("fragment", "register", "local")]
    if not own:
        own = [i for i, b in enumerate(trace.buffers) if b.shape and math.prod(b.shape)]
    rows = [trace.buffers[i].shape[0] for i in own]
    if not rows:
        return [], []
    common = max(set(rows), key=lambda n: (rows.count(n), n))
    last: dict[int, int] = {}
    for k, s in enumerate(trace.steps):
        last |= {w.buffer: k for w in s.writes}
    same = [i for i in own if trace.buffers[i].shape[0] == common and i in last]
    tiles = sorted((i for i in same if len(trace.buffers[i].shape) > 1), key=lambda i: last[i])
    return tiles[-3:], [i for i in same if len(trace.buffers[i].shape) == 1][:6]


def paint(ax: Any, trace: Trace) -> None:
    """Draw the filmstrip: a column for each key step, a row for each tile, row vectors side by side below."""
    no_axes(ax)
    titled(ax, f"time travel: {sentence(trace, names=False)}")
    steps = codec.key_steps(trace, FRAMES)
    tiles, rows = shown(trace)
    bands = [*([i] for i in tiles), *([rows] if rows else [])]
    if not steps or not bands:
        return
    replay = codec.Replay(trace)
    left, top, foot = 0.05, 0.07, 0.08
    width, height = (1 - left) / len(steps), (1 - top - foot) / len(bands)
    film = np.full(
        (FILM[1], FILM[0], 4), (255, 255, 255, 0), np.uint8
    )  # one picture: many would take seconds
    for c, k in enumerate(steps):
        replay.to(k)
        x = left + c * width
        write(ax, x, 1 - 0.03, clip(title_of(trace, k), 18), fontsize=6.5)
        for r, band in enumerate(bands):
            y = 1 - top - (r + 1) * height
            share = width * 0.94 / len(band)
            for n, i in enumerate(band):
                right = x + (n + 1) * share - (0.2 * share if len(band) > 1 else 0)
                _frame(film, (x + n * share, right, y + 0.01, y + height - 0.01), _image(replay, i))
                if len(band) > 1:
                    at = x + (n + 0.4) * share
                    write(ax, at, y - 0.012, clip(trace.buffers[i].name, 6), fontsize=5.5, ha="center")
            if c == 0:
                name = trace.buffers[band[0]].name if len(band) == 1 else "rows"
                write(ax, left - 0.008, y + height / 2, clip(name, 9), fontsize=7, ha="right")
    marks = (
        "each tile on a scale of its own: light to dark, or blue below zero and red above; "
        "magenta NaN, dark grey −inf, grey not yet written"
    )
    write(ax, left, 0.012, marks, fontsize=6, color=QUIET)
    ax.imshow(film, extent=(0, 1, 0, 1), interpolation="nearest", aspect="auto")


def _image(replay: codec.Replay, i: int) -> np.ndarray:
    """A buffer as an image of at most 128 rows and columns."""
    values, written = replay.values[i], replay.written[i]
    flat = values.reshape(values.shape[0], -1) if values.ndim else values.reshape(1, 1)
    seen = written.reshape(flat.shape)
    steps = tuple(slice(None, None, max(1, n // 128)) for n in flat.shape)
    return colours(flat[steps], seen[steps])


def _frame(film: np.ndarray, box: tuple[float, float, float, float], image: np.ndarray) -> None:
    """An image in a box (left, right, bottom, top, as shares of the film) with a thin border."""
    left, right = (round(x * film.shape[1]) for x in box[:2])
    high, low = (round((1 - y) * film.shape[0]) for y in box[2:])
    tall, wide = int(image.shape[0]), int(image.shape[1])
    rows: np.ndarray = np.arange(int(high - low)) * tall // max(1, high - low)
    columns: np.ndarray = np.arange(int(right - left)) * wide // max(1, right - left)
    film[low - 1 : high + 1, left - 1 : right + 1] = (208, 215, 222, 255)
    film[low:high, left:right, :3] = image[rows][:, columns]


def html(report: Report) -> str:
    """The key steps of each trace as a table: where, what was written, its range."""
    out = ""
    for trace in report.traces:
        rows: list[tuple[object, ...]] = []
        for k in codec.key_steps(trace):
            step = trace.steps[k]
            site = trace.sites[step.site]
            wrote = [
                f"{trace.buffers[w.buffer].name} {number(w.low)} … {number(w.high)}"
                + (f", {w.nan} NaN" if w.nan else "")
                + (f", {w.inf} inf" if w.inf else "")
                for w in step.writes[:6]
            ]
            worst = max((c.ratio for c in step.checks), default=None)
            checked = "" if worst is None else "wrong" if worst > 1 else "agrees"
            rows.append((title_of(trace, k), site.line, site.text, "; ".join(wrote), checked))
        out += html_table(
            ("key step", "line", "statement", "holds", "reference"), rows, f"time travel: {sentence(trace)}"
        )
    return out


def height(trace: Trace) -> float:
    """Inches that the filmstrip needs: the more tiles, the taller."""
    tiles, rows = shown(trace)
    return 0.7 + 1.3 * max(1, len(tiles) + bool(rows))


def still(report: Report) -> Still | None:
    """The filmstrip of a report's first trace, or None when nothing was recorded."""
    if not report.traces or not report.traces[0].steps:
        return None
    trace = report.traces[0]
    figure = new_figure(10, height(trace))
    paint(figure.add_axes((0.01, 0.02, 0.98, 0.88)), trace)
    return Still(png(figure), "image/png", sentence(trace))


__all__ = ["height", "html", "lean", "paint", "sentence", "shown", "still"]
