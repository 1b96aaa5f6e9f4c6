// The compiler pass by pass: only what a pass changed, line by line and, within a line, word by word.
import { h, number, empty, button, lit } from "./kit.js";

const CONTEXT = 2, MOST = 1200, ALIKE = 0.35;

/**
 * What to take from `a` and what from `b`: [" " | "-" | "+", item] in order. A longest common subsequence between what is the
 * same at both ends; texts longer than that middle can be are replaced as a whole.
 * @template T @param {T[]} a @param {T[]} b @returns {[string, T][]}
 */
export function diff(a, b) {
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail);
  const out = a.slice(0, head).map((t) => /** @type {[string, T]} */ ([" ", t]));
  if (x.length > MOST || y.length > MOST) out.push(...x.map((t) => /** @type {[string, T]} */ (["-", t])), ...y.map((t) => /** @type {[string, T]} */ (["+", t])));
  else {
    const w = y.length + 1, best = new Uint16Array((x.length + 1) * w);
    for (let i = x.length - 1; i >= 0; i--) for (let j = y.length - 1; j >= 0; j--) best[i * w + j] = x[i] === y[j] ? best[(i + 1) * w + j + 1] + 1 : Math.max(best[(i + 1) * w + j], best[i * w + j + 1]);
    let i = 0, j = 0;
    while (i < x.length || j < y.length) {
      if (i < x.length && j < y.length && x[i] === y[j]) { out.push([" ", x[i]]); i++; j++; } else if (i < x.length && (j >= y.length || best[(i + 1) * w + j] >= best[i * w + j + 1])) out.push(["-", x[i++]]);
      else out.push(["+", y[j++]]);
    }
  }
  return [...out, ...a.slice(a.length - tail).map((t) => /** @type {[string, T]} */ ([" ", t]))];
}

/** The words of two lines, as `diff`. @param {string} a @param {string} b */
export function diffWords(a, b) {
  const words = (t) => t.match(/\w+|\s+|[^\w\s]/g) ?? [];
  return diff(words(a), words(b));
}

/** How much of two lines is the same, 0 to 1. @param {[string, string][]} parts of diffWords */
function alike(parts) {
  const total = parts.reduce((n, [, t]) => n + t.trim().length, 0), same = parts.reduce((n, [k, t]) => n + (k === " " ? t.trim().length : 0), 0);
  return total ? (2 * same) / (total + same) : 1;
}

/**
 * The rows that show what became of a text. Lines that were changed a little are one row each, with their words; runs of lines
 * that stay are folded to their number. lines: numbers in the new text (0: none).
 * @param {string} before @param {string} after
 * @returns {{kind: string, text: string, line: number, words?: [string, string][], count?: number, what?: string}[]}
 */
export function rowsOf(before, after) {
  // how deep a line stands is not compared: a stage may print the body of a loop without what is around it
  const old = before ? before.split("\n") : [], fresh = after.split("\n"), trim = (t) => t.trim();
  const parts = diff(old.map(trim), fresh.map(trim)), rows = [];
  let line = 0, was = 0;
  for (let k = 0; k < parts.length;) {
    if (parts[k][0] === " ") { rows.push({ kind: " ", text: fresh[line], line: ++line }); was++; k++; continue; }
    const gone = [], come = [];
    let next_ = line;
    while (k < parts.length && parts[k][0] !== " ") { if (parts[k][0] === "-") gone.push(old[was++]); else come.push(fresh[next_++]); k++; }
    // a removed line goes with the first added one that is like it, in order
    let from = 0;
    const pair = new Map();
    for (let i = 0; i < gone.length; i++) {
      for (let j = from; j < come.length && j < from + 8; j++) {
        const words = diffWords(gone[i].trim(), come[j].trim());
        if (alike(words) < ALIKE) continue;
        pair.set(i, { j, words: [[" ", come[j].slice(0, come[j].search(/\S|$/))], ...words] });
        from = j + 1;
        break;
      }
    }
    let next = 0;
    for (let i = 0; i < gone.length; i++) {
      const with_ = pair.get(i);
      if (!with_) { rows.push({ kind: "-", text: gone[i], line: 0 }); continue; }
      while (next < with_.j) rows.push({ kind: "+", text: come[next++], line: ++line });
      rows.push({ kind: "~", text: come[next++], line: ++line, words: with_.words });
    }
    while (next < come.length) rows.push({ kind: "+", text: come[next++], line: ++line });
  }
  return rows;
}

/** Rows with runs of unchanged lines folded, but for a little context. @param {ReturnType<typeof rowsOf>} rows */
export function folded(rows) {
  const near = new Uint8Array(rows.length);
  rows.forEach((r, k) => { if (r.kind !== " ") for (let d = -CONTEXT; d <= CONTEXT; d++) if (rows[k + d]) near[k + d] = 1; });
  const out = [], head = rows.findIndex((r) => r.kind !== "-");
  // the declarations at the top of a program are not repeated by stages that print its body
  if (head >= 3) out.push({ kind: "…", text: "", line: 0, count: head, what: "of declarations, not printed by this stage" });
  for (let k = head >= 3 ? head : 0; k < rows.length;) {
    if (near[k]) { out.push(rows[k++]); continue; }
    let n = 0;
    while (k + n < rows.length && !near[k + n]) n++;
    if (n < 3) out.push(...rows.slice(k, k + n)); else out.push({ kind: "…", text: "", line: 0, count: n });
    k += n;
  }
  return out;
}

/**
 * The text that a pass started from: the latest earlier one that shares a fifth of its lines. Stages are written as different
 * kinds of text, and another kind is not a change. @param {any[]} passes @param {number} k @returns {number} -1 for none
 */
