"""Candidates in one process: loaded, run once and checked, then timed in turn.

What is asked of a candidate before it is timed: every output agrees with the user's reference within the
user's tolerances, or, without one, with the oracle's value within its running error bound on a few blocks;
and every element of an output is written.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tilebench.errors import TileError
from tilebench.ir.tile import Buffer
from tilebench.kernel import args, outputs, verify
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.program import complete
from tilebench.kernel.target import device_of, on_device_of
from tilebench.profiling.stopwatch import Stopwatch, Stopwatches
from tilebench.report import LARGEST_RATIO, DiffInfo

ORACLE_BLOCKS = 4
"""Blocks of a candidate that the oracle evaluates."""
ORACLE_FLOPS = 4e8
"""A candidate whose blocks are more work than this together is checked on fewer of them, at least one."""


@dataclass(frozen=True)
class Rule:
    """How outputs are judged. check: 'reference', 'oracle' or 'none'; the tolerances: of a reference."""

    check: str = "oracle"
    atol: float = 1e-2
    rtol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    seed: int = 0


class Runner(Protocol):
    """Where candidates run: this process (Bench) or a worker (remote.Remote)."""

    def load(self, number: int) -> str:
        """Make a candidate ready and check it; why it is discarded, or nothing."""
        ...

    def time(self, numbers: Sequence[int], rounds: int) -> tuple[list[list[float]], str]:
        """Milliseconds of loaded candidates, timed in turn; and why there are none, if there are none."""
        ...

    def drop(self, number: int) -> None:
        """Forget a candidate."""
        ...

    def close(self) -> None:
        """No more is asked."""
        ...


class Bench:
    """Candidates in this process.

    kernels: makes a candidate's Kernel; inputs: what a call takes; expected: the reference's outputs in
    compute form, in the order of the parameters that the kernel writes (None: the oracle judges).
    """

    def __init__(
        self,
        kernels: Callable[[int], Kernel],
        inputs: Sequence[Any],
        expected: Sequence[Any] | None = None,
        rule: Rule | None = None,
        watch: Callable[[Callable[[], Any], str], Stopwatch] | None = None,
    ) -> None:
        self._kernels, self._inputs, self._expected = kernels, list(inputs), expected
        self._rule, self._own = rule or Rule(), Stopwatches()
        self._watch = watch or self._own
        self._watches: dict[int, Stopwatch] = {}

    def load(self, number: int) -> str:
        """See Runner."""
        with on_device_of(self._inputs):
            return self._load(number)

    def _load(self, number: int) -> str:
        from tilebench.tuning.build import reason_of

        try:
            kernel = self._kernels(number)
            values = complete(kernel, verify.snapshot(self._inputs))
            before = verify.snapshot(values)
            if self._rule.check != "none":
                outputs.poison(kernel, values)
            kernel.launch(values)
            _wait(kernel)
            wrong = judge(kernel, before, values, self._expected, self._rule)
            if wrong:
                return wrong
            self._watches[number] = self._watch(kernel.bind(*values), device_of(kernel.target))
        except (TileError, AssertionError) as error:
            return reason_of(error)
        return ""

    def time(self, numbers: Sequence[int], rounds: int) -> tuple[list[list[float]], str]:
        """See Runner."""
        samples: dict[int, list[float]] = {n: [] for n in numbers}
        with on_device_of(self._inputs):
            for turn in range(rounds):
                for n in numbers if turn % 2 == 0 else list(reversed(numbers)):
                    samples[n].append(self._watches[n]())
        return [samples[n] for n in numbers], ""

    def drop(self, number: int) -> None:
        """See Runner."""
        self._watches.pop(number, None)

    def close(self) -> None:
        """See Runner."""
        self._watches.clear()
        self._own.close()


def _wait(kernel: Kernel) -> None:
    if device_of(kernel.target) == "cuda":
        from tilebench.backends.cuda.driver import synchronize

        synchronize()


def judge(
    kernel: Kernel, before: Sequence[Any], after: Sequence[Any], expected: Sequence[Any] | None, rule: Rule
) -> str:
    """Why the outputs are wrong, in a sentence; nothing when they are right, or are not to be checked."""
    if rule.check == "none":
        return ""
    if rule.check == "reference":
        return _against(kernel, after, expected or (), rule)
    references = _oracle(kernel, before, rule)
    for param, value in zip(kernel.params, after, strict=True):
        if param.name in references:
            diff = verify.compare(
                param.name, *verify.host_values(value, param.name), references[param.name], kernel=kernel
            )
            if diff.verdict == "fail":
                return _off(diff)
    return _unwritten(kernel, after, references)


def _off(diff: DiffInfo) -> str:
    """How far the elements are off; a ratio to a bound of 0, or to a value that is none, is not said."""
    said = f"wrong result: {diff.wrong} of {diff.checked} elements of {diff.output} are off"
    if diff.special:
        said += f", {diff.special} of them NaN or infinite on one side"
    if diff.max_ratio < LARGEST_RATIO:
        return said + f", the worst by {diff.max_ratio:.3g} times the oracle's bound"
    return said + (f", the largest error is {diff.max_abs:.3g}" if diff.wrong > diff.special else "")


def _oracle(kernel: Kernel, before: Sequence[Any], rule: Rule) -> Mapping[str, verify.Reference]:
    """The oracle's references on a few blocks."""
    import math

    from tilebench.profiling.work import count

    host = [v.detach().cpu() if hasattr(v, "detach") else v for v in before]
    call = args.bind(kernel.prim, host, "cpu", host_arrays=True)
    total = math.prod(call.grid)
    if total == 0:
        return {}
    work = count(kernel.prim, call.grid, call.symbols)
    each = (work.flops + 4 * work.global_bytes) / total
    few = max(1, min(ORACLE_BLOCKS, int(ORACLE_FLOPS / max(each, 1.0))))
    blocks = verify.sample_blocks(call.grid, max(4, few), rule.seed)[:few] if total > few else None
    return verify.oracle_references(kernel, before, rule.seed, blocks)


