// One matrix instruction: A bottom left, B top right, C bottom right, as the PTX ISA draws them, with who holds each element.
import { h, button, lit, empty, LANES } from "./kit.js";
import { grid } from "./grid.js";
import * as math from "./math.js";

/** The product that a fragment is part of, when it is done by mma.m16n8. @param {any} report @param {string} buffer */
export function productOf(report, buffer) {
  return report.ops.find((o) => o.operands?.includes(buffer) && o.atom?.length === 3 && o.atom[0] === 16 && o.atom[1] === 8) ?? null;
}

/** Numbers of an op's tiling: extents, warps, instructions of a warp. @param {any} report @param {any} op */
export function tiling(report, op) {
  const shape = (name) => (report.layouts.find((l) => l.buffer === name)?.shape ?? report.buffers.find((b) => b.name === name)?.shape ?? [16, 16]).slice(-2);
  const [M, N] = shape(op.operands[2]), a = shape(op.operands[0]);
  const K = op.transposed[0] ? a[0] : a[1], [wm, wn] = op.warp_grid;
  return { M, N, K, wm, wn, along: [Math.max(1, M / wm / 16), Math.max(1, N / wn / 8), Math.max(1, K / op.atom[2])] };
}

/**
 * The three grids. @param {HTMLElement} el @param {any} report @param {any} op @param {any} own @param {import("./kit.js").Act} act
 * @param {(text: string) => void} say @returns {() => void}
 */