export function baseOf(passes, k) {
  const own = passes[k].text.split("\n");
  for (let b = k - 1; b >= 0; b--) {
    const there = new Set(passes[b].text.split("\n")), same = own.filter((l) => l.trim() && there.has(l)).length;
    if (same >= 0.2 * Math.min(own.length, there.size)) return b;
  }
  return -1;
}

/** The passes tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const all = state.report.passes.filter((p) => p.changed && p.text), own = (state.passes ??= {});
  own.at = Math.max(0, Math.min(own.at ?? 0, all.length - 1));
  const list = h("div", { class: "tb-list", role: "listbox", tabindex: 0, "aria-label": "passes that changed something" });
  const text = h("div", { class: "tb-lines tb-pass", tabindex: 0, role: "region", "aria-label": "what the pass changed" }), note = h("p", { class: "tb-status", "aria-live": "polite" });
  const cache = new Map();
  const changes = (k) => {
    if (!cache.has(k)) {
      const base = baseOf(all, k), rows = rowsOf(base >= 0 ? all[base].text : "", all[k].text);
      const head = Math.max(0, rows.findIndex((r) => r.kind !== "-")), body = head >= 3 ? rows.slice(head) : rows;
      const many = (kind) => body.filter((r) => r.kind === kind || r.kind === "~").length;
      cache.set(k, { base, rows, plus: many("+"), minus: many("-") });
    }
    return cache.get(k);
  };
  const items = all.map((p, k) => {
    const c = changes(k);
    return h("div", { class: "tb-item", role: "option", on: { click: () => show(k) } }, p.name,
      h("small", {}, c.base >= 0 ? `+${c.plus} −${c.minus}` : `${c.rows.length} lines`, h("br", {}), `${number(p.microseconds / 1e3)} ms`));
  });
  list.append(...items);
  const whole = button("whole text", () => { own.whole = !own.whole; show(own.at); }, "all lines, or only those that changed (key f)");

  function show(k) {
    own.at = k;
    items.forEach((item, i) => { item.classList.toggle("tb-lit", i === k); item.setAttribute("aria-selected", String(i === k)); });
    empty(text);
    const c = changes(k), fresh = c.base < 0;
    whole.textContent = own.whole ? "only what changed" : "whole text";
    whole.disabled = fresh;
    for (const r of own.whole || fresh ? c.rows : folded(c.rows)) text.append(row(r, fresh, all[k].lines?.[r.line - 1] ?? 0));
    const unit = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
    const what = fresh ? `${unit(c.rows.length, "line")} of a new kind of text` : `${unit(c.plus, "line")} added or changed, ${unit(c.minus, "line")} removed or changed since ${all[c.base].name}`;
    note.textContent = `${all[k].name}: ${what}; ${number(all[k].microseconds / 1e3)} ms (measured on this machine)`;
    light();
  }

  function row(r, fresh, from) {
    if (r.kind === "…") return h("div", { class: "tb-line tb-fold" }, h("span", { class: "tb-no" }, "⋯"), button(`${r.count} lines ${r.what ?? "unchanged"}`, () => { own.whole = true; show(own.at); }, "show them"));
    const mark = fresh || r.kind === " " ? " " : r.kind;
    const words = r.words ? r.words.map(([k, t]) => (k === " " ? t : h(k === "+" ? "ins" : "del", {}, t))) : [r.text || " "];
    const line = h("div", { class: `tb-line${mark === "+" ? " tb-new" : mark === "-" ? " tb-gone" : mark === "~" ? " tb-edit" : ""}${from ? " tb-linked" : ""}` },
      h("span", { class: "tb-no" }, r.line || ""), h("span", { class: "tb-sign", "aria-label": { "+": "added", "-": "removed", "~": "changed" }[mark] }, mark === "-" ? "−" : mark), h("span", { class: "tb-text" }, ...words));
    line.dataset.from = String(from);
    return line;
  }

  function light() {
    const lines = new Set(lit(act.now()).map((s) => s.line).filter(Boolean)), pins = new Set(act.now().pins.map((s) => s.line));
    for (const line of text.children) {
      const n = Number(line.dataset.from);
      line.classList.toggle("tb-hover", Boolean(n) && lines.has(n) && !pins.has(n));
      line.classList.toggle("tb-pinned", Boolean(n) && pins.has(n));
    }
  }

  const lineOf = (event) => Number((event.target instanceof Element ? event.target.closest(".tb-line") : null)?.dataset.from ?? 0);
  text.addEventListener("pointerover", (event) => { const n = lineOf(event); act.hover(n ? { line: n } : null); });
  text.addEventListener("pointerleave", () => act.hover(null));
  text.addEventListener("click", (event) => { const n = lineOf(event); if (n) act.pin({ line: n }, event.shiftKey); });
  const keys = (event) => {
    const step = { j: 1, k: -1, ...(event.currentTarget === list ? { ArrowDown: 1, ArrowUp: -1 } : {}) }[event.key];
    if (step) show(Math.max(0, Math.min(all.length - 1, own.at + step)));
    else if (event.key === "f") { own.whole = !own.whole; show(own.at); } else if (event.key === "Escape") act.clear();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  list.addEventListener("keydown", keys);
  text.addEventListener("keydown", keys);
  const quiet = state.report.passes.filter((p) => !p.changed).map((p) => p.name);
  el.append(h("div", { class: "tb-tools" }, whole, h("span", { class: "tb-legend" }, "keys: j next pass, k the one before, f whole text")), note, h("div", { class: "tb-split" }, list, text),
    quiet.length ? h("p", { class: "tb-legend" }, `changed nothing: ${quiet.join(", ")}`) : "");
  if (all.length) show(own.at);
  return act.watch(light);
}
