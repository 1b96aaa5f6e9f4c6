"""`run`: everything that one `%%tile` cell does, as a plain call: compile, run, check, time, report."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tilebench.errors import TileError
from tilebench.ir.tile import Buffer
from tilebench.kernel import verify
from tilebench.kernel.args import bind
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.emulate import emulate
from tilebench.kernel.program import define, prepare
from tilebench.kernel.reporting import make_report
from tilebench.kernel.target import device_of, is_absent
from tilebench.profiling.benchmark import measure
from tilebench.report import DiffInfo, Figure, Finding, Report


@dataclass(frozen=True)
class Result:
    """What a run gives: the kernel, its report, a value for each parameter after the run, and the outputs
    alone.
    """

    kernel: Kernel
    report: Report
    values: tuple[Any, ...] = ()

    @property
    def outputs(self) -> list[Any]:
        """The tensors that the kernel wrote."""
        return [v for v, p in zip(self.values, self.kernel.params, strict=False) if p.role != "in"]


def run(
    program: Any,
    *,
    args: Sequence[Any] | None = None,
    ref: Callable[..., Any] | None = None,
    target: Any = None,
    settings: Mapping[str, Any] | None = None,
    namespace: dict[str, Any] | None = None,
    name: str = "",
    launch: bool = True,
    check: bool = True,
    bench: int = 0,
    atol: float | None = None,
    rtol: float | None = None,
    seed: int = 0,
    pass_configs: Mapping[Any, Any] | None = None,
    launcher: Callable[[Kernel, Sequence[Any]], float] | None = None,
    cell: str = "",
    first_line: int = 1,
) -> Result:
    """Compile a program (text or object), run it on `args` (made up from `seed` when None), check and report.

    ref: a PyTorch function of the inputs (the parameters that the kernel reads), giving its outputs;
    launcher: launches the kernel on all its values and gives milliseconds (None: here; kernel/isolate.py has
    another); settings: values of tunables; bench: time it with this many runs (0: the one run is timed on the
    CPU, not on a GPU); cell and first_line: what messages call the text, and the number of its first line.
    """
    settings = dict(settings or {})
    if isinstance(program, str):
        scope: dict[str, Any] = {} if namespace is None else namespace
        program, _ = define(program, scope, name, cell, first_line)
        with _settled(scope, settings):
            prepared = prepare(program, args, settings, target, seed, pass_configs)
    else:
        prepared = prepare(program, args, settings, target, seed, pass_configs)
    kernel = prepared.kernel
    if not launch:
        _ = kernel.compilation
        return Result(kernel, make_report(kernel))
    _begin_listing(kernel)
    before = verify.snapshot(prepared.values)
    poison(kernel, prepared.values)
    if is_absent(kernel.target) and launcher is None:
        return _emulated(kernel, prepared.values, before, seed)
    wall_ms = (launcher or launch_here)(kernel, prepared.values)
    findings: list[Finding] = list(unwritten(kernel, prepared.values))
    diffs: list[DiffInfo] = []
    if check:
        diffs = _compare(kernel, before, prepared.values, ref, atol, rtol, seed)
    run_ms = _timing(kernel, before, bench, wall_ms)
    return Result(kernel, make_report(kernel, diffs=diffs, run_ms=run_ms, findings=findings), prepared.values)


def _begin_listing(kernel: Kernel) -> None:
    """Have the machine code made readable while the kernel runs and is checked."""
    if kernel.target.kind == "cuda":
        from tilebench.backends.cuda import sass

        sass.begin(kernel.executable.built.binary)


@contextmanager
def _settled(scope: dict[str, Any], settings: Mapping[str, Any]) -> Generator[None]:
    """The settings in force in the scope while the program is compiled; afterwards it is as it was."""
    before = {k: scope[k] for k in settings if k in scope}
    scope.update({k: settings[k] for k in before})
    try:
        yield
    finally:
        scope.update(before)


EMULATED_BLOCKS = 4
"""Blocks of a kernel for an absent GPU that are run in the emulator: corners of the grid first."""


def _emulated(kernel: Kernel, values: Sequence[Any], before: Sequence[Any], seed: int) -> Result:
    """A kernel for a GPU that is not here: compiled, a few blocks emulated thread by thread, and those
    compared with the oracle.
    """
    call = bind(kernel.prim, values, "cpu", host_arrays=True)
    kernel.last_call = call
    findings: list[Finding] = []
    diffs: list[DiffInfo] = []
    counts = None
    blocks = verify.sample_blocks(call.grid, EMULATED_BLOCKS, seed) if 0 not in call.grid else []
    if blocks:
        result = emulate(kernel, *values, blocks=blocks)
        counts = result.counts
        findings = [f for f in result.findings if f.kind != "unwritten"]
        references = verify.oracle_references(kernel, before, seed, blocks)
        for param, value in zip(kernel.params, values, strict=True):
            if param.name in references:
                got, dtype = verify.host_values(value, param.name)
                diffs.append(verify.compare(param.name, got, dtype, references[param.name], kernel=kernel))
    total = math.prod(call.grid)
    note = (
        f"no GPU here: compiled for {kernel.target.arch}, {len(blocks)} of {total} blocks run by the emulator"
    )
    findings.append(Finding("emulated", "info", note))
    report = make_report(kernel, diffs=diffs, findings=findings, counts=counts)
    return Result(kernel, report, tuple(values))


def launch_here(kernel: Kernel, values: Sequence[Any]) -> float:
    """Launch in this process; milliseconds by the wall clock."""
    start = time.perf_counter()
    kernel.launch(values)
    return (time.perf_counter() - start) * 1e3


def _timing(kernel: Kernel, values: Sequence[Any], bench: int, wall_ms: float) -> Figure | None:
    from tilebench.kernel.reporting import device_label

    device = device_label(kernel)
    if bench:
        scratch = verify.snapshot(values)
        times = measure(lambda: kernel.launch(scratch), warmup_ms=10, rep_ms=100, repeat_count=bench)
        return Figure(statistics.median(times.milliseconds), "ms", "measured", device)
    if device_of(kernel.target) == "cuda":
        return None  # the wall clock of one launch says nothing on a GPU
    return Figure(wall_ms, "ms", "measured", device)


def _compare(
    kernel: Kernel,
    before: Sequence[Any],
    after: Sequence[Any],
    ref: Callable[..., Any] | None,
    atol: float | None,
    rtol: float | None,
    seed: int,
) -> list[DiffInfo]:
    oracle = verify.oracle_references(kernel, before, seed)
    diffs: list[DiffInfo] = []
    outputs = {p.name: v for p, v in zip(kernel.params, after, strict=True) if p.role != "in"}
    if ref is not None:
        expected = reference_values(kernel, before, ref, list(outputs))
        diffs += verify.against_reference(kernel, outputs, expected, oracle, atol, rtol)
    for name, value in outputs.items():
        if name in oracle:
            got, dtype = verify.host_values(value, name)
            diffs.append(verify.compare(name, got, dtype, oracle[name], kernel=kernel))
    return diffs


def reference_values(
    kernel: Kernel, before: Sequence[Any], ref: Callable[..., Any], outputs: Sequence[str]
) -> dict[str, Any]:
    """The reference's outputs by name.

    It is called with the values of the parameters that the kernel reads.
    """
    inputs = [v for p, v in zip(kernel.params, before, strict=True) if p.role != "out"]
    try:
        made = ref(*[x.clone() if hasattr(x, "clone") else x for x in inputs])
    except Exception as error:
        raise TileError(
            "TB630",
            f"the reference failed: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}",
            why=f"it was called with the {len(inputs)} inputs of {kernel.name}",
            fix="--ref takes a function of the kernel's inputs that returns its outputs",
        ) from error
    values = list(cast("Sequence[Any]", made)) if isinstance(made, list | tuple) else [made]
    if len(values) != len(outputs):
        raise TileError(
            "TB630",
            f"the reference returns {len(values)} values, "
            f"the kernel writes {len(outputs)} ({', '.join(outputs)})",
        )
    return dict(zip(outputs, values, strict=True))


def poison(kernel: Kernel, values: Sequence[Any]) -> None:
    """Fill the tensors that the kernel only writes with NaN (the lowest value for integers), so that gaps
    show.
    """
    for param, value in zip(kernel.params, values, strict=True):
        if param.role == "out" and isinstance(param.value, Buffer):
            fill = (
                float("nan")
                if param.value.dtype.is_float
                else 0
                if param.value.dtype.kind == "bool"
                else int(param.value.dtype.min)
            )
            if isinstance(value, np.ndarray):
                value.fill(fill)
            else:
                value.fill_(fill)


def unwritten(kernel: Kernel, values: Sequence[Any]) -> list[Finding]:
    """A finding for each float output with a NaN: the poison of `poison` that nothing overwrote, or a NaN
    that the kernel computed.
    """
    found: list[Finding] = []
    for param, value in zip(kernel.params, values, strict=True):
        if param.role != "out" or not isinstance(param.value, Buffer) or not param.value.dtype.is_float:
            continue
        got, _ = verify.host_values(value, param.name)
        missing = np.isnan(got)
        if missing.any():
            first = tuple(int(i) for i in np.argwhere(missing)[0])
            found.append(
                Finding(
                    "unwritten", "warning",
                    f"{param.name} has {int(missing.sum())} elements that are NaN or were never written, "
                    f"the first at {list(first)}",
                    hint="does the grid cover the whole output? is a guard too narrow?",
                )
            )  # fmt: skip
    return found
