"""Who takes part in a statement that single threads may run: whole warps, single lanes, their operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tilebench.backends.emulator.role import Role

NO_WARPS = np.zeros(0, dtype=np.intp)


def groups(rs: Role, mask: Any, *values: Any) -> list[tuple[tuple[int, ...], np.ndarray | None]]:
    """The active threads by equal integer operands: [(operands, threads of them or None for all)]."""
    active = rs.active(mask)
    if active is not None and not active.any():
        return []
    if all(np.ndim(v) == 0 for v in values):
        return [(tuple(int(v) for v in values), active)]
    rows = np.stack([np.broadcast_to(np.asarray(v, dtype=np.int64), (rs.threads,)) for v in values])
    on = rs.real if active is None else active
    chosen = rows[:, on]
    first = chosen[:, :1]
    if (chosen == first).all():
        return [(tuple(int(v) for v in first[:, 0]), active)]
    return [
        (tuple(int(v) for v in operands), on & (rows == operands[:, None]).all(axis=0))
        for operands in np.unique(chosen, axis=1).T
    ]


def members(rs: Role, active: np.ndarray | None) -> tuple[np.ndarray, list[int]]:
    """The warps of which every lane is active, and the active threads of the others (both in the block)."""
    if active is None:
        return rs.warps, []
    lanes = active.reshape(-1, 32)
    whole = (lanes == rs.real.reshape(-1, 32)).all(axis=1) & lanes.any(axis=1)
    single = active & ~np.repeat(whole, 32)
    return rs.warps[whole], rs.tid[single].tolist()


def count(rs: Role, active: np.ndarray | None) -> int:
    """How many threads are active."""
    return rs.real_threads if active is None else int(active.sum())


def first(rs: Role, active: np.ndarray | None) -> int:
    """The first active thread, its number in the block."""
    return int(rs.tid[0 if active is None else int(np.flatnonzero(active)[0])])
