// The result against its references: heat map of error over bound, worst elements, histograms, and the rule that decided.
import { h, choice, table, number, button, empty, heatColour } from "./kit.js";
import { grid } from "./grid.js";
import { unpack, unflatten } from "./math.js";
import { whence } from "./whence.js";

// What stands for an error that is no number, and for its share of the bound: report.LARGEST_ERROR and LARGEST_RATIO. Saved maps end at 6e4.
const LARGEST_ERROR = 1e300, LARGEST_RATIO = 1e30, LARGEST_SAVED = 6e4;

/** A value of an element: NaN and infinities by their names. @param {any} x */
const said = (x) => (Number.isNaN(Number(x)) ? "NaN" : number(x).replace("-", "−"));
/** "–" where there is no such number. @param {number} x @param {number} end */
const below = (x, end) => (x < end ? number(x) : "–");

/** The verdict of a comparison in words. @param {any} d */
export function sentence(d) {
  const odd = (d.unwritten ?? 0) + (d.special ?? 0);
  let text = `${d.output} against ${d.against}: ${d.verdict} (${d.how}); ${d.wrong} of ${d.checked} checked elements wrong`;
  if (d.unwritten) text += `, ${d.unwritten} of them never written`;
  if (d.special) text += `, ${d.special} of them NaN or infinite on one side`;
  if (!d.wrong || d.wrong > odd) text += `${d.max_ratio < LARGEST_RATIO ? `, worst ${number(d.max_ratio)} times its bound` : ""}, largest |error| ${number(d.max_abs)}`;
  if (d.ambiguous) text += `; ${d.ambiguous} ambiguous left out`;
  if (d.checked < d.total) text += `; ${d.total} elements in all`;
  return text;
}

