// Time travel: one block of a kernel, step by step, with what every buffer held, who wrote it, and when it went wrong.
import { h, button, choice, empty, number, lit } from "./kit.js";
import { flatten } from "./math.js";
import { open, inflated, holderOf } from "./trace.js";
import { tracks, listing } from "./track.js";
import { stage } from "./stage.js";
import { compileFor, environment, series } from "./expr.js";

const PLAY_MS = 350;

/** The step tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const { traces } = state.report, own = (state.step ??= {});
  own.which = Math.min(own.which ?? 0, traces.length - 1);
  const body = h("div", {});
  let end = () => {}, alive = true;
  if (traces.length > 1) el.append(h("div", { class: "tb-tools" }, choice("level", traces.map((t, k) => [String(k), `${t.level} (${t.steps.length} steps)`]), String(own.which), (v) => { own.which = Number(v); start(); })));
  el.append(body);
  const fail = (error) => { empty(body); body.append(h("p", { class: "tb-status" }, `the trace cannot be read: ${error.message}`)); };
  async function start() {
    end();
    end = () => {};
    empty(body);
    const trace = traces[own.which];
    if (!trace.steps.length) { body.append(h("p", { class: "tb-why" }, `nothing was recorded${trace.stopped ? `: ${trace.stopped}` : ""}`)); return; }
    const known = (own.opened ??= new Map());
    if (!known.has(trace)) {
      body.append(h("p", { class: "tb-why" }, "unpacking the trace"));
      try { known.set(trace, open(trace, await inflated(trace.data))); } catch (error) { fail(error); return; }
      if (!alive || traces[own.which] !== trace) return;
      empty(body);
    }
    end = one(body, known.get(trace), state, act);
  }
  start();
  return () => { alive = false; end(); };
}

function one(el, m, state, act) {
  const { report } = state, own = state.step, { trace } = m, total = m.steps.length;
  const key = `at${own.which}`;
  own[key] = Math.min(own[key] ?? firstWrong(m, report), total - 1);
  own.mode ??= "values";
  own.scale ??= "auto";
  own.until ??= "iteration";
  own.condition ??= "";
  own.watches ??= [];
  const at = () => own[key];
  const checked = m.checks.some((c) => c.length), vars = (k) => { const s = m.steps[k], site = m.sites[s.site]; return site.vars.map((v, d) => `${v} = ${s.at[d]}`).join(", "); };
  /** @type {{buffer: number, cell: number}|null} */
  let look = null;
  /** @type {{buffer: number, cell: number}|null} what stays in the side table when nothing is hovered */
  let kept = own.kept && m.buffers[own.kept.buffer] ? own.kept : null;
  let mine = false, timer = 0, goal = "", why = "";

  // ---------------------------------------------------------------- where it is
  const status = h("p", { class: "tb-status", role: "status", "aria-live": "polite" });
  const slider = h("input", { type: "range", class: "tb-scrub", min: 0, max: total - 1, value: at(), "aria-label": "step" });
  slider.addEventListener("input", () => go(Number(slider.value)));
  const track = tracks(m, (k) => go(k));
  const play = button("play", () => (timer ? stop() : run(1, PLAY_MS)), "play or pause (space)");
  const until = h("select", { "aria-label": "run until" }, ...untils().map(([v, text]) => h("option", { value: v, selected: v === own.until }, text)));
  until.addEventListener("change", () => { own.until = until.value; condition.hidden = own.until !== "condition"; });
  const condition = h("input", { type: "text", class: "tb-goto", placeholder: "max(s) > 10, k == 3 ...", "aria-label": "condition", value: own.condition, hidden: own.until !== "condition" });
  condition.addEventListener("input", () => { own.condition = condition.value; });
  condition.addEventListener("keydown", (event) => { if (event.key === "Enter") seek(event.shiftKey ? -1 : 1); event.stopPropagation(); });
  const nav = h("div", { class: "tb-tools tb-nav", role: "toolbar", "aria-label": "steps" },
    button("|◀", () => go(0), "first step (Home)"), button("◀◀", () => leap(-1), "an iteration back (Shift+←)"), button("◀", () => go(at() - 1), "a step back (←)"),
    play, button("▶", () => go(at() + 1), "a step on (→)"), button("▶▶", () => leap(1), "an iteration on (Shift+→)"), button("▶|", () => go(total - 1), "last step (End)"),
    h("span", { class: "tb-run" }, button("run back", () => seek(-1), "back to where this held before (Shift+R)"), h("label", { class: "tb-choice" }, "until", until), condition, button("run", () => seek(1), "on to where this holds (R)")));
  for (const b of nav.querySelectorAll("button")) if (/[◀▶]/u.test(b.textContent)) b.setAttribute("aria-label", b.title);
  const shows = h("div", { class: "tb-tools" },
    checked ? choice("show", [["values", "values"], ["error", "difference from the reference"]], own.mode, (v) => { own.mode = v; again(); }) : null,
    choice("colours", [["auto", "automatic"], ["step", "range of this step"], ["whole", "range of all steps"]], own.scale, (v) => { own.scale = v; again(); }),
    h("label", { class: "tb-choice" }, h("input", { type: "checkbox", checked: own.outline !== false, on: { change: (event) => { own.outline = event.target.checked; marks(); } } }), "outline what changed"),
    h("span", { class: "tb-legend" }, swatch("rgb(255,0,200)", "NaN"), swatch("rgb(38,44,54)", "−inf"), swatch("rgb(255,214,10)", "inf"), swatch("repeating-conic-gradient(#d0d5db 0 25%, #bac0c8 0 50%) 0 0 / 6px 6px", "not written yet")));

  // ---------------------------------------------------------------- code, side table, tiles
  const code = listing(report, m, (n, direction) => { lineStep(n, direction); mine = true; act.pin({ line: n, step: at() }); mine = false; });
  const side = h("div", { class: "tb-side tb-read" });
  const scene = stage(m, report, own, {
    hover(b, cell) { look = cell === null ? null : { buffer: b, cell }; marks(); sides(); say(); act.hover(look ? selection(b, cell) : { line: site(at()).line, step: at() }); },
    pin(b, cell, add) { keep({ buffer: b, cell }); mine = true; act.pin({ ...selection(b, cell), step: at() }, add); mine = false; },
    next(b) { const list = m.versions[b], next = list.find((v) => v.step > at()) ?? list[0]; if (next) go(next.step); },
  });
  const facts = [`${trace.level} level, block (${trace.block.join(", ")}) of ${trace.grid.join(" × ")}`, trace.kept.length ? `${total} key steps of ${trace.total} are saved: run the cell to step through all` : `${total} steps, 0 to ${total - 1}`, trace.note].filter(Boolean).join("; ");
  const keys = "← → step, Shift+← → iteration, Home End, space plays, R runs, W goes to who wrote the cell, Esc clears";
  const root = h("div", { class: "tb-step", tabindex: 0, role: "group", "aria-label": `time travel: ${facts}. Keys: ${keys}` },
    nav, track.el, slider, status,
    trace.stopped ? h("p", { class: "tb-why tb-stopped" }, `the run stopped here: ${trace.stopped}`) : null,
    h("div", { class: "tb-pair" }, code.el, side), shows, scene.el,
    h("p", { class: "tb-legend" }, facts), trace.reference ? h("p", { class: "tb-legend" }, `reference: ${trace.reference}`) : null, h("p", { class: "tb-legend" }, `keys: ${keys}`));
  el.append(root);

  function site(k) { return m.sites[m.steps[k].site]; }

  /** A step is shown. @param {number} k @param {boolean} [quiet] no word to the other views */
  function go(k, quiet = false) {
    const next = Math.max(0, Math.min(total - 1, k));
    own[key] = next;
    slider.value = String(next);
    slider.setAttribute("aria-valuetext", `step ${m.number(next)} of 0 to ${trace.total - 1}, line ${site(next).line}`);
    scene.show(next);
    marks();
    code.show(next);
    track.show(next);
    sides();
    say();
    if (!quiet) { mine = true; act.hover({ line: site(next).line, step: next }); mine = false; }
  }

  function again() { scene.show(at()); marks(); }

  function leap(direction) {
    const i = m.iteration(at());
    if (i === null && !m.outer) { go(at() + direction); return; }
    // the same statement of the next iteration where there is one, else the next step outside
    for (let k = at() + direction; k >= 0 && k < total; k += direction) {
      if (m.iteration(k) === i) continue;
      if (i === null || m.iteration(k) === null || m.steps[k].site === m.steps[at()].site) { go(k); return; }
    }
    go(direction > 0 ? total - 1 : 0);
  }

  // ---------------------------------------------------------------- running
  function untils() {
    const lines = [...new Set(m.sites.map((s) => s.line))].filter(Boolean).sort((a, b) => a - b);
    return [
      ["iteration", m.outer ? `next ${m.outer}` : "next step"], ["nan", "a NaN is written"], ["inf", "a NaN or inf is written"],
      ...(checked ? [["wrong", "it is wrong (beyond what is allowed)"]] : []), ["condition", "a condition holds"], ["cell", "the chosen cell is written"],
      ...lines.map((n) => [`line ${n}`, `line ${n}: ${(m.sites.find((s) => s.line === n)?.text ?? "").slice(0, 34)}`]),
    ];
  }

  /** @returns {((k: number) => boolean)|null} */
  function test() {
    const u = own.until;
    if (u.startsWith("line ")) return (k) => site(k).line === Number(u.slice(5));
    if (u === "nan") return (k) => m.steps[k].writes.some((w) => w.nan > 0);
    if (u === "inf") return (k) => m.steps[k].writes.some((w) => w.nan + w.inf > 0);
    if (u === "wrong") return (k) => m.steps[k].checks.some((c) => c.wrong > 0);
    if (u === "cell") {
      const c = look ?? kept;
      if (!c) { status.textContent = "no cell is chosen: click one"; return null; }
      const e = elementOf(c.buffer, c.cell);
      return (k) => m.wroteAt(k, c.buffer, e);
    }
    if (u === "condition") {
      try {
        const e = compileFor(m, own.condition);
        return (k) => Boolean(e.of(environment(m, k)));
      } catch (error) { status.textContent = `condition: ${error.message}`; return null; }
    }
    return (k) => m.iteration(k) !== m.iteration(at()) && (k === 0 || m.iteration(k) !== m.iteration(k - 1));
  }

  function seek(direction) {
    stop();
    const holds = test();
    if (!holds) return;
    for (let k = at() + direction; k >= 0 && k < total; k += direction) if (holds(k)) { why = ` · stopped: ${until.selectedOptions[0]?.textContent ?? ""}`; go(k); why = ""; return; }
    status.textContent = `${own.until === "condition" ? `${own.condition}: ` : ""}never ${direction > 0 ? "after" : "before"} step ${m.number(at())}`;
  }

  function run(direction, ms) {
    if (at() === total - 1) go(0);
    play.textContent = "pause";
    timer = window.setInterval(() => { if (at() >= total - 1) stop(); else go(at() + direction); }, ms);
  }
  function stop() { window.clearInterval(timer); timer = 0; play.textContent = "play"; }

  // ---------------------------------------------------------------- cells
  function elementOf(b, cell) { const f = scene.faces[b]; return f.element ? f.element[cell] : cell; }

  function selection(b, cell) {
    const info = m.buffers[b], e = elementOf(b, cell), who = m.writers(b, e, at(), 1)[0], held = e >= 0 ? holderOf(report, info, e) : null;
    /** @type {Record<string, any>} */
    const sel = { buffer: info.holds || info.name };
    if (info.shape.length) sel.coord = scene.faces[b].coord(cell);
    if (held) { sel.thread = held.thread; sel.reg = held.reg; }
    const s = who === undefined ? null : site(who), op = s?.op ? report.ops.find((o) => o.id === s.op) : null;
    if (s && s.line) sel.line = s.line;
    if (op?.instruction) sel.instr = op.instruction;
    return sel;
  }

  function keep(next) { kept = own.kept = next; marks(); sides(); say(); }

  const text = (b, cell, k) => {
    const e = elementOf(b, cell);
    if (e < 0) return "nobody's";
    const s = m.at(b, k);
    return s.written[e] ? value(s.values[e]) : "not written";
  };
  const cellName = (b, cell) => (m.buffers[b].shape.length ? `${m.buffers[b].name}[${scene.faces[b].coord(cell).join(", ")}]` : m.buffers[b].name);

  /** To the step that computed a cell, through copies. */
  function trail(b, cell) {
    const chain = m.origin(b, elementOf(b, cell), at());
    if (!chain.length) { status.textContent = `${cellName(b, cell)} is not written up to here`; return; }
    const last = chain[chain.length - 1];
    const f = scene.faces[last.buffer], where = f.element ? f.element.indexOf(last.element) : last.element;
    kept = own.kept = { buffer: last.buffer, cell: where };
    const held = where >= 0 ? holderOf(report, m.buffers[last.buffer], last.element) : null, op = site(last.step).op ? report.ops.find((o) => o.id === site(last.step).op) : null;
    goal = `${chain.map((c) => { const g = scene.faces[c.buffer]; return `${cellName(c.buffer, g.element ? g.element.indexOf(c.element) : c.element)} ← step ${m.number(c.step)}, line ${site(c.step).line}`; }).join(", from ")}${held ? `; thread ${held.thread} (warp ${held.thread >> 5}), register ${held.reg}` : ""}${op?.instruction ? `; instruction ${op.instruction}` : ""}`;
    go(last.step);
    goal = "";
  }

  // ---------------------------------------------------------------- drawing
  function marks() {
    const pins = [];
    for (const sel of lit(act.now())) {
      const b = m.byName.get(sel.buffer);
      if (b !== undefined && sel.coord) { const c = cellAt(b, sel.coord); if (c !== null) pins.push({ buffer: b, cells: [c] }); }
      else if (sel.thread !== undefined && sel.buffer === undefined) for (const i of scene.plan.main) pins.push({ buffer: i, cells: heldCells(i, sel.thread) });
    }
    if (kept) pins.push({ buffer: kept.buffer, cells: [kept.cell] });
    scene.mark(at(), look, pins);
  }

  function cellAt(b, coord) {
    const info = m.buffers[b], f = scene.faces[b];
    if (coord.length !== f.shape.length) return null;
    const inside = coord.map((x, d) => x - (info.scope === "global" ? info.origin[d] ?? 0 : 0));
    return inside.every((x, d) => x >= 0 && x < f.shape[d]) ? flatten(f.shape, inside) : null;
  }

  function heldCells(b, thread) {
    const f = scene.faces[b], out = [];
    for (let c = 0; c < f.rows * f.columns && out.length < 256; c++) { const e = elementOf(b, c), held = e >= 0 ? holderOf(report, m.buffers[b], e) : null; if (!held) break; if (held.thread === thread) out.push(c); }
    return out;
  }

  function say() {
    const k = at();
    if (goal) { status.textContent = `step ${m.number(k)} / ${trace.total - 1}: ${goal}`; return; }
    if (look) {
      const { buffer: b, cell } = look, info = m.buffers[b], e = elementOf(b, cell), who = e < 0 ? undefined : m.writers(b, e, k, 1)[0], held = e >= 0 ? holderOf(report, info, e) : null;
      const before = k > 0 ? text(b, cell, k - 1) : "not written", now = text(b, cell, k);
      let line = `${cellName(b, cell)} = ${now}${before !== now ? `, before this step ${before}` : ""}`;
      if (held) line += `; thread ${held.thread} (warp ${held.thread >> 5}), register ${held.reg}`;
      if (who !== undefined) line += `; written at step ${m.number(who)}, line ${site(who).line}`;
      const check = m.checkAt(b, k);
      if (check?.error && e >= 0) line += `; difference from the reference ${value(check.error[e])}`;
      status.textContent = line;
      return;
    }
    const s = m.steps[k], parts = [`step ${m.number(k)} / ${trace.total - 1}`];
    if (vars(k)) parts.push(vars(k));
    parts.push(`line ${site(k).line}, ${trace.level === "thread" ? site(k).text.slice(0, 90) : site(k).name}`);
    const writes = [...new Set(s.writes.map((w) => w.buffer))].map((b) => {
      const info = m.buffers[b];
      if (!info.shape.length) return `${info.name} = ${text(b, 0, k)}`;
      const c = scene.changedIn(b, k);
      const bad = s.writes.filter((w) => w.buffer === b).reduce((n, w) => [n[0] + w.nan, n[1] + w.inf], [0, 0]);
      return `${info.name}: ${c ? (c.count === c.of ? `${c.of} elements changed` : `${c.count} of ${c.of} written elements changed`) : "written"}${bad[0] ? `, ${bad[0]} NaN` : ""}${bad[1] ? `, ${bad[1]} ${infinities(b, k)}` : ""}`;
    });
    parts.push(writes.join("; ") || "nothing is written");
    const worst = s.checks.reduce((a, c) => (!a || c.ratio > a.ratio ? c : a), null);
    if (worst) parts.push(`${m.buffers[worst.buffer].name} ${worst.error >= 1e300 ? "is NaN or infinite where the reference is not, or the other way round" : `differs from the reference by at most ${value(worst.error)}`}${worst.wrong ? `: WRONG in ${worst.wrong} elements` : ", within what is allowed"}`);
    status.textContent = parts.join(" · ") + why;
  }

  /** Which infinities a buffer holds. @param {number} b @param {number} k */
  function infinities(b, k) {
    const { values, written } = m.at(b, k);
    let up = false, down = false;
    for (let e = 0; e < values.length; e++) if (written[e]) { up ||= values[e] === Infinity; down ||= values[e] === -Infinity; }
    return up && down ? "inf or −inf" : down ? "−inf" : "inf";
  }

  function sides() {
    empty(side);
    const k = at(), group = scene.plan.main;
    const bare = !group.some((b) => scene.faces[b].columns === 1) && !scene.plan.scalars.length && group.length;
    const chosen = look ?? kept ?? (bare ? { buffer: group[0], cell: 0 } : null);
    const f = chosen ? scene.faces[chosen.buffer] : null;
    const inGroup = chosen && group.includes(chosen.buffer);
    const row = inGroup ? Math.floor(chosen.cell / f.columns) : 0;
    const rows = [];
    const strips = group.filter((b) => scene.faces[b].columns === 1).slice(0, 9);
    for (const b of strips) rows.push(line(`${m.buffers[b].name}[${row}]`, text(b, row, k - 1 < 0 ? 0 : k - 1), text(b, row, k), history(b, elementOf(b, row)), k === 0 ? "" : undefined));
    for (const b of scene.plan.scalars.slice(0, 8)) rows.push(line(m.buffers[b].name, k > 0 ? text(b, 0, k - 1) : "not written", text(b, 0, k), history(b, 0)));
    own.watches.forEach((w, n) => rows.push(watched(w, n, k)));
    if (chosen && scene.faces[chosen.buffer].columns > 1) rows.push(line(cellName(chosen.buffer, chosen.cell), k > 0 ? text(chosen.buffer, chosen.cell, k - 1) : "not written", text(chosen.buffer, chosen.cell, k), history(chosen.buffer, elementOf(chosen.buffer, chosen.cell))));
    if (rows.length) {
      side.append(h("table", { class: "tb-table tb-watch" }, h("caption", {}, strips.length ? `row ${row}${look || kept ? "" : " (hover a tile for another)"}` : "values"),
        h("thead", {}, h("tr", {}, ...["", "before", "now", "over the steps"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, ...rows)));
    }
    side.append(adder);
    if (kept && !look) side.append(whoWrote(chosen.buffer, chosen.cell, k));
  }

  function line(name, before, now, curve, blank, remove) {
    return h("tr", before !== now ? { class: "tb-new" } : {}, h("th", { scope: "row" }, name, remove ?? null), h("td", {}, blank ?? dash(before)), h("td", {}, h("b", {}, dash(now))), h("td", {}, curve ? spark(curve) : ""));
  }

  const dash = (text) => (text === "not written" ? "–" : text);

  function watched(w, n, k) {
    const remove = button("×", () => { own.watches.splice(n, 1); sides(); root.focus(); }, `no longer watch ${w.text}`);
    remove.setAttribute("aria-label", `no longer watch ${w.text}`);
    try {
      w.series = w.of === trace && w.series ? w.series : series(m, compileFor(m, w.text));
      w.of = trace;
    } catch (error) { return h("tr", {}, h("th", { scope: "row" }, w.text, remove), h("td", { colspan: 3 }, error.message)); }
    return line(w.text, k > 0 ? value(w.series[k - 1]) : "", value(w.series[k]), w.series, undefined, remove);
  }

  /** An element over all steps. */
  function history(b, e) {
    if (e < 0) return null;
    const id = `${own.which}:${b}:${e}`, memo = (own.curves ??= new Map());
    if (memo.has(id)) return memo.get(id);
    const out = new Float64Array(total);
    let last = NaN, v = -1;
    for (let k = 0; k < total; k++) { const now = m.versionAt(b, k); if (now !== v) { v = now; const s = m.stateOf(b, v); last = s.written[e] ? s.values[e] : NaN; } out[k] = last; }
    if (memo.size > 400) memo.clear();
    memo.set(id, out);
    return out;
  }

  const curves = new WeakMap();

  /** A curve with a mark at the step that is shown. @param {Float64Array} values */
  function spark(values) {
    const W = 140, H = 22;
    const x = (k) => 2 + (W - 4) * (total > 1 ? k / (total - 1) : 0), y = (v) => H - 3 - (H - 6) * (v - low) / (high - low || 1);
    let known = curves.get(values);
    if (!known) curves.set(values, known = curve());
    const { low, high } = known;
    function curve() {
      let low = Infinity, high = -Infinity;
      for (const v of values) if (v - v === 0) { if (v < low) low = v; if (v > high) high = v; }
      const up = (v) => H - 3 - (H - 6) * (v - low) / (high - low || 1);
      let d = "", pen = false;
      const stride = Math.max(1, Math.floor(total / 600));
      for (let k = 0; k < total; k += stride) {
        if (!(values[k] - values[k] === 0)) { pen = false; continue; }
        if (pen && values[k] === values[k - stride] && k + stride < total) continue;
        d += pen ? `H${x(k).toFixed(1)}V${up(values[k]).toFixed(1)}` : `M${x(k).toFixed(1)},${up(values[k]).toFixed(1)}`;
        pen = true;
      }
      return { d, low, high };
    }
    const now = values[at()];
    return h("svg", { class: "tb-spark", viewBox: `0 0 ${W} ${H}`, width: W, height: H, role: "img", "aria-label": low <= high ? `from ${number(low)} to ${number(high)}` : "no values" },
      h("path", { d: known.d, class: "tb-curve" }), h("line", { x1: x(at()), x2: x(at()), y1: 0, y2: H, class: "tb-now" }), Number.isFinite(now) ? h("circle", { cx: x(at()), cy: y(now), r: 2.5, class: "tb-dot" }) : null);
  }

  function whoWrote(b, cell, k) {
    const e = elementOf(b, cell);
    if (e < 0) return h("p", { class: "tb-why" }, "nobody holds this cell");
    const list = m.writers(b, e, k, 6);
    const from = m.origin(b, e, k).slice(1);
    const box = h("div", { class: "tb-who" }, h("p", {}, h("b", {}, `who wrote ${cellName(b, cell)}`), " ", button("go there (W)", () => trail(b, cell), "to the step that computed it, through copies")));
    if (!list.length) box.append(h("p", { class: "tb-why" }, "nobody up to this step"));
    for (const s of list) box.append(h("div", {}, button(`step ${m.number(s)}`, () => go(s), "show this step"), ` line ${site(s).line}${vars(s) ? `, ${vars(s)}` : ""}: ${text(b, cell, s)}`));
    if (from.length) box.append(h("p", { class: "tb-why" }, `copied from ${from.map((c) => { const g = scene.faces[c.buffer]; return cellName(c.buffer, g.element ? g.element.indexOf(c.element) : c.element); }).join(", from ")}`));
    return box;
  }

  const entry = h("input", { type: "text", class: "tb-goto", placeholder: "watch: max(s), l[0], nan(acc) ...", "aria-label": "watch an expression" });
  const told = h("span", { class: "tb-why", role: "status" });
  const adder = h("div", { class: "tb-add" }, entry, told);
  entry.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key !== "Enter" || !entry.value.trim()) return;
    try { compileFor(m, entry.value); own.watches.push({ text: entry.value.trim() }); told.textContent = ""; entry.value = ""; sides(); entry.focus(); } catch (error) { told.textContent = error.message; }
  });

  // ---------------------------------------------------------------- keys and the bus
  /** To the next step of a line (or the one before), round the end. */
  function lineStep(n, direction = 1) {
    for (let i = 1; i <= total; i++) { const k = (at() + direction * i + total * 2) % total; if (site(k).line === n) { go(k); return true; } }
    return false;
  }

  root.addEventListener("keydown", (event) => {
    if (event.altKey || event.metaKey || event.ctrlKey || (event.target instanceof HTMLInputElement && event.target.type === "text") || event.target instanceof HTMLSelectElement) return;
    const k = event.key, onButton = event.target instanceof HTMLButtonElement || (event.target instanceof HTMLInputElement && event.target.type === "checkbox");
    if (k === "ArrowRight") event.shiftKey ? leap(1) : go(at() + 1);
    else if (k === "ArrowLeft") event.shiftKey ? leap(-1) : go(at() - 1);
    else if (k === ".") go(at() + 1);
    else if (k === ",") go(at() - 1);
    else if (k === "Home") go(0);
    else if (k === "End") go(total - 1);
    else if (k === " " && !onButton) timer ? stop() : run(1, PLAY_MS);
    else if (k === "r") seek(1);
    else if (k === "R") seek(-1);
    else if ((k === "w" || k === "W") && (look ?? kept)) { const c = look ?? kept; trail(c.buffer, c.cell); }
    else if (k === "Escape") { kept = own.kept = null; act.clear(); sides(); say(); }
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  /** What another view pinned. @param {any} sel */
  function heard(sel) {
    const b = sel.buffer === undefined ? undefined : m.byName.get(sel.buffer) ?? m.buffers.findIndex((x) => x.holds === sel.buffer);
    if (b !== undefined && b >= 0 && sel.coord && m.versions[b].length) {
      const cell = cellAt(b, sel.coord);
      if (cell !== null) {
        if (sel.step !== undefined && sel.op === undefined && sel.step < total) { keep({ buffer: b, cell }); go(sel.step, true); return; }
        own[key] = total - 1;
        trail(b, cell);
        return;
      }
      const info = m.buffers[b];
      if (info.scope === "global") { go(at(), true); status.textContent = `${sel.buffer}[${sel.coord.join(", ")}] is not written by block (${trace.block.join(", ")}), which was recorded${sel.block ? "" : ": record the block that writes it"}`; return; }
    }
    if (sel.op !== undefined && sel.step !== undefined) {
      const k = m.steps.findIndex((s, i) => m.sites[s.site].op === sel.op && m.iteration(i) === sel.step);
      if (k >= 0) { go(k, true); return; }
    } else if (sel.step !== undefined && sel.step < total) { go(sel.step, true); return; }
    if (sel.line && site(at()).line !== sel.line) { if (m.steps.some((_, k) => site(k).line === sel.line)) { lineStep(sel.line); return; } }
    marks();
  }

  let known = JSON.stringify(act.now().pins);
  const off = act.watch((now) => {
    code.light(now);
    const text_ = JSON.stringify(now.pins), last = now.pins[now.pins.length - 1];
    const fresh = text_ !== known;
    known = text_;
    if (mine) return;
    if (fresh && last) heard(last); else if (!look) marks();
  });
  const resized = new ResizeObserver(() => { if (scene.refit()) { scene.show(at()); marks(); } });
  resized.observe(scene.el);
  go(at(), true);
  const last = act.now().pins[act.now().pins.length - 1];
  if (last) heard(last);
  return () => { stop(); off(); resized.disconnect(); root.remove(); };
}

/**
 * Where a trace opens: the first step that an exercise speaks of, else the first that is wrong, else the one that stopped the run, else,
 * when the result is wrong, the first with a NaN, else the first. @param {any} m the opened trace @param {any} report
 */
export function firstWrong(m, report) {
  const told = (report.exercise?.claims ?? []).find((c) => c.passed === false && c.step !== null && c.step !== undefined && c.step < m.steps.length);
  if (told) return told.step;
  const wrong = m.steps.findIndex((s) => s.checks.some((c) => c.wrong > 0));
  if (wrong >= 0) return wrong;
  if (m.trace.stopped) return m.steps.length - 1;
  return report.ok === false ? Math.max(0, m.steps.findIndex((s) => s.writes.some((w) => w.nan > 0))) : 0;
}

/** A number as a reader can take it in. @param {number} x */
export function value(x) {
  if (Number.isNaN(x)) return "NaN";
  if (x === Infinity) return "inf";
  if (x === -Infinity) return "−inf";
  if (x === 0) return "0";
  const size = Math.abs(x);
  return size >= 1e5 || size < 1e-4 ? x.toExponential(3) : String(Number(x.toPrecision(5)));
}

function swatch(background, name) {
  return h("span", { class: "tb-swatch" }, h("i", { style: { background } }), name);
}
