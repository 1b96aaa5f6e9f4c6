"""One block played on the units of its SM: the bars of the timeline, and how long the block takes.

Statements run in order on three lanes; copies that a pipelined loop issues ahead run beside them. What a lane
costs when blocks share the SM comes from profiling/block.py, so the block drawn here is the one that the
predicted time of the launch is made of (profiling/model.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tilebench.ir.tile import Stmt
from tilebench.profiling.block import LATENCY_US, STEP_CLOCKS, Lane, Loop, Program, Rates, Step
from tilebench.report import TimelineBar

ITERATIONS_SHOWN = 8
"""At most this many iterations of a loop are drawn: the first ones and the last LAST_SHOWN."""
LAST_SHOWN = 2
ITERATIONS_PLAYED = 64
"""A longer loop is played this far, then repeated at its steady pace, then played to its end."""

PACED = 24
"""About so many of the last of them give the pace."""

Phase = Literal["prologue", "steady", "epilogue", ""]
Names = Mapping[Stmt, tuple[str, str, int]]
"""statement -> (op id, label, cell line)."""


@dataclass
class Play:
    """A block being played. Times in microseconds since the block started."""

    names: Names
    factor: Mapping[Lane, float]
    sharing: int
    overhead: float
    now: float = 0.0
    tensor_free: float = 0.0
    bars: list[TimelineBar] = field(default_factory=list[TimelineBar])
    arrows: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    cuts: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def bar(self, step: Step, start: float, end: float, iteration: int, phase: Phase) -> int:
        """Draw a step; gives the bar's number."""
        ident, label, line = self.names.get(step.stmt, ("", type(step.stmt).__name__.lower(), 0))
        if step.times > 1:
            label = f"{label} x{step.times:.0f}"
        self.bars.append(TimelineBar(step.lane, ident, label, start, end, iteration, phase, line))
        return len(self.bars) - 1

    def step(self, step: Step, iteration: int, phase: Phase) -> int:
        """Play a step that runs in order; gives its bar."""
        start = self.now + self.overhead
        if step.lane == "tensor cores":
            start = max(start, self.tensor_free)
        end = start + step.us * self.factor[step.lane]
        if step.lane == "tensor cores":
            self.tensor_free = end
        self.now = start if step.trails else end + (LATENCY_US if step.waits else 0.0)
        return self.bar(step, start, end, iteration, phase)

    def loop(self, loop: Loop) -> None:
        """Play a loop: its copies ahead in a prologue, then iterations, the last ones with nothing to
        issue.
        """
        ahead = [s for s in loop.steps if s.ahead]
        rest = [s for s in loop.steps if not s.ahead]
        trips, depth = loop.trips, loop.depth
        copies_free = self.now
        ready: dict[int, tuple[float, list[int]]] = {}
        finished: dict[int, float] = {}
        shown = _shown(trips)
        cut_from, cut_to = 0.0, 0.0

        def issue(k: int, at: float, phase: Phase) -> None:
            nonlocal copies_free
            start = max(at, copies_free)
            held: list[int] = []
            for s in ahead:
                end = start + s.us * self.sharing
                held.append(self.bar(s, start, end, k, phase))
                start = end
            copies_free = start
            ready[k] = (start + LATENCY_US, held)

        for k in range(min(depth, trips)):
            issue(k, self.now, "prologue")
        k = 0
        while k < trips:
            if k == ITERATIONS_PLAYED - LAST_SHOWN and trips > ITERATIONS_PLAYED:
                # the steady pace, over the last of what was played
                skipped = trips - ITERATIONS_PLAYED
                cycle = loop.stages * max(1, PACED // loop.stages)  # the pattern repeats with the stages
                pace = (finished[k - 1] - finished[k - 1 - cycle]) / cycle
                self.now += pace * skipped
                copies_free += pace * skipped
                self.tensor_free += pace * skipped
                ready = {i + skipped: (t + pace * skipped, []) for i, (t, _) in ready.items() if i >= k}
                finished = {i + skipped: t + pace * skipped for i, t in finished.items()}
                k += skipped
            if k == shown[1] and trips > ITERATIONS_SHOWN:
                cut_to = max(self.now, self.tensor_free)
            phase: Phase = ("steady" if k + depth < trips else "epilogue") if depth else ""
            if ahead:
                if k + depth < trips:
                    issue(k + depth, finished.get(k - 1, self.now), "steady")
                self.now = max(self.now, ready[k][0])
            first = len(self.bars)
            for s in rest:
                self.step(s, k, phase)
            if ahead and len(self.bars) > first:
                self.arrows += [(held, first) for held in ready[k][1]]
            if k == trips - 1:
                self.now = max(self.now, self.tensor_free)
            finished[k] = max(self.now, self.tensor_free) if ahead else self.now
            if k == shown[0] - 1 and trips > ITERATIONS_SHOWN:
                cut_from = max(self.now, self.tensor_free)
            k += 1
        if trips > ITERATIONS_SHOWN:
            self.cuts.append((cut_from, cut_to))


def _shown(trips: int) -> tuple[int, int]:
    """(iterations drawn from the start, the first of those drawn at the end)."""
    if trips <= ITERATIONS_SHOWN:
        return trips, trips
    return ITERATIONS_SHOWN - LAST_SHOWN, trips - LAST_SHOWN


def play(program: Program, names: Names, factor: Mapping[Lane, float], sharing: int, rates: Rates) -> Play:
    """The block from its first statement to its last, `sharing` blocks on the SM.

    The bars are those to be drawn: nothing inside a cut.
    """
    played = Play(names, factor, sharing, STEP_CLOCKS / rates.clocks)
    for item in program:
        if isinstance(item, Loop):
            played.loop(item)
        else:
            played.step(item, -1, "")
    bars, arrows, cuts = trimmed(played.bars, played.arrows, played.cuts)
    return replace(played, bars=bars, arrows=arrows, cuts=cuts)


def trimmed(
    drawn: Sequence[TimelineBar], arrows: Sequence[tuple[int, int]], cuts: Sequence[tuple[float, float]]
) -> tuple[list[TimelineBar], list[tuple[int, int]], list[tuple[float, float]]]:
    """Without what falls into a cut: bars inside it go, bars that reach into it end at its edge."""
    kept: dict[int, int] = {}
    bars: list[TimelineBar] = []
    for number, bar in enumerate(drawn):
        whole: TimelineBar | None = bar
        for start, end in cuts:
            if bar.end_us <= start or bar.start_us >= end:
                continue
            if bar.start_us < start:
                whole = replace(bar, end_us=start)
            elif bar.end_us > end:
                whole = replace(bar, start_us=end)
            else:
                whole = None
                break
        if whole is not None:
            kept[number] = len(bars)
            bars.append(replace(whole, start_us=round(whole.start_us, 4), end_us=round(whole.end_us, 4)))
    left = [(kept[a], kept[b]) for a, b in arrows if a in kept and b in kept]
    return bars, left, [(round(a, 4), round(b, 4)) for a, b in cuts]
