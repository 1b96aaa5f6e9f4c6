"""Single timings that can be interleaved: each call of a stopwatch gives the milliseconds of one run.

Two kernels that are compared are timed in turn, so that what drifts (clocks, temperature, other load) falls
on both; `measure` in benchmark.py times one callable alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

SHORTEST_MS = 0.5
"""A reading of the wall clock covers at least this much: shorter runs are repeated and divided."""
MOST_REPEATS = 1000

Stopwatch = Callable[[], float]


def wall_clock(run: Callable[[], Any]) -> Stopwatch:
    """Milliseconds of a run by the wall clock. The run is called twice here, to warm and to see how long it
    is.
    """
    run()
    start = time.perf_counter()
    run()
    once = (time.perf_counter() - start) * 1e3
    repeats = max(1, min(MOST_REPEATS, round(SHORTEST_MS / max(once, 1e-6))))

    def read() -> float:
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        return (time.perf_counter() - start) * 1e3 / repeats

    return read


def stopwatch(run: Callable[[], Any], device: str) -> Stopwatch:
    """Events with the L2 cache overwritten before each run when device is 'cuda', else the wall clock."""
    if device != "cuda":
        return wall_clock(run)
    from tilebench.profiling.gpu_timing import EventTimer, torch_stream

    run()
    timer = EventTimer(torch_stream())
    return lambda: timer.milliseconds(run)
