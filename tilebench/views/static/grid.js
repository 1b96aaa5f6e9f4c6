// A canvas of coloured cells: one image pixel a cell, scaled; outlines, labels, cursor and highlights lie on a second canvas.
import { h, inkOn, onTheme } from "./kit.js";

/**
 * @typedef {Object} GridData
 * @property {number} rows
 * @property {number} columns
 * @property {Uint8ClampedArray} colours RGBA, row-major
 * @property {Uint8Array} [edges] bit 0: a border right of the cell, bit 1: below it; bits 2 and 3: thin ones
 * @property {Uint8Array} [holders] how many hold the cell: a corner and the number where it is more than one
 * @property {Uint8Array} [hatch] 1: nothing is there
 * @property {(r: number) => string} [rowLabel] written left of the rows, where there is room
 * @property {(c: number) => string} [columnLabel] written above the columns
 * @property {(r: number, c: number) => boolean} [gap] cells that the keyboard steps over
 * @property {number[]} [columnMarks] columns where the labels start anew
 * @property {number[]} [rowMarks] rows that have a label whatever the room (the bands of a wrapped tile)
 * @property {(r: number, c: number) => string[]} [text] one or two lines for a cell
 * @property {number} [aspect] width over height of a cell
 */
/**
 * @typedef {Object} GridEvents
 * @property {(cell: [number, number]|null) => void} hover
 * @property {(cell: [number, number], add: boolean) => void} pin
 * @property {() => void} clear
 * @property {(key: string, cell: [number, number]) => boolean} [key] true when it was used
 */

const LARGEST_CELL = 30, TALLEST = 512, GUTTER = 46, ROOF = 15, MAP = 84;

/** Room for the cells of a grid in an element of this width, as [width, height]. @param {number} width @param {boolean} labels */
export function roomFor(width, labels) {
  return [Math.max(120, width - (labels ? GUTTER : 0)), TALLEST];
}
const VEIL = [22, 27, 34, 150]; // over what is not lit: the light colours stand out of it in both themes

/**
 * The grid in `el`. Hover and keyboard move a cursor; click and Enter pin; wheel (when focused, or with Ctrl) zooms; drag pans.
 * @param {HTMLElement} el @param {string} label @param {GridEvents} events
 */
