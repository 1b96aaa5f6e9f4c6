"""What is known to be over: the order that barriers, mbarriers and waits make within one block.

Time is counted per warp: `seg[w]` goes up at every barrier (and __syncwarp) of warp w. `unsafe[w, v]` is the
first segment of warp v that warp w is *not* ordered after. A barrier of warps P sets unsafe[w] for w in P to
the maximum over P, each p's own entry being seg[p] + 1: what p did before the barrier is now ordered before
what w does after it.

What runs beside the threads has columns of its own (`Columns`), counted in its own way:

    products of a warpgroup   groups of wgmma: unsafe[w, c] = 3 means that w knows groups 1 and 2 to be done
    bulk stores of a warp     stores in order of issue
    bulk loads                a column for each mbarrier, counted in phases: the bytes of phase p (from 0) are
                              segment p + 1, known to who has waited for that phase
    fences of a warp          segments of the warp whose writes the async proxy can see

An mbarrier carries an `Order`: arriving gives it what the arriving threads know and did, waiting takes it.
One lane that arrives gives only what *it* did since the lanes last met (`told`), and one lane that waits
learns for itself alone (`alone`) until its warp meets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from tilebench.ir.thread import Memory


@dataclass(frozen=True)
class Columns:
    """Where the columns of a block's clock begin. products, stores: column of a warpgroup, of a warp.

    barriers: of the first mbarrier in a shared Memory; fences: of warp 0; readers: columns (from 0) of those
    that read shared memory.
    """

    warps: int
    products: Mapping[int, int] = field(default_factory=dict[int, int])
    stores: Mapping[int, int] = field(default_factory=dict[int, int])
    barriers: Mapping[Memory, int] = field(default_factory=dict["Memory", int])
    fences: int = 0
    count: int = 0

    @property
    def readers(self) -> int:
        """Warps, warpgroups with products, warps with bulk stores."""
        return self.warps + len(self.products) + len(self.stores)


class Order(NamedTuple):
    """What someone knows: a row of `unsafe`, and the last segment known of threads that arrived alone."""

    row: np.ndarray
    told: Mapping[int, int]


NOBODY: Mapping[int, int] = {}


class Clock:
    """The order that has been made between the warps of one block, and what runs beside them."""

    def __init__(self, warps: int, columns: Columns | None = None) -> None:
        self.warps = warps
        self.columns = columns or Columns(warps)
        self.wide = self.columns.count > warps
        self.unsafe = np.ones((warps, max(warps, self.columns.count)), dtype=np.int32)
        self.seg = np.ones(warps, dtype=np.int32)
        self.lowest = 0 if self.wide else 1
        self.alone: dict[int, Order] = {}
        self.told: dict[int, dict[int, int]] = {}
        self.fenced: dict[int, int] = {}  # threads that fenced alone: the last segment they fenced

    def join(self, warps: np.ndarray) -> None:
        """A barrier of these warps."""
        if self.wide:
            self._meet(warps, together=True)
        if len(warps) == self.warps:
            known = self.unsafe.max(axis=0)
            self.seg += 1
            np.maximum(known[: self.warps], self.seg, out=known[: self.warps])
            self.unsafe[:] = known
        else:
            ends = self.unsafe[warps]
            ends[np.arange(len(warps)), warps] = self.seg[warps] + 1
            self.unsafe[warps] = ends.max(axis=0)
            self.seg[warps] += 1
        self._settle()

    def split(self, warps: np.ndarray) -> None:
        """__syncwarp: lanes of each of these warps are ordered among themselves."""
        if self.wide:
            self._meet(warps, together=False)
        self.seg[warps] += 1
        self.unsafe[warps, warps] = self.seg[warps]
        self._settle()

    def _settle(self) -> None:
        if not self.wide:
            self.lowest = int(self.unsafe.min())

    def _meet(self, warps: np.ndarray, *, together: bool) -> None:
        """Lanes of each warp tell each other what single ones of them know; warps too when together."""
        if self.alone:
            among = {int(w) for w in warps}
            for thread in [t for t in self.alone if t >> 5 in among]:
                order = self.alone.pop(thread)
                self.learn(np.array([thread >> 5]), order)
        if together and self.told:
            shared = dict[int, int]()
            for w in warps.tolist():
                _merge(shared, self.told.get(w, NOBODY))
            if shared:
                for w in warps.tolist():
                    self.told[w] = dict(shared)

    # -------------------------------------------------------------- who knows what

    def known(self, thread: int) -> Order:
        """What one thread knows."""
        found = self.alone.get(thread)
        warp = thread >> 5
        row, told = self.unsafe[warp], self.told.get(warp, NOBODY)
        if found is None:
            return Order(row, told)
        return Order(np.maximum(row, found.row), {**told, **found.told} if told else found.told)

    def known_to_all(self, warps: np.ndarray) -> Order:
        """What every one of these warps knows."""
        return Order(self.unsafe[warps].min(axis=0), NOBODY)

    def learn(self, warps: np.ndarray, order: Order) -> None:
        """All lanes of these warps come after what `order` says."""
        self.unsafe[warps] = np.maximum(self.unsafe[warps], order.row)
        if order.told:
            for w in warps.tolist():
                _merge(self.told.setdefault(w, {}), order.told)

    def learn_alone(self, thread: int, order: Order) -> None:
        """One lane comes after what `order` says."""
        found = self.alone.get(thread)
        if found is None:
            self.alone[thread] = Order(order.row.copy(), dict(order.told))
        else:
            told = dict(found.told)
            _merge(told, order.told)
            self.alone[thread] = Order(np.maximum(found.row, order.row), told)

    def raise_column(self, warps: np.ndarray, threads: list[int], column: int, seg: int) -> None:
        """Whole warps, and single threads, learn that segments of a column below `seg` are over."""
        if len(warps):
            self.unsafe[warps, column] = np.maximum(self.unsafe[warps, column], seg)
        for thread in threads:
            row = np.ones(self.unsafe.shape[1], dtype=np.int32)
            row[column] = seg
            self.learn_alone(thread, Order(row, NOBODY))

    def release(self, warps: np.ndarray, threads: list[int]) -> Order:
        """What whole warps and single threads have done and know: given to whoever waits for them."""
        row = np.ones(self.unsafe.shape[1], dtype=np.int32)
        told: dict[int, int] = {}
        if len(warps):
            ends = self.unsafe[warps]
            ends[np.arange(len(warps)), warps] = self.seg[warps] + 1
            np.maximum(row, ends.max(axis=0), out=row)
            for w in warps.tolist():
                _merge(told, self.told.get(w, NOBODY))
            if self.alone:
                among = set(warps.tolist())
                for thread, order in self.alone.items():
                    if thread >> 5 in among:
                        np.maximum(row, order.row, out=row)
                        _merge(told, order.told)
        for thread in threads:
            order = self.known(thread)
            np.maximum(row, order.row, out=row)
            _merge(told, order.told)
            told[thread] = int(self.seg[thread >> 5])
        ended = np.unique(np.concatenate([warps, np.array(threads, dtype=np.intp) >> 5]).astype(np.intp))
        self.seg[ended] += 1
        return Order(row, told)

    def fence(self, warps: np.ndarray, threads: list[int]) -> None:
        """fence.proxy.async: the async proxy sees what these wrote so far."""
        if len(warps):
            self.unsafe[warps, self.columns.fences + warps] = self.seg[warps] + 1
        for thread in threads:
            self.fenced[thread] = int(self.seg[thread >> 5])
        ended = np.unique(np.concatenate([warps, np.array(threads, dtype=np.intp) >> 5]).astype(np.intp))
        self.seg[ended] += 1

    # -------------------------------------------------------------- exceptions to what a warp knows

    def excuse(
        self,
        bad: np.ndarray,
        earlier: np.ndarray,
        seg: np.ndarray,
        t: np.ndarray,
        several: np.ndarray | None = None,
    ) -> np.ndarray:
        """`bad` without the pairs that are in order because of single threads.

        Such a thread knows more than its warp, or told others on its own. earlier, seg: thread and segment of
        the earlier access (several: other lanes did it too); t: thread of the later one.
        """
        if not self.alone and not self.told:
            return bad
        bad = bad.copy()
        for thread in set(t[bad].tolist()):
            mine = bad & (t == thread)
            also = None if several is None else several[mine]
            bad[mine] = ~self.in_order(self.known(thread), earlier[mine], seg[mine], also)
        return bad

    def in_order(
        self, order: Order, earlier: np.ndarray, seg: np.ndarray, several: np.ndarray | None = None
    ) -> np.ndarray:
        """Which accesses (thread, segment; by other lanes of the warp too) are over for who knows `order`."""
        over = seg < order.row[earlier >> 5]
        for thread, last in order.told.items():
            one = (earlier == thread) & (seg <= last)
            over |= one if several is None else one & ~several
        return over


def _merge(into: dict[int, int], told: Mapping[int, int]) -> None:
    for thread, last in told.items():
        if into.get(thread, 0) < last:
            into[thread] = last
