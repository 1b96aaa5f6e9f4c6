"""`AutoTuner.from_kernel(kernel, configs).set_compile_args(...).set_profile_args(...).run()`."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from tilebench.autotuner.param import AutotuneResult, CompileArgs, ProfileArgs
from tilebench.kernel.decorator import JitFunction


class AutoTuner:
    """Measures a factory of @T.prim_funcs over a list of configurations (dicts of its parameters)."""

    def __init__(self, fn: Callable[..., Any], configs: Sequence[Mapping[str, Any]]) -> None:
        self.fn = fn
        self.configs = [dict(c) for c in configs]
        self.compile_args = CompileArgs()
        self.profile_args = ProfileArgs()

    @classmethod
    def from_kernel(cls, kernel: Callable[..., Any], configs: Sequence[Mapping[str, Any]]) -> AutoTuner:
        """The same as AutoTuner(kernel, configs)."""
        return cls(kernel, configs)

    def set_compile_args(self, **values: Any) -> AutoTuner:
        """Fields of CompileArgs."""
        self.compile_args = replace(self.compile_args, **values)
        return self

    def set_profile_args(self, **values: Any) -> AutoTuner:
        """Fields of ProfileArgs."""
        known = {f.name for f in fields(ProfileArgs)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise TypeError(f"set_profile_args: there is no {', '.join(unknown)}; there are {sorted(known)}")
        self.profile_args = replace(self.profile_args, **values)
        return self

    def generate_cache_key(
        self, parameters: Mapping[str, inspect.Parameter], extra_parameters: Mapping[str, Any]
    ) -> str | None:
        """A name for what `run` would find; None where callbacks take part: they have no lasting identity."""
        profile = self.profile_args
        if any(f is not None for f in (profile.ref_prog, profile.supply_prog, profile.manual_check_prog)):
            return None
        facts = (
            inspect.getsource(self.fn), [(n, str(p)) for n, p in parameters.items()],
            sorted(extra_parameters.items()), self.configs, self.compile_args, profile,
        )  # fmt: skip
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def run(
        self, warmup: float = 25, rep: float = 100, timeout: float = 30, **accepted: Any
    ) -> AutotuneResult:
        """Compile, compare and time every configuration (warmup, rep: ms each); gives the fastest.

        Raises RuntimeError with the reasons when none works.
        """
        del timeout, accepted
        compiling, profile = self.compile_args, self.profile_args
        made = (
            self.fn
            if isinstance(self.fn, JitFunction)
            else JitFunction(
                self.fn,
                {"out_idx": compiling.out_idx, "target": compiling.target,
                 "pass_configs": compiling.pass_configs, "compile_flags": None},
            )
        )  # fmt: skip
        import tilebench

        tuned = tilebench.autotune(
            configs=self.configs, warmup=warmup, rep=rep, supply_type=profile.supply_type,
            ref_prog=profile.ref_prog, supply_prog=profile.supply_prog, rtol=profile.rtol, atol=profile.atol,
            max_mismatched_ratio=profile.max_mismatched_ratio, skip_check=profile.skip_check,
        )(made)  # fmt: skip
        kernel = tuned.compile()
        reference = None
        if profile.ref_prog is not None:
            profiler = kernel.get_profiler(profile.supply_type)
            reference = float(profiler.do_bench(profile.ref_prog, warmup=warmup, rep=rep))
        return AutotuneResult(kernel.latency, kernel.config, reference, None, self.fn, kernel)
