"""Loads, stores, vector copies and atomics on shared and global memory: values, bounds, shadow and counts.

Each access statement of a program is one `Site`, called with a `Role` (the threads that run it) and element
indices that broadcast to [loops..., threads]. `mask` (None: all) says which threads take part. Values are in
compute form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.backends.emulator.counts import AccessKind, Tally
from tilebench.backends.emulator.race import flat
from tilebench.backends.emulator.registers import extent, spread
from tilebench.ir.dtype import DType, decode, encode

if TYPE_CHECKING:
    from tilebench.backends.emulator.machine import Block
    from tilebench.backends.emulator.role import Role
    from tilebench.errors import Loc
    from tilebench.ir.thread import Memory


@dataclass(frozen=True)
class Place:
    """Where a Memory lives. slot: which global array (-1 for shared); start: first byte in shared memory.

    granule: bytes of shadow resolution; shadow: first granule of this memory's region, less the region's
    start.
    """

    memory: Memory
    slot: int
    start: int = 0
    count: int = 0
    granule: int = 0
    region_start: int = 0
    shadow: int = 0

    @property
    def shared(self) -> bool:
        """Shared memory, not global."""
        return self.slot < 0

    @property
    def name(self) -> str:
        """The user's name of the buffer."""
        return self.memory.origin.name if self.memory.origin is not None else self.memory.name


