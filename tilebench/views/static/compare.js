// What changed between two compiles: deltas with a verdict, layouts with the elements that moved, then the texts.
import { h, empty, button, choice } from "./kit.js";
import { unpack } from "./math.js";

const ORDER = ["result", "time", "resource", "setting", "instruction"];
const TITLES = { result: "result", time: "time", resource: "resources", setting: "settings", instruction: "instructions" };
const MARKS = { better: "▲ better", worse: "▼ worse", "": "" };
const LEVELS = { cell: "cell", tile: "tile IR", thread: "thread IR", cuda: "CUDA C++", ptx: "PTX", sass: "SASS", llvm: "LLVM IR", asm: "assembly" };

/** Whether a report has a difference to show. @param {any} report */
export function has(report) {
  const c = report.compare;
  return Boolean(c && (c.deltas.length || c.layouts.length || c.texts.length));
}

/** The card of one comparison. @param {HTMLElement} el @param {any} info @param {any} report @param {import("./kit.js").Act} act @param {any} own */
export function card(el, info, report, act, own) {
  const better = info.deltas.filter((d) => d.verdict === "better").length, worse = info.deltas.filter((d) => d.verdict === "worse").length;
  const line = h("p", { class: "tb-status", "aria-live": "polite" }, `${info.before} (${info.before_id.slice(0, 8)}) → ${info.after}: ${better} better, ${worse} worse, ${info.layouts.length} ${info.layouts.length === 1 ? "layout" : "layouts"} changed`);
  el.append(line);
  const groups = ORDER.map((g) => [g, info.deltas.filter((d) => d.group === g)]).filter(([, list]) => list.length);
  el.append(h("div", { class: "tb-cards" }, ...groups.map(([group, list]) => h("section", { class: "tb-card" }, h("h4", {}, TITLES[group]),
    h("table", { class: "tb-table tb-deltas" }, h("thead", { class: "tb-visually-hidden" }, h("tr", {}, ...["what", "before", "after", "change"].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, ...list.map((d) => h("tr", { "data-verdict": d.verdict || "none" }, h("th", { scope: "row" }, d.what), h("td", {}, d.before), h("td", {}, h("span", { class: "tb-to", "aria-hidden": "true" }, "→ "), h("b", {}, d.after)), h("td", { class: "tb-change" }, d.change, d.change && d.verdict ? " " : "", MARKS[d.verdict])))))))));
  if (info.layouts.length) {
    el.append(h("h4", {}, "layouts"), h("div", { class: "tb-cards" }, ...info.layouts.map((m) => h("section", { class: "tb-card" },
      h("div", { class: "tb-tools" }, h("b", {}, m.buffer), button("pin", () => act.pin({ buffer: m.buffer }), `pin ${m.buffer}: its layout, where it stands in the code`)),
      h("p", { class: "tb-hint" }, m.before), h("p", {}, "→ ", m.after),
      m.map ? map(m) : null))));
  }
  if (info.texts.length) el.append(texts(info, own));
}

/** The tile, darker where elements are in another place than before. @param {any} m */
function map(m) {
  const [rows, columns] = m.map.shape, share = unpack(m.map), side = Math.max(2, Math.min(9, Math.floor(220 / columns)));
  const canvas = h("canvas", { width: columns, height: rows, class: "tb-moved", role: "img", "aria-label": `${m.moved} of ${m.total} elements of ${m.buffer} are in another place`, style: { width: `${columns * side}px`, height: `${rows * side}px` } });
  const pixels = new ImageData(columns, rows);
  for (let k = 0; k < share.length; k++) {
    const t = share[k] / 255;
    pixels.data.set([Math.round(235 - 56 * t), Math.round(238 - 150 * t), Math.round(242 - 202 * t), 255], 4 * k);
  }
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  return h("figure", { class: "tb-figure" }, canvas, h("figcaption", {}, `${m.moved} of ${m.total} elements in another place (orange)`));
}

/** Text differences, one level at a time. */
function texts(info, own) {
  const box = h("div", {}), body = h("div", { class: "tb-lines tb-difference", tabindex: 0, role: "region", "aria-label": "text difference" });
  const show = (level) => {
    own.level = level;
    const t = info.texts.find((x) => x.level === level) ?? info.texts[0];
    empty(body);
    const NAMES = { "+": "tb-added", "-": "tb-removed", "@": "tb-hunk", " ": "" };
    for (const [mark, line] of t.lines) body.append(h("div", { class: `tb-line ${NAMES[mark] ?? ""}` }, h("span", { class: "tb-no" }, mark === "@" ? "…" : mark), h("span", { class: "tb-text" }, line || " ")));
    if (t.cut) body.append(h("div", { class: "tb-line tb-hunk" }, h("span", { class: "tb-no" }, "…"), h("span", { class: "tb-text" }, t.lines.length ? `${t.cut} more lines` : `${t.cut} lines: too long to be shown side by side`)));
  };
  const first = own.level && info.texts.some((t) => t.level === own.level) ? own.level : info.texts[0].level;
  box.append(h("h4", {}, "texts"), h("div", { class: "tb-tools" }, choice("level", info.texts.map((t) => [t.level, `${LEVELS[t.level] ?? t.level}: +${t.added} −${t.removed} lines`]), first, show)), body);
  show(first);
  return box;
}

/** The difference card. @param {HTMLElement} el @param {any} state @param {import("./kit.js").Act} act @returns {() => void} */
export function draw(el, state, act) {
  const { report } = state;
  if (!has(report)) el.append(h("p", { class: "tb-status" }, report.whatif ? "keep a point in `what if`: it is compared with the base here" : "nothing changed"));
  else card(el, report.compare, report, act, (state.compare ??= {}));
  return () => {};
}

