"""Timing of a callable: CUDA events on a GPU, the wall clock elsewhere; samples, not one number."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


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

    def summary(self, mode: str = "median", quantiles: Sequence[float] | None = None) -> Any:
        """mean | median | min | max, or a list of quantiles in [0, 1] (one number for a single quantile)."""
        if quantiles is not None:
            ordered = sorted(self.milliseconds)
            picked = [ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in quantiles]
            return picked[0] if len(picked) == 1 else picked
        choices: dict[str, Callable[[Sequence[float]], float]] = {
            "mean": statistics.fmean, "median": statistics.median, "min": min, "max": max,
        }  # fmt: skip
        if mode not in choices:
            raise ValueError(f"return_mode must be one of {sorted(choices)}, got {mode!r}")
        return choices[mode](self.milliseconds)


def measure(
    run: Callable[[], Any],
    *,
    warmup_ms: float = 25,
    rep_ms: float = 100,
    warmup_count: int = 0,
    repeat_count: int = 0,
    backend: str = "event",
    flush_l2: bool = True,
    device: str | None = None,
) -> Times:
    """Run it for about warmup_ms, then time it for about rep_ms (or the given counts).

    device: where it runs, 'cpu' or 'cuda' (None: for a callable of the user's, on the GPU when there is one).
    On a GPU each run is between two events with the L2 cache overwritten before it (flush_l2), so inputs come
    from memory.
    """
    if backend not in ("event", "cupti", "cudagraph"):
        raise ValueError(f"backend must be 'event', 'cupti' or 'cudagraph', got {backend!r}")
    torch = sys.modules.get("torch") if device != "cpu" else None
    if (
        torch is not None
        and torch.cuda.is_available()
        and hasattr(torch.cuda, "_lazy_init")
        and _real_gpu(torch)
    ):
        return _measure_gpu(run, torch, warmup_ms, rep_ms, warmup_count, repeat_count, flush_l2)
    return _measure_host(run, warmup_ms, rep_ms, warmup_count, repeat_count)


def _real_gpu(torch: Any) -> bool:
    return bool(torch.version.cuda) and torch.backends.cuda.is_built()


def _measure_host(
    run: Callable[[], Any], warmup_ms: float, rep_ms: float, warmup_count: int, repeat_count: int
) -> Times:
    start = time.perf_counter()
    run()
    once = max((time.perf_counter() - start) * 1e3, 1e-4)
    for _ in range(warmup_count or max(0, min(1000, int(warmup_ms / once)))):
        run()
    samples: list[float] = []
    for _ in range(repeat_count or max(3, min(10000, int(rep_ms / once)))):
        start = time.perf_counter()
        run()
        samples.append((time.perf_counter() - start) * 1e3)
    return Times(tuple(samples))


def _measure_gpu(
    run: Callable[[], Any],
    torch: Any,
    warmup_ms: float,
    rep_ms: float,
    warmup_count: int,
    repeat_count: int,
    flush_l2: bool,
) -> Times:
    run()
    torch.cuda.synchronize()
    cache = torch.empty(256 << 20, dtype=torch.int8, device="cuda") if flush_l2 else None
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(5):
        run()
    end.record()
    torch.cuda.synchronize()
    once = max(start.elapsed_time(end) / 5, 1e-3)
    for _ in range(warmup_count or max(1, int(warmup_ms / once))):
        run()
    count = repeat_count or max(3, min(1000, int(rep_ms / once)))
    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)
    ]
    for first, last in events:
        if cache is not None:
            cache.zero_()
        first.record()
        run()
        last.record()
    torch.cuda.synchronize()
    return Times(tuple(first.elapsed_time(last) for first, last in events))
