// A report: verdict line, then the views as tabs. All views talk over the bus of the report's id.
import { h, empty, button, choice, busOf, buffersAt, uid } from "./kit.js";
import * as summary from "./summary.js";
import * as layout from "./layout.js";
import * as smem from "./smem.js";
import * as warps from "./warps.js";
import * as timeline from "./timeline.js";
import * as roofline from "./roofline.js";
import * as compare from "./compare.js";
import * as whatif from "./whatif.js";
import * as step from "./step.js";
import * as exercise from "./exercise.js";
import * as diff from "./diff.js";
import * as code from "./code.js";
import * as passes from "./passes.js";
import * as findings from "./findings.js";

/**
 * name, title, module, whether the report has something to show.
 * @type {[string, string, {draw: (el: HTMLElement, state: any, act: import("./kit.js").Act) => () => void}, (report: any) => boolean][]}
 */
export const TABS = [
  ["whatif", "what if", whatif, (r) => whatif.has(r)],
  ["layout", "layout", layout, (r) => layout.fragments(r).length > 0],
  ["smem", "shared memory", smem, (r) => smem.tiles(r).length > 0],
  ["warps", "warps", warps, (r) => warps.roles(r).length > 0],
  ["timeline", "timeline", timeline, (r) => r.timelines.some((t) => t.bars.length > 0)],
  ["roofline", "roofline", roofline, (r) => r.roofline !== null],
  ["compare", "changes", compare, (r) => compare.has(r) || whatif.has(r)],
  ["step", "time travel", step, (r) => (r.traces ?? []).length > 0],
  ["exercise", "exercise", exercise, (r) => exercise.has(r)],
  ["diff", "difference", diff, (r) => r.diffs.length > 0],
  ["code", "code", code, () => true],
  ["passes", "passes", passes, (r) => r.passes.some((p) => p.changed && p.text)],
  ["findings", "findings", findings, (r) => r.findings.length > 0],
  ["summary", "figures", summary, () => true],
];

/** "layout;C_local;warp" and back: which tab, buffer and colour. @param {any} state */
export function stateText(state) {
  return ["tab", state.tab ?? "", "beside", state.beside ?? "", "buffer", state.layout?.buffer ?? "", "mode", state.layout?.mode ?? "", "view", state.layout?.view ?? "", ...(state.step ? ["at", state.step[`at${state.step.which ?? 0}`] ?? "", "trace", state.step.which ?? 0] : [])].map(encodeURIComponent).join(":");
}

/** Puts what `stateText` gave into a state; anything unknown is ignored. @param {any} state @param {string} text */
export function restore(state, text) {
  const parts = String(text ?? "").slice(0, 2000).split(":").map((p) => { try { return decodeURIComponent(p); } catch { return ""; } });
  const get = (key) => { const k = parts.indexOf(key); return k >= 0 && k % 2 === 0 ? parts[k + 1] : ""; };
  if (TABS.some(([n]) => n === get("tab"))) state.tab = get("tab");
  if (TABS.some(([n]) => n === get("beside"))) state.beside = get("beside");
  state.layout = {};
  if (/^\d{1,7}$/.test(get("at"))) state.step = { which: Number(get("trace")) || 0, [`at${Number(get("trace")) || 0}`]: Number(get("at")) };
  if (get("buffer")) state.layout.buffer = get("buffer");
  if (["lane", "warp", "register", "bank", "instruction", "value"].includes(get("mode"))) state.layout.mode = get("mode");
  if (["tensor", "hardware", "instruction"].includes(get("view"))) state.layout.view = get("view");
}

/**
 * The board in `el`. state: {report, views?: names to show, state?: text}; returns its end.
 * @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} [act] the report's own bus when left out
 * @returns {() => void}
 */
