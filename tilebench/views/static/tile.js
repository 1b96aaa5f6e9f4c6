// A tile of numbers as a small canvas: one colour a cell, outlines and a cursor on a second canvas. Cells may be wide or flat.
import { h, heatColour } from "./kit.js";

const mix = (a, b, t) => a.map((v, c) => Math.round(v * (1 - t) + b[c] * t));
const BLUE = [33, 102, 172], WHITE = [250, 250, 248], RED = [178, 24, 43];
const WARM = [[255, 252, 240], [253, 190, 110], [140, 30, 100]];
/** 256 colours from the lowest to the highest value. */
export const SIGNED = Array.from({ length: 256 }, (_, k) => (k < 128 ? mix(BLUE, WHITE, k / 127) : mix(WHITE, RED, (k - 128) / 127)));
export const POSITIVE = Array.from({ length: 256 }, (_, k) => (k < 128 ? mix(WARM[0], WARM[1], k / 127) : mix(WARM[1], WARM[2], (k - 128) / 127)));
const NAN = [255, 0, 200], LOW = [38, 44, 54], HIGH = [255, 214, 10];
const EMPTY = [[208, 213, 219], [186, 192, 200]];

/** @typedef {{low: number, high: number, colours: number[][]}} Scale */

/** The range of the finite values that were written, with its colours; null when there are none. @param {{values: Float64Array, written: Uint8Array}} state @returns {{low: number, high: number}|null} */
export function rangeOf(state) {
  let low = Infinity, high = -Infinity;
  const { values, written } = state;
  for (let i = 0; i < values.length; i++) {
    const v = values[i];
    if (!written[i] || !(v - v === 0)) continue;
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return low <= high ? { low, high } : null;
}

/** Colours for a range: blue, white, red around 0, or light to dark where nothing is negative. @param {{low: number, high: number}|null} range @returns {Scale} */
export function scaleOf(range) {
  const { low, high } = range ?? { low: 0, high: 1 };
  if (low >= 0) return { low: 0, high: high || 1, colours: POSITIVE };
  const top = Math.max(-low, high);
  return { low: -top, high: top, colours: SIGNED };
}

/** A CSS gradient of a scale. @param {Scale} scale */
export function gradient(scale) {
  return `linear-gradient(90deg, ${[0, 64, 128, 192, 255].map((k) => `rgb(${scale.colours[k].join(",")})`).join(", ")})`;
}

/** Colours of a tile: rows x columns of values. @param {number} rows @param {number} columns @param {{values: Float64Array, written: Uint8Array}} state @param {Scale} scale */
export function coloured(rows, columns, state, scale) {
  const out = new Uint8ClampedArray(4 * rows * columns), { values, written } = state;
  const { low, colours } = scale, step = 255 / (scale.high - low || 1);
  for (let k = 0; k < rows * columns; k++) {
    const v = values[k];
    let c;
    if (!written[k]) c = EMPTY[((k % columns) + Math.floor(k / columns)) & 1];
    else if (Number.isNaN(v)) c = NAN;
    else if (v === -Infinity) c = LOW;
    else if (v === Infinity) c = HIGH;
    else c = colours[Math.max(0, Math.min(255, Math.round((v - low) * step)))];
    out[4 * k] = c[0];
    out[4 * k + 1] = c[1];
    out[4 * k + 2] = c[2];
    out[4 * k + 3] = 255;
  }
  return out;
}

/**
 * Colours of a map of differences: white for none, to blue for the largest that is allowed, yellow to red beyond.
 * @param {Float64Array} error @param {number} allowed beyond it is wrong; Infinity when nothing is
 */
export function differences(error, allowed) {
  const out = new Uint8ClampedArray(4 * error.length);
  const top = Math.min(allowed, error.reduce((a, b) => Math.max(a, b), 0)) || 1;
  for (let k = 0; k < error.length; k++) {
    const c = heatColour(error[k] <= allowed ? error[k] / top : allowed > 0 ? error[k] / allowed : 1e6);
    out.set([c[0], c[1], c[2], 255], 4 * k);
  }
  return out;
}

/**
 * A canvas of cells sx by sy pixels. events: hover(cell or null), pin(cell, add), key(event) true when used.
 * @param {string} label @param {number} rows @param {number} columns @param {number} sx @param {number} sy @param {any} events
 */
export function tile(label, rows, columns, sx, sy, events) {
  const width = Math.max(1, Math.round(columns * sx)), height = Math.max(1, Math.round(rows * sy));
  const base = h("canvas", { class: "tb-canvas" }), over = h("canvas", { class: "tb-canvas tb-over" });
  const el = h("div", { class: "tb-cells", tabindex: 0, role: "application", "aria-roledescription": "tile of values", "aria-label": label, style: { width: `${width}px`, height: `${height}px` } }, base, over);
  const dpr = globalThis.devicePixelRatio || 1;
  for (const canvas of [base, over]) {
    canvas.width = Math.round(width * dpr);
    canvas.height = Math.round(height * dpr);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const image = document.createElement("canvas");
  image.width = columns;
  image.height = rows;
  let cursor = null;
  const at = (event) => {
    const box = over.getBoundingClientRect();
    const r = Math.floor((event.clientY - box.top) / sy), c = Math.floor((event.clientX - box.left) / sx);
    return r >= 0 && c >= 0 && r < rows && c < columns ? [r, c] : null;
  };
  over.addEventListener("pointermove", (event) => {
    const cell = at(event);
    if (!cell || (cursor && cell[0] === cursor[0] && cell[1] === cursor[1])) return;
    cursor = cell;
    events.hover(cell);
  });
  over.addEventListener("pointerleave", () => { cursor = null; events.hover(null); });
  over.addEventListener("click", (event) => { const cell = at(event); if (cell) events.pin(cell, event.shiftKey); });
  const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  el.addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    if (move && !event.shiftKey && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const [r, c] = cursor ?? [0, 0];
      cursor = cursor ? [Math.max(0, Math.min(rows - 1, r + move[0])), Math.max(0, Math.min(columns - 1, c + move[1]))] : [0, 0];
      events.hover(cursor);
    } else if (event.key === "Enter" && cursor) events.pin(cursor, event.shiftKey);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  el.addEventListener("focus", () => { if (el.matches(":focus-visible")) { cursor ??= [0, 0]; events.hover(cursor); } });
  el.addEventListener("blur", () => { cursor = null; events.hover(null); });

  return {
    el, rows, columns,
    /** @param {Uint8ClampedArray} colours */
    paint(colours) {
      image.getContext("2d").putImageData(new ImageData(/** @type {any} */ (colours), columns, rows), 0, 0);
      const ctx = base.getContext("2d");
      ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
      ctx.imageSmoothingEnabled = false;
      ctx.drawImage(image, 0, 0, width, height);
    },
    /**
     * Outlines: changed cells, a whole row or column band, single cells. changed: 1 where a cell changed in this step.
     * @param {{changed: Uint8Array|null, row: number|null, column: number|null, cell: number[]|null, pins: number[][]}} marks
     */
    mark({ changed, row, column, cell, pins }) {
      const ctx = over.getContext("2d");
      ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
      ctx.clearRect(0, 0, width, height);
      if (changed) outline(ctx, changed, rows, columns, sx, sy);
      if (row !== null) band(ctx, 0, row * sy, width, sy);
      if (column !== null) band(ctx, column * sx, 0, sx, height);
      /** @param {number[]} place @param {string} colour */
      const ring = ([r, c], colour) => {
        for (const [style, line] of [["#ffffff", 4], [colour, 2]]) {
          ctx.strokeStyle = style;
          ctx.lineWidth = line;
          ctx.strokeRect(Math.round(c * sx) - 0.5, Math.round(r * sy) - 0.5, Math.max(4, sx + 1), Math.max(4, sy + 1));
        }
      };
      for (const p of pins) ring(p, "#b3001b");
      if (cell) ring(cell, "#000000");
    },
  };
}

/** A band over a row or column: dark lines on both sides with light ones outside, seen on any colour. */
function band(ctx, x, y, w, hgt) {
  ctx.lineWidth = 1;
  for (const [style, d] of /** @type {[string, number][]} */ ([["rgba(255,255,255,0.9)", 1.5], ["rgba(0,0,0,0.85)", 0.5]])) {
    ctx.strokeStyle = style;
    ctx.strokeRect(x - d, y - d, w + 2 * d, hgt + 2 * d);
  }
}

/** The border between changed and unchanged cells (the tile's edge counts as unchanged). */
function outline(ctx, changed, rows, columns, sx, sy) {
  const path = new Path2D();
  const on = (r, c) => r >= 0 && c >= 0 && r < rows && c < columns && changed[r * columns + c];
  let any = false;
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      if (!changed[r * columns + c]) continue;
      const x0 = Math.max(1, c * sx), y0 = Math.max(1, r * sy), x1 = Math.min(columns * sx - 1, (c + 1) * sx), y1 = Math.min(rows * sy - 1, (r + 1) * sy);
      if (!on(r - 1, c)) { path.moveTo(x0, y0); path.lineTo(x1, y0); any = true; }
      if (!on(r + 1, c)) { path.moveTo(x0, y1); path.lineTo(x1, y1); any = true; }
      if (!on(r, c - 1)) { path.moveTo(x0, y0); path.lineTo(x0, y1); any = true; }
      if (!on(r, c + 1)) { path.moveTo(x1, y0); path.lineTo(x1, y1); any = true; }
    }
  }
  if (!any) return;
  for (const [style, line] of [["rgba(255,255,255,0.95)", 3.5], ["#b34700", 1.75]]) {
    ctx.strokeStyle = style;
    ctx.lineWidth = line;
    ctx.stroke(path);
  }
}
