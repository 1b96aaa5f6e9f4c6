"""Shadow memory: who last wrote and read each granule, and whether a new access is ordered after it.

`order.py` says what is known to be over. An access of segment s by a thread of warp v races with one by
another thread of warp w when s >= unsafe[w, v] and one of the two writes. A cp.async writes with segment
PENDING until its thread has waited for it: unsafe to everyone. What runs beside the threads (bulk copies,
products) is a thread numbered 32 * column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tilebench.backends.emulator.order import Clock, Order

PENDING = np.int32(2**30)


class Conflict(NamedTuple):
    """One race: the granule, the earlier access (thread, site) and the later one, and what they are."""

    granule: int
    earlier_thread: int
    earlier_site: int
    later_thread: int
    kind: str  # 'RAW' | 'WAR' | 'WAW' | 'RAW-async' | 'WAW-async' | 'WAW-same'


class Stale(NamedTuple):
    """An access of a thread that the async proxy need not come behind: the granule, the thread, the
    statement, and whether the thread only reads there.
    """

    granule: int
    thread: int
    site: int
    read: bool = False


Granules = slice | np.ndarray
Report = Callable[[int, Conflict], None]
Uninitialised = Callable[[int, int, int], None]


class Shadow:
    """The shadow of one block's shared memory.

    Accesses come as flat arrays: granules and the threads that touch them.
    """

    def __init__(self, granules: int, clock: Clock, race: Report, uninitialised: Uninitialised) -> None:
        w = self.readers = clock.columns.readers
        self.clock, self.race, self.uninitialised = clock, race, uninitialised
        self.w_thread = np.zeros(granules, dtype=np.int32)
        self.w_seg = np.zeros(granules, dtype=np.int32)
        self.w_site = np.zeros(granules, dtype=np.int32)
        self.w_atomic = np.zeros(granules, dtype=bool)
        self.r_seg = np.zeros(granules * w, dtype=np.int32)
        self.r_thread = np.zeros(granules * w, dtype=np.int32)
        self.r_several = np.zeros(granules * w, dtype=np.int32)
        self.r_site = np.zeros(granules * w, dtype=np.int32)

    def read(self, g: np.ndarray, t: np.ndarray, site: int) -> None:
        """Threads t read granules g."""
        clock = self.clock
        written = self.w_seg[g]
        if not written.all():
            first = int(np.flatnonzero(written == 0)[0])
            self.uninitialised(site, int(g[first]), int(t[first]))
        w = t >> 5
        if written.max() >= clock.lowest:
            writer = self.w_thread[g]
            bad = (written >= clock.unsafe[w, writer >> 5]) & ((writer != t) | (written == PENDING))
            if clock.wide and bad.any():
                bad = clock.excuse(bad, writer, written, t)
            if bad.any():
                i = _telling(bad, writer, t)
                kind = "RAW-async" if written[i] == PENDING else "RAW"
                self.race(site, Conflict(int(g[i]), int(writer[i]), int(self.w_site[g[i]]), int(t[i]), kind))
        gw = g * self.readers + w
        now = clock.seg[w]
        old = self.r_thread[gw]
        same = self.r_seg[gw] >= clock.unsafe[w, w]  # since the lanes last met
        self.r_thread[gw] = t
        self.r_seg[gw] = now
        self.r_site[gw] = site
        several = ((old != t) & same) | (self.r_thread[gw] != t)
        if several.any():
            self.r_several[gw[several]] = now[several]

    def write(
        self,
        g: np.ndarray,
        t: np.ndarray,
        site: int,
        *,
        atomic: bool = False,
        pending: bool = False,
        same_values: Callable[[], bool] | None = None,
    ) -> None:
        """Threads t write granules g; pending: an asynchronous copy that is not complete."""
        clock = self.clock
        w = t >> 5
        written = self.w_seg[g]
        if written.max() >= clock.lowest:
            writer = self.w_thread[g]
            bad = (written >= clock.unsafe[w, writer >> 5]) & ((writer != t) | (written == PENDING))
            if atomic:
                bad &= ~self.w_atomic[g]
            if clock.wide and bad.any():
                bad = clock.excuse(bad, writer, written, t)
            if bad.any():
                i = _telling(bad, writer, t)
                kind = "WAW-async" if written[i] == PENDING else "WAW"
                self.race(site, Conflict(int(g[i]), int(writer[i]), int(self.w_site[g[i]]), int(t[i]), kind))
        rows = g[:, None] * self.readers + np.arange(self.readers)
        reads = self.r_seg[rows]
        if reads.max() >= clock.lowest:
            bad2 = (reads >= clock.unsafe[w, : self.readers]) & (reads > 0)
            own = rows[np.arange(len(g)), w]
            other_lane = (self.r_thread[own] != t) | (self.r_several[own] >= clock.unsafe[w, w])
            bad2[np.arange(len(g)), w] &= other_lane
            if clock.wide and bad2.any():
                self._excuse_readers(bad2, rows, t)
            if bad2.any():
                far = bad2.copy()
                far[np.arange(len(g)), w] = False  # a reader of another warp says more
                i, v = (int(x[0]) for x in np.nonzero(far if far.any() else bad2))
                row = int(rows[i, v])
                self.race(
                    site,
                    Conflict(int(g[i]), int(self.r_thread[row]), int(self.r_site[row]), int(t[i]), "WAR"),
                )
        self.w_thread[g] = t
        if not atomic:
            last = self.w_thread[g]
            clash = last != t
            if clash.any():
                i = int(np.flatnonzero(clash)[0])
                kind = "WAW-same" if same_values is not None and same_values() else "WAW"
                self.race(site, Conflict(int(g[i]), int(last[i]), site, int(t[i]), kind))
        self.w_seg[g] = PENDING if pending else clock.seg[w]
        self.w_site[g] = site
        self.w_atomic[g] = atomic

    def _excuse_readers(self, bad: np.ndarray, rows: np.ndarray, t: np.ndarray) -> None:
        """Take out of `bad` [granules, readers] what single threads know or told."""
        i, v = np.nonzero(bad)
        at, own = rows[i, v], np.minimum(v, self.clock.warps - 1)
        several = self.r_several[at] >= self.clock.unsafe[own, own]
        everything = np.ones(len(i), dtype=bool)
        bad[i, v] = self.clock.excuse(everything, self.r_thread[at], self.r_seg[at], t[i], several)

    # -------------------------------------------------------------- what runs beside the threads

    def async_read(
        self, g: Granules, order: Order, thread: int, column: int, seg: int, site: int, agent: int
    ) -> Stale | None:
        """The async proxy (`column`, its segment `seg`) reads granules.

        thread: who issued it (-1: a warpgroup), knowing `order`; agent: the number that it goes by. Gives a
        write that is in order but not fenced, if there is one.
        """
        written, writer = self.w_seg[g], self.w_thread[g]
        if not written.all():
            first = int(np.flatnonzero(written == 0)[0])
            self.uninitialised(site, _granule(g, first), agent)
        stale = self._after_writes(g, written, writer, order, thread, site, agent, "RAW")
        self.r_seg.reshape(-1, self.readers)[g, column] = seg
        self.r_thread.reshape(-1, self.readers)[g, column] = agent
        self.r_site.reshape(-1, self.readers)[g, column] = site
        return stale

    def async_write(
        self, g: Granules, order: Order, thread: int, column: int, seg: int, site: int, agent: int
    ) -> Stale | None:
        """The async proxy overwrites granules; as `async_read`."""
        written, writer = self.w_seg[g], self.w_thread[g]
        stale = self._after_writes(g, written, writer, order, thread, site, agent, "WAW")
        reads = self.r_seg.reshape(-1, self.readers)[g]
        bad = reads >= order.row[: self.readers]
        if bad.any():
            i, v = np.nonzero(bad)
            reader = self.r_thread.reshape(-1, self.readers)[g][i, v]
            own = np.minimum(v, self.clock.warps - 1)
            several = self.r_several.reshape(-1, self.readers)[g][i, v] >= self.clock.unsafe[own, own]
            over = self.clock.in_order(order, reader, reads[i, v], several) | ((reader == thread) & ~several)
            if not over.all():
                k = int(np.flatnonzero(~over)[0])
                earlier = int(self.r_site.reshape(-1, self.readers)[g][i[k], v[k]])
                self.race(site, Conflict(_granule(g, int(i[k])), int(reader[k]), earlier, agent, "WAR"))
        stale = stale or self._after_reads(g, reads, order)
        self.w_thread[g] = agent
        self.w_seg[g] = seg
        self.w_site[g] = site
        self.w_atomic[g] = False
        return stale

    def _after_writes(
        self,
        g: Granules,
        written: np.ndarray,
        writer: np.ndarray,
        order: Order,
        thread: int,
        site: int,
        agent: int,
        kind: str,
    ) -> Stale | None:
        warp = writer >> 5
        bad = (written >= order.row[warp]) & ((writer != thread) | (written == PENDING))
        if bad.any() and order.told:
            bad &= ~self.clock.in_order(order, writer, written)
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            what = f"{kind}-async" if written[i] == PENDING else kind
            self.race(site, Conflict(_granule(g, i), int(writer[i]), int(self.w_site[g][i]), agent, what))
            return None
        warps = self.clock.warps
        generic = (warp < warps) & (written > 0)
        if not generic.any():
            return None
        seen = order.row[self.clock.columns.fences + np.minimum(warp, warps - 1)]
        hidden = generic & (written >= seen)
        for alone, last in self.clock.fenced.items():
            hidden &= ~((writer == alone) & (written <= last))
        if not hidden.any():
            return None
        i = int(np.flatnonzero(hidden)[0])
        return Stale(_granule(g, i), int(writer[i]), int(self.w_site[g][i]))

    def _after_reads(self, g: Granules, reads: np.ndarray, order: Order) -> Stale | None:
        """A read by a thread that no fence of it closes, if there is one."""
        warps = self.clock.warps
        fences = self.clock.columns.fences
        hidden = (reads[:, :warps] > 0) & (reads[:, :warps] >= order.row[fences : fences + warps])
        reader = self.r_thread.reshape(-1, self.readers)[g][:, :warps]
        for alone, last in self.clock.fenced.items():
            hidden &= ~((reader == alone) & (reads[:, :warps] <= last))
        if not hidden.any():
            return None
        i, v = (int(x[0]) for x in np.nonzero(hidden))
        at = int(self.r_site.reshape(-1, self.readers)[g][i, v])
        return Stale(_granule(g, i), int(reader[i, v]), at, read=True)

    def complete(self, g: np.ndarray, t: np.ndarray) -> None:
        """Asynchronous copies into g are complete for the threads t that issued them."""
        mine = (self.w_thread[g] == t) & (self.w_seg[g] == PENDING)
        if mine.all():
            self.w_seg[g] = self.clock.seg[t >> 5]
        else:
            self.w_seg[g[mine]] = self.clock.seg[t[mine] >> 5]


class GlobalShadow:
    """The shadow of one global array over all blocks; threads are numbered block * threads + thread.

    Blocks are never ordered with each other. reads: kept only for arrays that the program also writes.
    """

    def __init__(self, elements: int, threads: int, reads: bool, race: Report) -> None:
        self.threads, self.reads, self.race = threads, reads, race
        self.w_thread = np.zeros(elements, dtype=np.int64)  # thread + 1: untouched pages cost nothing
        self.w_seg = np.zeros(elements, dtype=np.int32)
        self.w_site = np.zeros(elements, dtype=np.int32)
        self.w_atomic = np.zeros(elements, dtype=bool)
        if reads:
            self.r_thread = np.zeros(elements, dtype=np.int64)
            self.r_other = np.zeros(elements, dtype=np.int64)
            self.r_seg = np.zeros(elements, dtype=np.int32)
            self.r_other_seg = np.zeros(elements, dtype=np.int32)
            self.r_site = np.zeros(elements, dtype=np.int32)

    def _unordered(
        self, earlier: np.ndarray, seg: np.ndarray, t: np.ndarray, block: int, clock: Clock
    ) -> np.ndarray:
        base = block * self.threads
        here = (earlier >= base) & (earlier < base + self.threads)
        warp = np.where(here, earlier - base, 0) >> 5
        late = seg >= clock.unsafe[t >> 5, warp]
        return (earlier >= 0) & (earlier != t + base) & (~here | late)

    def read(self, e: np.ndarray, t: np.ndarray, site: int, block: int, clock: Clock) -> None:
        """Threads t of `block` read elements e."""
        if not self.reads:
            return
        writer = self.w_thread[e] - 1
        if writer.max() >= 0:
            bad = self._unordered(writer, self.w_seg[e], t, block, clock)
            if bad.any():
                i = int(np.flatnonzero(bad)[0])
                self.race(
                    site,
                    Conflict(
                        int(e[i]),
                        int(writer[i]),
                        int(self.w_site[e[i]]),
                        int(t[i]) + block * self.threads,
                        "RAW",
                    ),
                )
        mine = t.astype(np.int64) + (block * self.threads + 1)
        now = clock.seg[t >> 5]
        old = self.r_thread[e]
        changed = old != mine
        self.r_other[e] = np.where(changed, old, self.r_other[e])
        self.r_other_seg[e] = np.where(changed, self.r_seg[e], self.r_other_seg[e])
        self.r_thread[e] = mine
        self.r_seg[e] = now
        lost = self.r_thread[e] != mine
        if lost.any():
            self.r_other[e[lost]] = mine[lost]
            self.r_other_seg[e[lost]] = now[lost]
        self.r_site[e] = site

    def write(
        self,
        e: np.ndarray,
        t: np.ndarray,
        site: int,
        block: int,
        clock: Clock,
        *,
        atomic: bool = False,
        same_values: Callable[[], bool] | None = None,
    ) -> None:
        """Threads t of `block` write elements e."""
        mine = t.astype(np.int64) + block * self.threads
        writer = self.w_thread[e] - 1
        if writer.max() >= 0:
            bad = self._unordered(writer, self.w_seg[e], t, block, clock)
            if atomic:
                bad &= ~self.w_atomic[e]
            if bad.any():
                i = int(np.flatnonzero(bad)[0])
                self.race(
                    site, Conflict(int(e[i]), int(writer[i]), int(self.w_site[e[i]]), int(mine[i]), "WAW")
                )
        if self.reads:
            for threads, seg in ((self.r_thread, self.r_seg), (self.r_other, self.r_other_seg)):
                reader = threads[e] - 1
                bad = self._unordered(reader, seg[e], t, block, clock)
                if bad.any():
                    i = int(np.flatnonzero(bad)[0])
                    self.race(
                        site, Conflict(int(e[i]), int(reader[i]), int(self.r_site[e[i]]), int(mine[i]), "WAR")
                    )
                    break
        self.w_thread[e] = mine + 1
        if not atomic:
            last = self.w_thread[e] - 1
            clash = last != mine
            if clash.any():
                i = int(np.flatnonzero(clash)[0])
                kind = "WAW-same" if same_values is not None and same_values() else "WAW"
                self.race(site, Conflict(int(e[i]), int(last[i]), site, int(mine[i]), kind))
        self.w_seg[e] = clock.seg[t >> 5]
        self.w_site[e] = site
        self.w_atomic[e] = atomic

    @property
    def written(self) -> np.ndarray:
        """Which elements were written."""
        return self.w_thread > 0


def _telling(bad: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> int:
    """The conflict to report: between two warps if there is one, since a warp barrier does not help there."""
    far = bad & (earlier >> 5 != later >> 5)
    return int(np.flatnonzero(far if far.any() else bad)[0])


def _granule(g: Granules, i: int) -> int:
    return int(g.start) + i if isinstance(g, slice) else int(g[i])


def flat(values: Any) -> np.ndarray:
    """A flat intp array."""
    return np.asarray(values, dtype=np.intp).reshape(-1)
