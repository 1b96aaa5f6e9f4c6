"""The packed tiles of one launch: their tables, and memory that goes from launch to launch."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from tilebench.backends.base import TensorArgument
from tilebench.backends.cpu.launch import aligned
from tilebench.backends.cpu.packs import SHARED_BYTES, Pack, table
from tilebench.ir.expr import Var
from tilebench.ir.simplify import Interval

if TYPE_CHECKING:
    from tilebench.ir.tile import Buffer

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


class SharedTiles:
    """Tables of all packs for one launch; `slots` is what the context says of them."""

    def __init__(
        self,
        packs: Sequence[Pack],
        ranges: Mapping[Var, Interval],
        grid: tuple[int, ...],
        apart: set[Buffer],
    ) -> None:
        """ranges: of block variables, symbols and integer arguments; apart: the tensors that no write of this
        launch can reach.
        """
        blocks = int(np.prod(grid, dtype=np.int64))
        self.slots: list[int] = []
        self._memory: np.ndarray | None = None
        left, size, counts = SHARED_BYTES, 0, 0
        tables = [table(p, ranges, blocks) if p.source in apart else None for p in packs]
        places: list[tuple[int, int] | None] = []
        for pack, found in zip(packs, tables, strict=True):
            if found is None or found.count * pack.bytes > left:
                places.append(None)
                continue
            places.append((counts, size))
            left -= found.count * pack.bytes
            size += found.count * pack.bytes
            counts += found.count
        self._states = np.zeros(counts, np.int32)
        if size:
            self._memory = spare().take(size)
        for pack, found, place in zip(packs, tables, places, strict=True):
            if found is None or place is None or self._memory is None:
                self.slots += [0] * (2 + 2 * len(pack.keys))
                continue
            self.slots += [self._states.ctypes.data + 4 * place[0], self._memory.ctypes.data + place[1]]
            for low, factor in zip(found.lows, found.factors, strict=True):
                self.slots += [low, factor]

    def release(self) -> None:
        """Give the memory back after the launch."""
        if self._memory is not None:
            spare().give(self._memory)
            self._memory = None


def apart(tensors: Mapping[Buffer, tuple[int, TensorArgument]], written: frozenset[Buffer]) -> set[Buffer]:
    """The tensors that share no memory with one that is written. tensors: address and argument of each."""
    spans = {b: _span(b, *found) for b, found in tensors.items()}
    changed = [spans[b] for b in written if b in spans]
    return {
        b
        for b, (low, high) in spans.items()
        if not any(low < stop and start < high for start, stop in changed)
    }


def _span(buffer: Buffer, pointer: int, tensor: TensorArgument) -> Interval:
    steps = [s * (n - 1) for s, n in zip(tensor.strides, tensor.shape, strict=True)]
    if 0 in tensor.shape:
        return pointer, pointer
    low, high = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
    return pointer + low * buffer.dtype.bytes, pointer + (high + 1) * buffer.dtype.bytes
