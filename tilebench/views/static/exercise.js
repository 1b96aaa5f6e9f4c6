// What an exercise found in an answer: claims with what was seen, what that means and where; lines, steps and elements are pinned by a click; hints one by one.
import { h, button, lit } from "./kit.js";

/** @type {Record<string, string>} */
const MARKS = { true: "✓ holds", false: "✖ does not hold", null: "– not looked at" };

/** @param {any} report */
export function has(report) { return (report.exercise?.claims ?? []).length > 0; }

/** The tensor or tile that a claim's element belongs to: the first name in its text that the report knows. @param {any} report @param {any} claim */
export function bufferOf(report, claim) {
  const known = [...report.buffers, ...report.params].map((b) => b.name);
  const said = `${claim.where} ${claim.saw} ${claim.claim}`.match(/[A-Za-z_]\w*/g) ?? [];
  return said.find((word) => known.includes(word)) ?? "";
}

/** The exercise tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const { report } = state, info = report.exercise, own = (state.exercise ??= { hints: 0 });
  const held = info.claims.filter((/** @type {any} */ c) => c.passed === true).length;
  const status = h("p", { class: "tb-status", "aria-live": "polite" }, `${info.name} ${info.title}: ${held} of ${info.claims.length} claims hold`);
  const list = h("ul", { class: "tb-findings tb-claims", tabindex: 0, "aria-label": "claims: arrow keys choose one, Enter pins its place" });
  const opOf = (/** @type {number} */ line) => report.ops.find((/** @type {any} */ o) => o.span && o.span.line <= line && line <= Math.max(o.span.line, o.span.end_line));
  let at = -1;

  /** Where a claim failed, for the bus. @param {any} c */
  function sel(c) {
    const buffer = c.element.length ? bufferOf(report, c) : "";
    return { line: c.line || undefined, op: c.line ? opOf(c.line)?.id : undefined, step: c.step ?? undefined, ...(buffer ? { buffer, coord: c.element } : {}) };
  }

  const items = info.claims.map((/** @type {any} */ c) => {
    const parts = [["seen", c.saw], ["that means", c.means], ["where", c.where], ["look at", c.look]].filter(([, text]) => text);
    return h("li", { "data-severity": c.passed === false ? "error" : "info", on: { pointerenter: () => { if (c.line) act.hover(sel(c)); }, pointerleave: () => act.hover(null) } },
      h("b", { "data-verdict": c.passed === true ? "pass" : c.passed === false ? "fail" : "unchecked" }, MARKS[String(c.passed)]), h("span", { class: "tb-claim" }, ` ${c.claim} `),
      c.line ? button(`line ${c.line}`, () => act.pin({ line: c.line, op: opOf(c.line)?.id }), "pin this line, its op and its step") : null,
      c.step !== null ? button(`step ${c.step}`, () => act.pin(sel(c)), "show this step in time travel") : null,
      c.passed !== true && parts.length ? h("dl", { class: "tb-parts" }, ...parts.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])) : c.saw ? h("div", { class: "tb-hint" }, c.saw) : null);
  });
  list.append(...items);

  const hints = h("div", { class: "tb-hints", "aria-live": "polite" });
  const more = button("hint", () => { own.hints = Math.min(info.hints.length, own.hints + 1); hint(); }, "the next hint");
  function hint() {
    hints.replaceChildren(...info.hints.slice(0, own.hints).map((/** @type {string} */ text, /** @type {number} */ k) => h("p", {}, h("b", {}, `hint ${k + 1} of ${info.hints.length}: `), text)));
    more.textContent = own.hints ? "next hint" : "hint";
    more.hidden = own.hints >= info.hints.length;
  }

  function light() {
    const lines = new Set(lit(act.now()).map((s) => s.line).filter(Boolean));
    items.forEach((/** @type {HTMLElement} */ node, /** @type {number} */ k) => { node.classList.toggle("tb-lit", lines.has(info.claims[k].line)); node.classList.toggle("tb-cursor", k === at); });
  }

  list.addEventListener("keydown", (event) => {
    if (event.target !== list) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      at = Math.max(0, Math.min(items.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)));
      items[at].scrollIntoView({ block: "nearest" });
      const c = info.claims[at];
      status.textContent = `${MARKS[String(c.passed)].slice(2)}: ${c.claim}${c.saw ? `; seen: ${c.saw}` : ""}${c.where ? `; ${c.where}` : ""}`;
      act.hover(c.line ? sel(c) : null);
      light();
    } else if (event.key === "Enter" && at >= 0 && info.claims[at].line) act.pin(sel(info.claims[at]), event.shiftKey);
    else if (event.key === "Escape") act.clear();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  el.append(status, list, ...(info.hints.length ? [h("div", { class: "tb-tools" }, more), hints] : []));
  hint();
  light();
  return act.watch(light);
}
