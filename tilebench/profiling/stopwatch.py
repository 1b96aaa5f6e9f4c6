"""Single timings that can be interleaved: each call of a stopwatch gives the milliseconds of one run.

Two kernels that are compared are timed in turn, so that what drifts (clocks, temperature, other load) falls
on both; `measure` in benchmark.py times one callable alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilebench.profiling.gpu_timing import EventTimer

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


class Stopwatches:
    """Makes stopwatches that share what they need: on a GPU two events and the memory that empties L2."""

    def __init__(self) -> None:
        self._timer: EventTimer | None = None

    def __call__(self, run: Callable[[], Any], device: str) -> Stopwatch:
        """Events with the L2 cache overwritten before each run when device is 'cuda', else the wall clock."""
        if device != "cuda":
            return wall_clock(run)
        from tilebench.profiling.gpu_timing import EventTimer, torch_stream

        run()
        timer = self._timer = self._timer or EventTimer(torch_stream())
        return lambda: timer.milliseconds(run)

    def close(self) -> None:
        """Free what was taken."""
        if self._timer is not None:
            self._timer.close()
            self._timer = None
