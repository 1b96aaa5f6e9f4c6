// The verdict, what the binary needs, every figure with its provenance, and the ops with the instruction that carries each out.
import { h, table, figureText, button } from "./kit.js";

/** @type {Record<string, string>} figures whose names say too little */
const SPOKEN = { run_ms: "time of a run", predicted_us: "predicted time", compile_ms: "compile time", flops: "arithmetic", bytes: "bytes to move" };

/** @param {any} report @returns {string[][]} */
export function resources(report) {
  const r = report.resources, rows = [];
  if (r.registers !== null) rows.push(["registers a thread", `${r.registers} (compiler's log)`]);
  if (r.spill_bytes !== null) rows.push(["spilled", `${r.spill_bytes} B (compiler's log)`]);
  rows.push(["shared memory", `${r.shared_bytes} B (${(r.shared_bytes / 1024).toFixed(1)} KiB) a block`]);
  if (r.threads) rows.push(["threads", `${r.threads} a block${shares(report)}${r.grid.length ? `, grid ${r.grid.join(" × ")}` : ""}`]);
  if (r.occupancy) rows.push(["occupancy", `${figureText(r.occupancy)}${r.blocks_per_sm === null ? "" : `, ${r.blocks_per_sm} blocks an SM`}${r.limiter ? `, limited by ${r.limiter}` : ""}`]);
  return rows;
}

/** Whose threads those of a launch are, where some of them are a producer's; else "". @param {any} report */
function shares(report) {
  /** @param {(r: any) => boolean} which */
  const sum = (which) => report.roles.filter(which).reduce((/** @type {number} */ n, /** @type {any} */ r) => n + r.threads, 0);
  const own = sum((r) => r.name !== "producer"), fetching = sum((r) => r.name === "producer");
  if (!own || !fetching) return "";
  return `${report.target.startsWith("cuda") ? "" : " as launched on a GPU"} (${own} of the program and ${fetching} that only fetch tiles, the producer)`;
}

/** The summary tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const { report } = state;
  const figures = Object.entries(report.figures).map(([name, f]) => [SPOKEN[name] ?? name.replace(/_(ms|us)$/, "").replaceAll("_", " "), figureText(f)]);
  el.append(table(["what", "how much, and from where"], [...resources(report), ...figures].map(([name, text]) => [h("span", { class: "tb-nowrap" }, name), text])));
  if (report.ops.length) {
    el.append(table(["op", "line", "carried out by", "why"], report.ops.map((op) => [
      op.text, op.span ? button(String(op.span.line), () => act.pin({ line: op.span.line, op: op.id }), "pin this line") : "–", op.instruction || "–",
      h("div", { class: "tb-prose" }, op.reason, ...op.declined.map((d) => h("div", { class: "tb-hint" }, d)))]), "ops"));
  }
  return () => {};
}
