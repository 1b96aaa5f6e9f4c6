// A recorded block: what every buffer held after every step, who wrote an element, where it came from. No DOM here.
// The same codes as views/trace.py.
import { product, flatten, unflatten, holders } from "./math.js";

const WIDTH = { f4: 4, f8: 8, i4: 4, u1: 1, f2: 2, b2: 2, q1: 1, e1: 1 };
const HALVES = new Float64Array(65536);
let halvesReady = false;

/** All float16 values, once. */
function halves() {
  if (!halvesReady) {
    for (let b = 0; b < 65536; b++) {
      const sign = b & 0x8000 ? -1 : 1, e = (b >> 10) & 31, f = b & 1023;
      HALVES[b] = e === 31 ? (f ? NaN : sign * Infinity) : sign * (e ? 2 ** (e - 15) * (1 + f / 1024) : 2 ** -14 * (f / 1024));
    }
    halvesReady = true;
  }
  return HALVES;
}

/** `count` values from byte `at`. @param {Uint8Array} bytes @param {number} at @param {number} count @param {string} code @param {number} low @param {number} high */
export function decode(bytes, at, count, code, low = 0, high = 0) {
  const out = new Float64Array(count), n = count;
  if (code === "q1") {
    const step = (high - low) / 252;
    for (let i = 0; i < n; i++) { const c = bytes[at + i]; out[i] = c === 255 ? NaN : c === 254 ? Infinity : c === 253 ? -Infinity : low + c * step; }
  } else if (code === "e1") {
    for (let i = 0; i < n; i++) { const c = bytes[at + i]; out[i] = c === 255 ? NaN : c === 254 ? Infinity : c ? 2 ** ((c - 1) / 2.5 - 50) : 0; }
  } else if (code === "u1") {
    for (let i = 0; i < n; i++) out[i] = bytes[at + i];
  } else if (code === "f2") {
    const table = halves();
    for (let i = 0; i < n; i++) out[i] = table[bytes[at + i] | (bytes[at + n + i] << 8)];
  } else if (code === "f8") {
    const word = new Uint8Array(8 * n);
    for (let k = 0; k < 8; k++) for (let i = 0; i < n; i++) word[8 * i + k] = bytes[at + k * n + i];
    out.set(new Float64Array(word.buffer));
  } else {
    const word = new Uint32Array(n);
    if (code === "b2") for (let i = 0; i < n; i++) word[i] = (bytes[at + i] << 16) | (bytes[at + n + i] << 24);
    else for (let i = 0; i < n; i++) word[i] = bytes[at + i] | (bytes[at + n + i] << 8) | (bytes[at + 2 * n + i] << 16) | (bytes[at + 3 * n + i] << 24);
    out.set(code === "i4" ? new Int32Array(word.buffer) : new Float32Array(word.buffer));
  }
  return out;
}

