// node --test: the browser's layout arithmetic against the vectors that Python wrote.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import * as math from "../../tilebench/views/static/math.js";
import * as layout from "../../tilebench/views/static/layout.js";
import { ldmatrixWays, moved, variant } from "../../tilebench/views/static/smem.js";
import { cleaned, busOf, buffersAt, heatColour, inkOn, LANES, WARPS, hues, ramp } from "../../tilebench/views/static/kit.js";
import { boxOf, reuse, slicesOf, startOf, writerOf } from "../../tilebench/views/static/blocks.js";
import { partsOf } from "../../tilebench/views/static/warps.js";
import { folds } from "../../tilebench/views/static/code.js";
import { about, byKind, isSpill, opcodeOf } from "../../tilebench/views/static/opcodes.js";
import { placed } from "../../tilebench/views/static/lifetimes.js";
import { baseOf, diff, diffWords, folded, rowsOf } from "../../tilebench/views/static/passes.js";
import { nice } from "../../tilebench/views/static/timeline.js";
import { restore, stateText } from "../../tilebench/views/static/board.js";

const read = (name) => JSON.parse(readFileSync(new URL(`../golden/${name}.json`, import.meta.url)));
const report = read("report_fixture");
const crc = (values) => crc32(Buffer.from(Int32Array.from(values).buffer));

const vectors = read("layout_vectors");

for (const c of vectors) {
  test(`${c.info.kind} ${c.name}: the same places as in Python`, () => {
    if (c.info.kind === "shared") {
      assert.equal(crc(math.byteOffsets(c.info)), c.bytes_crc);
      for (const [span, wanted] of Object.entries(c.swizzled_crc)) {
        const other = math.reswizzled(c.info, Number(span));
        assert.equal(other ? crc(math.byteOffsets(other)) : null, wanted, `swizzle of ${span} bytes`);
      }
      return;
    }
    const held = math.holders(c.info);
    if (c.thread) assert.deepEqual([...held.thread], c.thread);
    assert.equal(crc(held.element), c.elements_crc);
    assert.equal(crc(held.thread), c.thread_crc);
    assert.equal(crc(held.register), c.register_crc);
    assert.equal(crc(held.count), c.count_crc);
  });
}

test("holdersOf finds every holder of a replicated element", () => {
  const info = report.layouts.find((l) => l.buffer === "row_max");
  const held = math.holders(info);
  const all = math.holdersOf(held, 0);
  assert.equal(all.length, 8);
  assert.deepEqual(all[0], [0, 0]);
});

test("a swizzle takes an 8-way conflict away", () => {
  const info = report.layouts.find((l) => l.buffer === "B_shared");
  assert.equal(ldmatrixWays(info, math.byteOffsets(info)), 1);
  assert.equal(ldmatrixWays(info, math.byteOffsets(info, [0, 4, 3])), 8);
  assert.equal(math.conflictWays([0, 128, 256], 4), 3);
  assert.equal(math.conflictWays([0, 0, 0], 4), 1, "one word read by all is a broadcast");
});

test("phases of wide accesses are served a quarter at a time", () => {
  const rows = Array.from({ length: 32 }, (_, lane) => lane * 128);
  assert.deepEqual(math.phasesOf(rows, 16).map((p) => p.ways), [8, 8, 8, 8]);
  assert.deepEqual(math.phasesOf(rows, 4).map((p) => p.ways), [32]);
  assert.deepEqual(math.phasesOf(rows.map((b, k) => (k < 8 ? b : -1)), 16).map((p) => p.ways), [8, 0, 0, 0]);
});

test("an access asks for the same elements when the tile is laid out otherwise", () => {
  const info = report.layouts.find((l) => l.buffer === "B_shared"), access = report.accesses.find((a) => a.kind === "ldmatrix.trans");
  const plain = moved(info, variant(info, "none"), access.addresses, 24576);
  assert.deepEqual(plain.slice(0, 8), [0, 1, 2, 3, 4, 5, 6, 7].map((r) => 24576 + 256 * r), "rows of 256 bytes");
  assert.deepEqual(moved(info, info, access.addresses, 24576), access.addresses);
  assert.equal(variant(report.layouts.find((l) => l.buffer === "A_shared"), "128"), null, "rows of 64 bytes");
});

test("a strip is cut into bands, and each element has one cell", () => {
  const tile = math.gridOf([4, 512]), cut = math.wrapped(tile, 520, 440);
  assert.deepEqual([cut.rows, cut.columns, cut.count], [39, 64, 8]);
  const seen = new Set();
  for (let r = 0; r < cut.rows; r++) for (let c = 0; c < cut.columns; c++) {
    const e = cut.elementAt(r, c);
    if (e < 0) { assert.ok(cut.isGap(r, c)); continue; }
    assert.deepEqual(cut.cellOf(e), [r, c]);
    seen.add(e);
  }
  assert.equal(seen.size, 2048);
  assert.equal(math.wrapped(math.gridOf([128, 256]), 520, 440).along, "", "a tile that is no strip stays whole");
  const tall = math.wrapped(math.gridOf([512, 4]), 520, 440);
  assert.equal(tall.along, "rows");
  assert.equal(tall.elementAt(...tall.cellOf(1999)), 1999);
});

