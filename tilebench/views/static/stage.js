// The buffers of a trace as tiles: those with the same rows side by side, row vectors as strips between them, the rest below.
import { h, number, empty } from "./kit.js";
import { product, unflatten, holders, byteOffsets } from "./math.js";
import { tile, coloured, differences, rangeOf, scaleOf, gradient } from "./tile.js";

const STRIP = 20, GAP = 12, TALLEST = 320, LARGEST = 9, SMALL = 132;

/**
 * How a buffer is drawn: rows x columns of cells; element[cell] is its element (-1 none); coord(cell) its indices as the user counts them.
 * @param {any} report @param {any} b a TraceBuffer
 */
export function faceOf(report, b) {
  const info = b.holds ? report.layouts.find((l) => l.buffer === b.holds) : null;
  const plain = (shape, element, offset = []) => {
    const columns = shape.length ? shape[shape.length - 1] : 1, rows = product(shape.slice(0, -1));
    const flip = shape.length === 1;
    const cell = new Int32Array(product(shape)).fill(-1);
    if (element) element.forEach((e, k) => { if (e >= 0 && cell[e] < 0) cell[e] = k; });
    return {
      rows: flip ? columns : rows, columns: flip ? 1 : columns, shape, element,
      coord: (k) => unflatten(shape, k).map((x, d) => x + (offset[d] ?? 0)),
    };
  };
  if (b.scope === "register" && info && info.kind === "fragment" && info.registers <= b.shape[0]) {
    const held = holders(info), element = new Int32Array(product(info.shape));
    for (let e = 0; e < element.length; e++) element[e] = held.thread[e] < 0 ? -1 : held.register[e] * b.shape[1] + held.thread[e] - b.first_thread;
    return plain(info.shape, element);
  }
  if (b.scope === "shared" && info && info.kind === "shared") {
    const bytes = byteOffsets(info), size = b.shape[0] / b.versions, columns = info.shape[info.shape.length - 1], rows = product(info.shape.slice(0, -1));
    const element = new Int32Array(rows * columns * b.versions);
    for (let v = 0; v < b.versions; v++) for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) element[r * columns * b.versions + v * columns + c] = v * size + bytes[r * columns + c] * 8 / info.itemsize_bits;
    const face = plain([rows, columns * b.versions], element);
    return { ...face, coord: (k) => unflatten(info.shape, Math.floor(k / (columns * b.versions)) * columns + (k % columns)), copies: b.versions };
  }
  return plain(b.shape, null, b.scope === "global" ? b.origin : []);
}

/** Values of a buffer as its face has them. @param {any} face @param {{values: Float64Array, written: Uint8Array}} state */
export function faced(face, state) {
  if (!face.element) return state;
  const n = face.element.length, values = new Float64Array(n), written = new Uint8Array(n);
  for (let k = 0; k < n; k++) { const e = face.element[k]; if (e >= 0) { values[k] = state.values[e]; written[k] = state.written[e]; } }
  return { values, written };
}

/**
 * Which buffers stand where: `main` share their rows, `rest` stand below, `scalars` are numbers.
 * @param {any} m the opened trace @param {any[]} faces
 */
export function arrange(m, faces) {
  const shown = m.buffers.map((_, b) => b).filter((b) => m.versions[b].length && m.sizes[b] > 0 && m.sizes[b] <= 1 << 18);
  const scalars = shown.filter((b) => m.buffers[b].shape.length === 0), tiles = shown.filter((b) => m.buffers[b].shape.length > 0);
  const isRow = (b) => faces[b].columns === 1, own = (b) => ["fragment", "register", "local", "var"].includes(m.buffers[b].scope);
  const votes = new Map();
  for (const b of tiles) if (own(b) && faces[b].rows > 1) votes.set(faces[b].rows, (votes.get(faces[b].rows) ?? 0) + 1);
  const rows = [...votes].sort((a, b) => b[1] - a[1] || b[0] - a[0])[0]?.[0] ?? 0;
  const inLoop = (b) => [...m.versions[b]].reverse().find((v) => m.iteration(v.step) !== null)?.step ?? m.versions[b][m.versions[b].length - 1].step;
  const first = (b) => m.versions[b].find((v) => m.iteration(v.step) !== null)?.step ?? m.versions[b][0].step;
  const wide = tiles.filter((b) => own(b) && faces[b].rows === rows && !isRow(b)).sort((a, b) => inLoop(a) - inLoop(b));
  const strips = tiles.filter((b) => faces[b].rows === rows && isRow(b)).sort((a, b) => first(a) - first(b));
  const main = [...wide.slice(0, 1), ...strips, ...wide.slice(1)];
  return { rows, main, rest: tiles.filter((b) => !main.includes(b)), scalars };
}

