"""Launches and the names of threads and blocks."""

from __future__ import annotations

from typing import Any, cast

from tilebench.errors import TargetError
from tilebench.ir.expr import Expr, int_value
from tilebench.language.markers import LaunchSpec, ThreadRange, ThreadValue


def Kernel(
    *blocks: Any, threads: Any = 128, prelude: str | None = None, cluster_dims: Any = None
) -> LaunchSpec:
    """`with T.Kernel(grid_x, grid_y, threads=128) as (bx, by):` one to three grid axes."""
    if cluster_dims not in (None, 1, (1, 1, 1), [1, 1, 1]):
        raise TargetError(
            "TB535",
            f"cluster_dims={cluster_dims}: thread-block clusters are not supported",
            why="every target must run the program",
            fix="leave cluster_dims out",
        )
    if not blocks:
        blocks = (1,)
    if len(blocks) > 3:
        raise TargetError(
            "TB530",
            f"T.Kernel has {len(blocks)} grid axes",
            why="a grid has one to three",
            fix="T.Kernel(x, y, z, threads=128)",
        )
    counts: tuple[Any, ...] = (
        tuple(cast("list[Any]", threads))
        if isinstance(threads, list | tuple)
        else (128 if threads is None else threads,)
    )
    if not 1 <= len(counts) <= 3 or not all(
        isinstance(int_value(t) if isinstance(t, Expr) else t, int) for t in counts
    ):
        raise TargetError(
            "TB531",
            f"threads={threads!r}",
            why="a block has one to three axes of threads, known when the kernel is compiled",
            fix="threads=128",
        )
    return LaunchSpec(blocks, tuple(int(int_value(t) or 0) for t in counts), prelude)


def get_thread_binding(dim: int = 0) -> ThreadValue:
    """threadIdx along an axis."""
    return ThreadValue("thread", dim)


def get_thread_bindings() -> ThreadValue:
    """All of threadIdx."""
    return ThreadValue("threads")


def get_block_binding(dim: int = 0) -> ThreadValue:
    """blockIdx along an axis."""
    return ThreadValue("block", dim)


def get_block_bindings() -> ThreadValue:
    """All of blockIdx."""
    return ThreadValue("blocks")


def get_thread_extent(dim: int = 0) -> ThreadValue:
    """Threads of a block along an axis."""
    return ThreadValue("thread_extent", dim)


def get_block_extent(dim: int = 0) -> ThreadValue:
    """Blocks of the grid along an axis."""
    return ThreadValue("block_extent", dim)


def get_thread_extents() -> ThreadValue:
    """Threads of a block along all axes."""
    return ThreadValue("thread_extents")


def get_block_extents() -> ThreadValue:
    """Blocks of the grid along all axes."""
    return ThreadValue("block_extents")


def get_lane_idx(warp_size: Any = None) -> ThreadValue:
    """The lane within the warp, 0 to 31."""
    del warp_size
    return ThreadValue("lane")


def get_warp_idx(warp_size: Any = None) -> ThreadValue:
    """The warp within the block."""
    del warp_size
    return ThreadValue("warp")


def get_warp_idx_sync(warp_size: Any = None) -> ThreadValue:
    """The warp within the block."""
    return get_warp_idx(warp_size)


def get_warp_group_idx(warp_size: Any = None, warps_per_group: Any = None) -> ThreadValue:
    """The group of four warps within the block."""
    del warp_size, warps_per_group
    return ThreadValue("warp_group")


def ws(*groups: int) -> ThreadRange:
    """`with T.ws(0):` the warp groups (of 128 threads) that run the body."""
    return ThreadRange(groups)


WarpSpecialize = ws
