"""`autotune`: a list of configurations, each compiled and measured, the best kept."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilebench.errors import TileError
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.progress import Progress


@dataclass(frozen=True)
class Trial:
    """One configuration: its median milliseconds, or why it was discarded."""

    config: Mapping[str, Any]
    latency_ms: float | None
    reason: str = ""


class TunedFunction:
    """What `@autotune` makes of a `@jit` function: calling it without the tunables picks the best
    configuration.
    """

    def __init__(self, function: Any, configs: Any, options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function, updated=())  # its own attributes stay its own
        self.function = function
        self.configs = configs
        self.options = dict(options)
        self.trials: list[Trial] = []
        self.best: dict[Any, dict[str, Any]] = {}

    def __call__(self, *values: Any, **named: Any) -> Any:
        """Tune on first use for these values, then as the jit function with the best configuration."""
        names = self._tunables(values, named)
        if not names:
            return self.function(*values, **named)
        kernel = self._tune(values, named, names)
        if getattr(self.function, "is_lazy", True):
            return kernel
        return self.function(*values, **{**named, **kernel.config})

    def compile(self, *values: Any, **named: Any) -> Kernel:
        """The Kernel with the best configuration."""
        names = self._tunables(values, named)
        return self._tune(values, named, names) if names else self.function.compile(*values, **named)

    def _candidates(self, values: tuple[Any, ...], named: Mapping[str, Any]) -> list[dict[str, Any]]:
        configs: Any = self.configs
        if callable(configs):
            configs = configs(*values, **named) if inspect.signature(configs).parameters else configs()
        return [dict(c) for c in configs]

    def _tunables(self, values: tuple[Any, ...], named: Mapping[str, Any]) -> list[str]:
        signature = inspect.signature(getattr(self.function, "function", self.function))
        given = set(signature.bind_partial(*values, **named).arguments)
        keys = {k for c in self._candidates(values, named) for k in c}
        return sorted(keys - given)

    def _tune(self, values: tuple[Any, ...], named: Mapping[str, Any], names: Sequence[str]) -> Kernel:
        from tilebench.kernel.decorator import freeze

        shapes = tuple((tuple(v.shape), str(v.dtype)) if hasattr(v, "shape") else v for v in values)
        key = (freeze(shapes), freeze(dict(named)))
        if key in self.best:
            return self._kernel(values, {**named, **self.best[key]}, self.best[key])
        trials: list[tuple[float, Kernel, dict[str, Any]]] = []
        self.trials = []
        candidates = self._candidates(values, named)
        with Progress(f"tuning {getattr(self, '__name__', 'a kernel')}", len(candidates)) as progress:
            for config in candidates:
                chosen = {k: v for k, v in config.items() if k in names}
                progress.say(" ".join(f"{k}={v}" for k, v in chosen.items()))
                trial, kernel = self._try(values, named, chosen)
                self.trials.append(trial)
                if kernel is not None and trial.latency_ms is not None:
                    trials.append((trial.latency_ms, kernel, chosen))
                progress.advance()
        if not trials:
            reasons = "; ".join(f"{dict(t.config)}: {t.reason}" for t in self.trials[:3])
            raise RuntimeError(f"autotune: none of the {len(self.trials)} configurations works ({reasons})")
        latency, kernel, chosen = min(trials, key=lambda t: t[0])
        kernel.latency, kernel.config, kernel.tuning = latency, chosen, tuple(self.trials)
        self.best[key] = chosen
        return kernel

    def _try(
        self, values: tuple[Any, ...], named: Mapping[str, Any], chosen: dict[str, Any]
    ) -> tuple[Trial, Kernel | None]:
        """One configuration compiled, compared and timed."""
        try:
            kernel = self._kernel(values, {**named, **chosen}, chosen)
            inputs = self._inputs(kernel, values)
            self._check(kernel, inputs)
            profiler, options = kernel.get_profiler(), self.options
            measured = profiler.do_bench(
                input_tensors=inputs, warmup=options["warmup"], rep=options["rep"], return_mode="median"
            )
            return Trial(chosen, float(measured)), kernel
        except (TileError, AssertionError) as error:
            return Trial(chosen, None, str(getattr(error, "what", error))), None

    def _kernel(self, values: tuple[Any, ...], named: Mapping[str, Any], config: Mapping[str, Any]) -> Kernel:
        kernel: Kernel = self.function.compile(*values, **named)
        kernel.config = dict(config)
        return kernel

    def _inputs(self, kernel: Kernel, values: tuple[Any, ...]) -> list[Any]:
        if self.options.get("supply_prog"):
            return list(self.options["supply_prog"](kernel.params))
        if not getattr(self.function, "is_lazy", True):
            return [v for v in values if hasattr(v, "shape")]
        return kernel.get_profiler(self.options.get("supply_type")).inputs()

    def _check(self, kernel: Kernel, inputs: list[Any]) -> None:
        reference = self.options.get("ref_prog")
        if reference is None or self.options.get("skip_check"):
            return
        kernel.get_profiler().assert_allclose(
            reference,
            inputs,
            atol=self.options["atol"],
            rtol=self.options["rtol"],
            max_mismatched_ratio=self.options["max_mismatched_ratio"],
        )


def autotune(
    func: Callable[..., Any] | None = None,
    *,
    configs: Any = None,
    warmup: float = 25,
    rep: float = 100,
    timeout: float = 100,
    supply_type: Any = None,
    ref_prog: Callable[..., Any] | None = None,
    supply_prog: Callable[..., Any] | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-2,
    max_mismatched_ratio: float = 0.01,
    skip_check: bool = False,
    **accepted: Any,
) -> Any:
    """Decorator above `@jit`: measure every configuration (a list of dicts, or a function that gives one),
    keep the best.

    Configurations that do not compile or disagree with ref_prog are discarded with their reason (`.trials`).
    """
    del timeout
    for name in accepted:
        if name not in (
            "manual_check_prog",
            "cache_input_tensors",
            "do_not_specialize",
            "early_stop",
            "early_stop_factor",
        ):
            raise TypeError(f"autotune has no option {name!r}")
        warnings.warn(f"autotune option {name} has no effect in tilebench", stacklevel=2)
    if configs is None:
        raise TypeError("autotune needs configs=[{...}, ...]")
    options = {
        "warmup": warmup, "rep": rep, "supply_type": supply_type, "ref_prog": ref_prog,
        "supply_prog": supply_prog, "rtol": rtol,
        "atol": atol, "max_mismatched_ratio": max_mismatched_ratio, "skip_check": skip_check,
    }  # fmt: skip
    if func is not None:
        return TunedFunction(func, configs, options)

    def decorate(function: Any) -> TunedFunction:
        return TunedFunction(function, configs, options)

    return decorate
