"""What holds of every view, one row of the table each: small, quick, in both themes, by keyboard, by ear."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.browser.harness import model_data, mount
from tests.browser.test_figures import answering
from tests.views.fixture import fragment_info
from tests.views.more import everything
from tilebench.layouts import atoms
from tilebench.report import REPORT_MIME, VIEWS, Report
from tilebench.views import VIEW_MODULES, Board
from tilebench.views.widget import packed

PAYLOAD_BYTES, FIRST_DRAW_MS, CONTRAST = 256_000, 300, 4.5

FAINT = """(least) => {
  const numbers = (c) => {
    const found = (c.match(/[\\d.]+/g) ?? []).map(Number);
    return c.startsWith('color(srgb') ? found.map((v, k) => (k < 3 ? 255 * v : v)) : found; // what color-mix gives
  };
  const seen = (c) => { const m = numbers(c); return m.length < 3 || m[3] === 0 ? null : m; };
  const lin = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const lum = (c) => 0.2126 * lin(c[0]) + 0.7152 * lin(c[1]) + 0.0722 * lin(c[2]);
  const mixed = (top, below) => top.slice(0, 3).map((v, k) => v * (top[3] ?? 1) + below[k] * (1 - (top[3] ?? 1)));
  const fill = (style) => { // of a hatched shape: what lies under the hatching
    const named = style.fill.match(/^url\\("?#([^")]+)/);
    const under = named && document.getElementById(named[1])?.querySelector('rect');
    return under ? getComputedStyle(under).fill : style.fill;
  };
  const paint = (e) => {
    const style = getComputedStyle(e), shape = e instanceof SVGElement && !(e instanceof SVGSVGElement);
    return seen(!shape ? style.backgroundColor : e.tagName === 'text' ? '' : fill(style));
  };
  const over = (layers) => layers.filter(Boolean).reduceRight((low, top) => mixed(top, low), [255, 255, 255]);
  const ancestors = (e) => { const found = []; for (; e; e = e.parentElement) found.push(e); return found; };
  const behind = (e, box) => { // what is painted under the middle of a text, composed from the page up
    const stack = document.elementsFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    const hit = stack.findIndex((s) => s === e), floating = getComputedStyle(e).pointerEvents === 'none';
    return over((hit >= 0 ? stack.slice(hit) : floating ? stack : ancestors(e)).map(paint));
  };
  const bad = [];
  let looked = 0;
  for (const e of document.querySelectorAll('.tilebench *')) {
    const own = [...e.childNodes].find((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || e.tagName === 'OPTION') continue;
    looked += 1;
    const range = document.createRange();
    range.selectNodeContents(own);
    const style = getComputedStyle(e), below = behind(e, range.getBoundingClientRect());
    const ink = mixed(numbers(e instanceof SVGElement ? style.fill : style.color), below);
    const [hi, lo] = [lum(ink), lum(below)].sort((x, y) => y - x);
    if ((hi + 0.05) / (lo + 0.05) < least) bad.push([e.className.baseVal ?? e.className, e.textContent.slice(0, 30), ink.map(Math.round), below.map(Math.round)]);
  }
  return { looked, bad };
}"""  # noqa: E501 # one function of the page
SPOKEN = """() => {
  const panel = document.querySelector('.tb-panel'), named = (e) => e.getAttribute('aria-label') || e.getAttribute('aria-labelledby')
    || e.textContent.trim() || e.labels?.[0]?.textContent.trim();
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  return {
    unnamed: [...panel.querySelectorAll('button, select, input, textarea, canvas[tabindex], svg[role], [tabindex="0"]')].filter((e) => e.getClientRects().length && !named(e)).map((e) => e.outerHTML.slice(0, 90)),
    live: panel.querySelectorAll('[aria-live="polite"]').length,
    twice: ids.filter((x, k) => ids.indexOf(x) !== k),
    pictures: [...panel.querySelectorAll('svg')].filter((e) => e.getClientRects().length && !e.getAttribute('role') && !e.closest('[aria-hidden="true"], [role]')).map((e) => e.outerHTML.slice(0, 90)),
    clipped: [...panel.querySelectorAll('.tb-status')].filter((e) => e.scrollHeight > e.clientHeight + 1).map((e) => e.textContent.slice(0, 80)),
  };
}"""  # noqa: E501 # one function of the page
FOCUS = """() => {
  const e = document.activeElement, style = getComputedStyle(e);
  return [e.tagName, e.closest('.tb-panel') !== null, e.matches(':focus-visible') && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0];
}"""  # noqa: E501 # one function of the page
LAB = {
    "light": {
        "--jp-ui-font-color1": "rgba(0, 0, 0, 0.87)", "--jp-ui-font-color2": "rgba(0, 0, 0, 0.54)",
        "--jp-layout-color0": "#ffffff", "--jp-layout-color1": "#ffffff", "--jp-layout-color2": "#eeeeee",
        "--jp-border-color1": "#bdbdbd",
    },
    "dark": {
        "--jp-ui-font-color1": "rgba(255, 255, 255, 0.87)",
        "--jp-ui-font-color2": "rgba(255, 255, 255, 0.54)",
        "--jp-layout-color0": "#111111", "--jp-layout-color1": "#212121", "--jp-layout-color2": "#424242",
        "--jp-border-color1": "#616161",
    },
}  # fmt: skip
"""The colours of JupyterLab 4's own themes that the views take."""
SILENT = ("summary",)
"""Views that are read, not pointed at: they have nothing to announce."""


