"""`autotune`: the decorator, and the function that it makes."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilebench.kernel.compiled import Kernel
from tilebench.kernel.decorator import JitFunction, freeze
from tilebench.kernel.target import device_of, is_absent, resolve
from tilebench.kernel.tune import TunedFunction
from tilebench.kernel.tune_inputs import get_autotune_inputs
from tilebench.language.captured import captured
from tilebench.targets import Target
from tilebench.tuning.bench import Rule
from tilebench.tuning.job import Job, require_numbers
from tilebench.tuning.result import Tuning
from tilebench.tuning.search import Plan, Trial
from tilebench.tuning.space import PASS_CONFIGS, Candidate, candidates
from tilebench.tuning.tuner import Options, chosen_kernel, tune


@dataclass(frozen=True)
class Choice:
    """What a tuning found: for which call, its trials, and the kernel of the best."""

    job: Job
    tuning: Tuning
    kernel: Kernel

    @property
    def config(self) -> Candidate:
        """The configuration of the best."""
        assert self.tuning.best is not None, "a tuning without a best raises"
        return dict(self.tuning[self.tuning.best].config)


class Autotuned(TunedFunction):
    """What `@autotune` makes of a `@jit` function: calling it without the tunables picks the best
    configuration for its arguments, once for each of their shapes.
    """

    def __init__(
        self, function: JitFunction, configs: Any, options: Options, do_not_specialize: Sequence[str] = ()
    ) -> None:
        super().__init__(function, configs)
        self.options = options
        self.tuning: Tuning | None = None
        self.unspecialized = frozenset(do_not_specialize)
        self._tuner_cache: dict[Any, Choice | None] = {}

    @property
    def trials(self) -> list[Trial]:
        """The trials of the last tuning."""
        return [] if self.tuning is None else list(self.tuning)

    def __call__(self, *values: Any, **named: Any) -> Any:
        """Tune on first use for these values, then as the jit function with the best configuration."""
        names = self._tunables(values, named)
        if not names:
            self._tuner_cache.setdefault(self._key(values, named), None)
            return self.function(*values, **named)
        found = self._tune(values, named, names)
        if self.function.is_lazy:
            return self._kernel(found, values, named)
        function, chosen = found.job.variant(found.config)
        return function(*values, **{**named, **chosen})

    def compile(self, *values: Any, **named: Any) -> Kernel:
        """The Kernel with the best configuration."""
        names = self._tunables(values, named)
        if not names:
            return self.function.compile(*values, **named)
        return self._kernel(self._tune(values, named, names), values, named)

    def _kernel(self, found: Choice, values: tuple[Any, ...], named: Mapping[str, Any]) -> Kernel:
        """The kernel that was measured; for other values of unspecialised parameters one of its own."""
        if self._arguments(values, named) == self._arguments(found.job.values, found.job.named):
            return found.kernel
        kernel = self._job(values, named).kernel(found.config)
        kernel.config = found.config
        return kernel

    def _arguments(self, values: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """What a call says of each parameter, defaults included, however it spells it."""
        signature = inspect.signature(self.function.function)
        known = {k: v for k, v in named.items() if k in signature.parameters}
        bound = signature.bind_partial(*values, **known)
        bound.apply_defaults()
        every = {**bound.arguments, **named}
        return {name: _shapes([value]) for name, value in every.items()}

    def _key(self, values: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """What a tuning is kept under: the call without the parameters that it is not to depend on, and what
        the program reads from around it.
        """
        kept = [(n, v) for n, v in self._arguments(values, named).items() if n not in self.unspecialized]
        given = () if self.unspecialized else _shapes(get_autotune_inputs() or ())
        target = str(resolve(self.function.options.get("target")))
        return tuple(kept), target, given, captured(self.function.function)

    def _candidates(self, values: Sequence[Any], named: Mapping[str, Any]) -> list[Candidate]:
        return candidates(self.configs, values, named)

    def _tunables(self, values: Sequence[Any], named: Mapping[str, Any]) -> list[str]:
        """Names of the configurations that the call leaves open."""
        signature = inspect.signature(self.function.function)
        known = {k: v for k, v in named.items() if k in signature.parameters}
        given = {*signature.bind_partial(*values, **known).arguments, *named}
        keys = {k for c in self._candidates(values, named) for k in c}
        if keys <= {PASS_CONFIGS, *given} and given & keys:
            return []  # every tunable was passed: nothing is left to tune
        return sorted(keys - given)

    def _tune(self, values: tuple[Any, ...], named: Mapping[str, Any], names: Sequence[str]) -> Choice:
        job, options, key = self._job(values, named), self.options, (self._key(values, named), tuple(names))
        found = self._tuner_cache.get(key)
        if found is not None:
            return found
        chosen: list[Candidate] = []
        for c in self._candidates(values, named):
            one = {k: v for k, v in c.items() if k in names}
            if one not in chosen:
                chosen.append(one)
        tuning = self.tuning = tune(job, chosen, options)
        kernel = chosen_kernel(job, tuning)
        if self.function.is_lazy:
            require_numbers(kernel, options.supply_prog)
        if options.ref_prog is not None and not is_absent(job.target):
            kernel.ref_latency = _reference_ms(job, kernel, options)
        found = self._tuner_cache[key] = Choice(job, tuning, kernel)
        return found

    def _job(self, values: tuple[Any, ...], named: Mapping[str, Any]) -> Job:
        target = resolve(self.function.options.get("target"))
        return Job(self.function, values, dict(named), target, _device_name(target))


def _shapes(values: Sequence[Any]) -> Any:
    """Arguments as what a tuning depends on: a tensor's shape and type, the value of the rest."""
    return freeze([(tuple(v.shape), str(v.dtype)) if hasattr(v, "shape") else v for v in values])


