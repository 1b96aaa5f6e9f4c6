// Who holds each element: the tensor view (cell -> thread, register), the hardware view (thread, register -> element) and the
// instruction view (one matrix instruction with its operands).
import { h, choice, button, empty, lit, buffersAt, swatch, lineButton, table, number, LANES, WARPS, hues, PIECES, ramp } from "./kit.js";
import { grid, roomFor } from "./grid.js";
import { triple, productOf } from "./mma.js";
import { open, inflated } from "./trace.js";
import * as math from "./math.js";

const MODES = [["lane", "thread"], ["register", "register"], ["warp", "warp"], ["bank", "bank"], ["instruction", "instruction"], ["value", "value"]];
const FOLLOW = { t: "thread", r: "register", w: "warp", i: "instruction", b: "bank" };
const VIEWS = [["tensor", "tensor"], ["hardware", "hardware"], ["instruction", "instruction"]];

/** @typedef {import("./math.js").LayoutInfo} LayoutInfo */

/** The fragments of a report that can be drawn, buffers before loops, the largest first. @param {any} report @returns {LayoutInfo[]} */
export function fragments(report) {
  return report.layouts
    .filter((i) => i.kind === "fragment" && math.product(i.shape) > 0 && math.product(i.shape) <= 1 << 20)
    .sort((a, b) => Number(a.buffer.startsWith("loop@")) - Number(b.buffer.startsWith("loop@")) || math.product(b.shape) - math.product(a.shape));
}

/** A shared tile of the same shape that an op moves to or from this fragment. @param {any} report @param {LayoutInfo} info */
export function partner(report, info) {
  const same = (a) => a.kind === "shared" && a.shape.length === info.shape.length && a.shape.every((n, d) => n === info.shape[d]);
  for (const op of report.ops) {
    const names = [...op.reads, ...op.writes];
    if (op.name !== "copy" || !names.includes(info.buffer)) continue;
    const found = report.layouts.find((l) => same(l) && names.includes(l.buffer));
    if (found) return found;
  }
  return null;
}

/**
 * How registers belong to instructions: `per` registers of a thread to each matrix instruction of the product that the fragment
 * is part of, or else to each run of neighbours that one access moves.
 * @param {any} report @param {LayoutInfo} info
 */
export function instructionsOf(report, info) {
  for (const op of report.ops) {
    const at = op.operands?.indexOf(info.buffer) ?? -1;
    if (at < 0 || op.atom?.length !== 3) continue;
    const [m, n, k] = op.atom, per = [m * k, k * n, m * n][at] / (m >= 64 ? 128 : 32);
    if (per >= 1 && info.registers % per === 0) return { op, per, name: op.instruction, role: "ABC"[at] };
  }
  const last = info.shape.length - 1;
  let per = 1;
  for (const d of info.reg) {
    if (d.dim !== last || d.stride !== per) break;
    per *= d.size;
  }
  return { op: null, per, name: per > 1 ? `access of ${per} neighbours` : "access of one element", role: "" };
}

/** Everything the drawing and the status line need of one fragment. @param {any} report @param {LayoutInfo} info */
export function prepare(report, info) {
  const held = math.holders(info), mate = partner(report, info);
  const line = report.buffers.find((b) => b.name === info.buffer)?.span?.line
    ?? (/^loop@(\d+)$/.exec(info.buffer) ? Number(info.buffer.slice(5)) : undefined);
  const start = mate ? report.buffers.find((b) => b.name === mate.buffer)?.offset ?? 0 : 0;
  return { info, held, mate, bytes: mate ? math.byteOffsets(mate) : null, start, line, instructions: instructionsOf(report, info) };
}

/** What is known of an element, as a selection. @param {ReturnType<typeof prepare>} p @param {number} element @param {[number, number]} [place] */
export function selectionOf(p, element, place) {
  const [thread, reg] = place ?? [p.held.thread[element], p.held.register[element]];
  /** @type {Record<string, any>} */
  const sel = { buffer: p.info.buffer, coord: math.unflatten(p.info.shape, element), thread, reg };
  if (reg >= 0) sel.instr = Math.floor(reg / p.instructions.per);
  if (p.line) sel.line = p.line;
  if (p.bytes) { sel.byte = p.start + p.bytes[element]; sel.bank = math.bankOf(sel.byte); }
  return sel;
}

