// From the grid to the warps: which blocks there are, which part of each tensor a block touches and how often that is read again,
// which roles its warps have, and which part of each product a warp owns.
import { h, table, number, empty, lit, WARPS } from "./kit.js";
import { grid as cells, roomFor } from "./grid.js";
import { slicesOf, startOf, boxOf, reuse, writerOf } from "./blocks.js";
import { tiling } from "./mma.js";
import { chosen } from "./timeline.js";
import * as math from "./math.js";

const CHOSEN = [255, 209, 102], SAME = [142, 202, 230], REST = [222, 226, 231], BOTH = [163, 217, 165];

/** @param {any} report @returns {{name: string, first: number, count: number}[]} */
export function roles(report) {
  if (report.roles.length) return report.roles.map((r) => ({ name: r.name, first: r.first_thread >> 5, count: Math.max(1, Math.ceil(r.threads / 32)) }));
  return report.resources.threads ? [{ name: "all", first: 0, count: Math.max(1, Math.ceil(report.resources.threads / 32)) }] : [];
}

/** "rows 0–127, columns 32–63" of the last two dimensions, the others by index. @param {number[][]} box */
export function boxText(box) {
  return `[${box.map(([from, n]) => (n === 1 ? String(from) : `${from}:${from + n}`)).join(", ")}]`;
}

/** The warps tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const { report } = state, own = (state.warps ??= {});
  const r = report.resources, shape = r.grid.length && r.grid.every((n) => n > 0) ? r.grid : [1];
  const status = h("p", { class: "tb-status tb-roomy", "aria-live": "polite" }, `grid ${r.grid.join(" × ") || "?"} of blocks with ${r.threads} threads`);
  const say = (text) => { status.textContent = text; };
  el.append(status);
  const ends = [];
  const parts = slicesOf(report).filter((s) => report.params.some((p) => p.name === s.slice.buffer));
  if (parts.length && math.product(shape) <= 65536) ends.push(tensors(el, report, parts, shape, own, act, say));
  const noted = report.roles.some((x) => x.note);
  el.append(table(["role", "warps", "threads", "ops", ...(noted ? ["note"] : [])], roles(report).map((x, k) => [x.name, `${x.first}–${x.first + x.count - 1}`, `${x.first * 32}–${(x.first + x.count) * 32 - 1}`, opNames(report, report.roles[k]), ...(noted ? [report.roles[k]?.note ?? ""] : [])]), "roles of a block's warps"), ...[chosen(report)].filter(Boolean));
  const products = h("div", { class: "tb-products" });
  el.append(products);
  for (const op of report.ops.filter((o) => o.name === "gemm")) {
    const one = h("div", {});
    products.append(one);
    ends.push(productOf(one, report, op, act, say));
  }
  return () => ends.forEach((end) => end());
}

/** "copy ×2, gemm": the ops of a role. */
function opNames(report, role) {
  const counts = new Map();
  for (const id of role?.ops ?? []) { const name = report.ops.find((o) => o.id === id)?.name; if (name) counts.set(name, (counts.get(name) ?? 0) + 1); }
  return [...counts].map(([name, n]) => (n > 1 ? `${name} ×${n}` : name)).join(", ");
}

