// The arithmetic of layouts, in the browser: the same functions as layouts/fragment.py and layouts/shared.py, checked
// against them with shared vectors. No DOM here.

/** @typedef {{size: number, dim: number, stride: number}} Digit one digit of an index; dim -1 is a replica */
/** @typedef {{dtype: string, shape: number[], base64: string}} Packed a NumPy array in JSON */
/**
 * @typedef {Object} LayoutInfo
 * @property {string} buffer
 * @property {"fragment"|"shared"} kind
 * @property {number[]} shape
 * @property {number} itemsize_bits
 * @property {number} threads
 * @property {number} registers
 * @property {number} replication
 * @property {Digit[]} reg
 * @property {Digit[]} thread
 * @property {number[]} strides
 * @property {number} panel
 * @property {number} panel_stride
 * @property {[number, number, number]} swizzle bits, base, shift on bytes
 * @property {Packed|null} table
 * @property {string} formula
 * @property {string} reason
 * @property {number} reason_line
 * @property {any[]} [chain] why it is so, cause by cause
 */
/**
 * @typedef {Object} Holders who holds what; elements are row-major numbers
 * @property {number} threads
 * @property {number} registers
 * @property {Int32Array} element [thread * registers + register], -1 for none
 * @property {Int32Array} thread the lowest holder of each element, -1 for nobody
 * @property {Int32Array} register its register
 * @property {Int32Array} count how many hold it
 */

const ARRAYS = {
  "<f4": Float32Array, "<f8": Float64Array, "<i4": Int32Array, "<i2": Int16Array, "<u2": Uint16Array, "<u4": Uint32Array,
  "|u1": Uint8Array, "|i1": Int8Array,
};

