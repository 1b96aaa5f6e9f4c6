// The cell and what became of it, level by level. Lines that came from the same cell line light together; a click pins.
import { h, choice, empty, lit } from "./kit.js";

const NAMES = { cell: "cell", tile: "tile IR", thread: "thread IR", cuda: "CUDA C++", llvm: "LLVM IR", ptx: "PTX", sass: "SASS", asm: "assembly" };
const LIMIT = 4000;

/** The cell, then every text of the report. @param {any} report */
export function levels(report) {
  const source = report.source.replace(/\n+$/, "");
  const size = source.split("\n").length;
  const cell = { level: "cell", text: source, lines: Array.from({ length: size }, (_, k) => report.first_line + k) };
  const order = Object.keys(NAMES);
  return [cell, ...report.code.filter((c) => c.level !== "cell").sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level))];
}

/** "3 lines of PTX" @param {number} n @param {string} level */
function count(n, level) {
  return `${n} ${n === 1 ? "line" : "lines"} of ${NAMES[level]}`;
}

/** The code tab. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const texts = levels(state.report), own = (state.code ??= {});
  own.scrolled = undefined;
  const has = (level) => texts.some((t) => t.level === level);
  const order = ["cuda", "llvm", "ptx", "asm", "thread", "tile"].filter(has);
  own.shown ??= ["cell", ...order.slice(0, 2)];
  const status = h("p", { class: "tb-status", "aria-live": "polite" }, "hover a line; a click pins it");
  const columns = h("div", { class: "tb-code" });
  el.append(status, columns);
  /** @type {{level: string, byLine: Map<number, HTMLElement[]>, all: HTMLElement[], box: HTMLElement}[]} */
  let panes = [];
  let mine = false;

  function pane(which) {
    const level = own.shown[which], text = texts.find((t) => t.level === level) ?? texts[0];
    const byLine = new Map(), all = [];
    const lines = text.text.split("\n");
    const list = h("div", { class: "tb-lines", tabindex: 0, role: "listbox", "aria-label": NAMES[text.level] });
    lines.slice(0, LIMIT).forEach((content, k) => {
      const from = text.lines[k] ?? 0;
      const no = text.level === "cell" ? from : k + 1;
      const line = h("div", { class: from ? "tb-line tb-linked" : "tb-line", role: "option" }, h("span", { class: "tb-no" }, no), h("span", { class: "tb-text" }, content || " "));
      line.dataset.from = String(from);
      if (from) {
        if (!byLine.has(from)) byLine.set(from, []);
        byLine.get(from).push(line);
      }
      all.push(line);
      list.append(line);
    });
    if (lines.length > LIMIT) list.append(h("div", { class: "tb-line" }, `… ${lines.length - LIMIT} more lines`));
    const lineOf = (event) => { const node = event.target instanceof Element ? event.target.closest(".tb-line") : null; return node ? Number(node.dataset.from) : 0; };
    list.addEventListener("pointerover", (event) => { const n = lineOf(event); mine = true; say(n); act.hover(n ? { line: n } : null); mine = false; });
    list.addEventListener("pointerleave", () => act.hover(null));
    list.addEventListener("click", (event) => { const n = lineOf(event); if (n) { mine = true; own.from = level; act.pin({ line: n }, event.shiftKey); mine = false; } });
    let at = -1;
    list.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        at = Math.max(0, Math.min(all.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)));
        all[at].scrollIntoView({ block: "nearest" });
        const n = Number(all[at].dataset.from);
        say(n);
        act.hover(n ? { line: n } : null);
      } else if (event.key === "Enter" && at >= 0 && Number(all[at].dataset.from)) act.pin({ line: Number(all[at].dataset.from) }, event.shiftKey);
      else if (event.key === "Escape") act.clear();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    const head = choice("", texts.map((t) => [t.level, `${NAMES[t.level]} (${t.text.split("\n").length})`]), text.level, (v) => { own.shown[which] = v; build(); });
    head.querySelector("select").setAttribute("aria-label", `text of column ${which + 1}`);
    const box = h("section", { class: "tb-pane" }, head, list);
    return { level: text.level, byLine, all, box: list, section: box };
  }

  function say(n) {
    if (!n) { status.textContent = "this line comes from no line of the cell"; return; }
    status.textContent = `line ${n}: ${panes.map((p) => count(p.byLine.get(n)?.length ?? 0, p.level)).join(", ")}`;
  }

  function build() {
    empty(columns);
    panes = own.shown.map((_, k) => pane(k));
    for (const p of panes) columns.append(/** @type {any} */ (p).section);
    light(act.now());
  }

  function light(now) {
    const hover = now.hover?.line, pins = new Set(now.pins.map((s) => s.line).filter(Boolean));
    const last = now.pins[now.pins.length - 1]?.line;
    for (const p of panes) {
      for (const line of p.all) {
        const n = Number(line.dataset.from);
        line.classList.toggle("tb-hover", Boolean(n) && n === hover);
        line.classList.toggle("tb-pinned", pins.has(n));
      }
      if (last && !(mine && p.level === own.from)) {
        const first = p.byLine.get(last)?.[0];
        if (first && own.scrolled !== last) p.box.scrollTop = Math.max(0, first.offsetTop - p.box.offsetTop - p.box.clientHeight / 3);
      }
    }
    own.scrolled = last;
  }

  build();
  return act.watch(light);
}
