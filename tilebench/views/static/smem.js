// Shared memory: who has which bytes and when, where a tile's elements lie in the 32 banks, and what each access of a warp costs
// there, phase by phase, with the layout as compiled and with any other swizzle.
import { h, choice, empty, lit, buffersAt, PIECES, swatch, lineButton, LANES } from "./kit.js";
import { grid } from "./grid.js";
import { lifetimes } from "./lifetimes.js";
import * as math from "./math.js";

const SWIZZLES = [["own", "as compiled"], ["none", "no swizzle"], ["32", "32 bytes"], ["64", "64 bytes"], ["128", "128 bytes"]];
const SHORT = { own: "compiled", none: "none", 32: "32 B", 64: "64 B", 128: "128 B" };
const SHOWN = 24; // lines of 128 bytes at once
const CALM = [221, 232, 240], ALARM = [255, 168, 160];

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

/** The layout of a tile under a name of SWIZZLES, null when it cannot be. @param {import("./math.js").LayoutInfo} info @param {string} name */
export function variant(info, name) {
  return name === "own" ? info : math.reswizzled(info, name === "none" ? 0 : Number(name));
}

/**
 * The addresses of an access if the tile were laid out otherwise: each lane asks for the same element.
 * @param {import("./math.js").LayoutInfo} info @param {import("./math.js").LayoutInfo} other @param {number[]} addresses @param {number} start of the buffer
 */
export function moved(info, other, addresses, start) {
  if (info === other) return addresses;
  const bytes = math.byteOffsets(info), size = math.copyBytes(info, bytes), to = math.byteOffsets(other), step = math.copyBytes(other, to);
  const at = new Map();
  bytes.forEach((b, e) => { if (!at.has(b)) at.set(b, e); });
  return addresses.map((a) => {
    if (a < 0) return -1;
    const copy = Math.floor((a - start) / size), e = at.get((a - start) % size);
    return e === undefined ? -1 : start + copy * step + to[e];
  });
}