/** The grid of blocks, and each tensor with the part of the chosen block. */
function tensors(el, report, parts, shape, own, act, say) {
  const total = math.product(shape);
  own.block ??= shape.map(() => 0);
  own.block = own.block.map((x, a) => Math.min(x, shape[a] - 1));
  own.iteration ??= 0;
  const trips = Math.max(...parts.map((p) => p.slice.trips));
  own.iteration = Math.min(own.iteration, trips - 1);
  const param = (name) => report.params.find((p) => p.name === name);
  const item = (p) => p.bytes / Math.max(1, math.product(p.shape));
  const found = parts.map((s) => ({ ...s, shape: param(s.slice.buffer).shape, reuse: reuse(s, shape, param(s.slice.buffer).shape, item(param(s.slice.buffer))) }));
  const left = h("div", {}), right = h("div", { class: "tb-tensors" }), tools = h("div", { class: "tb-tools" });
  const legend = h("p", { class: "tb-legend" });
  const stage = h("div", { class: "tb-stage" });
  left.append(h("p", { class: "tb-head" }, h("b", {}, "grid of blocks")), stage, legend);
  el.append(tools, h("div", { class: "tb-two tb-blocks" }, left, right));
  const tile = { rows: shape[1] ?? 1, columns: shape[0], elementAt: (y, x) => y * shape[0] + x, cellOf: (e) => [Math.floor(e / shape[0]), e % shape[0]] };
  const cut = math.wrapped(tile, roomFor(stage.clientWidth || 260, true)[0], 300, 26);
  const blockAt = (r, c) => { const e = cut.elementAt(r, c); return e < 0 ? null : [e % shape[0], Math.floor(e / shape[0]), own.block[2] ?? 0].slice(0, shape.length); };
  const where = (block) => `block (${block.join(", ")})`;
  const output = found.find((s) => s.slice.mode === "write") ?? found[0];
  const selection = (block) => ({ buffer: output.slice.buffer, coord: boxOf(output, block, shape, output.shape).map(([from]) => from), ...(output.op.span ? { line: output.op.span.line } : {}) });
  const sentence = (block) => `${where(block)}: ${found.map((s) => `${s.slice.mode}s ${s.slice.buffer}${boxText(boxOf(s, block, shape, s.shape))}`).join(", ")}`;

  const g = cells(stage, `blocks of the grid ${shape.join(" by ")}`, {
    hover(cell) {
      const block = cell && blockAt(...cell);
      if (!block) { act.hover(null); return; }
      own.block = block;
      say(sentence(block));
      act.hover(selection(block));
      paint();
    },
    pin(cell, add) { const block = blockAt(...cell); if (block) act.pin(selection(block), add); },
    clear: () => act.clear(),
  });

  /** How a block's part of the tensors that are read compares with the chosen one's: bit k for the k-th. */
  function sharing(block) {
    const reads = found.filter((s) => s.slice.mode === "read").slice(0, 2);
    return reads.map((s) => boxOf(s, block, shape, s.shape).join() === boxOf(s, own.block, shape, s.shape).join());
  }

  function paint() {
    const colours = new Uint8ClampedArray(cut.rows * cut.columns * 4), kinds = new Set();
    for (let y = 0; y < cut.rows; y++) {
      for (let x = 0; x < cut.columns; x++) {
        const block = cut.isGap(y, x) ? null : blockAt(y, x);
        if (!block) continue;
        const [a, b] = sharing(block), chosen = block.join() === own.block.join();
        const kind = chosen ? CHOSEN : a ? SAME : b ? BOTH : REST;
        kinds.add(kind);
        colours.set([...kind, 255], 4 * (y * cut.columns + x));
      }
    }
    g.set({
      rows: cut.rows, columns: cut.columns, colours, gap: cut.isGap, text: (y, x) => { const b = blockAt(y, x); return b ? [b.slice(0, 2).join(",")] : []; },
      rowLabel: (y) => (cut.along ? String(cut.elementAt(y, 0)) : String(y)), columnLabel: (x) => (cut.along ? "" : String(x)),
      rowMarks: cut.along === "columns" ? Array.from({ length: cut.count }, (_, k) => k * ((cut.rows + 1) / cut.count)) : undefined,
    });
    const reads = found.filter((s) => s.slice.mode === "read");
    empty(legend);
    const key = (colour, text) => h("span", { class: "tb-swatch" }, h("i", { style: { background: `rgb(${colour.join(",")})` } }), text);
    const others = total > 1 ? reads : [], seen = kinds;
    legend.append(key(CHOSEN, "chosen: hover another"), ...(others[0] && seen.has(SAME) ? [key(SAME, `reads the same part of ${others[0].slice.buffer}`)] : []), ...(others[1] && seen.has(BOTH) ? [key(BOTH, `reads the same part of ${others[1].slice.buffer}`)] : []), ...(seen.has(REST) ? [key(REST, "reads other parts")] : []));
    empty(right);
    for (const s of found) right.append(tensor(s));
    right.append(h("p", { class: "tb-legend tb-below" }, h("span", { class: "tb-swatch" }, h("i", { class: "tb-key-part" }), "what the chosen block touches"), trips > 1 ? h("span", { class: "tb-swatch" }, h("i", { class: "tb-key-now" }), "in this iteration") : null));
  }

  /** One tensor seen along its last two dimensions, the block's part in it, and the part of this iteration. */
  function tensor(s) {
    const dims = s.shape.length >= 2 ? [s.shape.length - 2, s.shape.length - 1] : [-1, 0];
    const rows = dims[0] >= 0 ? s.shape[dims[0]] : 1, columns = s.shape[dims[1]];
    const box = boxOf(s, own.block, shape, s.shape), now = startOf(s, own.block, Math.min(own.iteration, s.slice.trips - 1), shape);
    const k = Math.min(190 / columns, 150 / rows), W = Math.max(24, columns * k), H = Math.max(14, rows * k);
    const span = (d, at, n) => (d < 0 ? [0, 1] : [at[d], n[d]]);
    const svg = h("svg", { class: "tb-svg tb-tensor", viewBox: `-1 -1 ${W + 2} ${H + 2}`, style: { width: `${W + 2}px` }, role: "img", "aria-label": `${s.slice.buffer}: ${s.slice.mode} ${boxText(box)} of ${s.shape.join(" by ")}` });
    svg.append(h("rect", { x: 0, y: 0, width: W, height: H, class: "tb-sheet" }));
    const draw_ = (y, x, hgt, wid, cls) => svg.append(h("rect", { x: x / columns * W, y: y / rows * H, width: Math.max(2, wid / columns * W), height: Math.max(2, hgt / rows * H), class: cls }));
    const [y0, hgt] = span(dims[0], box.map((b) => b[0]), box.map((b) => b[1])), [x0, wid] = span(dims[1], box.map((b) => b[0]), box.map((b) => b[1]));
    draw_(y0, x0, hgt, wid, "tb-part");
    if (s.slice.trips > 1) {
      const [y1, h1] = span(dims[0], now, s.slice.extents), [x1, w1] = span(dims[1], now, s.slice.extents);
      draw_(y1, x1, h1, w1, "tb-step");
    }
    const u = s.reuse;
    const again = u && s.slice.mode === "read" ? `each byte: read by ${number(u.times)} ${u.times === 1 ? "block" : "blocks"}` : s.slice.mode === "write" && u && u.times > 1 ? `each byte: written by ${number(u.times)} blocks` : "";
    return h("figure", { class: "tb-figure" }, h("figcaption", {}, h("b", {}, s.slice.buffer), ` ${s.shape.join("×")}, ${s.slice.mode}`), svg, h("p", { class: "tb-legend" }, boxText(box)), again ? h("p", { class: "tb-legend" }, `${again} (predicted)`) : null);
  }

  if (trips > 1) {
    const text = h("span", {}, `${own.iteration} of ${trips}`);
    const slider = h("input", { type: "range", min: 0, max: trips - 1, value: own.iteration, "aria-label": "iteration of the loop" });
    slider.addEventListener("input", () => { own.iteration = Number(slider.value); text.textContent = `${own.iteration} of ${trips}`; paint(); });
    tools.append(h("label", { class: "tb-choice" }, "iteration", slider, text));
  }
  if ((shape[2] ?? 1) > 1) {
    const text = h("span", {}, String(own.block[2]));
    const slider = h("input", { type: "range", min: 0, max: shape[2] - 1, value: own.block[2], "aria-label": "third axis of the grid" });
    slider.addEventListener("input", () => { own.block = [own.block[0], own.block[1], Number(slider.value)]; text.textContent = slider.value; say(sentence(own.block)); paint(); });
    tools.append(h("label", { class: "tb-choice" }, "z", slider, text));
  }
  const rows = found.filter((s) => s.slice.mode === "read" && s.reuse).map((s) => [s.slice.buffer, bytes(s.reuse.asked), bytes(s.reuse.distinct), number(s.reuse.times), `${s.reuse.boxes} ${s.reuse.boxes === 1 ? "part" : "parts"} for ${total} ${total === 1 ? "block" : "blocks"}`]);
  paint();
  if (rows.length) el.append(table(["tensor", "asked for by all blocks", "different bytes", "blocks that read a byte", "how"], rows, "reuse between blocks (predicted: counted from the program; what L2 keeps depends on which blocks run together)"));
  const off = act.watch((now) => {
    const last = now.pins[now.pins.length - 1];
    if (last && last !== own.seen) {
      own.seen = last;
      const block = last.buffer && last.coord ? writerOf(report, shape, last.buffer, last.coord) : null;
      if (block) { own.block = block; paint(); say(sentence(block)); g.light(null, [cut.cellOf(block[0] + (block[1] ?? 0) * shape[0])].filter(Boolean)); }
    }
  });
  return () => { off(); g.end(); };
}

