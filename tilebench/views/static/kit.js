// What the views share: building elements from data (always as text), the selection bus, colours, number formats.

/** @typedef {Record<string, any>} Selection fields of report.BUS_KEYS */
/**
 * @typedef {Object} Act how a view talks to the others of its kernel
 * @property {(sel: Selection|null) => void} hover
 * @property {(sel: Selection, add?: boolean) => void} pin
 * @property {() => void} clear
 * @property {(fn: (now: {hover: Selection|null, pins: Selection[]}) => void) => () => void} watch gives its own end
 * @property {() => {hover: Selection|null, pins: Selection[]}} now
 */

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "rect", "line", "path", "circle", "text", "title", "polyline"]);

/**
 * An element. Attributes are set by name, `on` holds listeners, strings become text nodes: data never becomes markup.
 * @param {string} tag @param {Record<string, any>} [attrs] @param {...(Node|string|number|null|undefined)} children
 * @returns {any}
 */
export function h(tag, attrs = {}, ...children) {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attrs)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, fn] of Object.entries(value)) node.addEventListener(event, fn);
    else if (name === "style") for (const [k, v] of Object.entries(value)) node.style.setProperty(k, String(v));
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child instanceof Node ? child : String(child));
  return node;
}

const SERIAL = Symbol.for("tilebench.serial");

/** An id for an element: different in every widget of the page, though each loads this module anew. */
export function uid() {
  globalThis[SERIAL] = (globalThis[SERIAL] ?? 0) + 1;
  return `tb-${globalThis[SERIAL]}`;
}

/** A swatch of a legend. @param {Colour|string} colour @param {string} text */
export function swatch(colour, text) {
  return h("span", { class: "tb-swatch" }, h("i", { style: { background: typeof colour === "string" ? colour : `rgb(${colour.join(",")})` } }), text);
}

/** A button that pins a cell line. @param {number} line @param {Act} act @param {Selection} [more] */
export function lineButton(line, act, more = {}) {
  return button(`line ${line}`, () => act.pin({ ...more, line }), "pin this line");
}

const COUNT = /^[-−+±]?\d[\d.]*(e[+-]?\d+)?( ?(%|[kMGTPµmun]?[sB]|[KMG]iB|[kMGTP]))?$/;

/**
 * A table; columns of numbers stand under each other by their last digit, a `null` cell is spanned by the one before it.
 * @param {string[]} head none: no row of titles @param {(string|number|Node|null)[][]} rows @param {string} [caption]
 */
export function table(head, rows, caption) {
  const words = (cell) => (cell instanceof Node ? cell.textContent ?? "" : String(cell));
  const numeric = (k) => {
    const texts = rows.filter((row) => row[k] !== null && row[k + 1] !== null).map((row) => words(row[k] ?? ""));
    return texts.some((t) => COUNT.test(t)) && texts.every((t) => t === "" || t === "–" || COUNT.test(t));
  };
  const kinds = (rows[0] ?? head).map((_, k) => (numeric(k) ? "tb-num" : null));
  const cells = (row) => row.map((cell, k) => {
    if (cell === null) return null;
    let span = 1;
    while (row[k + span] === null) span++;
    return h("td", { class: span > 1 ? null : kinds[k], colspan: span > 1 ? span : null }, cell);
  });
  return h("table", { class: head.length ? "tb-table" : "tb-table tb-pairs" },
    caption ? h("caption", {}, caption) : null,
    head.length ? h("thead", {}, h("tr", {}, ...head.map((t, k) => h("th", { scope: "col", class: kinds[k] }, t)))) : null,
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...cells(row)))));
}

/** A labelled <select>. @param {string} label @param {string[][]} options value and text @param {string} value @param {(v: string) => void} change */
export function choice(label, options, value, change) {
  const select = h("select", { "aria-label": label || null, on: { change: () => change(select.value) } },
    ...options.map(([v, text]) => h("option", { value: v, selected: v === value }, text)));
  return h("label", { class: "tb-choice" }, label, select);
}