/** The status line of an element: "row 3 column 17: thread 37, register 5, ...". @param {ReturnType<typeof prepare>} p @param {number} element @param {[number, number]} [place] */
export function sentence(p, element, place) {
  const s = selectionOf(p, element, place);
  if (s.thread < 0) return `${math.coordText(s.coord)}: nobody holds it`;
  let text = `${math.coordText(s.coord)}: thread ${s.thread} (warp ${s.thread >> 5}, lane ${s.thread & 31}), register ${s.reg}`;
  if (s.byte !== undefined) text += `, byte ${s.byte}, bank ${s.bank} of ${p.mate.buffer}`;
  if (p.held.count[element] > 1) {
    const all = math.holdersOf(p.held, element);
    text += `; ${all.length} holders: ${all.slice(0, 8).map(([t, r]) => `${t}:${r}`).join(" ")}${all.length > 8 ? " …" : ""}`;
  }
  return text;
}

/** The layout tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const { report } = state;
  const infos = fragments(report);
  const own = (state.layout ??= {});
  own.mode ??= "lane";
  own.view ??= "tensor";
  own.follow ??= "thread";
  let p = prepare(report, infos.find((i) => i.buffer === own.buffer) ?? infos[0]);
  const prepared = new Map([[p.info.buffer, p]]);

  const status = h("p", { class: "tb-status tb-roomy", "aria-live": "polite" }, "hover, or focus the grid and use the arrow keys; t r w i b: same thread, register, warp, instruction, bank");
  const formula = h("pre", { class: "tb-formula" });
  const why = h("div", { class: "tb-why" }), bits = h("div", {}), copies = h("div", {});
  const legend = h("div", { class: "tb-legend" });
  const tools = h("div", { class: "tb-tools" }), planes = h("div", { class: "tb-tools" });
  const stage = h("div", { class: "tb-stage" }), instruction = h("div", {});
  const paging = h("div", { class: "tb-scroll" });
  const two = h("div", { class: "tb-two tb-even" }, h("div", {}, stage, instruction), h("div", { class: "tb-side" }, legend, formula, copies, why, bits));
  el.append(tools, planes, status, two, paging);

  /** @type {any} */
  let shape = { rows: 1, columns: 1, elementAt: (_r, _c) => -1, cellOf: (_e) => null, placeAt: () => undefined, isGap: () => false };
  let endTriple = () => {};
  // values that were recorded for time travel: those of the step that is on the bus, or of the last
  const trace = (report.traces ?? []).find((t) => t.level === "tile" && t.data);
  let play = null, alive = true, step = -1;
  if (trace) {
    inflated(trace.data).then((bytes) => {
      if (!alive) return;
      play = open(trace, bytes);
      toolbar();
      if (own.mode === "value") repaint();
    }).catch((error) => { status.textContent = `the recorded values cannot be read: ${error.message}`; });
  }
  const stepNow = () => {
    const on = lit(act.now()).find((s) => Number.isInteger(s.step));
    return Math.max(0, Math.min(trace.steps.length - 1, on ? on.step : trace.steps.length - 1));
  };
  /** What the fragment held then; undefined when it was not recorded. @returns {{values: Float64Array, written: Uint8Array}|undefined} */
  const values = () => {
    const b = play?.byName.get(p.info.buffer);
    if (b === undefined || math.product(play.buffers[b].shape) !== math.product(p.info.shape)) return undefined;
    const version = play.versionAt(b, stepNow());
    const size = math.product(p.info.shape);
    return version < 0 ? { values: new Float64Array(size), written: new Uint8Array(size) } : play.stateOf(b, version);
  };

  const g = grid(stage, "who holds each element", {
    hover(cell) {
      if (!cell) { act.hover(null); return; }
      const element = shape.elementAt(...cell);
      if (element < 0) { status.textContent = "outside the tile: padding"; act.hover(null); return; }
      say(element, shape.placeAt(...cell));
      act.hover(selectionOf(p, element, shape.placeAt(...cell)));
    },
    pin(cell, add) {
      const element = shape.elementAt(...cell);
      if (element >= 0) act.pin(selectionOf(p, element, shape.placeAt(...cell)), add);
    },
    clear: () => act.clear(),
    key(key) {
      if (key === "/") { input.focus(); return true; }
      if (!(key in FOLLOW)) return false;
      follow(FOLLOW[key]);
      return true;
    },
  });

  function follow(what) {
    own.follow = what;
    const select = tools.querySelector("[aria-label=follow]");
    if (select) select.value = what;
    light();
  }

  function say(element, place) {
    let text = sentence(p, element, place);
    const s = selectionOf(p, element, place), v = own.mode === "value" ? values() : undefined;
    if (own.mode === "instruction" || own.follow === "instruction") text += `, instruction ${s.instr} of ${Math.ceil(p.info.registers / p.instructions.per)} (${p.instructions.name})`;
    if (v) text += v.written[element] ? `, value ${number(v.values[element])} after step ${stepNow()}` : `, not written by step ${stepNow()}`;
    status.textContent = text;
    formulas(element, s);
    holdersList(element);
  }

  function colourOf(thread, reg, element) {
    if (own.mode === "warp") return warpColours[(thread >> 5) % warpColours.length];
    if (own.mode === "register") return registerColours[reg];
    if (own.mode === "bank" && p.bytes) return bankColours[math.bankOf(p.start + p.bytes[element])];
    if (own.mode === "instruction") return instructionColours[Math.floor(reg / p.instructions.per) % 8];
    if (own.mode === "value" && seen) return valueColour(seen.values[element]);
    return LANES[thread & 7];
  }
  /** @type {any} */ let seen = undefined;
  let warpColours = WARPS, registerColours = ramp(1), low = 0, high = 1;
  const bankColours = hues(32), instructionColours = PIECES, valueRamp = ramp(64);
  const valueColour = (v) => (Number.isFinite(v) ? valueRamp[Math.round(63 * (high > low ? (v - low) / (high - low) : 0))] : [255, 0, 200]);

  /** The tile as this view sees it, wrapped where it would be a strip. */
  function plane() {
    const { info, held } = p, width = stage.clientWidth || el.clientWidth || 560;
    const [roomW, roomH] = roomFor(width, true);
    if (own.view === "hardware") {
      const places = {
        rows: held.threads, columns: held.registers, elementAt: (t, r) => t * held.registers + r,
        cellOf: (q) => [Math.floor(q / held.registers), q % held.registers],
      };
      const cut = math.wrapped(places, roomW, roomH, 30, info.registers <= 16 ? 1.6 : 1);
      const elementAt = (r, c) => { const q = cut.elementAt(r, c); return q < 0 ? -1 : held.element[q]; };
      return {
        ...cut, elementAt, placeAt: (r, c) => cut.origin(r, c),
        cellOf: (e) => (e >= 0 && held.thread[e] >= 0 ? cut.cellOf(held.thread[e] * held.registers + held.register[e]) : null),
        cellOfPlace: (t, r) => cut.cellOf(t * held.registers + r),
        rowName: (r) => { const [t] = cut.origin(r, 0); return `T${t}`; }, columnName: (c) => (cut.isGap(0, c) ? "" : `r${cut.origin(0, c)[1]}`),
        aspect: info.registers <= 16 ? 1.6 : 1,
      };
    }
    const rank = info.shape.length;
    const whole = rank <= 2 ? math.gridOf(info.shape) : math.planeOf(info.shape, own.dims[0], own.dims[1], own.fixed);
    const cut = math.wrapped(whole, roomW, roomH);
    const names = rank === 1
      ? { rowName: (r) => String(cut.elementAt(r, 0)), columnName: () => "" }
      : { rowName: (r) => (cut.along === "columns" ? cut.origin(r, 0).join(",") : String(cut.origin(r, 0)[0])), columnName: (c) => (cut.along ? "" : String(c)) };
    return { ...cut, placeAt: () => undefined, cellOfPlace: null, ...names, aspect: 1 };
  }

  function repaint() {
    const { info, held } = p;
    endTriple();
    endTriple = () => {};
    const op = productOf(report, info.buffer);
    const asInstruction = own.view === "instruction" && op;
    two.classList.toggle("tb-stack", Boolean(asInstruction));
    stage.hidden = Boolean(asInstruction);
    if (asInstruction) {
      endTriple = triple(instruction, report, op, (own.triple ??= {}), act, (text) => { status.textContent = text; });
      legends();
      formulas(-1);
      return;
    }
    registerColours = ramp(Math.max(1, info.registers));
    warpColours = info.threads > 256 ? hues(Math.ceil(info.threads / 32)) : WARPS;
    const v = own.mode === "value" ? values() : undefined;
    seen = v;
    if (v) { low = Infinity; high = -Infinity; for (const [e, x] of v.values.entries()) if (v.written[e] && Number.isFinite(x)) { low = Math.min(low, x); high = Math.max(high, x); } }
    shape = plane();
    const { rows, columns } = shape;
    const colours = new Uint8ClampedArray(rows * columns * 4), edges = new Uint8Array(rows * columns), hatch = new Uint8Array(rows * columns), many = new Uint8Array(rows * columns);
    const warps = new Int32Array(rows * columns).fill(-2), groups = new Int32Array(rows * columns).fill(-2);
    const wanted = own.mode === "instruction";
    step = trace ? stepNow() : -1;
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < columns; c++) {
        const k = r * columns + c;
        if (shape.isGap(r, c)) continue;
        const e = shape.elementAt(r, c), place = shape.placeAt(r, c);
        const thread = place ? place[0] : e >= 0 ? held.thread[e] : -1;
        const reg = place ? place[1] : e >= 0 ? held.register[e] : -1;
        warps[k] = thread < 0 ? -1 : thread >> 5;
        groups[k] = thread < 0 ? -1 : Math.floor(reg / p.instructions.per) + (p.instructions.op ? 0 : thread << 10);
        if (e < 0 || thread < 0 || (v && !v.written[e])) { hatch[k] = 1; continue; }
        const colour = colourOf(thread, reg, e);
        colours[4 * k] = colour[0];
        colours[4 * k + 1] = colour[1];
        colours[4 * k + 2] = colour[2];
        colours[4 * k + 3] = 255;
        many[k] = Math.min(255, held.count[e]);
      }
    }
    const differ = (of, a, b) => of[a] !== of[b] && of[a] > -2 && of[b] > -2;
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < columns; c++) {
        const k = r * columns + c;
        if (c + 1 < columns) edges[k] |= (differ(warps, k, k + 1) ? 1 : 0) | (wanted && differ(groups, k, k + 1) ? 4 : 0);
        if (r + 1 < rows) edges[k] |= (differ(warps, k, k + columns) ? 2 : 0) | (wanted && differ(groups, k, k + columns) ? 8 : 0);
      }
    }
    const text = own.view === "hardware"
      ? (r, c) => { if (shape.isGap(r, c)) return []; const e = shape.elementAt(r, c); return e < 0 ? ["–"] : [math.unflatten(info.shape, e).join(",")]; }
      : (r, c) => {
        if (shape.isGap(r, c)) return [];
        const e = shape.elementAt(r, c);
        if (e < 0 || held.thread[e] < 0) return ["–"];
        return v ? [v.written[e] ? number(v.values[e]) : "–"] : [`T${held.thread[e]}`, `V${held.register[e]}`];
      };
    const bands = shape.along === "columns" ? Array.from({ length: shape.count }, (_, k) => k * ((rows + 1) / shape.count)) : undefined;
    g.set({
      rows, columns, colours, edges, text, hatch, holders: own.view === "hardware" || info.replication < 2 ? undefined : many, aspect: shape.aspect,
      columnMarks: shape.along === "rows" ? Array.from({ length: shape.count }, (_, k) => k * ((columns + 1) / shape.count)) : undefined,
      gap: shape.isGap, rowLabel: shape.rowName, columnLabel: shape.columnName, rowMarks: bands,
    });
    legends();
    formulas(-1);
    light();
    if (own.table) pages();
  }

  function legends() {
    empty(legend);
    const { info } = p;
    if (own.view === "instruction" && productOf(report, info.buffer)) {
      const wide = productOf(report, info.buffer).atom[0] === 64;
      legend.append(wide ? "colour: thread % 8; grey: read from shared memory; lines: warps. A is bottom left, B top right, C bottom right"
        : "colour: lane % 8; T lane, a b c register of the operand. A is bottom left, B top right, C bottom right");
      return;
    }
    if (own.mode === "lane") LANES.forEach((c, k) => legend.append(swatch(c, `${k}`)));
    else if (own.mode === "warp") for (let w = 0; w < Math.min(16, Math.ceil(info.threads / 32)); w++) legend.append(swatch(warpColours[w % warpColours.length], `warp ${w}`));
    else if (own.mode === "register") for (const k of new Set([0, info.registers >> 1, info.registers - 1])) legend.append(swatch(registerColours[k], `register ${k}`));
    else if (own.mode === "instruction") {
      for (let k = 0; k < Math.min(6, Math.ceil(info.registers / p.instructions.per)); k++) legend.append(swatch(instructionColours[k], `${k}`));
      legend.append(`… ${Math.ceil(info.registers / p.instructions.per)} of a ${!p.instructions.op ? "thread" : p.instructions.op.atom[0] === 64 ? "warpgroup" : "warp"}, each ${p.instructions.name}`);
    } else if (own.mode === "value" && seen && low <= high) for (const t of [0, 0.5, 1]) legend.append(swatch(valueColour(low + t * (high - low)), number(low + t * (high - low))));
    else if (own.mode === "value") legend.append("no values were recorded for this fragment");
    else if (p.bytes) for (let b = 0; b < 32; b += 4) legend.append(swatch(bankColours[b], `bank ${b}`));
    else legend.append("no shared tile of this shape: banks are not known for this fragment");
    legend.prepend(own.mode === "lane" ? "colour is thread % 8: " : "colour: ");
    legend.append(h("span", { class: "tb-swatch" }, h("i", { class: "tb-key-line" }), "edge of a warp"));
    if (info.replication > 1 && own.view === "tensor") legend.append(h("span", { class: "tb-swatch" }, h("i", { class: "tb-key-corner" }), "more than one holder"));
    if (own.view === "hardware") legend.append(h("span", {}, "a row is a thread, a column one of its registers"));
    if (shape.along) legend.append(h("span", {}, `cut into ${shape.count} bands of ${shape.size} ${shape.along === "columns" ? "columns" : "rows"}`));
  }

  function formulas(element, s) {
    const { info } = p;
    let text = info.formula;
    if (element >= 0) {
      const names = "ijklmn", numbers = /** @type {Record<string, number>} */ ({});
      math.unflatten(info.shape, element).forEach((x, d) => { numbers[names[d] ?? `i${d}`] = x; });
      const rows = info.formula.split("\n").filter((l) => /^(thread|register) =/.test(l));
      const first = selectionOf(p, element);
      text += rows.map((l) => {
        const [left, right] = [l.slice(0, l.indexOf("=")).trim(), l.slice(l.indexOf("=") + 1)];
        return `\n${left} =${math.substitute(right, numbers)} = ${left === "thread" ? first.thread : first.reg}`;
      }).join("");
      const back = info.formula.split("\n").filter((l) => /^[ijklmn] =/.test(l));
      const places = { t: s?.thread ?? first.thread, r: s?.reg ?? first.reg };
      if (own.view === "hardware") text += back.map((l) => `\n${l.slice(0, 1)} =${math.substitute(l.slice(3), places)} = ${numbers[l[0]]}`).join("");
    }
    formula.textContent = text;
  }

  /** All holders of an element that has several. */
  function holdersList(element) {
    empty(copies);
    if (p.held.count[element] < 2) return;
    const all = math.holdersOf(p.held, element);
    copies.append(h("details", { class: "tb-holders" }, h("summary", {}, `${all.length} holders of this element`),
      h("p", { class: "tb-legend" }, ...all.slice(0, 128).map(([t, r]) => h("button", { type: "button", class: "tb-button", on: { click: () => act.pin(selectionOf(p, element, [t, r])) } }, `T${t} r${r}`)), all.length > 128 ? `and ${all.length - 128} more` : null)));
  }

  function light() {
    if (stage.hidden) return;
    const now = lit(act.now());
    const { held } = p, per = p.instructions.per;
    const cells = shape.rows * shape.columns;
    let mask = null;
    const rings = [];
    for (const sel of now) {
      const mine = sel.buffer === p.info.buffer && sel.coord?.length === p.info.shape.length && sel.coord.every((x, d) => x >= 0 && x < p.info.shape[d]);
      const e = mine ? math.flatten(p.info.shape, sel.coord) : -1;
      const thread = sel.thread, wanted = own.follow;
      let fits = null, holding = true;
      if (wanted === "thread" && thread >= 0) fits = (t) => t === thread;
      else if (wanted === "warp" && thread >= 0) fits = (t) => t >> 5 === thread >> 5;
      else if (wanted === "register" && sel.reg >= 0 && mine) fits = (_t, r) => r === sel.reg;
      else if (wanted === "instruction" && sel.instr >= 0 && mine && thread >= 0) {
        const together = p.instructions.op?.atom[0] === 64 ? 7 : 5; // threads that carry an instruction out: a warpgroup, a warp
        fits = (t, r) => t >> together === thread >> together && Math.floor(r / per) === sel.instr;
      } else if (wanted === "bank" && sel.bank >= 0 && p.bytes) { fits = (_t, _r, x) => math.bankOf(p.start + p.bytes[x]) === sel.bank; holding = false; }
      if (fits) {
        mask ??= gaps(cells);
        if (own.view === "tensor" && holding) {
          // all holders count, not the lowest alone
          for (let q = 0; q < held.element.length; q++) {
            const x = held.element[q];
            if (x < 0 || !fits(Math.floor(q / held.registers), q % held.registers, x)) continue;
            const cell = shape.cellOf(x);
            if (cell) mask[cell[0] * shape.columns + cell[1]] = 1;
          }
        } else {
          for (let k = 0; k < cells; k++) {
            const r = Math.floor(k / shape.columns), c = k % shape.columns, x = shape.elementAt(r, c);
            if (x < 0) continue;
            const [t, reg] = shape.placeAt(r, c) ?? [held.thread[x], held.register[x]];
            if (fits(t, reg, x)) mask[k] = 1;
          }
        }
      }
      if (mine) {
        const cell = shape.cellOfPlace && sel.thread >= 0 && sel.thread < held.threads && sel.reg < held.registers ? shape.cellOfPlace(sel.thread, sel.reg) : shape.cellOf(e);
        if (cell) { rings.push(cell); if (mask) mask[cell[0] * shape.columns + cell[1]] = 1; }
      }
    }
    g.light(mask, rings);
  }

  /** A mask in which only the gaps of a wrapped tile stay clear. */
  function gaps(cells) {
    const mask = new Uint8Array(cells);
    if (shape.along) for (let k = 0; k < cells; k++) if (shape.isGap(Math.floor(k / shape.columns), k % shape.columns)) mask[k] = 1;
    return mask;
  }

  function pages() {
    empty(paging);
    if (!own.table) return;
    const size = 64, last = Math.ceil(math.product(p.info.shape) / size);
    own.page = Math.min(own.page ?? 0, last - 1);
    const rows = [];
    for (let e = own.page * size; e < Math.min((own.page + 1) * size, p.held.thread.length); e++) {
      const s = selectionOf(p, e);
      rows.push([s.coord.join(", "), s.thread, s.reg, s.instr ?? "", s.byte ?? "", s.bank ?? "", p.held.count[e]]);
    }
    const turn = (step) => button(step < 0 ? "previous" : "next", () => { own.page = Math.max(0, Math.min(last - 1, own.page + step)); pages(); });
    paging.append(h("div", { class: "tb-tools" }, turn(-1), `page ${own.page + 1} of ${last}`, turn(1)),
      table(["element", "thread", "register", "instruction", "byte", "bank", "holders"], rows));
  }

  const input = h("input", { class: "tb-goto", type: "text", placeholder: "T37 or 3,17 or byte 64", "aria-label": "go to a thread, an element or a byte" });
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") g.box.focus();
    if (event.key !== "Enter") return;
    const wanted = math.parseGoto(input.value);
    let e = -1, cell = null;
    if (wanted?.thread !== undefined && wanted.thread < p.held.threads && (wanted.reg ?? 0) < p.held.registers) {
      e = p.held.element[wanted.thread * p.held.registers + (wanted.reg ?? 0)];
      if (shape.cellOfPlace) cell = shape.cellOfPlace(wanted.thread, wanted.reg ?? 0);
    } else if (wanted?.coord && wanted.coord.length === p.info.shape.length && wanted.coord.every((x, d) => x < p.info.shape[d])) e = math.flatten(p.info.shape, wanted.coord);
    else if (wanted?.byte !== undefined && p.bytes) e = p.bytes.indexOf(wanted.byte - p.start - ((wanted.byte - p.start) % (p.info.itemsize_bits / 8)));
    if (e >= 0) showElement(e);
    cell ??= e >= 0 ? shape.cellOf(e) : null;
    if (cell) g.go(cell); else status.textContent = `nothing here is called ${input.value}`;
  });

  /** Turns the sliders of a tile of more than two dimensions to where an element is. */
  function showElement(e) {
    if (p.info.shape.length <= 2 || own.view !== "tensor" || shape.cellOf(e)) return;
    own.fixed = math.unflatten(p.info.shape, e);
    plansBar();
    repaint();
  }

  function toolbar() {
    empty(tools);
    const product = productOf(report, p.info.buffer);
    const modes = MODES.filter(([m]) => (m !== "value" || values() || own.mode === "value"));
    tools.append(
      choice("buffer", infos.map((i) => [i.buffer, `${i.buffer} ${i.shape.join("×")}`]), p.info.buffer, (v) => show(v)),
      choice("colour", modes, own.mode, (v) => { own.mode = v; repaint(); }),
      choice("view", VIEWS.filter(([v]) => v !== "instruction" || product), own.view, (v) => { own.view = v; plansBar(); repaint(); }),
      choice("follow", Object.entries(FOLLOW).map(([k, f]) => [f, `${f} (${k})`]), own.follow, follow),
      input,
      button("fit", () => g.box.dispatchEvent(new KeyboardEvent("keydown", { key: "0" })), "the whole tile (key 0)"),
      button("table", () => { own.table = !own.table; empty(paging); pages(); }, "the same as a table"),
    );
    plansBar();
    chain();
    matrix();
  }

  /** Which two dimensions are seen, and where the others stand. */
  function plansBar() {
    empty(planes);
    const rank = p.info.shape.length;
    planes.hidden = rank <= 2 || own.view !== "tensor";
    if (planes.hidden) return;
    const names = p.info.shape.map((n, d) => [String(d), `${"ijklmn"[d] ?? d} (${n})`]);
    const pick = (label, which) => choice(label, names, String(own.dims[which]), (v) => {
      const other = 1 - which, d = Number(v);
      if (own.dims[other] === d) own.dims[other] = own.dims[which];
      own.dims[which] = d;
      plansBar();
      repaint();
    });
    planes.append(pick("rows", 0), pick("columns", 1));
    p.info.shape.forEach((n, d) => {
      if (own.dims.includes(d) || n < 2) return;
      const text = h("span", {}, String(own.fixed[d]));
      const slider = h("input", { type: "range", min: 0, max: n - 1, value: own.fixed[d], "aria-label": `index of dimension ${"ijklmn"[d] ?? d}` });
      slider.addEventListener("input", () => { own.fixed[d] = Number(slider.value); text.textContent = slider.value; repaint(); });
      planes.append(h("label", { class: "tb-choice" }, "ijklmn"[d] ?? String(d), slider, text));
    });
  }

  /** Why this layout: the chain from the buffer to what fixed it. */
  function chain() {
    empty(why);
    const links = p.info.chain?.length ? p.info.chain : p.info.reason ? [{ text: p.info.reason, line: p.info.reason_line, op: "", buffer: p.info.buffer }] : [];
    if (!links.length) return;
    why.append(h("p", { class: "tb-head" }, h("b", {}, "why this layout")), h("ol", { class: "tb-chain" }, ...links.map((c) => {
      const op = report.ops.find((o) => o.id === c.op);
      return h("li", {}, c.text, " ", c.line ? lineButton(c.line, act, { ...(c.op ? { op: c.op } : {}), ...(c.buffer ? { buffer: c.buffer } : {}) }) : null, op ? h("code", {}, ` ${op.name}`) : null);
    })));
  }

  /** The layout as bits: which bit of the register or thread moves which bit of which dimension. */
  function matrix() {
    empty(bits);
    const found = math.bases(p.info);
    const box = h("details", { class: "tb-bases" }, h("summary", {}, "bases: index bits to coordinate bits"));
    bits.append(box);
    if (!found) {
      box.append(h("p", { class: "tb-legend" }, p.info.table ? "a table: the user's function is not linear over bits" : "not linear over bits: a digit's size or stride is no power of two"));
      return;
    }
    const name = (b) => (b.side === "register" ? `r${b.bit}` : b.bit < 5 ? `l${b.bit}` : `w${b.bit - 5}`);
    const rows = [];
    p.info.shape.forEach((n, d) => { for (let at = 0; 1 << at < n; at++) rows.push([d, at]); });
    const say = (b) => {
      const weight = 1 << b.bit, where = b.dim < 0 ? "changes nothing: a copy" : `moves ${"ijklmn"[b.dim] ?? b.dim} by ${2 ** b.at}`;
      status.textContent = `bit ${b.bit} of the ${b.side} (${b.side} ${weight}) ${where}`;
      const place = b.side === "register" ? [0, weight] : [weight, 0], e = p.held.element[place[0] * p.held.registers + place[1]];
      act.hover(e >= 0 ? selectionOf(p, e, /** @type {[number, number]} */ (place)) : null);
    };
    const head = h("tr", {}, h("td", {}), ...found.map((b) => h("th", { scope: "col" },
      h("button", { type: "button", class: "tb-bit", "aria-label": `bit ${b.bit} of the ${b.side}`, on: { pointerenter: () => say(b), focus: () => say(b), pointerleave: () => act.hover(null), blur: () => act.hover(null) } }, name(b)))));
    box.append(h("table", { class: "tb-bits" }, h("thead", {}, head), h("tbody", {}, ...rows.map(([d, at]) => h("tr", {}, h("th", { scope: "row" }, `${"ijklmn"[d] ?? d}${at}`),
      ...found.map((b) => { const on = b.dim === d && b.at === at; return h("td", on ? { class: "tb-on" } : {}, on ? 1 : "·"); }))))),
      h("p", { class: "tb-legend" }, "r register bits, l lane bits, w warp bits; a column without a 1 makes copies"));
  }

  function show(buffer) {
    const info = infos.find((i) => i.buffer === buffer) ?? infos[0];
    if (!prepared.has(info.buffer)) prepared.set(info.buffer, prepare(report, info));
    p = prepared.get(info.buffer);
    own.buffer = info.buffer;
    own.page = 0;
    own.triple = undefined;
    settle();
    toolbar();
    repaint();
  }

  function settle() {
    const rank = p.info.shape.length;
    own.dims = [Math.max(0, rank - 2), rank - 1];
    own.fixed = new Array(rank).fill(0);
    if (own.view === "instruction" && !productOf(report, p.info.buffer)) own.view = "tensor";
    empty(copies);
  }

  settle();
  toolbar();
  repaint();
  // a strip is cut for the width there is: again when that changes
  let width = stage.clientWidth;
  const resized = new ResizeObserver(() => {
    if (Math.abs(stage.clientWidth - width) < 24 || !stage.clientWidth) return;
    width = stage.clientWidth;
    if (shape.along || shape.rows * 4 < shape.columns || shape.columns * 4 < shape.rows) repaint();
  });
  resized.observe(stage);
  const off = act.watch((now) => {
    const pinned = now.pins[now.pins.length - 1];
    if (pinned && pinned !== own.seen) {
      own.seen = pinned;
      const names = pinned.buffer ? [pinned.buffer] : pinned.line ? buffersAt(report, pinned.line) : [];
      const next = names.find((n) => infos.some((i) => i.buffer === n));
      if (next && next !== p.info.buffer && !(own.view === "instruction" && productOf(report, p.info.buffer)?.operands.includes(next))) show(next);
      if (pinned.buffer === p.info.buffer && pinned.coord?.length === p.info.shape.length) showElement(math.flatten(p.info.shape, pinned.coord));
    }
    if (own.mode === "value" && play && stepNow() !== step) repaint(); else light();
  });
  return () => { alive = false; off(); resized.disconnect(); endTriple(); g.end(); };
}
