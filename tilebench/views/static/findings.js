// What is worth knowing: severity, place in the cell, text, what to do. Lines, elements and steps are pinned by a click.
import { h, button, choice, lit } from "./kit.js";

const ORDER = { error: 0, warning: 1, info: 2 };
const MARKS = { error: "✖", warning: "▲", info: "•" };

/** Elements that a text names, as in "the first at [3, 17]", with the output they belong to. @param {any} report @param {any} f */
export function elements(report, f) {
  const outputs = report.diffs.map((d) => d.output), named = outputs.find((o) => new RegExp(`(^|[^\\w])${o.replace(/[^\w]/g, "")}([^\\w]|$)`).test(f.text)) ?? outputs[0];
  const found = [...`${f.text} ${f.hint}`.matchAll(/\[(\d+(?:, \d+)*)\]/g)].slice(0, 4).map((m) => m[1].split(", ").map(Number));
  return named ? found.map((coord) => ({ buffer: named, coord })) : [];
}

/** The findings tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const { report } = state, own = (state.findings ??= {});
  const all = [...report.findings].sort((a, b) => ORDER[a.severity] - ORDER[b.severity]);
  const count = (s) => all.filter((f) => f.severity === s).length;
  const status = h("p", { class: "tb-status", "aria-live": "polite" });
  const list = h("ul", { class: "tb-findings", tabindex: 0, "aria-label": "findings: arrow keys choose one, Enter pins its line" });
  const opOf = (line) => report.ops.find((o) => o.span && o.span.line <= line && line <= Math.max(o.span.line, o.span.end_line));
  const sel = (f) => ({ line: f.spans[0]?.line, op: f.spans.length ? opOf(f.spans[0].line)?.id : undefined });
  /** @type {{f: any, node: any}[]} */ let shown = [];
  let at = -1;

  function item(f) {
    const node = h("li", { "data-severity": f.severity, on: { pointerenter: () => { if (f.spans.length) act.hover(sel(f)); }, pointerleave: () => act.hover(null) } },
      h("b", {}, `${MARKS[f.severity]} ${f.severity}`), ` ${f.kind}${f.code ? ` (${f.code})` : ""}: ${f.text} `,
      ...f.spans.map((s, k) => button(`line ${s.line}`, () => act.pin({ line: s.line, op: opOf(s.line)?.id }, k > 0), "pin this line, its op and its step")),
      f.spans.length > 1 ? button("both lines", () => f.spans.forEach((s, k) => act.pin({ line: s.line }, k > 0)), "pin the two places together") : null,
      ...elements(report, f).map((e) => button(`element [${e.coord.join(", ")}]`, () => act.pin({ ...e, line: f.spans[0]?.line }), "pin this element: where it is, who wrote it, in which step")),
      f.hint ? h("div", { class: "tb-hint" }, `to do: ${f.hint}`) : null);
    return node;
  }

  function build() {
    list.replaceChildren();
    const wanted = own.which ? all.filter((f) => f.severity === own.which) : all;
    shown = wanted.map((f) => ({ f, node: item(f) }));
    list.append(...shown.map((x) => x.node));
    status.textContent = all.length ? `${all.length} ${all.length === 1 ? "finding" : "findings"}: ${["error", "warning", "info"].filter(count).map((s) => `${count(s)} ${s}`).join(", ")}` : "nothing found";
    at = -1;
    light();
  }

  function light() {
    const lines = new Set(lit(act.now()).map((s) => s.line).filter(Boolean));
    shown.forEach(({ f, node }, k) => { node.classList.toggle("tb-lit", f.spans.some((s) => lines.has(s.line))); node.classList.toggle("tb-cursor", k === at); });
  }

  list.addEventListener("keydown", (event) => {
    if (event.target !== list) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      at = Math.max(0, Math.min(shown.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)));
      const { f, node } = shown[at];
      node.scrollIntoView({ block: "nearest" });
      status.textContent = `${f.severity}: ${f.kind}: ${f.text}${f.spans.length ? `, line ${f.spans.map((s) => s.line).join(" and ")}` : ""}`;
      act.hover(f.spans.length ? sel(f) : null);
      light();
    } else if (event.key === "Enter" && at >= 0 && shown[at].f.spans.length) act.pin(sel(shown[at].f), event.shiftKey);
    else if (event.key === "Escape") act.clear();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  if (new Set(all.map((f) => f.severity)).size > 1) el.append(h("div", { class: "tb-tools" }, choice("show", [["", "all"], ...["error", "warning", "info"].filter(count).map((s) => /** @type {[string, string]} */ ([s, `${s} (${count(s)})`]))], own.which ?? "", (v) => { own.which = v; build(); })));
  el.append(status, list);
  build();
  return act.watch(light);
}
