// The cell and what became of it, level by level. Lines that came from the same cell line light together; a click pins. Machine
// code has its live registers and spills beside it, words for its opcodes, and its mix below; what says nothing is folded.
import { h, choice, button, empty, lit } from "./kit.js";
import { KINDS, about, byKind, isSpill, opcodeOf } from "./opcodes.js";

const NAMES = { cell: "cell", tile: "tile IR", thread: "thread IR", cuda: "CUDA C++", llvm: "LLVM IR", ptx: "PTX", sass: "SASS", asm: "assembly" };
const LIMIT = 4000, FEWEST = 3;
const MACHINE = new Set(["ptx", "sass"]);

/** Lines without meaning for the reader: helpers, directives, padding. Only those that come from no line of the cell count. */
const NOISE = {
  cuda: (t) => !/__global__/.test(t),
  ptx: (t) => /^\s*($|\.|[({)}]|\/\/)/.test(t),
  sass: (t) => /^\s*[0-9a-f]+\s+NOP\b|^\.L_x/.test(t),
  llvm: (t) => /^(declare|attributes|!|source_filename|target|;|\s*$)/.test(t),
  asm: (t) => /^\s*(\.(?!L)|#|$)/.test(t),
};

/** The cell, then every text of the report. @param {any} report */
export function levels(report) {
  const source = report.source.replace(/\n+$/, "");
  const size = source.split("\n").length;
  const cell = { level: "cell", text: source, lines: Array.from({ length: size }, (_, k) => report.first_line + k), live: [], mix: {} };
  const order = Object.keys(NAMES);
  return [cell, ...report.code.filter((c) => c.level !== "cell").sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level))];
}

/**
 * Runs of lines that are folded: [first, count]. @param {string} level @param {string[]} lines @param {number[]} from
 * @returns {number[][]}
 */
export function folds(level, lines, from) {
  const is = NOISE[level], out = [];
  if (!is) return out;
  const padding = level === "sass";
  for (let k = 0; k < lines.length;) {
    let n = 0;
    while (k + n < lines.length && (padding || !from[k + n]) && is(lines[k + n])) n++;
    if (n >= FEWEST) out.push([k, n]);
    k += Math.max(1, n);
  }
  return out;
}

/** "3 lines of PTX" @param {number} n @param {string} level */
function count(n, level) {
  return `${n} ${n === 1 ? "line" : "lines"} of ${NAMES[level]}`;
}

