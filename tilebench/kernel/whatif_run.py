"""`run and measure` of what-if: one choice of the tunables on this machine, checked, then timed.

It runs on the GPU where there is one, else on the CPU, on copies of the inputs of the last call, or on
made-up ones. Between its steps, and between slices of the timing, it can be ended; a launch that has begun
runs to its end.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from tilebench.errors import LaunchError
from tilebench.ir.expr import Var, int_value
from tilebench.ir.tile import Buffer
from tilebench.kernel import checks, timing, verify
from tilebench.kernel.args import bind
from tilebench.kernel.compiled import Kernel, torch_dtype
from tilebench.kernel.compiling import Cancelled
from tilebench.kernel.outputs import poison
from tilebench.kernel.performance import device_label
from tilebench.kernel.program import complete, make_inputs
from tilebench.kernel.target import device_of, gpu_arch, resolve
from tilebench.kernel.verdict import verdict
from tilebench.profiling.benchmark import Times
from tilebench.profiling.work import count
from tilebench.report import Figure
from tilebench.targets import Target, parse

SLICES, ROUNDS = 5, 4
"""The timing is made of so many slices of so many rounds; between slices it can be ended."""
LEAST_MS = 10.0
LONG_MS = 1000.0
"""A first launch longer than this is the only sample."""
LONGEST_S = 120.0
"""On the CPU a launch that would take longer, by the CPU's measured peak, is not begun."""


@dataclass(frozen=True)
class Inputs:
    """Values of a kernel's parameters by name, or in order (outputs may be left out), and where they come
    from.
    """

    by_name: Mapping[str, Any] = field(default_factory=dict[str, Any])
    source: str = "made-up inputs"
    in_order: tuple[Any, ...] | None = None

    def named(self, kernel: Kernel) -> Inputs:
        """By the names of a kernel's parameters. Raises LaunchError TB602 for another number of them."""
        if self.in_order is None:
            return self
        return inputs_of(kernel, complete(kernel, self.in_order), self.source)


@dataclass(frozen=True)
class Measured:
    """What a run gave: its time, whether the result is right (None: not decided), and the sentence on it."""

    time: Figure
    ok: bool | None
    verdict: str


def local_target() -> Target:
    """Where a candidate runs: the GPU that is here, else the CPU, else the interpreter."""
    arch = gpu_arch()
    return parse(f"cuda:{arch}") if arch is not None else resolve("cpu")


def inputs_of(kernel: Kernel, values: Sequence[Any], source: str) -> Inputs:
    """Named inputs from one value for each parameter."""
    return Inputs({p.name: v for p, v in zip(kernel.params, values, strict=True)}, source)


def last_inputs(kernel: Kernel) -> Inputs:
    """The tensors of a call of the kernel, as far as they are alive."""
    found: dict[str, Any] = {}
    for name, held in kernel.last_values.items():
        value: Any = cast("Any", held)() if isinstance(held, weakref.ref) else held
        if value is not None:
            found[name] = value
    return Inputs(found, "the inputs of its call") if found else Inputs()


def values_for(kernel: Kernel, inputs: Inputs) -> tuple[list[Any], str]:
    """Copies of the inputs as this kernel takes them, and what was done to them in words.

    A tensor of another type is converted; one that is not there, or has another shape, is made up. Raises
    LaunchError TB602, TB604 for what cannot be made up.
    """
    import torch

    device = device_of(kernel.target)
    found: dict[str, Any] = {}
    converted: list[str] = []
    for param in kernel.params:
        given = inputs.by_name.get(param.name)
        if given is None:
            continue
        if isinstance(param.value, Var):
            found[param.name] = given
            continue
        if isinstance(given, np.ndarray):
            given = torch.from_numpy(given)  # pyright: ignore[reportUnknownMemberType] # torch's own gap
        if not _fits(param.value, tuple(given.shape)):
            continue
        dtype = torch_dtype(param.value.dtype.name)
        if given.dtype != dtype:
            converted.append(f"{param.name} as {param.value.dtype.name}")
        found[param.name] = given.detach().to(device=device, dtype=dtype).clone()
    missing = [p.name for p in kernel.params if p.name not in found]
    made: list[Any] = []
    if missing:
        made = make_inputs(kernel, 0)
    values = [found.get(p.name, made[i] if missing else None) for i, p in enumerate(kernel.params)]
    words = [inputs.source] if found else []
    words += [", ".join(converted)] if converted else []
    if missing:
        words.append("made-up inputs" if not found else f"{', '.join(missing)} made up")
    return values, "; ".join(words)


