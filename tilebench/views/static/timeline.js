// One block over time: bars by lane, bands by phase, dependences as arrows; a measured block is laid under the predicted one, on the
// same axis. A simulated one counts steps, so it has a chart of its own. What is only waiting is hollow, what is only started is flat.
// What a launch takes is a sum of such blocks, and the sum is shown. A stretch in the middle of a long loop is left out, with its length.
import { h, button, choice, number, lit, table, empty } from "./kit.js";
import { chromeTrace, pack, shown, warpChoices } from "./rows.js";

export const PHASES = { prologue: "#c9b3e6", steady: "#8ecae6", epilogue: "#ffcf8a", "": "#c4cbd2" };
/** What a bar is, where it is not work. */
const KINDS = { wait: ", waiting", issue: ", started here" };
const WIDE = 960, NARROWEST = 560, LEFT = 104, RIGHT = 12, HEAD = 18, FOOT = 26, BAR = 20, SLIM = 16, GAP = 8, BREAK = 46, MOST = 64;

/** The timeline tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const all = state.report.timelines.filter((t) => t.bars.length), own = (state.timeline ??= {});
  const predicted = all.find((t) => t.provenance === "predicted"), timed = all.find((t) => t.provenance !== "predicted");
  const one = (t) => t && own.which === t.provenance;
  const charts = () => {
    if (one(predicted) || one(timed)) return [[one(predicted) ? predicted : timed]];
    const both = [predicted, timed].filter(Boolean);
    return unit(predicted ?? timed) === unit(timed ?? predicted) ? [both] : both.map((t) => [t]);
  };
  const box = h("div", {}), tools = h("div", { class: "tb-tools" });
  /** @type {(() => void)[]} */ let ends = [];
  const show = () => {
    ends.forEach((end) => end());
    empty(box);
    ends = charts().map((infos, k) => { const part = h("div", {}); box.append(part); return chart(part, infos, state, act, k === 0); });
  };
  if (predicted && timed) {
    const together = unit(predicted) === unit(timed) ? "both, overlaid" : "both";
    tools.append(choice("show", [["both", together], ["predicted", "predicted"], [timed.provenance, timed.provenance]], own.which ?? "both", (v) => { own.which = v; show(); }));
  }
  const warps = timed ? warpChoices(timed) : [];
  if (warps.length) {
    own.warp ??= warps[0];
    tools.append(choice("warp", [...warps.map((w) => [String(w), `${w} of each role`]), ["all", "all"]], own.warp === null ? "all" : String(own.warp), (v) => { own.warp = v === "all" ? null : Number(v); show(); }));
  }
  if (tools.firstChild) el.append(tools);
  el.append(box);
  show();
  return () => ends.forEach((end) => end());
}

/** The unit of a timeline's times. @param {any} info */
const unit = (info) => info?.unit ?? "us";

/** The place of a time on the axis, cuts taken out and each drawn as a gap of BREAK pixels. */
class Axis {
  constructor(infos) {
    this.end = Math.max(...infos.flatMap((t) => t.bars.map((b) => b.end_us)), 1e-6);
    this.cuts = infos.length === 1 ? infos[0].cuts ?? [] : both(infos);
    this.unit = unit(infos[0]);
    this.hidden = this.cuts.reduce((sum, [a, b]) => sum + b - a, 0);
    this.span = this.end - this.hidden;
    this.wide = WIDE;
    this.zoom = 1;
    this.from = 0;
  }

  get room() { return this.wide - LEFT - RIGHT - BREAK * this.cuts.length; }

  /** Pixels from the left edge of an unzoomed chart. */
  flat(us) {
    let hidden = 0, gaps = 0;
    for (const [a, b] of this.cuts) {
      if (us >= b) { hidden += b - a; gaps += BREAK; } else if (us > a) { hidden += us - a; gaps += BREAK * (us - a) / (b - a); }
    }
    return (us - hidden) / this.span * this.room + gaps;
  }

  x(us) { return LEFT + (this.flat(us) - this.from) * this.zoom; }

