// Shared memory: which bytes belong to whom, and where a tile's elements lie in the 32 banks, with other swizzles to compare.
import { h, choice, empty, lit, buffersAt, hues } from "./kit.js";
import { grid } from "./grid.js";
import * as math from "./math.js";

const SWIZZLES = [["own", "as compiled"], ["none", "no swizzle"], ["32", "32 bytes"], ["64", "64 bytes"], ["128", "128 bytes"]];
const SHOWN = 24; // lines of 128 bytes at once
const BITS = { none: [0, 4, 3], 32: [1, 4, 3], 64: [2, 4, 3], 128: [3, 4, 3] };

/** The shared tiles of a report, the largest first. @param {any} report @returns {import("./math.js").LayoutInfo[]} */
export function tiles(report) {
  return report.layouts.filter((i) => i.kind === "shared" && math.product(i.shape) > 0 && math.product(i.shape) <= 1 << 20)
    .sort((a, b) => math.product(b.shape) - math.product(a.shape));
}

/**
 * Ways of the conflict when ldmatrix reads 8 rows of 16 bytes each: rows along the dimension that is not contiguous.
 * @param {import("./math.js").LayoutInfo} info @param {Int32Array} bytes @returns {number} 0 when the tile is too small
 */
export function ldmatrixWays(info, bytes) {
  const rank = info.shape.length;
  if (rank < 2) return 0;
  const inner = info.table ? rank - 1 : math.innerOf(info);
  const outer = inner === rank - 1 ? rank - 2 : rank - 1;
  const piece = 128 / info.itemsize_bits;
  if (info.shape[outer] < 8 || info.shape[inner] < piece) return 0;
  let worst = 0;
  for (let c = 0; c + piece <= info.shape[inner]; c += piece) {
    for (let r = 0; r + 8 <= info.shape[outer]; r += 8) {
      const rows = Array.from({ length: 8 }, (_, k) => {
        const coord = new Array(rank).fill(0);
        coord[outer] = r + k;
        coord[inner] = c;
        return bytes[math.flatten(info.shape, coord)];
      });
      worst = Math.max(worst, math.conflictWays(rows, 16));
    }
  }
  return worst;
}

