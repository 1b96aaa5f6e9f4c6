"""What a report says of time: how long compiling and running took, and what limits the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilebench.ir.expr import Var, int_value
from tilebench.kernel.facts import bar_names, identity
from tilebench.kernel.target import device_of
from tilebench.passes.stages import (
    Allocated,
    Partitioned,
    Scheduled,
)
from tilebench.profiling import model
from tilebench.profiling.registers import launch_threads
from tilebench.profiling.work import Work, count
from tilebench.report import (
    Figure,
    Resources,
    RooflinePoint,
)
from tilebench.targets import occupancy

if TYPE_CHECKING:
    from tilebench.kernel.compiled import Kernel


def compile_figures(kernel: Kernel) -> dict[str, Figure]:
    """How long compiling took; of a kernel that was at hand, how long it took to find it."""
    compilation, built = kernel.compilation, kernel.executable.built
    if kernel.recalled_ms is not None:
        note = "cached: compiled before in this process"
        return {"compile_ms": Figure(kernel.recalled_ms, "ms", "measured", "this machine", note=note)}
    passes_us = sum(s.microseconds for s in compilation.snapshots)
    note = "cached: the binary comes from the store" if built.cached else ""
    figures = {
        "compile_ms": Figure(
            (passes_us + compilation.build_microseconds) / 1e3, "ms", "measured", "this machine", note=note
        )
    }
    for name, ms in built.milliseconds.items():
        if not (built.cached and ms == 0):
            figures[f"{name}_ms"] = Figure(ms, "ms", "measured", "this machine")
    return figures


def work_of(kernel: Kernel) -> Work | None:
    """The work of the last call, or of every call; None where it depends on one and there was none."""
    call = kernel.last_call
    if call is None:
        if kernel.prim.symbols:
            return None
        grid = tuple(int_value(g) for g in kernel.prim.grid)
        if any(g is None for g in grid):
            return None
        return count(kernel.prim, tuple(g for g in grid if g is not None), {})
    return count(kernel.prim, call.grid, sizes_of(kernel))


def sizes_of(kernel: Kernel) -> dict[Var, int]:
    """What the last call says of sizes: the symbols of its shapes, and whole numbers that were passed."""
    if kernel.last_call is None:
        return {}
    numbers = {p.value: kernel.last_values.get(p.name) for p in kernel.params if isinstance(p.value, Var)}
    whole = {v: n for v, n in numbers.items() if isinstance(n, int)}
    return {**whole, **kernel.last_call.symbols}


def device_label(kernel: Kernel) -> str:
    """The name of the GPU (that of the last call) or CPU that the kernel runs on, '' when there is none."""
    if device_of(kernel.target) == "cuda":
        try:
            from tilebench.backends.cuda import driver

            last = kernel.last_call.device if kernel.last_call else ""
            index = int(last.removeprefix("cuda:")) if last.startswith("cuda:") else None
            return driver.device_name(index) if driver.available() else ""
        except ImportError:
            return ""
    from tilebench.profiling.cpu_peaks import cpu_name

    return cpu_name()


def resources_of(kernel: Kernel, stages: Any, arch: str) -> Resources:
    """What the binary needs; stages: down to thread IR, None where a GPU cannot do the program."""
    built = kernel.executable.built
    threads = launch_threads(stages.stage(Partitioned)) if stages is not None else kernel.prim.thread_count
    grid = kernel.last_call.grid if kernel.last_call else tuple(int_value(g) or 0 for g in kernel.prim.grid)
    shared = built.shared_bytes
    if stages is not None:
        shared = stages.stage(Allocated).shared_bytes
    if stages is None or (not kernel.target.is_gpu and built.registers is None):
        return Resources(None, None, shared, threads, grid)
    if built.registers is None:
        return Resources(None, None, shared, threads, grid)
    occupied = occupancy(arch, threads, built.registers, shared)
    figure = Figure(occupied.fraction, "of warps", "predicted", f"occupancy table of {arch}")
    return Resources(
        built.registers, built.spill_bytes, shared, threads, grid, occupied.blocks, figure, occupied.limiter
    )


IMITATIONS = {"emu": "emulator_time_ms", "interp": "interpreter_time_ms"}
"""What a run's time is called where the kernel's device is imitated."""


def run_figure(kernel: Kernel, time: Figure) -> dict[str, Figure]:
    """The time of a run, by the name of what it is: how long imitating a device took is no time of the
    kernel.
    """
    name = IMITATIONS.get(kernel.target.kind)
    if name is None:
        return {"run_ms": time}
    notes = [time.note] if time.note else []
    return {name: replace(time, note="; ".join([*notes, "of imitating it, not a time of the kernel"]))}


def performance(
    kernel: Kernel,
    work: Work,
    stages: Any,
    arch: str,
    resources: Resources,
    run_ms: Figure | None,
    history: Sequence[Any],
) -> tuple[Any, tuple[Any, ...]]:
    """(roofline, timelines) of the model, with the measured time as a point."""
    runs_there = kernel.target.kind in (
        "cuda",
        "cpu",
    )  # how long emulating or interpreting took says nothing of the device
    measured = (
        Figure(run_ms.value * 1e3, "us", run_ms.provenance, run_ms.device) if run_ms and runs_there else None
    )
    timelines: tuple[Any, ...] = ()
    device = model.device_for(arch, device_label(kernel) if kernel.target.is_gpu else "")
    occupied = occupancy(arch, resources.threads, resources.registers or 64, resources.shared_bytes)
    prediction: model.Prediction | None = None
    if stages is not None and device is not None:
        names = bar_names(kernel.prim)
        call = kernel.last_call
        grid = call.grid if call else tuple(int_value(g) or 0 for g in kernel.prim.grid)
        prediction = model.predict(
            stages.stage(Scheduled), work, device, occupied, grid, sizes_of(kernel), names,
            resources.spill_bytes or 0.0,
        )  # fmt: skip
        timelines = (prediction.timeline,) if prediction.timeline.bars else ()
    point = RooflinePoint(
        kernel.name, 0.0, 0.0, None, identity(kernel), model.config_text(kernel.config),
        resources.occupancy.value if resources.occupancy else None,
    )  # fmt: skip
    if kernel.target.is_gpu:
        if device is None or prediction is None:
            return None, timelines
        info = model.gpu_roofline(work, device, prediction, measured, point)
    else:
        from tilebench.profiling.cpu_peaks import cpu_name, peaks

        us = measured.value if measured else 0.0
        gflops, gb_s = peaks((work.flops / us / 1e3, work.tensor_bytes / us / 1e3) if us else (0.0, 0.0))
        info = model.cpu_roofline(work, cpu_name(), gflops, gb_s, measured, point)
    if history:
        import dataclasses

        info = dataclasses.replace(info, points=(*history, *info.points))
    return info, timelines