/**
 * The tiles. events: hover(buffer, cell number or null), pin(buffer, cell number, add).
 * @param {any} m @param {any} report @param {any} own @param {any} events
 */
export function stage(m, report, own, events) {
  const faces = m.buffers.map((b) => faceOf(report, b));
  const plan = arrange(m, faces);
  const top = h("div", { class: "tb-main" }), below = h("div", { class: "tb-rest" });
  const el = h("div", { class: "tb-stage tb-tiles" }, top, below);
  /** @type {Map<number, any>} */
  let pieces = new Map();
  const changes = new Map();
  let width = 0, shownAt = -1;
  const whole = m.buffers.map((_, b) => b).map((b) => rangeOverall(m, b));

  function piece(b, sx, sy) {
    const face = faces[b], info = m.buffers[b], strip = face.columns === 1 && face.rows > 1;
    const name = strip ? info.name : `${info.name}`;
    const cells = tile(`${info.name}, ${face.rows} rows, ${face.columns} columns: arrow keys move, Enter pins`, face.rows, face.columns, sx, sy, {
      hover: (cell) => events.hover(b, cell ? cell[0] * face.columns + cell[1] : null),
      pin: (cell, add) => events.pin(b, cell[0] * face.columns + cell[1], add),
    });
    const mark = h("span", { class: "tb-did" }), range = h("span", { class: "tb-range" }), bar = h("i", { class: "tb-bar-scale" });
    const title = h("button", { type: "button", class: "tb-piece-name", title: `${info.name}: ${info.dtype} ${info.scope}, declared at line ${info.line || "?"}; a click goes to its next write`, on: { click: () => events.next(b) } }, name);
    const node = h("figure", { class: strip ? "tb-piece tb-strip" : "tb-piece", "data-buffer": b },
      h("figcaption", {}, title, strip ? null : h("small", {}, ` ${(face.copies ? [face.rows, face.columns / face.copies] : face.shape).join("×")} ${short(info.dtype)}${info.scope === "shared" ? " shared" : info.scope === "global" ? " global" : ""}${face.copies > 1 ? ` ×${face.copies}` : ""}`)),
      cells.el, strip ? h("div", { class: "tb-foot-strip" }, mark) : h("div", { class: "tb-piece-foot" }, bar, range, mark));
    return { node, cells, mark, range, bar, strip };
  }

  /** Cell sizes for the room there is. */
  function build() {
    width = el.clientWidth || 920;
    for (const box of [top, below]) empty(box);
    pieces = new Map();
    const wide = plan.main.filter((b) => faces[b].columns > 1), strips = plan.main.length - wide.length;
    const columns = wide.reduce((n, b) => n + faces[b].columns, 0);
    const room = width - strips * (STRIP + GAP) - wide.length * GAP - 8;
    const most = Math.max(1.25, Math.min(LARGEST, room / Math.max(1, columns), TALLEST / Math.max(1, plan.rows))), s = most >= 2 ? Math.floor(most) : most;
    const sy = Math.max(plan.rows > TALLEST ? 0.5 : s, Math.min(22, 72 / Math.max(1, plan.rows)));
    for (const b of plan.main) add(top, b, faces[b].columns === 1 ? STRIP : s, sy);
    for (const b of plan.rest) {
      const f = faces[b], flat = f.columns === 1;
      const side = Math.max(0.4, Math.min(flat ? 3 : LARGEST, (flat ? 220 : Math.min(SMALL * (f.copies ?? 1), width - 20)) / f.columns, SMALL / f.rows));
      add(below, b, flat ? STRIP : Math.max(side, Math.min(18, 40 / f.columns)), flat ? Math.min(9, SMALL / f.rows) : Math.max(side, Math.min(18, 36 / f.rows)));
    }
    shownAt = -1;
  }

  function add(box, b, sx, sy) {
    const p = piece(b, sx, sy);
    pieces.set(b, p);
    box.append(p.node);
  }

  /** What changed in a step, as cells: null when nothing did. The last answers are kept. */
  function changedIn(b, k) {
    const s = m.steps[k];
    if (!s.writes.some((w) => w.buffer === b)) return null;
    const id = `${b}:${k}`;
    if (!changes.has(id)) {
      if (changes.size >= 32) changes.clear();
      changes.set(id, compared(b, k));
    }
    return changes.get(id);
  }

  function compared(b, k) {
    const now = m.at(b, k), before = m.at(b, k - 1), wrote = m.mask(k, b), out = new Uint8Array(m.sizes[b]);
    let count = 0;
    for (let e = 0; e < out.length; e++) if (wrote[e] && (!before.written[e] || !Object.is(now.values[e], before.values[e]) && !(now.values[e] === before.values[e]))) { out[e] = 1; count++; }
    const face = faces[b];
    const cells = face.element ? Uint8Array.from(face.element, (e) => (e >= 0 ? out[e] : 0)) : out;
    return { cells, count, of: wrote.reduce((a, x) => a + x, 0) };
  }

  function repaint(b, k) {
    const p = pieces.get(b), face = faces[b], state = faced(face, m.at(b, k));
    const check = own.mode === "error" ? m.checkAt(b, k) : null;
    if (own.mode === "error") {
      if (check && check.error) {
        const error = face.element ? Float64Array.from(face.element, (e) => (e >= 0 ? check.error[e] : 0)) : check.error;
        p.cells.paint(differences(error, check.c.wrong === 0 ? Infinity : check.c.ratio > 0 ? check.c.error / check.c.ratio : 0));
        p.range.textContent = `largest ${check.c.error ? check.c.error.toExponential(1) : 0}${check.c.wrong ? `, ${check.c.wrong} wrong` : ""}`;
      } else {
        p.cells.paint(coloured(face.rows, face.columns, { values: state.values, written: new Uint8Array(state.values.length) }, scaleOf(null)));
        p.range.textContent = "not compared";
      }
      p.bar.style.background = "none";
      return;
    }
    const fixed = own.scale === "whole" || (own.scale === "auto" && p.strip);
    const range = (fixed ? whole[b] : null) ?? rangeOf(state), scale = scaleOf(range);
    p.cells.paint(coloured(face.rows, face.columns, state, scale));
    p.bar.style.background = gradient(scale);
    const now = rangeOf(state);
    p.range.textContent = now ? `${number(now.low)} … ${number(now.high)}` : "";
  }

  return {
    el, faces, plan, changedIn,
    /** Shows the buffers after step `k`. @param {number} k */
    show(k) {
      if (!pieces.size) build();
      const s = m.steps[k], writes = new Set(s.writes.map((w) => w.buffer)), reads = new Set(s.reads.map((r) => r.buffer));
      const near = shownAt >= 0 && Math.abs(k - shownAt) === 1 && own.drawn === own.mode + own.scale;
      const stale = near ? new Set([...writes, ...m.steps[shownAt].writes.map((w) => w.buffer)]) : null;
      for (const [b, p] of pieces) {
        if (!stale || stale.has(b)) repaint(b, k);
        const word = writes.has(b) ? (reads.has(b) ? "updated" : "written") : reads.has(b) ? "read" : "";
        p.mark.textContent = p.strip ? { updated: "●", written: "●", read: "○", "": " " }[word] : word ? `${word === "read" ? "○" : "●"} ${word}` : " ";
        p.mark.title = word;
        p.node.classList.toggle("tb-writes", writes.has(b));
        p.node.classList.toggle("tb-reads", !writes.has(b) && reads.has(b));
      }
      own.drawn = own.mode + own.scale;
      shownAt = k;
    },
    /** Outlines. look: {buffer, cell} that is hovered; pins: [buffer, cells][]. */
    mark(k, look, pins) {
      const face = look ? faces[look.buffer] : null;
      const row = face && face.rows === plan.rows && plan.main.includes(look.buffer) ? Math.floor(look.cell / face.columns) : null;
      for (const [b, p] of pieces) {
        const f = faces[b], here = look && look.buffer === b ? [Math.floor(look.cell / f.columns), look.cell % f.columns] : null;
        const mine = pins.filter((q) => q.buffer === b).flatMap((q) => q.cells).slice(0, 256).map((c) => [Math.floor(c / f.columns), c % f.columns]);
        const changed = own.outline === false ? null : changedIn(b, k);
        const state = JSON.stringify([changed ? k : -1, row !== null && plan.main.includes(b) ? row : null, here, mine]);
        if (p.marked === state) continue; // nothing else is outlined than before
        p.marked = state;
        p.cells.mark({ changed: changed ? changed.cells : null, row: row !== null && plan.main.includes(b) ? row : null, column: null, cell: here, pins: mine });
      }
    },
    /** True when the room has changed, and everything was built again. */
    refit() {
      if (!el.clientWidth || Math.abs(el.clientWidth - width) < 24) return false;
      build();
      return true;
    },
  };
}

/** The range of a buffer over the whole trace, from what each write says. */
function rangeOverall(m, b) {
  let low = Infinity, high = -Infinity;
  for (const { w } of m.versions[b]) {
    if (w.low === 0 && w.high === 0 && w.inf + w.nan > 0) continue;
    if (w.low < low) low = w.low;
    if (w.high > high) high = w.high;
  }
  return low <= high ? { low, high } : null;
}

/** "f16" for float16. @param {string} dtype */
export function short(dtype) {
  return dtype.replace("bfloat", "bf").replace("float", "f").replace(/^uint/, "u").replace(/^int/, "i");
}