def _device_name(target: Target) -> str:
    if target.kind == "cuda":
        if is_absent(target):
            return ""
        from tilebench.backends.cuda.driver import device_name

        return device_name()
    from tilebench.profiling.cpu_peaks import cpu_name

    return cpu_name()


def _reference_ms(job: Job, kernel: Kernel, options: Options) -> float:
    """Median milliseconds of the reference on the same inputs."""
    from tilebench.profiling.benchmark import measure

    inputs, reference = job.inputs(kernel, options.supply_prog, options.supply_type), options.ref_prog
    assert reference is not None, "asked for when there is one"
    times = measure(
        lambda: reference(*inputs), warmup_ms=options.plan.warmup_ms, rep_ms=options.plan.rep_ms,
        device=device_of(job.target),
    )  # fmt: skip
    return times.median


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
    early_stop: bool = True,
    early_stop_factor: float = 1.2,
    budget: float | None = None,
    patience: int | None = None,
    executor: Executor | None = None,
    workers: int = 0,
    log: str | Path | bool = True,
    isolate: bool = True,
    do_not_specialize: Sequence[str] | None = None,
    **accepted: Any,
) -> Any:
    """Decorator above `@jit`: of the configurations the fastest that is right.

    configs: dictionaries of the function's parameters (`pass_configs` goes to the compiler), one dictionary
    of lists (every combination), or a function that gives either. Candidates are compiled in `workers`
    processes (0: one a core), or by `executor`, any concurrent.futures.Executor; then each is checked
    (against ref_prog within atol, rtol and max_mismatched_ratio, else against the oracle; skip_check: not)
    and timed beside the best so far, in the order of their predicted time, for about `warmup` and `rep`
    milliseconds. A candidate slower than the best by early_stop_factor after three rounds is dropped; none
    is begun after `budget` seconds, or after `patience` in a row without an improvement. timeout: seconds
    that a compile or a round may take.

    They run in a worker process (isolate=False: in this one), so a crash costs one candidate. log: the file
    that remembers what was measured (True: one in the cache directory, False: none); what it has is not
    measured again. Inputs: `set_autotune_inputs`, supply_prog(params), or random ones of supply_type.
    do_not_specialize: parameters whose values do not call for another tuning: the configuration found for the
    first ones is that of all (the kernel is compiled for each).

    The kernel has `config`, `latency` (ms), `ref_latency` and `tuning`, a table of all candidates with their
    reasons. Raises TB644 when none works.
    """
    for name in accepted:
        if name not in ("manual_check_prog", "cache_input_tensors"):
            raise TypeError(f"autotune has no option {name!r}")
        warnings.warn(f"autotune option {name} has no effect in tilebench", stacklevel=2)
    if configs is None:
        raise TypeError("autotune needs configs=[{...}, ...]")
    check = "none" if skip_check else "oracle" if ref_prog is None else "reference"
    options = Options(
        Plan(warmup, rep, early_stop_factor if early_stop else None, budget, patience),
        Rule(check, atol, rtol, max_mismatched_ratio),
        ref_prog, supply_prog, supply_type, timeout, executor, workers, log, isolate,
    )  # fmt: skip

    def decorate(function: Any) -> Autotuned:
        return Autotuned(
            function if isinstance(function, JitFunction) else JitFunction(function, {}), configs, options,
            do_not_specialize or (),
        )  # fmt: skip

    return decorate if func is None else decorate(func)


__all__ = ["Autotuned", "autotune"]