/** @param {number} n */
function bytes(n) {
  return n >= 2 ** 20 ? `${number(n / 2 ** 20)} MiB` : n >= 1024 ? `${number(n / 1024)} KiB` : `${n} B`;
}

/** The rows and columns of a fragment that each warp holds, in words. @param {import("./math.js").LayoutInfo} info @param {number} warps */
export function partsOf(info, warps) {
  const held = math.holders(info), width = info.shape[info.shape.length - 1], height = info.shape[info.shape.length - 2] ?? 1;
  return Array.from({ length: warps }, (_, w) => {
    const rows = new Uint8Array(height), columns = new Uint8Array(width);
    for (let q = w * 32 * held.registers; q < Math.min((w + 1) * 32 * held.registers, held.element.length); q++) {
      const e = held.element[q];
      if (e >= 0) { rows[Math.floor(e / width) % height] = 1; columns[e % width] = 1; }
    }
    const numbers = (marks) => [...marks.keys()].filter((k) => marks[k]);
    return { rows: math.ranges(numbers(rows)), columns: math.ranges(numbers(columns)) };
  });
}

/** A product's tile over its warps: C with a cell for each warp, the rows of A beside it, the columns of B above. */
function productOf(el, report, op, act, say) {
  const [m, n] = op.warp_grid, t = op.operands?.length ? tiling(report, { ...op, atom: op.atom?.length ? op.atom : [16, 8, 16] }) : null;
  const tile = report.layouts.find((l) => l.kind === "fragment" && op.writes.includes(l.buffer));
  const [rows, columns] = tile ? tile.shape.slice(-2) : [m, n];
  const names = op.operands?.length ? op.operands : ["A", "B", op.writes[0] ?? "C"];
  const parts = tile ? partsOf(tile, m * n) : [];
  const perM = rows / m, perN = columns / n;
  const rowsOf = (w) => parts[w]?.rows ?? `${(w % m) * perM}–${(w % m + 1) * perM - 1}`, columnsOf = (w) => parts[w]?.columns ?? `${Math.floor(w / m) * perN}–${(Math.floor(w / m) + 1) * perN - 1}`;
  const many = t && op.atom?.length ? `; ${t.along[0]} × ${t.along[1]} instructions ${op.instruction}${t.warpgroup ? " of its warpgroup" : ""}, ${t.along[2]} along K` : "";
  const text = (w) => `warp ${w}: rows ${rowsOf(w)} of ${names[0]} and ${names[2]}, columns ${columnsOf(w)} of ${names[1]} and ${names[2]}${many}`;
  const sel = (w) => ({ op: op.id, thread: w * 32, line: op.span?.line, buffer: op.writes[0] });
  const bandA = h("div", { class: "tb-band-a", "aria-hidden": "true" }), bandB = h("div", { class: "tb-band-b", "aria-hidden": "true" });
  const strips = { a: Array.from({ length: m }, () => h("i", {})), b: Array.from({ length: n }, () => h("i", {})) };
  bandA.style.gridTemplateRows = `repeat(${m}, 1fr)`;
  bandB.style.gridTemplateColumns = `repeat(${n}, 1fr)`;
  bandA.append(...strips.a);
  bandB.append(...strips.b);
  const board = h("div", { class: "tb-warps", style: { "grid-template-columns": `repeat(${n}, 1fr)` } });
  const all = [];
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      const w = i + j * m;
      const point = () => { say(text(w)); act.hover(sel(w)); };
      const cell = h("button", {
        type: "button", class: "tb-warp", "aria-label": text(w), style: { background: `rgb(${WARPS[w % 8].join(",")})` },
        on: { pointerenter: point, pointerleave: () => act.hover(null), focus: point, click: (event) => act.pin(sel(w), event.shiftKey) },
      }, h("b", {}, `warp ${w}`), h("small", {}, `rows ${rowsOf(w)}`), h("small", {}, `columns ${columnsOf(w)}`));
      cell.dataset.warp = String(w);
      all.push(cell);
      board.append(cell);
    }
  }
  board.addEventListener("keydown", (event) => {
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (event.key === "Escape") act.clear();
    else if (step) {
      const k = all.indexOf(event.target), i = Math.max(0, Math.min(m - 1, Math.floor(k / n) + step[0])), j = Math.max(0, Math.min(n - 1, (k % n) + step[1]));
      all[i * n + j].focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  el.append(h("p", { class: "tb-legend" }, h("b", {}, op.text), ` ${m} × ${n} warps over a tile of ${rows} × ${columns}, ${op.instruction}`),
    h("div", { class: "tb-product" }, h("span", { class: "tb-corner" }, t ? h("span", {}, `K = ${t.K}`) : null, h("span", {}, `${names[0]} ↓`)), h("div", {}, h("p", { class: "tb-legend" }, `${names[1]} ↓`), bandB), h("div", {}, bandA), board));
  const light = () => {
    const warps = new Set(lit(act.now()).filter((s) => Number.isInteger(s.thread)).map((s) => s.thread >> 5));
    for (const c of all) c.classList.toggle("tb-lit", warps.has(Number(c.dataset.warp)));
    const own = [...warps].filter((w) => w < m * n);
    strips.a.forEach((s, i) => { const w = own.find((x) => x % m === i); s.style.background = w === undefined ? "" : `rgb(${WARPS[w % 8].join(",")})`; });
    strips.b.forEach((s, j) => { const w = own.find((x) => Math.floor(x / m) === j); s.style.background = w === undefined ? "" : `rgb(${WARPS[w % 8].join(",")})`; });
  };
  light();
  return act.watch(light);
}