/** The difference tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const { diffs } = state.report, own = (state.diff ??= {});
  const worstFirst = diffs.findIndex((d) => d.verdict === "fail");
  own.which ??= Math.max(0, worstFirst);
  const body = h("div", {});
  let end = () => {};
  const show = (k) => { own.which = k; end(); empty(body); end = one(body, diffs[k], act, state.report.params.find((b) => b.name === diffs[k].output)?.shape ?? [], state); };
  if (diffs.length > 1) el.append(h("div", { class: "tb-tools" }, choice("comparison", diffs.map((d, k) => [String(k), `${d.output} against ${d.against}: ${d.verdict}`]), String(own.which), (v) => show(Number(v)))));
  el.append(body);
  show(own.which);
  return () => end();
}

function one(el, d, act, shape, state) {
  const { report } = state;
  const status = h("p", { class: "tb-status", "aria-live": "polite" }, "hover the map, or focus it and use the arrow keys");
  const line = h("p", { class: "tb-verdict" }, h("strong", { "data-verdict": d.verdict }, d.verdict.toUpperCase()), ` ${sentence(d).replace(`: ${d.verdict} (`, " (")}`);
  el.append(line);
  if (d.pattern) el.append(h("p", { class: "tb-why" }, `pattern: ${d.pattern}`));
  const writer = h("p", { class: "tb-why tb-writer", role: "status" });

  /** Whether nothing wrote an element. @param {number[]} coord @param {any} [known] of the list of worst elements */
  function nobodys(coord, known) {
    const w = known ?? d.worst.find((x) => JSON.stringify(x.coord) === JSON.stringify(coord));
    return w ? w.written === false : unwrittenAt(coord);
  }
  let unwrittenAt = (coord) => { void coord; return false; };

  /** Everything that is known of an element's writer, as a selection. @param {number[]} coord @param {any} [known] of the list of worst elements */
  function selected(coord, known) {
    if (nobodys(coord, known)) return { sel: /** @type {Record<string, any>} */ ({ buffer: d.output, coord }), w: /** @type {Record<string, any>} */ ({}) };
    const w = whence(report, d.output, coord);
    /** @type {Record<string, any>} */
    const sel = { buffer: d.output, coord };
    const line_ = known?.line || w.line, thread = known?.thread >= 0 ? known.thread : w.thread;
    if (line_) sel.line = line_;
    if (thread !== undefined) sel.thread = thread;
    if (w.reg !== undefined && thread === w.thread) sel.reg = w.reg;
    if (w.instr) sel.instr = w.instr;
    return { sel, w };
  }

  const isPinned = (coord) => act.now().pins.some((p) => p.buffer === d.output && JSON.stringify(p.coord) === JSON.stringify(coord));

  /** Pins an element (or no longer), and says who wrote it. */
  function choose(coord, known, add = false) {
    act.pin(selected(coord, known).sel, add);
    if (isPinned(coord)) describe(coord, known); else empty(writer);
  }

  /** Who wrote an element, with a way to the step that did. */
  function describe(coord, known) {
    const { sel, w } = selected(coord, known);
    empty(writer);
    if (nobodys(coord, known)) { writer.append(`${d.output}[${coord.join(", ")}] is never written: no block and no thread stores it`); return; }
    const block = w.block ?? (known?.block?.length ? known.block : null);
    const parts = [block ? `block (${block.join(", ")})` : "", sel.thread !== undefined ? `thread ${sel.thread} (warp ${sel.thread >> 5}, lane ${sel.thread & 31})${sel.reg !== undefined ? `, register ${sel.reg}${w.from ? ` of ${w.from}` : ""}` : ""}` : "", sel.line ? `line ${sel.line}` : "", sel.instr ? `instruction ${sel.instr}` : ""].filter(Boolean);
    writer.append(`${d.output}[${coord.join(", ")}] is written by ${parts.join("; ") || "nobody that is known"} `);
    const recorded = (report.traces ?? []).filter((t) => t.buffers.some((b) => b.name === d.output && b.shape.length));
    const has = recorded.some((t) => !block || t.block.every((x, i) => x === block[i]));
    if (has) writer.append(button("show the step", () => state.show?.("step"), "time travel to the step that computed this element"));
    else if (recorded.length && block) writer.append(`(block (${recorded[0].block.join(", ")}) was recorded: record block=(${block.join(", ")}) to see its steps)`);
  }
  let end = () => {};
  /** @type {HTMLElement} */ let aside = el;
  if (d.heat) {
    const [rows, columns] = d.heat.shape, heat = unpack(d.heat), [sr, sc] = d.heat_step.length ? d.heat_step : [1, 1];
    const colours = new Uint8ClampedArray(rows * columns * 4);
    for (let k = 0; k < heat.length; k++) colours.set([...heatColour(heat[k]), 255], 4 * k);
    const stage = h("div", { class: "tb-stage" });
    const span = (name, k, step) => (step === 1 ? `${name} ${k}` : `${name}s ${k * step}–${(k + 1) * step - 1}`);
    const where = (r, c) => `${span("row", r, sr)}, ${span("column", c, sc)}`;
    const width = shape[shape.length - 1] ?? 0; // rows of the map are all dimensions but the last, in order
    const within = d.heat_at ? unpack(d.heat_at) : null; // the worst element of each box of the map
    const place = (r, c) => {
      const k = within ? within[r * columns + c] : 0, row = r * sr + Math.floor(k / sc), column = c * sc + (k % sc);
      if (shape.length === 1) return [column];
      return shape.length > 2 && width > 0 ? unflatten(shape, row * width + column) : [row, column];
    };
    const sel = (r, c) => ({ buffer: d.output, coord: place(r, c) });
    const side = h("div", { class: "tb-side" });
    el.append(status, writer, h("div", { class: "tb-two tb-even" }, stage, side));
    aside = side;
    side.append(h("p", { class: "tb-legend" },
      ...[[0, "0"], [0.5, "half the bound"], [1, "the bound"], [1.01, "beyond"], [1e3, "×1000"], [1e6, "×10⁶"]].map(([v, t]) => h("span", { class: "tb-swatch" }, h("i", { style: { background: `rgb(${heatColour(Number(v)).join(",")})` } }), t))));
    const blank = d.heat_unwritten ? unpack(d.heat_unwritten) : null, top = (v) => v >= LARGEST_RATIO || v === LARGEST_SAVED;
    const inCell = (r, c) => {
      const v = heat[r * columns + c];
      if (blank?.[r * columns + c]) return sr * sc > 1 ? "elements that are never written" : "never written";
      return top(v) ? "no number can be given for the error over its bound" : `worst |error| is ${number(v)} times its bound`;
    };
    const g = grid(stage, `error over bound of ${d.output}`, {
      hover(cell) {
        if (!cell) { act.hover(null); return; }
        const v = heat[cell[0] * columns + cell[1]];
        status.textContent = `${where(...cell)}: ${inCell(...cell)}${v > 1 ? ", wrong" : ""}`;
        act.hover(sel(...cell));
      },
      pin: (cell, add) => choose(place(...cell), undefined, add),
      clear: () => act.clear(),
    });
    g.set({ rows, columns, colours, text: (r, c) => [blank?.[r * columns + c] ? "none" : top(heat[r * columns + c]) ? "–" : number(heat[r * columns + c])], rowLabel: (r) => String(r * sr), columnLabel: (c) => String(c * sc) });
    stage.append(h("p", { class: "tb-legend" }, `${d.output}${shape.length ? ` ${shape.join("×")}` : ""}, row and column of each element${sr * sc > 1 ? `; a cell is the worst of ${sr}×${sc} elements` : ""}`));
    /** The cell of an element. @param {number[]} coord */
    const cellOf = (coord) => {
      const column = coord[coord.length - 1], row = coord.slice(0, -1).reduce((n, x, k) => n * shape[k] + x, 0);
      return [Math.floor(row / sr), Math.floor(column / sc)];
    };
    unwrittenAt = (coord) => { const [r, c] = cellOf(coord); return Boolean(blank?.[r * columns + c]); };
    const ring = (now) => g.light(null, now.pins.filter((p) => p.buffer === d.output && p.coord?.length === shape.length).map((p) => cellOf(p.coord)).filter(([r, c]) => r < rows && c < columns));
    const off = act.watch(ring);
    ring(act.now());
    end = () => { off(); g.end(); };
  }
  if (d.worst.length) {
    const rows = d.worst.map((w) => [
      button(`[${w.coord.join(", ")}]`, () => choose(w.coord, w), "pin this element"),
      w.written === false ? "never written" : said(w.value), said(w.reference), below(w.error, LARGEST_ERROR), below(w.ratio, LARGEST_RATIO), selected(w.coord, w).sel.thread ?? "–", selected(w.coord, w).sel.line ?? "–",
    ]);
    if (!d.heat) el.append(writer);
    aside.append(table(["element", "got", "reference", "error", "error / bound", "thread", "line"], rows, "worst elements"));
  }
  const last = act.now().pins[act.now().pins.length - 1];
  if (last && last.buffer === d.output && last.coord) describe(last.coord, d.worst.find((w) => JSON.stringify(w.coord) === JSON.stringify(last.coord)));
  for (const [name, [edges, counts]] of Object.entries(d.histograms)) aside.append(histogram(name, edges, counts));
  return end;
}

