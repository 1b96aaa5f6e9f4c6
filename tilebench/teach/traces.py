"""A learner's program run on given inputs, block by block, and the states that it went through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tilebench.errors import nearest
from tilebench.ir.tile import Buffer
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.decorator import compile
from tilebench.kernel.record import Reference, moments, record, trace_of
from tilebench.report import Trace
from tilebench.teach.outcome import Outcome, Unmet
from tilebench.views import trace as codec

EVERYTHING = 1 << 60
"""Bytes: a trace that keeps every value exactly."""


def kernel_of(answer: Any) -> Kernel:
    """The answer as a kernel of the specification. Raises TileError."""
    return compile(answer.prim if isinstance(answer, Kernel) else answer, target="interp")


@dataclass(frozen=True)
class Run:
    """One block of one run. inputs: by name, before the run; trace: exact."""

    kernel: Kernel
    inputs: Mapping[str, np.ndarray]
    trace: Trace

    def number(self, buffer: str) -> int:
        """The number of a buffer in the trace. Raises Unmet naming those that there are."""
        names = [b.name for b in self.trace.buffers]
        if buffer not in names:
            raise Unmet(
                Outcome(
                    f"there is a buffer {buffer}",
                    False,
                    "no-buffer",
                    f"{self.kernel.name} has no buffer called {buffer}{nearest(buffer, names)}",
                    "the check looks for the names that the exercise gives",
                    look=f"the allocations: there are {', '.join(names)}",
                )
            )
        return names.index(buffer)

    def last_write(self, buffer: str, step: int) -> int | None:
        """The last step up to `step` that wrote to a buffer."""
        n = self.number(buffer)
        return next(
            (k for k in range(step, -1, -1) if any(w.buffer == n for w in self.trace.steps[k].writes)), None
        )

    def line(self, step: int | None) -> int:
        """The cell line of a step, 0 for none."""
        return 0 if step is None else self.trace.sites[self.trace.steps[step].site].line

    def final(self, buffer: str) -> np.ndarray:
        """What a buffer held at the end."""
        return codec.Replay(self.trace).to(len(self.trace.steps) - 1).values[self.number(buffer)]


def values_of(kernel: Kernel, inputs: Mapping[str, np.ndarray]) -> list[Any]:
    """A value for each parameter: the inputs by name, zeros for the rest.

    Raises Unmet where a parameter's shape is not that of its input, or an input has no parameter.
    """
    params = {p.name: p.value for p in kernel.params if isinstance(p.value, Buffer)}
    for name, given in inputs.items():
        if name not in params:
            raise _parameters(f"{kernel.name} has no parameter called {name}{nearest(name, params)}", params)
        if params[name].static_shape != given.shape:
            raise _parameters(f"{name} has shape {params[name].static_shape}, not {given.shape}", params)
    return [
        inputs[name].copy() if name in inputs else np.zeros(b.static_shape, np.dtype(b.dtype.name))
        for name, b in params.items()
    ]


def _parameters(saw: str, params: Mapping[str, Any]) -> Unmet:
    return Unmet(
        Outcome(
            "the parameters are those of the exercise",
            False,
            "parameters",
            saw,
            "the check calls the program with tensors of its own",
            look=f"the signature: leave it as the exercise gives it (here: {', '.join(params)})",
        )
    )


def run_of(kernel: Kernel, inputs: Mapping[str, np.ndarray], block: Sequence[int] = (0,)) -> Run:
    """One block, recorded. Raises Unmet where an error of the program ended it."""
    with np.errstate(all="ignore"):
        trace = trace_of(kernel, values_of(kernel, inputs), block=block, limit_bytes=EVERYTHING)
    run = Run(kernel, dict(inputs), trace)
    if trace.stopped:
        step = len(trace.steps) - 1
        raise Unmet(
            Outcome(
                "the program runs to its end",
                False,
                "stopped",
                trace.stopped,
                f"block {tuple(block)} ended after step {max(step, 0)}",
                f"after line {run.line(step)}" if step >= 0 else "the first step",
                "the statement after that line",
                run.line(step) if step >= 0 else 0,
                step,
            )
        )
    return run


def blocks_of(trace: Trace) -> Iterator[tuple[int, ...]]:
    """Every block of the grid."""
    return product(*(range(n) for n in trace.grid))


@dataclass(frozen=True)
class State:
    """The buffers at the end of an iteration of the outermost loop. seen: which columns of the source had
    been read by then; fresh: which of them since the state before.
    """

    step: int
    loop: str
    at: int
    seen: np.ndarray
    fresh: np.ndarray
    values: Mapping[str, np.ndarray]


def states(run: Run, source: str, follow: Sequence[str]) -> list[State]:
    """The states after each iteration, and the end of the trace where there is no loop."""
    trace, number = run.trace, run.number(source)
    for name in follow:
        run.number(name)
    seen = np.zeros(run.inputs[source].shape[1], bool)
    before = seen.copy()
    found: list[State] = []
    for moment in moments(trace):
        for read in trace.steps[moment.step].reads:
            if read.buffer == number:
                (_, first), (_, count) = codec.split(read.box)
                first += trace.buffers[number].origin[1]
                seen[first : first + count] = True
        here = _iteration(trace, moment.step)
        if here is None or here == _iteration(trace, moment.step + 1):
            continue
        values = {name: moment.values[name].copy() for name in follow}
        found.append(State(moment.step, here[0], here[1], seen.copy(), seen & ~before, values))
        before = seen.copy()
    return found


def _iteration(trace: Trace, step: int) -> tuple[str, int] | None:
    if step >= len(trace.steps):
        return None
    names = trace.sites[trace.steps[step].site].vars
    return (names[0], trace.steps[step].at[0]) if names else None


def reads(run: Run, source: str) -> np.ndarray:
    """How often a block read each element of a tensor."""
    number = run.number(source)
    counts = np.zeros(run.inputs[source].shape, int)
    origin = run.trace.buffers[number].origin or (0,) * counts.ndim
    for step in run.trace.steps:
        for read in step.reads:
            if read.buffer == number:
                offsets, extents = codec.split(read.box)
                counts[
                    tuple(slice(o + f, o + f + n) for o, f, n in zip(origin, offsets, extents, strict=True))
                ] += 1
    return counts


def replayed(run: Run, reference: Reference) -> Any:
    """The run as a Recording, compared with the reference at each step."""
    return record(
        run.kernel,
        *values_of(run.kernel, run.inputs),
        block=run.trace.block,
        reference=reference,
        atol=1e-3,
        rtol=1e-3,
    )


__all__ = ["Run", "State", "blocks_of", "kernel_of", "reads", "replayed", "run_of", "states", "values_of"]
