"""`T.sync_threads` and its relatives: spellings only; the statements are SyncThreads, SyncWarp and intrinsic
calls."""

from __future__ import annotations

from typing import Any

from tilebench.errors import SyncError
from tilebench.ir.dtype import bool_, int32
from tilebench.ir.expr import Expr, as_expr, call, to_bool
from tilebench.ir.thread import SyncWarp
from tilebench.ir.tile import Stmt, SyncThreads


def sync_threads(barrier_id: int | None = None, arrive_count: int | None = None) -> Stmt:
    """A barrier of all threads of the block.

    Needed only with auto_sync=False or for global memory: the compiler puts in its own.

    barrier_id changes nothing (each barrier is complete); a barrier of some of the threads (arrive_count) is
    refused.
    """
    if arrive_count is not None:
        raise SyncError(
            "TB401",
            f"sync_threads(arrive_count={arrive_count}): a barrier of some of the threads",
            why="which threads wait would have to be known where the barrier stands",
            fix="T.sync_threads() lets all threads of the block wait",
        )
    return SyncThreads()


def sync_warp(mask: Any = None) -> Stmt:
    """A barrier of the 32 threads of a warp. mask: all lanes take part whatever it says."""
    return SyncWarp()


def _vote(name: str, predicate: Any, dtype: Any) -> Expr:
    return call(name, (to_bool(as_expr(predicate)),), dtype)


def syncthreads_and(predicate: Any) -> Expr:
    """A barrier; whether the predicate is true in every thread."""
    return _vote("syncthreads_and", predicate, bool_)


def syncthreads_or(predicate: Any) -> Expr:
    """A barrier; whether the predicate is true in some thread."""
    return _vote("syncthreads_or", predicate, bool_)


def syncthreads_count(predicate: Any) -> Expr:
    """A barrier; in how many threads the predicate is true."""
    return _vote("syncthreads_count", predicate, int32)
