// The compiler pass by pass: only what changed something, with the lines that are new.
import { h, number, empty } from "./kit.js";

/** Lines of `after` marked as new where `before` has no such line (in order). @param {string} before @param {string} after */
export function changed(before, after) {
  const left = new Map();
  for (const line of before.split("\n")) left.set(line, (left.get(line) ?? 0) + 1);
  return after.split("\n").map((text) => {
    const n = left.get(text) ?? 0;
    if (n) left.set(text, n - 1);
    return { text, isNew: n === 0 };
  });
}

/** The passes tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  void act;
  const all = state.report.passes.filter((p) => p.changed && p.text), own = (state.passes ??= {});
  own.at = Math.max(0, Math.min(own.at ?? 0, all.length - 1));
  const list = h("div", { class: "tb-list", role: "listbox", tabindex: 0, "aria-label": "passes that changed something" });
  const text = h("div", { class: "tb-lines tb-pass" }), note = h("p", { class: "tb-status", "aria-live": "polite" });
  const items = all.map((p, k) => h("div", { class: "tb-item", role: "option", on: { click: () => show(k) } }, p.name, h("small", {}, `${number(p.microseconds / 1e3)} ms`)));
  list.append(...items);
  function show(k) {
    own.at = k;
    items.forEach((item, i) => { item.classList.toggle("tb-lit", i === k); item.setAttribute("aria-selected", String(i === k)); });
    empty(text);
    const lines = changed(k ? all[k - 1].text : "", all[k].text);
    const fresh = lines.filter((l) => l.isNew).length, marked = k > 0 && fresh < 0.8 * lines.length; // another kind of text is not "changed"
    lines.slice(0, 2000).forEach((l, i) => text.append(h("div", { class: marked && l.isNew ? "tb-line tb-new" : "tb-line" }, h("span", { class: "tb-no" }, i + 1), h("span", { class: "tb-text" }, l.text || " "))));
    note.textContent = `${all[k].name}: ${lines.length} lines${marked ? `, ${fresh} of them new` : ""}; ${number(all[k].microseconds / 1e3)} ms (measured on this machine)`;
  }
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (!step) return;
    show(Math.max(0, Math.min(all.length - 1, own.at + step)));
    event.preventDefault();
    event.stopPropagation();
  });
  const quiet = state.report.passes.filter((p) => !p.changed).map((p) => p.name);
  el.append(h("div", { class: "tb-split" }, list, text), note, quiet.length ? h("p", { class: "tb-legend" }, `changed nothing: ${quiet.join(", ")}`) : "");
  if (all.length) show(own.at);
  return () => {};
}
