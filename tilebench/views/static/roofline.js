// Where the kernel stands between memory and arithmetic, log-log: every compile of it as a path, what limits it, how busy each unit is,
// what the binary needs and how many blocks share an SM. Filled points are measured, hollow ones predicted.
import { h, number, figureText, table, lit, empty } from "./kit.js";
import { resources } from "./summary.js";

const W = 680, H = 360, LEFT = 62, RIGHT = 16, TOP = 16, BOTTOM = 42;
const CHARACTER = 6.4, STRONG = 7.7, LINE = 13; // of the labels' font, in pixels: labels are placed by it

/** FLOP/s of a point, 0 without a time. @param {any} p */
export function performance(p) {
  return p.time_us && p.time_us.value > 0 && p.flops > 0 ? p.flops / (p.time_us.value * 1e-6) : 0;
}

/** FLOP per byte of memory traffic. @param {any} p */
export function intensity(p) {
  return p.bytes > 0 ? p.flops / p.bytes : 0;
}

/** What differs between the settings of two points: "num_stages 2 → 3". @param {string} before @param {string} after */
export function edit(before, after) {
  const parse = (t) => new Map((t || "").split(", ").filter((p) => p.includes("=")).map((p) => /** @type {[string, string]} */ (p.split(/=(.*)/s).slice(0, 2))));
  const a = parse(before), b = parse(after);
  const out = [...new Set([...a.keys(), ...b.keys()])].filter((k) => a.get(k) !== b.get(k)).map((k) => `${k} ${a.get(k) ?? "–"} → ${b.get(k) ?? "–"}`);
  return out.join(", ");
}

/** Places labels one by one, each at the first of its places that overlaps no earlier one and stays inside. */
class Labels {
  constructor() { this.taken = []; }

  /** @param {string} text @param {[number, number, "start"|"middle"|"end"][]} places baseline positions, in order of preference @param {number} [character] width of one */
  place(text, places, character = CHARACTER) {
    const width = text.length * character;
    for (const [x, y, anchor] of places) {
      const left = anchor === "start" ? x : anchor === "end" ? x - width : x - width / 2;
      const box = [left, y - LINE + 3, left + width, y + 3];
      if (box[0] < LEFT + 2 || box[2] > W - 2 || box[1] < 2 || box[3] > H - BOTTOM + 2) continue;
      if (this.taken.some((t) => box[0] < t[2] && t[0] < box[2] && box[1] < t[3] && t[1] < box[3])) continue;
      this.taken.push(box);
      return { x, y, anchor };
    }
    return null;
  }

  block(x0, y0, x1, y1) { this.taken.push([Math.min(x0, x1), Math.min(y0, y1), Math.max(x0, x1), Math.max(y0, y1)]); }
}

