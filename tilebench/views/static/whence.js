// Who wrote an element of a tensor: the op, its line, the block, and the thread and register that held it. No DOM here.
import { product, flatten, holders, unpack } from "./math.js";

const HELD = new WeakMap();

/** @param {any} info */
function heldBy(info) {
  let held = HELD.get(info);
  if (!held) { held = holders(info); HELD.set(info, held); }
  return held;
}

/** The block whose box holds a coordinate, with where the box starts; null when none does. @param {any} slice a SliceInfo @param {number[]} grid @param {number[]} coord */
export function blockOf(slice, grid, coord) {
  const rank = slice.extents.length;
  const inside = (start) => start.every((x, d) => coord[d] >= x && coord[d] < x + slice.extents[d]);
  const extents = grid.length ? grid : [1], total = Math.min(product(extents), 1 << 20);
  const table = slice.table ? unpack(slice.table) : null;
  const index = extents.map(() => 0);
  for (let n = 0; n < total; n++) {
    const start = table
      ? Array.from({ length: rank }, (_, d) => table[n * rank + d])
      : slice.base.map((b, d) => b + (slice.blocks[d] ?? []).reduce((sum, step, axis) => sum + step * (index[axis] ?? 0), 0));
    for (let t = 0; t < Math.max(1, slice.trips); t++) {
      const now = start.map((x, d) => x + (slice.loop[d] ?? 0) * t);
      if (inside(now)) return { block: [...index], start: now };
      if (!slice.loop.some(Boolean)) break;
    }
    for (let axis = 0; axis < index.length; axis++) { if (++index[axis] < extents[axis]) break; index[axis] = 0; }
  }
  return null;
}

/**
 * What is known of the writer of an element of an output: line, op, instr (what carries the op out), block, and, where a fragment was
 * copied or a loop wrote it, the buffer, coord, thread and reg that it came from.
 * @param {any} report @param {string} output @param {number[]} coord
 */
export function whence(report, output, coord) {
  const op = [...report.ops].reverse().find((o) => o.writes.includes(output));
  /** @type {Record<string, any>} */
  const out = {};
  if (!op) return out;
  out.op = op.id;
  if (op.span) out.line = op.span.line;
  const access = (report.accesses ?? []).find((a) => a.op === op.id && a.buffer === output) ?? (report.accesses ?? []).find((a) => a.op === op.id);
  out.instr = op.instruction || access?.kind || op.name;
  const slice = (op.slices ?? []).find((s) => s.buffer === output && s.mode === "write");
  const found = slice ? blockOf(slice, report.resources.grid, coord) : null;
  if (found) out.block = found.block;
  const loop = op.span ? report.layouts.find((l) => l.kind === "fragment" && l.buffer === `loop@${op.span.line}`) : null;
  const info = op.name === "parallel" ? loop : report.layouts.find((l) => l.kind === "fragment" && op.reads.includes(l.buffer));
  if (!info) return out;
  const extents = slice ? slice.extents : info.shape, size = product(info.shape);
  if (product(extents) !== size && slice) return out;
  const inside = found ? coord.map((x, d) => x - found.start[d]) : coord.slice(coord.length - info.shape.length).map((x, d) => x % info.shape[d]);
  const shape = found ? slice.extents : info.shape;
  if (inside.some((x, d) => x < 0 || x >= shape[d])) return out;
  const element = flatten(shape, inside), held = heldBy(info);
  if (held.thread[element] < 0) return out;
  out.thread = held.thread[element];
  out.reg = held.register[element];
  if (!info.buffer.startsWith("loop@")) { out.from = info.buffer; out.element = element; }
  return out;
}
