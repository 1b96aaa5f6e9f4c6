// What is worth knowing: severity, place in the cell, text, hint. A click pins the line.
import { h, button } from "./kit.js";

const ORDER = { error: 0, warning: 1, info: 2 };
const MARKS = { error: "✖", warning: "▲", info: "•" };

/** The findings tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const all = [...state.report.findings].sort((a, b) => ORDER[a.severity] - ORDER[b.severity]);
  el.append(h("ul", { class: "tb-findings" }, ...all.map((f) => h("li", { "data-severity": f.severity },
    h("b", {}, `${MARKS[f.severity]} ${f.severity}`), ` ${f.kind}: ${f.text} `,
    ...f.spans.map((s) => button(`line ${s.line}`, () => act.pin({ line: s.line }), "pin this line")),
    f.hint ? h("div", { class: "tb-hint" }, f.hint) : null))));
  return () => {};
}
