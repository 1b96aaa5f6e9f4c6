// From the grid to the warps: roles, and the part of each product's tile that a warp owns.
import { h, table, WARPS, lit } from "./kit.js";

/** @param {any} report @returns {{name: string, first: number, count: number}[]} */
export function roles(report) {
  if (report.roles.length) return report.roles.map((r) => ({ name: r.name, first: r.first_thread >> 5, count: Math.max(1, Math.ceil(r.threads / 32)) }));
  return report.resources.threads ? [{ name: "all", first: 0, count: Math.max(1, Math.ceil(report.resources.threads / 32)) }] : [];
}

/** The warps tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const { report } = state;
  const r = report.resources;
  const status = h("p", { class: "tb-status", "aria-live": "polite" }, `grid ${r.grid.join(" × ") || "?"} of blocks with ${r.threads} threads`);
  el.append(status, table(["role", "warps", "threads"], roles(report).map((x) => [x.name, `${x.first}–${x.first + x.count - 1}`, `${x.first * 32}–${(x.first + x.count) * 32 - 1}`])));
  /** @type {HTMLElement[]} */
  const cells = [];
  for (const op of report.ops.filter((o) => o.name === "gemm")) {
    const [m, n] = op.warp_grid;
    const tile = report.layouts.find((l) => l.kind === "fragment" && op.writes.includes(l.buffer));
    const [rows, columns] = tile ? tile.shape.slice(-2) : [m, n];
    const board = h("div", { class: "tb-warps", style: { "grid-template-columns": `repeat(${n}, 1fr)` } });
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) {
        const w = i + j * m;
        const text = `warp ${w}: rows ${i * rows / m}–${(i + 1) * rows / m - 1}, columns ${j * columns / n}–${(j + 1) * columns / n - 1}`;
        const sel = { op: op.id, thread: w * 32, line: op.span?.line, buffer: op.writes[0] };
        const cell = h("button", {
          type: "button", class: "tb-warp", "aria-label": text, style: { background: `rgb(${WARPS[w % 8].join(",")})` },
          on: { mouseenter: () => { status.textContent = text; act.hover(sel); }, mouseleave: () => act.hover(null), focus: () => { status.textContent = text; act.hover(sel); }, click: () => act.pin(sel) },
        }, h("b", {}, `warp ${w}`), h("small", {}, `rows ${i * rows / m}–${(i + 1) * rows / m - 1}`), h("small", {}, `columns ${j * columns / n}–${(j + 1) * columns / n - 1}`));
        cell.dataset.warp = String(w);
        cells.push(cell);
        board.append(cell);
      }
    }
    el.append(h("p", { class: "tb-legend" }, `${op.text}: ${m} × ${n} warps over a tile of ${rows} × ${columns}, ${op.instruction}`), board);
  }
  const off = act.watch((now) => {
    const warps = new Set(lit(now).filter((s) => Number.isInteger(s.thread)).map((s) => String(s.thread >> 5)));
    for (const c of cells) c.classList.toggle("tb-lit", warps.has(c.dataset.warp));
  });
  return off;
}
