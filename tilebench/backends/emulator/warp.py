"""Warp-level exchange: shuffles, votes. Values are [loops..., threads]; a warp is 32 consecutive threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.backends.emulator.registers import extent, spread

if TYPE_CHECKING:
    from tilebench.backends.emulator.role import Role
    from tilebench.errors import Loc

_LANES = np.arange(32)


def shuffle(rs: Role, name: str, value: Any, operand: Any, mask: Any, at: Loc | None) -> np.ndarray:
    """shfl_xor, shfl_up, shfl_down or shfl: the value of another lane of the warp."""
    shape = extent(rs.threads, value, operand)
    lanes = spread(value, shape).reshape(*shape[:-1], -1, 32)
    other = operand if np.ndim(operand) == 0 else spread(operand, shape).reshape(lanes.shape)
    if name == "shfl_xor":
        source = _LANES ^ other
    elif name == "shfl_up":
        source = np.where(_LANES - other < 0, _LANES, _LANES - other)
    elif name == "shfl_down":
        source = np.where(_LANES + other > 31, _LANES, _LANES + other)
    else:
        source = np.asarray(other) & 31
    if np.ndim(source) == 0:
        source = np.full(32, source)
    source = source & 31
    mask = rs.merge(mask)
    if mask is not None:
        _check_lanes(
            rs,
            spread(mask, shape).reshape(lanes.shape),
            spread(source, lanes.shape),
            name,
            at,
        )
    taken = (
        lanes[..., source]
        if source.ndim == 1
        else np.take_along_axis(lanes, spread(source, lanes.shape), axis=-1)
    )
    return taken.reshape(shape)


def _check_lanes(rs: Role, active: np.ndarray, source: np.ndarray, name: str, at: Loc | None) -> None:
    bad = active & ~np.take_along_axis(active, source, axis=-1)
    if bad.any():
        thread = int(rs.tid[int(np.flatnonzero(bad.reshape(-1, rs.threads).any(axis=0))[0])])
        rs.block.diverged(f"{name} in thread {thread} reads a lane that does not run it", at)


def vote(rs: Role, name: str, predicate: Any, mask: Any) -> np.ndarray:
    """ballot, any_sync, all_sync over the lanes that run the call; activemask has no predicate."""
    mask = rs.merge(mask)
    shape = extent(rs.threads, predicate, mask)
    p = spread(np.asarray(predicate, dtype=bool), shape)
    on = np.ones(shape, dtype=bool) if mask is None else spread(mask, shape)
    p, on = (x.reshape(*shape[:-1], -1, 32) for x in (p, on))
    if name in ("ballot", "activemask"):
        bits = ((p & on).astype(np.uint64) << _LANES.astype(np.uint64)).sum(axis=-1).astype(np.uint32)
        return np.repeat(bits, 32, axis=-1)
    result = (p & on).any(axis=-1) if name == "any_sync" else (p | ~on).all(axis=-1)
    return np.repeat(result, 32, axis=-1)