/** The roofline tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const { report } = state, info = report.roofline, own = (state.roofline ??= {});
  const hidden = (own.hidden ??= new Set());
  const plot = h("div", {}), status = h("p", { class: "tb-status", "aria-live": "polite" }, start(info));
  const points = info.points.filter((p) => performance(p) > 0 && intensity(p) > 0);
  let dots = [], cursor = points.length - 1;
  const name = (p, k) => `${info.points.length > 1 ? `${k + 1}. ` : ""}${p.label}`;
  const words = (p) => {
    const k = info.points.indexOf(p), change = k > 0 ? edit(info.points[k - 1].config, p.config) : "";
    return `${name(p, k)}: ${number(intensity(p))} FLOP/byte, ${flops(performance(p))}FLOP/s, ${figureText(p.time_us)}${change ? `; changed: ${change}` : p.config ? `; ${p.config}` : ""}`;
  };
  const say = (k) => { cursor = k; status.textContent = words(points[k]); act.hover(points[k].id ? { kernel: points[k].id } : null); mark(); };

  function mark() {
    const on = new Set(lit(act.now()).map((s) => s.kernel).filter(Boolean));
    dots.forEach((d, k) => { d.classList.toggle("tb-lit", on.has(points[k].id)); });
  }

  function paint() {
    empty(plot);
    const roofs = info.roofs.filter((r) => !hidden.has(r.name));
    const bands = roofs.filter((r) => r.kind === "bandwidth"), rates = roofs.filter((r) => r.kind === "compute");
    const at = [...rates.flatMap((c) => bands.map((b) => c.value / b.value)), ...points.map(intensity)].filter((v) => v > 0);
    const x0 = Math.log10(Math.min(...at, 1) / 8), x1 = Math.log10(Math.max(...at, 10) * 8);
    const top = Math.max(...rates.map((r) => r.value), ...points.map(performance), 1), low = Math.min(top / 1e4, ...points.map((p) => performance(p) / 3));
    const y0 = Math.log10(low), y1 = Math.log10(top * 3);
    const X = (v) => LEFT + (Math.log10(v) - x0) / (x1 - x0) * (W - LEFT - RIGHT);
    const Y = (v) => H - BOTTOM - (Math.log10(v) - y0) / (y1 - y0) * (H - TOP - BOTTOM);
    const svg = h("svg", { class: "tb-svg tb-roof", viewBox: `0 0 ${W} ${H}`, tabindex: 0, role: "application", "aria-roledescription": "roofline", "aria-label": `roofline of ${info.device}, ${points.length} ${points.length === 1 ? "point" : "points"}: arrow keys go along the path` });
    const labels = new Labels();
    for (let k = Math.ceil(x0); k <= x1; k++) svg.append(h("line", { x1: X(10 ** k), x2: X(10 ** k), y1: TOP, y2: H - BOTTOM, class: "tb-rule" }), h("text", { x: X(10 ** k), y: H - BOTTOM + 15, "text-anchor": "middle", class: "tb-label" }, number(10 ** k)));
    for (let k = Math.ceil(y0); k <= y1; k++) svg.append(h("line", { x1: LEFT, x2: W - RIGHT, y1: Y(10 ** k), y2: Y(10 ** k), class: "tb-rule" }), h("text", { x: LEFT - 6, y: Y(10 ** k) + 4, "text-anchor": "end", class: "tb-label" }, flops(10 ** k)));
    svg.append(h("text", { x: (W + LEFT) / 2, y: H - 8, "text-anchor": "middle", class: "tb-label" }, "FLOP per byte of memory traffic"));
    svg.append(h("text", { x: LEFT - 6, y: TOP - 4, "text-anchor": "end", class: "tb-label" }, "FLOP/s"));
    const widest = Math.max(...bands.map((b) => b.value), 0);
    [...bands].sort((a, b) => b.value - a.value).forEach((b, k) => {
      const end = Math.min(10 ** x1, top / b.value), begin = Math.max(10 ** x0, 10 ** y0 / b.value);
      if (end <= begin) return;
      const xa = X(begin), ya = Y(begin * b.value), xb = X(end), yb = Y(end * b.value);
      svg.append(h("line", { x1: xa, y1: ya, x2: xb, y2: yb, class: k === bands.length - 1 ? "tb-slope" : "tb-slope tb-faint" }));
      const angle = Math.atan2(yb - ya, xb - xa) * 180 / Math.PI, over = k === 0 && bands.length > 1;
      const length = Math.hypot(xb - xa, yb - ya), part = Math.min(0.5, (b.name.length * CHARACTER / 2 + 8) / length);
      const x = xa + (xb - xa) * Math.max(0.3, part), y = ya + (yb - ya) * Math.max(0.3, part);
      svg.append(h("text", { x, y, transform: `rotate(${angle.toFixed(2)} ${x.toFixed(1)} ${y.toFixed(1)}) translate(0 ${over || bands.length === 1 ? -6 : 14})`, "text-anchor": "middle", class: "tb-label tb-along" }, b.name));
      for (let t = 0; t <= 20; t++) labels.block(xa + (xb - xa) * t / 20 - 3, ya + (yb - ya) * t / 20 - 3, xa + (xb - xa) * t / 20 + 3, ya + (yb - ya) * t / 20 + 3);
    });
    for (const r of [...rates].sort((a, b) => b.value - a.value)) {
      const ridge = widest ? Math.max(10 ** x0, r.value / widest) : 10 ** x0, y = Y(r.value);
      svg.append(h("line", { x1: X(ridge), x2: W - RIGHT, y1: y, y2: y, class: "tb-ceiling" }));
      labels.block(X(ridge), y - 1, W - RIGHT, y + 1);
      const spot = labels.place(r.name, [[W - RIGHT - 2, y - 4, "end"], [W - RIGHT - 2, y + LINE, "end"], [W - RIGHT - 130, y - 4, "end"]]);
      if (spot) svg.append(h("text", { x: spot.x, y: spot.y, "text-anchor": spot.anchor, class: "tb-label" }, r.name));
    }
    if (points.length > 1) svg.append(h("polyline", { points: points.map((p) => `${X(intensity(p))},${Y(performance(p))}`).join(" "), class: "tb-path" }));
    points.forEach((p) => labels.block(X(intensity(p)) - 8, Y(performance(p)) - 8, X(intensity(p)) + 8, Y(performance(p)) + 8));
    dots = points.map((p, k) => {
      const last = k === points.length - 1, x = X(intensity(p)), y = Y(performance(p));
      const dot = h("circle", { cx: x, cy: y, r: last ? 6 : 4.5, class: `tb-point ${p.time_us.provenance === "measured" ? "tb-measured" : "tb-predicted"}`, role: "img", "aria-label": words(p), on: {
        pointerenter: () => say(k), pointerleave: () => act.hover(null), click: (event) => { if (p.id) act.pin({ kernel: p.id }, event.shiftKey); },
      } });
      svg.append(dot);
      return dot;
    });
    for (let k = points.length - 1; k >= 0; k--) { // the newest chooses first
      const p = points[k], x = X(intensity(p)), y = Y(performance(p)), last = k === points.length - 1;
      const text = last ? `${name(p, info.points.indexOf(p))}, ${p.time_us.provenance}` : String(info.points.indexOf(p) + 1);
      const places = /** @type {any} */ ([[x + 11, y + 4, "start"], [x - 11, y + 4, "end"], [x, y - 12, "middle"], [x, y + 22, "middle"], [x + 11, y + 22, "start"], [x - 11, y + 22, "end"], [x + 11, y - 14, "start"], [x - 11, y - 14, "end"]]);
      const short = text.length > 44 ? `${text.slice(0, 43)}…` : text;
      const spot = labels.place(short, places, last ? STRONG : CHARACTER);
      if (spot) svg.append(h("text", { x: spot.x, y: spot.y, "text-anchor": spot.anchor, class: last ? "tb-strong" : "tb-label" }, short));
    }
    svg.addEventListener("keydown", (event) => {
      if (!points.length || event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key === "ArrowRight" || event.key === "ArrowDown") say(Math.min(points.length - 1, cursor + 1));
      else if (event.key === "ArrowLeft" || event.key === "ArrowUp") say(Math.max(0, cursor - 1));
      else if (event.key === "Enter" && points[cursor].id) act.pin({ kernel: points[cursor].id }, event.shiftKey);
      else if (event.key === "Escape") act.clear();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    plot.append(svg);
    mark();
  }

  const levels = h("fieldset", { class: "tb-levels" }, h("legend", {}, "ceilings"), ...info.roofs.map((r) => h("label", {}, h("input", { type: "checkbox", checked: !hidden.has(r.name), on: { change: (event) => { if (event.target.checked) hidden.delete(r.name); else hidden.add(r.name); paint(); } } }), ` ${r.name}`)));
  const side = h("div", { class: "tb-side" }, busy(info), table([], resources(report), "the binary and its launch"), levels);
  paint();
  el.append(status, h("div", { class: "tb-two tb-wider tb-late" }, h("div", {}, plot, h("p", { class: "tb-legend" }, h("span", {}, "● measured"), h("span", {}, "○ predicted"), points.length > 1 ? h("span", {}, "┄ the compiles of this kernel, in order") : null, h("span", {}, "the nearer to a line, the better it is used"))), side),
    table(["point", "changed", "FLOP", "bytes", "FLOP/byte", "time", "FLOP/s", "where from", "occupancy"], info.points.map((p, k) => [name(p, k), (k > 0 ? edit(info.points[k - 1].config, p.config) : p.config) || "–", flops(p.flops), flops(p.bytes), number(intensity(p)), p.time_us ? `${number(p.time_us.value)} ${p.time_us.unit}` : "–", performance(p) ? flops(performance(p)) : "–", p.time_us ? origin(p.time_us) : "–", p.occupancy === null || p.occupancy === undefined ? "–" : `${Math.round(100 * p.occupancy)}%`])),
    table(["ceiling", "source"], info.roofs.map((r) => [r.name, r.source])));
  return act.watch(mark);
}