test("two dimensions of a tile of four are a plane", () => {
  const plane = math.planeOf([2, 3, 4, 5], 1, 3, [1, 0, 2, 0]);
  assert.deepEqual([plane.rows, plane.columns], [3, 5]);
  assert.equal(plane.elementAt(2, 4), math.flatten([2, 3, 4, 5], [1, 2, 2, 4]));
  assert.deepEqual(plane.cellOf(math.flatten([2, 3, 4, 5], [1, 2, 2, 4])), [2, 4]);
  assert.equal(plane.cellOf(0), null);
});

test("the bases of an accumulator say which bit moves what", () => {
  const found = math.bases(report.layouts[0]);
  assert.deepEqual(found[0], { side: "register", bit: 0, dim: 1, at: 0 });
  assert.deepEqual(found.find((b) => b.side === "thread" && b.bit === 2), { side: "thread", bit: 2, dim: 0, at: 0 });
  assert.equal(found.length, 14);
  assert.equal(math.bases(report.layouts[1]).filter((b) => b.dim < 0).length, 3, "8 holders");
  assert.equal(math.bases({ ...report.layouts[0], reg: [{ size: 3, dim: 0, stride: 1 }] }), null);
});

test("one instruction's operands are those of the whole accumulator", () => {
  const atom = math.mmaAtom(16), c = math.holders(atom.c), whole = math.holders(report.layouts[0]);
  assert.equal(atom.k, 16);
  for (let r = 0; r < 16; r++) for (let k = 0; k < 8; k++) {
    assert.equal(c.thread[r * 8 + k], whole.thread[r * 128 + k]);
    assert.equal(c.register[r * 8 + k], whole.register[r * 128 + k]);
  }
  const a = math.holders(atom.a);
  assert.deepEqual([a.registers, math.holders(atom.b).registers, c.registers], [8, 4, 4]);
  assert.deepEqual([a.thread[8], a.register[8]], [0, 4], "row 0, column 8");
});

test("a warpgroup's instruction holds its accumulator as four warps of mma do", () => {
  const { k, a, c } = math.wgmmaAtom(16, 24), held = math.holders(c), own = math.holders(a);
  assert.deepEqual([k, held.threads, held.registers, own.registers], [16, 128, 12, 8]);
  assert.equal(crc(held.element), vectors.find((v) => v.name === "wgmma accumulator").elements_crc, "as layouts/atoms.py");
  assert.equal(math.ranges([0, 1, 2, 5, 7, 8]), "0–2, 5, 7–8");
  const wide = { ...report.layouts[0], shape: [128, 24], threads: 128, registers: 24, reg: [...c.reg, { size: 2, dim: 0, stride: 64 }], thread: c.thread };
  assert.deepEqual(partsOf(wide, 2)[1], { rows: "16–31, 80–95", columns: "0–23" });
});

test("registers belong to instructions", () => {
  const own = layout.instructionsOf(report, report.layouts[0]);
  assert.deepEqual([own.per, own.name, own.role], [4, "mma.m16n8k16", "C"]);
  assert.equal(layout.selectionOf(layout.prepare(report, report.layouts[0]), 8).instr, 1, "the next instruction is eight columns on");
  assert.equal(layout.instructionsOf({ ops: [] }, report.layouts[0]).per, 2, "without a product: neighbours in a row");
});

test("blocks, their boxes, and how often a byte is read", () => {
  const grid = [4, 4], [a, b, c] = slicesOf(report), shape = [512, 512];
  assert.deepEqual([a, b, c].map((s) => [s.slice.buffer, s.slice.mode]), [["A", "read"], ["B", "read"], ["C", "write"]]);
  assert.deepEqual(startOf(a, [2, 1], 15, grid), [128, 480]);
  assert.deepEqual(boxOf(b, [2, 1], grid, shape), [[0, 512], [256, 128]]);
  assert.deepEqual(boxOf(c, [3, 3], grid, [500, 500]), [[384, 116], [384, 116]], "cut to the tensor");
  assert.deepEqual(reuse(a, grid, shape, 2), { asked: 2 ** 21, distinct: 2 ** 19, times: 4, boxes: 4 });
  assert.deepEqual(writerOf(report, grid, "C", [300, 40]), [0, 2]);
  assert.equal(writerOf(report, grid, "A", [0, 0]), null, "A is only read");
  const listed = { ...a, slice: { ...a.slice, loop: [0, 0], trips: 1, blocks: [[], []] }, starts: Int32Array.from([0, 0, 0, 128]) };
  assert.deepEqual(startOf(listed, [1], 0, [2]), [0, 128], "starts one by one");
});

