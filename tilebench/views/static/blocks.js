// Blocks and the parts of tensors that they touch: arithmetic of report.SliceInfo. No DOM here.
import { product, unpack } from "./math.js";

/** @typedef {{buffer: string, mode: string, extents: number[], base: number[], blocks: number[][], loop: number[], trips: number, table: any}} Slice */

/** Every slice with its op, one for each tensor, mode and place. @param {any} report @returns {{op: any, slice: Slice, starts: ArrayLike<number>|null}[]} */
export function slicesOf(report) {
  const seen = new Set(), out = [];
  for (const op of report.ops) {
    for (const slice of op.slices ?? []) {
      const key = JSON.stringify([slice.buffer, slice.mode, slice.extents, slice.base, slice.blocks, slice.loop, slice.trips, slice.table?.base64]);
      if (seen.has(key)) continue;
      seen.add(key);
      out.push({ op, slice, starts: slice.table ? unpack(slice.table) : null });
    }
  }
  return out;
}

/** Where a block's box starts in an iteration. @param {{slice: Slice, starts: ArrayLike<number>|null}} s @param {number[]} block @param {number} iteration @param {number[]} grid */
export function startOf({ slice, starts }, block, iteration, grid) {
  const number = block.reduceRight((n, x, a) => n * (grid[a] ?? 1) + x, 0), rank = slice.extents.length;
  return slice.extents.map((_, d) => (starts ? starts[number * rank + d] : slice.base[d] + slice.blocks[d].reduce((sum, c, a) => sum + c * (block[a] ?? 0), 0)) + slice.loop[d] * iteration);
}

/** The box of a block over all iterations: [start, extent] for each dimension, cut to the tensor. @param {any} s @param {number[]} block @param {number[]} grid @param {number[]} shape */
export function boxOf(s, block, grid, shape) {
  return startOf(s, block, 0, grid).map((from, d) => {
    const end = Math.min(shape[d], from + s.slice.extents[d] + s.slice.loop[d] * (s.slice.trips - 1));
    return [Math.max(0, from), Math.max(0, end - Math.max(0, from))];
  });
}

/** Every block of a grid, axis 0 fastest. @param {number[]} grid */
export function blocksOf(grid) {
  return Array.from({ length: product(grid) }, (_, n) => grid.map((size) => { const x = n % size; n = Math.floor(n / size); return x; }));
}

/**
 * How often each byte of a tensor is asked for by different blocks: bytes that all blocks ask for over bytes that there are in
 * those boxes. Boxes of blocks are taken as equal or apart; null for a grid of more than 65,536 blocks.
 * @param {any} s @param {number[]} grid @param {number[]} shape @param {number} itemsize
 */
export function reuse(s, grid, shape, itemsize) {
  if (product(grid) > 65536) return null;
  const boxes = new Map();
  let asked = 0;
  for (const block of blocksOf(grid)) {
    const box = boxOf(s, block, grid, shape), size = product(box.map(([, n]) => n)), key = box.join(";");
    asked += size;
    boxes.set(key, size);
  }
  let distinct = 0;
  for (const n of boxes.values()) distinct += n;
  distinct = Math.min(distinct, product(shape));
  return { asked: asked * itemsize, distinct: distinct * itemsize, times: distinct ? asked / distinct : 0, boxes: boxes.size };
}

/** The block that writes an element, null when none is known. @param {any} report @param {number[]} grid @param {string} buffer @param {number[]} coord */
export function writerOf(report, grid, buffer, coord) {
  const shape = report.params.find((p) => p.name === buffer)?.shape;
  if (!shape || shape.length !== coord.length || product(grid) > 65536) return null;
  for (const s of slicesOf(report)) {
    if (s.slice.buffer !== buffer || s.slice.mode !== "write") continue;
    for (const block of blocksOf(grid)) if (boxOf(s, block, grid, shape).every(([from, n], d) => coord[d] >= from && coord[d] < from + n)) return block;
  }
  return null;
}
