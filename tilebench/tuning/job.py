"""One tuning: a jit function with the arguments that stay, and its candidates as kernels or as requests."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from tilebench import config
from tilebench.errors import TileError
from tilebench.ir.tile import Buffer
from tilebench.kernel import args, verify
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.decorator import JitFunction
from tilebench.kernel.options import normalise
from tilebench.kernel.profiler import make_input
from tilebench.kernel.raw import pack
from tilebench.kernel.tune_inputs import get_autotune_inputs
from tilebench.targets import Target
from tilebench.tuning.bench import Rule, written
from tilebench.tuning.portable import Data, NotPortable, describe, encode
from tilebench.tuning.space import PASS_CONFIGS, Candidate


@dataclass(frozen=True)
class Job:
    """function: of `@jit`; values, named: arguments that stay; target: resolved; device: its name."""

    function: JitFunction
    values: tuple[Any, ...]
    named: Mapping[str, Any]
    target: Target
    device: str

    @property
    def name(self) -> str:
        """Of the function."""
        return str(self.function.function.__name__)

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """Of the function, by name."""
        return inspect.signature(self.function.function).parameters

    @cached_property
    def _variants(self) -> dict[str, JitFunction]:
        return {}

    def variant(self, chosen: Candidate) -> tuple[JitFunction, dict[str, Any]]:
        """The jit function with the candidate's pass configs, and the candidate's arguments."""
        own = chosen.get(PASS_CONFIGS) if PASS_CONFIGS not in self.parameters else None
        if own is None:
            return self.function, dict(chosen)
        known = self.function.options
        merged = {**normalise(known.get(PASS_CONFIGS)), **normalise(own)}
        made = self._variants.setdefault(
            repr(sorted(merged.items())), JitFunction(self.function.function, {**known, PASS_CONFIGS: merged})
        )
        return made, {k: v for k, v in chosen.items() if k != PASS_CONFIGS}

    def kernel(self, chosen: Candidate) -> Kernel:
        """The candidate compiled in this process. Raises TileError, and what the factory raises."""
        function, given = self.variant(chosen)
        return function.compile(*self.values, **{**self.named, **given})

    # ---------------------------------------------------------------- what goes to other processes

    @cached_property
    def description(self) -> Data:
        """All of a request but the candidate. Raises NotPortable."""
        plain = config.current()
        options = {
            "out_idx": self.function.options.get("out_idx"),
            PASS_CONFIGS: normalise(self.function.options.get(PASS_CONFIGS)),
            "compile_flags": self.function.options.get("compile_flags"),
        }
        common: Data = {
            "program": describe(self.function.function),
            "options": encode(options, "an option of jit"),
            "target": str(self.target),
            "device": self.device,
            "config": {"cache_dir": str(plain.cache_dir or ""), "threads": plain.threads},
            "lazy": bool(self.function.is_lazy),
        }
        if self.function.is_lazy:
            named = encode(dict(self.named), "an argument")
            return {**common, "values": encode(list(self.values), "an argument"), "named": named}
        tensors, plain_values, consts = self._eager()
        return {
            **common, "tensors": tensors, "named": encode(plain_values, "an argument"),
            "consts": encode(consts, "a size"),
        }  # fmt: skip

    def _bound(self) -> dict[str, Any]:
        known = {k: v for k, v in self.named.items() if k in self.parameters}
        return dict(inspect.signature(self.function.function).bind_partial(*self.values, **known).arguments)

    def _eager(self) -> tuple[Data, dict[str, Any], dict[str, Any]]:
        """An eager function's tensors as plain facts, other arguments and defaults, and T.const values."""
        tensors: Data = {}
        others = {n: p.default for n, p in self.parameters.items() if p.default is not p.empty}
        for name, value in self._bound().items():
            if args.is_tensor(value):
                tensor = args.view(value, name)
                strides = list(tensor.strides)
                tensors[name] = {"shape": list(tensor.shape), "strides": strides, "dtype": tensor.dtype.name}
                others.pop(name, None)
            else:
                others[name] = value
        return tensors, others, {k: v for k, v in self.named.items() if k not in self.parameters}

    def request(self, chosen: Candidate) -> Data:
        """The candidate as JSON data for `build`. Raises NotPortable."""
        own = dict(chosen)
        if PASS_CONFIGS in own and PASS_CONFIGS not in self.parameters:
            own[PASS_CONFIGS] = normalise(own[PASS_CONFIGS])
        return {**self.description, "chosen": encode(own, "a configuration")}

    # ---------------------------------------------------------------- what it is run on

    def inputs(self, kernel: Kernel, supply_prog: Callable[..., Any] | None, supply_type: Any) -> list[Any]:
        """What a call of the kernel takes: the user's tensors, else random ones (always the same).

        Raises LaunchError for a parameter that nothing can be made up for.
        """
        given = get_autotune_inputs()
        if given is not None:
            return list(given)
        if supply_prog is not None:
            return list(supply_prog(kernel.params))
        if not self.function.is_lazy:
            bound = {**self._bound(), **self.named}
            wanted = [p.name for i, p in enumerate(kernel.params) if i not in kernel.out_idx]
            if all(n in bound for n in wanted):
                return [bound[n] for n in wanted]
        import torch

        random = cast("Any", torch.random)  # its functions are not annotated
        with random.fork_rng(devices=[]):
            random.manual_seed(0)
            return kernel.get_profiler(supply_type).inputs()


def require_numbers(kernel: Kernel, supply_prog: Callable[..., Any] | None) -> None:
    """Raise ScalarInput TB602 where a scalar parameter has no value, though nothing was measured anew."""
    if get_autotune_inputs() is None and supply_prog is None:
        for param in kernel.params:
            if not isinstance(param.value, Buffer):
                make_input(param, "cpu")


def expected_of(kernel: Kernel, inputs: Sequence[Any], reference: Callable[..., Any]) -> list[Any]:
    """The reference's outputs in compute form; of a reference that returns nothing, the tensors that it
    wrote.

    Raises TileError TB630 when it fails.
    """
    copies = verify.snapshot(inputs)
    try:
        made = reference(*copies)
    except Exception as error:
        raise TileError(
            "TB630",
            f"the reference failed: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}",
            why=f"it was called with the {len(copies)} inputs of {kernel.name}",
            fix="ref_prog takes the tensors of a call and returns the outputs",
        ) from error
    if made is None:
        made = [copies[i] for i in written(kernel) if i < len(copies)]
    results = list(cast("Sequence[Any]", made)) if isinstance(made, list | tuple) else [made]
    return [verify.host_values(v, "the reference")[0] for v in results]


def setup(
    job: Job, inputs: Sequence[Any], expected: Sequence[Any] | None, rule: Rule
) -> tuple[Data, list[bytes]]:
    """The first message of a worker that measures. Raises NotPortable for tensors that would change."""
    for value in inputs:
        if args.is_tensor(value):
            tensor = args.view(value, "an input")
            dense = 1
            for extent, stride in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
                if extent != 1 and stride != dense:
                    raise NotPortable("an input is not contiguous, and would be in a worker")
                dense *= extent
        elif not isinstance(value, bool | int | float):
            raise NotPortable(f"an input is a {type(value).__name__}")
    values, buffers = pack(inputs)
    wanted, more = (None, []) if expected is None else pack(expected)
    header: Data = {
        "do": "setup", "target": str(job.target), "config": job.description["config"], "values": values,
        "inputs": len(buffers), "expected": wanted, "rule": vars(rule),
    }  # fmt: skip
    return header, [*buffers, *more]