def _unwritten(kernel: Kernel, after: Sequence[Any], references: Mapping[str, verify.Reference]) -> str:
    for name, mask in outputs.missing(kernel, after, references).items():
        return f"wrong result: {int(mask.sum())} of {mask.size} elements of {name} are never written"
    return ""


def written(kernel: Kernel) -> list[int]:
    """Positions of the parameters that a reference gives: the outputs of the call, else what the kernel
    writes.
    """
    if kernel.out_idx:
        return list(kernel.out_idx)
    found = [i for i, p in enumerate(kernel.params) if p.role != "in" and isinstance(p.value, Buffer)]
    return found or [len(kernel.params) - 1]


def _against(kernel: Kernel, after: Sequence[Any], expected: Sequence[Any], rule: Rule) -> str:
    places = written(kernel)
    if len(places) != len(expected):
        return f"the reference gives {len(expected)} outputs, the kernel writes {len(places)}"
    for i, want in zip(places, expected, strict=True):
        name = kernel.params[i].name
        got, _ = verify.host_values(after[i], name)
        if got.shape != want.shape:
            return f"wrong result: {name} has shape {got.shape}, the reference's {want.shape}"
        a, b = got.astype(np.float64), np.asarray(want, np.float64)
        bad = ~np.isclose(a, b, atol=rule.atol, rtol=rule.rtol, equal_nan=True)
        count = int(bad.sum())
        if count > rule.max_mismatched_ratio * a.size:
            with np.errstate(invalid="ignore"):
                largest = float(np.nan_to_num(np.abs(a - b)).max())
            return (
                f"wrong result: {count} of {a.size} elements of {name} differ from the reference "
                f"(atol={rule.atol:g}, rtol={rule.rtol:g}), the largest difference is {largest:.3g}"
            )
    return ""


def median(samples: Sequence[float]) -> float:
    """The median in milliseconds."""
    return statistics.median(samples)