@cache
def large() -> Report:
    """Data for every view, and a fragment of 128 x 256 in front of the others."""
    report = everything()
    info = fragment_info("big", atoms.mma_accumulator((128, 256), (2, 2)), 32, "the accumulator", 12)
    return replace(report, layouts=(info, *report.layouts))


def test_every_view_that_there_is_has_a_row() -> None:
    assert {*VIEW_MODULES, "board"} == set(VIEWS)


@pytest.mark.parametrize("view", [*VIEW_MODULES, "board"])
def test_the_payload_is_small_and_the_first_draw_quick(page: Any, view: str) -> None:
    report = large()
    assert len(packed(report)) <= PAYLOAD_BYTES
    data, _ = Board(report, (view,), static=True).bundle()
    assert len(json.dumps(data[REPORT_MIME])) <= PAYLOAD_BYTES
    answering(page)
    best, drawn = page.evaluate(
        """async (data) => {
        let best = 1e9, drawn = 0;
        for (let k = 0; k < 8; k++) {
          const start = performance.now();
          const b = await window.mount(data);
          const canvas = b.el.querySelector('canvas');
          if (canvas?.width && canvas.height) canvas.getContext('2d').getImageData(0, 0, 1, 1);
          b.el.getBoundingClientRect();
          best = Math.min(best, performance.now() - start);
          drawn = b.el.querySelector('.tb-panel').childElementCount;
          b.end();
        }
        return [best, drawn];
      }""",
        model_data(report, (view,)),
    )
    assert drawn > 0, "the view is empty"
    assert best <= FIRST_DRAW_MS, f"{best:.0f} ms"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEW_MODULES)
def test_text_reads_in_both_themes(page: Any, view: str, theme: str) -> None:
    page.set_viewport_size({"width": 1000, "height": 2600})  # all of it on the page: nothing is scrolled away
    answering(page)
    mount(page, large(), (view,))
    page.evaluate("(t) => { document.body.dataset.theme = t; }", theme)
    found = page.evaluate(FAINT, CONTRAST)
    assert found["looked"] >= 5
    assert not found["bad"], found["bad"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_reads_in_the_colours_of_jupyterlab(page: Any, theme: str) -> None:
    page.set_viewport_size({"width": 1000, "height": 2600})
    answering(page)
    page.evaluate(
        """([values, light]) => {
        document.body.removeAttribute('data-theme');
        document.body.dataset.jpThemeLight = String(light);
        for (const [name, value] of Object.entries(values)) document.body.style.setProperty(name, value);
        document.body.style.background = values['--jp-layout-color0'];
      }""",
        [LAB[theme], theme == "light"],
    )
    for view in VIEW_MODULES:
        mount(page, large(), (view,))
        found = page.evaluate(FAINT, CONTRAST)
        assert found["looked"] >= 5
        assert not found["bad"], (view, found["bad"])
        page.evaluate("() => window.board.end()")


@pytest.mark.parametrize("view", VIEW_MODULES)
def test_it_works_by_keyboard_and_is_read_aloud(page: Any, view: str) -> None:
    answering(page)
    mount(page, large(), (view,))
    spoken = page.evaluate(SPOKEN)
    assert spoken["unnamed"] == spoken["twice"] == spoken["pictures"] == spoken["clipped"] == []
    assert spoken["live"] >= (view not in SILENT)
    page.get_by_role("tab").first.focus()
    inside = 0
    for _ in range(40):
        page.keyboard.press("Tab")
        _, within, visible = page.evaluate(FOCUS)
        if not within:
            break
        inside += 1
        assert visible, page.evaluate("() => document.activeElement.outerHTML.slice(0, 120)")
    assert inside >= 1, "nothing in the view takes the focus"
    page.keyboard.press("Escape")
    assert page.evaluate(SPOKEN)["clipped"] == []
