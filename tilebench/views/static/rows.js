// Rows of a timeline: which warps of a measured block are shown, and bars of one lane that overlap put below each other.

/** Whether a timeline has a producer and warpgroups: then a warp is counted within its group of four. @param {any} info */
const grouped = (info) => info.bars.some((b) => b.lane === "producer" || b.lane.startsWith("warpgroup "));

/** The numbers that warps have within their roles: [] where no warp was timed, or one of each. @param {any} info @returns {number[]} */
export function warpChoices(info) {
  const warps = info.warps ?? [];
  const found = grouped(info) ? warps.map((w) => w % 4) : warps;
  const choices = [...new Set(found)].sort((a, b) => a - b);
  return choices.length > 1 ? choices : [];
}

/** The bars of a timeline that are shown, with their numbers in it. warp: one of warpChoices, or null for all. @param {any} info @param {number|null} warp */
export function shown(info, warp) {
  const all = info.bars.map((bar, k) => ({ bar, k }));
  if (warp === null) return all;
  const groups = grouped(info), role = (w) => (groups ? Math.floor(w / 4) : 0), own = (w) => (groups ? w % 4 : w);
  const has = new Set((info.warps ?? []).filter((w) => own(w) === warp).map(role));
  return all.filter(({ bar }) => bar.warp === undefined || bar.warp < 0 || own(bar.warp) === warp || !has.has(role(bar.warp)));
}

/** The row of each bar such that none overlaps another in its row. @param {{start_us: number, end_us: number}[]} bars @returns {{rows: number[], count: number}} */
export function pack(bars) {
  const ends = [], rows = new Array(bars.length).fill(0);
  for (const k of bars.map((_, i) => i).sort((a, b) => bars[a].start_us - bars[b].start_us || bars[a].end_us - bars[b].end_us)) {
    let row = ends.findIndex((end) => end <= bars[k].start_us + 1e-9);
    if (row < 0) row = ends.push(0) - 1;
    ends[row] = bars[k].end_us;
    rows[k] = row;
  }
  return { rows, count: Math.max(1, ends.length) };
}

/** Chrome's trace format: one complete event a bar; a process for each timeline, a thread for each lane and warp (several where bars overlap). @param {any} report */
export function chromeTrace(report) {
  const events = [];
  report.timelines.forEach((info, pid) => {
    const { threads, of } = threadsOf(info);
    const scale = info.unit === "steps" ? ", a step as 1 us" : "";
    events.push({ ph: "M", name: "process_name", pid, args: { name: `${report.name}: ${info.provenance}${info.device ? `, ${info.device}` : ""}${scale}` } });
    threads.forEach((name, tid) => events.push({ ph: "M", name: "thread_name", pid, tid, args: { name } }));
    info.bars.forEach((b, k) => events.push({ ph: "X", cat: b.phase || "straight", name: b.iteration >= 0 ? `${b.label} ${b.iteration}` : b.label, pid, tid: of[k], ts: b.start_us, dur: b.end_us - b.start_us, args: { op: b.op, iteration: b.iteration, line: b.line, kind: b.kind ?? "work", warp: b.warp ?? -1 } }));
    info.arrows.forEach(([a, b], id) => {
      const flow = (ph, bar, ts, more) => ({ ph, cat: "dependence", name: "waits for", id: pid * 100000 + id, pid, tid: of[bar], ts, ...more });
      events.push(flow("s", a, info.bars[a].end_us), flow("f", b, (info.bars[b].kind ?? "work") === "wait" ? info.bars[b].end_us : info.bars[b].start_us, { bp: "e" }));
    });
  });
  return { displayTimeUnit: "ns", traceEvents: events, otherData: { kernel: report.name, target: report.target } };
}

/** Threads of a trace: their names, and the one of each bar. @param {any} info @returns {{threads: string[], of: number[]}} */
function threadsOf(info) {
  const threads = [], of = new Array(info.bars.length).fill(0);
  const key = (b) => `${b.lane}${(b.warp ?? -1) >= 0 ? `, warp ${b.warp}` : ""}`;
  for (const name of new Set(info.bars.map(key))) {
    const mine = info.bars.map((b, k) => ({ b, k })).filter(({ b }) => key(b) === name);
    const { rows, count } = pack(mine.map(({ b }) => b));
    mine.forEach(({ k }, i) => { of[k] = threads.length + rows[i]; });
    for (let r = 0; r < count; r++) threads.push(r ? `${name} (${r + 1})` : name);
  }
  return { threads, of };
}
