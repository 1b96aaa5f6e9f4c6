"""What in-kernel timers wrote (ir/timers.py), read: the stretches of time of each warp, with their sites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tilebench.ir.thread import Program
from tilebench.ir.tile import Kernel
from tilebench.ir.timers import Header, TimerSite, clock_bits, first_record, opens, warps_of


@dataclass(frozen=True)
class Stretch:
    """From one count of the clock to another, at a site (its number); tile: of a persistent block, from 0."""

    site: int
    start: int
    end: int
    tile: int = 0


@dataclass(frozen=True)
class WarpStamps:
    """What one warp wrote. Clocks in cycles of its SM, times in nanoseconds of the GPU; lost: records that
    found no place.
    """

    warp: int
    sm: int
    clock_begin: int
    clock_end: int
    time_begin: int
    time_end: int
    stretches: tuple[Stretch, ...]
    lost: int


def read(words: np.ndarray, kernel: Kernel, program: Program, capacity: int) -> tuple[WarpStamps, ...]:
    """The warps that wrote something, in order. words: the tensor behind the kernel's own."""
    data = np.ascontiguousarray(words).view(np.uint32)
    found: list[WarpStamps] = []
    for warp in range(warps_of(kernel)):
        head = data[Header.WORDS * (1 + warp) : Header.WORDS * (2 + warp)]

        def long(word: Header, head: np.ndarray = head) -> int:
            return int(head[word]) | int(head[word + 1]) << 32

        if not head.any():
            continue
        count, start = int(head[Header.COUNT]), first_record(kernel, warp, capacity)
        records = data[start : start + min(count, capacity)]
        begin, end = long(Header.CLOCK_BEGIN), long(Header.CLOCK_END)
        lost = max(0, count - capacity)
        found.append(
            WarpStamps(
                warp, int(head[Header.SM]), begin, end, long(Header.TIME_BEGIN), long(Header.TIME_END),
                stretches(records, program.timers, begin), lost,
            )
        )  # fmt: skip
    return tuple(found)


def stretches(records: np.ndarray, sites: Sequence[TimerSite], begin: int) -> tuple[Stretch, ...]:
    """Records in the order in which they were written, as stretches in the order of their starts.

    begin: the whole clock before the first record, whose low bits the records have. What was never closed is
    left out.
    """
    bits = clock_bits(len(sites))
    mask = (1 << bits) - 1
    clock, tile = begin, -1
    opened: tuple[int, int] | None = None
    tile_start = 0
    found: list[Stretch] = []
    numbers: list[int] = records.tolist()
    for record in numbers:
        tag = record >> bits
        clock += ((record & mask) - clock) & mask
        site, closes = divmod(tag - 1, 2)
        if sites[site].what == "tile":
            if closes:
                found.append(Stretch(site, tile_start, clock, tile))
            else:
                tile, tile_start = tile + 1, clock
            continue
        if opened is not None:
            found.append(Stretch(opened[0], opened[1], clock, max(0, tile)))
        opened = None if closes else (site, clock)
    return tuple(sorted(found, key=lambda s: (s.start, s.end)))


def clock_rate(launches: Iterable[Sequence[WarpStamps]]) -> float | None:
    """Cycles in a microsecond, from launches in order, those whose blocks were on the same SM: every SM has a
    counter of its own. None when no two were, or all of them are too near each other for the GPU's timer.
    """
    seen: dict[tuple[int, int], tuple[WarpStamps, WarpStamps]] = {}
    for launch in launches:
        for stamps in launch:
            place = stamps.sm, stamps.warp
            seen[place] = seen.get(place, (stamps,))[0], stamps
    spans = [(b.time_end - a.time_begin, b.clock_end - a.clock_begin) for a, b in seen.values()]
    nanoseconds, cycles = max((s for s in spans if s[1] > 0), default=(0, 0))
    return 1e3 * cycles / nanoseconds if nanoseconds >= LEAST_NS else None


LEAST_NS = 1_000_000
"""The GPU's timer moves in steps of up to a microsecond: over a millisecond that is a thousandth."""

__all__ = ["LEAST_NS", "Stretch", "WarpStamps", "clock_rate", "opens", "read", "stretches"]
