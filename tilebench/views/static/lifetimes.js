// Shared memory over time: bytes upwards, the program's statements to the right; a block for each buffer while it lives.
import { h, empty, lit, WARPS, inkOn } from "./kit.js";

const WIDEST = 960, NARROWEST = 560, LEFT = 64, TOP = 6, FOOT = 22;

/** Shared buffers with a place, and the scratch of ops. @param {any} report */
export function placed(report) {
  const own = report.buffers.filter((b) => b.scope.startsWith("shared") && b.offset !== null);
  return [...own, ...(report.scratch ? [report.scratch] : [])].map((b) => ({ ...b, size: b.bytes * Math.max(1, b.versions) })).sort((a, b) => a.offset - b.offset || a.first - b.first);
}

/**
 * The map in `el`. @param {HTMLElement} el @param {any} report @param {import("./kit.js").Act} act @param {(text: string) => void} say @returns {() => void}
 */
export function lifetimes(el, report, act, say) {
  const buffers = placed(report);
  if (!buffers.length) return () => {};
  const box = h("div", {});
  el.append(box);
  const room = () => Math.min(WIDEST, Math.max(NARROWEST, box.clientWidth || WIDEST));
  let wide = room(), end = map(box, buffers, report, act, say, wide);
  const resized = new ResizeObserver(() => { // letters keep their size
    if (!box.clientWidth || Math.abs(room() - wide) < 2) return;
    wide = room();
    end();
    empty(box);
    end = map(box, buffers, report, act, say, wide);
  });
  resized.observe(box);
  return () => { resized.disconnect(); end(); };
}

/** The map at a width. */
function map(el, buffers, report, act, say, WIDE) {
  const total = Math.max(report.resources.shared_bytes, ...buffers.map((b) => b.offset + b.size), 1);
  const lines = report.statement_lines ?? [], end = Math.max(lines.length, ...buffers.map((b) => b.last + 1), 1);
  const height = Math.min(190, Math.max(60, 46 * buffers.length)), H = TOP + height + FOOT;
  const x = (s) => LEFT + (s / end) * (WIDE - LEFT - 8), y = (b) => TOP + (b / total) * height;
  const lineAt = (s) => lines[Math.min(s, lines.length - 1)] || 0;
  const words = (b) => `${b.name}: bytes ${b.offset}–${b.offset + b.size - 1}${b.versions > 1 ? `, ${b.versions} copies of ${b.bytes}` : ""}${lines.length ? `, in use from line ${firstLine(b)} to line ${lastLine(b)}` : ""}`;
  const span = (b) => lines.slice(b.first, b.last + 1).filter(Boolean);
  const firstLine = (b) => span(b)[0] ?? lineAt(b.first), lastLine = (b) => span(b).reduce((m, l) => Math.max(m, l), 0) || lineAt(b.last);
  const sel = (b) => ({ buffer: b.name, line: b.span?.line ?? (firstLine(b) || undefined), byte: b.offset });
  const svg = h("svg", { class: "tb-svg tb-life", style: { "max-width": `${WIDE}px` }, viewBox: `0 0 ${WIDE} ${H}`, tabindex: 0, role: "application", "aria-roledescription": "byte map over the program", "aria-label": `byte map: ${total} bytes of shared memory over ${end} statements` });
  for (const part of [0, 0.5, 1]) {
    svg.append(h("line", { x1: LEFT, x2: WIDE - 8, y1: y(part * total), y2: y(part * total), class: "tb-rule" }));
    svg.append(h("text", { x: LEFT - 6, y: y(part * total) + 4, "text-anchor": "end", class: "tb-label" }, part === 0 ? "byte 0" : String(Math.round(part * total))));
  }
  // a tick where the program comes to another line of the cell, as far as there is room
  let last = -1, seen = -40;
  for (let s = 0; s < lines.length; s++) {
    if (!lines[s] || lines[s] === last) continue;
    last = lines[s];
    svg.append(h("line", { x1: x(s), x2: x(s), y1: TOP + height, y2: TOP + height + 4, class: "tb-tick" }));
    if (x(s) - seen < 30) continue;
    seen = x(s);
    svg.append(h("text", { x: x(s), y: H - 6, "text-anchor": "start", class: "tb-label" }, String(last)));
  }
  if (lines.length) svg.append(h("text", { x: LEFT - 6, y: H - 6, "text-anchor": "end", class: "tb-label" }, "line"));
  let cursor = -1;
  const bars = buffers.map((b, k) => {
    const left = x(b.first), width = Math.max(3, x(b.last + 1) - left), top = y(b.offset), tall = Math.max(3, y(b.offset + b.size) - top);
    const colour = b.name === "scratch" ? [206, 212, 218] : WARPS[k % WARPS.length];
    const bar = h("rect", { x: left, y: top, width, height: tall, class: "tb-bar", fill: `rgb(${colour.join(",")})` });
    bar.addEventListener("pointerenter", () => point(k));
    bar.addEventListener("pointerleave", () => act.hover(null));
    bar.addEventListener("click", (event) => act.pin(sel(b), event.shiftKey));
    svg.append(bar);
    for (let v = 1; v < b.versions; v++) svg.append(h("line", { x1: left, x2: left + width, y1: y(b.offset + v * b.bytes), y2: y(b.offset + v * b.bytes), class: "tb-copy" }));
    const text = `${b.name}  ${b.offset}–${b.offset + b.size - 1}${b.versions > 1 ? `, ${b.versions} copies` : ""}`;
    const shown = width > text.length * 6.4 + 10 ? text : width > b.name.length * 6.4 + 8 ? b.name : "";
    if (shown && tall >= 12) svg.append(h("text", { x: left + 5, y: top + (tall / b.versions >= 13 ? tall / b.versions : tall) / 2 + 4, class: "tb-inbar", style: { fill: inkOn(colour) } }, shown));
    return bar;
  });
  const now = h("line", { y1: TOP, y2: TOP + height, class: "tb-now", x1: -9, x2: -9 });
  svg.append(now);
  function point(k) {
    cursor = k;
    say(words(buffers[k]));
    act.hover(sel(buffers[k]));
  }
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) point(Math.max(0, Math.min(buffers.length - 1, cursor + step)));
    else if (event.key === "Enter" && cursor >= 0) act.pin(sel(buffers[cursor]), event.shiftKey);
    else if (event.key === "Escape") act.clear();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const free = total - used(buffers, total);
  el.append(h("p", { class: "tb-legend" }, `${total} bytes of shared memory a block over the program's statements, from the first to the last use of each buffer${free > 0 ? `; ${free} bytes are padding` : ""}`), h("div", { class: "tb-wide" }, svg));
  const light = () => {
    const all = lit(act.now());
    buffers.forEach((b, k) => bars[k].classList.toggle("tb-lit", all.some((s) => s.buffer === b.name)));
    const line = all.find((s) => s.line)?.line, s = line ? lines.indexOf(line) : -1;
    now.setAttribute("x1", String(s >= 0 ? x(s + 0.5) : -9));
    now.setAttribute("x2", String(s >= 0 ? x(s + 0.5) : -9));
  };
  light();
  return act.watch(light);
}

/** Bytes that some buffer has at some time. @param {any[]} buffers @param {number} total */
function used(buffers, total) {
  let reach = 0, sum = 0;
  for (const b of buffers) {
    const end = Math.min(total, b.offset + b.size), from = Math.max(reach, b.offset);
    if (end > from) { sum += end - from; reach = end; }
  }
  return sum;
}
