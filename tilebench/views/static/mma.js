// One matrix instruction: A bottom left, B top right, C bottom right, as the PTX ISA draws them, with who holds each element.
import { h, button, lit, empty, LANES } from "./kit.js";
import { grid } from "./grid.js";
import * as math from "./math.js";

const SHARED = [214, 219, 225];

/** The product that a fragment is part of, when a matrix instruction does it. @param {any} report @param {string} buffer */
export function productOf(report, buffer) {
  return report.ops.find((o) => o.operands?.includes(buffer) && o.atom?.length === 3 && (o.atom[0] === 64 || (o.atom[0] === 16 && o.atom[1] === 8))) ?? null;
}

/** Numbers of an op's tiling: extents, warps, instructions of a warp. @param {any} report @param {any} op */
export function tiling(report, op) {
  const shape = (name) => (report.layouts.find((l) => l.buffer === name)?.shape ?? report.buffers.find((b) => b.name === name)?.shape ?? [16, 16]).slice(-2);
  const [M, N] = shape(op.operands[2]), a = shape(op.operands[0]);
  const K = op.transposed[0] ? a[0] : a[1], [wm, wn] = op.warp_grid;
  const warpgroup = op.atom[0] === 64, gm = warpgroup ? Math.max(1, wm / 4) : wm; // who carries an instruction out: along M
  return {
    M, N, K, wm, wn, gm, warpgroup, threads: warpgroup ? 128 : 32,
    along: [Math.max(1, M / gm / op.atom[0]), Math.max(1, N / wn / op.atom[1]), Math.max(1, K / op.atom[2])],
  };
}

/**
 * The three grids. @param {HTMLElement} el @param {any} report @param {any} op @param {any} own @param {import("./kit.js").Act} act
 * @param {(text: string) => void} say @returns {() => void}
 */
