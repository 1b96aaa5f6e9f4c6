"""`--trace-warps`: the timeline of one block as timers inside the kernel saw it.

The kernel that is run, checked and timed has no timers. A twin of it has (ir/timers.py): it is compiled
beside it, launched on copies of the same inputs, and its stamps become a timeline beside the predicted one.
What the timers cost is measured too: both are timed in turns. Where there is no GPU the emulator runs the
twin's block, and its counter, which counts statements, gives a simulated timeline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tilebench import compiler
from tilebench.errors import LaunchError, TileError
from tilebench.ir.thread import Program
from tilebench.ir.timers import CAPACITY, with_timers, words_of
from tilebench.kernel import args, timing, verify
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.emulate import refuse_several
from tilebench.kernel.facts import bar_names, span
from tilebench.kernel.performance import device_label
from tilebench.kernel.target import is_absent, on_device_of
from tilebench.passes.stages import Lowered, Partitioned
from tilebench.profiling import measured
from tilebench.profiling.benchmark import Times
from tilebench.profiling.stamps import WarpStamps, clock_rate, read
from tilebench.profiling.work import count
from tilebench.report import Figure, Finding, Report, TimelineInfo
from tilebench.targets import parse

if TYPE_CHECKING:
    from tilebench.passes.stages import Synchronised

R = TypeVar("R")
ROUNDS = 10
"""Rounds of each of the two kernels, twice in turns."""
EARLY = 3
"""Launches before those rounds: the clock is measured between two whose blocks were on the same SM."""
LAUNCHES = 24
"""At the most, before the clock is given up."""
BLOCK_FLOPS = 2e9
"""A block with more work than this is not emulated (as kernel/checks.py has it)."""
OPTION = "--trace-warps"


@dataclass(frozen=True)
class WarpTrace:
    """What timing the warps gave. timeline: None when there is none, and the findings say why."""

    timeline: TimelineInfo | None = None
    findings: tuple[Finding, ...] = ()
    figures: dict[str, Figure] = field(default_factory=dict[str, Figure])


def with_warps(report: Report, traced: WarpTrace) -> Report:
    """The report with the timeline beside the predicted one."""
    kept = tuple(t for t in report.timelines if t.provenance == "predicted")
    timelines = (*kept, traced.timeline) if traced.timeline is not None else report.timelines
    findings = (*report.findings, *traced.findings)
    return replace(
        report, timelines=timelines, findings=findings, figures={**report.figures, **traced.figures}
    )


def trace_warps(
    kernel: Kernel,
    values: Sequence[Any],
    *,
    block: Sequence[int] | None = None,
    predicted: TimelineInfo | None = None,
    capacity: int = CAPACITY,
    rounds: int = ROUNDS,
    each: bool = False,
) -> WarpTrace:
    """Time the warps of a block. values: one for each parameter, as they were before the run; they are not
    changed.

    block: its place in the launch (None: the first); predicted: the timeline whose lanes and phases are
    taken; capacity: stamps that each warp has room for; rounds: launches that are timed to see what the
    timers cost, 0 for none; each: time every statement, not those between two waits as one. Raises
    LaunchError TB614 for a block that is not in the grid. What goes wrong otherwise is a finding: the run
    that was asked for is not lost.
    """
    kind = kernel.target.kind
    if kind not in ("cuda", "emu"):
        text = f"{OPTION} timed nothing: {kernel.target} runs blocks without warps, so there are none to time"
        return WarpTrace(None, (_not_done(kernel, text, "--target emu shows their order, cuda their times"),))
    twin = Kernel(with_timers(kernel.prim, capacity, each), kernel.target, config=kernel.config)
    try:
        refuse_several(kernel, OPTION)
        if kind == "emu" or is_absent(kernel.target):
            return _simulated(kernel, twin, values, block, predicted, capacity)
        with on_device_of(values):
            return _measured(kernel, twin, values, block, predicted, capacity, rounds)
    except TileError as error:
        if isinstance(error, LaunchError) and error.code == "TB614":
            raise
        text = f"{OPTION} timed nothing: {error.what}"
        return WarpTrace(None, (replace(_not_done(kernel, text, error.fix), code=error.code),))


def _not_done(kernel: Kernel, text: str, hint: str = "") -> Finding:
    place = span(kernel.prim.loc)
    return Finding("not-done", "warning", text, (place,) if place else (), hint)


def _number(kernel: Kernel, block: Sequence[int] | None, grid: tuple[int, ...]) -> int:
    """The flat number of a block (x fastest)."""
    place = tuple(block or ())
    rest = place[len(grid) :]
    padded = (*place, *(0 for _ in grid))[: len(grid)]
    if any(rest) or any(not 0 <= i < n for i, n in zip(padded, grid, strict=True)):
        raise LaunchError(
            "TB614",
            f"block {place} is not in the grid {grid}",
            at=kernel.prim.loc,
            why=f"{OPTION} times one block of the launch",
            fix="name one with --cta x,y,z, each from 0 to below the grid's extent",
        )
    number = 0
    for i, n in zip(reversed(padded), reversed(grid), strict=True):
        number = number * n + i
    return number


def _place(number: int, grid: tuple[int, ...]) -> str:
    index: list[int] = []
    for n in grid:
        number, i = divmod(number, n)
        index.append(i)
    return str(index[0]) if len(index) == 1 else str(tuple(index))


# ------------------------------------------------------------------ in the emulator


def _simulated(
    kernel: Kernel,
    twin: Kernel,
    values: Sequence[Any],
    block: Sequence[int] | None,
    predicted: TimelineInfo | None,
    capacity: int,
) -> WarpTrace:
    """The block in the emulator, in the order in which its statements ran."""
    from tilebench.backends.emulator import run_program

    host = verify.snapshot([v.detach().cpu() if hasattr(v, "detach") else v for v in values])
    words = np.zeros(words_of(kernel.prim, capacity), np.int32)
    call = args.bind(twin.prim, [*host, words], "cpu", host_arrays=True)
    if 0 in call.grid:
        return WarpTrace(None, (_not_done(kernel, f"{OPTION} timed nothing: the grid is empty"),))
    effort = count(kernel.prim, call.grid, call.symbols).flops / math.prod(call.grid)
    if effort > BLOCK_FLOPS:
        text = f"{OPTION} timed nothing: a block has {effort:.1e} operations, too many for the emulator"
        return WarpTrace(None, (_not_done(kernel, text, "smaller sizes show the same order"),))
    arch = kernel.target.arch or "sm_90a"
    stages = compiler.analyse(twin.prim, parse(f"emu:{arch}"), thread_ir=True)
    lowered: Lowered = stages.stage(Lowered)
    grid = lowered.program.launched(call.grid)
    words[0] = number = _number(kernel, block, grid)
    run_program(lowered, call.arguments, call.symbols, call.grid, blocks=[number], checks=False)
    stamps = read(words, kernel.prim, lowered.program, capacity)
    drawn = measured.drawn(stamps, _setting(kernel, lowered, 1.0, "steps", predicted))
    note = (
        f"block {_place(number, grid)}, {_warps(drawn)}; the emulator for {arch} ran it, and its counter "
        "counts statements: what ran before what, not how long it took"
    )
    info = replace(drawn, provenance="simulated", note=note + _lost(stamps), device=f"emulator, {arch}")
    text = f"{OPTION} on the emulator: an order of statements, no times"
    return WarpTrace(info, (Finding("warps", "info", text, hint="a GPU gives times: --target cuda"),))


# ------------------------------------------------------------------ on a GPU


def _measured(
    kernel: Kernel,
    twin: Kernel,
    values: Sequence[Any],
    block: Sequence[int] | None,
    predicted: TimelineInfo | None,
    capacity: int,
    rounds: int,
) -> WarpTrace:
    """The block on the GPU, with what the timers cost."""
    import torch

    plain, own = verify.snapshot(values), verify.snapshot(values)
    words = torch.zeros(words_of(kernel.prim, capacity), dtype=torch.int32, device="cuda")
    lowered: Lowered = twin.compilation.stage(Lowered)
    call = args.bind(twin.prim, [*own, words], "cuda", host_arrays=False)
    if 0 in call.grid:
        return WarpTrace(None, (_not_done(kernel, f"{OPTION} timed nothing: the grid is empty"),))
    grid = lowered.program.launched(call.grid)
    number = _number(kernel, block, grid)

    def launch() -> tuple[WarpStamps, ...]:
        words.zero_()
        words[0] = number
        stream = torch.cuda.current_stream()
        stream.synchronize()  # an idle GPU gives the block the same SM each time
        twin.executable.launch(call.arguments, call.symbols, call.grid, stream.cuda_stream)
        return read(words.cpu().numpy(), kernel.prim, lowered.program, capacity)

    kernel.launch(plain)
    first = launch()
    same = all(_equal(a, b) for a, b in zip(plain, own, strict=True))
    launches, (times, timed) = around(launch, lambda: _cost(kernel, twin, plain, [*own, words], rounds))
    taken = Taken(
        (first, *launches), times, timed, same, _driver_rate(), device_label(kernel), _place(number, grid)
    )
    return summed(kernel, twin, taken, predicted)


def around(
    launch: Callable[[], tuple[WarpStamps, ...]], timing: Callable[[], R]
) -> tuple[tuple[tuple[WarpStamps, ...], ...], R]:
    """Stamps of launches before and after `timing`, and what that gave: launches afterwards until one has
    its block on the SM of an earlier one, so that the clock can be told; a GPU promises no block an SM.
    """
    launches = [launch() for _ in range(EARLY)]
    result = timing()
    launches.append(launch())
    while clock_rate(launches) is None and len(launches) < LAUNCHES:
        launches.append(launch())
    return tuple(launches), result


def _driver_rate() -> float:
    """Cycles in a microsecond at the highest clock that the driver names."""
    from tilebench.backends.cuda import driver

    return driver.properties(driver.gpu().current_device()).clock_khz / 1e3


@dataclass(frozen=True)
class Taken:
    """What was taken on a GPU: the stamps of each launch with timers, in order, times of the kernel without
    and with them (None: not asked for), whether both wrote the same values; the SM's highest clock in cycles
    a microsecond; names of device and block.
    """

    launches: tuple[tuple[WarpStamps, ...], ...]
    times: Times | None
    timed: Times | None
    same: bool
    highest: float
    device: str
    block: str


def summed(kernel: Kernel, twin: Kernel, taken: Taken, predicted: TimelineInfo | None) -> WarpTrace:
    """The timeline, what there is to say of it, and the figures. twin: the kernel with timers, compiled."""
    lowered: Lowered = twin.compilation.stage(Lowered)
    measured_rate = clock_rate(taken.launches)
    last = taken.launches[-1]
    rate = measured_rate or taken.highest
    said = f"SM clock {rate / 1e3:.3f} GHz, " + (
        "measured" if measured_rate else "the highest that the driver names: it may have been lower"
    )
    drawn = measured.drawn(last, _setting(kernel, lowered, rate, "us", predicted))
    with_, without = twin.executable.built, kernel.executable.built
    cost = _cost_text(taken.times, taken.timed)
    note = f"block {taken.block} on SM {last[0].sm}, {_warps(drawn)}; {cost}{said}; "
    note += f"{with_.registers} registers a thread with timers, {without.registers} without{_lost(last)}"
    findings = [Finding("warps", "info", f"{OPTION}: {cost}one block was timed")]
    if not taken.same:
        text = f"{OPTION}: the kernel with timers wrote other values than the one without"
        hint = "sums by atomics differ from run to run; else please report it with this cell"
        findings.append(Finding("warps", "warning", text, hint=hint))
    if (with_.spill_bytes or 0) > (without.spill_bytes or 0):
        text = f"{OPTION}: with timers {with_.spill_bytes} bytes of registers spill: the bars are too long"
        findings.append(Finding("warps", "warning", text))
    figures: dict[str, Figure] = {}
    total = 0.0
    if taken.times is not None and taken.timed is not None:
        total = taken.times.median * 1e3
        figures = {
            "timed_ms": replace(timing.figure(taken.timed, taken.device), note="with timers in the kernel"),
            "untimed_ms": replace(timing.figure(taken.times, taken.device), note="in turns with the former"),
        }
    info = replace(drawn, note=note, device=taken.device, total_us=total)
    return WarpTrace(info, tuple(findings), figures)


def _cost(
    kernel: Kernel, twin: Kernel, plain: Sequence[Any], own: Sequence[Any], rounds: int
) -> tuple[Times | None, Times | None]:
    """Times of the kernel without and with timers, in turns."""
    if not rounds:
        return None, None
    sides: tuple[list[float], list[float]] = ([], [])
    for _ in range(2):
        for k, (one, given) in enumerate(((kernel, plain), (twin, own))):
            sides[k].extend(timing.bench(one, given, rounds).milliseconds)
    return Times(tuple(sides[0])), Times(tuple(sides[1]))


def _cost_text(times: Times | None, timed: Times | None) -> str:
    """'with timers 84.1 us, without 83.2 us (+1.1 %, medians of 20 rounds each); '."""
    if times is None or timed is None:
        return ""
    with_, without = timed.median * 1e3, times.median * 1e3
    more = 100 * (with_ / without - 1) if without else 0.0
    return (
        f"with timers {with_:.4g} us, without {without:.4g} us ({more:+.2g} %, medians of {times.rounds} "
        "rounds each); "
    )


def _equal(a: Any, b: Any) -> bool:
    """Whether two arguments hold the same bits."""
    if not hasattr(a, "element_size"):
        return True
    import torch

    left, right = (x.contiguous().reshape(-1).view(torch.uint8) for x in (a, b))
    return bool(torch.equal(left, right))


# ------------------------------------------------------------------ both


def _setting(
    kernel: Kernel, lowered: Lowered, rate: float, unit: Any, predicted: TimelineInfo | None
) -> measured.Setting:
    program: Program = lowered.program
    stage: Synchronised = lowered.synchronised
    partitioned: Partitioned = stage.allocated.scheduled.placed.partitioned
    return measured.Setting(
        kernel.prim, program.timers, bar_names(kernel.prim), partitioned.specialised, rate, unit, predicted
    )


def _warps(info: TimelineInfo) -> str:
    """'warps 0, 4, 8'."""
    names = ", ".join(map(str, info.warps))
    return f"warp{'s' * (len(info.warps) != 1)} {names}"


def _lost(stamps: Sequence[WarpStamps]) -> str:
    lost = sum(s.lost for s in stamps)
    return f"; {lost} stamps found no place: the end of the block is missing" if lost else ""


def last_of(report: Report) -> TimelineInfo | None:
    """The predicted timeline of a report."""
    return next((t for t in report.timelines if t.provenance == "predicted"), None)


__all__ = ["WarpTrace", "last_of", "trace_warps", "with_warps"]
