"""The predicted timeline of a pipelined loop: its `Schedule` played on three resources with the model's
costs.
"""

from __future__ import annotations

from tilebench.ir.tile import Stmt
from tilebench.passes.stages import Schedule, Scheduled, ScheduledOp
from tilebench.report import TimelineBar, TimelineInfo
from tilebench.targets import Device

ITERATIONS_SHOWN = 8
LATENCY_US = 0.6
"""Time from issuing a copy from memory to its data, in microseconds (order of magnitude, H100 class)."""


def _microseconds(op: ScheduledOp, device: Device, blocks_per_sm: int) -> float:
    """Time of one execution by one block that has its SM's share of every unit."""
    cost, share = op.cost, max(1, blocks_per_sm)
    per_sm = device.sm_count
    bytes_moved = cost.read.get("global", 0.0) + cost.written.get("global", 0.0)
    if op.resource == "copy":
        return bytes_moved * share / (device.memory_gb_s * 1e3 / per_sm)
    if op.resource == "tensor":
        return cost.flops * share / (device.f16_tflops * 0.62 * 1e6 / per_sm)
    special = cost.transcendentals / (16 * device.boost_mhz)
    return share * max(cost.flops / (device.f32_tflops * 0.5 * 1e6 / per_sm), special, 0.02)


def predicted(
    scheduled: Scheduled, names: dict[Stmt, tuple[str, str, int]], device: Device, blocks_per_sm: int
) -> TimelineInfo | None:
    """Bars of the first iterations of the first pipelined loop; names: statement -> (op id, label, cell
    line).

    None without one.
    """
    if not scheduled.schedules:
        return None
    schedule = scheduled.schedules[0]
    bars, arrows = _play(schedule, names, device, blocks_per_sm)
    note = (
        f"{schedule.stages} stages, {blocks_per_sm} blocks on an SM; "
        f"costs from the data sheet of {device.name}"
    )
    return TimelineInfo("predicted", tuple(bars), tuple(arrows), note)


def _play(
    schedule: Schedule, names: dict[Stmt, tuple[str, str, int]], device: Device, blocks_per_sm: int
) -> tuple[list[TimelineBar], list[tuple[int, int]]]:
    producers = [op for op in schedule.ops if op.asynchronous and op.resource == "copy"]
    consumers = [op for op in schedule.ops if op not in producers]
    depth = max(1, schedule.stages - 1) if producers else 0
    bars: list[TimelineBar] = []
    arrows: list[tuple[int, int]] = []
    copy_free = 0.0
    ready: dict[int, tuple[float, list[int]]] = {}
    now = 0.0
    done: dict[int, tuple[float, int]] = {}

    def add(op: ScheduledOp, lane: str, start: float, end: float, k: int, phase: str) -> int:
        ident, label, line = names.get(op.stmt, ("", type(op.stmt).__name__.lower(), 0))
        bars.append(TimelineBar(lane, ident, label, round(start, 4), round(end, 4), k, phase, line))  # type: ignore[arg-type]
        return len(bars) - 1

    def issue(k: int, at: float, phase: str) -> None:
        nonlocal copy_free
        start = max(at, copy_free)
        held: list[int] = []
        for op in producers:
            end = start + _microseconds(op, device, blocks_per_sm)
            held.append(add(op, "copy", start, end, k, phase))
            start = end
        copy_free = start
        ready[k] = (start + LATENCY_US, held)

    for k in range(min(depth, ITERATIONS_SHOWN)):
        issue(k, 0.0, "prologue")
    for k in range(ITERATIONS_SHOWN):
        phase = "steady" if k + depth < ITERATIONS_SHOWN else "epilogue"
        if producers:
            if k + depth < ITERATIONS_SHOWN:
                before = done.get(k - 1)
                issue(k + depth, before[0] if before else now, "steady")
            now = max(now, ready[k][0])
        first = len(bars)
        for op in consumers:
            lane = {"tensor": "tensor cores", "alu": "ALU", "copy": "copy"}[op.resource]
            end = now + _microseconds(op, device, blocks_per_sm)
            add(op, lane, now, end, k, phase)
            now = end
        if producers and len(bars) > first:
            arrows += [(held, first) for held in ready[k][1]]
        done[k] = (now, len(bars) - 1)
    return bars, arrows