class Site:
    """One access statement: `lanes` consecutive elements of one memory."""

    __slots__ = ("at", "dtype", "itemsize", "kind", "lanes", "number", "place", "storage", "width")

    def __init__(self, number: int, place: Place, lanes: int, kind: AccessKind, at: Loc | None) -> None:
        self.number, self.place, self.lanes, self.at = number, place, lanes, at
        self.kind: AccessKind = kind
        self.dtype: DType = place.memory.dtype
        self.storage = self.dtype.storage_dtype
        self.itemsize = self.storage.itemsize
        self.width = lanes * self.itemsize

    # -------------------------------------------------------------- values

    def load(self, rs: Role, index: Any, mask: Any) -> np.ndarray:
        """One element a thread: [loops..., threads]."""
        shape = extent(rs.threads, index, mask)
        index, _ = self.check(rs, spread(index, shape), mask, write=False)
        memory = self._elements(rs)
        found = memory[index + self._origin(rs)] if memory.size else np.zeros(shape, self.storage)
        return decode(found, self.dtype)

    def store(self, rs: Role, index: Any, value: Any, mask: Any) -> None:
        """Store one element a thread."""
        shape = extent(rs.threads, index, value, mask)
        index, value = spread(index, shape), spread(value, shape)
        stored = encode(value, self.dtype)
        index, mask = self.check(rs, index, mask, write=True, values=stored)
        self._put(rs, index[..., None], stored[..., None], mask)

    def gather(self, rs: Role, index: Any, mask: Any) -> np.ndarray:
        """`lanes` consecutive elements a thread: [lanes, loops..., threads]; 0 where the mask is false."""
        raw = self.raw(rs, index, mask)
        return np.moveaxis(decode(raw, self.dtype), -1, 0)

    def raw(self, rs: Role, index: Any, mask: Any) -> np.ndarray:
        """`gather` in storage form: [loops..., threads, lanes]."""
        shape = extent(rs.threads, index, mask)
        index, mask = self.check(rs, spread(index, shape), mask, write=False)
        rows = self._rows(rs, index)
        memory = self._elements(rs)
        if memory.size < self.lanes:  # nothing can be read: every thread is masked or out of bounds
            return np.zeros((*shape, self.lanes), self.storage)
        if rows is not None:
            found = memory[: memory.size // self.lanes * self.lanes].reshape(-1, self.lanes)[rows]
        else:
            found = memory[(index + self._origin(rs))[..., None] + np.arange(self.lanes)]
        if mask is not None:
            found = np.where(spread(mask, found.shape[:-1])[..., None], found, np.zeros((), self.storage))
        return found

    def scatter(self, rs: Role, index: Any, values: np.ndarray, mask: Any) -> None:
        """Store values [lanes, loops..., threads] as `lanes` consecutive elements a thread."""
        shape = extent(rs.threads, index, values[0], mask)
        stored = np.moveaxis(spread(encode(values, self.dtype), (self.lanes, *shape)), 0, -1)
        index, mask = self.check(rs, spread(index, shape), mask, write=True, values=stored)
        self._put(rs, index[..., None] + np.arange(self.lanes), stored, mask)

    def put_raw(self, rs: Role, index: Any, stored: np.ndarray, mask: Any) -> None:
        """Write rows in storage form, [loops..., threads, lanes]."""
        index, mask = self.check(rs, spread(index, stored.shape[:-1]), mask, write=True, values=stored)
        self._put(rs, index[..., None] + np.arange(self.lanes), stored, mask)

    def atomic(self, rs: Role, op: str, index: Any, value: Any, mask: Any, want_old: bool) -> Any:
        """memory[index] op= value, thread after thread; the old values [threads] when wanted."""
        shape = extent(rs.threads, index, value, mask)
        index, mask = self.check(rs, spread(index, shape), mask, write=True, atomic=True)
        value = spread(np.asarray(value, dtype=self.dtype.compute_dtype), shape)
        return self._combine(rs, op, index, value, mask, want_old)

    def add_vector(self, rs: Role, index: Any, values: np.ndarray, mask: Any, want_old: bool) -> Any:
        """memory[index + l] += values[l] for `lanes` neighbours a thread; values and the old values (when
        wanted): [lanes, loops..., threads]."""
        shape = extent(rs.threads, index, values[0], mask)
        index, mask = self.check(rs, spread(index, shape), mask, write=True, atomic=True)
        operands = spread(np.asarray(values, dtype=self.dtype.compute_dtype), (self.lanes, *shape))
        old = [self._combine(rs, "add", index + k, operands[k], mask, want_old) for k in range(self.lanes)]
        return np.stack(old) if want_old else None

    def _combine(self, rs: Role, op: str, index: np.ndarray, value: Any, mask: Any, want_old: bool) -> Any:
        shape = index.shape
        where = index + self._origin(rs)
        on = np.ones(shape, dtype=bool) if mask is None else spread(mask, shape)
        memory = self._elements(rs)
        if rs.block.machine.recorder is not None:
            rs.block.machine.recorder.touched(self.place, index[on])
        order = slice(None, None, -1) if rs.block.machine.reverse_lanes else slice(None)
        places, operands = where[on][order], value[on][order]
        vector = {
            "add": np.add,
            "max": np.maximum,
            "min": np.minimum,
            "and": np.bitwise_and,
            "or": np.bitwise_or,
            "xor": np.bitwise_xor,
        }
        if not want_old and op in vector and self.dtype.compute_dtype == self.storage:
            vector[op].at(memory, places, operands)
            return None
        old = np.zeros(len(places), dtype=self.dtype.compute_dtype)
        for i, (p, x) in enumerate(zip(places.tolist(), operands, strict=True)):
            before = decode(memory[p : p + 1], self.dtype)
            old[i] = before[0]
            after = np.asarray(
                x if op == "exch" else vector[op](before[0], x), dtype=self.dtype.compute_dtype
            ).reshape(1)
            memory[p : p + 1] = encode(after, self.dtype)
        result = np.zeros(shape, dtype=self.dtype.compute_dtype)
        result[on] = old[order]
        return result

    def deferred_put(self, rs: Role, index: np.ndarray, stored: np.ndarray) -> None:
        """Write raw values [n, lanes] at flat indices [n] (a completed asynchronous copy)."""
        self._put(rs, index[..., None] + np.arange(self.lanes), stored, None)

    def _elements(self, rs: Role) -> np.ndarray:
        return rs.block.view(self.storage) if self.place.shared else rs.block.machine.arrays[self.place.slot]

    def _origin(self, rs: Role) -> int:
        return (
            self.place.start // self.itemsize
            if self.place.shared
            else rs.block.machine.origins[self.place.slot]
        )

    def _rows(self, rs: Role, index: np.ndarray) -> np.ndarray | None:
        """Indices divided by the vector length, when all are multiples of it."""
        if self.lanes == 1:
            return index + self._origin(rs)
        index = index + self._origin(rs)
        if self.lanes & (self.lanes - 1) == 0:
            if np.bitwise_or.reduce(index, axis=None) & (self.lanes - 1):
                return None
            return index >> (self.lanes.bit_length() - 1)
        return None if (index % self.lanes).any() else index // self.lanes

    def _put(self, rs: Role, index: np.ndarray, stored: np.ndarray, mask: Any) -> None:
        memory = self._elements(rs)
        index = index + self._origin(rs)
        if mask is not None:
            on = spread(mask, stored.shape[:-1])
            index, stored = index[on], stored[on]
        elif rs.block.machine.reverse_lanes:
            index, stored = index[::-1], stored[::-1]
        memory[index] = stored
        if rs.block.machine.recorder is not None:
            rs.block.machine.recorder.touched(self.place, index - self._origin(rs))

    # -------------------------------------------------------------- checks

    def check(
        self,
        rs: Role,
        index: np.ndarray,
        mask: Any,
        *,
        write: bool,
        values: np.ndarray | None = None,
        atomic: bool = False,
        pending: bool = False,
    ) -> tuple[np.ndarray, Any]:
        """Bounds, alignment, shadow, counts of one access.

        Gives safe indices and the mask without the threads that are out of bounds.
        """
        count = self.place.count if self.place.shared else rs.block.machine.spans[self.place.slot]
        low = 0 if self.place.shared else -rs.block.machine.origins[self.place.slot]
        mask = rs.merge(mask)
        if index.size == 0:
            return index, mask
        if mask is not None:
            mask = spread(mask, index.shape)
            if not mask.any():
                return np.zeros_like(index), mask
            index = np.where(mask, index, index[mask][0])
        if int(index.min()) < low or int(index.max()) + self.lanes > low + count:
            bad = (index < low) | (index + self.lanes > low + count)
            if mask is not None:
                bad &= mask
            rs.block.out_of_bounds(self, rs, index, bad, low, count)
            mask = ~bad if mask is None else mask & ~bad
            index = np.where(mask, index, max(low, 0))
            if not mask.any():
                return index, mask
        if rs.block.machine.checks:
            self._observe(rs, index, mask, write, values, atomic, pending)
        return index, mask

    def _observe(
        self,
        rs: Role,
        index: np.ndarray,
        mask: Any,
        write: bool,
        values: np.ndarray | None,
        atomic: bool,
        pending: bool,
    ) -> None:
        block, place = rs.block, self.place
        threads = spread(rs.tid, index.shape)
        addresses = index * self.itemsize + place.start
        if (
            self.width > self.itemsize
            and self.width & (self.width - 1) == 0
            and int(np.bitwise_or.reduce(addresses, axis=None)) & (self.width - 1)
        ):
            block.misaligned(self, rs, index, addresses, mask)
        self.tally(rs).add(addresses, self.width, mask, place.shared)
        if mask is not None:
            index, threads = index[mask], threads[mask]
            addresses = addresses[mask]
        same = _same_values(values, mask, index) if values is not None else None
        if place.shared:
            g = flat((addresses - place.region_start) // place.granule + place.shadow)
            t = threads.reshape(-1)
            each = self.width // place.granule
            if each > 1:
                g = (g[:, None] + np.arange(each)).reshape(-1)
                t = np.repeat(t, each)
            if atomic:
                block.shadow.write(g, t, self.number, atomic=True)
            elif write:
                block.shadow.write(g, t, self.number, pending=pending, same_values=same)
            else:
                block.shadow.read(g, t, self.number)
            return
        shadow = block.machine.global_shadows[place.slot]
        if shadow is None:
            return
        e = flat(index) + block.machine.origins[place.slot]
        t = threads.reshape(-1)
        if self.lanes > 1:
            e = (e[:, None] + np.arange(self.lanes)).reshape(-1)
            t = np.repeat(t, self.lanes)
        if write:
            shadow.write(e, t, self.number, block.number, block.clock, atomic=atomic, same_values=same)
        else:
            shadow.read(e, t, self.number, block.number, block.clock)

    def tally(self, rs: Role) -> Tally:
        """The running counts of this statement."""
        return self.tally_of(rs.block)

    def tally_of(self, block: Block) -> Tally:
        """The running counts of this statement."""
        tallies = block.machine.tallies
        found = tallies.get(self.number)
        if found is None:
            found = tallies[self.number] = Tally()
        return found


def _same_values(values: np.ndarray, mask: Any, index: np.ndarray) -> Callable[[], bool]:
    """Whether all threads that write one index in this statement write equal values."""

    def check() -> bool:
        chosen = values[mask] if mask is not None else values
        rows = np.ascontiguousarray(chosen).reshape(index.size, -1).view(np.uint8).reshape(index.size, -1)
        order = np.argsort(index.reshape(-1), kind="stable")
        keys, rows = index.reshape(-1)[order], rows[order]
        equal_keys = keys[1:] == keys[:-1]
        return bool((rows[1:] == rows[:-1]).all(axis=1)[equal_keys].all())

    return check


def place_shared(
    memories: tuple[Memory, ...], widths: Mapping[Memory, int]
) -> tuple[dict[Memory, Place], int]:
    """Places of shared memories, overlapping ones in one shadow region, and the number of granules.

    widths: the greatest common divisor of the access widths of each memory, in bytes.
    """
    from math import gcd

    spans = sorted(
        (
            (m.byte_offset, m.byte_offset + m.static_shape[0] * m.dtype.storage_dtype.itemsize, i)
            for i, m in enumerate(memories)
        )
    )
    places: dict[Memory, Place] = {}
    granules = 0
    i = 0
    while i < len(spans):
        start, stop, _ = spans[i]
        j = i + 1
        while j < len(spans) and spans[j][0] < stop:
            stop = max(stop, spans[j][1])
            j += 1
        members = [memories[spans[k][2]] for k in range(i, j)]
        granule = 16
        for m in members:
            granule = gcd(gcd(granule, widths.get(m, 16)), gcd(m.byte_offset - start, 16) or 16)
        for m in members:
            places[m] = Place(m, -1, m.byte_offset, m.static_shape[0], granule, start, granules)
        granules += -(-(stop - start) // granule)
        i = j
    return places, granules