  get whole() { return this.room + BREAK * this.cuts.length; }

  look(factor, at) {
    const zoom = Math.min(MOST, Math.max(1, this.zoom * factor)), middle = at ?? (this.wide + LEFT) / 2;
    const flat = this.from + (middle - LEFT) / this.zoom;
    this.from = flat - (middle - LEFT) / zoom;
    this.zoom = zoom;
    this.move(0);
  }

  move(pixels) { this.from = Math.min(this.whole - this.whole / this.zoom, Math.max(0, this.from + pixels / this.zoom)); }

  /** Another width: the same times stay in the window. */
  fit(wide) {
    const part = this.from / this.whole;
    this.wide = Math.max(NARROWEST, wide || WIDE);
    this.from = part * this.whole;
    this.move(0);
  }

  /** Times at the edges of the window, for ticks. */
  ticks() {
    const step = nice(this.span / this.zoom / 8), out = [];
    for (let t = 0; t <= this.end + 1e-9; t += step) {
      const skip = this.cuts.find(([a, b]) => t > a && t < b);
      if (skip) { t = Math.floor(skip[1] / step) * step; continue; }
      const x = this.x(t);
      if (x >= LEFT - 1 && x <= this.wide - RIGHT + 1) out.push([t, x]);
      if (out.length > 40) break;
    }
    return out;
  }
}

/** What both timelines leave out. @param {any[]} infos */
function both(infos) {
  const [one, two] = infos.map((t) => t.cuts ?? []);
  return one.flatMap(([a, b]) => two.map(([c, d]) => [Math.max(a, c), Math.min(b, d)])).filter(([a, b]) => a < b);
}

