"""The timeline that timers in the kernel measured: bars on the lanes of the predicted one.

A warpgroup product is drawn from its issue to the end of the wait that it ended, which is as late as the
program looked; a copy of the producer while it is started, since its bytes arrive when nobody looks. What a
thread merely waits for is a bar of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tilebench.ir.rewrite import children, walk
from tilebench.ir.tile import (
    Acquire,
    Channel,
    For,
    Issue,
    Kernel,
    Pipelined,
    Produce,
    Stmt,
    SyncThreads,
    TileOp,
    Token,
    Wait,
    While,
)  # fmt: skip
from tilebench.ir.timers import TimerSite
from tilebench.ops.copy import Copy
from tilebench.ops.gemm import Gemm
from tilebench.profiling import timeline
from tilebench.profiling.picture import PRODUCER, STORES, TENSOR, place_of
from tilebench.profiling.stamps import Stretch, WarpStamps
from tilebench.profiling.timeline import Names, Phase
from tilebench.report import TimelineBar, TimelineInfo

MOST_BARS = 480
"""Of more bars only those of the first warp of each role are kept, so that a saved report stays small."""
WARPS_OF_A_GROUP = 4


@dataclass(frozen=True)
class Setting:
    """What the stamps are of. threads: of the program's own, behind which a producer's are; specialised:
    whether there is one; rate: cycles in a unit of time.
    """

    kernel: Kernel
    sites: Sequence[TimerSite]
    names: Names
    specialised: bool
    rate: float
    unit: Literal["us", "steps"] = "us"
    predicted: TimelineInfo | None = None


@dataclass
class _Bars:
    """Bars found, each with the tile that it belongs to, and the arrows between them."""

    bars: list[TimelineBar] = field(default_factory=list[TimelineBar])
    tiles: list[int] = field(default_factory=list[int])
    fills: dict[Channel, list[int]] = field(default_factory=dict[Channel, list[int]])
    takes: dict[tuple[int, Channel], list[int]] = field(default_factory=dict[tuple[int, Channel], list[int]])


def drawn(warps: Sequence[WarpStamps], setting: Setting) -> TimelineInfo:
    """Bars, arrows and cuts; without note, device and provenance, which the caller knows."""
    start = min(w.clock_begin for w in warps)
    found = _Bars()
    for warp in warps:
        _Warp(setting, found, warp.warp, start).read(warp.stretches)
    arrows = [
        (filled, taken)
        for (_, channel), takes in found.takes.items()
        for filled, taken in zip(found.fills.get(channel, []), takes, strict=False)
    ]
    _without_empty(found)
    cuts = _cuts(found)
    bars, arrows, cuts = timeline.trimmed(found.bars, arrows, cuts)
    if len(bars) > MOST_BARS or setting.unit == "steps":  # the emulator runs the warps of a role as one
        first = _first_of_each([w.warp for w in warps], setting)
        bars, arrows = _only(bars, arrows, [k for k, b in enumerate(bars) if b.warp in first])
    bars, arrows = _in_order(bars, arrows, setting.predicted)
    kept = tuple(sorted({b.warp for b in bars}))
    return TimelineInfo(
        "measured", tuple(bars), tuple(arrows), cuts=tuple(cuts), unit=setting.unit, warps=kept
    )


def _without_empty(found: _Bars) -> None:
    """Groups of copies that were closed empty, behind the last iteration, are no bars."""
    last: dict[int, int] = {}
    for bar, tile in zip(found.bars, found.tiles, strict=True):
        if bar.kind == "work":
            last[tile] = max(last.get(tile, -1), bar.iteration)
    empty = {
        k
        for k, (bar, tile) in enumerate(zip(found.bars, found.tiles, strict=True))
        if bar.kind == "issue" and bar.iteration > last.get(tile, bar.iteration)
    }
    if not empty or found.fills:
        return  # a producer closes no empty group
    found.bars = [bar for k, bar in enumerate(found.bars) if k not in empty]
    found.tiles = [tile for k, tile in enumerate(found.tiles) if k not in empty]


def _first_of_each(warps: Sequence[int], setting: Setting) -> set[int]:
    if not setting.specialised:
        return {min(warps)}
    return {
        min(w for w in warps if w // WARPS_OF_A_GROUP == g) for g in {w // WARPS_OF_A_GROUP for w in warps}
    }


def _only(
    bars: list[TimelineBar], arrows: list[tuple[int, int]], kept: list[int]
) -> tuple[list[TimelineBar], list[tuple[int, int]]]:
    """The bars with these numbers, in this order."""
    to = {old: new for new, old in enumerate(kept)}
    return [bars[k] for k in kept], [(to[a], to[b]) for a, b in arrows if a in to and b in to]


def _in_order(
    bars: list[TimelineBar], arrows: list[tuple[int, int]], predicted: TimelineInfo | None
) -> tuple[list[TimelineBar], list[tuple[int, int]]]:
    """Lane by lane, the lanes of the predicted timeline first."""
    known = [*(b.lane for b in predicted.bars)] if predicted is not None else []
    ranks = {lane: k for k, lane in enumerate(dict.fromkeys([*known, *sorted({b.lane for b in bars})]))}
    return _only(
        bars, arrows, sorted(range(len(bars)), key=lambda k: (ranks[bars[k].lane], bars[k].start_us))
    )


def _cuts(found: _Bars) -> list[tuple[float, float]]:
    """Stretches that are left out, as in the predicted picture: the middle of a long loop, and what lies
    between the first two tiles and the last of a persistent block.
    """
    head, tail = timeline.ITERATIONS_SHOWN - timeline.LAST_SHOWN, timeline.LAST_SHOWN
    reached: dict[tuple[int, int], float] = {}
    for bar, tile in zip(found.bars, found.tiles, strict=True):
        if bar.iteration >= 0 and bar.lane != PRODUCER:
            key = (tile, bar.iteration)
            reached[key] = max(reached.get(key, 0.0), bar.end_us)
    if not reached:
        return []
    trips = {tile: 1 + max(i for t, i in reached if t == tile) for tile, _ in reached}
    first, last = min(trips), max(trips)

    def before_the_last(tile: int) -> float | None:
        return max((t for (k, i), t in reached.items() if k == tile and i < trips[tile] - tail), default=None)

    edges: list[tuple[float | None, float | None]] = []
    if trips[first] > head + tail:
        edges.append((reached.get((first, head - 1)), before_the_last(first)))
    if last > first:
        edges.append((reached.get((first + 1, min(tail, trips[first + 1]) - 1)), before_the_last(last)))
    return [(a, b) for a, b in edges if a is not None and b is not None and b > a]


def _looped(kernel: Kernel, names: Names) -> frozenset[str]:
    """The ids of ops that stand in a loop."""
    found: set[str] = set()

    def visit(s: Stmt, inside: bool) -> None:
        if inside and s in names:
            found.add(names[s][0])
        for child in children(s):
            if isinstance(child, Stmt):
                visit(child, inside or isinstance(s, For | Pipelined | While))

    visit(kernel.body, False)
    return frozenset(found)


class _Warp:
    """One warp's stretches, in order, as bars."""

    def __init__(self, setting: Setting, found: _Bars, warp: int, start: int) -> None:
        self.setting, self.found, self.warp, self.start = setting, found, warp, start
        self.names = setting.names
        self.places = {place_of(s): name for s, name in reversed(list(setting.names.items()))}
        self.looped = _looped(setting.kernel, setting.names)
        predicted = setting.predicted.bars if setting.predicted is not None else ()
        self.lanes: dict[str, str] = {b.op: b.lane for b in reversed(predicted) if b.op}
        self.phases: dict[tuple[str, int], Phase] = {
            (b.op, b.iteration): b.phase for b in reversed(predicted)
        }
        self.copies = {s.stmt.channel: s.stmt.copies for s in setting.sites if isinstance(s.stmt, Produce)}
        self.counts: dict[object, int] = {}
        self.tile = 0
        self.under_way: list[tuple[list[TileOp], int]] = []
        self.copied: dict[Token, str] = {}
        own = -(-setting.kernel.thread_count // 32)
        self.group = PRODUCER if warp >= own else f"warpgroup {warp // WARPS_OF_A_GROUP}"
        groups = own // WARPS_OF_A_GROUP
        self.suffix = f", {self.group}" if setting.specialised and groups > 1 else ""

    def read(self, stretches: Sequence[Stretch]) -> None:
        """Add the bars of the stretches."""
        for s in stretches:
            site = self.setting.sites[s.site]
            if s.tile != self.tile:
                self.tile, self.counts = s.tile, {}
            match site.what, site.stmt:
                case "work", stmt:
                    name = self.named(stmt)
                    if site.more:
                        name = (name[0], f"{name[1]} and {len(site.more)} more", name[2])
                    lane = self.lane(name[0], stmt)
                    turn = self.turn((name[0], lane == STORES), name[0])
                    self.bar(lane, name, s, turn, "issue" if lane == STORES else "work")
                case "fill", Produce() as stmt:
                    self.fill(s, stmt)
                case "issue", Issue() as stmt if stmt.token.kind == "wgmma":
                    self.under_way.append((_ops(stmt), s.start))
                case "issue", Issue() as stmt if ops := _ops(stmt):
                    ident, label, line = self.named(ops[0])
                    self.copied[stmt.token] = ident
                    turn = self.turn(ident, ident)
                    self.bar(self.lane(ident, ops[0]), (ident, label, line), s, turn, "issue")
                case "wait", stmt:
                    self.wait(s, stmt)
                case _:
                    pass

    # -- what a thing is called, and how often it was done

    def named(self, stmt: Stmt) -> tuple[str, str, int]:
        name = self.names.get(stmt) or self.places.get(place_of(stmt))
        return name or ("", type(stmt).__name__.lower(), stmt.loc.line if stmt.loc else 0)

    def turn(self, key: object, ident: str) -> int:
        """The iteration of what is done again and again; -1 for what stands in no loop."""
        count = self.counts.get(key, 0)
        self.counts[key] = count + 1
        return count if ident in self.looped else -1

    def lane(self, ident: str, stmt: Stmt) -> str:
        known = self.lanes.get(ident)
        if self.setting.specialised:
            leaves = isinstance(stmt, Copy) and _scopes(stmt) == ("shared", "global")
            return STORES if leaves else self.group
        if known is not None:
            return known
        if isinstance(stmt, Copy):
            return "copy" if "global" in _scopes(stmt) else "ALU"
        return TENSOR if isinstance(stmt, Gemm) else "ALU"

    def bar(
        self,
        lane: str,
        name: tuple[str, str, int],
        s: Stretch,
        iteration: int,
        kind: Literal["work", "wait", "issue"] = "work",
    ) -> int:
        """Add a bar; gives its number."""
        ident, label, line = name
        phase = self.phases.get((ident, iteration), "steady" if iteration >= 0 and self.phases else "")
        start, end = ((c - self.start) / self.setting.rate for c in (s.start, s.end))
        self.found.bars.append(
            TimelineBar(lane, ident, label, start, end, iteration, phase, line, kind, self.warp)
        )
        self.found.tiles.append(s.tile)
        return len(self.found.bars) - 1

    # -- asynchronous work

    def fill(self, s: Stretch, stmt: Produce) -> None:
        """The producer starts the copies of a slot."""
        ident, label, line = self.named(stmt.copies[0])
        turn = self.turn(("fill", stmt.channel), ident)
        name = (ident, f"{label} into {_buffers(stmt.channel)}", line)
        self.found.fills.setdefault(stmt.channel, []).append(self.bar(PRODUCER, name, s, turn, "issue"))

    def wait(self, s: Stretch, stmt: Stmt) -> None:
        """A wait, and the products that it ends."""
        lane = self.group if self.setting.specialised else "ALU"
        match stmt:
            case Produce():
                ident, _, line = self.named(stmt.copies[0])
                turn = self.turn(("free", stmt.channel), ident)
                self.bar(PRODUCER, (ident, "wait for a free slot", line), s, turn, "wait")
            case Acquire():
                copies = self.copies.get(stmt.channel, ())
                ident = self.named(copies[0])[0] if copies else ""
                turn = self.turn(("full", stmt.channel), ident)
                line = stmt.loc.line if stmt.loc else 0
                number = self.bar(lane, (ident, f"wait for {_buffers(stmt.channel)}", line), s, turn, "wait")
                self.found.takes.setdefault((self.warp, stmt.channel), []).append(number)
            case Wait() if stmt.token.kind == "wgmma":
                self.products(s, stmt)
            case Wait():
                ident = self.copied.get(stmt.token, "")
                turn, line = self.turn(("copies", stmt.token), ident), stmt.loc.line if stmt.loc else 0
                self.bar("copy" if lane == "ALU" else lane, (ident, "wait for copies", line), s, turn, "wait")
            case SyncThreads():
                line = stmt.loc.line if stmt.loc else 0
                self.bar(lane, ("", "barrier", line), s, -1, "wait")
            case _:
                pass

    def products(self, s: Stretch, wait: Wait) -> None:
        """The wait for products, and the products from their issue to here."""
        done = self.under_way[: max(0, len(self.under_way) - wait.pending)]
        self.under_way = self.under_way[len(done) :]
        last: tuple[tuple[str, str, int], int] | None = None
        for ops, start in done:
            for op in ops:
                ident, label, line = self.named(op)
                turn = self.turn(("product", ident), ident)
                self.bar(TENSOR, (ident, label + self.suffix, line), replace(s, start=start), turn)
                last = ((ident, "wait for the product", line), turn)
        if last is not None:
            self.bar(self.group, last[0], s, last[1], "wait")


def _scopes(copy: Copy) -> tuple[str, str]:
    return copy.source.buffer.scope, copy.destination.buffer.scope


def _ops(issue: Issue) -> list[TileOp]:
    """The ops of a group, also those under a condition."""
    return [n for op in issue.ops for n in walk(op) if isinstance(n, TileOp)]


def _buffers(channel: Channel) -> str:
    return ", ".join(b.name for b in channel.buffers)


__all__ = ["MOST_BARS", "Setting", "drawn"]