/** The code tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const texts = levels(state.report), own = (state.code ??= {});
  own.scrolled = undefined;
  own.open ??= {};
  const has = (level) => texts.some((t) => t.level === level);
  const order = ["cuda", "llvm", "ptx", "asm", "sass", "thread", "tile"].filter(has);
  own.shown ??= ["cell", ...order.slice(0, 2)];
  own.shown = own.shown.filter((l) => l === "cell" || has(l));
  const status = h("p", { class: "tb-status tb-roomy", "aria-live": "polite" }, "hover a line; a click pins it");
  const tools = h("div", { class: "tb-tools" });
  const columns = h("div", { class: "tb-code" }), below = h("div", {});
  el.append(tools, status, columns, below);
  /** @type {any[]} */
  let panes = [];
  let mine = false;
  /** @type {Set<HTMLElement>} */ const marked = new Set();

  function pane(which) {
    const level = own.shown[which], text = texts.find((t) => t.level === level) ?? texts[0];
    const byLine = new Map(), all = [];
    const lines = text.text.split("\n"), folded = own.open[level] ? [] : folds(text.level, lines, text.lines);
    const live = text.live ?? [], peak = Math.max(1, ...live);
    const hiddenAt = new Map(folded.map(([first, n]) => [first, n]));
    const list = h("div", { class: "tb-lines", tabindex: 0, role: "listbox", "aria-label": NAMES[text.level] });
    const end = Math.min(lines.length, LIMIT);
    let hidden = 0;
    for (let k = 0; k < end; k++) {
      const skip = hiddenAt.get(k);
      if (skip) {
        hidden += skip;
        list.append(h("div", { class: "tb-line tb-fold" }, h("span", { class: "tb-no" }, "⋯"), button(`${skip} lines hidden`, () => { own.open[level] = true; build(); }, "show them")));
        k += skip - 1;
        continue;
      }
      const content = lines[k], from = text.lines[k] ?? 0;
      const spill = MACHINE.has(text.level) && isSpill(content);
      const line = h("div", { class: from ? "tb-line tb-linked" : "tb-line", role: "option" }, h("span", { class: "tb-no" }, text.level === "cell" ? from : k + 1),
        live.length ? h("span", { class: "tb-live", "aria-hidden": "true" }, h("i", { style: { width: `${Math.round(100 * (live[k] ?? 0) / peak)}%` } })) : null,
        spill ? h("span", { class: "tb-spill" }, "spill") : null,
        h("span", { class: "tb-text" }, content || " "));
      line.dataset.from = String(from);
      line.dataset.k = String(k);
      if (from) {
        if (!byLine.has(from)) byLine.set(from, []);
        byLine.get(from).push(line);
      }
      all.push(line);
      list.append(line);
    }
    if (lines.length > LIMIT) list.append(h("div", { class: "tb-line" }, `… ${lines.length - LIMIT} more lines`));
    const of = (event) => (event.target instanceof Element ? event.target.closest(".tb-line[data-from]") : null);
    const words = (line) => say(Number(line?.dataset.from ?? 0), text, Number(line?.dataset.k ?? -1), lines);
    list.addEventListener("pointerover", (event) => {
      const line = of(event), n = Number(line?.dataset.from ?? 0);
      mine = true;
      if (line) words(line);
      act.hover(n ? { line: n } : null);
      mine = false;
    });
    list.addEventListener("pointerleave", () => act.hover(null));
    const pin = (line, add) => {
      const n = Number(line?.dataset.from ?? 0);
      if (!n) return;
      mine = true;
      own.from = level;
      act.pin({ line: n }, add);
      mine = false;
    };
    list.addEventListener("click", (event) => pin(of(event), event.shiftKey));
    let at = -1;
    list.addEventListener("keydown", (event) => {
      if (event.target !== list) return;
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        at = Math.max(0, Math.min(all.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)));
        all[at].scrollIntoView({ block: "nearest" });
        const n = Number(all[at].dataset.from);
        mine = true;
        words(all[at]);
        act.hover(n ? { line: n } : null);
        mine = false;
      } else if (event.key === "Enter" && at >= 0) pin(all[at], event.shiftKey);
      else if (event.key === "Escape") act.clear();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    const head = choice("", texts.map((t) => [t.level, `${NAMES[t.level]} (${t.text.split("\n").length})`]), text.level, (v) => { own.shown[which] = v; build(); });
    head.querySelector("select").setAttribute("aria-label", `text of column ${which + 1}`);
    const bar = h("div", { class: "tb-tools" }, head,
      NOISE[text.level] && (hidden || own.open[level]) ? button(own.open[level] ? "hide noise" : `${hidden} hidden`, () => { own.open[level] = !own.open[level]; build(); }, "lines of helpers, directives and padding") : null,
      live.length ? button(`peak ${peak} live`, () => jump(list, live.indexOf(peak)), `the line where most ${text.level === "ptx" ? "virtual registers (before allocation)" : "registers"} are live`) : null);
    return { level: text.level, text, byLine, all, box: list, hidden, section: h("section", { class: "tb-pane" }, bar, list) };
  }

  function jump(list, k) {
    const which = panes.findIndex((p) => p.box === list);
    if (!list.querySelector(`[data-k="${k}"]`)) { // it is folded
      own.open[panes[which].level] = true;
      build();
    }
    const pane = panes[which], line = pane.box.querySelector(`[data-k="${k}"]`);
    if (!line) return;
    pane.box.scrollTop = Math.max(0, line.offsetTop - pane.box.clientHeight / 3);
    say(Number(line.dataset.from), pane.text, k, pane.text.text.split("\n"));
  }

  function say(n, text, k, lines) {
    let words = n ? `line ${n}: ${panes.map((p) => count(p.byLine.get(n)?.length ?? 0, p.level)).join(", ")}` : "this line comes from no line of the cell";
    if (text && k >= 0 && MACHINE.has(text.level)) {
      const op = opcodeOf(lines[k]), [, help] = op ? about(op) : ["", ""];
      if (op) words += `; ${op}${help ? `: ${help}` : ""}`;
      if (text.live?.length && op) words += `; ${text.live[k]} ${text.level === "ptx" ? "virtual registers" : "registers"} live`;
    }
    status.textContent = words;
  }

  function mixes() {
    empty(below);
    for (const p of panes) {
      const mix = p.text.mix ?? {}, total = Object.values(mix).reduce((a, b) => a + b, 0);
      if (!total) continue;
      const find = (op) => {
        const from = own.last?.op === op && own.last.level === p.level ? own.last.at : -1;
        const hits = p.all.map((line, k) => [line, k]).filter(([line]) => opcodeOf(line.querySelector(".tb-text").textContent).split(".")[0] === op);
        const next = hits.find(([, k]) => k > from) ?? hits[0];
        if (!next) { status.textContent = `${op}: not in what is shown`; return; }
        own.last = { op, level: p.level, at: next[1] };
        jump(p.box, Number(next[0].dataset.k));
      };
      const rows = byKind(mix).map((g) => h("tr", {}, h("th", { scope: "row" }, KINDS[g.kind]), h("td", {}, String(g.count)),
        h("td", { class: "tb-mixbar" }, h("i", { style: { width: `${Math.max(1, Math.round(100 * g.count / total))}%` } })),
        h("td", {}, ...g.ops.slice(0, 12).map(([op, n]) => h("button", { type: "button", class: "tb-op", title: about(op)[1] || "no words for it yet", on: { click: () => find(op) } }, `${op} ${n}`)))));
      below.append(h("details", { class: "tb-mix" }, h("summary", {}, `instruction mix of ${NAMES[p.level]}: ${total} instructions in the text (not how often they run)`), h("table", { class: "tb-table" }, h("tbody", {}, ...rows))));
    }
    const sass = texts.some((t) => t.level === "sass"), ptx = texts.some((t) => t.level === "ptx");
    if (ptx && !sass) below.append(h("p", { class: "tb-legend" }, "no SASS: pip install nvidia-cuda-nvdisasm shows the machine code too"));
  }

  function build() {
    empty(columns);
    empty(tools);
    tools.append(
      button("one column more", () => { const next = texts.map((t) => t.level).reverse().find((l) => !own.shown.includes(l)) ?? "cell"; own.shown = [...own.shown, next]; build(); }),
      own.shown.length > 1 ? button("one column less", () => { own.shown = own.shown.slice(0, -1); build(); }) : "",
    );
    marked.clear();
    panes = own.shown.map((_, k) => pane(k));
    for (const p of panes) columns.append(p.section);
    mixes();
    light(act.now());
    const first = Math.min(...texts.filter((t) => t.level === "tile").flatMap((t) => t.lines.filter(Boolean)));
    if (!act.now().pins.length && Number.isFinite(first)) { // a file may hold more than this kernel
      for (const p of panes) if (p.level === "cell") { const line = p.byLine.get(first)?.[0]; if (line) p.box.scrollTop = Math.max(0, line.offsetTop - 80); }
    }
  }

  function light(now) {
    const lines = new Set(lit(now).map((s) => s.line).filter(Boolean)), pins = new Set(now.pins.map((s) => s.line).filter(Boolean));
    const hover = now.hover?.line, last = now.pins[now.pins.length - 1]?.line;
    for (const node of marked) { node.classList.remove("tb-hover", "tb-pinned"); node.removeAttribute("aria-selected"); }
    marked.clear();
    for (const p of panes) {
      for (const n of lines) {
        for (const node of p.byLine.get(n) ?? []) {
          node.classList.toggle("tb-hover", n === hover);
          node.classList.toggle("tb-pinned", pins.has(n));
          if (pins.has(n)) node.setAttribute("aria-selected", "true");
          marked.add(node);
        }
      }
      const to = last ?? (own.follows ? hover : undefined);
      if (to && !(mine && p.level === own.from)) {
        const first = p.byLine.get(to)?.[0];
        if (first && own.scrolled !== to) p.box.scrollTop = Math.max(0, first.offsetTop - p.box.clientHeight / 3);
      }
    }
    own.scrolled = last;
  }

  build();
  return act.watch(light);
}