/** Counts on a logarithmic height, since one bin has nearly all. */
function histogram(name, edges, counts) {
  const W = 420, H = 116, LEFT = 44, FOOT = 8, most = Math.max(...counts, 1), top = Math.log10(most + 1), step = (W - LEFT - 10) / counts.length;
  const y = (n) => H - Math.log10(n + 1) / top * (H - FOOT);
  const svg = h("svg", { class: "tb-svg tb-hist", viewBox: `0 0 ${W} ${H + 20}`, role: "img", "aria-label": `histogram of ${name} errors` });
  for (let n = 1, every = Math.ceil(Math.log10(most + 1) / 4); n <= most; n *= 10 ** every) {
    svg.append(h("line", { x1: LEFT, x2: W - 10, y1: y(n), y2: y(n), class: "tb-rule" }), h("text", { x: LEFT - 5, y: y(n) + 4, "text-anchor": "end", class: "tb-label" }, number(n)));
  }
  counts.forEach((n, k) => {
    const height = n ? Math.max(2, H - y(n)) : 0;
    const bar = h("rect", { x: LEFT + k * step, y: H - height, width: Math.max(1, step - 1), height, class: "tb-column" });
    bar.append(h("title", {}, `${number(edges[k])} to ${number(edges[k + 1])}: ${n}`));
    svg.append(bar);
  });
  svg.append(h("line", { x1: LEFT, x2: W - 10, y1: H, y2: H, class: "tb-rule" }));
  [0, counts.length].forEach((k) => svg.append(h("text", { x: LEFT + k * step, y: H + 14, "text-anchor": k ? "end" : "start", class: "tb-label" }, number(edges[k]))));
  return h("figure", { class: "tb-figure" }, h("figcaption", {}, `${name === "abs" ? "|error|" : name === "ulp" ? "error in units of the last place" : name}: how many elements`), svg);
}
