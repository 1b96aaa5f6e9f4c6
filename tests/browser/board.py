"""The live board in a browser: its tabs, what it says and draws, and text without contrast."""

from __future__ import annotations

from typing import Any

TABS = (
    "layout",
    "shared memory",
    "warps",
    "timeline",
    "roofline",
    "time travel",
    "difference",
    "code",
    "passes",
    "findings",
    "figures",
)

PIXEL = """([row, column, rows, columns]) => {
  const canvas = document.querySelector('.tb-grid canvas');
  const x = Math.floor((column + 0.5) * canvas.width / columns);
  const y = Math.floor((row + 0.5) * canvas.height / rows);
  return [...canvas.getContext('2d').getImageData(x, y, 1, 1).data];
}"""


def tab(page: Any, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def status(page: Any) -> str:
    return page.locator(".tb-panel .tb-status").first.inner_text()


def hover(page: Any, row: int, column: int, rows: int, columns: int) -> None:
    box = page.locator(".tb-over").bounding_box()
    page.mouse.move(
        box["x"] + (column + 0.5) * box["width"] / columns, box["y"] + (row + 0.5) * box["height"] / rows
    )


def pixel(page: Any, row: int, column: int, rows: int, columns: int) -> list[int]:
    return page.evaluate(PIXEL, [row, column, rows, columns])[:3]


CELLS = [(0, 0), (3, 17), (11, 70), (90, 5), (127, 126), (65, 64)]

LUMINANCE = """() => {
  const numbers = (c) => {
    const found = c.match(/[\\d.]+/g).map(Number);
    return c.startsWith('color(srgb') ? found.map((v, k) => (k < 3 ? 255 * v : v)) : found;
  };
  const rgb = (c) => { const m = numbers(c); return m.length > 3 && m[3] === 0 ? null : m; };
  const lin = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const lum = (c) => 0.2126 * lin(c[0]) + 0.7152 * lin(c[1]) + 0.0722 * lin(c[2]);
  const back = (e) => {
    for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c) return c; }
    return [255, 255, 255];
  };
  const bad = [];
  for (const e of document.querySelectorAll('.tilebench *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || e.tagName === 'OPTION') continue;
    const style = getComputedStyle(e);
    if (e instanceof SVGElement && e.classList.contains('tb-inbar')) continue;
    const b = back(e), ink = rgb(e instanceof SVGElement ? style.fill : style.color);
    const c = [0, 1, 2].map((k) => ink[k] * (ink[3] ?? 1) + b[k] * (1 - (ink[3] ?? 1)));
    const [hi, lo] = [lum(c), lum(b)].sort((x, y) => y - x);
    if ((hi + 0.05) / (lo + 0.05) >= 4.5) continue;
    bad.push([e.className.baseVal ?? e.className, e.textContent.slice(0, 30), c, b]);
  }
  return bad;
}"""
