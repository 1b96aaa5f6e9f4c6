"""How the lanes of a block with a producer are drawn: their order, what is left out, whose bar it is."""

from __future__ import annotations

from collections.abc import Mapping

from tilebench.ir.tile import Stmt
from tilebench.profiling import timeline
from tilebench.profiling.actions import Rings
from tilebench.report import TimelineBar

PRODUCER, TENSOR, STORES = "producer", "tensor cores", "stores"
"""Lanes beside those of the warpgroups."""


def by_lane(
    bars: list[TimelineBar], arrows: list[tuple[int, int]], consumers: int
) -> tuple[list[TimelineBar], list[tuple[int, int]]]:
    """The bars lane by lane, so that views show the lanes in the order in which data go through them."""
    ranks = [PRODUCER, TENSOR, *(f"warpgroup {k}" for k in range(consumers)), STORES]
    order = sorted(range(len(bars)), key=lambda k: (ranks.index(bars[k].lane), bars[k].start_us))
    to = {old: new for new, old in enumerate(order)}
    return [bars[k] for k in order], [(to[a], to[b]) for a, b in arrows]


def place_of(s: Stmt) -> tuple[str, int, int]:
    """What a statement has in common with its copies that passes make."""
    return type(s).__name__, s.loc.line if s.loc else 0, s.loc.column if s.loc else 0


def cuts_of(rings: Rings, reached: Mapping[tuple[int, int], float]) -> list[tuple[float, float]]:
    """Stretches that are left out of the picture, in played time: after the first iterations of the first
    tile up to its last ones, and from the first ones of the second tile to the last ones of the last.

    reached: when the last bar of an iteration of a tile ends.
    """
    head, tail = timeline.ITERATIONS_SHOWN - timeline.LAST_SHOWN, timeline.LAST_SHOWN
    if not rings.played:
        return []

    def before_the_last(tile: int) -> float | None:
        own = [t for (k, i), t in reached.items() if k == tile and 0 <= i < rings.trips[tile] - tail]
        return max(own, default=None)

    first, last = rings.played[0], rings.played[-1]
    edges = [(reached.get((first, head - 1)), before_the_last(first))]
    if rings.trips[first] <= head + tail:
        edges = []
    if last != first:
        edges.append((reached.get((rings.played[1], tail - 1)), before_the_last(last)))
    return [(a, b) for a, b in edges if a is not None and b is not None and b > a]