export function triple(el, report, op, own, act, say) {
  const t = tiling(report, op), atom = math.mmaAtom(256 / op.atom[2]);
  const held = { A: math.holders(atom.a), B: math.holders(atom.b), C: math.holders(atom.c) };
  const size = { A: [16, atom.k], B: [atom.k, 8], C: [16, 8] };
  own.at ??= [0, 0, 0, 0]; // warp, along M, along N, along K
  const limits = [t.wm * t.wn, ...t.along];
  own.at = own.at.map((x, d) => Math.max(0, Math.min(limits[d] - 1, x)));
  /** First row and column of each operand in the tiles of the block. */
  const origin = () => {
    const [w, mi, ni, ki] = own.at;
    const row = (w % t.wm) * (t.M / t.wm) + mi * 16, column = Math.floor(w / t.wm) * (t.N / t.wn) + ni * 8, k = ki * atom.k;
    return { A: [row, k], B: [k, column], C: [row, column] };
  };
  const buffers = { A: op.operands[0], B: op.operands[1], C: op.operands[2] };
  const turned = { A: op.transposed[0], B: op.transposed[1], C: false };
  const selection = (which, [r, c]) => {
    const lane = held[which].thread[r * size[which][1] + c], from = origin()[which];
    const place = [from[0] + r, from[1] + c];
    const number = own.at[1] * t.along[1] + own.at[2];
    const sel = { op: op.id, buffer: buffers[which], coord: turned[which] ? [place[1], place[0]] : place, thread: own.at[0] * 32 + lane, instr: number, line: op.span?.line };
    if (which === "C") sel.reg = number * 4 + held.C.register[r * 8 + c];
    return sel;
  };
  const sentence = (which, cell) => {
    const e = cell[0] * size[which][1] + cell[1], s = selection(which, cell);
    const reg = held[which].register[e], lane = held[which].thread[e];
    return `${which} ${math.coordText([cell[0], cell[1]])} of the instruction, ${buffers[which]} (${s.coord.join(", ")}): lane ${lane}, register ${which.toLowerCase()}${reg}`
      + (which === "C" ? `; thread ${s.thread}, register ${s.reg} of ${buffers.C}` : "");
  };
  const places = { A: h("div", { class: "tb-mma-a" }), B: h("div", { class: "tb-mma-b" }), C: h("div", { class: "tb-mma-c" }) };
  const title = (which) => h("p", { class: "tb-legend" }, h("b", {}, which), ` ${buffers[which]}${turned[which] ? ", transposed" : ""}: ${size[which].join(" × ")}`);
  const tools = h("div", { class: "tb-tools" });
  const cell = atom.k > 16 ? 19 : 23, wide = (columns) => `${46 + columns * cell + 1}px`;
  const board = h("div", { class: "tb-mma", style: { "grid-template-columns": `minmax(0, ${wide(atom.k)}) minmax(0, ${wide(8)})` } }, places.B, places.A, places.C);
  el.append(tools, board);
  let hovered = null;
  const grids = {};
  for (const which of /** @type {const} */ (["B", "A", "C"])) {
    places[which].append(title(which));
    const stage = h("div", { class: "tb-stage" });
    places[which].append(stage);
    grids[which] = grid(stage, `operand ${which} of one ${op.instruction}`, {
      hover(cell) {
        hovered = cell ? [which, cell] : null;
        if (cell) say(sentence(which, cell));
        act.hover(cell ? selection(which, cell) : null);
        light();
      },
      pin: (cell, add) => act.pin(selection(which, cell), add),
      clear: () => act.clear(),
      key(key) {
        if (key !== "i" && key !== "t") return false;
        own.product = key === "i";
        light();
        return true;
      },
    });
  }

  function paint() {
    const from = origin();
    for (const which of /** @type {const} */ (["A", "B", "C"])) {
      const [rows, columns] = size[which], colours = new Uint8ClampedArray(rows * columns * 4), edges = new Uint8Array(rows * columns);
      for (let e = 0; e < rows * columns; e++) {
        colours.set([...LANES[held[which].thread[e] & 7], 255], 4 * e);
        if (e % columns === 7 && columns > 8) edges[e] |= 4;
        if (Math.floor(e / columns) === 7 && rows > 8) edges[e] |= 8;
      }
      grids[which].set({
        rows, columns, colours, edges,
        text: (r, c) => { const e = r * columns + c; return [`T${held[which].thread[e]}`, `${which.toLowerCase()}${held[which].register[e]}`]; },
        rowLabel: (r) => String(from[which][0] + r), columnLabel: (c) => String(from[which][1] + c),
      });
    }
    light();
  }

  /** The lane of what is lit in all three; with `i`, the row of A and the column of B that an element of C is made of. */
  function light() {
    const masks = { A: null, B: null, C: null }, rings = { A: [], B: [], C: [] };
    for (const s of lit(act.now())) {
      if (!Number.isInteger(s.thread) || s.thread >> 5 !== own.at[0]) continue;
      for (const which of /** @type {const} */ (["A", "B", "C"])) {
        if (own.product && hovered?.[0] === "C") continue;
        masks[which] ??= new Uint8Array(size[which][0] * size[which][1]);
        held[which].thread.forEach((lane, e) => { if (lane === (s.thread & 31)) masks[which][e] = 1; });
      }
    }
    if (hovered && hovered[0] === "C" && own.product) {
      const [r, c] = hovered[1];
      masks.A = Uint8Array.from({ length: 16 * atom.k }, (_, e) => Number(Math.floor(e / atom.k) === r));
      masks.B = Uint8Array.from({ length: atom.k * 8 }, (_, e) => Number(e % 8 === c));
      rings.C.push([r, c]);
    }
    for (const which of /** @type {const} */ (["A", "B", "C"])) grids[which].light(masks[which], rings[which]);
  }

  const dial = (label, d) => {
    const text = h("span", {}, `${own.at[d]} of ${limits[d]}`);
    const slider = h("input", { type: "range", min: 0, max: limits[d] - 1, value: own.at[d], "aria-label": label });
    slider.addEventListener("input", () => { own.at[d] = Number(slider.value); text.textContent = `${own.at[d]} of ${limits[d]}`; paint(); });
    return limits[d] > 1 ? h("label", { class: "tb-choice" }, label, slider, text) : null;
  };
  empty(tools);
  for (const part of [dial("warp", 0), dial("along M", 1), dial("along N", 2), dial("along K", 3)]) if (part) tools.append(part);
  tools.append(button("row × column", () => { own.product = !own.product; light(); }, "show what an element of C is made of (key i), or the same lane (key t)"));
  // a pin elsewhere moves to the instruction that holds the element
  const find = (s) => {
    if (s.buffer !== buffers.C || !s.coord) return false;
    const [r, c] = s.coord.slice(-2), rows = t.M / t.wm, columns = t.N / t.wn;
    const next = [Math.floor(r / rows) + Math.floor(c / columns) * t.wm, Math.floor((r % rows) / 16), Math.floor((c % columns) / 8), own.at[3]];
    if (next.join() === own.at.join()) return false;
    own.at = next;
    return true;
  };
  const off = act.watch((now) => {
    const last = now.pins[now.pins.length - 1];
    if (last && last !== own.pinned) {
      own.pinned = last;
      if (find(last)) {
        [...tools.querySelectorAll("input")].forEach((input) => { const d = ["warp", "along M", "along N", "along K"].indexOf(input.getAttribute("aria-label")); input.value = String(own.at[d]); input.nextSibling.textContent = `${own.at[d]} of ${limits[d]}`; });
        paint();
        return;
      }
    }
    light();
  });
  const last = act.now().pins[act.now().pins.length - 1];
  if (last) find(last);
  paint();
  return () => { off(); for (const g of Object.values(grids)) g.end(); empty(el); };
}
