// The tunables of a kernel as sliders. A move is predicted at once; the compile behind it comes later and may be ended; illegal values are
// greyed and say why; `keep` pins a point to the roofline and the difference card; `run and measure` launches it on the kernel's machine.
// Without a kernel the points that were tried remain.
import { h, button, number, figureText, table, empty, provenance } from "./kit.js";

const READ_ONLY = "read only: no kernel here to try other points; run the cell again to move the sliders";
const SILENCE = 6000; // milliseconds after which a kernel that does not answer is spoken of

/** Whether a report has tunables. @param {any} report */
export function has(report) {
  return Boolean(report.whatif && report.whatif.tunables.length);
}

/** @param {any} p */
const microseconds = (p) => p?.point?.time_us?.value ?? null;
/** @param {Record<string, string>} a @param {Record<string, string>} b */
const same = (a, b) => Object.keys(a).length === Object.keys(b).length && Object.entries(a).every(([k, v]) => b[k] === v);

/** "+12.3%" of a time against another. @param {number|null} us @param {number|null} base */
export function against(us, base) {
  if (us === null || base === null || !base) return "";
  const percent = 100 * (us / base - 1);
  return `${percent > 0 ? "+" : percent < 0 ? "−" : "±"}${number(Math.abs(Number(percent.toPrecision(3))))}%`;
}

/** What a point changes of the base, in words. @param {any} point @param {any} info */
export function changed(point, info) {
  const parts = Object.entries(point.config).filter(([k, v]) => info.base[k] !== v).map(([k, v]) => `${k}=${v}`);
  return parts.join(", ") || "as it is";
}

/** What running a point gave, in words. @param {any} point */
export function ran(point) {
  const result = point.ok === true ? "right" : point.ok === false ? "wrong" : "not checked";
  return `${point.measured ? `; measured ${number(point.measured.value)} ${point.measured.unit} on ${point.measured.device}, ${result}` : ""}${point.problem ? `; it did not run: ${point.problem}` : ""}`;
}

/** The figures of a point: what, how much, from where. @param {any} point @param {any} base @returns {[string, string][]} */
export function figures(point, base) {
  const r = point.resources, compiled = point.state === "compiled", us = microseconds(point);
  /** @type {[string, string][]} */
  const rows = [["time of a launch", us === null ? "known at the call" : `${figureText(point.point.time_us)}${same(point.config, base?.config ?? {}) ? "" : `; ${against(us, microseconds(base))} against the base`}`]];
  if (us !== null) rows.push(["rate", `${number(point.point.flops / us / 1e6)} TFLOP/s, ${number(point.point.bytes / us / 1e3)} GB/s (${provenance(point.point.time_us)})`]);
  if (point.measured) rows.push(["measured", `${figureText(point.measured)}`], ["result", point.verdict || "not checked"]);
  rows.push(["limited by", `${point.limiter || "–"} (predicted)`]);
  rows.push(["registers a thread", r.registers === null ? "–" : `${r.registers} (${compiled ? "compiler's log" : "predicted: an estimate from the fragments"})`]);
  rows.push(["spilled", r.spill_bytes === null ? (compiled ? "–" : point.reason || "known once compiled") : `${r.spill_bytes} B (compiler's log)`]);
  rows.push(["shared memory", `${(r.shared_bytes / 1024).toFixed(1)} KiB a block (from the byte map)`]);
  const extra = point.program_threads > 0 ? r.threads - point.program_threads : 0;
  rows.push(["launch", `${r.threads} threads a block${extra > 0 ? ` (${point.program_threads} of the program and ${extra} that only fetch tiles, the producer)` : ""}${r.grid.length ? `, grid ${r.grid.join(" × ")}` : ""}`]);
  if (r.occupancy) rows.push(["occupancy", `${figureText(r.occupancy)}, ${r.blocks_per_sm} ${r.blocks_per_sm === 1 ? "block" : "blocks"} an SM; limited by ${r.limiter}`]);
  return rows;
}