test("noise is folded only where a reader loses nothing", () => {
  assert.deepEqual(folds("sass", ["0000  NOP", "0010  NOP", "0020  NOP", "0030  EXIT"], [9, 9, 9, 9]), [[0, 3]]);
  assert.deepEqual(folds("ptx", [".reg .b32 %r<3>;", "", "// x", "ret;"], [0, 0, 0, 4]), [[0, 3]]);
  assert.deepEqual(folds("ptx", [".reg .b32 %r<3>;", "", "// x"], [7, 7, 7]), [], "lines of the cell stay");
  assert.deepEqual(folds("tile", ["a", "b", "c", "d"], [0, 0, 0, 0]), []);
});

test("opcodes have words, spills are seen", () => {
  assert.equal(opcodeOf("0040  @!P0 BRA `(.L_x_1)"), "BRA");
  assert.equal(opcodeOf("\t@%p1 ld.shared.v4.u32 {%r1}, [%rd1];"), "ld.shared.v4.u32");
  assert.equal(opcodeOf(".reg .b32 %r<3>;"), "");
  assert.equal(about("HMMA.16816.F32")[0], "tensor");
  assert.deepEqual([about("ld.shared.u32")[0], about("ld.local.u32")[0], about("ld.global.u32")[0]], ["shared", "spill", "global"]);
  assert.equal(isSpill("00b0  STL [R1+0x4], R24"), true);
  assert.equal(about("XYZZY")[0], "other");
  const kinds = byKind({ HMMA: 4, STG: 1, LDG: 1, NOP: 3 });
  assert.deepEqual(kinds.map((k) => [k.kind, k.count]), [["tensor", 4], ["control", 3], ["global", 2]]);
});

test("buffers of shared memory are placed with all their copies", () => {
  assert.deepEqual(placed(report).map((b) => [b.name, b.offset, b.size]), [["A_shared", 0, 24576], ["B_shared", 24576, 24576]]);
  const more = { ...report, scratch: { name: "scratch", scope: "shared", offset: 49152, bytes: 512, versions: 1, first: 0, last: 3 } };
  assert.equal(placed(more).at(-1).name, "scratch");
});

test("the status line names thread, register and holders", () => {
  const p = layout.prepare(report, report.layouts[0]);
  assert.equal(layout.sentence(p, 3 * 128 + 17), "row 3 column 17: thread 12 (warp 0, lane 12), register 9");
  const rows = layout.prepare(report, report.layouts[1]);
  assert.match(layout.sentence(rows, 0), /^element 0: thread 0 \(warp 0, lane 0\), register 0; 8 holders: 0:0 1:0/);
});

test("a fragment copied to a shared tile of its shape names byte and bank", () => {
  const shared = { ...report.layouts[3], buffer: "C_shared", shape: [128, 128], strides: [128, 1], panel: 0, swizzle: [0, 4, 3], itemsize_bits: 16 };
  const changedReport = {
    ...report, layouts: [...report.layouts, shared], buffers: [...report.buffers, { name: "C_shared", scope: "shared", offset: 1024, bytes: 32768, versions: 1, span: null }],
    ops: [...report.ops, { id: "op9", name: "copy", reads: ["C_local"], writes: ["C_shared"], span: null }],
  };
  const p = layout.prepare(changedReport, report.layouts[0]);
  assert.match(layout.sentence(p, 129), /, byte 1282, bank 0 of C_shared$/);
});

test("arrays of every kind are unpacked", () => {
  const pack = (dtype, array) => ({ dtype, shape: [array.length], base64: Buffer.from(array.buffer).toString("base64") });
  assert.deepEqual([...math.unpack(pack("<f4", new Float32Array([1.5, -2])))], [1.5, -2]);
  assert.deepEqual([...math.unpack(pack("<i8", new BigInt64Array([7n, -1n])))], [7, -1]);
  assert.deepEqual([...math.unpack(pack("<f2", new Uint16Array([0x3c00, 0xc100, 0x0001, 0x7bff])))], [1, -2.5, 2 ** -24, 65504]);
  assert.throws(() => math.unpack(pack("<c8", new Float32Array(2))), /no array of dtype/);
});

test("go to understands threads, elements and bytes", () => {
  assert.deepEqual(math.parseGoto("T37"), { thread: 37 });
  assert.deepEqual(math.parseGoto("(3, 17)"), { coord: [3, 17] });
  assert.deepEqual(math.parseGoto("byte 1156"), { byte: 1156 });
  assert.equal(math.parseGoto("rm -rf"), null);
});