/** The numbers of a packed array, as a plain typed array. @param {Packed} packed @returns {ArrayLike<number>} */
export function unpack(packed) {
  const text = atob(packed.base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  if (packed.dtype === "<i8") return Int32Array.from(new BigInt64Array(bytes.buffer), Number);
  if (packed.dtype === "<f2") return Float32Array.from(new Uint16Array(bytes.buffer), half);
  const kind = ARRAYS[packed.dtype];
  if (!kind) throw new Error(`no array of dtype ${packed.dtype}`);
  return new kind(bytes.buffer);
}

/** The value of a half-precision number from its bits. @param {number} bits */
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

/** @param {number[]} shape */
export function product(shape) {
  return shape.reduce((a, b) => a * b, 1);
}

/** Coordinates of every value of an index, [total * rank]. @param {Digit[]} digits @param {number} rank */
export function enumerate(digits, rank) {
  let out = new Int32Array(rank);
  let total = 1;
  for (const d of digits) {
    const next = new Int32Array(total * d.size * rank);
    for (let k = 0; k < d.size; k++) {
      next.set(out, k * total * rank);
      if (d.dim >= 0) for (let i = 0; i < total; i++) next[(k * total + i) * rank + d.dim] += k * d.stride;
    }
    out = next;
    total *= d.size;
  }
  return out;
}

/** Everybody's elements, and each element's holders. @param {LayoutInfo} info @returns {Holders} */
export function holders(info) {
  const { shape, threads, registers } = info;
  const rank = shape.length, size = product(shape);
  let element;
  if (info.table) {
    element = Int32Array.from(unpack(info.table));
  } else {
    const byThread = enumerate(info.thread, rank), byReg = enumerate(info.reg, rank);
    element = new Int32Array(threads * registers);
    for (let t = 0; t < threads; t++) {
      for (let r = 0; r < registers; r++) {
        let flat = 0;
        for (let d = 0; d < rank; d++) {
          const x = byThread[t * rank + d] + byReg[r * rank + d];
          if (x < 0 || x >= shape[d]) { flat = -1; break; }
          flat = flat * shape[d] + x;
        }
        element[t * registers + r] = flat;
      }
    }
  }
  const thread = new Int32Array(size).fill(-1), register = new Int32Array(size).fill(-1), count = new Int32Array(size);
  for (let p = 0; p < element.length; p++) {
    const e = element[p];
    if (e < 0 || e >= size) continue;
    if (count[e]++ === 0) { thread[e] = Math.floor(p / registers); register[e] = p % registers; }
  }
  return { threads, registers, element, thread, register, count };
}

/** All (thread, register) of an element. @param {Holders} held @param {number} element @returns {number[][]} */
export function holdersOf(held, element) {
  const found = [];
  for (let p = 0; p < held.element.length; p++) {
    if (held.element[p] === element) found.push([Math.floor(p / held.registers), p % held.registers]);
  }
  return found;
}

/** The dimension that panels cut: the last of stride 1 with more than one index. @param {LayoutInfo} info */
export function innerOf(info) {
  for (let d = info.shape.length - 1; d >= 0; d--) if (info.strides[d] === 1 && info.shape[d] > 1) return d;
  return info.shape.length - 1;
}

/**
 * Byte offset of every element of a shared tile, row-major. swizzle: instead of the layout's own.
 * @param {LayoutInfo} info @param {[number, number, number]} [swizzle]
 */
export function byteOffsets(info, swizzle = info.swizzle) {
  const size = product(info.shape), rank = info.shape.length, out = new Int32Array(size);
  if (info.table) {
    const table = unpack(info.table);
    for (let e = 0; e < size; e++) out[e] = Math.floor(table[e] * info.itemsize_bits / 8);
    return out;
  }
  const inner = innerOf(info);
  const [bits, base, shift] = swizzle;
  const mask = bits ? ((1 << bits) - 1) << base : 0;
  const index = new Int32Array(rank);
  for (let e = 0; e < size; e++) {
    let offset = 0;
    for (let d = 0; d < rank; d++) {
      const x = index[d];
      if (info.panel && d === inner && info.shape[d] > info.panel) {
        offset += Math.floor(x / info.panel) * info.panel_stride + (x % info.panel) * info.strides[d];
      } else offset += x * info.strides[d];
    }
    const byte = Math.floor(offset * info.itemsize_bits / 8);
    out[e] = mask ? byte ^ ((byte >> shift) & mask) : byte;
    for (let d = rank - 1; d >= 0; d--) {
      if (++index[d] < info.shape[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

/**
 * The same tile with a hardware swizzle of `span` bytes (0: plain rows), as layouts/shared.py's `swizzled` makes it; null where
 * a row is no multiple of the span. @param {LayoutInfo} info @param {number} span
 * @returns {LayoutInfo|null}
 */
export function reswizzled(info, span) {
  const rank = info.shape.length, bits = info.itemsize_bits;
  if (rank < 2) return span ? null : { ...info, table: null, strides: [1], panel: 0, panel_stride: 0, swizzle: [0, 4, 3] };
  const inner = info.table || innerOf(info) < rank - 2 ? rank - 1 : innerOf(info), outer = inner === rank - 1 ? rank - 2 : rank - 1;
  if (span && (info.shape[inner] * bits) % (span * 8)) return null;
  const strides = info.shape.map((_, d) => product(info.shape.slice(d + 1))), panel = span ? (span * 8) / bits : 0;
  strides[inner] = 1;
  strides[outer] = span ? panel : info.shape[inner];
  return { ...info, table: null, strides, panel, panel_stride: span ? info.shape[outer] * panel : 0, swizzle: span ? [Math.log2(span / 16), 4, 3] : [0, 4, 3] };
}

/** Bytes of one copy of a shared tile, with what rounding up to its alignment adds. @param {LayoutInfo} info @param {Int32Array} bytes of its elements */
export function copyBytes(info, bytes) {
  let end = 0;
  for (const b of bytes) end = Math.max(end, b);
  end += Math.max(1, info.itemsize_bits / 8);
  const step = info.swizzle[0] ? 1024 : 16;
  return Math.ceil(end / step) * step;
}

/** Lanes that are served together for an access of so many bytes a lane. @param {number} width */
export function phaseLanes(width) {
  return width <= 4 ? 32 : width === 8 ? 16 : 8;
}

/**
 * The phases of a warp's access: for each, the lanes that take part with their bytes, and its ways.
 * @param {number[]} addresses 32 bytes, -1 for a lane that asks for nothing @param {number} width
 */
export function phasesOf(addresses, width) {
  const per = phaseLanes(width), out = [];
  for (let first = 0; first < addresses.length; first += per) {
    const lanes = [];
    for (let lane = first; lane < first + per; lane++) if (addresses[lane] >= 0) lanes.push({ lane, byte: addresses[lane] });
    out.push({ first, lanes, ways: lanes.length ? conflictWays(lanes.map((l) => l.byte), width) : 0 });
  }
  return out;
}

/** The bank of a byte of shared memory. @param {number} byte */
export function bankOf(byte) {
  return (byte >> 2) & 31;
}

/**
 * Ways of the bank conflict when threads read these bytes at once: the most distinct 4-byte words in one bank.
 * @param {number[]} bytes the first byte of each thread's piece @param {number} width bytes a thread
 */
export function conflictWays(bytes, width) {
  const words = Array.from({ length: 32 }, () => new Set());
  for (const b of bytes) for (let w = 0; w < width; w += 4) words[bankOf(b + w)].add((b + w) >> 2);
  return Math.max(...words.map((s) => s.size));
}

/** Row-major number of a coordinate. @param {number[]} shape @param {number[]} coord */
export function flatten(shape, coord) {
  return coord.reduce((flat, x, d) => flat * shape[d] + x, 0);
}

/** Coordinate of a row-major number. @param {number[]} shape @param {number} flat */
export function unflatten(shape, flat) {
  const coord = new Array(shape.length);
  for (let d = shape.length - 1; d >= 0; d--) { coord[d] = flat % shape[d]; flat = Math.floor(flat / shape[d]); }
  return coord;
}

/**
 * Rows and columns in which a tile is drawn, and the element in each cell. Rank 1 is wrapped; of more than two
 * dimensions the leading ones are fixed to slice number `slice`.
 * @param {number[]} shape @param {number} slice
 */
export function gridOf(shape, slice = 0) {
  if (shape.length === 1) {
    const columns = Math.min(16, shape[0]);
    const rows = Math.ceil(shape[0] / columns);
    return { rows, columns, slices: 1, elementAt: (r, c) => (r * columns + c < shape[0] ? r * columns + c : -1), cellOf: (e) => [Math.floor(e / columns), e % columns] };
  }
  const rows = shape[shape.length - 2], columns = shape[shape.length - 1];
  const base = slice * rows * columns;
  return {
    rows, columns, slices: product(shape.slice(0, -2)),
    elementAt: (r, c) => base + r * columns + c,
    cellOf: (e) => (e >= base && e < base + rows * columns ? [Math.floor((e - base) / columns), (e - base) % columns] : null),
  };
}

/**
 * Rows and columns of a tile seen along two of its dimensions, the others fixed.
 * @param {number[]} shape @param {number} rowDim @param {number} columnDim @param {number[]} fixed a coordinate; its row and column do not matter
 */
export function planeOf(shape, rowDim, columnDim, fixed) {
  const strides = shape.map((_, d) => product(shape.slice(d + 1)));
  const base = fixed.reduce((sum, x, d) => (d === rowDim || d === columnDim ? sum : sum + x * strides[d]), 0);
  return {
    rows: shape[rowDim], columns: shape[columnDim],
    elementAt: (r, c) => base + r * strides[rowDim] + c * strides[columnDim],
    cellOf: (e) => {
      const at = unflatten(shape, e);
      return at.every((x, d) => d === rowDim || d === columnDim || x === fixed[d]) ? [at[rowDim], at[columnDim]] : null;
    },
  };
}

/**
 * A grid that is much wider than high (or higher than wide) cut into bands that are stacked, so that its cells are as large as
 * the room allows; the same grid when that gains little. bands: the first row (or column) of each.
 * @param {{rows: number, columns: number, elementAt: (r: number, c: number) => number, cellOf: (e: number) => any}} tile
 * @param {number} width @param {number} height room in pixels @param {number} [largest] of a cell @param {number} [aspect]
 */
export function wrapped(tile, width, height, largest = 30, aspect = 1) {
  const plain = Math.min(largest, width / (tile.columns * aspect), height / tile.rows);
  let best = { s: plain * 1.4, columns: 0, rows: 0 };
  for (let n = 8; n < Math.max(tile.columns, tile.rows); n *= 2) {
    if (n < tile.columns && tile.columns > 2 * tile.rows) {
      const count = Math.ceil(tile.columns / n), s = Math.min(largest, width / (n * aspect), height / (count * (tile.rows + 1) - 1));
      if (s > best.s) best = { s, columns: n, rows: 0 };
    }
    if (n < tile.rows && tile.rows > 2 * tile.columns) {
      const count = Math.ceil(tile.rows / n), s = Math.min(largest, width / ((count * (tile.columns + 1) - 1) * aspect), height / n);
      if (s > best.s) best = { s, columns: 0, rows: n };
    }
  }
  if (best.columns) {
    const n = best.columns, step = tile.rows + 1, count = Math.ceil(tile.columns / n);
    return {
      rows: count * step - 1, columns: n, along: "columns", size: n, count,
      elementAt: (r, c) => { const at = Math.floor(r / step) * n + c; return r % step === tile.rows || at >= tile.columns ? -1 : tile.elementAt(r % step, at); },
      cellOf: (e) => { const at = tile.cellOf(e); return at && [Math.floor(at[1] / n) * step + at[0], at[1] % n]; },
      isGap: (r, c) => r % step === tile.rows || Math.floor(r / step) * n + c >= tile.columns,
      origin: (r, c) => [r % step, Math.floor(r / step) * n + c],
    };
  }
  if (best.rows) {
    const n = best.rows, step = tile.columns + 1, count = Math.ceil(tile.rows / n);
    return {
      rows: n, columns: count * step - 1, along: "rows", size: n, count,
      elementAt: (r, c) => { const at = Math.floor(c / step) * n + r; return c % step === tile.columns || at >= tile.rows ? -1 : tile.elementAt(at, c % step); },
      cellOf: (e) => { const at = tile.cellOf(e); return at && [at[0] % n, Math.floor(at[0] / n) * step + at[1]]; },
      isGap: (r, c) => c % step === tile.columns || Math.floor(c / step) * n + r >= tile.rows,
      origin: (r, c) => [Math.floor(c / step) * n + r, c % step],
    };
  }
  return { ...tile, along: "", size: 0, count: 1, isGap: () => false, origin: (r, c) => [r, c] };
}

/**
 * The layout as columns over bits: for each bit of the register and of the thread index, which bit of which dimension it sets.
 * null when it is not linear over bits. @param {LayoutInfo} info
 * @returns {{side: "register"|"thread", bit: number, dim: number, at: number}[]|null} dim -1: a replica
 */
export function bases(info) {
  if (info.table) return null;
  /** @type {{side: "register"|"thread", bit: number, dim: number, at: number}[]} */
  const out = [];
  const used = info.shape.map(() => 0), power = (n) => n > 0 && (n & (n - 1)) === 0;
  for (const [side, digits] of /** @type {const} */ ([["register", info.reg], ["thread", info.thread]])) {
    let bit = 0;
    for (const d of digits) {
      if (!power(d.size) || (d.dim >= 0 && !power(d.stride))) return null;
      for (let k = 1; k < d.size; k *= 2, bit++) {
        const at = d.dim >= 0 ? Math.log2(d.stride * k) : 0;
        if (d.dim >= 0) {
          if (used[d.dim] & (1 << at)) return null;
          used[d.dim] |= 1 << at;
        }
        out.push({ side, bit, dim: d.dim, at });
      }
    }
  }
  return out;
}

/**
 * Who holds what in one mma.m16n8: digits of operand A (16, k), B (k, 8) and C (16, 8) for operands of so many bits, as in
 * layouts/atoms.py. @param {number} bits
 */
export function mmaAtom(bits) {
  const e = 32 / bits, k = 256 / bits, digit = (size, dim, stride) => ({ size, dim, stride });
  const make = (shape, reg, thread) => ({
    buffer: "", kind: "fragment", shape, itemsize_bits: bits, threads: 32, registers: reg.reduce((n, d) => n * d.size, 1), replication: 1,
    reg, thread, strides: [], panel: 0, panel_stride: 0, swizzle: [0, 0, 0], table: null, formula: "", reason: "", reason_line: 0,
  });
  return {
    k,
    a: make([16, k], [digit(e, 1, 1), digit(2, 0, 8), digit(2, 1, 4 * e)], [digit(4, 1, e), digit(8, 0, 1)]),
    b: make([k, 8], [digit(e, 0, 1), digit(2, 0, 4 * e)], [digit(4, 0, e), digit(8, 1, 1)]),
    c: make([16, 8], [digit(2, 1, 1), digit(2, 0, 8)], [digit(4, 1, 2), digit(8, 0, 1)]),
  };
}

/**
 * Who holds A (64, k) from registers and C (64, n) in one wgmma: the mma of each of four warps, as in layouts/atoms.py.
 * @param {number} bits of the operands @param {number} n
 */
export function wgmmaAtom(bits, n) {
  const one = mmaAtom(bits), digit = (size, dim, stride) => ({ size, dim, stride });
  const warps = (atom, shape, reg) => ({ ...atom, shape, threads: 128, reg, registers: reg.reduce((x, d) => x * d.size, 1), thread: [...atom.thread, digit(4, 0, 16)] });
  return { k: one.k, a: warps(one.a, [64, one.k], one.a.reg), c: warps(one.c, [64, n], [...one.c.reg, digit(n / 8, 1, 8)]) };
}

/** "0–15, 64–79" of ascending numbers. @param {Iterable<number>} numbers */
export function ranges(numbers) {
  const out = [];
  for (const x of numbers) {
    const last = out[out.length - 1];
    if (last && last[1] === x - 1) last[1] = x; else out.push([x, x]);
  }
  return out.map(([a, b]) => (a === b ? String(a) : `${a}–${b}`)).join(", ");
}

/** "(3, 17)" @param {number[]} coord */
export function coordText(coord) {
  return coord.length === 2 ? `row ${coord[0]} column ${coord[1]}` : coord.length === 1 ? `element ${coord[0]}` : `element (${coord.join(", ")})`;
}

/**
 * A formula with the chosen numbers put in: names are replaced as whole words.
 * @param {string} formula @param {Record<string, number>} values
 */
export function substitute(formula, values) {
  return formula.replace(/\b[a-z]\w*\b/g, (word) => (word in values ? String(values[word]) : word));
}

/** What the text of "go to" means: {thread}, {coord}, {byte} or null. @param {string} text */
export function parseGoto(text) {
  let m = /^\s*[tT]\s*(\d+)\s*(?:[:,rRvV\s]\s*[rRvV]?(\d+)\s*)?$/.exec(text);
  if (m) return m[2] === undefined ? { thread: Number(m[1]) } : { thread: Number(m[1]), reg: Number(m[2]) };
  m = /^\s*(?:byte|b)\s*(\d+)\s*$/i.exec(text);
  if (m) return { byte: Number(m[1]) };
  m = /^\s*\(?\s*(\d+(?:\s*,\s*\d+)*)\s*\)?\s*$/.exec(text);
  return m ? { coord: m[1].split(",").map(Number) } : null;
}
