"""`tilebench.profiler`: TileLang's names for timing a function and a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilebench.kernel.profiler import Profiler, TensorSupplyType
from tilebench.profiling.benchmark import measure

__all__ = ["Profiler", "TensorSupplyType", "do_bench"]


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    quantiles: Sequence[float] | None = None,
    fast_flush: bool = True,
    backend: str = "event",
    return_mode: str = "mean",
    **accepted: Any,
) -> Any:
    """Milliseconds of one call of fn: mean, median, min or max, or the quantiles asked for.

    warmup and rep in ms, or counts through _n_warmup and _n_repeat. On a GPU the L2 cache is overwritten
    before each run.
    """
    del fast_flush
    n_warmup, n_repeat = accepted.get("n_warmup", _n_warmup), accepted.get("n_repeat", _n_repeat)
    times = measure(
        fn, warmup_ms=warmup, rep_ms=rep, warmup_count=n_warmup, repeat_count=n_repeat, backend=backend
    )
    return times.summary(return_mode, quantiles)
