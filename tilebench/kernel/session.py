"""`run`: everything that one `%%tile` cell does, as a plain call: compile, run, check, time, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from tilebench.backends.base import Executable
from tilebench.backends.sequence import Launches
from tilebench.errors import LaunchError, TileError
from tilebench.kernel import checks, timing, verify
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.outputs import poison
from tilebench.kernel.override import EDITED
from tilebench.kernel.performance import device_label
from tilebench.kernel.program import define, prepare
from tilebench.kernel.reporting import make_report
from tilebench.kernel.settings import check_program, check_text, in_force
from tilebench.kernel.target import device_of, is_absent
from tilebench.profiling.benchmark import Times
from tilebench.report import Figure, Finding, Report

Launcher = Callable[[Kernel, Sequence[Any], int], tuple[Times, Times | None]]
"""Launches a kernel on its values once, then so many rounds on copies (0: none); gives the times of both."""


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

    def __repr__(self) -> str:
        from tilebench.views.summary import text

        return text(self.report)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from tilebench.config import current
        from tilebench.views import Board

        board: Any = Board(self.report, static=current().static)
        return board._repr_mimebundle_(include, exclude)


@dataclass(frozen=True)
class _Facts:
    """What goes into the report beside the kernel."""

    findings: list[Finding] = field(default_factory=list[Finding])
    run_ms: Figure | None = None
    checked: checks.Checked = field(default_factory=checks.Checked)


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
    check: bool | str = True,
    bench: int = 0,
    atol: float | None = None,
    rtol: float | None = None,
    seed: int = 0,
    steps: Sequence[str] | None = None,
    cta: Sequence[int] | None = None,
    trace_warps: bool | str = False,
    override: str | Path = "",
    pass_configs: Mapping[Any, Any] | None = None,
    launcher: Launcher | None = None,
    history: Sequence[Any] = (),
    cell: str = "",
    first_line: int = 1,
) -> Result:
    """Compile a program (text or object), run it on `args` (made up from `seed` when None), check and report.

    ref: a PyTorch function of the inputs (the parameters that the kernel reads), giving its outputs, compared
    within the oracle's bounds, or within atol and rtol when one of them is given; settings: values of names
    that the program reads (kernel/settings.py); launch: False compiles only; check: 'none', 'static', 'sim'
    or 'full' (kernel/checks.py), True for static; bench: time it with this many rounds (0: the one run is
    timed on the CPU, not on a GPU); steps: buffers to record for time travel, () for all, in block `cta`
    (None: the one of the worst element, else the first);
    trace_warps: time the warps of block `cta` (None: the first of the launch) with timers in a twin of the
    kernel (kernel/timers.py), 'parts' (or True): what threads compute between two waits as one, 'statements':
    each statement; override: 'cuda' or a path, CUDA text edited by hand
    (kernel/override.py);
    launcher: launches in place of this process (kernel/isolate.py); history: earlier points of the roofline;
    cell and first_line: what messages call the text, and the number of its first line.
    What an option could not do here is said in the report's findings. Raises TileError.
    """
    level, detail = checks.level_of(check), _detail(trace_warps)
    _check_numbers(atol=atol, rtol=rtol, bench=bench)
    settings = dict(settings or {})
    if isinstance(program, str):
        scope: dict[str, Any] = {} if namespace is None else namespace
        check_text(settings, program, scope)
        with in_force(scope, settings):
            program, _ = define(program, scope, name, cell, first_line, tuple(settings))
            prepared = prepare(program, args, settings, target, seed, pass_configs)
    else:
        check_program(settings, program)
        prepared = prepare(program, args, settings, target, seed, pass_configs)
    kernel, values = prepared.kernel, prepared.values
    said: list[Finding] = [_override(kernel, override)] if override else []
    if ref is None and (atol is not None or rtol is not None):
        said += _not_done(tolerance=True, why="they are for --ref; the oracle has a bound of its own")
    if not launch:
        _ = kernel.compilation
        said += _not_done(
            ref=ref is not None,
            bench=bench,
            steps=steps is not None,
            trace=bool(trace_warps),
            check=level in ("sim", "full"),
            why="the kernel was not run",
        )
        return Result(kernel, make_report(kernel, findings=said, history=history))
    _begin_listing(kernel)
    before = verify.snapshot(values)
    if level != "none":
        poison(kernel, values)
    rule = checks.Rule(ref, atol, rtol, seed)
    absent = is_absent(kernel.target) and launcher is None
    if absent:
        arch = kernel.target.arch
        facts = _Facts(
            _not_done(bench=bench, why=f"there is no GPU here; the kernel was compiled for {arch}, not run"),
            None,
            checks.check_emulated(kernel, values, before, rule, level),
        )
    else:
        with nullcontext() if steps is None else _survived() as stopped:
            facts = _launched(kernel, values, before, rule, level, bench, launcher)
        if stopped:
            facts = _Facts([checks.error_finding(stopped[0])])
    findings = [*said, *facts.findings, *facts.checked.findings]
    if override and absent:
        text = (
            "the edited text was compiled, not run: without a GPU the program as it was generated is emulated"
        )
        findings.append(Finding("not-done", "warning", text))
    if level == "none" and ref is not None:
        findings += _not_done(ref=True, why="checking is off")
    report = make_report(
        kernel, diffs=facts.checked.diffs, run_ms=facts.run_ms, findings=findings, history=history,
        counts=facts.checked.counts,
    )  # fmt: skip
    if steps is not None:
        report = _with_steps(report, kernel, before, steps, cta)
    plain = kernel
    if detail and any(f.kind == EDITED for f in said):  # timers are put in where text is generated
        text = "--trace-warps timed the generated text, not the edited one: no timers can be put into that"
        report = replace(report, findings=(*report.findings, Finding("not-done", "warning", text)))
        plain = Kernel(kernel.prim, kernel.target, config=kernel.config)
    if detail:
        report = _with_warps(report, plain, before, cta, detail, isolated=launcher is not None)
    return Result(kernel, report, values)


def _launched(
    kernel: Kernel,
    values: Sequence[Any],
    before: Sequence[Any],
    rule: checks.Rule,
    level: checks.Level,
    bench: int,
    launcher: Launcher | None,
) -> _Facts:
    """Launch, time, compare."""
    if launcher is None:
        watch(kernel, level)
    once, rounds = (launcher or launch_here)(kernel, values, bench)
    checked = checks.Checked() if level == "none" else checks.check_run(kernel, before, values, rule, level)
    device = device_label(kernel)
    run_ms: Figure | None = None
    if rounds is not None:
        run_ms = timing.figure(rounds, device)
    elif device_of(kernel.target) != "cuda":  # the wall clock of one launch says nothing on a GPU
        run_ms = Figure(once.median, "ms", "measured", device, note="one run, the first")
    return _Facts([], run_ms, checked)


def watch(kernel: Kernel, level: checks.Level) -> None:
    """Have the interpreter look for reads before writes, and for races when all is to be checked."""
    if kernel.target.kind != "interp" or level == "none":
        return
    from tilebench.backends.interp import build

    def watched(typed: Any) -> Executable:
        return build(typed, kernel.target, check_init=True, check_races=level == "full")

    executable = kernel.executable
    if isinstance(executable, Launches):
        parts = [watched(cast("Any", e).typed) for e in executable.executables]
        executable = Launches(executable.kernels, parts, executable.shared)
    else:
        executable = watched(kernel.compilation.last)
    kernel.compilation = replace(kernel.compilation, executable=executable)


@contextmanager
def _survived() -> Generator[list[TileError]]:
    """Catches the TileError that ends a run, so that the recording of its steps can still be shown."""
    caught: list[TileError] = []
    try:
        yield caught
    except TileError as error:
        caught.append(error)


def _with_steps(
    report: Report, kernel: Kernel, before: Sequence[Any], steps: Sequence[str], cta: Sequence[int] | None
) -> Report:
    from tilebench.kernel.record import trace_of, with_traces
    from tilebench.kernel.writers import worst_block

    wanted = [steps] if isinstance(steps, str) else list(steps) or None

    def traced(block: Sequence[int]) -> Report:
        made = trace_of(kernel, before, block=block, buffers=wanted, reference="oracle")
        return with_traces(report, made)

    if cta is not None:
        return traced(cta)
    try:
        return traced(worst_block(report) or (0, 0, 0))
    except LaunchError as error:
        if error.code != "TB614":
            raise
    try:  # the worst element may be of a later launch, whose blocks are others
        return traced((0, 0, 0))
    except LaunchError as error:
        if error.code != "TB614":
            raise
        empty = _not_done(steps=True, why="the grid is empty")
        return replace(report, findings=(*report.findings, *empty))


def _with_warps(
    report: Report,
    kernel: Kernel,
    before: Sequence[Any],
    cta: Sequence[int] | None,
    detail: str,
    isolated: bool,
) -> Report:
    from tilebench.kernel.timers import last_of, trace_warps, with_warps

    if isolated:
        why = "with --isolate nothing is launched in this process"
        return replace(report, findings=(*report.findings, *_not_done(trace=True, why=why)))
    each = detail == "statements"
    return with_warps(report, trace_warps(kernel, before, block=cta, predicted=last_of(report), each=each))


def _detail(trace_warps: bool | str) -> str:
    """What is timed: '' for nothing. Raises LaunchError TB617 for another word."""
    if isinstance(trace_warps, bool):
        return "parts" if trace_warps else ""
    if trace_warps not in ("", "parts", "statements"):
        raise LaunchError(
            "TB617",
            f"trace_warps={trace_warps!r} is no level of detail",
            fix="use 'parts' (True) or 'statements'",
        )
    return trace_warps


def _check_numbers(**numbers: float | None) -> None:
    """Raises LaunchError TB617 for a tolerance or a number of rounds that is negative or not a number."""
    for name, value in numbers.items():
        if value is not None and not value >= 0:
            raise LaunchError(
                "TB617", f"{name}={value} makes no sense", why="it is 0 or more", fix=f"leave {name} out"
            )


def _override(kernel: Kernel, where: str | Path) -> Finding:
    from tilebench.kernel.override import override

    return override(kernel, where)


def _not_done(
    *,
    ref: bool = False,
    bench: int = 0,
    steps: bool = False,
    trace: bool = False,
    check: bool = False,
    tolerance: bool = False,
    why: str,
) -> list[Finding]:
    """A finding for each option that was given and could not act."""
    given = (
        ("--ref was not compared", ref),
        ("--bench timed nothing", bool(bench)),
        ("--steps recorded nothing", steps),
        ("--trace-warps measured nothing", trace),
        ("--check looked at nothing", check),
        ("--atol and --rtol did nothing", tolerance),
    )
    return [Finding("not-done", "warning", f"{text}: {why}") for text, wanted in given if wanted]


def _begin_listing(kernel: Kernel) -> None:
    """Have the machine code made readable while the kernel runs and is checked."""
    if kernel.target.kind == "cuda":
        from tilebench.backends.cuda import sass

        sass.begin(kernel.executable.built.binary)


def launch_here(kernel: Kernel, values: Sequence[Any], rounds: int = 0) -> tuple[Times, Times | None]:
    """Launch in this process: once by the wall clock, and in rounds."""
    before = verify.snapshot(values) if rounds else ()
    start = time.perf_counter()
    kernel.launch(values)
    once = Times(((time.perf_counter() - start) * 1e3,))
    return once, timing.bench(kernel, before, rounds) if rounds else None


__all__ = ["Launcher", "Result", "launch_here", "poison", "run", "watch"]