test("a formula with numbers in it", () => {
  assert.equal(math.substitute("thread = (j//2)%4 + i%8*4", { i: 3, j: 17 }), "thread = (17//2)%4 + 3%8*4");
});

test("only known fields of known types cross the bus", () => {
  assert.deepEqual(cleaned({ line: 3, coord: [1, 2], evil: 1, thread: NaN, buffer: { toString: () => "x" }, bank: "7" }), { line: 3, coord: [1, 2], bank: "7" });
  assert.deepEqual(cleaned(null), {});
  assert.deepEqual(cleaned({ coord: ["a"], op: "x".repeat(5000) }), {});
});

test("the bus of a kernel is shared, pins toggle, and nothing is left when nobody watches", () => {
  const registry = () => globalThis[Symbol.for("tilebench.selection")];
  const a = busOf("k"), b = busOf("k");
  const seen = [];
  const offA = a.watch(() => {}), offB = b.watch((now) => seen.push(now.pins.length));
  a.pin({ line: 3 });
  a.pin({ line: 4 }, true);
  b.pin({ line: 4 }, true);
  assert.deepEqual(seen, [1, 2, 1]);
  assert.deepEqual(b.now().pins, [{ line: 3 }]);
  offA(); offB();
  assert.equal(registry().has("k"), false);
});

test("a line leads to the buffers it speaks of, what it writes before what it reads", () => {
  assert.deepEqual(buffersAt(report, 6).slice(0, 1), ["C_local"]);
  assert.deepEqual(buffersAt(report, 12), ["C_local", "loop@12", "A_shared", "B_shared"]);
});

test("text reads on every colour: contrast of at least 4.5", () => {
  const linear = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const luminance = (c) => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  for (const c of [...LANES, ...WARPS, ...hues(32), ...ramp(128)]) assert.ok((luminance(c) + 0.05) / 0.05 >= 4.5, c.join());
  for (const v of [0, 0.5, 1, 2, 1e3, 1e6, Infinity]) {
    const l = luminance(heatColour(v)), ink = inkOn(heatColour(v)) === "#000000" ? 0 : 1;
    assert.ok((Math.max(l, ink) + 0.05) / (Math.min(l, ink) + 0.05) >= 4.5, String(v));
  }
});

test("a pass shows the lines that it changed, and the words in them", () => {
  const rows = rowsOf("for k in 16:\n  wait 1\n  mma\ngone\nend", "for k in 16:\n  wait 1\n  barrier\n  mma d, a, b\nend");
  assert.deepEqual(rows.map((r) => [r.kind, r.line]), [[" ", 1], [" ", 2], ["+", 3], ["~", 4], ["-", 0], [" ", 5]]);
  assert.deepEqual(rows[3].words.filter(([k]) => k === "+").map(([, t]) => t).join(""), " d, a, b");
  assert.deepEqual(diffWords("a[i + 1]", "a[j + 1]").filter(([k]) => k !== " "), [["-", "i"], ["+", "j"]]);
  assert.deepEqual(diff(["x"], ["x"]), [[" ", "x"]]);
  const deeper = rowsOf("a\nb", "  a\n  b");
  assert.ok(deeper.every((r) => r.kind === " "), "how deep a line stands is not compared");
});

test("unchanged runs are folded to their number, and so are declarations that are not repeated", () => {
  const many = Array.from({ length: 12 }, (_, k) => `line ${k}`);
  const rows = folded(rowsOf(many.join("\n"), [...many, "new"].join("\n")));
  assert.deepEqual(rows.map((r) => r.kind), ["…", " ", " ", "+"]);
  assert.equal(rows[0].count, 10);
  const body = folded(rowsOf("k\ng\ns\nfor\n  x", "for\n  y y\n  x"));
  assert.deepEqual([body[0].kind, body[0].count], ["…", 3]);
});

test("a pass is compared with the last text of its own kind", () => {
  const texts = ["a\nb\nc", "gemm -> mma", "a\nb2\nc", "nothing alike"].map((text) => ({ text }));
  assert.deepEqual([0, 1, 2, 3].map((k) => baseOf(texts, k)), [-1, -1, 0, -1]);
});

test("axis steps are 1, 2 or 5", () => assert.deepEqual([0.13, 0.7, 3, 80].map(nice), [0.2, 1, 5, 100]));

test("the state of a board goes to text and back, and junk is ignored", () => {
  const state = { tab: "smem", layout: { buffer: "C:local", mode: "warp", view: "hardware" } };
  const back = {};
  restore(back, stateText(state));
  assert.deepEqual(back, state);
  const junk = {};
  restore(junk, "tab:nope:mode:%E0%A4%A:buffer");
  assert.deepEqual(junk, { layout: {} });
});
