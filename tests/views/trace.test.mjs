// node --test: traces as the browser reads them, against what Python packed (a file named by TRACE_VECTORS), and watched expressions.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { inflateSync } from "node:zlib";
import { decode, open, bands, loopOf } from "../../tilebench/views/static/trace.js";
import { compile, compileFor, environment, series } from "../../tilebench/views/static/expr.js";
import { blockOf, whence } from "../../tilebench/views/static/whence.js";

const vectors = JSON.parse(readFileSync(process.env.TRACE_VECTORS, "utf8"));
const number = (x) => ({ nan: NaN, inf: Infinity, "-inf": -Infinity })[x] ?? Number(x);

for (const c of vectors.codes) {
  test(`code ${c.code}: the same values as in Python`, () => {
    const bytes = new Uint8Array(Buffer.from(c.base64, "base64"));
    const got = decode(bytes, c.at, c.values.length, c.code, c.low, c.high);
    c.values.map(number).forEach((want, k) => {
      if (Number.isNaN(want) || !Number.isFinite(want) || c.exact) assert.ok(Object.is(got[k], want) || got[k] === want, `${k}: ${got[k]} for ${want}`);
      else assert.ok(Math.abs(got[k] - want) <= 1e-9 * Math.abs(want) + 1e-300, `${k}: ${got[k]} for ${want}`);
    });
  });
}

const trace = vectors.trace;
const m = open(trace, new Uint8Array(inflateSync(Buffer.from(trace.data.base64, "base64"))));

test("every buffer after every step, in any order of asking", () => {
  const order = [...vectors.states.keys()].sort((a, b) => ((a * 7) % 11) - ((b * 7) % 11));
  for (const k of order) {
    vectors.states[k].forEach((want, b) => {
      const state = m.at(b, k);
      want.forEach((x, e) => { if (state.written[e]) assert.ok(Object.is(state.values[e], number(x)) || state.values[e] === number(x), `step ${k} ${m.buffers[b].name}[${e}]: ${state.values[e]} for ${x}`); else assert.equal(x, "nan"); });
    });
  }
});

test("writers and origins", () => {
  const C = m.byName.get("C"), local = m.byName.get("C_local");
  assert.deepEqual(m.writers(local, 0, 6, 9), [4, 2, 0]);
  assert.deepEqual(m.writers(C, 0, 5, 9), []);
  assert.deepEqual(m.origin(C, 19, 6).map((c) => [m.buffers[c.buffer].name, c.element, c.step]), [["C", 19, 6], ["C_local", 19, 4]]);
  assert.equal(loopOf(trace), "k");
  assert.deepEqual(bands(m).map((b) => [b.from, b.to, b.iteration]), [[0, 0, null], [1, 2, 0], [3, 4, 1], [5, 6, null]]);
  assert.equal(m.checkAt(C, 6).error[3] > 0.4, true);
  assert.equal(m.checkAt(C, 5), null);
});

test("a write of some elements leaves the others", () => {
  const steps = [
    { site: 0, at: [], writes: [{ buffer: 0, box: [0, 0, 2, 2], at: 0, code: "u1", mask_at: -1, nan: 0, inf: 0, low: 0, high: 9 }], reads: [], checks: [] },
    { site: 0, at: [], writes: [{ buffer: 0, box: [0, 1, 2, 1], at: 4, code: "u1", mask_at: 6, nan: 0, inf: 0, low: 0, high: 9 }], reads: [], checks: [] },
  ];
  const small = open({ buffers: [{ name: "x", shape: [2, 2] }], sites: [{ name: "store", vars: [] }], steps, kept: [], total: 2 }, Uint8Array.from([1, 2, 3, 4, 2, 9, 0b10]));
  assert.deepEqual([...small.at(0, 1).values], [1, 2, 3, 9]);
  assert.deepEqual(small.writers(0, 1, 1), [0]);
  assert.deepEqual(small.writers(0, 3, 1), [1, 0]);
  assert.deepEqual([...small.mask(1, 0)], [0, 0, 0, 1]);
});

test("expressions: values, functions, logic, loop variables", () => {
  const of = (text, k) => compileFor(m, text).of(environment(m, k));
  const held = m.at(m.byName.get("C_local"), 4).values;
  assert.equal(of("max(C_local)", 4), Math.max(...held));
  assert.equal(of("C_local[1, 2] * 2 - 1", 4), held[18] * 2 - 1);
  assert.equal(of("k == 1 and max(C_local) > 0", 4), 1);
  assert.equal(of("k == 1 or not 1 > 2", 0), 1);
  assert.equal(of("changed(C_local)", 4), 1);
  assert.equal(of("changed(C_local)", 3), 0);
  assert.equal(of("abs(-3) + sqrt(4)", 0), 5);
  assert.equal(of("nan(row_max)", 0), 16, "not written yet is NaN");
  assert.ok(Number.isNaN(of("C_local[99, 0]", 4)));
  assert.deepEqual([...series(m, compileFor(m, "sum(C_local)"))].length, trace.steps.length);
});

test("expressions say what is wrong, and run nothing", () => {
  const no = (text, words) => assert.throws(() => compile(text, (n) => (n === "m" ? { shape: [4] } : null), (n) => n === "k"), words);
  no("m", /m has 4 elements/);
  no("m[1, 2]", /takes 1 indices/);
  no("alert(1)", /no function alert/);
  no("constructor", /nothing here is called constructor/);
  no("m[0] +", /ends too soon/);
  no("m[0] ; 1", /cannot read/);
  no("max(5)", /takes a buffer/);
  no("", /write an expression/);
  no("m[0] m[1]", /not expected/);
});

test("the block that writes an element, and the thread that held it", () => {
  const report = vectors.report, slice = report.ops[5].slices[0];
  assert.deepEqual(blockOf(slice, [4, 4], [300, 200]), { block: [1, 2], start: [256, 128] });
  assert.equal(blockOf(slice, [2, 1], [300, 200]), null);
  const w = whence({ ...report, resources: { ...report.resources, grid: [4, 4] } }, "C", [256 + 3, 128 + 17]);
  assert.deepEqual([w.line, w.op, w.thread, w.reg, w.from], [14, "op5", 12, 9, "C_local"]);
});
