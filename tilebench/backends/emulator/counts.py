"""What accesses cost, from their real addresses: bank conflicts of shared memory, sectors of global memory.

Shared memory has 32 banks of 4 bytes. A warp's access of up to 4 bytes a lane is one phase of 32 lanes; of 8
bytes two phases of 16; of 16 bytes four phases of 8; ldmatrix and stmatrix take one phase per 8x8 matrix (8
rows of 16 bytes). A phase takes as many cycles ("ways") as the most loaded bank has distinct words; lanes on
the same word share it. Global memory is moved in sectors of 32 bytes. Bulk copies and warpgroup products are
counted with the bytes that they move. Sources: CUDA C++ Programming Guide, "Shared Memory" of compute
capability 5.x and later; NVIDIA forum's and Nsight Compute's description of wavefronts for wide accesses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tilebench.errors import Loc

AccessKind = Literal[
    "load",
    "store",
    "copy-in",
    "copy-out",
    "cp.async",
    "ldmatrix",
    "stmatrix",
    "atomic",
    "bulk-load",
    "bulk-store",
    "wgmma",
]
_CACHE_ENTRIES = 64


@dataclass(frozen=True)
class AccessCount:
    """One access statement. requests: warp-level instructions; ways: cycles a phase (1 is free of conflicts).

    sectors: 32-byte sectors moved and efficiency = useful bytes / moved bytes, for global memory.
    """

    memory: str
    space: str
    kind: AccessKind
    width_bytes: int
    at: Loc | None
    requests: int
    ways_worst: int = 1
    ways_mean: float = 1.0
    sectors: int = 0
    efficiency: float = 1.0


@dataclass(frozen=True)
class AccessCounts:
    """All access statements, and instructions by kind.

    Warp-level (an mma is one for each warp) but for those of a warpgroup (wgmma: one for each k step) and of
    a thread (bulk copies, mbarrier arrivals).
    """

    accesses: tuple[AccessCount, ...] = ()
    instructions: dict[str, int] = field(default_factory=dict[str, int])

    def worst_ways(self, memory: str | None = None) -> int:
        """The worst bank conflict of a shared buffer (None: of all)."""
        ways = [a.ways_worst for a in self.accesses if a.space == "shared" and memory in (None, a.memory)]
        return max(ways, default=1)


def phases(width: int) -> int:
    """Lanes that are served together for an access of `width` bytes a lane."""
    return 32 if width <= 4 else 16 if width == 8 else 8


def conflict_ways(addresses: np.ndarray, width: int, active: np.ndarray | None = None) -> np.ndarray:
    """Ways of each phase of shared accesses.

    Addresses: bytes, [..., lanes] with lanes a multiple of 32; 0 where none is active.
    """
    lanes = phases(width)
    words_each = max(1, width // 4)
    words = (addresses.reshape(-1, lanes) >> 2)[:, :, None] + np.arange(words_each)
    rows = words.reshape(len(words), lanes * words_each)
    if active is not None:
        on = np.repeat(active.reshape(-1, lanes), words_each, axis=1)
        rows = np.where(on, rows, -1)
    rows = np.sort(rows, axis=1)
    fresh = np.ones(rows.shape, dtype=bool)
    fresh[:, 1:] = rows[:, 1:] != rows[:, :-1]
    fresh &= rows >= 0
    bank = (rows & 31) + 32 * np.arange(len(rows))[:, None]
    return np.bincount(bank[fresh], minlength=32 * len(rows)).reshape(len(rows), 32).max(axis=1)


def sector_counts(addresses: np.ndarray, width: int, active: np.ndarray | None = None) -> np.ndarray:
    """Distinct 32-byte sectors of each warp's request. addresses: bytes, [..., 32 * warps]."""
    first = (addresses.reshape(-1, 32) >> 5)[:, :, None]
    last = ((addresses.reshape(-1, 32) + (width - 1)) >> 5)[:, :, None]
    rows = np.concatenate([first, last], axis=2).reshape(len(first), 64)
    if active is not None:
        rows = np.where(np.repeat(active.reshape(-1, 32), 2, axis=1), rows, -1)
    rows = np.sort(rows, axis=1)
    fresh = np.ones(rows.shape, dtype=bool)
    fresh[:, 1:] = rows[:, 1:] != rows[:, :-1]
    return (fresh & (rows >= 0)).sum(axis=1)


class Tally:
    """Running counts of one access statement.

    Patterns that repeat (modulo 128 bytes) are counted once and remembered.
    """

    __slots__ = (
        "active_lanes",
        "bytes_moved",
        "cache",
        "phase_count",
        "requests",
        "sectors",
        "ways_sum",
        "ways_worst",
    )

    def __init__(self) -> None:
        self.requests = self.sectors = self.phase_count = self.ways_sum = self.active_lanes = 0
        self.ways_worst = 1
        self.bytes_moved = 0  # by asynchronous copies
        self.cache: dict[bytes, tuple[int, int, int, int, int, int]] = {}

    def add(self, addresses: np.ndarray, width: int, active: np.ndarray | None, shared: bool) -> None:
        """Count one execution by all warps. addresses: bytes [..., threads]."""
        origin = int(addresses.flat[0]) & ~127
        key = (addresses - origin).tobytes() + (b"" if active is None else np.packbits(active).tobytes())
        found = self.cache.get(key)
        if found is None:
            found = _measure(addresses, width, active, shared)
            if len(self.cache) < _CACHE_ENTRIES:
                self.cache[key] = found
        requests, phase_count, ways_sum, ways_worst, sectors, lanes = found
        self.requests += requests
        self.phase_count += phase_count
        self.ways_sum += ways_sum
        self.ways_worst = max(self.ways_worst, ways_worst)
        self.sectors += sectors
        self.active_lanes += lanes

    def copied(self, count: int) -> None:
        """Count one asynchronous copy or read of `count` bytes."""
        self.requests += 1
        self.bytes_moved += count
        self.sectors += -(-count // 32)


def _measure(
    addresses: np.ndarray, width: int, active: np.ndarray | None, shared: bool
) -> tuple[int, int, int, int, int, int]:
    warps = addresses.size // 32
    requests = warps if active is None else int(active.reshape(-1, 32).any(axis=1).sum())
    lanes = addresses.size if active is None else int(active.sum())
    if shared:
        ways = conflict_ways(addresses, width, active)
        ways = ways[ways > 0]
        return requests, len(ways), int(ways.sum()), int(ways.max(initial=1)), 0, lanes
    return requests, 0, 0, 1, int(sector_counts(addresses, width, active).sum()), lanes
