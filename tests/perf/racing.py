"""Timing side by side on a GPU: candidates interleaved there and back, medians, and intervals of ratios.

A sample is about 6 ms of work between two events. The launches of a sample queue up behind a short sleep of
the GPU, so that what a call costs on the CPU is not in it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

ROUNDS = 15
SAMPLE_MS = 6.0
MOST_LAUNCHES = 400
"""A queue of the driver holds about a thousand launches."""
Run = Callable[[], Any]


@dataclass(frozen=True)
class Plan:
    """How one candidate is sampled: launches a sample, milliseconds of sleep before them."""

    count: int
    sleep_ms: float


def sample(run: Run, plan: Plan) -> float:
    """Milliseconds of one launch."""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if plan.sleep_ms:
        torch.cuda._sleep(int(plan.sleep_ms * 2.0e6))  # cycles of a clock below 2 GHz
    start.record()
    for _ in range(plan.count):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / plan.count


def plan(run: Run, sample_ms: float = SAMPLE_MS) -> Plan:
    """The plan of a candidate, after three launches of it."""
    import torch

    run()
    torch.cuda.synchronize()
    launch = time.perf_counter()
    for _ in range(10):
        run()
    launch = (time.perf_counter() - launch) * 100  # ms a call
    torch.cuda.synchronize()
    each = sample(run, Plan(3, 1.0))
    count = max(1, min(MOST_LAUNCHES, round(sample_ms / max(each, 1e-3))))
    ahead = count * min(launch, 0.2) - count * each
    return Plan(count, max(0.05, min(20.0, ahead * 1.2 + 0.05)))


def quick(candidates: Mapping[str, Run], rounds: int = 3) -> dict[str, float]:
    """Rough milliseconds of each, to choose the few that race."""
    plans = {name: plan(run, 2.0) for name, run in candidates.items()}
    times = {name: [sample(run, plans[name]) for _ in range(rounds)] for name, run in candidates.items()}
    return {name: statistics.median(t) for name, t in times.items()}


def race(candidates: Mapping[str, Run], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Milliseconds of each candidate, one for each round; a round goes A B C, the next C B A."""
    plans = {name: plan(run) for name, run in candidates.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    order = list(candidates)
    for k in range(rounds):
        for name in order if k % 2 == 0 else reversed(order):
            times[name].append(sample(candidates[name], plans[name]))
    return times


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """(median, low, high): order statistics that hold the median with 95 % or more, whatever the law."""
    ordered = sorted(values)
    n = len(ordered)
    tail, k = 0.0, 0
    while k < n // 2 and tail + comb(n, k) / 2**n <= 0.025:
        tail += comb(n, k) / 2**n
        k += 1
    low = max(0, k - 1)
    return statistics.median(ordered), ordered[low], ordered[n - 1 - low]


def ratios(times: Mapping[str, Sequence[float]], ours: str) -> dict[str, tuple[float, float, float]]:
    """Of every other candidate: its time over ours, round by round (above 1: ours is faster)."""
    return {
        name: interval([theirs / mine for theirs, mine in zip(t, times[ours], strict=True)])
        for name, t in times.items()
        if name != ours
    }


def geometric_mean(values: Sequence[float]) -> float:
    """Their geometric mean; NaN of none."""
    return statistics.geometric_mean(values) if values else float("nan")
