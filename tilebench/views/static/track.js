// What stands beside the tiles of time travel: the track of iterations and steps, and the kernel's lines.
import { h } from "./kit.js";
import { bands } from "./trace.js";

/** The track above the slider: iterations as buttons, a tick for each step. @param {any} m the opened trace @param {(k: number) => void} go */
export function tracks(m, go) {
  const total = m.steps.length;
  const list = bands(m), few = list.length <= 64;
  const buttons = list.map((b) => {
    const name = b.iteration === null ? "" : `${m.outer} ${b.iteration}`;
    const made = h("button", { type: "button", tabindex: -1, class: b.iteration === null ? "tb-iter tb-outside" : "tb-iter", title: `${name || "outside the loop"}: steps ${m.number(b.from)} to ${m.number(b.to)}`, "aria-label": `${name || "outside the loop"}, step ${m.number(b.from)}`, style: { "flex-grow": b.to - b.from + 1 }, on: { click: () => go(b.from) } }, few ? name : "");
    return made;
  });
  const W = 1000, ticks = h("svg", { class: "tb-ticks", viewBox: `0 0 ${W} 10`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const x = (k) => (k + 0.5) * W / total;
  m.steps.forEach((s, k) => {
    const wrong = s.checks.some((c) => c.wrong), nan = s.writes.some((w) => w.nan), inf = s.writes.some((w) => w.inf);
    if (total > 600 && !wrong && !nan) return;
    ticks.append(h("rect", { x: x(k) - Math.min(4, 0.3 * W / total), width: Math.min(8, 0.6 * W / total), y: wrong || nan ? 0 : 5, height: wrong || nan ? 10 : 5, class: wrong || nan ? "tb-tick tb-tick-bad" : inf ? "tb-tick tb-tick-inf" : "tb-tick" }));
  });
  const here = h("rect", { x: 0, y: 0, width: 3, height: 10, class: "tb-tick-here" });
  ticks.append(here);
  const box = h("div", { class: "tb-track" }, m.outer ? h("div", { class: "tb-iters" }, ...buttons) : null, ticks);
  return {
    el: box,
    show(k) {
      here.setAttribute("x", String(x(k) - 1.5));
      list.forEach((b, n) => buttons[n].classList.toggle("tb-lit", b.from <= k && k <= b.to));
    },
  };
}

/**
 * The kernel's lines, with that of the step. click: the line that was clicked, and -1 for backwards.
 * @param {any} report @param {any} m the opened trace @param {(line: number, direction: number) => void} click
 */
export function listing(report, m, click) {
  const site = (k) => m.sites[m.steps[k].site];
  let shown = 0;
  const counts = new Map();
  for (const s of m.steps) { const n = m.sites[s.site].line; counts.set(n, (counts.get(n) ?? 0) + 1); }
  const { lines, first } = excerpt(report, m.sites);
  const dents = lines.filter((t) => t.trim()).map((t) => t.length - t.trimStart().length), dent = Math.min(...dents, 200); // what all lines share: blocks stay blocks
  const nodes = lines.map((t, i) => {
    const n = first + i, own_ = counts.get(n);
    const cut = t.slice(dent);
    const node = h("div", { class: own_ ? "tb-line tb-linked" : "tb-line" }, h("span", { class: "tb-no" }, n), h("span", { class: "tb-text" }, cut || " "));
    if (own_) { node.title = `${own_} ${own_ === 1 ? "step" : "steps"}: a click goes to the next one`; node.addEventListener("click", (event) => click(n, event.shiftKey ? -1 : 1)); }
    return node;
  });
  const box = h("div", { class: "tb-lines tb-listing", tabindex: 0, role: "region", "aria-label": "the cell, with the line of this step" }, ...nodes);
  box.addEventListener("keydown", (event) => { if (event.key === "ArrowUp" || event.key === "ArrowDown") event.stopPropagation(); });
  return {
    el: box,
    show(k) {
      shown = k;
      const n = site(k).line, last = Math.max(n, site(k).end_line);
      nodes.forEach((node, i) => { const on = first + i >= n && first + i <= last; node.classList.toggle("tb-within", on && first + i > n); node.classList.toggle("tb-at", on); if (first + i === n) node.setAttribute("aria-current", "step"); else node.removeAttribute("aria-current"); });
      const node = nodes[n - first];
      if (node && box.clientHeight && (node.offsetTop < box.scrollTop + 20 || node.offsetTop > box.scrollTop + box.clientHeight - 40)) box.scrollTop = Math.max(0, node.offsetTop - box.clientHeight / 2);
    },
    light(now) {
      const hover = now.hover?.line, pins = new Set(now.pins.map((s) => s.line));
      nodes.forEach((node, i) => { const n = first + i; node.classList.toggle("tb-pinned", pins.has(n)); node.classList.toggle("tb-hover", n === hover && n !== site(shown).line); });
    },
  };
}

/** The lines of the source that belong to the kernel, from its def on: a file may hold much else. @param {any} report @param {any[]} sites */
export function excerpt(report, sites) {
  const all = report.source.replace(/\n+$/, "").split("\n"), own = sites.filter((s) => s.line >= report.first_line && s.line < report.first_line + all.length);
  if (!own.length) return { lines: all.slice(0, 400), first: report.first_line };
  let from = Math.min(...own.map((s) => s.line)) - report.first_line;
  const to = Math.max(...own.map((s) => Math.max(s.line, s.end_line))) - report.first_line;
  for (let k = from; k >= 0; k--) if (/^\s*def\s/.test(all[k])) { from = k > 0 && /^\s*@/.test(all[k - 1]) ? k - 1 : k; break; }
  return { lines: all.slice(from, to + 2), first: report.first_line + from };
}