/** The what-if tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  void act;
  const { report, link } = state, own = (state.whatif ??= {});
  const info = () => report.whatif;
  own.config ??= { ...info().base };
  own.around ??= new Map();
  const key = (config) => JSON.stringify(info().tunables.map((t) => config[t.name]));
  const find = (config) => info().tried.find((p) => same(p.config, config));
  const base = () => find(info().base);
  const status = h("p", { class: "tb-status", "aria-live": "polite" });
  const sliders = h("div", { class: "tb-sliders" }), panel = h("div", { class: "tb-side" }), tried = h("div", {});
  let waiting = null, asked = null, silence = 0, note = "";

  // ---------------------------------------------------------------- what is known

  function put(point) {
    const list = info().tried, k = list.findIndex((p) => same(p.config, point.config));
    if (k >= 0) list[k] = point; else list.push(point);
  }

  function hear(message) {
    if (message === null || typeof message !== "object") return;
    clearTimeout(silence);
    const at = message.config && same(message.config, own.config);
    switch (message.kind) {
      case "point": put(message.point); if (asked && same(asked, message.point.config)) { asked = null; } next(); break;
      case "around": own.around.set(key(message.config), message.values); break;
      case "compiling": if (at) note = "compiling"; own.compiling = message.config; break;
      case "compiled": put(message.point); own.compiling = null; if (same(message.point.config, own.config)) note = ""; break;
      case "running": own.running = { config: message.config, text: String(message.text) }; if (at) note = message.text; break;
      case "measured": put(message.point); own.running = null; if (same(message.point.config, own.config)) note = message.point.problem ? "it did not run" : "measured"; break;
      case "cancelled": if (at) note = own.running ? "the run was ended" : "the compile was ended"; own.compiling = own.running = null; break;
      case "kept":
        report.whatif = message.whatif;
        report.roofline = message.roofline;
        report.compare = message.compare;
        own.compiling = own.running = null;
        note = "kept: it is on the roofline and on the difference card";
        break;
      case "error": own.compiling = own.running = null; note = message.text; asked = null; break;
      default: return;
    }
    show();
  }

  function ask(message) {
    if (!link) return;
    link.send(message);
    clearTimeout(silence);
    silence = setTimeout(() => { note = "the kernel does not answer: run the cell again"; show(); }, SILENCE);
  }

  /** One move is under way at a time; the latest wish follows it. */
  function next() {
    if (asked || !waiting) return;
    asked = waiting;
    waiting = null;
    ask({ kind: "move", config: asked });
  }

  function move(name, value) {
    const config = { ...own.config, [name]: value };
    if (!link && !find(config)) { note = "this point was not tried, and there is no kernel to try it"; show(); return; }
    own.config = config;
    note = "";
    if (link) { waiting = config; next(); }
    show();
  }

  // ---------------------------------------------------------------- sliders

  /** Why a value cannot be had with the others as they are: "" when it can, or when nothing is known. */
  function barred(name, value) {
    const around = own.around.get(key(own.config))?.[name]?.[value];
    if (around) return around.state === "illegal" ? around.reason || "illegal" : "";
    const point = find({ ...own.config, [name]: value });
    if (point) return point.state === "illegal" ? point.reason || "illegal" : "";
    return link ? "" : "not tried";
  }

  function time(name, value) {
    const around = own.around.get(key(own.config))?.[name]?.[value];
    return around ? around.us : microseconds(find({ ...own.config, [name]: value }));
  }

  const rows = info().tunables.map((t) => row(t));
  sliders.append(...rows.map((r) => r.box));

  function row(t) {
    const range = h("input", { type: "range", min: 0, max: t.values.length - 1, step: 1, class: "tb-range", "aria-label": t.name, disabled: !link, title: link ? undefined : READ_ONLY, on: { input: () => move(t.name, t.values[Number(range.value)]) } });
    const value = h("output", { class: "tb-value" });
    const marks = t.values.map((v) => h("button", { type: "button", class: "tb-mark", on: { click: () => move(t.name, v) } }, h("i", { class: "tb-mark-bar" }), h("span", {}, v)));
    const strip = h("div", { class: "tb-marks", role: "group", "aria-label": `values of ${t.name}` }, ...marks);
    const box = h("div", { class: "tb-slider" }, h("div", { class: "tb-slider-head" }, h("span", { class: "tb-slider-name" }, t.name), value), range, strip);
    const update = () => {
      const now = own.config[t.name], k = t.values.indexOf(now);
      range.value = String(k);
      range.setAttribute("aria-valuetext", `${now}${barred(t.name, now) ? `, illegal: ${barred(t.name, now)}` : ""}`);
      value.textContent = `${now}${now === t.value ? "" : ` (base: ${t.value})`}`;
      const times = t.values.map((v) => time(t.name, v)), longest = Math.max(...times.map((x) => x ?? 0), 1e-9);
      marks.forEach((mark, i) => {
        const v = t.values[i], why = barred(t.name, v), us = times[i];
        mark.setAttribute("aria-pressed", String(v === now));
        mark.setAttribute("aria-disabled", String(Boolean(why)));
        mark.dataset.base = String(v === t.value);
        const words = why ? `${t.name} ${v}: ${link || why !== "not tried" ? `illegal: ${why}` : why}` : us === null ? `${t.name} ${v}` : `${t.name} ${v}: ${number(us)} us (predicted)`;
        mark.setAttribute("aria-label", words);
        mark.title = words;
        mark.firstChild.style.height = us === null || why ? "0" : `${Math.max(2, Math.round(20 * us / longest))}px`;
      });
    };
    return { box, update };
  }

  // ---------------------------------------------------------------- the point, and those before it

  function show() {
    for (const r of rows) r.update();
    const point = find(own.config), b = base();
    empty(panel);
    if (point) {
      const name = { predicted: "predicted", compiled: "compiled", illegal: "illegal" }[point.state];
      const badge = h("span", { class: "tb-state", "data-state": point.state }, name), busy = own.compiling && same(own.compiling, own.config), running = own.running && same(own.running.config, own.config);
      panel.append(h("div", { class: "tb-tools" }, badge, busy ? h("span", { class: "tb-state", "data-state": "busy" }, "compiling…") : null, running ? h("span", { class: "tb-state", "data-state": "busy" }, `${own.running.text}…`) : null, point.kept ? h("span", { class: "tb-state", "data-state": "kept" }, "● kept") : null, h("span", { class: "tb-hint" }, `known after ${number(point.milliseconds)} ms`)));
      if (point.state === "illegal") panel.append(h("p", { class: "tb-illegal" }, point.reason));
      else panel.append(table([], figures(point, b), changed(point, info())));
      if (point.problem) panel.append(h("p", { class: "tb-illegal" }, `it did not run: ${point.problem}`));
      if (point.ok === false) panel.append(h("p", { class: "tb-illegal" }, "the result is wrong: its time says little"));
      if (point.state !== "illegal" && point.reason) panel.append(h("p", { class: "tb-hint" }, point.reason));
    } else panel.append(h("p", { class: "tb-hint" }, "asking the kernel…"));
    const keep = button("keep", () => { note = "keeping"; ask({ kind: "keep", config: own.config }); show(); }, "compile this point and pin it to the roofline and the difference card");
    const stop = button("stop", () => ask({ kind: "stop" }), "end the compile or the run");
    const measure = button("run and measure", () => { own.running = { config: own.config, text: "asking" }; note = "asked to run"; ask({ kind: "measure", config: own.config }); show(); }, "launch this point with the last inputs, compare the result, and time it");
    measure.disabled = !link || !point || point.state === "illegal" || Boolean(own.running);
    const reset = button("back to the base", () => { own.config = { ...info().base }; note = ""; if (link) { waiting = own.config; next(); } show(); });
    keep.disabled = !link || !point || point.state === "illegal" || point.kept;
    stop.disabled = !own.compiling && !own.running;
    panel.append(h("div", { class: "tb-tools" }, keep, measure, stop, reset, link ? null : h("span", { class: "tb-hint" }, "no kernel here: only points that were tried")));
    const us = point ? microseconds(point) : null;
    const words = !point ? "asking the kernel" : point.state === "illegal" ? `illegal: ${point.reason}` : `${changed(point, info())}: ${us === null ? "time known at the call" : `${number(us)} us`}${b && point !== b ? `, ${against(us, microseconds(b))}` : ""} (predicted), ${point.resources.registers} registers (${point.state === "compiled" ? "compiler's log" : "estimate"}), ${point.resources.blocks_per_sm} blocks an SM${ran(point)}`;
    const said = note ? `${words}; ${note}` : words;
    if (status.textContent !== said) status.textContent = said;
    list();
  }

  function list() {
    empty(tried);
    const b = base(), rank = (p) => (p === b ? -2 : p.kept ? -1 : p.state === "illegal" ? 1 : 0);
    const all = [...info().tried].sort((x, y) => rank(x) - rank(y) || (microseconds(x) ?? 1e30) - (microseconds(y) ?? 1e30));
    const devices = [...new Set(all.filter((p) => p.measured).map((p) => p.measured.device))];
    const cells = all.slice(0, 60).map((p) => {
      const us = microseconds(p), r = p.resources;
      const go = button(changed(p, info()), () => { own.config = { ...p.config }; note = ""; if (link) { waiting = own.config; next(); } show(); }, "put the sliders there");
      if (p.state === "illegal") return [go, "illegal", p.reason, null, null, null, null, null, null];
      return [go, `${p.state}${p.kept ? ", kept" : ""}`, us === null ? "–" : `${number(us)} us`, p === b ? "–" : against(us, microseconds(b)), p.measured ? `${number(p.measured.value)} ${p.measured.unit}${p.ok === false ? ", wrong" : p.ok ? ", right" : ""}` : p.problem ? "failed" : "–", `${r.registers ?? "–"}`, r.spill_bytes === null ? "–" : `${r.spill_bytes} B`, `${(r.shared_bytes / 1024).toFixed(1)} KiB`, `${r.blocks_per_sm ?? "–"}`];
    });
    tried.append(h("div", { class: "tb-scroll tb-tall" }, table(["tried", "state", "predicted", "change", "measured", "registers", "spilled", "shared", "blocks an SM"], cells, `${all.length} ${all.length === 1 ? "point" : "points"} tried; predicted for ${info().device}${devices.length ? `, measured on ${devices.join(", ")}` : ""}; registers are an estimate until it is compiled`)));
  }

  const key_ = h("p", { class: "tb-legend" }, h("span", { class: "tb-swatch" }, h("i", { class: "tb-key-bar" }), "predicted time with that value: a lower bar is faster"), h("span", {}, h("u", {}, "underlined"), ": as it is"), h("span", {}, h("s", {}, "struck"), link ? ": cannot be had, the hint says why" : ": cannot be had, or was not tried: the hint says which"));
  el.append(status, h("div", { class: "tb-two tb-sliding" }, h("div", {}, link ? null : h("p", { class: "tb-why" }, `${READ_ONLY}. A value that was tried can be clicked.`), sliders, key_), panel, tried));
  show();
  const off = link ? link.listen(hear) : () => {};
  if (link) { waiting = own.config; next(); }
  return () => { clearTimeout(silence); off(); if (link && (own.compiling || own.running)) link.send({ kind: "stop" }); };
}