export function triple(el, report, op, own, act, say) {
  const t = tiling(report, op), bits = 256 / op.atom[2], [am, an, ak] = op.atom;
  const atom = t.warpgroup ? { b: null, ...math.wgmmaAtom(bits, an) } : math.mmaAtom(bits);
  const inShared = (name) => report.layouts.some((l) => l.buffer === name && l.kind === "shared");
  const nobody = (rows, columns) => ({ thread: new Int32Array(rows * columns).fill(-1), register: new Int32Array(rows * columns).fill(-1) });
  const held = {
    A: t.warpgroup && inShared(op.operands[0]) ? nobody(am, ak) : math.holders(atom.a), B: atom.b ? math.holders(atom.b) : nobody(ak, an), C: math.holders(atom.c),
  };
  const size = { A: [am, ak], B: [ak, an], C: [am, an] }, unit = t.warpgroup ? "warpgroup" : "warp";
  own.at ??= [0, 0, 0, 0]; // who, along M, along N, along K
  const limits = [t.gm * t.wn, ...t.along];
  own.at = own.at.map((x, d) => Math.max(0, Math.min(limits[d] - 1, x)));
  /** First row and column of each operand in the tiles of the block. */
  const origin = () => {
    const [w, mi, ni, ki] = own.at;
    const row = (w % t.gm) * (t.M / t.gm) + mi * am, column = Math.floor(w / t.gm) * (t.N / t.wn) + ni * an, k = ki * ak;
    return { A: [row, k], B: [k, column], C: [row, column] };
  };
  const buffers = { A: op.operands[0], B: op.operands[1], C: op.operands[2] };
  const turned = { A: op.transposed[0], B: op.transposed[1], C: false };
  const selection = (which, [r, c]) => {
    const lane = held[which].thread[r * size[which][1] + c], from = origin()[which];
    const place = [from[0] + r, from[1] + c];
    const number = own.at[1] * t.along[1] + own.at[2];
    const sel = { op: op.id, buffer: buffers[which], coord: turned[which] ? [place[1], place[0]] : place, instr: number, line: op.span?.line };
    if (lane >= 0) sel.thread = own.at[0] * t.threads + lane;
    if (which === "C") sel.reg = number * (am * an / t.threads) + held.C.register[r * an + c];
    return sel;
  };
  const sentence = (which, cell) => {
    const e = cell[0] * size[which][1] + cell[1], s = selection(which, cell);
    const reg = held[which].register[e], lane = held[which].thread[e];
    return `${which} ${math.coordText([cell[0], cell[1]])} of the instruction, ${buffers[which]} (${s.coord.join(", ")}): ${lane < 0 ? "read from shared memory" : `${t.warpgroup ? "thread" : "lane"} ${lane}, register ${which.toLowerCase()}${reg}`}`
      + (which === "C" ? `; thread ${s.thread}, register ${s.reg} of ${buffers.C}` : "");
  };
  const places = { A: h("div", { class: "tb-mma-a" }), B: h("div", { class: "tb-mma-b" }), C: h("div", { class: "tb-mma-c" }) };
  const title = (which) => h("p", { class: "tb-legend" }, h("b", {}, which), ` ${buffers[which]}${turned[which] ? ", transposed" : ""}: ${size[which].join(" × ")}`);
  const tools = h("div", { class: "tb-tools" });
  const cell = t.warpgroup ? Math.min(6.8, 560 / an) : ak > 16 ? 19 : 23, wide = (columns) => `${46 + columns * cell + 1}px`;
  const board = h("div", { class: "tb-mma", style: { "grid-template-columns": `minmax(0, ${wide(ak)}) minmax(0, ${wide(an)})` } }, places.B, places.A, places.C);
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
        const lane = held[which].thread[e];
        colours.set([...(lane < 0 ? SHARED : LANES[lane & 7]), 255], 4 * e);
        if (e % columns % 8 === 7 && e % columns < columns - 1) edges[e] |= 4;
        if (Math.floor(e / columns) % 8 === 7 && e / columns < rows - 1) edges[e] |= Math.floor(e / columns) % 16 === 15 && t.warpgroup && lane >= 0 ? 2 : 8;
      }
      grids[which].set({
        rows, columns, colours, edges,
        text: (r, c) => { const e = r * columns + c; return held[which].thread[e] < 0 ? [] : [`T${held[which].thread[e]}`, `${which.toLowerCase()}${held[which].register[e]}`]; },
        rowLabel: (r) => String(from[which][0] + r), columnLabel: (c) => String(from[which][1] + c),
      });
    }
    light();
  }

  /** The lane of what is lit in all three; with `i`, the row of A and the column of B that an element of C is made of. */
  function light() {
    const masks = { A: null, B: null, C: null }, rings = { A: [], B: [], C: [] };
    for (const s of lit(act.now())) {
      if (!Number.isInteger(s.thread) || Math.floor(s.thread / t.threads) !== own.at[0]) continue;
      for (const which of /** @type {const} */ (["A", "B", "C"])) {
        if (own.product && hovered?.[0] === "C") continue;
        if (held[which].thread[0] < 0) continue; // nobody's: it lies in shared memory
        masks[which] ??= new Uint8Array(size[which][0] * size[which][1]);
        held[which].thread.forEach((lane, e) => { if (lane === s.thread % t.threads) masks[which][e] = 1; });
      }
    }
    if (hovered && hovered[0] === "C" && own.product) {
      const [r, c] = hovered[1];
      masks.A = Uint8Array.from({ length: am * ak }, (_, e) => Number(Math.floor(e / ak) === r));
      masks.B = Uint8Array.from({ length: ak * an }, (_, e) => Number(e % an === c));
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
  for (const part of [dial(unit, 0), dial("along M", 1), dial("along N", 2), dial("along K", 3)]) if (part) tools.append(part);
  tools.append(button("row × column", () => { own.product = !own.product; light(); }, "show what an element of C is made of (key i), or the same lane (key t)"));
  // a pin elsewhere moves to the instruction that holds the element
  const find = (s) => {
    if (s.buffer !== buffers.C || !s.coord) return false;
    const [r, c] = s.coord.slice(-2), rows = t.M / t.gm, columns = t.N / t.wn;
    const next = [Math.floor(r / rows) + Math.floor(c / columns) * t.gm, Math.floor((r % rows) / am), Math.floor((c % columns) / an), own.at[3]];
    if (next.join() === own.at.join()) return false;
    own.at = next;
    return true;
  };
  const off = act.watch((now) => {
    const last = now.pins[now.pins.length - 1];
    if (last && last !== own.pinned) {
      own.pinned = last;
      if (find(last)) {
        [...tools.querySelectorAll("input")].forEach((input) => { const d = [unit, "along M", "along N", "along K"].indexOf(input.getAttribute("aria-label")); input.value = String(own.at[d]); input.nextSibling.textContent = `${own.at[d]} of ${limits[d]}`; });
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