export function grid(el, label, events) {
  /** @type {GridData} */
  let data = { rows: 1, columns: 1, colours: new Uint8ClampedArray(4) };
  let view = { s: 1, x: 0, y: 0, width: 300, height: 150, fit: 1, room: 300 };
  /** @type {[number, number]} */
  let cursor = [0, 0];
  let shown = false;
  /** @type {Uint8Array|null} */
  let mask = null;
  /** @type {number[][]} */
  let outlined = [];
  const base = h("canvas", { class: "tb-canvas" }), over = h("canvas", { class: "tb-canvas tb-over" }), axes = h("canvas", { class: "tb-canvas tb-axes", "aria-hidden": "true" });
  const box = h("div", { class: "tb-grid", tabindex: 0, role: "application", "aria-roledescription": "grid of cells", "aria-label": label }, base, over, axes);
  el.append(box);
  const image = document.createElement("canvas"), veil = document.createElement("canvas");
  const ending = new AbortController(), signal = ending.signal;

  const w = () => view.s * (data.aspect || 1);
  const left = () => (data.rowLabel ? GUTTER : 0), top = () => (data.columnLabel ? ROOF : 0);

  function measure() {
    const aspect = data.aspect || 1;
    const room = Math.max(24, (box.clientWidth || el.clientWidth || 600) - left());
    const most = Math.min(LARGEST_CELL, room / (data.columns * aspect), TALLEST / data.rows);
    const s = most >= 2 ? Math.floor(most) : most; // whole pixels: all cells are of one size
    view = { s, x: 0, y: 0, width: 1, height: 1, fit: s, room };
    size();
  }

  /** The canvases as large as the tile at this zoom, up to the room there is. */
  function size() {
    const width = Math.min(view.room, Math.max(1, Math.round(data.columns * w()))), height = Math.min(TALLEST, Math.max(1, Math.round(data.rows * view.s)));
    if (width === view.width && height === view.height) return;
    view.width = width;
    view.height = height;
    const dpr = globalThis.devicePixelRatio || 1;
    for (const canvas of [base, over]) {
      canvas.width = Math.round(view.width * dpr);
      canvas.height = Math.round(view.height * dpr);
      canvas.style.width = `${view.width}px`;
      canvas.style.height = `${view.height}px`;
      canvas.style.left = `${left()}px`;
      canvas.style.top = `${top()}px`;
    }
    axes.width = Math.round((view.width + left()) * dpr);
    axes.height = Math.round((view.height + top()) * dpr);
    axes.style.width = `${view.width + left()}px`;
    axes.style.height = `${view.height + top()}px`;
    box.style.height = `${view.height + top()}px`;
  }

  /** Labels of rows and columns, as many as there is room for. */
  function label_() {
    if (!data.rowLabel && !data.columnLabel) { axes.hidden = true; return; }
    axes.hidden = false;
    const ctx = context(axes, view.width + left(), view.height + top());
    ctx.fillStyle = getComputedStyle(axes).color;
    ctx.font = "10px ui-monospace, monospace";
    ctx.textBaseline = "middle";
    const { r0, r1, c0, c1 } = visible();
    if (data.rowLabel) {
      ctx.textAlign = "right";
      const every = step(18 / view.s);
      let last = -Infinity;
      for (let r = r0; r < r1; r++) {
        const marked = data.rowMarks?.includes(r);
        if (!marked && (data.rowMarks || r % every)) continue;
        const y = top() + view.y + (r + 0.5) * view.s;
        if (y - last < 10 || y < top() || y > view.height + top()) continue;
        const text = data.rowLabel(r);
        if (text) { ctx.fillText(text, left() - 4, y); last = y; }
      }
    }
    if (data.columnLabel) {
      ctx.textAlign = "center";
      const every = step(30 / w());
      const starts = data.columnMarks ?? [0];
      for (let c = c0; c < c1; c++) {
        if ((c - (starts.filter((s) => s <= c).pop() ?? 0)) % every) continue;
        const x = left() + view.x + (c + 0.5) * w(), text = data.columnLabel(c);
        if (text && x + text.length * 3.1 <= left() + view.width) ctx.fillText(text, x, top() - 6);
      }
    }
  }

  function context(canvas, width = view.width, height = view.height) {
    const ctx = canvas.getContext("2d"), dpr = globalThis.devicePixelRatio || 1;
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.clearRect(0, 0, width, height);
    ctx.imageSmoothingEnabled = false;
    return ctx;
  }

  function visible() {
    return {
      r0: Math.max(0, Math.floor(-view.y / view.s)), r1: Math.min(data.rows, Math.ceil((view.height - view.y) / view.s)),
      c0: Math.max(0, Math.floor(-view.x / w())), c1: Math.min(data.columns, Math.ceil((view.width - view.x) / w())),
    };
  }

  function paint() {
    label_();
    const ctx = context(base);
    ctx.drawImage(image, view.x, view.y, data.columns * w(), data.rows * view.s);
    const { r0, r1, c0, c1 } = visible();
    if (view.s >= 10 && (r1 - r0) * (c1 - c0) <= 4096) {
      ctx.strokeStyle = "rgba(90,98,110,0.4)";
      ctx.lineWidth = 0.75;
      ctx.beginPath();
      for (let c = c0; c <= c1; c++) { ctx.moveTo(view.x + c * w(), view.y + r0 * view.s); ctx.lineTo(view.x + c * w(), view.y + r1 * view.s); }
      for (let r = r0; r <= r1; r++) { ctx.moveTo(view.x + c0 * w(), view.y + r * view.s); ctx.lineTo(view.x + c1 * w(), view.y + r * view.s); }
      ctx.stroke();
    }
    if (data.gap) cleared(ctx, r0, r1, c0, c1);
    if (data.hatch && view.s >= 4) hatched(ctx, r0, r1, c0, c1);
    if (data.edges) {
      if (view.s >= 5) edged(ctx, r0, r1, c0, c1, 2, 0.75, "rgba(27,31,36,0.7)");
      if (view.s >= 1.5) edged(ctx, r0, r1, c0, c1, 0, 1.5, "#1b1f24");
    }
    if (data.holders && view.s >= 9) cornered(ctx, r0, r1, c0, c1);
    if (data.text && view.s >= 12 && w() >= 14) {
      const two = view.s >= 22;
      const size = Math.min(12, two ? view.s * 0.36 : view.s * 0.62);
      ctx.font = `${size}px ui-monospace, monospace`;
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      const bare = getComputedStyle(box).color, pen = { ink: "" };
      for (let r = r0; r < r1; r++) {
        for (let c = c0; c < c1; c++) {
          const lines = data.text(r, c).slice(0, two ? 2 : 1), at = 4 * (r * data.columns + c);
          const ink = data.colours[at + 3] ? inkOn([data.colours[at], data.colours[at + 1], data.colours[at + 2]]) : bare;
          if (ink !== pen.ink) ctx.fillStyle = pen.ink = ink;
          lines.forEach((t, k) => ctx.fillText(t, view.x + (c + 0.5) * w(), view.y + (r + 0.5) * view.s + (k - (lines.length - 1) / 2) * size * 1.15, w() - 1));
        }
      }
    }
    overlay();
  }

  /** Borders of cells: bits `bit` (right) and `bit + 1` (below). */
  function edged(ctx, r0, r1, c0, c1, bit, width, colour) {
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.beginPath();
    for (let r = r0; r < r1; r++) {
      for (let c = c0; c < c1; c++) {
        const edge = data.edges[r * data.columns + c] >> bit;
        if (!(edge & 3)) continue;
        const x = view.x + (c + 1) * w(), y = view.y + (r + 1) * view.s;
        if (edge & 1) { ctx.moveTo(x, y - view.s); ctx.lineTo(x, y); }
        if (edge & 2) { ctx.moveTo(x - w(), y); ctx.lineTo(x, y); }
      }
    }
    ctx.stroke();
  }

  /** Nothing is drawn in the gaps between the bands of a wrapped tile. */
  function cleared(ctx, r0, r1, c0, c1) {
    for (let r = r0; r < r1; r++) if (data.gap(r, c0) && data.gap(r, c1 - 1)) ctx.clearRect(view.x + c0 * w(), view.y + r * view.s + 0.5, (c1 - c0) * w() + 1, view.s - 1);
    for (let c = c0; c < c1; c++) if (data.gap(r0, c) && data.gap(r1 - 1, c)) ctx.clearRect(view.x + c * w() + 0.5, view.y + r0 * view.s, w() - 1, (r1 - r0) * view.s + 1);
  }

  function hatched(ctx, r0, r1, c0, c1) {
    ctx.strokeStyle = "#8b949e";
    ctx.lineWidth = 1;
    ctx.beginPath();
    for (let r = r0; r < r1; r++) {
      for (let c = c0; c < c1; c++) {
        if (!data.hatch[r * data.columns + c]) continue;
        const x = view.x + c * w(), y = view.y + r * view.s;
        ctx.moveTo(x, y + view.s);
        ctx.lineTo(x + w(), y);
      }
    }
    ctx.stroke();
  }

  /** A dark corner where more than one holds the element, with their number where it fits. */
  function cornered(ctx, r0, r1, c0, c1) {
    const side = Math.min(7, view.s * 0.28);
    ctx.fillStyle = "#24292f";
    ctx.beginPath();
    for (let r = r0; r < r1; r++) {
      for (let c = c0; c < c1; c++) {
        if (data.holders[r * data.columns + c] < 2) continue;
        const x = view.x + (c + 1) * w(), y = view.y + r * view.s;
        ctx.moveTo(x - side, y);
        ctx.lineTo(x, y);
        ctx.lineTo(x, y + side);
      }
    }
    ctx.fill();
  }

  /** The whole grid in a corner, with what is seen of it, when zoomed in. */
  function mapped(ctx) {
    const full = data.columns * w() > view.width + 1 || data.rows * view.s > view.height + 1;
    if (!full) return;
    const k = Math.min(MAP / (data.columns * w()), MAP / (data.rows * view.s)), mw = Math.max(8, data.columns * w() * k), mh = Math.max(6, data.rows * view.s * k);
    const x = view.width - mw - 4, y = 4;
    if (mw > view.width / 2 || mh > view.height / 1.5) return;
    ctx.fillStyle = "#ffffff";
    ctx.fillRect(x - 2, y - 2, mw + 4, mh + 4);
    ctx.imageSmoothingEnabled = true;
    ctx.drawImage(image, x, y, mw, mh);
    ctx.imageSmoothingEnabled = false;
    ctx.strokeStyle = "#b3001b";
    ctx.lineWidth = 1.5;
    const sx = mw / (data.columns * w()), sy = mh / (data.rows * view.s);
    ctx.strokeRect(x - view.x * sx, y - view.y * sy, Math.min(mw, view.width * sx), Math.min(mh, view.height * sy));
    ctx.strokeStyle = "#1b1f24";
    ctx.lineWidth = 1;
    ctx.strokeRect(x - 2.5, y - 2.5, mw + 5, mh + 5);
  }

  function overlay() {
    const ctx = context(over);
    ctx.globalAlpha = data.text && view.s >= 12 ? 0.55 : 1; // text under the veil stays readable
    if (mask) ctx.drawImage(veil, view.x, view.y, data.columns * w(), data.rows * view.s);
    ctx.globalAlpha = 1;
    const ring = (r, c, colour, width) => {
      ctx.strokeStyle = colour;
      ctx.lineWidth = width;
      ctx.strokeRect(view.x + c * w() + 0.5, view.y + r * view.s + 0.5, Math.max(3, w() - 1), Math.max(3, view.s - 1));
    };
    for (const [r, c] of outlined) { ring(r, c, "#ffffff", 4); ring(r, c, "#b3001b", 2); }
    if (shown) { ring(cursor[0], cursor[1], "#ffffff", 4); ring(cursor[0], cursor[1], "#000000", 2); }
    mapped(ctx);
  }

  function fillVeil() {
    if (!mask) return;
    veil.width = data.columns;
    veil.height = data.rows;
    const pixels = new ImageData(data.columns, data.rows);
    for (let k = 0; k < mask.length; k++) if (!mask[k]) pixels.data.set(VEIL, 4 * k);
    veil.getContext("2d").putImageData(pixels, 0, 0);
  }

  /** @returns {[number, number]|null} */
  function cellAt(event) {
    const at = over.getBoundingClientRect();
    const c = Math.floor((event.clientX - at.left - view.x) / w()), r = Math.floor((event.clientY - at.top - view.y) / view.s);
    return r >= 0 && c >= 0 && r < data.rows && c < data.columns ? [r, c] : null;
  }

  function go(cell) {
    cursor = cell;
    shown = true;
    const x = view.x + cell[1] * w(), y = view.y + cell[0] * view.s;
    let moved = false;
    if (x < 0 || x + w() > view.width + 1) { view.x += view.width / 2 - x; moved = true; }
    if (y < 0 || y + view.s > view.height + 1) { view.y += view.height / 2 - y; moved = true; }
    if (moved) { bound(); paint(); } else overlay();
    events.hover(cell);
  }

  function bound() {
    view.x = Math.min(0, Math.max(view.width - data.columns * w(), view.x));
    view.y = Math.min(0, Math.max(view.height - data.rows * view.s, view.y));
  }

  function zoom(factor, px, py) {
    const s = Math.min(64, Math.max(view.fit, view.s * factor)), k = s / view.s;
    view.x = px - (px - view.x) * k;
    view.y = py - (py - view.y) * k;
    view.s = s;
    size();
    bound();
    paint();
  }

  let drag = null;
  over.addEventListener("pointermove", (event) => {
    if (drag && event.buttons) {
      const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
      if (drag.moved || Math.abs(dx) + Math.abs(dy) > 5) {
        drag.moved = true;
        view.x = drag.vx + dx;
        view.y = drag.vy + dy;
        bound();
        paint();
        return;
      }
    }
    const cell = cellAt(event);
    if (!cell || data.gap?.(...cell)) return;
    if (shown && cell[0] === cursor[0] && cell[1] === cursor[1]) return;
    cursor = cell;
    shown = true;
    overlay();
    events.hover(cell);
  }, { signal });
  over.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, y: event.clientY, vx: view.x, vy: view.y, moved: false }; box.focus({ preventScroll: true }); }, { signal });
  over.addEventListener("pointerup", (event) => {
    const cell = cellAt(event);
    if (drag && !drag.moved && cell && !data.gap?.(...cell)) events.pin(cell, event.shiftKey);
    drag = null;
  }, { signal });
  over.addEventListener("pointerleave", () => { drag = null; shown = box.matches(":focus-visible"); overlay(); events.hover(null); }, { signal });
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== box) return;
    event.preventDefault();
    const at = over.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 1.25 : 0.8, event.clientX - at.left, event.clientY - at.top);
  }, { signal, passive: false });
  /** The next cell that way, over the gaps of a wrapped tile. @param {[number, number]} move @returns {[number, number]} */
  function moved_([dr, dc]) {
    /** @type {[number, number]} */ let at = [cursor[0], cursor[1]];
    do at = [at[0] + dr, at[1] + dc];
    while (data.gap?.(...at) && at[0] >= 0 && at[1] >= 0 && at[0] < data.rows && at[1] < data.columns);
    return at[0] < 0 || at[1] < 0 || at[0] >= data.rows || at[1] >= data.columns ? cursor : at;
  }
  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  box.addEventListener("keydown", (event) => {
    if (event.altKey || event.metaKey || event.ctrlKey) return;
    const move = STEPS[event.key];
    let used = true;
    if (move) go(moved_(move));
    else if (event.key === "Enter" || event.key === " ") events.pin(cursor, event.shiftKey);
    else if (event.key === "Escape") events.clear();
    else if (event.key === "0") { measure(); paint(); }
    else if (event.key === "+" || event.key === "=") zoom(1.25, view.x + (cursor[1] + 0.5) * w(), view.y + (cursor[0] + 0.5) * view.s);
    else if (event.key === "-") zoom(0.8, view.x + (cursor[1] + 0.5) * w(), view.y + (cursor[0] + 0.5) * view.s);
    else used = events.key ? events.key(event.key, cursor) : false;
    if (used) { event.preventDefault(); event.stopPropagation(); }
  }, { signal });
  box.addEventListener("focus", () => { if (box.matches(":focus-visible")) go(cursor); }, { signal });
  let lastWidth = 0;
  const resized = new ResizeObserver(() => {
    if (Math.abs(box.clientWidth - lastWidth) < 2) return;
    lastWidth = box.clientWidth;
    measure();
    paint();
  });
  resized.observe(box);
  const offTheme = onTheme(paint);

  return {
    /** Shows other data. @param {GridData} next */
    set(next) {
      const same = next.rows === data.rows && next.columns === data.columns && next.aspect === data.aspect
        && Boolean(next.rowLabel) === Boolean(data.rowLabel) && Boolean(next.columnLabel) === Boolean(data.columnLabel) && lastWidth > 0;
      data = next;
      image.width = data.columns;
      image.height = data.rows;
      image.getContext("2d").putImageData(new ImageData(/** @type {any} */ (data.colours), data.columns, data.rows), 0, 0);
      cursor = [clamp(cursor[0], data.rows), clamp(cursor[1], data.columns)];
      mask = null;
      if (!same) { lastWidth = box.clientWidth; measure(); }
      paint();
    },
    /** Dims all cells but those of the mask, and rings some. @param {Uint8Array|null} next @param {number[][]} rings */
    light(next, rings) {
      mask = next;
      outlined = rings;
      fillVeil();
      overlay();
    },
    go,
    box,
    /** Where a cell is drawn, in CSS pixels of the canvas. @param {number} r @param {number} c */
    place: (r, c) => ({ x: view.x + (c + 0.5) * w(), y: view.y + (r + 0.5) * view.s, s: view.s }),
    end() {
      ending.abort();
      resized.disconnect();
      offTheme();
      box.remove();
    },
  };
}

/** 1, 2, 4, 8 ...: the first that is at least `least`. @param {number} least */
function step(least) {
  let n = 1;
  while (n < least) n *= 2;
  return n;
}

function clamp(x, count) {
  return Math.max(0, Math.min(count - 1, x));
}