function chart(el, infos, state, act, first = true) {
  const own = (state.timeline[infos.map((t) => t.provenance).join()] ??= {}), axis = new Axis(infos);
  axis.fit(el.clientWidth);
  axis.zoom = own.zoom ?? 1;
  axis.from = (own.at ?? 0) * axis.whole;
  const lanes = [...new Set(infos.flatMap((t) => t.bars.map((b) => b.lane)))];
  const bars = infos.flatMap((info, row) => shown(info, state.timeline.warp ?? null).map(({ bar, k }) => ({ bar, info, row, k, sub: 0 })));
  const at = infos.map((info) => new Map(bars.map((item, n) => [item, n]).filter(([item]) => item.info === info).map(([item, n]) => [item.k, n])));
  // a lane has a row for each timeline, as many lines high as its bars overlap
  let y = HEAD;
  const places = new Map(lanes.map((lane) => {
    const start = y;
    const rows = infos.map((info, row) => {
      const mine = bars.filter((item) => item.row === row && item.bar.lane === lane), { rows: subs, count } = pack(mine.map((item) => item.bar));
      mine.forEach((item, k) => { item.sub = subs[k]; });
      const line = count > 1 ? SLIM : BAR, place = { top: y + GAP / 2, line, height: count * line };
      y += place.height + 2;
      return place;
    });
    y += GAP - 2;
    return [lane, { start, end: y, rows }];
  }));
  const height = y + FOOT;
  const place = (item) => { const p = places.get(item.bar.lane).rows[item.row]; return { y: p.top + item.sub * p.line, height: p.line - (p.line === BAR ? 0 : 1) }; };
  const order = bars.map((_, k) => k).sort((a, b) => bars[a].bar.start_us - bars[b].bar.start_us || bars[a].row - bars[b].row);
  const status = h("p", { class: "tb-status", "aria-live": "polite" }, "hover a bar, or focus the chart: arrows move, Enter pins, + and - zoom, 0 shows all");
  const svg = h("svg", { class: "tb-svg tb-time", viewBox: `0 0 ${axis.wide} ${height}`, tabindex: 0, role: "application", "aria-roledescription": "timeline", "aria-label": infos.map((t, row) => `${t.provenance} timeline of ${bars.filter((b) => b.row === row).length} bars`).join(" and ") });
  let cursor = -1;
  /** @type {any[]} */ let rects = [];
  /** @type {any[]} */ let arrows = [];
  const U = axis.unit, timedWord = infos[1]?.provenance ?? "";
  const sel = ({ bar }) => ({ op: bar.op || undefined, line: bar.line || undefined, step: bar.iteration >= 0 ? bar.iteration : undefined });
  const origin = (t) => `${t.provenance}${t.device ? (t.provenance === "measured" ? ` on ${t.device}` : `: ${t.device}`) : ""}`;
  const words = ({ bar, info }) => `${bar.label}${bar.iteration >= 0 ? ` of iteration ${bar.iteration}` : ""} on ${bar.lane}: ${number(bar.start_us)} to ${number(bar.end_us)} ${U}, ${number(bar.end_us - bar.start_us)} ${U}${KINDS[bar.kind] ?? ""}${bar.warp >= 0 ? `, warp ${bar.warp}` : ""}${bar.phase ? `, ${bar.phase}` : ""}${bar.line ? `, line ${bar.line}` : ""} (${origin(info)})`;

  function paint() {
    own.zoom = axis.zoom;
    own.at = axis.from / axis.whole;
    svg.setAttribute("viewBox", `0 0 ${axis.wide} ${height}`);
    empty(svg);
    const bottom = y;
    for (const { phase, from, to } of bands(infos[0], axis.cuts)) {
      const a = Math.max(LEFT, axis.x(from)), b = Math.min(axis.wide - RIGHT, axis.x(to));
      if (b <= a) continue;
      svg.append(h("rect", { x: a, y: HEAD - 3, width: b - a, height: bottom - HEAD + 3, fill: PHASES[phase], class: "tb-band" }));
      if (b - a > phase.length * 6.4) svg.append(h("text", { x: (a + b) / 2, y: 11, "text-anchor": "middle", class: "tb-label" }, phase));
    }
    for (const [t, x] of axis.ticks()) {
      svg.append(h("line", { x1: x, x2: x, y1: HEAD - 3, y2: bottom, class: "tb-rule" }));
      svg.append(h("text", { x, y: height - 8, "text-anchor": "middle", class: "tb-label" }, number(Number(t.toPrecision(6)))));
    }
    svg.append(h("text", { x: LEFT - 8, y: height - 8, "text-anchor": "end", class: "tb-label" }, U));
    rects = bars.map((item, k) => bar(item, k));
    arrows = infos.flatMap((info, row) => info.arrows.map(([a, b]) => arrow(info, row, a, b)));
    for (const [a, b] of axis.cuts) {
      const x0 = Math.max(LEFT, axis.x(a)), x1 = Math.min(axis.wide - RIGHT, axis.x(b));
      if (x1 - x0 < 4) continue;
      svg.append(h("rect", { x: x0, y: HEAD - 3, width: x1 - x0, height: bottom - HEAD + 3, class: "tb-cut" }));
      svg.append(h("text", { x: (x0 + x1) / 2, y: (HEAD + bottom) / 2 - 4, "text-anchor": "middle", class: "tb-label" }, "⋯"));
      svg.append(h("text", { x: (x0 + x1) / 2, y: (HEAD + bottom) / 2 + 12, "text-anchor": "middle", class: U === "us" ? "tb-label" : "tb-label tb-under" }, `${number(b - a)} ${U}`));
    }
    lanes.forEach((lane) => {
      const { start, end, rows } = places.get(lane);
      svg.append(h("rect", { x: 0, y: start, width: LEFT - 2, height: end - start, class: "tb-gutter" }));
      svg.append(h("text", { x: LEFT - 8, y: rows[0].top + (rows.length === 1 ? 14 : 12), "text-anchor": "end", class: "tb-label" }, lane.length > 15 ? `${lane.slice(0, 14)}…` : lane));
      if (rows.length > 1 && infos[1].bars.some((b) => b.lane === lane)) svg.append(h("text", { x: LEFT - 8, y: rows[1].top + 13, "text-anchor": "end", class: "tb-label tb-under" }, timedWord));
      svg.append(h("line", { x1: 0, x2: axis.wide - RIGHT, y1: end, y2: end, class: "tb-rule" }));
    });
    light();
  }

  function bar(item, k) {
    const { bar: b, info } = item, kind = b.kind ?? "work";
    const left = Math.max(LEFT, axis.x(b.start_us)), right = Math.min(axis.wide - RIGHT, axis.x(b.end_us));
    if (right < LEFT || left > axis.wide - RIGHT) return null;
    const width = Math.max(1.5, right - left), p = place(item), flat = kind === "issue" ? Math.round(p.height / 2) : 0;
    const rect = h("rect", { x: left, y: p.y + flat, width, height: p.height - flat, class: `tb-bar${info.provenance === "predicted" ? "" : " tb-real"}${kind === "wait" ? " tb-waiting" : ""}`, fill: PHASES[b.phase] ?? PHASES[""], on: {
      pointerenter: () => point(k), pointerleave: () => act.hover(null), click: (event) => { cursor = k; act.pin(sel(item), event.shiftKey); },
    } });
    svg.append(rect);
    const short = b.iteration >= 0 ? String(b.iteration) : "", label = b.iteration >= 0 ? `${b.label} ${b.iteration}` : b.label;
    const text = flat ? undefined : [label, short].find((t) => t && width > t.length * 7.2 + (t === short ? 3 : 8));
    if (text) svg.append(h("text", { x: left + width / 2, y: p.y + p.height / 2 + 4, "text-anchor": "middle", class: kind === "wait" ? "tb-label tb-inwait" : "tb-inbar" }, text));
    return rect;
  }

  function arrow(info, row, a, b) {
    const first = bars[at[row].get(a)], second = bars[at[row].get(b)];
    if (!first || !second) return null;
    const one = first.bar, two = second.bar, pa = place(first), pb = place(second);
    const xa = axis.x(one.end_us), xb = axis.x(two.kind === "wait" ? two.end_us : two.start_us), mid = (xa + xb) / 2;
    if (xb < LEFT || xa > axis.wide - RIGHT || xa < LEFT) return null;
    const ya = pa.y + pa.height / 2, yb = pb.y + pb.height / 2;
    const path = h("path", { d: `M${xa},${ya} C${mid},${ya} ${mid},${yb} ${xb},${yb}`, class: "tb-arrow" });
    svg.append(path);
    return path;
  }

  function point(k) {
    cursor = k;
    status.textContent = words(bars[k]);
    act.hover(sel(bars[k]));
    light();
  }

  function light() {
    const now = lit(act.now());
    bars.forEach((item, k) => {
      const b = item.bar;
      const on = now.some((s) => (s.op && s.op === b.op && (s.step === undefined || s.step === b.iteration)) || (!s.op && s.line && s.line === b.line));
      rects[k]?.classList.toggle("tb-lit", on);
      rects[k]?.classList.toggle("tb-cursor", k === cursor);
    });
    let at = 0;
    infos.forEach((info, row) => info.arrows.forEach(([a, b]) => { const c = bars[cursor]; arrows[at++]?.classList.toggle("tb-lit", c !== undefined && c.row === row && (c.k === a || c.k === b)); }));
  }

  /** Brings a bar into the window. */
  function reveal(k) {
    const b = bars[k].bar, x = axis.x(b.start_us);
    if (x < LEFT || x > axis.wide - RIGHT - 20) { axis.move((x - (axis.wide + LEFT) / 2)); paint(); }
    point(k);
  }

  svg.addEventListener("keydown", (event) => {
    if (event.altKey || event.metaKey || event.ctrlKey) return;
    const at = order.indexOf(cursor), moves = { ArrowRight: 1, ArrowLeft: -1 };
    if (event.key in moves) reveal(order[Math.max(0, Math.min(order.length - 1, at + moves[event.key]))]);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const from = bars[Math.max(0, cursor)], flat = lanes.indexOf(from.bar.lane) * infos.length + from.row + (event.key === "ArrowDown" ? 1 : -1);
      const near = bars.map((item, k) => ({ k, d: Math.abs(item.bar.start_us - from.bar.start_us), flat: lanes.indexOf(item.bar.lane) * infos.length + item.row })).filter((c) => c.flat === flat).sort((p, q) => p.d - q.d)[0];
      if (near) reveal(near.k);
    } else if (event.key === "Home") reveal(order[0]);
    else if (event.key === "End") reveal(order[order.length - 1]);
    else if (event.key === "Enter" && cursor >= 0) act.pin(sel(bars[cursor]), event.shiftKey);
    else if (event.key === "Escape") act.clear();
    else if (event.key === "+" || event.key === "=") { axis.look(1.5); paint(); }
    else if (event.key === "-") { axis.look(1 / 1.5); paint(); }
    else if (event.key === "0") { axis.zoom = 1; axis.from = 0; paint(); }
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const inSvg = (event) => { const r = svg.getBoundingClientRect(); return (event.clientX - r.left) * axis.wide / r.width; };
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== svg) return;
    event.preventDefault();
    axis.look(event.deltaY < 0 ? 1.25 : 0.8, inSvg(event));
    paint();
  }, { passive: false });
  let drag = null;
  svg.addEventListener("pointerdown", (event) => { drag = { x: inSvg(event), moved: false }; });
  svg.addEventListener("pointermove", (event) => {
    if (!drag || !event.buttons) { drag = null; return; }
    const x = inSvg(event);
    if (!drag.moved && Math.abs(x - drag.x) < 6) return;
    drag.moved = true;
    axis.move(drag.x - x);
    drag.x = x;
    paint();
  });
  svg.addEventListener("pointerup", () => { drag = null; });

  const wide = h("div", { class: "tb-wide" }, svg); // drawn as wide as there is room: letters keep their size
  const resized = new ResizeObserver(() => {
    if (!wide.clientWidth || Math.abs(Math.max(NARROWEST, wide.clientWidth) - axis.wide) < 2) return;
    axis.fit(wide.clientWidth);
    paint();
  });
  resized.observe(wide);
  const phases = Object.keys(PHASES).filter((p) => p && bars.some((b) => b.bar.phase === p));
  const rest = bars.some((b) => !b.bar.phase);
  const legend = h("p", { class: "tb-legend" },
    ...[...phases.map((p) => [p, p]), ...(rest ? [["", phases.length ? "outside the loop" : "no pipeline"]] : [])].map(([p, text]) => h("span", { class: "tb-swatch" }, h("i", { style: { background: PHASES[p] } }), text)),
    infos.length > 1 ? h("span", {}, `upper row ${infos[0].provenance}, lower row ${timedWord}`) : null,
    bars.some((item) => item.bar.kind === "wait") ? h("span", { class: "tb-swatch" }, h("i", { class: "tb-hollow" }), "waiting") : null,
    bars.some((item) => item.bar.kind === "issue") ? h("span", { class: "tb-swatch" }, h("i", { class: "tb-flat" }), "started, goes on behind the bar") : null,
    bars.some((item) => item.bar.iteration >= 0) ? h("span", {}, "number: iteration") : null,
    infos.some((t) => t.arrows.length) ? h("span", {}, "⟶ waits for") : null);
  const list = h("div", { hidden: true });
  const toggle = button("table", () => { list.hidden = !list.hidden; toggle.setAttribute("aria-expanded", String(!list.hidden)); if (!list.hidden && !list.firstChild) fill(); }, "the bars as a table");
  toggle.setAttribute("aria-expanded", "false");
  function fill() {
    const warped = bars.some((item) => item.bar.warp >= 0);
    const rowsOf = order.slice(0, 400).map((k) => { const { bar: b, info } = bars[k]; return [button(b.label, () => reveal(k), "show this bar"), b.lane, b.iteration >= 0 ? b.iteration : "–", b.phase || "–", number(b.start_us), number(b.end_us - b.start_us), b.line || "–", ...(warped ? [b.warp >= 0 ? b.warp : "–"] : []), `${info.provenance}${KINDS[b.kind] ?? ""}`]; });
    list.append(h("div", { class: "tb-scroll tb-tall" }, table(["op", "lane", "iteration", "phase", `start, ${U}`, `takes, ${U}`, "line", ...(warped ? ["warp"] : []), "source"], rowsOf, bars.length > 400 ? `the first 400 of ${bars.length} bars` : undefined)));
  }
  el.append(
    ...infos.map((t) => h("p", { class: "tb-head" }, h("strong", {}, t.provenance), t.note ? `: ${t.note}` : "")),
    ...[first ? chosen(state.report) : null].filter(Boolean),
    h("div", { class: "tb-tools" }, legend,
      button("zoom in", () => { axis.look(1.5); paint(); }), button("zoom out", () => { axis.look(1 / 1.5); paint(); }),
      button("earlier", () => { axis.move(-240); paint(); }), button("later", () => { axis.move(240); paint(); }), button("all", () => { axis.zoom = 1; axis.from = 0; paint(); }),
      toggle, first ? button("export trace", () => download(state.report), "a file for Perfetto (ui.perfetto.dev) or chrome://tracing; nothing leaves this page") : null),
    wide, status, list, ...infos.filter((t) => (t.terms ?? []).length).map((t) => sum(t, infos)));
  axis.fit(wide.clientWidth);
  paint();
  const off = act.watch(light);
  return () => { resized.disconnect(); off(); };
}

