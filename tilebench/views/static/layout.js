// Who holds each element: the tensor view (cell -> thread, register) and the hardware view (thread, register -> element).
import { h, choice, button, empty, lit, buffersAt, LANES, WARPS, hues, ramp } from "./kit.js";
import { grid } from "./grid.js";
import * as math from "./math.js";

const MODES = [["lane", "thread % 8"], ["warp", "warp"], ["register", "register"], ["bank", "bank"]];
const FOLLOW = { t: "thread", r: "register", w: "warp", b: "bank" };

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

/** Everything the drawing and the status line need of one fragment. @param {any} report @param {LayoutInfo} info */
export function prepare(report, info) {
  const held = math.holders(info), mate = partner(report, info);
  const line = report.buffers.find((b) => b.name === info.buffer)?.span?.line
    ?? (/^loop@(\d+)$/.exec(info.buffer) ? Number(info.buffer.slice(5)) : undefined);
  const start = mate ? report.buffers.find((b) => b.name === mate.buffer)?.offset ?? 0 : 0;
  return { info, held, mate, bytes: mate ? math.byteOffsets(mate) : null, start, line };
}

/** What is known of an element, as a selection. @param {ReturnType<typeof prepare>} p @param {number} element @param {[number, number]} [place] */
export function selectionOf(p, element, place) {
  const [thread, reg] = place ?? [p.held.thread[element], p.held.register[element]];
  /** @type {Record<string, any>} */
  const sel = { buffer: p.info.buffer, coord: math.unflatten(p.info.shape, element), thread, reg };
  if (p.line) sel.line = p.line;
  if (p.bytes) { sel.byte = p.start + p.bytes[element]; sel.bank = math.bankOf(sel.byte); }
  return sel;
}

/** The status line of an element: "row 3 column 17: thread 37, register 5, ...". @param {ReturnType<typeof prepare>} p @param {number} element */
export function sentence(p, element) {
  const s = selectionOf(p, element);
  if (s.thread < 0) return `${math.coordText(s.coord)}: nobody holds it`;
  let text = `${math.coordText(s.coord)}: thread ${s.thread} (warp ${s.thread >> 5}, lane ${s.thread & 31}), register ${s.reg}`;
  if (s.byte !== undefined) text += `, byte ${s.byte}, bank ${s.bank} of ${p.mate.buffer}`;
  if (p.held.count[element] > 1) {
    const all = math.holdersOf(p.held, element);
    text += `; ${all.length} holders: ${all.slice(0, 8).map(([t, r]) => `${t}:${r}`).join(" ")}${all.length > 8 ? " …" : ""}`;
  }
  return text;
}

