"""Bulk tensor copies: boxes of a tensor to and from (swizzled) shared memory, beside the threads.

A load writes its box at once, but to everyone it is under way until the phase of the mbarrier that it
reports to has completed and has been waited for (`order.py`, a column for each mbarrier). A store reads its
box at once and holds it until its thread has waited for its group. The swizzle exchanges 16-byte chunks
within 128 bytes by bits of the absolute address: chunk ^= (chunk / 8) % (span / 16), chunks counted from the
start of shared memory.
Sources: PTX ISA, "cp.async.bulk.tensor", "Swizzling modes"; CUDA driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tilebench.backends.emulator.barriers import StopBlock
from tilebench.backends.emulator.findings import line
from tilebench.backends.emulator.lanes import NO_WARPS, groups
from tilebench.errors import LaunchError
from tilebench.ir.dtype import decode, encode
from tilebench.ir.simplify import bounds

if TYPE_CHECKING:
    from tilebench.backends.emulator.machine import Block, Machine
    from tilebench.backends.emulator.mbarriers import MBarrierSite
    from tilebench.backends.emulator.memory import Site
    from tilebench.backends.emulator.race import Granules
    from tilebench.backends.emulator.role import Role
    from tilebench.errors import Loc
    from tilebench.ir.hopper import TensorMap

CHUNK = np.dtype(np.complex128)
"""16 bytes that are moved as one (never calculated with)."""


@dataclass(frozen=True)
class MapView:
    """A tensor map of one launch. array: outermost dimension first; strides in elements, innermost first."""

    array: np.ndarray
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    origin: int


def map_view(machine: Machine, tensor: TensorMap) -> MapView:
    """The array behind a tensor map. Raises LaunchError TB619 for a map that the hardware does not have."""
    found = machine.maps.get(tensor)
    if found is not None:
        return found
    slot = machine.slots[tensor.memory]
    flat, origin = machine.arrays[slot], machine.origins[slot]
    sizes = tuple(_number(machine, e) for e in tensor.sizes)
    strides = (1, *(_number(machine, e) for e in tensor.strides))
    _check_map(tensor, sizes, strides, flat, origin)
    array = np.lib.stride_tricks.as_strided(
        flat[origin:], sizes[::-1], tuple(s * flat.itemsize for s in reversed(strides)),
        writeable=flat.flags.writeable,
    )  # fmt: skip
    view = machine.maps[tensor] = MapView(array, sizes, strides, origin)
    return view


def _number(machine: Machine, e: Any) -> int:
    known = bounds(e, {v: (int(x), int(x)) for v, x in machine.values.items()})
    low, high = known or (0, 1)
    assert low == high, "sizes of a tensor map are expressions of the symbols"
    return low


def _check_map(
    tensor: TensorMap, sizes: tuple[int, ...], strides: tuple[int, ...], flat: np.ndarray, origin: int
) -> None:
    size = tensor.memory.dtype.bytes
    inner = tensor.box[0] * size
    steps = [s for s, n in zip(strides[1:], sizes[1:], strict=False) if n > 1]  # others: the host rounds up
    why = ""
    if not 1 <= len(sizes) <= 5 or len(strides) != len(sizes) or len(tensor.box) != len(sizes):
        why = f"it has {len(sizes)} sizes, {len(strides) - 1} strides and a box of {len(tensor.box)}"
    elif any(n < 1 for n in sizes):
        why = f"an extent is {min(sizes)}"
    elif any(not 1 <= n <= 256 for n in tensor.box):
        why = f"its box is {tensor.box}, and every extent of a box is from 1 to 256"
    elif inner % 16:
        why = f"the innermost extent of its box has {inner} bytes, no multiple of 16"
    elif tensor.swizzle not in (0, 32, 64, 128):
        why = f"its swizzle spans {tensor.swizzle} bytes, not 32, 64 or 128"
    elif tensor.swizzle and inner > tensor.swizzle:
        why = f"the innermost extent of its box has {inner} bytes, and its swizzle spans {tensor.swizzle}"
    elif (bad := next((s for s in steps if s * size % 16 or s <= 0), None)) is not None:
        why = f"a stride has {bad * size} bytes, no positive multiple of 16"
    elif sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) >= len(flat) - origin:
        why = f"its extents {sizes} and strides {strides} reach beyond the tensor"
    if why:
        raise LaunchError(
            "TB619", f"{tensor.name} is no tensor map that the GPU has: {why}",
            fix="copy this tensor with cp.async, or give it strides that are multiples of 16 bytes",
        )  # fmt: skip


@lru_cache(maxsize=512)
def chunks_of(start: int, count: int, swizzle: int) -> np.ndarray:
    """Where the 16-byte chunks of a dense box from byte `start` on lie, in chunks of shared memory."""
    chunk = start // 16 + np.arange(count, dtype=np.intp)
    if swizzle:
        chunk = chunk ^ ((chunk >> 3) & (swizzle // 16 - 1))
    chunk.flags.writeable = False
    return chunk


class BulkSite:
    """One bulk copy statement. inside: its access in shared memory; outside: in the tensor."""

    def __init__(
        self, tensor: TensorMap, inside: Site, outside: Site, barrier: MBarrierSite | None = None
    ) -> None:
        self.tensor, self.inside, self.outside, self.barrier = tensor, inside, outside, barrier
        self.at = inside.at
        self.box = tensor.box
        self.bytes = tensor.bytes

    # -------------------------------------------------------------- statements

    def load(self, rs: Role, index: Any, coordinates: tuple[Any, ...], barrier_index: Any, mask: Any) -> None:
        """One copy to shared memory for each active thread."""
        block, barrier = rs.block, self.barrier
        assert barrier is not None
        view = map_view(block.machine, self.tensor)
        for operands, active in groups(rs, mask, index, barrier_index, *coordinates):
            at, stage, *place = operands
            for thread in rs.tid[rs.real if active is None else active].tolist():
                b = barrier.find(rs, stage, active, copy=True)
                start = self._start(block, at)
                box, where, inside = self._clip(view, place)
                data = np.zeros(self.box[::-1], dtype=view.array.dtype)
                if where is not None:
                    data[inside] = view.array[where]
                chunks = chunks_of(start, self.bytes // 16, self.tensor.swizzle)
                block.view(CHUNK)[chunks] = data.reshape(-1).view(CHUNK)
                if block.machine.recorder is not None:
                    block.machine.recorder.landed(self.inside.place, chunks)
                if block.machine.checks:
                    self._observe_load(block, thread, start, b.column, b.phase + 1, view, box)
                b.missing -= self.bytes
                barrier.settle(block, b)

    def add(self, rs: Role, index: Any, coordinates: tuple[Any, ...], mask: Any) -> None:
        """One reduction for each active thread: the elements are added to the tensor's, atomically."""
        self.store(rs, index, coordinates, mask, atomic=True)

    def store(
        self, rs: Role, index: Any, coordinates: tuple[Any, ...], mask: Any, *, atomic: bool = False
    ) -> None:
        """One copy from shared memory for each active thread, in its open group."""
        block = rs.block
        view = map_view(block.machine, self.tensor)
        for operands, active in groups(rs, mask, index, *coordinates):
            at, *place = operands
            for thread in rs.tid[rs.real if active is None else active].tolist():
                start = self._start(block, at)
                _, where, inside = self._clip(view, place)
                found = block.view(CHUNK)[chunks_of(start, self.bytes // 16, self.tensor.swizzle)]
                data = found.view(view.array.dtype).reshape(self.box[::-1])
                number = rs.bulk.issue(thread, self.at)
                if block.machine.checks:
                    self._observe_store(block, thread, start, number, view, place, atomic)
                if where is not None:
                    if atomic:
                        kind = self.tensor.memory.dtype
                        view.array[where] = encode(
                            decode(view.array[where], kind) + decode(data[inside], kind), kind
                        )
                    else:
                        view.array[where] = data[inside]
                    if block.machine.recorder is not None:
                        block.machine.recorder.stored(block, self.outside.place, view.array[where])

    # -------------------------------------------------------------- where

    def _start(self, block: Block, index: int) -> int:
        """The byte at which the box starts in shared memory."""
        place, size = self.inside.place, self.inside.itemsize
        start = place.start + index * size
        period = max(128, 8 * self.tensor.swizzle)
        end = index + self.bytes // size - 1
        if (
            self.tensor.swizzle and self.bytes % 128
        ):  # the swizzle spreads a part of a 128-byte line over all of it
            last = int(chunks_of(start, self.bytes // 16, self.tensor.swizzle).max()) + 1
            end = (16 * last - place.start) // size - 1
        if index < 0 or end >= place.count:
            self._stop(
                block, "out-of-bounds", "TB273",
                f"a bulk copy uses {place.name}[{index}..{end}], out of 0..{place.count - 1}, "
                f"at {line(self.at)}",
                "keep the stage within the ring",
            )  # fmt: skip
        if start % period:
            why = f" (eight rows of its {self.tensor.swizzle}-byte swizzle)" if period > 128 else ""
            self._stop(
                block, "misaligned", "TB279",
                f"a bulk copy at {place.name}[{index}] starts at byte {start} of shared memory, not at a "
                f"multiple of {period}{why}, at {line(self.at)}",
                f"place the tile at a multiple of {period} bytes",
            )  # fmt: skip
        return start

    def _clip(
        self, view: MapView, place: list[int]
    ) -> tuple[list[tuple[int, int]], tuple[slice, ...] | None, tuple[slice, ...]]:
        """The part of the box in the tensor: intervals (innermost first), slices of tensor and box."""
        box = [(max(0, c), min(n, c + b)) for c, b, n in zip(place, self.box, view.sizes, strict=True)]
        if any(low >= high for low, high in box):
            return [], None, ()
        where = tuple(slice(low, high) for low, high in reversed(box))
        inside = tuple(
            slice(low - c, high - c) for (low, high), c in zip(reversed(box), reversed(place), strict=True)
        )
        return box, where, inside

    # -------------------------------------------------------------- checks

    def granules(self, start: int) -> Granules:
        """The shadow's granules of a box."""
        place = self.inside.place
        low = (start - place.region_start) // place.granule + place.shadow
        if not self.tensor.swizzle or self.bytes % 128 == 0:
            return slice(low, low + self.bytes // place.granule)
        each = 16 // place.granule
        chunk = chunks_of(start, self.bytes // 16, self.tensor.swizzle) - place.region_start // 16
        return (chunk[:, None] * each + np.arange(each)).reshape(-1) + place.shadow

    def _observe_load(
        self,
        block: Block,
        thread: int,
        start: int,
        column: int,
        seg: int,
        view: MapView,
        box: list[tuple[int, int]],
    ) -> None:
        self._tally(block, box)
        order = block.clock.known(thread)
        stale = block.shadow.async_write(
            self.granules(start), order, thread, column, seg, self.inside.number, 32 * column
        )
        if stale is not None:
            block.unfenced(self.inside.number, stale)
        shadow = block.machine.global_shadows[self.outside.place.slot]
        if shadow is not None and box:
            e = _elements(view, box)
            shadow.read(e, np.full(len(e), thread), self.outside.number, block.number, block.clock)

    def _observe_store(
        self,
        block: Block,
        thread: int,
        start: int,
        number: int,
        view: MapView,
        place: list[int],
        atomic: bool,
    ) -> None:
        box, _, _ = self._clip(view, place)
        self._tally(block, box)
        clock = block.clock
        column = clock.columns.stores[thread >> 5]
        stale = block.shadow.async_read(
            self.granules(start), clock.known(thread), thread, column, number, self.inside.number, 32 * column
        )
        if stale is not None:
            block.unfenced(self.inside.number, stale)
        shadow = block.machine.global_shadows[self.outside.place.slot]
        if shadow is not None and box:
            e = _elements(view, box)
            shadow.write(e, np.full(len(e), thread), self.outside.number, block.number, clock, atomic=atomic)

    def _tally(self, block: Block, box: list[tuple[int, int]]) -> None:
        size = self.outside.itemsize
        moved = size * int(np.prod([high - low for low, high in box])) if box else 0
        self.inside.tally_of(block).copied(self.bytes)
        self.outside.tally_of(block).copied(moved)

    def _stop(self, block: Block, kind: str, code: str, text: str, hint: str) -> NoReturn:
        key = (kind, self.inside.place.name, self.at)
        if not block.machine.findings.known(*key):
            block.machine.findings.add(
                key, kind, "error", f"{text} (block {block.name})", (self.at,), hint, code
            )
        raise StopBlock(text)


def _elements(view: MapView, box: list[tuple[int, int]]) -> np.ndarray:
    """Flat numbers of the elements of a box (intervals, innermost first)."""
    total = np.full(1, view.origin, dtype=np.intp)
    for (low, high), stride in zip(box, view.strides, strict=True):
        total = (np.arange(low, high, dtype=np.intp)[:, None] * stride + total).reshape(-1)
    return total


# ------------------------------------------------------------------ groups of stores


@dataclass
class _Group:
    """Stores of one group: their numbers in the warp, none once their sources have been read."""

    numbers: list[int]
    places: list[Loc | None]


class BulkGroups:
    """The bulk groups of a role's threads."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.open: dict[int, _Group] = {}
        self.closed: dict[int, list[_Group]] = {}
        self.issued: dict[int, int] = {}

    def issue(self, thread: int, at: Loc | None) -> int:
        """A store joins the thread's open group; its number in the warp."""
        number = self.issued[thread >> 5] = self.issued.get(thread >> 5, 0) + 1
        group = self.open.setdefault(thread, _Group([], []))
        group.numbers.append(number)
        group.places.append(at)
        return number

    def commit(self, mask: Any) -> None:
        """cp.async.bulk.commit_group."""
        rs = self.role
        active = rs.active(mask)
        for thread in rs.tid[rs.real if active is None else active].tolist():
            self.closed.setdefault(thread, []).append(self.open.pop(thread, _Group([], [])))

    def wait(self, pending: int, reading: bool, mask: Any) -> None:
        """cp.async.bulk.wait_group[.read]."""
        rs = self.role
        active = rs.active(mask)
        for thread in rs.tid[rs.real if active is None else active].tolist():
            mine = self.closed.get(thread)
            if not mine:
                continue
            done = mine[: max(0, len(mine) - pending)]
            for group in done:
                group.numbers = []
            if not reading:
                self.closed[thread] = mine[len(done) :]
            warp = thread >> 5
            column = rs.block.clock.columns.stores.get(warp)
            if column is not None:
                rs.block.clock.raise_column(NO_WARPS, [thread], column, self._over(warp))

    def _over(self, warp: int) -> int:
        """The first store of a warp whose source may still be read."""
        held = [
            n
            for thread, groups_ in self.closed.items()
            if thread >> 5 == warp
            for group in groups_
            for n in group.numbers
        ]
        held += [n for thread, group in self.open.items() if thread >> 5 == warp for n in group.numbers]
        return min(held, default=self.issued.get(warp, 0) + 1)

    def finish(self) -> None:
        """The role ends: shared memory must not be read any more."""
        closed = [group for groups_ in self.closed.values() for group in groups_]
        for group in [*closed, *self.open.values()]:
            if group.numbers:
                self.role.block.store_left(group.places[0])