/** The bytes of a packed, deflated array. @param {{base64: string}|null} packed */
export async function inflated(packed) {
  if (!packed || !packed.base64) return new Uint8Array(0);
  const text = atob(packed.base64), raw = new Uint8Array(text.length);
  for (let i = 0; i < raw.length; i++) raw[i] = text.charCodeAt(i);
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Calls back with each element of a box, as its number in the buffer and its number in the box. @param {number[]} shape @param {number[]} box @param {(e: number, k: number) => void} fn */
export function eachOf(shape, box, fn) {
  const rank = shape.length;
  if (rank === 0) { fn(0, 0); return; }
  const total = product(box.slice(rank)), inner = box[2 * rank - 1];
  const at = box.slice(0, rank);
  for (let k = 0; k < total; k += inner) {
    let flat = 0;
    for (let d = 0; d < rank; d++) flat = flat * shape[d] + at[d];
    for (let i = 0; i < inner; i++) fn(flat + i, k + i);
    for (let d = rank - 2; d >= 0; d--) {
      if (++at[d] < box[d] + box[rank + d]) break;
      at[d] = box[d];
    }
  }
}

/** @typedef {{values: Float64Array, written: Uint8Array}} State what a buffer holds; written: 1 where something was */

/** The trace with its data, ready to be asked. @param {any} trace @param {Uint8Array} bytes */
export function open(trace, bytes) {
  const { buffers, steps, sites } = trace;
  const sizes = buffers.map((b) => product(b.shape));
  /** @type {{step: number, w: any}[][]} */
  const versions = buffers.map(() => []);
  /** @type {{step: number, c: any}[][]} */
  const checks = buffers.map(() => []);
  steps.forEach((s, k) => {
    for (const w of s.writes) versions[w.buffer].push({ step: k, w });
    for (const c of s.checks) checks[c.buffer].push({ step: k, c });
  });
  /** @type {Map<number, State>[]} */
  const cache = buffers.map(() => new Map());
  const outer = loopOf(trace);

  /** The version of a buffer that is in force after a step, -1 for none. @param {number} b @param {number} step */
  function versionAt(b, step) {
    const list = versions[b];
    let low = 0, high = list.length;
    while (low < high) { const mid = (low + high) >> 1; if (list[mid].step <= step) low = mid + 1; else high = mid; }
    return low - 1;
  }

  const whole = (b, w) => w.mask_at < 0 && w.at >= 0 && buffers[b].shape.every((n, d, all) => w.box[d] === 0 && w.box[all.length + d] === n);

  /** Which elements of its box a write wrote. @param {any} w */
  const wrote = (w) => (w.mask_at < 0 ? () => true : (k) => Boolean((bytes[w.mask_at + (k >> 3)] >> (k & 7)) & 1));

  function apply(state, b, w) {
    const shape = buffers[b].shape, count = product(w.box.slice(shape.length));
    const values = w.at >= 0 ? decode(bytes, w.at, count, w.code, w.low, w.high) : null, on = wrote(w);
    eachOf(shape, w.box, (e, k) => {
      if (values) state.values[e] = values[k];
      if (on(k)) state.written[e] = 1;
    });
  }

  /** What a version left. @param {number} b @param {number} v @returns {State} */
  function stateOf(b, v) {
    const known = cache[b].get(v);
    if (known) return known;
    const size = sizes[b], list = versions[b];
    let state, from = v;
    if (v >= 0 && whole(b, list[v].w)) {
      const w = list[v].w;
      state = { values: decode(bytes, w.at, size, w.code, w.low, w.high), written: new Uint8Array(size).fill(1) };
    } else {
      while (from >= 0 && !cache[b].has(from) && !whole(b, list[from].w)) from--;
      const base = from < 0 ? null : cache[b].get(from) ?? stateOf(b, from);
      state = base ? { values: base.values.slice(), written: base.written.slice() } : { values: new Float64Array(size).fill(NaN), written: new Uint8Array(size) };
      for (let k = from + 1; k <= v; k++) apply(state, b, list[k].w);
    }
    if (cache[b].size >= 24) cache[b].delete(cache[b].keys().next().value);
    cache[b].set(v, state);
    return state;
  }

  /** What a buffer held after a step (-1: before the first). @param {number} b @param {number} step */
  const at = (b, step) => stateOf(b, versionAt(b, step));

  /** Whether a write of step `k` wrote element `e` of buffer `b`. */
  function wroteAt(k, b, e) {
    const shape = buffers[b].shape, rank = shape.length, coord = unflatten(shape, e);
    return steps[k].writes.some((w) => {
      if (w.buffer !== b) return false;
      let place = 0;
      for (let d = 0; d < rank; d++) {
        const x = coord[d] - w.box[d];
        if (x < 0 || x >= w.box[rank + d]) return false;
        place = place * w.box[rank + d] + x;
      }
      return wrote(w)(place);
    });
  }

  /** The steps that wrote an element, the last first, up to `step`. @param {number} b @param {number} e @param {number} step @param {number} limit */
  function writers(b, e, step, limit = 12) {
    const found = [];
    for (let v = versionAt(b, step); v >= 0 && found.length < limit; v--) {
      const k = versions[b][v].step;
      if (found[found.length - 1] !== k && wroteAt(k, b, e)) found.push(k);
    }
    return found;
  }

  /**
   * Where an element's value came from: its last writer, and through copies on to the one that computed it.
   * @param {number} b @param {number} e @param {number} step @returns {{buffer: number, element: number, step: number}[]}
   */
  function origin(b, e, step) {
    const chain = [];
    for (let depth = 0; depth < 8; depth++) {
      const last = writers(b, e, step, 1)[0];
      if (last === undefined) break;
      chain.push({ buffer: b, element: e, step: last });
      const s = steps[last];
      if (sites[s.site].name !== "copy") break;
      const shape = buffers[b].shape, rank = shape.length, w = s.writes.find((x) => x.buffer === b);
      const read = s.reads.find((r) => r.buffer !== b && product(r.box.slice(r.box.length / 2)) === product(w.box.slice(rank)));
      if (!read || !versions[read.buffer].length) break;
      const inside = flatten(w.box.slice(rank), unflatten(shape, e).map((x, d) => x - w.box[d]));
      const from = read.box.length / 2, coord = unflatten(read.box.slice(from), inside).map((x, d) => x + read.box[d]);
      b = read.buffer;
      e = flatten(buffers[b].shape, coord);
      step = last - 1;
    }
    return chain;
  }

  /** The map of differences of the last check of a buffer up to a step. @param {number} b @param {number} step */
  function checkAt(b, step) {
    let found = null;
    for (const c of checks[b]) { if (c.step > step) break; found = c; }
    if (!found || found.c.at < 0) return found ? { ...found, error: null } : null;
    const shape = buffers[b].shape, rank = shape.length, error = new Float64Array(sizes[b]);
    const values = decode(bytes, found.c.at, product(found.c.box.slice(rank)), "e1");
    eachOf(shape, found.c.box, (e, k) => { error[e] = values[k]; });
    return { ...found, error };
  }

  /** The iteration of the outermost loop that a step is in, or null. @param {number} k */
  const iteration = (k) => (outer && sites[steps[k].site].vars[0] === outer ? steps[k].at[0] : null);

  return {
    trace, buffers, steps, sites, sizes, versions, checks, outer, at, versionAt, stateOf, wroteAt, writers, origin, checkAt, iteration,
    byName: new Map(buffers.map((b, i) => [b.name, i])),
    /** Which elements a step's write of a buffer wrote. @param {number} k @param {number} b */
    mask(k, b) {
      const out = new Uint8Array(sizes[b]);
      for (const w of steps[k].writes) if (w.buffer === b) { const on = wrote(w); eachOf(buffers[b].shape, w.box, (e, i) => { if (on(i)) out[e] = 1; }); }
      return out;
    },
    /** The step's number in the whole run. @param {number} k */
    number: (k) => (trace.kept.length ? trace.kept[k] : k),
  };
}

/** The variable of the outermost loop that most steps are in. @param {any} trace */
export function loopOf(trace) {
  const counts = new Map();
  for (const s of trace.steps) {
    const name = trace.sites[s.site].vars[0];
    if (name) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "";
}

/** Runs of steps of one iteration: {from, to, iteration}. @param {ReturnType<typeof open>} m */
export function bands(m) {
  const out = [];
  m.steps.forEach((_, k) => {
    const i = m.iteration(k), last = out[out.length - 1];
    if (last && last.iteration === i) last.to = k; else out.push({ from: k, to: k, iteration: i });
  });
  return out;
}

/** Who holds an element of a buffer, by the layouts of the report: {thread, reg}, or null. @param {any} report @param {any} buffer a TraceBuffer @param {number} element */
export function holderOf(report, buffer, element) {
  if (buffer.scope === "register" && buffer.shape.length === 2) {
    return { thread: buffer.first_thread + (element % buffer.shape[1]), reg: Math.floor(element / buffer.shape[1]) };
  }
  const info = report.layouts.find((l) => l.kind === "fragment" && l.buffer === buffer.name);
  if (!info || product(info.shape) !== product(buffer.shape)) return null;
  let held = HELD.get(info);
  if (!held) { held = holders(info); HELD.set(info, held); }
  return held.thread[element] >= 0 ? { thread: held.thread[element], reg: held.register[element] } : null;
}
const HELD = new WeakMap();