export function draw(el, state, act = busOf(state.report.id)) {
  const { report } = state;
  restore(state, state.state);
  const wanted = (state.views ?? []).filter((v) => v !== "board" && TABS.some(([n]) => n === v));
  const filled = TABS.filter(([, , , has]) => has(report)), asked = filled.filter(([name]) => wanted.includes(name));
  const tabs = asked.length ? asked : filled, blank = TABS.filter(([name, , , has]) => wanted.includes(name) && !has(report));
  // JupyterLab takes arrow keys, Enter and Escape for itself unless the focused element says that it wants them
  const root = h("div", { class: "tb-board", on: { focusin: (event) => { if (event.target instanceof Element) event.target.setAttribute("data-lm-suppress-shortcuts", "true"); } } });
  el.append(root);
  const mark = report.ok === true ? "PASS" : report.ok === false ? "FAIL" : "";
  root.append(h("p", { class: "tb-verdict" }, mark ? h("strong", { "data-verdict": report.ok ? "pass" : "fail" }, mark) : null, mark ? " " : null, h("b", {}, report.name), ` on ${report.target}: ${report.verdict || "not run"}`));
  const later = (state.views ?? []).filter((v) => v !== "board" && !TABS.some(([n]) => n === v));
  if (later.length) root.append(h("p", { class: "tb-why" }, `not in this version: ${later.join(", ")}`));
  if (blank.length) root.append(h("p", { class: "tb-why" }, `nothing of this kernel to show in: ${blank.map(([, title]) => title).join(", ")}`));
  const key = uid(); // ids are ours alone: nothing from the report is in them
  const bar = h("div", { class: "tb-tabs", role: "tablist", "aria-label": "views" });
  const panel = h("div", { class: "tb-panel", role: "tabpanel", id: `${key}-panel` });
  const second = h("div", { class: "tb-panel", role: "region", "aria-label": "second view" }), docks = h("div", { class: "tb-docks" }, panel);
  const split = button("split", () => dock(state.beside ? "" : neighbour()), "show a second view beside this one; both follow what is pinned");
  const foot = h("div", { class: "tb-foot" }), pins = h("span", { class: "tb-pins", "aria-live": "polite" });
  const link = h("input", { class: "tb-goto", type: "text", readonly: true, "aria-label": "state of this view, for tilebench.show(..., state=...)", hidden: true });
  foot.append(pins, button("clear pins", () => act.clear()), button("copy link", () => {
    link.hidden = false;
    link.value = stateText(state);
    link.select();
    navigator.clipboard?.writeText(link.value).catch(() => { link.title = "select and copy"; });
  }, "the state of this view as text, for tilebench.show(..., state=...)"), link);
  root.append(h("div", { class: "tb-bar-row" }, bar, tabs.length > 1 ? split : null), docks, foot);
  let end = () => {}, endSecond = () => {};
  const buttons = tabs.map(([name, title], k) => h("button", { type: "button", role: "tab", class: "tb-tab", id: `${key}-${k}`, "aria-controls": `${key}-panel`, on: { click: () => show(name) } }, title));
  bar.append(...buttons);
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const k = (buttons.indexOf(event.target) + step + tabs.length) % tabs.length;
    show(tabs[k][0]);
    buttons[k].focus();
    event.preventDefault();
    event.stopPropagation();
  });
  state.show = (name) => { if (tabs.some(([n]) => n === name)) show(name); };
  function show(name) {
    const k = Math.max(0, tabs.findIndex(([n]) => n === name));
    state.tab = tabs[k][0];
    buttons.forEach((b, i) => { b.setAttribute("aria-selected", String(i === k)); b.tabIndex = i === k ? 0 : -1; });
    panel.setAttribute("aria-labelledby", `${key}-${k}`);
    end();
    end = () => {};
    empty(panel);
    if (state.beside === state.tab) dock(neighbour());
    end = tabs[k][2].draw(panel, state, act);
  }

  /** The view that goes well beside the one shown: code, else the next tab. */
  function neighbour() {
    const wish = ["code", "layout", "timeline", ...tabs.map(([n]) => n)].find((n) => n !== state.tab && tabs.some(([t]) => t === n));
    return wish ?? "";
  }

  /** Puts a view beside the one shown; "" takes it away. */
  function dock(name) {
    endSecond();
    endSecond = () => {};
    empty(second);
    state.beside = tabs.some(([n]) => n === name) && name !== state.tab ? name : "";
    docks.classList.toggle("tb-docked", Boolean(state.beside));
    split.textContent = state.beside ? "one view" : "split";
    split.setAttribute("aria-pressed", String(Boolean(state.beside)));
    if (!state.beside) { second.remove(); return; }
    docks.append(second);
    second.append(choice("beside", tabs.filter(([n]) => n !== state.tab).map(([n, title]) => [n, title]), state.beside, dock));
    const inner = h("div", {});
    second.append(inner);
    endSecond = tabs.find(([n]) => n === state.beside)[2].draw(inner, state, act);
  }
  const off = act.watch((now) => {
    const last = now.pins[now.pins.length - 1];
    pins.textContent = last ? `${now.pins.length} pinned: ${Object.entries(last).map(([n, v]) => `${n} ${Array.isArray(v) ? `(${v.join(", ")})` : v}`).join(", ")}` : "nothing pinned";
    for (const [k, [name]] of tabs.entries()) buttons[k].classList.toggle("tb-touched", touched(report, name, now));
  });
  pins.textContent = "nothing pinned";
  const beside = state.beside;
  state.beside = "";
  show(state.tab ?? first(report, tabs.map(([n]) => n), wanted.length > 0));
  if (beside) dock(beside);
  return () => { off(); endSecond(); end(); root.remove(); };
}

/** The tab that opens: after a FAIL what is wrong, else the first. @param {any} report @param {string[]} names @param {boolean} asked whether the views were named */
function first(report, names, asked) {
  if (report.ok !== false || asked) return names[0];
  const bad = report.diffs.some((d) => d.verdict === "fail");
  const wish = ["whatif", ...(report.exercise ? ["exercise"] : []), ...(bad ? ["diff"] : []), "findings", "diff"];
  return wish.find((n) => names.includes(n)) ?? names[0];
}

/** Whether a tab has something about what is pinned: its name gets a dot. */
function touched(report, name, now) {
  return now.pins.some((s) => (name === "timeline" && report.timelines.some((t) => t.bars.some((b) => (s.op ? b.op === s.op : s.line && b.line === s.line))))
    || (name === "code" && s.line) || (name === "layout" && report.layouts.some((l) => l.kind === "fragment" && about(report, s).includes(l.buffer)))
    || (name === "smem" && report.layouts.some((l) => l.kind === "shared" && about(report, s).includes(l.buffer)))
    || (name === "roofline" && s.kernel && report.roofline?.points.some((p) => p.id === s.kernel))
    || (name === "exercise" && s.line && report.exercise?.claims.some((c) => c.line === s.line))
    || (name === "findings" && s.line && report.findings.some((f) => f.spans.some((p) => p.line === s.line))));
}

function about(report, s) {
  return s.buffer ? [s.buffer] : s.line ? buffersAt(report, s.line) : [];
}
