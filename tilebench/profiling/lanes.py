"""A block with a producer played on its SM: the producer, the tensor cores and each warpgroup run beside each
other, as far as rings and waits allow.

The producer fills a slot of a ring when all consumers have given it back; a warpgroup takes it when the bytes
are there, starts products and goes on, waits for them where the schedule says, and computes meanwhile. The
copy engine, the tensor cores, the issue slots and the special functions of the SM serve in the order in which
they are asked; whoever is ready first asks first. Iterations and tiles that are not played (`Skip`, tiles
left out) pass at the pace of those around them.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from heapq import heappop, heappush

from tilebench.ir.tile import Buffer, Channel, Stmt
from tilebench.passes.handover import buffers_of
from tilebench.profiling import timeline
from tilebench.profiling.actions import (
    Action,
    Await,
    Compute,
    Done,
    Fill,
    Give,
    Leave,
    Mark,
    Multiply,
    Rings,
    Skip,
    Take,
)  # fmt: skip
from tilebench.profiling.block import LATENCY_US, Rates
from tilebench.profiling.picture import PRODUCER, STORES, TENSOR, by_lane, cuts_of, place_of
from tilebench.profiling.timeline import Names, Phase
from tilebench.report import TimelineBar

MEMORY = "memory"
"""The SM's share of L2 and memory: what comes and what goes queue for it."""
TAKE_CLOCKS = 30
"""From a barrier's completion to the first instruction behind the wait (order of magnitude)."""
STEP_CLOCKS = 20
"""What starting a statement costs a warpgroup: addresses and the latency of its first result (order of
magnitude).
"""
FILL_CLOCKS = 40
"""What the producer needs to start the copies of a slot (order of magnitude)."""
PRODUCT_CLOCKS = 60
"""From the end of a product on the tensor cores to the warpgroup's next instruction (order of magnitude)."""
MEETING_CLOCKS = 60
"""A barrier of the consumers around a tile that leaves through shared memory (order of magnitude)."""


@dataclass
class _Ring:
    """State of a channel of one block: when each slot was full, how many slots each consumer gave back."""

    stages: int
    ready: list[float] = field(default_factory=list[float])
    bars: list[list[int]] = field(default_factory=list[list[int]])
    tags: list[int] = field(default_factory=list[int])
    taken: dict[int, int] = field(default_factory=dict[int, int])
    given: dict[int, int] = field(default_factory=dict[int, int])
    used: set[int] = field(default_factory=set[int])

    def freed(self, consumers: int) -> int:
        """Slots that all consumers have given back."""
        return min((self.given.get(c, 0) for c in range(consumers)), default=0)


@dataclass
class _Thread:
    """A producer (consumer -1) or a consumer warpgroup: its actions, how far it is, and its clock."""

    block: int
    consumer: int
    actions: list[Action]
    at: int = 0
    now: float = 0.0
    ready: float = 0.0
    products: list[float] = field(default_factory=list[float])
    leaving: dict[Buffer, float] = field(default_factory=dict[Buffer, float])


@dataclass
class Lanes:
    """What came out. Times in microseconds since the block started; total_us with what was not played;
    pace: microseconds of an iteration in the steady state (0: no loop), each_tile: of a tile.
    """

    bars: list[TimelineBar]
    arrows: list[tuple[int, int]]
    cuts: list[tuple[float, float]]
    total_us: float
    pace: float
    each_tile: float


def play(rings: Rings, names: Names, rates: Rates, sharing: int = 1) -> Lanes:
    """Play `sharing` such blocks together on an SM; the one that ends last is drawn."""
    first = _Play(rings, names, rates, sharing, sharing - 1)
    made = first.run()
    latest = max(first.threads, key=lambda t: t.now).block
    return made if latest == sharing - 1 else _Play(rings, names, rates, sharing, latest).run()


