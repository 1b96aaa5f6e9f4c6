"""Timing of a callable: CUDA events on a GPU, the wall clock elsewhere; samples, not one number."""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilebench.errors import LaunchError

BACKENDS = ("event", "cupti", "cudagraph")
"""What `do_bench(backend=)` may be, on a GPU."""


@dataclass(frozen=True)
class Times:
    """Milliseconds of each timed run, in order."""

    milliseconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median in milliseconds."""
        return statistics.median(self.milliseconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and the upper quartile in milliseconds; least and greatest of fewer than four samples."""
        if len(self.milliseconds) < 4:
            return min(self.milliseconds), max(self.milliseconds)
        low, _, high = statistics.quantiles(self.milliseconds, n=4, method="inclusive")
        return low, high

    @property
    def rounds(self) -> int:
        """How many runs were timed."""
        return len(self.milliseconds)

    @property
    def spread(self) -> float:
        """The distance of the quartiles, as a share of the median."""
        low, high = self.quartiles
        return (high - low) / self.median if self.median else 0.0

    def summary(self, mode: str = "median", quantiles: Sequence[float] | None = None) -> Any:
        """mean | median | min | max | all (a list) | times (this), or a list of quantiles in [0, 1] (one
        number for a single quantile).
        """
        if quantiles is not None:
            ordered = sorted(self.milliseconds)
            picked = [ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in quantiles]
            return picked[0] if len(picked) == 1 else picked
        if mode == "times":
            return self
        if mode == "all":
            return list(self.milliseconds)
        choices: dict[str, Callable[[Sequence[float]], float]] = {
            "mean": statistics.fmean, "median": statistics.median, "min": min, "max": max,
        }  # fmt: skip
        if mode not in choices:
            raise ValueError(f"return_mode must be one of {sorted([*choices, 'all', 'times'])}, got {mode!r}")
        return choices[mode](self.milliseconds)


def measure(
    run: Callable[[], Any],
    *,
    warmup_ms: float = 25,
    rep_ms: float = 100,
    warmup_count: int = 0,
    repeat_count: int = 0,
    backend: str = "event",
    fallback: str = "",
    flush_l2: bool = True,
    device: str | None = None,
) -> Times:
    """Run it for about warmup_ms, then time it for about rep_ms (or the given counts).

    device: where it runs, 'cpu' or 'cuda' (None: for a callable of the user's, on the GPU when there is one).
    On a GPU, backend 'event' takes each run between two events, 'cudagraph' many runs in a graph, 'cupti' the
    kernels' own times, always with the L2 cache overwritten before a run (flush_l2), so inputs come from
    memory (profiling/gpu_timing.py). Elsewhere the wall clock is read, whatever the backend. fallback: the
    backend to use where CUPTI is missing. Raises LaunchError TB617 for it without a fallback.
    """
    for name in (backend, *([fallback] if fallback else [])):
        if name not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(map(repr, BACKENDS))}, got {name!r}")
    if device == "cpu" or (device is None and not _torch_has_gpu()):
        return _measure_host(run, warmup_ms, rep_ms, warmup_count, repeat_count)
    from tilebench.profiling import gpu_timing

    def rounds(once_ms: float) -> tuple[int, int]:
        warm = warmup_count or max(1, int(warmup_ms / once_ms))
        return warm, repeat_count or max(3, min(1000, int(rep_ms / once_ms)))

    if backend == "cupti":
        try:
            return Times(tuple(gpu_timing.cupti_times(run, rounds, flush=flush_l2)))
        except LaunchError as error:
            if error.code != "TB617" or not fallback or fallback == "cupti":
                raise
            warnings.warn(f"{error.what}; backend {fallback!r} is used", stacklevel=3)
            backend = fallback
    times = gpu_timing.graph_times if backend == "cudagraph" else gpu_timing.event_times
    return Times(tuple(times(run, rounds, flush=flush_l2)))


def _torch_has_gpu() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.version.cuda) and bool(torch.cuda.is_available())


def _measure_host(
    run: Callable[[], Any], warmup_ms: float, rep_ms: float, warmup_count: int, repeat_count: int
) -> Times:
    start = time.perf_counter()
    run()
    once = max((time.perf_counter() - start) * 1e3, 1e-4)
    if once > 1000 and once > rep_ms and not warmup_count and not repeat_count:
        return Times((once,))  # so long a run is its own sample: starting up is a small part of it
    for _ in range(warmup_count or max(0, min(1000, int(warmup_ms / once)))):
        run()
    samples: list[float] = []
    for _ in range(repeat_count or max(3, min(10000, int(rep_ms / once)))):
        start = time.perf_counter()
        run()
        samples.append((time.perf_counter() - start) * 1e3)
    return Times(tuple(samples))