/** What the compiler chose for the kernel as a whole. @param {any} report */
export function chosen(report) {
  return (report.schedule ?? []).length ? h("ul", { class: "tb-why" }, ...report.schedule.map((line) => h("li", {}, line))) : null;
}

/** Stretches of one phase on the compute lanes, in order of time. @param {any} info @param {number[][]} cuts */
export function bands(info, cuts = []) {
  /** @type {{phase: string, from: number, to: number}[]} */
  const out = [];
  for (const phase of ["prologue", "steady", "epilogue"]) {
    const own = info.bars.filter((b) => b.phase === phase);
    if (!own.length) continue;
    out.push({ phase, from: Math.min(...own.map((b) => b.start_us)), to: Math.max(...own.map((b) => b.end_us)) });
  }
  // where two meet, the later one begins: copies of the steady state are issued while the first products wait
  for (let k = 1; k < out.length; k++) {
    const first = info.bars.filter((b) => b.phase === out[k].phase && !["copy", "producer", "stores"].includes(b.lane)).map((b) => b.start_us);
    out[k].from = first.length ? Math.min(...first) : out[k].from;
    out[k - 1].to = out[k].from;
  }
  void cuts;
  return out.filter((b) => b.to > b.from);
}

/** How the launch's time comes about: terms that add up. */
function sum(info, infos) {
  const drawn = Math.max(...info.bars.map((b) => b.end_us));
  const rows = info.terms.map((t) => {
    const here = Math.abs(t.each_us - drawn) < 0.005 * drawn && t.text !== "launch";
    return [here ? h("b", {}, `${t.text} (drawn above)`) : t.text, number(t.count), number(t.each_us), number(t.count * t.each_us)];
  });
  rows.push([h("b", {}, "the whole launch"), "", "", h("b", {}, number(info.total_us))]);
  const other = infos.find((t) => t !== info);
  return h("div", {}, table(["what", "times", "us each", "us"], rows, `time of the launch, ${info.provenance}${info.device ? `: ${info.device}` : ""}`),
    other && other.total_us ? h("p", { class: "tb-why" }, `the whole launch, ${other.provenance}${other.device ? ` on ${other.device}` : ""}: ${number(other.total_us)} us`) : null);
}

function download(report) {
  const url = URL.createObjectURL(new Blob([JSON.stringify(chromeTrace(report))], { type: "application/json" }));
  const name = `${report.name.replace(/[^\w.-]+/g, "_").slice(0, 60) || "kernel"}.trace.json`;
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** A step of 1, 2 or 5 times a power of ten. @param {number} wanted */
export function nice(wanted) {
  const power = 10 ** Math.floor(Math.log10(wanted));
  const k = wanted / power;
  return power * (k <= 1 ? 1 : k <= 2 ? 2 : k <= 5 ? 5 : 10);
}
