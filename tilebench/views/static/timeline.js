// The pipeline over time: bars by lane, coloured by phase, dependences as arrows. Predicted, simulated or measured: it says which.
import { h, button, number, lit } from "./kit.js";

const PHASES = { prologue: "#c9b3e6", steady: "#8ecae6", epilogue: "#ffcf8a", "": "#c4cbd2" };
const LEFT = 96, LANE = 30, BAR = 22, WIDE = 960;

/** The timeline tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const ends = state.report.timelines.map((info, k) => one(el, info, act, k));
  return () => ends.forEach((end) => end());
}

function one(el, info, act, which) {
  const lanes = [...new Set(info.bars.map((b) => b.lane))];
  const total = Math.max(...info.bars.map((b) => b.end_us), 1e-6);
  const height = lanes.length * LANE + 26;
  const status = h("p", { class: "tb-status", "aria-live": "polite" }, "hover a bar, or focus the chart and use the arrow keys");
  const svg = h("svg", { class: "tb-svg", viewBox: `0 0 ${WIDE} ${height}`, tabindex: 0, role: "application", "aria-roledescription": "timeline", "aria-label": `${info.provenance} timeline of ${info.bars.length} bars` });
  let zoom = 1, from = 0, cursor = -1;
  const x = (us) => LEFT + (us - from) * zoom * (WIDE - LEFT - 8) / total;
  const sel = (b) => ({ op: b.op, line: b.line || undefined, step: b.iteration >= 0 ? b.iteration : undefined });
  const words = (b) => `${b.label}${b.iteration >= 0 ? ` of iteration ${b.iteration}` : ""} on ${b.lane}: ${number(b.start_us)} to ${number(b.end_us)} us, ${number(b.end_us - b.start_us)} us${b.phase ? `, ${b.phase}` : ""} (${info.provenance})`;
  /** @type {any[]} */ let rects = [];
  /** @type {any[]} */ let arrows = [];

  function paint() {
    while (svg.firstChild) svg.removeChild(svg.firstChild);
    lanes.forEach((lane, k) => {
      svg.append(h("line", { x1: LEFT, x2: WIDE - 8, y1: (k + 1) * LANE - 2, y2: (k + 1) * LANE - 2, class: "tb-rule" }));
      svg.append(h("text", { x: LEFT - 6, y: k * LANE + 17, "text-anchor": "end", class: "tb-label" }, lane));
    });
    const step = nice(total / zoom / 8);
    for (let t = Math.ceil(from / step) * step; t <= from + total / zoom + 1e-9; t += step) {
      svg.append(h("line", { x1: x(t), x2: x(t), y1: 0, y2: lanes.length * LANE, class: "tb-rule" }));
      svg.append(h("text", { x: x(t), y: height - 10, "text-anchor": "middle", class: "tb-label" }, number(Number(t.toPrecision(6)))));
    }
    svg.append(h("text", { x: LEFT - 6, y: height - 10, "text-anchor": "end", class: "tb-label" }, "us"));
    rects = info.bars.map((b, k) => {
      const left = Math.max(LEFT, x(b.start_us)), right = Math.min(WIDE - 4, x(b.end_us));
      if (right < LEFT || left > WIDE - 4) return null;
      const width = Math.max(1.5, right - left), y = lanes.indexOf(b.lane) * LANE + 3;
      const rect = h("rect", { x: left, y, width, height: BAR, class: "tb-bar", fill: PHASES[b.phase] ?? PHASES[""] });
      rect.addEventListener("pointerenter", () => point(k));
      rect.addEventListener("pointerleave", () => act.hover(null));
      rect.addEventListener("click", (event) => act.pin(sel(b), event.shiftKey));
      const label = b.iteration >= 0 ? `${b.label} ${b.iteration}` : b.label;
      svg.append(rect);
      const short = b.iteration >= 0 ? String(b.iteration) : "", fits = (t) => t && width > t.length * 6.2 + 4;
      const shown_ = fits(label) ? label : fits(short) ? short : "";
      if (shown_) svg.append(h("text", { x: left + width / 2, y: y + 15, "text-anchor": "middle", class: "tb-inbar" }, shown_));
      return rect;
    });
    arrows = info.arrows.map(([a, b]) => {
      const one_ = info.bars[a], two = info.bars[b];
      if (!one_ || !two || x(one_.end_us) < LEFT) return null;
      const ya = lanes.indexOf(one_.lane) * LANE + 3 + BAR / 2, yb = lanes.indexOf(two.lane) * LANE + 3 + BAR / 2;
      const xa = x(one_.end_us), xb = x(two.start_us), mid = (xa + xb) / 2;
      const path = h("path", { d: `M${xa},${ya} C${mid},${ya} ${mid},${yb} ${xb},${yb}`, class: "tb-arrow" });
      svg.append(path);
      return path;
    });
    light();
  }

  function point(k) {
    cursor = k;
    status.textContent = words(info.bars[k]);
    act.hover(sel(info.bars[k]));
  }

  function light() {
    const now = lit(act.now());
    info.bars.forEach((b, k) => {
      const on = now.some((s) => (s.op && s.op === b.op && (s.step === undefined || s.step === b.iteration)) || (!s.op && s.line && s.line === b.line));
      rects[k]?.classList.toggle("tb-lit", on);
    });
    info.arrows.forEach(([a, b], k) => arrows[k]?.classList.toggle("tb-lit", a === cursor || b === cursor));
  }

  function look(factor, centre) {
    const next = Math.min(64, Math.max(1, zoom * factor)), keep = centre ?? from + total / zoom / 2;
    from = Math.max(0, Math.min(total - total / next, keep - (keep - from) * zoom / next));
    zoom = next;
    paint();
  }

  svg.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: 1, ArrowLeft: -1 };
    if (event.key in moves) point(Math.max(0, Math.min(info.bars.length - 1, cursor + moves[event.key])));
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const at = lanes.indexOf(info.bars[Math.max(0, cursor)].lane) + (event.key === "ArrowDown" ? 1 : -1);
      const k = info.bars.findIndex((b) => b.lane === lanes[Math.max(0, Math.min(lanes.length - 1, at))]);
      if (k >= 0) point(k);
    } else if (event.key === "Enter" && cursor >= 0) act.pin(sel(info.bars[cursor]), event.shiftKey);
    else if (event.key === "Escape") act.clear();
    else if (event.key === "+") look(1.5);
    else if (event.key === "-") look(1 / 1.5);
    else if (event.key === "0") { zoom = 1; from = 0; paint(); }
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const shown = Object.entries(PHASES).filter(([p]) => p && info.bars.some((b) => b.phase === p));
  const legend = h("p", { class: "tb-legend" }, ...shown.map(([p, c]) => h("span", { class: "tb-swatch" }, h("i", { style: { background: c } }), p)));
  el.append(
    h("p", { class: "tb-head" }, h("strong", {}, `${info.provenance}`), info.note ? `: ${info.note}` : ""),
    h("div", { class: "tb-tools" }, legend, button("zoom in", () => look(1.5)), button("zoom out", () => look(1 / 1.5)), button("later", () => { from = Math.min(total - total / zoom, from + total / zoom / 3); paint(); }), button("earlier", () => { from = Math.max(0, from - total / zoom / 3); paint(); })),
    h("div", { class: "tb-wide" }, svg), status,
  );
  void which;
  paint();
  return act.watch(light);
}

/** A step of 1, 2 or 5 times a power of ten. @param {number} wanted */
export function nice(wanted) {
  const power = 10 ** Math.floor(Math.log10(wanted));
  const k = wanted / power;
  return power * (k <= 1 ? 1 : k <= 2 ? 2 : k <= 5 ? 5 : 10);
}