class _Play:
    def __init__(self, rings: Rings, names: Names, rates: Rates, sharing: int, drawn: int) -> None:
        self.rings = rings
        self.drawn = drawn
        self.names = names
        self.places = {place_of(s): name for s, name in reversed(list(names.items()))}
        self.clock = 1.0 / rates.clocks
        self.latency = rates.latency_us
        self.bars: list[TimelineBar] = []
        self.arrows: list[tuple[int, int]] = []
        self.free = dict.fromkeys((MEMORY, TENSOR, "issue", "special"), 0.0)
        self.channels: dict[tuple[int, Channel], _Ring] = {}
        self.waiting: dict[tuple[int, Channel], list[int]] = {}
        self.by_buffer: dict[Buffer, Channel] = {}
        self.reads: dict[int, tuple[Channel, ...]] = {}
        self.marks: dict[tuple[int, int], float] = {}
        self.reached: dict[tuple[int, int], float] = {}
        self.skips: list[tuple[float, float]] = []
        self.ends: dict[int, float] = {}
        self.skipped: set[int] = set()
        self.pace = 0.0
        fills: list[Action] = [a for a in rings.actions if isinstance(a, Fill)]
        others: list[Action] = [a for a in rings.actions if not isinstance(a, Fill)]
        for a in rings.actions:
            if isinstance(a, Fill):
                self.by_buffer.update(dict.fromkeys(a.channel.buffers, a.channel))
        self.threads = [
            _Thread(b, c, fills if c < 0 else others)
            for b in range(sharing)
            for c in range(-1, rings.consumers)
        ]

    def run(self) -> Lanes:
        """Whoever is earliest acts next, until all are done."""
        heap = [(0.0, k) for k in range(len(self.threads))]
        while heap:
            _, k = heappop(heap)
            thread = self.threads[k]
            while thread.at < len(thread.actions):
                if heap and thread.now > heap[0][0]:
                    heappush(heap, (thread.now, k))
                    break
                if not self.act(thread, thread.actions[thread.at], k, heap):
                    break
                thread.at += 1
        stuck = [t for t in self.threads if t.at < len(t.actions)]
        assert not stuck, "a ring is filled or given back less often than it is taken"
        end = max([t.now for t in self.threads] + [x for t in self.threads for x in t.leaving.values()])
        return self.finished(end)

    # -- actions

    def act(self, t: _Thread, action: Action, k: int, heap: list[tuple[float, int]]) -> bool:
        """Do it and move the thread's clock; False when it has to wait for another thread."""
        match action:
            case Fill():
                return self.fill(t, action, k, heap)
            case Take():
                return self.take(t, action, k)
            case Give():
                ring = self.ring(t.block, action.channel)
                before = ring.freed(self.rings.consumers)
                ring.given[t.consumer] = ring.given.get(t.consumer, 0) + 1
                if ring.freed(self.rings.consumers) > before:
                    self.wake((t.block, action.channel), t.now, heap)
            case Multiply():
                self.multiply(t, action)
            case Await():
                if len(t.products) > action.pending:
                    done = t.products[len(t.products) - 1 - action.pending]
                    t.now = max(t.now, done + PRODUCT_CLOCKS * self.clock)
                    del t.products[: len(t.products) - action.pending]
            case Compute():
                return self.compute(t, action, k, heap)
            case Leave():
                self.leave(t, action)
            case Mark():
                self.mark(t, action)
            case Skip():
                self.skip(t, action)
            case Done():
                if t.block == self.drawn and t.consumer == 0:
                    self.ends[action.tile] = t.now
        return True

    def ring(self, block: int, channel: Channel) -> _Ring:
        """The state of a channel."""
        key = (block, channel)
        if key not in self.channels:
            self.channels[key] = _Ring(channel.stages)
        return self.channels[key]

    def wake(self, key: tuple[int, Channel], now: float, heap: list[tuple[float, int]]) -> None:
        """Those that wait for the channel try again."""
        for k in self.waiting.pop(key, []):
            self.threads[k].now = max(self.threads[k].now, now)
            heappush(heap, (self.threads[k].now, k))

    def fill(self, t: _Thread, a: Fill, k: int, heap: list[tuple[float, int]]) -> bool:
        """The producer's part."""
        ring = self.ring(t.block, a.channel)
        if len(ring.ready) >= ring.stages + ring.freed(self.rings.consumers):
            self.waiting.setdefault((t.block, a.channel), []).append(k)
            return False
        start = max(t.now + FILL_CLOCKS * self.clock, self.free[MEMORY])
        held: list[int] = []
        first = a.tile == self.rings.played[0] and len(ring.ready) < ring.stages
        phase: Phase = "" if a.iteration < 0 else "prologue" if first else "steady"
        for op, us in a.copies:
            end = start + us
            if t.block == self.drawn:
                held.append(self.bar(PRODUCER, op, start, end, a.iteration, phase))
            start = end
        self.free[MEMORY] = start
        t.now = t.now + FILL_CLOCKS * self.clock
        ring.ready.append(start + self.latency)
        ring.bars.append(held)
        ring.tags.append(a.iteration)
        self.wake((t.block, a.channel), t.now, heap)
        return True

    def take(self, t: _Thread, a: Take, k: int) -> bool:
        """A consumer waits for a full slot."""
        ring = self.ring(t.block, a.channel)
        n = ring.taken.get(t.consumer, 0)
        if n >= len(ring.ready):
            self.waiting.setdefault((t.block, a.channel), []).append(k)
            return False
        ring.taken[t.consumer] = n + 1
        t.now = max(t.now, ring.ready[n]) + TAKE_CLOCKS * self.clock
        return True

    def multiply(self, t: _Thread, a: Multiply) -> None:
        """A product joins the queue of the tensor cores; the thread goes on."""
        t.now += STEP_CLOCKS * self.clock
        start = max(t.now, self.free[TENSOR])
        end = start + a.us
        self.free[TENSOR] = end
        t.products.append(end)
        tags = self.arrived(t, a.stmt, len(self.bars))
        if t.block == self.drawn:
            iteration = max(tags, default=a.iteration)
            suffix = f", warpgroup {t.consumer}" if self.rings.consumers > 1 else ""
            self.bar(TENSOR, a.stmt, start, end, iteration, self.phase(iteration, a.tile), suffix)
            self.reach(a.tile, iteration, end)

    def compute(self, t: _Thread, a: Compute, k: int, heap: list[tuple[float, int]]) -> bool:
        """Threads at work: on issue slots and special functions, which all warpgroups share."""
        start = t.ready or t.now + STEP_CLOCKS * self.clock
        for buffer in a.writes:
            if buffer in t.leaving:
                start = max(start, t.leaving.pop(buffer)) + MEETING_CLOCKS * self.clock
        busy = max(self.free["issue"] if a.issue else 0.0, self.free["special"] if a.special else 0.0)
        if busy > start or start > t.now:  # ask when it is due: others may be earlier
            t.ready = t.now = max(busy, start)
            heappush(heap, (t.now, k))
            return False
        t.ready = 0.0
        self.free["issue"] = max(self.free["issue"], start + a.issue)
        self.free["special"] = max(self.free["special"], start + a.special)
        if a.moved:
            self.free[MEMORY] = max(self.free[MEMORY], start) + a.moved
        end = start + a.alone
        t.now = end + (LATENCY_US if a.reaches else 0.0)
        self.arrived(t, a.stmt, len(self.bars))
        if t.block == self.drawn:
            phase = self.phase(a.iteration, a.tile)
            self.bar(f"warpgroup {t.consumer}", a.stmt, start, end, a.iteration, phase)
            self.reach(a.tile, a.iteration, end)
        return True

    def leave(self, t: _Thread, a: Leave) -> None:
        """A tile leaves; the thread goes on, and waits only before it writes the tile again."""
        t.now += MEETING_CLOCKS * self.clock
        start = max(t.now, self.free[MEMORY])
        self.free[MEMORY] = start + a.us
        t.leaving[a.source] = start + a.us
        if t.block == self.drawn:
            self.bar(STORES, a.stmt, start, start + a.us, -1, "")

    # -- drawing

    def arrived(self, t: _Thread, s: Stmt, bar: int) -> list[int]:
        """The iterations that the slots which a statement reads were filled for; draws what it waited for."""
        if id(s) not in self.reads:
            channels = {self.by_buffer[b] for b in buffers_of(s) if b in self.by_buffer}
            self.reads[id(s)] = tuple(channels)
        tags: list[int] = []
        for channel in self.reads[id(s)]:
            ring = self.ring(t.block, channel)
            n = ring.taken.get(t.consumer, 0) - 1
            if n < 0:
                continue
            tags.append(ring.tags[n])
            if t.block == self.drawn and t.consumer == 0 and n not in ring.used and ring.tags[n] >= 0:
                ring.used.add(n)
                self.arrows += [(held, bar) for held in ring.bars[n]]
        return tags

    def phase(self, iteration: int, tile: int) -> Phase:
        """Steady, or the end of the last tile, when nothing is left to copy."""
        depth = min(self.rings.stages, max(self.rings.trips, default=1)) - 1
        if iteration < 0 or depth < 1:
            return ""
        last = tile == self.rings.tiles - 1 and iteration + depth >= self.rings.trips[tile]
        return "epilogue" if last else "steady"

    def reach(self, tile: int, iteration: int, end: float) -> None:
        """Note how far an iteration's bars reach."""
        self.reached[tile, iteration] = max(end, self.reached.get((tile, iteration), 0.0))

    def bar(
        self, lane: str, s: Stmt, start: float, end: float, iteration: int, phase: Phase, suffix: str = ""
    ) -> int:
        """Draw; gives the bar's number."""
        name = self.names.get(s) or self.places.get(place_of(s))
        ident, label, line = name or ("", type(s).__name__.lower(), s.loc.line if s.loc else 0)
        self.bars.append(TimelineBar(lane, ident, label + suffix, start, end, iteration, phase, line))
        return len(self.bars) - 1

    # -- what is not played

    def mark(self, t: _Thread, a: Mark) -> None:
        """Note when the first warpgroup ends an iteration."""
        t.now += a.spilled
        if t.block == self.drawn and t.consumer == 0:
            self.marks[a.tile, a.iteration] = t.now
            early = min(self.rings.stages, max(0, a.trips - 2))
            since = self.marks.get((a.tile, early))
            if since is not None and a.iteration > early and a.tile not in self.skipped:
                self.pace = (t.now - since) / (a.iteration - early)

    def skip(self, t: _Thread, a: Skip) -> None:
        """Iterations that pass at the pace of the last ones."""
        if t.block != self.drawn or t.consumer:
            return
        last = max(k for tile, k in self.marks if tile == a.tile)
        cycle = a.stages * max(1, timeline.PACED // a.stages)
        cycle = min(cycle, last)
        pace = (self.marks[a.tile, last] - self.marks[a.tile, last - cycle]) / cycle
        self.pace = pace
        self.skipped.add(a.tile)
        self.skips.append((t.now, pace * a.trips))

    def finished(self, end: float) -> Lanes:
        """Times stretched by what was skipped, and the picture cut where it was."""
        each = self.rest()
        self.skips.sort()
        starts = [at for at, _ in self.skips]
        shifts = [0.0]
        for _, us in self.skips:
            shifts.append(shifts[-1] + us)

        def moved(at: float) -> float:
            return at + shifts[bisect_right(starts, at - 1e-9)]

        bars = [
            TimelineBar(
                b.lane, b.op, b.label, moved(b.start_us), moved(b.end_us), b.iteration, b.phase, b.line
            )
            for b in self.bars
        ]
        bars, self.arrows = by_lane(bars, self.arrows, self.rings.consumers)
        cuts = [(moved(a), moved(b)) for a, b in cuts_of(self.rings, self.reached)]
        kept, arrows, cuts = timeline.trimmed(bars, self.arrows, cuts)
        return Lanes(kept, arrows, cuts, moved(end), self.pace, each)

    def rest(self) -> float:
        """Tiles that are not played, at the pace of the second and later ones; gives a tile's mean time."""
        rings, played = self.rings, self.rings.played
        if len(played) < 2:
            return self.ends.get(0, 0.0)
        middle = played[1:-1] if len(played) > 2 else played[1:]

        def length(k: int) -> float:
            before = self.ends[played[played.index(k) - 1]]
            inside = sum(us for at, us in self.skips if before <= at < self.ends[k])
            return self.ends[k] - before + inside

        fixed = sum(length(k) - rings.trips[k] * self.pace for k in middle) / len(middle)
        each = self.pace
        if fixed < 0.0:  # the last iterations were slower than the rest: trips take their share of a tile
            trips = sum(rings.trips[k] for k in middle)
            fixed, each = 0.0, sum(map(length, middle)) / trips if trips else 0.0
        left_out = [k for k in range(rings.tiles) if k not in set(played)]
        us = sum(fixed + rings.trips[k] * each for k in left_out)
        if left_out:
            self.skips.append((self.ends[played[-2]], us))
        return sum(length(k) for k in middle) / len(middle)