def _fits(buffer: Buffer, shape: tuple[int, ...]) -> bool:
    sizes = [int_value(s) for s in buffer.shape]
    return len(sizes) == len(shape) and all(n is None or n == m for n, m in zip(sizes, shape, strict=True))


def run_and_measure(
    kernel: Kernel,
    inputs: Inputs,
    ref: Callable[..., Any] | None,
    ended: Callable[[], bool],
    said: Callable[[str], None],
) -> Measured:
    """Launch once, compare with the reference (None: the oracle alone), then time it.

    ended: whether to stop, asked between steps; said: is told what goes on. Raises Cancelled; TileError for
    what is wrong with the program or the call.
    """

    def step(text: str) -> None:
        if ended():
            raise Cancelled
        said(text)

    values, source = values_for(kernel, inputs)
    step("compiling")
    _ = kernel.compilation
    _affordable(kernel, values)
    before = verify.snapshot(values)
    poison(kernel, values)
    step("running")
    once, _ = _launched(kernel, values)
    step("comparing")
    checked = checks.check_run(kernel, before, values, checks.Rule(ref), "static")
    sentence, ok = verdict(checked.diffs, checked.findings, True)
    step("timing")
    device = device_label(kernel)
    note = f"with {source}"
    if kernel.target.kind != "cuda":
        note += "; this machine, not the one of the prediction"
        if once.median > LONG_MS:
            one = Figure(once.median, "ms", "measured", device, note=f"one run, {note}")
            return Measured(one, ok, sentence)
    samples: list[float] = []
    for _ in range(SLICES):
        step("timing")
        samples += timing.bench(kernel, before, ROUNDS).milliseconds
    return Measured(replace(_in_us(timing.figure(Times(tuple(samples)), device)), note=note), ok, sentence)


def _in_us(figure: Figure) -> Figure:
    """In microseconds, as predictions are, where it is less than ten milliseconds."""
    if figure.value >= LEAST_MS or figure.low is None or figure.high is None:
        return figure
    low, high = figure.low * 1e3, figure.high * 1e3
    return replace(figure, value=figure.value * 1e3, low=low, high=high, unit="us")


def _launched(kernel: Kernel, values: Sequence[Any]) -> tuple[Times, Any]:
    from tilebench.kernel.session import launch_here

    return cast("tuple[Times, Any]", launch_here(kernel, values))


def _affordable(kernel: Kernel, values: Sequence[Any]) -> None:
    """Raises LaunchError TB617 for a launch that would hold the CPU for minutes."""
    if kernel.target.kind != "cpu":
        return
    from tilebench.profiling.cpu_peaks import peaks

    call = bind(kernel.prim, values, "cpu", host_arrays=False)
    flops = count(kernel.prim, call.grid, call.symbols).flops if math.prod(call.grid) else 0.0
    gflops, _ = peaks()
    seconds = flops / (gflops * 1e9)
    if seconds > LONGEST_S:
        raise LaunchError(
            "TB617",
            f"a launch would take at least {seconds:.0f} s on this CPU",
            at=kernel.prim.loc,
            why=f"{flops:.2g} operations at {gflops:.3g} GFLOP/s, the peak that was measured",
            fix="give smaller sizes, or run it where there is a GPU",
        )


__all__ = ["Inputs", "Measured", "inputs_of", "last_inputs", "local_target", "run_and_measure", "values_for"]
