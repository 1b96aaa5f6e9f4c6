"""Recording a block in the emulator: what every statement of the thread program left in registers and memory,
all threads of its role together.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.backends.recording import Extents, Log, Step, Write
from tilebench.ir.dtype import decode
from tilebench.ir.thread import Memory, SyncWarp, Turn
from tilebench.ir.tile import Bind, Break, Continue, Evaluate, For, If, Seq, Stmt, While

if TYPE_CHECKING:
    from tilebench.backends.emulator.machine import Block
    from tilebench.backends.emulator.memory import Place
    from tilebench.backends.emulator.role import Role

_NO_STEP = (Seq, For, While, If, Break, Continue, Bind, Evaluate, SyncWarp, Turn)


def is_step(s: Stmt) -> bool:
    """Whether an execution of the statement is a step: all but control flow and address arithmetic."""
    return not isinstance(s, _NO_STEP)


def register_written(s: Stmt) -> Memory | None:
    """The register array that a statement writes, None for none."""
    for name in ("buffer", "destination", "d"):
        memory = getattr(s, name, None)
        if isinstance(memory, Memory):
            return memory if memory.space == "register" else None
    return None


@dataclass(frozen=True)
class Registers:
    """A register array of the threads of one role."""

    memory: Memory
    first_thread: int
    threads: int


class ThreadRecorder:
    """Notes steps into `log`. shapes: of the global tensors that are row-major, by their memory."""

    def __init__(self, log: Log, shapes: dict[Memory, tuple[int, ...]]) -> None:
        self.log, self.shapes = log, shapes
        self.held: dict[Registers, np.ndarray] = {}
        self.places: dict[Memory, tuple[Place, list[np.ndarray]]] = {}

    def touched(self, place: Place, index: np.ndarray) -> None:
        """Elements of shared or global memory are written."""
        self.places.setdefault(place.memory, (place, []))[1].append(np.asarray(index).reshape(-1))

    def landed(self, place: Place, chunks: np.ndarray) -> None:
        """16-byte chunks of shared memory are written."""
        size = place.memory.dtype.storage_dtype.itemsize
        each = 16 // size
        first = chunks.astype(np.int64) * each - place.start // size
        self.touched(place, first[:, None] + np.arange(each))

    def stored(self, block: Block, place: Place, part: np.ndarray) -> None:
        """A box of a tensor, as a view of its memory, is written."""
        memory = block.machine.arrays[place.slot]
        start = (part.ctypes.data - memory.ctypes.data) // memory.itemsize - block.machine.origins[place.slot]
        index = np.full(part.shape, start, np.int64)
        for n, stride in zip(np.indices(part.shape, sparse=True), part.strides, strict=True):
            index += n * (stride // memory.itemsize)
        self.touched(place, index)

    def step(self, rs: Role, stmt: Stmt, registers: np.ndarray | None, at: tuple[Any, ...]) -> None:
        """A statement has run. registers: the array that it writes, [count, threads]."""
        writes: list[Write] = []
        memory = register_written(stmt)
        if registers is not None and memory is not None:
            key = Registers(memory, int(rs.tid[0]), rs.threads)
            made = self._registers(key, registers)
            if made is not None:
                writes.append(made)
        for place, parts in self.places.values():
            index = np.unique(np.concatenate(parts))
            if index.size:
                writes.append(self._memory(rs, place, index))
        self.places.clear()
        self.log.add(Step(stmt, tuple(int(np.asarray(x).reshape(-1)[0]) for x in at), tuple(writes)))

    def _registers(self, key: Registers, now: np.ndarray) -> Write | None:
        old = self.held.get(key)
        if old is None:  # fresh registers hold anything: what is not NaN was written
            changed = ~np.isnan(now) if np.issubdtype(now.dtype, np.floating) else np.ones(now.shape, bool)
        else:
            bits = [np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, -1) for x in (now, old)]
            changed = (bits[0] != bits[1]).any(axis=-1)
        self.held[key] = now.copy()
        rows = np.flatnonzero(changed.any(axis=1))
        if not rows.size:
            return None
        low, high = int(rows[0]), int(rows[-1]) + 1
        mask = changed[low:high]
        box: Extents = ((low, 0), (high - low, now.shape[1]))
        return Write(key, box, now[low:high].copy(), None if mask.all() else mask.copy())

    def _memory(self, rs: Role, place: Place, index: np.ndarray) -> Write:
        memory = place.memory
        storage = memory.dtype.storage_dtype
        if place.shared:
            start = place.start // storage.itemsize
            data, shape = rs.block.view(storage)[start : start + place.count], (place.count,)
        else:
            machine = rs.block.machine
            origin = machine.origins[place.slot]
            shape = self.shapes.get(memory, (machine.spans[place.slot] - origin,))
            data = machine.arrays[place.slot][origin:]
        index = index[(index >= 0) & (index < data.size)]
        coordinates = np.unravel_index(index, shape)
        low = tuple(int(c.min()) for c in coordinates)
        size = tuple(int(c.max()) + 1 - n for c, n in zip(coordinates, low, strict=True))
        mask = np.zeros(size, bool)
        mask[tuple(c - n for c, n in zip(coordinates, low, strict=True))] = True
        whole = data[: int(np.prod(shape, dtype=np.int64))].reshape(shape)
        part = whole[tuple(slice(n, n + s) for n, s in zip(low, size, strict=True))]
        key: Hashable = memory
        return Write(
            key, (low, size), np.array(decode(part.copy(), memory.dtype)), None if mask.all() else mask
        )