/** @param {string} text @param {() => void} click @param {string} [title] */
export function button(text, click, title) {
  return h("button", { type: "button", class: "tb-button", title, on: { click } }, text);
}

/** Removes all children. @param {Element} el */
export function empty(el) {
  while (el.firstChild) el.removeChild(el.firstChild);
}

// ---------------------------------------------------------------- numbers

/** @param {number|string} value */
export function number(value) {
  const x = Number(value);
  if (!Number.isFinite(x)) return String(value);
  if (Math.abs(x) < 1e6 && (Math.abs(x) >= 100 || Number.isInteger(x))) return String(Math.round(x));
  if (Math.abs(x) >= 1e6) return String(Number(x.toPrecision(3)).toExponential());
  return String(Number(x.toPrecision(3)));
}

const SCALES = { FLOP: [[1e12, "TFLOP"], [1e9, "GFLOP"], [1e6, "MFLOP"]], B: [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]] };

/** A figure with its unit and where it comes from. @param {{value: number, unit: string, provenance: string, device: string, low?: number, high?: number, rounds?: number, note?: string}} f */
export function figureText(f) {
  let value = f.value, unit = f.unit;
  for (const [scale, name] of SCALES[unit] || []) if (Math.abs(value) >= scale) { value /= scale; unit = name; break; }
  const shown = unit === "of warps" ? `${Math.round(100 * value)}%` : number(value);
  const spread = f.rounds ? `; median of ${f.rounds} rounds, half of them within ${number(f.low)} to ${number(f.high)} ${f.unit}` : "";
  return `${shown} ${unit} (${provenance(f)}${spread}${f.note ? `; ${f.note}` : ""})`;
}

/** "measured on NVIDIA H200" @param {{provenance: string, device: string}} f */
export function provenance(f) {
  if (!f.device) return f.provenance;
  return `${f.provenance}${f.provenance === "measured" ? " on " : ": "}${f.device}`;
}

// ---------------------------------------------------------------- colours

/** @typedef {number[]} Colour red, green, blue */
/** @param {string} hex @returns {Colour} */
export function rgb(hex) {
  return [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
}

/** Thread % 8, as CuTe's pictures have it; black text reads on each. */
export const LANES = ["#afafff", "#afffaf", "#ffffaf", "#ffafaf", "#d2d2ff", "#d2ffd2", "#ffffd2", "#ffd2d2"].map(rgb);
export const WARPS = ["#8ecae6", "#ffd166", "#a3d9a5", "#f4a6a6", "#cdb4db", "#ffb87a", "#b7d7c9", "#d9c2a7"].map(rgb);

/** 16-byte pieces of a row: no red, which would look like a conflict. */
export const PIECES = ["#8ecae6", "#ffd166", "#a3d9a5", "#cdb4db", "#ffb87a", "#86d9cf", "#d9c2a7", "#b8c0ff"].map(rgb);

/** Light colours around the circle. @param {number} count @returns {Colour[]} */
export function hues(count) {
  return Array.from({ length: count }, (_, k) => hsl(k / count, 0.85, 0.78));
}

/** A light ramp from blue over green to yellow. @param {number} count @returns {Colour[]} */
export function ramp(count) {
  const stops = [[143, 170, 255], [140, 225, 225], [170, 235, 150], [255, 245, 140]];
  return Array.from({ length: count }, (_, k) => {
    const at = count > 1 ? (k / (count - 1)) * (stops.length - 1) : 0;
    const low = Math.min(Math.floor(at), stops.length - 2), part = at - low;
    return stops[low].map((a, c) => Math.round(a * (1 - part) + stops[low + 1][c] * part));
  });
}

function hsl(hue, saturation, light) {
  const a = saturation * Math.min(light, 1 - light);
  const at = (n) => { const k = (n + hue * 12) % 12; return Math.round(255 * (light - a * Math.max(-1, Math.min(k - 3, 9 - k, 1)))); };
  return [at(0), at(8), at(4)];
}

/** Error over bound: white to blue up to the bound, yellow to red beyond it. @param {number} ratio @returns {Colour} */
export function heatColour(ratio) {
  const x = Number.isFinite(ratio) ? ratio : 1e30;
  const mix = (a, b, t) => a.map((v, c) => Math.round(v * (1 - t) + b[c] * t));
  if (x <= 1) return mix([247, 250, 255], [107, 158, 230], Math.max(0, x));
  return mix([255, 196, 61], [190, 20, 30], Math.min(1, Math.log10(x) / 6));
}

/** Black or white, whichever reads on the colour. @param {Colour} colour */
export function inkOn([r, g, b]) {
  const linear = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) > 0.18 ? "#000000" : "#ffffff";
}