/** Where a time comes from, with its spread. */
const origin = (f) => figureText(f).replace(/^[^(]*\(/, "").replace(/\)$/, "");

function start(info) {
  const parts = [info.limiter ? `limited by ${info.limiter} (predicted)` : "", info.predicted_us ? `the model of ${info.device} says ${number(info.predicted_us)} us` : ""];
  return parts.filter(Boolean).join("; ");
}

/** How long each unit is busy at least, as bars against the predicted time. */
function busy(info) {
  const rows = Object.entries(info.bounds ?? {}).filter(([, us]) => us > 0).sort((a, b) => b[1] - a[1]);
  if (!rows.length) return h("div", {});
  const whole = Math.max(info.predicted_us, ...rows.map(([, us]) => us));
  return h("div", { class: "tb-busy", role: "group", "aria-label": "how busy each unit is, predicted" }, h("p", { class: "tb-why" }, `busy at least, of ${number(whole)} us (predicted)`),
    ...rows.map(([unit, us]) => h("div", { class: "tb-busy-row" }, h("span", {}, unit), h("span", { class: "tb-meter" }, h("i", { style: { width: `${(100 * us / whole).toFixed(1)}%` }, class: unit === info.limiter ? "tb-limiting" : "" })), h("span", { class: "tb-figure-text" }, `${number(us)} us, ${us < 0.005 * whole ? "<1" : Math.round(100 * us / whole)}%`))));
}

/** 1.2e13 -> "12 T" @param {number} v */
export function flops(v) {
  for (const [s, n] of /** @type {[number, string][]} */ ([[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])) if (v >= s) return `${number(v / s)} ${n}`;
  return number(v);
}
