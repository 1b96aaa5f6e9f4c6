"""Text drawn on a canvas reads in both themes: what was written is noted together with the pixels beneath it,
then what lies below and above is composed as the page shows it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.browser.harness import mount
from tests.browser.test_every_view import CONTRAST, large
from tests.views.fixture import fragment_info
from tilebench.layouts import atoms
from tilebench.report import Report

NOTE = """() => {
  const proto = CanvasRenderingContext2D.prototype, { fillText, clearRect } = proto, written = window.written = new Map();
  proto.clearRect = function (x, y, w, h) {
    const t = this.getTransform();
    if (w * t.a >= this.canvas.width - 1 && h * t.d >= this.canvas.height - 1) written.delete(this.canvas);
    clearRect.call(this, x, y, w, h);
  };
  proto.fillText = function (text, x, y, ...room) {
    const t = this.getTransform(), size = parseFloat(this.font), wide = Math.min(this.measureText(text).width, room[0] ?? Infinity);
    const left = this.textAlign === 'center' ? x - wide / 2 : ['right', 'end'].includes(this.textAlign) ? x - wide : x;
    const middle = this.textBaseline === 'middle' ? y : y - size / 3;
    const spots = [0.05, 0.5, 0.95].map((part) => [Math.round((left + part * wide) * t.a + t.e), Math.round(middle * t.d + t.f)])
      .filter(([a, b]) => a >= 0 && b >= 0 && a < this.canvas.width && b < this.canvas.height)
      .map(([a, b]) => ({ a, b, ground: [...this.getImageData(a, b, 1, 1).data] }));
    if (!written.has(this.canvas)) written.set(this.canvas, []);
    if (String(text).trim()) written.get(this.canvas).push({ text, ink: this.fillStyle, alpha: this.globalAlpha, size, spots });
    fillText.call(this, text, x, y, ...room);
  };
}"""  # noqa: E501 # one function of the page
READ = """(least) => {
  const all = document.createElement('style');
  all.textContent = '* { pointer-events: auto !important; }'; // elementsFromPoint leaves out what has none
  document.head.append(all);
  const pen = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const colour = (style) => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = style; pen.fillRect(0, 0, 1, 1); return pixel(pen, 0, 0); };
  const pixel = (ctx, x, y) => { const [r, g, b, a] = ctx.getImageData(x, y, 1, 1).data; return [r, g, b, a / 255]; };
  const lin = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const lum = (c) => 0.2126 * lin(c[0]) + 0.7152 * lin(c[1]) + 0.0722 * lin(c[2]);
  const mixed = (top, low) => [0, 1, 2].map((k) => top[k] * top[3] + low[k] * (1 - top[3]));
  const layer = (e, x, y) => {
    if (!(e instanceof HTMLCanvasElement) || !e.width || !e.height) return colour(getComputedStyle(e).backgroundColor);
    const r = e.getBoundingClientRect();
    return pixel(e.getContext('2d'), Math.floor((x - r.left) * e.width / r.width), Math.floor((y - r.top) * e.height / r.height));
  };
  const bad = [], small = [];
  let looked = 0, unseen = 0;
  for (const [canvas, texts] of window.written) {
    if (!canvas.isConnected || !canvas.getClientRects().length) continue;
    const r = canvas.getBoundingClientRect();
    for (const { text, ink, alpha, size, spots } of texts) {
      if (size < 7) small.push([text, size]);
      for (const { a, b, ground: [red, green, blue, opacity] } of spots) {
        const x = r.left + (a + 0.5) * r.width / canvas.width, y = r.top + (b + 0.5) * r.height / canvas.height;
        const stack = document.elementsFromPoint(x, y), at = stack.indexOf(canvas);
        if (at < 0) { unseen += 1; continue; }
        const below = stack.slice(at + 1).map((e) => layer(e, x, y)).reduceRight((low, top) => mixed(top, low), [255, 255, 255]);
        let ground = mixed([red, green, blue, opacity / 255], below);
        const own = colour(ink);
        let dark = mixed([...own.slice(0, 3), own[3] * alpha], ground);
        const over = stack.slice(0, at).reverse(), above = over.map((e) => layer(e, x, y));
        const near = [-1, 0, 1].flatMap((i) => [-1, 0, 1].map((j) => [i, j]));
        if (over.some((e) => near.some(([i, j]) => layer(e, x + i, y + j)[3] > 0.95))) continue; // a ring, the map of the whole
        for (const top of above) { ground = mixed(top, ground); dark = mixed(top, dark); }
        looked += 1;
        const [hi, lo] = [lum(dark), lum(ground)].sort((p, q) => q - p), ratio = (hi + 0.05) / (lo + 0.05);
        if (ratio < least) bad.push([text, Number(ratio.toFixed(2)), dark.map(Math.round), ground.map(Math.round)]);
      }
    }
  }
  all.remove();
  return { looked, unseen, small, bad: bad.sort((p, q) => p[1] - q[1]).slice(0, 12), count: bad.length };
}"""  # noqa: E501 # one function of the page


@cache
def small() -> Report:
    """A tile that has room for text in each cell, before the others; errors of every size."""
    report = large()
    info = fragment_info("small", atoms.mma_accumulator((16, 8), (1, 1)), 32, "one product", 12)
    heat = np.geomspace(0.01, 1e8, 64 * 64).reshape(64, 64).astype(np.float32)
    diffs = tuple(replace(d, heat=heat, heat_at=None) for d in report.diffs)
    return replace(report, layouts=(info, *report.layouts), diffs=diffs)


def shown(page: Any, view: str, report: Report | None = None, state: str = "") -> None:
    page.set_viewport_size({"width": 1000, "height": 2600})
    page.evaluate(NOTE)
    mount(page, report or small(), (view,), state)


def checked(page: Any, least: int) -> None:
    """All that is written now reads in both themes; `least`: places looked at, lest the check miss all."""
    for theme in ("light", "dark"):
        page.evaluate("(t) => { document.body.dataset.theme = t; }", theme)
        found = page.evaluate(READ, CONTRAST)
        assert found["looked"] >= least, (theme, found)
        assert not found["bad"], (theme, found["count"], found["bad"])
        assert not found["small"], (theme, found["small"])


def pin(page: Any, selection: dict[str, Any]) -> None:
    page.evaluate("(s) => window.board.model.change('sel', s)", selection)


def zoom(page: Any, times: int) -> None:
    """Into the grid, until cells have room for text."""
    page.locator(".tb-grid").first.focus()
    for _ in range(times):
        page.keyboard.press("+")


@pytest.mark.parametrize(
    ("view", "least", "selection"),
    [
        ("layout", 50, {"buffer": "big", "thread": 5}),
        ("smem", 500, {"buffer": "A_shared", "bank": 3}),
        ("warps", 20, {"buffer": "C", "coord": [200, 300]}),
    ],
)
def test_text_on_a_canvas_reads(page: Any, view: str, least: int, selection: dict[str, Any]) -> None:
    shown(page, view)
    checked(page, least)
    pin(page, selection)
    checked(page, least)


@pytest.mark.parametrize("mode", ["lane", "warp", "register", "instruction"])
def test_text_on_every_colouring_reads(page: Any, mode: str) -> None:
    shown(page, "layout", state=f"tab:layout:buffer:small:mode:{mode}")
    checked(page, 300)
    pin(page, {"buffer": "small", "thread": 5})  # a veil over all others
    checked(page, 300)


@pytest.mark.parametrize("row", [0, 20, 40, 63])
def test_text_on_errors_of_every_size_reads(page: Any, row: int) -> None:
    shown(page, "diff")
    page.locator(".tb-grid").first.focus()
    for _ in range(row):
        page.keyboard.press("ArrowDown")
    zoom(page, 9)
    checked(page, 200)


def test_text_in_the_figures_of_an_instruction_reads(page: Any) -> None:
    shown(page, "layout", large(), state="tab:layout:buffer:C_local:view:instruction")
    checked(page, 100)


def test_faint_text_is_found(page: Any) -> None:
    shown(page, "smem")
    page.evaluate(
        """() => {
        const canvas = document.querySelector('.tb-axes'), ctx = canvas.getContext('2d');
        ctx.setTransform(1, 0, 0, 1, 0, 0);
        ctx.fillStyle = '#bbbbbb';
        ctx.fillText('faint', 30, 60);
      }"""
    )
    found = page.evaluate(READ, CONTRAST)
    assert {text for text, *_ in found["bad"]} == {"faint"}


def test_text_that_a_layer_makes_faint_is_found(page: Any) -> None:
    shown(page, "smem")
    page.evaluate(
        """() => {
        const over = document.querySelector('.tb-over'), ctx = over.getContext('2d');
        ctx.fillStyle = 'rgba(30, 30, 30, 0.9)';
        ctx.fillRect(0, 0, 60, over.height);
      }"""
    )
    found = page.evaluate(READ, CONTRAST)
    assert found["count"] >= 20
    assert max(ratio for _, ratio, *_ in found["bad"]) < CONTRAST