/** The shared memory tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const { report } = state;
  const infos = tiles(report), own = (state.smem ??= {});
  own.swizzle ??= "own";
  let info = infos.find((i) => i.buffer === own.buffer) ?? infos[0];
  const tools = h("div", { class: "tb-tools" });
  const status = h("p", { class: "tb-status tb-roomy", "aria-live": "polite" }, "hover, or focus the grid and use the arrow keys");
  const badge = h("p", { class: "tb-badge" }), formula = h("pre", { class: "tb-formula" }), stage = h("div", { class: "tb-stage" });
  const why = h("p", { class: "tb-why" }), legend = h("p", { class: "tb-legend" }), costs = h("div", { class: "tb-scroll" });
  const say = (text) => { status.textContent = text; };
  const map = h("div", {});
  el.append(map, tools, status, badge, h("div", { class: "tb-two tb-even tb-late" }, stage, h("div", { class: "tb-side" }, legend, costs, formula, why)));
  const endMap = lifetimes(map, report, act, say);

  /** @type {Int32Array} */ let bytes = new Int32Array(0);
  /** @type {Int32Array} */ let at = new Int32Array(0);
  /** @type {any} */ let shown = info;
  /** @type {any} */ let phase = null;
  let start = 0, rows = 1, from = 0;
  const slider = h("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "first line of 128 bytes" }), range = h("span", {});
  slider.addEventListener("input", () => { from = Number(slider.value); repaint(); });
  const sliding = h("label", { class: "tb-choice" }, slider, range);
  const colours8 = PIECES;

  const accesses = () => report.accesses.map((a, k) => [a, k]).filter(([a]) => a.buffer === info.buffer && a.provenance !== "simulated" && !/\.global$/.test(a.kind));
  const chosen = () => (own.access >= 0 && report.accesses[own.access]?.buffer === info.buffer ? report.accesses[own.access] : null);
  const simulated = (a) => report.accesses.filter((s) => s.provenance === "simulated" && s.buffer === a.buffer && s.line === a.line && s.kind.slice(0, 2) === a.kind.slice(0, 2));
  const waysOf = (a, other) => (a.addresses.length && other ? Math.max(...math.phasesOf(moved(info, other, a.addresses, start), a.width_bytes).map((p) => p.ways)) : 0);

  const elementsAt = (word) => { const found = []; for (let e = 0; e < bytes.length && found.length < 9; e++) if (bytes[e] >> 2 === word) found.push(e); return found; };
  const selection = (cell) => {
    if (phase) {
      const hit = phase.cells.get(cell[0] * 32 + cell[1]);
      const sel = { buffer: info.buffer, bank: cell[1], op: chosen().op || undefined, line: chosen().line || undefined };
      if (!hit) return sel;
      const e = phase.elements.get(hit.lanes[0]);
      return { ...sel, byte: hit.word * 4, thread: chosen().warp * 32 + hit.lanes[0], ...(e >= 0 ? { coord: math.unflatten(info.shape, e) } : {}) };
    }
    const byte = start + ((from + cell[0]) * 32 + cell[1]) * 4;
    const e = at[cell[0] * 32 + cell[1]];
    const sel = { buffer: info.buffer, byte, bank: math.bankOf(byte) };
    if (e >= 0) sel.coord = math.unflatten(info.shape, e);
    return sel;
  };
  const g = grid(stage, "banks of shared memory", {
    hover(cell) {
      if (!cell) { act.hover(null); return; }
      if (phase) say(phaseWords(cell));
      else {
        const word = (from + cell[0]) * 32 + cell[1], found = elementsAt(word), byte = start + word * 4;
        const who = found.length ? found.map((e) => math.unflatten(info.shape, e).join(",")).map((t) => `(${t})`).join(" ") : "nothing";
        say(`byte ${byte}, bank ${math.bankOf(byte)}: ${info.buffer} ${who}`);
      }
      act.hover(selection(cell));
    },
    pin: (cell, add) => act.pin(selection(cell), add),
    clear: () => act.clear(),
    key(key) {
      if (key !== "b" && !(phase && (key === "j" || key === "k"))) return false;
      if (key === "b") { own.banks = !own.banks; light(); return true; }
      own.phase = Math.max(0, Math.min(phase.count - 1, own.phase + (key === "j" ? 1 : -1)));
      toolbar();
      repaint();
      return true;
    },
  });

  function phaseWords(cell) {
    const bank = cell[1], words = phase.banks[bank], threads = phase.threads[bank];
    const hit = phase.cells.get(cell[0] * 32 + bank);
    const lanes = hit ? `word at byte ${hit.word * 4}: ${hit.lanes.length > 1 ? "lanes" : "lane"} ${hit.lanes.join(" ")}${hit.lanes.length > 1 ? " (one word for all: no conflict)" : ""}; ` : "";
    return `${lanes}bank ${bank}: ${threads} ${threads === 1 ? "thread" : "threads"}, ${words} ${words === 1 ? "word" : "words"}${words > 1 ? `: ${words}-way conflict` : words ? ", no conflict" : ""}`;
  }

  function repaint() {
    shown = variant(info, own.swizzle) ?? info;
    bytes = math.byteOffsets(shown);
    start = report.buffers.find((b) => b.name === info.buffer)?.offset ?? 0;
    const a = chosen();
    phase = null;
    sliding.hidden = Boolean(a);
    if (a && a.addresses.length) paintPhase(a); else paintTile();
    formula.textContent = own.swizzle === "own" ? info.formula : `with ${own.swizzle === "none" ? "no" : `a ${own.swizzle}-byte`} swizzle (not compiled): ${shown.swizzle[0] ? `rows of ${16 << shown.swizzle[0]} bytes, their 16-byte pieces XORed with the row` : "rows one after another"}`;
    words(a);
    table();
    light();
  }

  function paintTile() {
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
    sliding.hidden = lines <= rows;
    range.textContent = `lines ${from}–${from + rows - 1} of ${lines}`;
    const rank = shown.shape.length, inner = shown.table ? rank - 1 : math.innerOf(shown);
    const piece = (e) => Math.floor(math.unflatten(shown.shape, e)[inner] * shown.itemsize_bits / 8 / 16);
    const colours = new Uint8ClampedArray(rows * 32 * 4), hatch = new Uint8Array(rows * 32);
    for (let k = 0; k < at.length; k++) {
      if (at[k] < 0) { hatch[k] = 1; continue; }
      const c = colours8[piece(at[k]) & 7];
      colours.set([c[0], c[1], c[2], 255], 4 * k);
    }
    g.set({
      rows, columns: 32, colours, hatch, text: (r, c) => [at[r * 32 + c] < 0 ? "" : String(piece(at[r * 32 + c]))],
      rowLabel: (r) => String(start + (from + r) * 128), columnLabel: (c) => String(c),
    });
    empty(legend);
    legend.append("one row is 128 bytes, one column a bank of 4 bytes. Colour and number: which 16-byte piece of its row lies there");
  }

  /** One phase of one access: the lines that it touches, who asks for which word, and how many words each bank must give. */
  function paintPhase(a) {
    const addresses = moved(info, shown, a.addresses, start), phases = math.phasesOf(addresses, a.width_bytes);
    own.phase = Math.max(0, Math.min(phases.length - 1, own.phase ?? phases.findIndex((p) => p.ways === Math.max(...phases.map((q) => q.ways)))));
    const one = phases[own.phase], lines = [...new Set(one.lanes.flatMap((l) => [l.byte >> 7, (l.byte + a.width_bytes - 1) >> 7]))].sort((x, y) => x - y);
    rows = lines.length + 2;
    const cells = new Map(), banks = new Array(32).fill(0), threads = new Array(32).fill(0), elements = new Map();
    const byByte = new Map();
    const size = math.copyBytes(shown, bytes);
    bytes.forEach((b, e) => { if (!byByte.has(b)) byByte.set(b, e); });
    for (const { lane, byte } of one.lanes) {
      elements.set(lane, byByte.get((byte - start) % size) ?? -1);
      const asked = new Set();
      for (let b = byte & ~3; b < byte + a.width_bytes; b += 4) {
        const word = b >> 2, key = lines.indexOf(b >> 7) * 32 + (word & 31);
        if (!cells.has(key)) { cells.set(key, { word, lanes: [] }); banks[word & 31]++; }
        cells.get(key).lanes.push(lane);
        asked.add(word & 31);
      }
      for (const b of asked) threads[b]++;
    }
    phase = { cells, banks, threads, elements, count: phases.length, lines, ways: one.ways };
    const colours = new Uint8ClampedArray(rows * 32 * 4);
    for (const [key, hit] of cells) colours.set([...LANES[hit.lanes[0] & 7], 255], 4 * key);
    for (let b = 0; b < 32; b++) if (threads[b]) colours.set([...(banks[b] > 1 ? ALARM : CALM), 255], 4 * ((rows - 1) * 32 + b));
    const isGap = (r) => r === rows - 2;
    g.set({
      rows, columns: 32, colours, gap: isGap,
      text: (r, c) => {
        if (r === rows - 1) return [threads[c] ? String(threads[c]) : ""];
        const hit = cells.get(r * 32 + c);
        return [hit ? (hit.lanes.length > 1 ? `${hit.lanes[0]}+` : String(hit.lanes[0])) : ""];
      },
      rowLabel: (r) => (r === rows - 1 ? "threads" : isGap(r) ? "" : String(lines[r] * 128)), columnLabel: (c) => String(c),
      rowMarks: Array.from({ length: rows }, (_, r) => r),
    });
    empty(legend);
    legend.append("one row is 128 bytes, one column a bank. Colour and number: the lane that asks for the word (+: several, one broadcast). Last row: threads at the bank",
      swatch(ALARM, "more than one word: conflict"), swatch(CALM, "one word"));
  }

  function words(a) {
    const plain = info.table ? null : variant(info, "none");
    if (a && phase) {
      const all = math.phasesOf(moved(info, shown, a.addresses, start), a.width_bytes);
      const worst = Math.max(...all.map((p) => p.ways)), before = plain ? waysOf(a, plain) : 0;
      badge.textContent = `${a.kind} at line ${a.line}, ${a.width_bytes} bytes a lane, warp ${a.warp}, phase ${own.phase + 1} of ${all.length}: ${ways(phase.ways)}; worst phase ${worst}-way (predicted from the addresses${before && own.swizzle !== "none" ? `; ${before}-way without swizzle` : ""})`;
      badge.dataset.bad = String(phase.ways > 1);
      return;
    }
    const known = accesses().filter(([x]) => x.addresses.length), worst = known.length ? Math.max(...known.map(([x]) => waysOf(x, shown))) : ldmatrixWays(shown, bytes);
    const before = plain ? (known.length ? Math.max(...known.map(([x]) => waysOf(x, plain))) : ldmatrixWays(plain, math.byteOffsets(plain))) : 0;
    const what = known.length ? `worst of ${known.length} ${known.length === 1 ? "access" : "accesses"}` : "ldmatrix, 8 rows of 16 bytes";
    badge.textContent = worst ? `${what}: ${ways(worst)} (predicted from the ${known.length ? "addresses" : "layout"}${before ? `; ${before}-way without swizzle` : ""})` : "";
    if (a) badge.textContent = `${a.kind} at line ${a.line}: ${a.conflict_ways ? "a unit of its own reads the tile as it is laid out, without conflicts" : "the addresses depend on data, so its conflicts are not predicted"}`;
    badge.dataset.bad = String(worst > 1);
  }

  /** What each access would cost with each swizzle; a click shows it. */
  function table() {
    empty(costs);
    const found = accesses();
    if (!found.length) return;
    const options = info.table ? SWIZZLES.slice(0, 1) : SWIZZLES;
    const cell = (a, k, name) => {
      const other = variant(info, name), n = a.addresses.length ? waysOf(a, other) : 0;
      if (!a.addresses.length && a.conflict_ways > 0) return name === "own" ? h("td", { colspan: options.length, class: "tb-hint" }, "a unit of its own, not lanes: no conflicts") : null;
      const text = !a.addresses.length ? "?" : other ? String(n) : "–";
      const pick = () => { own.access = k; own.swizzle = name; own.phase = undefined; toolbar(); repaint(); };
      const is = own.access === k && own.swizzle === name;
      return h("td", { class: is ? "tb-picked" : "" }, text === "–" ? h("span", { title: "a row is no multiple of these bytes" }, "–")
        : h("button", { type: "button", class: n > 1 ? "tb-way tb-way-bad" : "tb-way", "aria-label": `line ${a.line} ${a.kind}, ${SWIZZLES.find(([x]) => x === name)[1]}: ${text}-way`, on: { click: pick } }, text));
    };
    const sim = (a) => { const s = simulated(a); return s.length ? `${Math.max(...s.map((x) => x.conflict_ways))} (${s.reduce((n, x) => n + x.requests, 0)} seen)` : "–"; };
    const anySim = found.some(([a]) => simulated(a).length);
    costs.append(h("table", { class: "tb-table tb-ways" }, h("caption", {}, "ways of each access (1: no conflict), predicted; by swizzle"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "access"), ...options.map(([k]) => h("th", { scope: "col" }, SHORT[k])), anySim ? h("th", { scope: "col" }, "simulated") : null)),
      h("tbody", {}, ...found.map(([a, k]) => h("tr", {}, h("th", { scope: "row" }, a.kind.replace(".shared", ""), " ", a.line ? lineButton(a.line, act, { buffer: a.buffer, ...(a.op ? { op: a.op } : {}) }) : null), ...options.map(([name]) => cell(a, k, name)), anySim ? h("td", {}, sim(a)) : null)))));
  }

  function light() {
    const rings = [];
    let mask = null;
    for (const sel of lit(act.now())) {
      if (phase) {
        const a = chosen();
        if (Number.isInteger(sel.thread) && sel.thread >> 5 === a.warp) for (const [key, hit] of phase.cells) if (hit.lanes.includes(sel.thread & 31)) rings.push([Math.floor(key / 32), key % 32]);
        if (own.banks && Number.isInteger(sel.bank)) { mask ??= new Uint8Array(rows * 32); for (let r = 0; r < rows; r++) mask[r * 32 + (sel.bank & 31)] = 1; }
        continue;
      }
      if (sel.buffer === info.buffer && sel.coord?.length === info.shape.length && sel.coord.every((x, d) => x >= 0 && x < info.shape[d])) {
        const word = (bytes[math.flatten(info.shape, sel.coord)] >> 2) - from * 32;
        if (word >= 0 && word < at.length) rings.push([Math.floor(word / 32), word % 32]);
      } else if (Number.isInteger(sel.byte) && sel.byte >= start + from * 128 && (sel.byte - start) >> 2 < from * 32 + at.length) {
        rings.push([Math.floor((sel.byte - start) / 128) - from, ((sel.byte - start) >> 2) & 31]);
      } else if (Number.isInteger(sel.bank) && !own.banks) {
        mask ??= new Uint8Array(rows * 32);
        for (let r = 0; r < rows; r++) mask[r * 32 + ((sel.bank - (start >> 2)) & 31)] = 1;
      }
      if (own.banks && Number.isInteger(sel.bank)) {
        mask ??= new Uint8Array(rows * 32);
        for (let r = 0; r < rows; r++) mask[r * 32 + ((sel.bank - (start >> 2)) & 31)] = 1;
      }
    }
    if (phase && mask) for (let c = 0; c < 32; c++) mask[(rows - 2) * 32 + c] = 1;
    if (phase) for (const [key] of phase.cells) if (phase.banks[key % 32] > 1) rings.push([Math.floor(key / 32), key % 32]);
    g.light(mask, rings);
  }

  function toolbar() {
    empty(tools);
    const list = accesses();
    const a = chosen();
    tools.append(
      choice("buffer", infos.map((i) => [i.buffer, `${i.buffer} ${i.shape.join("×")}`]), info.buffer, show),
      choice("show", [["-1", "the tile"], ...list.map(([x, k]) => [String(k), `${x.kind.replace(".shared", "")} line ${x.line}`])], String(own.access ?? -1), (v) => { own.access = Number(v); own.phase = undefined; toolbar(); repaint(); }),
      info.table ? h("span", {}, "user's table") : choice("what if the swizzle were", SWIZZLES.filter(([k]) => variant(info, k)), own.swizzle, (v) => { own.swizzle = v; own.phase = undefined; toolbar(); repaint(); }),
    );
    if (a?.addresses.length) {
      const count = a.addresses.length / math.phaseLanes(a.width_bytes);
      if (count > 1) tools.append(choice("phase", Array.from({ length: count }, (_, k) => [String(k), `${k + 1} of ${count}`]), String(own.phase ?? 0), (v) => { own.phase = Number(v); repaint(); }));
    }
    tools.append(sliding);
  }

  function show(buffer) {
    info = infos.find((i) => i.buffer === buffer) ?? infos[0];
    own.buffer = info.buffer;
    if (!variant(info, own.swizzle)) own.swizzle = "own";
    if (!chosen()) { own.access = -1; own.phase = undefined; }
    from = 0;
    slider.value = "0";
    empty(why);
    const links = info.chain?.length ? info.chain : info.reason ? [{ text: `${info.buffer}: ${info.reason}`, line: info.reason_line }] : [];
    if (links.length) why.append(h("b", {}, "why: "), links[0].text, " ", links[0].line ? lineButton(links[0].line, act, { buffer: info.buffer }) : "");
    toolbar();
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
  return () => { off(); endMap(); g.end(); };
}

/** "2-way conflict" @param {number} n */
function ways(n) {
  return n > 1 ? `${n}-way conflict` : "1-way, no conflict";
}
