"""Stamps in the emulator: its clock counts accesses, products, barriers and stamps, of all roles together.

Such times are simulated: they say what ran before what, not how long it took.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.ir.timers import clock_bits

if TYPE_CHECKING:
    from tilebench.backends.emulator.machine import Machine
    from tilebench.backends.emulator.role import Role


def _clock(machine: Machine) -> int:
    return sum(machine.executed) + machine.stamps


def _active(rs: Role, mask: Any) -> np.ndarray:
    active = rs.active(mask)
    return np.ones(rs.threads, dtype=bool) if active is None else active


def stamp(rs: Role, slot: int, at: np.ndarray, end: np.ndarray, tag: int, mask: Any) -> None:
    """A Timestamp: threads with room left write it, all of them count on. at, end: registers [1, threads]."""
    machine = rs.block.machine
    here = _active(rs, mask)
    writing = here & (at[0] < end[0])
    if writing.any():
        bits = clock_bits(len(machine.program.timers))
        record = np.uint32(tag << bits | _clock(machine) & ((1 << bits) - 1)).view(np.int32)
        machine.arrays[slot][machine.origins[slot] + at[0][writing]] = record
    at[0][here] += 1
    machine.stamps += 1


def read_counter(rs: Role, slot: int, index: Any, counter: str, mask: Any) -> None:
    """A ReadCounter; there is no timer of a GPU and no SM, so those are 0."""
    machine = rs.block.machine
    here = _active(rs, mask)
    words = np.broadcast_to(np.asarray(index), (rs.threads,))[here] + machine.origins[slot]
    value = _clock(machine) if counter == "clock" else 0
    machine.arrays[slot][words] = np.uint32(value & 0xFFFFFFFF).view(np.int32)
    machine.arrays[slot][words + 1] = value >> 32
