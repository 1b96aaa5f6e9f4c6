"""How long a kernel takes: the median of some rounds with their spread, and on what machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilebench.kernel.target import device_of, on_device_of
from tilebench.profiling.benchmark import Times, measure
from tilebench.report import Figure

if TYPE_CHECKING:
    from tilebench.kernel.compiled import Kernel


def bench(kernel: Kernel, values: Sequence[Any], rounds: int) -> Times:
    """Time `rounds` launches with these values, which are changed."""
    with on_device_of(values):
        return measure(
            lambda: kernel.launch(values), warmup_ms=10, rep_ms=100, repeat_count=rounds,
            device=device_of(kernel.target),
        )  # fmt: skip


def figure(times: Times, device: str) -> Figure:
    """The median in milliseconds with the quartiles and the number of rounds."""
    low, high = times.quartiles
    return Figure(times.median, "ms", "measured", device, low, high, len(times.milliseconds))
