"""What orders the candidates before any is measured: the predicted time on a GPU, the traffic on a CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilebench.kernel.compiled import Kernel
from tilebench.passes.stages import Allocated, Partitioned, Placed, Scheduled
from tilebench.profiling import model, registers
from tilebench.profiling.work import count, evaluate
from tilebench.targets import occupancy


@dataclass(frozen=True)
class Cost:
    """order: candidates with less are measured first; predicted_us: the model's time of a launch, None where
    there is no model (a CPU) or the extents are known at the call only.
    """

    order: float
    predicted_us: float | None = None


def cost(kernel: Kernel, extents: Mapping[str, int] | None = None, device: str = "") -> Cost:
    """The cost of a compiled candidate. extents: of its symbols; device: the GPU's name."""
    prim = kernel.prim
    if any(v.name not in (extents or {}) for v in prim.symbols):
        return Cost(float("inf"))
    symbols = {v: int((extents or {})[v.name]) for v in prim.symbols}
    sizes = [evaluate(g, {v: float(n) for v, n in symbols.items()}) for g in prim.grid]
    if None in sizes:
        return Cost(float("inf"))
    grid = tuple(int(n or 0) for n in sizes)
    work = count(prim, grid, symbols)
    sheet = model.device_for(kernel.target.arch or "", device) if kernel.target.kind == "cuda" else None
    if sheet is None:
        return Cost(float(work.global_bytes))
    stages, built = kernel.compilation, kernel.executable.built
    arch, parts = kernel.target.arch or sheet.arch, stages.stage(Partitioned)
    threads = registers.launch_threads(parts)
    used = built.registers or min(registers.estimate(stages.stage(Placed)), registers.limit(arch, threads))
    shared = built.shared_bytes or stages.stage(Allocated).shared_bytes
    occupied = occupancy(arch, threads, used, shared)
    made = model.predict(
        stages.stage(Scheduled),
        work,
        sheet,
        occupied,
        grid,
        symbols,
        spill_bytes=float(built.spill_bytes or 0),
    )
    return Cost(made.total_us, made.total_us)
