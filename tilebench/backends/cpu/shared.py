"""The packed tiles of one launch: their tables, and memory that goes from launch to launch."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from tilebench.backends.cpu.launch import aligned
from tilebench.backends.cpu.packs import SHARED_BYTES, Pack, table
from tilebench.ir.expr import Var
from tilebench.ir.simplify import Interval

KEPT_BYTES = 64 * 2**20
"""Most memory that stays for the next launch: fresh pages cost more than the packing."""


class Spare:
    """The memory that stays, taken by one launch at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: np.ndarray | None = None

    def take(self, size: int) -> np.ndarray:
        """At least `size` bytes, not cleared."""
        with self._lock:
            kept, self._kept = self._kept, None
        return kept if kept is not None and len(kept) >= size else aligned(size)

    def give(self, memory: np.ndarray) -> None:
        """Back from a launch."""
        if len(memory) > KEPT_BYTES:
            return
        with self._lock:
            if self._kept is None or len(self._kept) < len(memory):
                self._kept = memory


@cache
def spare() -> Spare:
    """The process's one."""
    return Spare()


@dataclass(frozen=True)
class Plan:
    """What the packs of a launch need. slots: their i64 of the context, addresses counted from the start of
    states and memory; at: where such a pair of addresses stands; states: tiles in all; bytes: of their
    memory.
    """

    slots: tuple[int, ...]
    at: tuple[int, ...]
    states: int
    bytes: int


def plan(packs: Sequence[Pack], ranges: Mapping[Var, Interval], blocks: int) -> Plan:
    """ranges: of block variables, symbols and integer arguments; blocks: of the grid."""
    slots: list[int] = []
    at: list[int] = []
    states = size = 0
    for pack in packs:
        found = table(pack, ranges, blocks)
        if found is None or size + found.count * pack.bytes > SHARED_BYTES:
            slots += [0] * (2 + 2 * len(pack.keys))
            continue
        at.append(len(slots))
        slots += [4 * states, size]
        for low, factor in zip(found.lows, found.factors, strict=True):
            slots += [low, factor]
        states += found.count
        size += found.count * pack.bytes
    return Plan(tuple(slots), tuple(at), states, size)


class SharedTiles:
    """The memory of a plan for one launch; `slots` is what the context says of it."""

    def __init__(self, made: Plan) -> None:
        self.slots = list(made.slots)
        self._states = np.zeros(made.states, np.int32)
        self._memory = spare().take(made.bytes) if made.bytes else None
        if self._memory is not None:
            states, memory = self._states.ctypes.data, self._memory.ctypes.data
            for number in made.at:
                self.slots[number] += states
                self.slots[number + 1] += memory

    def release(self) -> None:
        """Give the memory back after the launch."""
        if self._memory is not None:
            spare().give(self._memory)
            self._memory = None