/** The shared memory tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const { report } = state;
  const infos = tiles(report), own = (state.smem ??= {});
  own.swizzle ??= "own";
  let info = infos.find((i) => i.buffer === own.buffer) ?? infos[0];
  const tools = h("div", { class: "tb-tools" });
  const status = h("p", { class: "tb-status", "aria-live": "polite" }, "hover, or focus the grid and use the arrow keys");
  const badge = h("p", { class: "tb-badge" }), formula = h("pre", { class: "tb-formula" }), stage = h("div", { class: "tb-stage" });
  const why = h("p", { class: "tb-why" }), legend = h("p", { class: "tb-legend" }, "one row is 128 bytes, one column a bank of 4 bytes; colour and number: the 16-byte column of the tile that lies there");
  el.append(map(report, act), tools, status, badge, h("div", { class: "tb-two" }, stage, h("div", { class: "tb-side" }, legend, formula, why)));

  /** @type {Int32Array} */ let bytes = new Int32Array(0);
  /** @type {Int32Array} */ let at = new Int32Array(0);
  let start = 0, rows = 1, from = 0;
  const slider = h("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "first line of 128 bytes" }), range = h("span", {});
  slider.addEventListener("input", () => { from = Number(slider.value); repaint(); });
  const colours8 = hues(8);

  const elementsAt = (word) => { const found = []; for (let e = 0; e < bytes.length && found.length < 9; e++) if (bytes[e] >> 2 === word) found.push(e); return found; };
  const selection = (cell) => {
    const byte = start + ((from + cell[0]) * 32 + cell[1]) * 4;
    const e = at[cell[0] * 32 + cell[1]];
    const sel = { buffer: info.buffer, byte, bank: math.bankOf(byte) };
    if (e >= 0) sel.coord = math.unflatten(info.shape, e);
    return sel;
  };
  const g = grid(stage, "banks of shared memory", {
    hover(cell) {
      if (!cell) { act.hover(null); return; }
      const word = (from + cell[0]) * 32 + cell[1], found = elementsAt(word), byte = start + word * 4;
      const who = found.length ? found.map((e) => math.unflatten(info.shape, e).join(",")).map((t) => `(${t})`).join(" ") : "nothing";
      status.textContent = `byte ${byte}, bank ${math.bankOf(byte)}: ${info.buffer} ${who}`;
      act.hover(selection(cell));
    },
    pin: (cell, add) => act.pin(selection(cell), add),
    clear: () => act.clear(),
  });

  function repaint() {
    const own_ = info.table || own.swizzle === "own";
    bytes = own_ ? math.byteOffsets(info) : math.byteOffsets(info, BITS[own.swizzle]);
    start = report.buffers.find((b) => b.name === info.buffer)?.offset ?? 0;
    let end = 0;
    for (const b of bytes) end = Math.max(end, b);
    const lines = Math.floor(end / 128) + 1;
    rows = Math.min(SHOWN, lines);
    from = Math.min(from, lines - rows);
    at = new Int32Array(rows * 32).fill(-1);
    for (let e = bytes.length - 1; e >= 0; e--) {
      const word = (bytes[e] >> 2) - from * 32;
      if (word >= 0 && word < at.length) at[word] = e;
    }
    slider.max = String(lines - rows);
    slider.parentElement.hidden = lines <= rows;
    range.textContent = `lines ${from}–${from + rows - 1} of ${lines}`;
    const rank = info.shape.length, inner = info.table ? rank - 1 : math.innerOf(info);
    const piece = (e) => Math.floor(math.unflatten(info.shape, e)[inner] * info.itemsize_bits / 8 / 16);
    const colours = new Uint8ClampedArray(rows * 32 * 4);
    for (let k = 0; k < at.length; k++) {
      if (at[k] < 0) continue;
      const c = colours8[piece(at[k]) & 7];
      colours.set([c[0], c[1], c[2], 255], 4 * k);
    }
    g.set({ rows, columns: 32, colours, text: (r, c) => [at[r * 32 + c] < 0 ? "" : String(piece(at[r * 32 + c]))] });
    formula.textContent = info.formula;
    const ways = ldmatrixWays(info, bytes), plain = info.table ? 0 : ldmatrixWays(info, math.byteOffsets(info, BITS.none));
    badge.textContent = ways ? `ldmatrix, 8 rows of 16 bytes: ${ways}-way${ways === 1 ? ", no conflict" : " conflict"} (predicted from the layout; ${plain}-way without swizzle)` : "";
    badge.dataset.bad = String(ways > 1);
    const seen = report.accesses.filter((a) => a.buffer === info.buffer && a.requests);
    if (seen.length) badge.textContent += ` · ${seen.map((a) => `${a.kind} line ${a.line}: ${a.conflict_ways}-way (simulated)`).join(", ")}`;
    light();
  }

  function light() {
    const rings = [];
    let mask = null;
    for (const sel of lit(act.now())) {
      if (sel.buffer === info.buffer && sel.coord) {
        const word = (bytes[math.flatten(info.shape, sel.coord)] >> 2) - from * 32;
        if (word >= 0 && word < at.length) rings.push([Math.floor(word / 32), word % 32]);
      } else if (Number.isInteger(sel.byte) && sel.byte >= start + from * 128 && (sel.byte - start) >> 2 < from * 32 + at.length) {
        rings.push([Math.floor((sel.byte - start) / 128) - from, ((sel.byte - start) >> 2) & 31]);
      } else if (Number.isInteger(sel.bank)) {
        mask ??= new Uint8Array(rows * 32);
        for (let r = 0; r < rows; r++) mask[r * 32 + ((sel.bank - (start >> 2)) & 31)] = 1;
      }
    }
    g.light(mask, rings);
  }

  function show(buffer) {
    info = infos.find((i) => i.buffer === buffer) ?? infos[0];
    own.buffer = info.buffer;
    from = 0;
    slider.value = "0";
    empty(tools);
    tools.append(
      choice("buffer", infos.map((i) => [i.buffer, `${i.buffer} ${i.shape.join("×")}`]), info.buffer, show),
      info.table ? h("span", {}, "user's table") : choice("what if the swizzle were", SWIZZLES, own.swizzle, (v) => { own.swizzle = v; repaint(); }),
      h("label", { class: "tb-choice" }, slider, range),
    );
    why.textContent = info.reason ? `why: ${info.reason}` : "";
    repaint();
  }

  show(info.buffer);
  const off = act.watch((now) => {
    const pinned = now.pins[now.pins.length - 1];
    if (pinned && pinned !== own.seen) {
      own.seen = pinned;
      const names = pinned.buffer ? [pinned.buffer] : pinned.line ? buffersAt(report, pinned.line) : [];
      const next = names.find((n) => infos.some((i) => i.buffer === n));
      if (next && next !== info.buffer) show(next);
    }
    light();
  });
  return () => { off(); g.end(); };
}

/** The byte map: a bar for each buffer, with its bytes in words. */
function map(report, act) {
  const buffers = report.buffers.filter((b) => b.scope.startsWith("shared") && b.offset !== null).sort((a, b) => a.offset - b.offset);
  const total = Math.max(report.resources.shared_bytes, ...buffers.map((b) => b.offset + b.bytes * Math.max(1, b.versions)), 1);
  const bars = buffers.map((b) => {
    const size = b.bytes * Math.max(1, b.versions);
    const copies = b.versions > 1 ? `, ${b.versions} copies` : "";
    const label = `${b.name}: bytes ${b.offset}–${b.offset + size - 1}${copies}`;
    return h("div", { class: "tb-map-row" }, h("button", { type: "button", class: "tb-map-name", on: { click: () => act.pin({ buffer: b.name, line: b.span?.line }) } }, label),
      h("div", { class: "tb-map-track" }, h("div", { class: "tb-map-bar", style: { left: `${100 * b.offset / total}%`, width: `${100 * size / total}%` } })));
  });
  return h("div", { class: "tb-map" }, h("p", { class: "tb-legend" }, `${total} bytes of shared memory a block`), ...bars);
}
