"""Intrinsics that look across threads: shuffles and votes within a warp of 32, barriers with a vote of the
block."""

from __future__ import annotations

from typing import Any

import numpy as np

WARP = 32


def call(name: str, args: list[Any], threads: int, axes: int, mask: np.ndarray | None) -> Any:
    """The value of a per-thread intrinsic. axes: number of axes of values; axis 0 counts the threads."""
    match name:
        case "shfl_xor" | "shfl_up" | "shfl_down" | "shfl":
            return _shuffle(name, args[0], args[1], threads, axes)
        case "ballot":
            return _ballot(args[0], threads, axes, mask)
        case "activemask":
            return _ballot(np.bool_(True), threads, axes, mask)
        case "any_sync":
            return _ballot(args[0], threads, axes, mask) != 0
        case "all_sync":
            return _ballot(np.logical_not(args[0]), threads, axes, mask) == 0
        case "syncthreads_and":
            return np.bool_(np.all(args[0]))
        case "syncthreads_or":
            return np.bool_(np.any(args[0]))
        case "syncthreads_count":
            return np.int32(np.broadcast_to(args[0], (threads, *np.shape(args[0])[1:])).sum())
        case _:
            raise KeyError(name)


def _lanes(threads: int, axes: int) -> np.ndarray:
    return np.arange(threads).reshape((threads,) + (1,) * (axes - 1))


def _shuffle(name: str, value: Any, argument: Any, threads: int, axes: int) -> Any:
    if np.ndim(value) == 0 or value.shape[0] == 1:
        return value  # the same in every lane
    thread = _lanes(threads, axes)
    lane, first = thread % WARP, thread - thread % WARP
    argument = np.asarray(argument).astype(np.int64)
    match name:
        case "shfl_xor":
            wanted = lane ^ argument
        case "shfl_up":
            wanted = lane - argument
        case "shfl_down":
            wanted = lane + argument
        case _:
            wanted = argument % WARP + lane * 0
    source = first + wanted
    source = np.where((wanted < 0) | (wanted >= WARP) | (source >= threads), thread, source)
    return np.take_along_axis(value, np.broadcast_to(source, (threads, *value.shape[1:])), axis=0)


def _ballot(predicate: Any, threads: int, axes: int, mask: np.ndarray | None) -> Any:
    rest = np.broadcast_shapes(np.shape(predicate)[1:], np.shape(mask)[1:] if mask is not None else ()) or (
        1,
    ) * (axes - 1)
    shape = (threads, *rest)
    bits = np.broadcast_to(predicate, shape)
    if mask is not None:
        bits = bits & np.broadcast_to(mask, shape)
    warps = -(-threads // WARP)
    padded = np.zeros((warps * WARP, *rest), bool)
    padded[:threads] = bits
    weights = (np.uint64(1) << np.arange(WARP, dtype=np.uint64)).reshape((1, WARP) + (1,) * len(rest))
    words = (padded.reshape(warps, WARP, *rest) * weights).sum(axis=1).astype(np.uint32)
    return np.repeat(words, WARP, axis=0)[:threads]