// ---------------------------------------------------------------- the selection bus

const KEYS = ["kernel", "op", "line", "buffer", "coord", "thread", "reg", "byte", "bank", "instr", "step"];
const REGISTRY = Symbol.for("tilebench.selection");

/** Only known fields of known types pass. @param {any} sel @returns {Selection} */
export function cleaned(sel) {
  /** @type {Selection} */
  const out = {};
  if (sel === null || typeof sel !== "object") return out;
  for (const key of KEYS) {
    const v = sel[key];
    const plain = typeof v === "string" ? v.length < 1000 : Number.isFinite(v);
    const list = key === "coord" && Array.isArray(v) && v.length <= 8 && v.every(Number.isInteger);
    if (key === "coord" ? list : plain) out[key] = v;
  }
  return out;
}

/**
 * The bus of a kernel: all views of one report id in a page share it, in whatever output they are. Forgotten when nobody watches.
 * @param {string} id @returns {Act}
 */
export function busOf(id) {
  const all = globalThis[REGISTRY] ?? (globalThis[REGISTRY] = new Map());
  const make = () => ({ hover: null, pins: [], watchers: new Set() });
  let own = all.get(id) ?? make();
  const tell = () => { for (const fn of [...own.watchers]) fn(own); };
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  return {
    now: () => own,
    hover(sel) {
      const next = sel === null ? null : cleaned(sel);
      if (same(next, own.hover)) return;
      own.hover = next;
      tell();
    },
    pin(sel, add = false) {
      const next = cleaned(sel);
      const there = own.pins.findIndex((p) => same(p, next));
      if (there >= 0) own.pins = add ? own.pins.filter((_, k) => k !== there) : [];
      else own.pins = add ? [...own.pins, next].slice(-16) : [next];
      tell();
    },
    clear() { own.pins = []; own.hover = null; tell(); },
    watch(fn) {
      const known = all.get(id);
      if (known) own = known; else all.set(id, own);
      own.watchers.add(fn);
      return () => {
        own.watchers.delete(fn);
        if (own.watchers.size === 0 && all.get(id) === own) all.delete(id);
      };
    },
  };
}

/** Everything that is lit now: the hovered selection first, then the pins. @param {{hover: Selection|null, pins: Selection[]}} now */
export function lit(now) {
  return now.hover ? [now.hover, ...now.pins] : now.pins;
}

/**
 * Names of the buffers that a cell line speaks of: allocated there, written there, then read there.
 * @param {any} report @param {number} line @returns {string[]}
 */
export function buffersAt(report, line) {
  const ops = report.ops.filter((o) => o.span && o.span.line <= line && line <= Math.max(o.span.line, o.span.end_line));
  return [...new Set([
    ...report.buffers.filter((b) => b.span?.line === line).map((b) => b.name),
    ...ops.flatMap((o) => o.writes), `loop@${line}`, ...ops.flatMap((o) => o.reads),
  ])];
}

// ---------------------------------------------------------------- theme

/** Calls back when the page's theme changes. @param {() => void} fn @returns {() => void} its end */
export function onTheme(fn) {
  const observer = new MutationObserver(fn);
  for (const node of [document.body, document.documentElement]) {
    observer.observe(node, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class", "data-theme", "style"] });
  }
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", fn);
  return () => { observer.disconnect(); media.removeEventListener("change", fn); };
}