/** The layouts tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const { report } = state;
  const infos = fragments(report);
  const own = (state.layout ??= {});
  own.mode ??= "lane";
  own.view ??= "tensor";
  own.slice ??= 0;
  own.follow ??= "thread";
  let p = prepare(report, infos.find((i) => i.buffer === own.buffer) ?? infos[0]);
  const prepared = new Map([[p.info.buffer, p]]);

  const status = h("p", { class: "tb-status", "aria-live": "polite" }, "hover, or focus the grid and use the arrow keys");
  const formula = h("pre", { class: "tb-formula" });
  const why = h("p", { class: "tb-why" });
  const legend = h("div", { class: "tb-legend" });
  const tools = h("div", { class: "tb-tools" });
  const stage = h("div", { class: "tb-stage" });
  const paging = h("div", { class: "tb-scroll" });
  el.append(tools, status, h("div", { class: "tb-two" }, stage, h("div", { class: "tb-side" }, legend, formula, why)), paging);

  let shape = { rows: 1, columns: 1, elementAt: (_r, _c) => -1, cellOf: (_e) => null };

  const g = grid(stage, "who holds each element", {
    hover(cell) {
      if (!cell) { act.hover(null); return; }
      const element = shape.elementAt(...cell);
      if (element < 0) { status.textContent = "outside the tile: padding"; act.hover(null); return; }
      status.textContent = sentence(p, element);
      formulas(element);
      act.hover(selectionOf(p, element, place(cell)));
    },
    pin(cell, add) {
      const element = shape.elementAt(...cell);
      if (element >= 0) act.pin(selectionOf(p, element, place(cell)), add);
    },
    clear: () => act.clear(),
    key(key) {
      if (key === "/") { input.focus(); return true; }
      if (!(key in FOLLOW)) return false;
      own.follow = FOLLOW[key];
      light();
      return true;
    },
  });

  function place(cell) {
    return own.view === "hardware" ? /** @type {[number, number]} */ ([cell[0], cell[1]]) : undefined;
  }

  function colourOf(thread, reg, element) {
    if (own.mode === "warp") return warpColours[(thread >> 5) % warpColours.length];
    if (own.mode === "register") return registerColours[reg];
    if (own.mode === "bank" && p.bytes) return bankColours[math.bankOf(p.start + p.bytes[element])];
    return LANES[thread & 7];
  }
  let warpColours = WARPS, registerColours = ramp(1);
  const bankColours = hues(32);

  function repaint() {
    const { info, held } = p;
    registerColours = ramp(Math.max(1, info.registers));
    warpColours = info.threads > 256 ? hues(Math.ceil(info.threads / 32)) : WARPS;
    if (own.view === "hardware") {
      shape = {
        rows: held.threads, columns: held.registers, elementAt: (t, r) => held.element[t * held.registers + r],
        cellOf: (e) => (e >= 0 && held.thread[e] >= 0 ? [held.thread[e], held.register[e]] : null),
      };
    } else {
      const tile = math.gridOf(info.shape, own.slice);
      shape = tile;
    }
    const { rows, columns } = shape;
    const colours = new Uint8ClampedArray(rows * columns * 4), edges = new Uint8Array(rows * columns);
    const warps = new Int32Array(rows * columns);
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < columns; c++) {
        const k = r * columns + c, e = shape.elementAt(r, c);
        const thread = own.view === "hardware" ? r : e >= 0 ? held.thread[e] : -1;
        const reg = own.view === "hardware" ? c : e >= 0 ? held.register[e] : -1;
        warps[k] = thread < 0 ? -1 : thread >> 5;
        if (e < 0 || thread < 0) { colours[4 * k + 3] = 0; continue; }
        const colour = colourOf(thread, reg, e);
        colours[4 * k] = colour[0];
        colours[4 * k + 1] = colour[1];
        colours[4 * k + 2] = colour[2];
        colours[4 * k + 3] = 255;
      }
    }
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < columns; c++) {
        const k = r * columns + c;
        if (c + 1 < columns && warps[k] !== warps[k + 1]) edges[k] |= 1;
        if (r + 1 < rows && warps[k] !== warps[k + columns]) edges[k] |= 2;
      }
    }
    const text = own.view === "hardware"
      ? (r, c) => { const e = shape.elementAt(r, c); return e < 0 ? ["–"] : [math.unflatten(info.shape, e).join(",")]; }
      : (r, c) => { const e = shape.elementAt(r, c); return e < 0 || held.thread[e] < 0 ? ["–"] : [`T${held.thread[e]}${held.count[e] > 1 ? "+" : ""}`, `V${held.register[e]}`]; };
    g.set({ rows, columns, colours, edges, text });
    legends();
    formulas(-1);
    light();
    if (own.table) pages();
  }

  function legends() {
    empty(legend);
    const swatch = (colour, text) => h("span", { class: "tb-swatch" }, h("i", { style: { background: `rgb(${colour.join(",")})` } }), text);
    if (own.mode === "lane") LANES.forEach((c, k) => legend.append(swatch(c, `${k}`)));
    else if (own.mode === "warp") for (let w = 0; w < Math.min(16, Math.ceil(p.info.threads / 32)); w++) legend.append(swatch(warpColours[w % warpColours.length], `warp ${w}`));
    else if (own.mode === "register") for (const k of new Set([0, p.info.registers >> 1, p.info.registers - 1])) legend.append(swatch(registerColours[k], `register ${k}`));
    else if (p.bytes) for (let b = 0; b < 32; b += 4) legend.append(swatch(bankColours[b], `bank ${b}`));
    else legend.append("no shared tile of this shape: banks are not known for this fragment");
    legend.prepend(own.mode === "lane" ? "colour is thread % 8: " : "colour: ");
    legend.append(" lines: warps");
  }

  function formulas(element) {
    const { info } = p;
    let text = info.formula;
    if (element >= 0) {
      const names = "ijklmn", values = {};
      math.unflatten(info.shape, element).forEach((x, d) => { values[names[d] ?? `i${d}`] = x; });
      const rows = info.formula.split("\n").filter((l) => /^(thread|register) =/.test(l));
      const s = selectionOf(p, element);
      text += rows.map((l) => {
        const [left, right] = [l.slice(0, l.indexOf("=")).trim(), l.slice(l.indexOf("=") + 1)];
        return `\n${left} =${math.substitute(right, values)} = ${left === "thread" ? s.thread : s.reg}`;
      }).join("");
    }
    formula.textContent = text;
  }

  function light() {
    const now = lit(act.now());
    const { held } = p;
    const cells = shape.rows * shape.columns;
    let mask = null;
    const rings = [];
    for (const sel of now) {
      const mine = sel.buffer === p.info.buffer && sel.coord;
      const e = mine ? math.flatten(p.info.shape, sel.coord) : -1;
      const thread = sel.thread, wanted = own.follow;
      let fits = null;
      if (wanted === "thread" && thread >= 0) fits = (t) => t === thread;
      else if (wanted === "warp" && thread >= 0) fits = (t) => t >> 5 === thread >> 5;
      else if (wanted === "register" && sel.reg >= 0 && mine) fits = (_t, r) => r === sel.reg;
      else if (wanted === "bank" && sel.bank >= 0 && p.bytes) fits = (_t, _r, x) => math.bankOf(p.start + p.bytes[x]) === sel.bank;
      if (fits) {
        mask ??= new Uint8Array(cells);
        if (own.view === "tensor" && (wanted === "thread" || wanted === "warp" || wanted === "register")) {
          // all holders count, not the lowest alone
          for (let q = 0; q < held.element.length; q++) {
            const x = held.element[q];
            if (x < 0 || !fits(Math.floor(q / held.registers), q % held.registers, x)) continue;
            const cell = shape.cellOf(x);
            if (cell) mask[cell[0] * shape.columns + cell[1]] = 1;
          }
        } else {
          for (let k = 0; k < cells; k++) {
            const x = shape.elementAt(Math.floor(k / shape.columns), k % shape.columns);
            if (x < 0) continue;
            const [t, r] = own.view === "hardware" ? [Math.floor(k / shape.columns), k % shape.columns] : [held.thread[x], held.register[x]];
            if (fits(t, r, x)) mask[k] = 1;
          }
        }
      }
      if (mine) {
        const cell = own.view === "hardware" && sel.thread >= 0 ? [sel.thread, sel.reg] : shape.cellOf(e);
        if (cell) { rings.push(cell); if (mask) mask[cell[0] * shape.columns + cell[1]] = 1; }
      }
    }
    g.light(mask, rings);
  }

  function pages() {
    empty(paging);
    if (!own.table) return;
    const size = 64, last = Math.ceil(math.product(p.info.shape) / size);
    own.page = Math.min(own.page ?? 0, last - 1);
    const rows = [];
    for (let e = own.page * size; e < Math.min((own.page + 1) * size, p.held.thread.length); e++) {
      const s = selectionOf(p, e);
      rows.push([s.coord.join(", "), s.thread, s.reg, s.byte ?? "", s.bank ?? "", p.held.count[e]]);
    }
    const turn = (step) => button(step < 0 ? "previous" : "next", () => { own.page = Math.max(0, Math.min(last - 1, own.page + step)); pages(); });
    paging.append(h("div", { class: "tb-tools" }, turn(-1), `page ${own.page + 1} of ${last}`, turn(1)),
      h("table", { class: "tb-table" }, h("thead", {}, h("tr", {}, ...["element", "thread", "register", "byte", "bank", "holders"].map((t) => h("th", { scope: "col" }, t)))),
        h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((x) => h("td", {}, x)))))));
  }

  const input = h("input", { class: "tb-goto", type: "text", placeholder: "T37 or 3,17 or byte 64", "aria-label": "go to a thread, an element or a byte" });
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key !== "Enter") return;
    const wanted = math.parseGoto(input.value);
    let e = -1;
    if (wanted?.thread !== undefined) e = p.held.thread.indexOf(wanted.thread);
    else if (wanted?.coord && wanted.coord.length === p.info.shape.length && wanted.coord.every((x, d) => x < p.info.shape[d])) e = math.flatten(p.info.shape, wanted.coord);
    else if (wanted?.byte !== undefined && p.bytes) e = p.bytes.indexOf(wanted.byte - p.start);
    const cell = e >= 0 ? shape.cellOf(e) : null;
    if (cell) g.go(cell); else status.textContent = `nothing here is called ${input.value}`;
  });

  function toolbar() {
    empty(tools);
    const { slices } = math.gridOf(p.info.shape);
    tools.append(
      choice("buffer", infos.map((i) => [i.buffer, `${i.buffer} ${i.shape.join("×")}`]), p.info.buffer, (v) => show(v)),
      choice("colour", MODES, own.mode, (v) => { own.mode = v; repaint(); }),
      choice("view", [["tensor", "tensor"], ["hardware", "hardware: thread × register"]], own.view, (v) => { own.view = v; repaint(); }),
      choice("follow", Object.values(FOLLOW).map((f) => [f, `same ${f}`]), own.follow, (v) => { own.follow = v; light(); }),
      input,
      button("fit", () => g.box.dispatchEvent(new KeyboardEvent("keydown", { key: "0" })), "the whole tile (key 0)"),
      button("table", () => { own.table = !own.table; empty(paging); pages(); }, "the same as a table"),
    );
    if (slices > 1 && own.view === "tensor") {
      const slider = h("input", { type: "range", min: 0, max: slices - 1, value: own.slice, "aria-label": "slice of the leading dimensions" });
      slider.addEventListener("input", () => { own.slice = Number(slider.value); repaint(); });
      tools.append(h("label", { class: "tb-choice" }, "slice", slider));
    }
    empty(why);
    if (p.info.reason) {
      why.append(`why: ${p.info.reason}`);
      if (p.info.reason_line) why.append(" ", button(`line ${p.info.reason_line}`, () => act.pin({ line: p.info.reason_line, buffer: p.info.buffer })));
    }
  }

  function show(buffer) {
    const info = infos.find((i) => i.buffer === buffer) ?? infos[0];
    if (!prepared.has(info.buffer)) prepared.set(info.buffer, prepare(report, info));
    p = prepared.get(info.buffer);
    own.buffer = info.buffer;
    own.slice = 0;
    own.page = 0;
    toolbar();
    repaint();
  }

  toolbar();
  repaint();
  const off = act.watch((now) => {
    const pinned = now.pins[now.pins.length - 1];
    if (pinned && pinned !== own.seen) {
      own.seen = pinned;
      const names = pinned.buffer ? [pinned.buffer] : pinned.line ? buffersAt(report, pinned.line) : [];
      const next = names.find((n) => infos.some((i) => i.buffer === n));
      if (next && next !== p.info.buffer) show(next);
    }
    light();
  });
  return () => { off(); g.end(); };
}
