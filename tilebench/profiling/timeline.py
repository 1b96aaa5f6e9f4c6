"""The predicted timeline of a pipelined loop: its `Schedule` played on three resources with the model's
costs.
"""

from __future__ import annotations

from tilebench.ir.expr import int_value
from tilebench.ir.tile import Stmt
from tilebench.passes.stages import Schedule, Scheduled, ScheduledOp
from tilebench.profiling.model import ALU_SHARE, MMA_SYNC_SHARE, SPECIAL_PER_CLOCK
from tilebench.report import TimelineBar, TimelineInfo
from tilebench.targets import Device

ITERATIONS_SHOWN = 8
"""At most this many iterations of the loop are drawn; the note says so when there are more."""
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
        return cost.flops * share / (device.f16_tflops * MMA_SYNC_SHARE * 1e6 / per_sm)
    special = cost.transcendentals / (SPECIAL_PER_CLOCK * device.boost_mhz)
    return share * max(cost.flops / (device.f32_tflops * ALU_SHARE * 1e6 / per_sm), special, 0.02)


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
    trips = _trips(schedule)
    if trips == 0:
        return None
    bars, arrows = _play(schedule, names, device, blocks_per_sm, trips)
    if trips is None:
        shown = f"the first {ITERATIONS_SHOWN} iterations, if there are as many"
    elif trips > ITERATIONS_SHOWN:
        shown = f"the first {ITERATIONS_SHOWN} of {trips} iterations"
    else:
        shown = f"all {trips} iterations"
    note = (
        f"{shown} of one block; {schedule.stages} stages, room for {blocks_per_sm} blocks on an SM; "
        f"costs from the data sheet of {device.name}"
    )
    return TimelineInfo("predicted", tuple(bars), tuple(arrows), note)


def _trips(schedule: Schedule) -> int | None:
    """Iterations of the loop, None when only the call knows."""
    start, stop = int_value(schedule.loop.start), int_value(schedule.loop.stop)
    return None if start is None or stop is None else max(0, stop - start)


def _play(
    schedule: Schedule,
    names: dict[Stmt, tuple[str, str, int]],
    device: Device,
    blocks_per_sm: int,
    trips: int | None,
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

    last = ITERATIONS_SHOWN + depth if trips is None else trips
    shown = min(last, ITERATIONS_SHOWN)
    for k in range(min(depth, last)):
        issue(k, 0.0, "prologue")
    for k in range(shown):
        phase = "steady" if k + depth < last else "epilogue"
        if producers:
            if k + depth < last:
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
