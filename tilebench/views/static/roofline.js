// Where the kernel stands between memory and arithmetic, log-log. Filled points are measured, hollow ones predicted.
import { h, number, figureText, provenance, table } from "./kit.js";

const W = 640, H = 320, LEFT = 58, RIGHT = 14, TOP = 14, BOTTOM = 40;

/** FLOP/s of a point, 0 without a time. @param {any} p */
export function performance(p) {
  return p.time_us && p.time_us.value > 0 && p.flops > 0 ? p.flops / (p.time_us.value * 1e-6) : 0;
}

/** The roofline tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const { report } = state, info = report.roofline;
  void act;
  const bands = info.roofs.filter((r) => r.kind === "bandwidth"), rates = info.roofs.filter((r) => r.kind === "compute");
  const intensity = (p) => (p.bytes > 0 ? p.flops / p.bytes : 0);
  const points = info.points.filter((p) => performance(p) > 0 && intensity(p) > 0);
  const at = [...rates.flatMap((c) => bands.map((b) => c.value / b.value)), ...points.map(intensity)].filter((v) => v > 0);
  const x0 = Math.log10(Math.min(...at, 1) / 8), x1 = Math.log10(Math.max(...at, 10) * 8);
  const top = Math.max(...rates.map((r) => r.value), ...points.map(performance), 1), low = Math.min(top / 1e4, ...points.map((p) => performance(p) / 3));
  const y0 = Math.log10(low), y1 = Math.log10(top * 3);
  const X = (v) => LEFT + (Math.log10(v) - x0) / (x1 - x0) * (W - LEFT - RIGHT);
  const Y = (v) => H - BOTTOM - (Math.log10(v) - y0) / (y1 - y0) * (H - TOP - BOTTOM);
  const status = h("p", { class: "tb-status", "aria-live": "polite" }, info.limiter ? `limited by ${info.limiter} (predicted)` : "");
  const svg = h("svg", { class: "tb-svg tb-roof", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `roofline of ${info.device}` });
  for (let k = Math.ceil(x0); k <= x1; k++) svg.append(h("line", { x1: X(10 ** k), x2: X(10 ** k), y1: TOP, y2: H - BOTTOM, class: "tb-rule" }), h("text", { x: X(10 ** k), y: H - BOTTOM + 15, "text-anchor": "middle", class: "tb-label" }, number(10 ** k)));
  for (let k = Math.ceil(y0); k <= y1; k++) svg.append(h("line", { x1: LEFT, x2: W - RIGHT, y1: Y(10 ** k), y2: Y(10 ** k), class: "tb-rule" }), h("text", { x: LEFT - 6, y: Y(10 ** k) + 4, "text-anchor": "end", class: "tb-label" }, flops(10 ** k)));
  svg.append(h("text", { x: (W + LEFT) / 2, y: H - 6, "text-anchor": "middle", class: "tb-label" }, "FLOP per byte of memory traffic"));
  for (const r of rates) {
    const ridge = Math.max(10 ** x0, ...bands.slice(0, 1).map((b) => r.value / b.value));
    svg.append(h("line", { x1: X(ridge), x2: W - RIGHT, y1: Y(r.value), y2: Y(r.value), class: "tb-ceiling" }));
    svg.append(h("text", { x: W - RIGHT - 4, y: Y(r.value) - 4, "text-anchor": "end", class: "tb-label" }, r.name));
  }
  for (const b of bands) {
    const end = Math.min(10 ** x1, top / b.value), start = Math.max(10 ** x0, 10 ** y0 / b.value);
    svg.append(h("line", { x1: X(start), y1: Y(start * b.value), x2: X(end), y2: Y(end * b.value), class: "tb-slope" }));
    const mid = 10 ** ((Math.log10(start) + Math.log10(end)) / 2);
    svg.append(h("text", { x: X(mid) - 8, y: Y(mid * b.value) - 8, "text-anchor": "end", class: "tb-label" }, b.name));
  }
  if (points.length > 1) svg.append(h("polyline", { points: points.map((p) => `${X(intensity(p))},${Y(performance(p))}`).join(" "), class: "tb-path" }));
  points.forEach((p, k) => {
    const words = `${p.label}: ${number(intensity(p))} FLOP/byte, ${flops(performance(p))}FLOP/s, ${figureText(p.time_us)}`;
    const last = k === points.length - 1;
    const dot = h("circle", { cx: X(intensity(p)), cy: Y(performance(p)), r: last ? 6 : 4, tabindex: 0, class: `tb-point ${p.time_us.provenance === "measured" ? "tb-measured" : "tb-predicted"}`, "aria-label": words, role: "img" });
    for (const event of ["pointerenter", "focus"]) dot.addEventListener(event, () => { status.textContent = words; });
    svg.append(dot);
    if (last) svg.append(h("text", { x: X(intensity(p)) + (X(intensity(p)) > W * 0.6 ? -11 : 11), y: Y(performance(p)) + 4, "text-anchor": X(intensity(p)) > W * 0.6 ? "end" : "start", class: "tb-strong" }, `${p.label} (${p.time_us.provenance})`));
  });
  el.append(svg, status, h("p", { class: "tb-legend" }, "filled: measured · hollow: predicted"),
    table(["point", "FLOP", "bytes", "FLOP/byte", "time", "FLOP/s"], info.points.map((p) => [p.label, flops(p.flops), flops(p.bytes), number(intensity(p)), p.time_us ? figureText(p.time_us) : "–", performance(p) ? `${flops(performance(p))} (${provenance(p.time_us)})` : "–"])),
    table(["ceiling", "source"], info.roofs.map((r) => [r.name, r.source])));
  return () => {};
}

/** 1.2e13 -> "12T" @param {number} v */
export function flops(v) {
  for (const [s, n] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (v >= s) return `${number(v / s)} ${n}`;
  return number(v);
}
