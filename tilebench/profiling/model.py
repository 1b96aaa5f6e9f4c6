"""The performance model: one block is played on its SM, and a launch is so many of them.

    time of a launch = launch overhead + full waves x (a block's time, its SM full) + the last, thinner wave

A kernel whose copies a producer makes is played by profiling/lanes.py: the producer, the tensor cores and
each warpgroup beside each other, as far as rings and waits allow. Its blocks may be persistent (one round of
them, each going through its tiles), or of uneven length (handed out in turn). Others are played by
profiling/timeline.py: statements in order, copies ahead.

Rates are the data sheet's, lowered by the factors in profiling/block.py; power bounds warpgroup products
(WGMMA_SHARE there). Those, the clocks in profiling/lanes.py and issue.py, and the constants below are the
model's only free numbers; tests/profiling/test_measured.py has predicted beside measured. The roofline's
predicted time, the timeline's total and what the sliders show are this one sum; its terms are in the report
(`TimelineInfo.terms`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapreplace

from tilebench.ir.expr import Var, int_value
from tilebench.passes.occupied import blocks_per_sm
from tilebench.passes.stages import Scheduled
from tilebench.profiling import actions, block, lanes, rings, timeline
from tilebench.profiling.block import Program, Rates
from tilebench.profiling.work import Work, block_values, typical_block
from tilebench.report import Figure, Roof, RooflineInfo, RooflinePoint, TimelineInfo, TimelineTerm
from tilebench.targets import Device, Occupancy, find_device

DEFAULT_DEVICE = {
    "sm_80": "A100 80GB SXM", "sm_86": "RTX 3090", "sm_89": "RTX 4090", "sm_90": "H200 SXM",
    "sm_90a": "H200 SXM",
    "sm_100": "B200 SXM", "sm_120": "RTX 5090",
}  # fmt: skip
"""The product whose data sheet stands in for an architecture when no GPU is there."""

MEMORY_SHARE = 0.9
"""Share of the data sheet's bandwidth that a plain copy reaches (measured: 4.3 of 4.8 TB/s on an H200)."""
L2_RATIO = 2.0
"""Bandwidth of L2 over that of memory (order of magnitude on the listed devices)."""
LAUNCH_US = 2.5
"""What an empty kernel takes on the device, in microseconds (order of magnitude; measured values are 2 to 3).
"""
HANDED_OUT = 1 << 14
"""Uneven blocks are handed out one by one up to this many; more of them take proportionally longer."""
LIMITING_SHARE = 0.45
"""A unit that is busy for at least this share of the time is called the limiter; below it, latency is."""


@dataclass(frozen=True)
class Prediction:
    """Microseconds of a launch. bounds: what each unit needs at least; terms add up to total_us."""

    total_us: float
    bounds: Mapping[str, float]
    limiter: str
    terms: tuple[TimelineTerm, ...]
    timeline: TimelineInfo


def device_for(arch: str, name: str = "") -> Device | None:
    """The data sheet of the named device, or of the architecture's stand-in."""
    return (find_device(name) if name else None) or find_device(DEFAULT_DEVICE.get(arch, ""))


def rates_of(work: Work, device: Device, blocks: int, tensor_share: float) -> Rates:
    """What an SM does in a microsecond when `blocks` blocks are in flight on the device.

    Copies run at what L2 and memory give for this launch's mix of first and repeated reads, shared by the SMs
    that have a block, and never faster than one SM can take.
    """
    busy = max(1, min(blocks, device.sm_count))
    slowest = max(*_traffic(work, device))
    shared = work.global_bytes / slowest / busy if slowest else math.inf
    most = block.SM_BYTES_PER_CLOCK * float(device.boost_mhz)
    first = min(1.0, work.tensor_bytes / work.global_bytes) if work.global_bytes else 1.0
    return Rates(device, min(shared, most), tensor_share, first_reads=first)


def _traffic(work: Work, device: Device) -> tuple[float, float]:
    """Microseconds that L2 and memory need for the whole launch."""
    memory = work.tensor_bytes / (device.memory_gb_s * MEMORY_SHARE * 1e3)
    return work.global_bytes / (device.memory_gb_s * L2_RATIO * 1e3), memory


def bounds_of(work: Work, device: Device, tensor_share: float) -> dict[str, float]:
    """Microseconds that each unit of the whole device needs at least for this work."""
    exact = work.tensor_flops.get("float32", 0.0)  # such a gemm is multiply-adds, not tensor cores
    tensor = sum(
        flops / (max(device.tensor_tflops(dtype), 1e-9) * tensor_share * 1e6)
        for dtype, flops in work.tensor_flops.items()
        if dtype != "float32"
    )
    rest = max(0.0, work.flops - sum(work.tensor_flops.values()))
    l2, memory = _traffic(work, device)
    return {
        "tensor cores": tensor,
        "FP32 pipes": (rest / block.ALU_SHARE + exact) / (device.f32_tflops * 1e6),
        "special functions": work.transcendentals
        / (block.SPECIAL_PER_CLOCK * device.sm_count * device.boost_mhz),
        "L2": l2,
        "memory": memory,
    }


def tensor_share(scheduled: Scheduled, device: Device) -> float:
    """The share of the tensor rate that the selected instructions can reach on the device."""
    chosen = {i.name for i in scheduled.placed.partitioned.selected.instructions.values()}
    if any(name.startswith("wgmma") for name in chosen):
        return block.WGMMA_SHARE
    return block.MMA_SYNC_SHARE.get(device.arch, block.OTHER_MMA_SHARE)


def predict(
    scheduled: Scheduled,
    work: Work,
    device: Device,
    occupancy: Occupancy,
    grid: tuple[int, ...],
    symbols: Mapping[Var, int],
    names: timeline.Names | None = None,
    spill_bytes: float = 0.0,
) -> Prediction:
    """The predicted time of a launch and the block that it is made of. Nothing is measured.

    work, grid and symbols: of the launch; occupancy: blocks that share an SM; names: for the bars;
    spill_bytes: of a thread, from the compiler's log or an estimate.
    """
    if scheduled.placed.partitioned.specialised:
        return _with_producer(scheduled, work, device, occupancy, grid, symbols, names or {}, spill_bytes)
    kernel = scheduled.kernel
    share = tensor_share(scheduled, device)
    together = max(1, min(occupancy.blocks, -(-work.blocks // device.sm_count)))
    slots = together * device.sm_count
    full, rest = divmod(work.blocks, slots)
    index = typical_block(kernel, grid, symbols)
    values = block_values(kernel, index, symbols)

    def played(blocks: int, sharing: int) -> tuple[timeline.Play, Program]:
        rates = replace(rates_of(work, device, blocks, share), spill_bytes=spill_bytes)
        program = block.program_of(scheduled, values, rates)
        factor = block.residence(block.demands(program), block.idle(program, rates), sharing)
        return timeline.play(program, names or {}, factor, sharing, rates), program

    terms = [TimelineTerm("launch", 1, LAUNCH_US)]
    drawn: timeline.Play | None = None
    program: Program = ()
    if full:
        drawn, program = played(slots, together)
        what = f"wave{'s' * (full > 1)} of {slots} blocks, {together} on each of {device.sm_count} SMs"
        terms.append(TimelineTerm(what, full, drawn.now))
    if rest:
        sharing = -(-rest // device.sm_count)
        last, own = played(rest, sharing)
        what = f"{'last ' if full else ''}wave of {rest} block{'s' * (rest > 1)}, {sharing} on an SM"
        terms.append(TimelineTerm(what, 1, last.now))
        if drawn is None:
            drawn, program, together = last, own, sharing
    total = sum(t.count * t.each_us for t in terms)
    bounds = bounds_of(work, device, share)
    limiter = _limiter(bounds, total, work, device)
    if drawn is None:
        nothing = TimelineInfo("predicted", (), note="an empty grid", terms=tuple(terms), total_us=total)
        return Prediction(total, bounds, limiter, tuple(terms), nothing)
    info = _timeline(drawn, _note(program, index, together, device), terms, total, device)
    return Prediction(total, bounds, limiter, tuple(terms), info)


def _timeline(
    drawn: timeline.Play | lanes.Lanes, note: str, terms: Sequence[TimelineTerm], total: float, device: Device
) -> TimelineInfo:
    return TimelineInfo(
        "predicted", tuple(drawn.bars), tuple(drawn.arrows), note, tuple(drawn.cuts), tuple(terms), total,
        f"model of {device.name}",
    )  # fmt: skip


def _with_producer(
    scheduled: Scheduled,
    work: Work,
    device: Device,
    occupancy: Occupancy,
    grid: tuple[int, ...],
    symbols: Mapping[Var, int],
    names: timeline.Names,
    spill_bytes: float,
) -> Prediction:
    """A kernel whose copies a producer makes: blocks are played by profiling/lanes.py."""
    kernel = scheduled.kernel
    share = tensor_share(scheduled, device)
    tiles = rings.tiles_of(scheduled)
    sms = device.sm_count
    together = max(1, min(occupancy.blocks, -(-work.blocks // sms)))

    def played(index: tuple[int, ...], blocks: int, sharing: int) -> tuple[lanes.Lanes, actions.Rings]:
        rates = replace(rates_of(work, device, blocks, share), spill_bytes=spill_bytes)
        program = rings.rings_of(scheduled, block_values(kernel, index, symbols), rates)
        return lanes.play(program, names, rates, sharing), program

    terms = [TimelineTerm("launch", 1, LAUNCH_US)]
    drawn: lanes.Lanes | None = None
    program: actions.Rings | None = None
    index: tuple[int, ...] = (0,)
    if tiles is not None and work.blocks:
        blocks = int_value(kernel.grid[0]) or 1
        index = (rings.heaviest(scheduled, blocks),)
        together = max(1, min(blocks_per_sm(kernel), occupancy.blocks))
        drawn, program = played(index, blocks, together)
        # blocks beyond the SMs of this device come after the others
        places = sms * together
        rounds = -(-blocks // places)
        n, count = program.tiles, min(blocks, places)
        what = f"round{'s' * (rounds > 1)} of {count} persistent blocks, {n} tile{'s' * (n > 1)} each"
        terms.append(TimelineTerm(what, rounds, drawn.total_us))
    elif work.blocks:
        slots = together * sms
        full, rest = divmod(work.blocks, slots)
        trips = rings.trips_in_order(scheduled, grid, symbols)
        uneven = len(set(trips)) > 1 and full > 0
        index = typical_block(kernel, grid, symbols) if len(set(trips)) > 1 else tuple(0 for _ in grid)
        if full:
            drawn, program = played(index, slots, together)
            what = f"wave{'s' * (full > 1)} of {slots} blocks, {together} on each of {sms} SMs"
            count = float(full)
            if uneven:
                count = _handed_out(trips, work.blocks, slots, drawn, program.trips[0]) / drawn.total_us
                what = f"blocks of uneven length in turn on each of {slots} places, a typical one drawn"
            terms.append(TimelineTerm(what, count, drawn.total_us))
        if rest and not uneven:
            sharing = -(-rest // sms)
            last, own = played(index, rest, sharing)
            what = f"{'last ' if full else ''}wave of {rest} block{'s' * (rest > 1)}, {sharing} on an SM"
            terms.append(TimelineTerm(what, 1, last.total_us))
            if drawn is None:
                drawn, program, together = last, own, sharing
    bounds = bounds_of(work, device, share)
    total = sum(t.count * t.each_us for t in terms)
    if terms[1:] and total < bounds["memory"]:
        terms.append(TimelineTerm("what memory needs beyond that", 1, bounds["memory"] - total))
        total = bounds["memory"]
    limiter = _limiter(bounds, total, work, device)
    if drawn is None or program is None:
        nothing = TimelineInfo("predicted", (), note="an empty grid", terms=tuple(terms), total_us=total)
        return Prediction(total, bounds, limiter, tuple(terms), nothing)
    info = _timeline(drawn, _rings_note(program, index, together, device), terms, total, device)
    return Prediction(total, bounds, limiter, tuple(terms), info)


def _handed_out(
    trips: Sequence[int], blocks: int, places: int, typical: lanes.Lanes, typical_trips: int
) -> float:
    """Microseconds until the last of `blocks` is done when each goes to the first place that is free.

    trips: of the blocks, or of some at even distances, in the order in which they are handed out.
    """
    steps = min(blocks, HANDED_OUT)
    free = [0.0] * min(places, steps)
    for k in range(steps):
        longer = (trips[k * len(trips) // steps] - typical_trips) * typical.pace
        heapreplace(free, free[0] + max(0.0, typical.total_us + longer))
    return max(free) * blocks / steps


def _rings_note(program: actions.Rings, index: tuple[int, ...], together: int, device: Device) -> str:
    trips = program.trips[program.played[0]] if program.played else 0
    parts: list[str] = []
    if trips:
        parts += [_iterations(trips, program.known), f"{program.stages} stage{'s' * (program.stages > 1)}"]
    n = program.consumers
    parts.append(f"a producer and {n} consumer warpgroup{'s' * (n > 1)}")
    place = ", ".join(map(str, index))
    if program.tiles > 1:
        parts.append(
            f"persistent block ({place}), {program.tiles} tiles: the first, the start of the second, "
            "the end of the last"
        )
    else:
        sharing = f"{together} blocks share its SM" if together > 1 else "alone on its SM"
        parts.append(f"block ({place}), {sharing}")
    share = f"{block.WGMMA_SHARE:.0%}"
    parts.append(f"rates from the data sheet of {device.name}; power holds its tensor cores to {share}")
    return "; ".join(parts)


def _iterations(trips: int, known: bool) -> str:
    """Which iterations of a loop are drawn."""
    if not known:
        return "one iteration (how many there are is known at the call)"
    shown = min(trips, timeline.ITERATIONS_SHOWN)
    if shown < trips:
        return f"the first {shown - timeline.LAST_SHOWN} and last {timeline.LAST_SHOWN} of {trips} iterations"
    return f"all {trips} iterations"


def _limiter(bounds: Mapping[str, float], total: float, work: Work, device: Device) -> str:
    slowest = max(bounds, key=lambda name: bounds[name])
    if total < 2 * LAUNCH_US:
        return "the launch itself"
    if bounds[slowest] >= LIMITING_SHARE * (total - LAUNCH_US):
        return slowest
    if work.blocks < device.sm_count:
        return f"too few blocks ({work.blocks} for {device.sm_count} SMs)"
    return f"latency ({slowest} busy {bounds[slowest] / total:.0%} of the time)"


def _note(program: Program, index: tuple[int, ...], together: int, device: Device) -> str:
    loops = [x for x in program if isinstance(x, block.Loop)]
    parts: list[str] = []
    if loops:
        longest = max(loops, key=lambda x: x.trips)
        parts.append(_iterations(longest.trips, longest.known))
        parts.append(f"{longest.stages} stage{'s' * (longest.stages > 1)}")
    sharing = f"{together} blocks share its SM" if together > 1 else "alone on its SM"
    parts.append(f"block ({', '.join(map(str, index))}), {sharing}")
    parts.append(f"rates from the data sheet of {device.name}")
    return "; ".join(parts)


def config_text(config: Mapping[str, object]) -> str:
    """Tunables in words: 'block_M=128, num_stages=3'."""
    return ", ".join(f"{k}={v}" for k, v in config.items())


def gpu_roofs(device: Device) -> tuple[Roof, ...]:
    """The ceilings of a device: memory, L2 and every rate of its data sheet."""
    sheet = f"data sheet of {device.name}"
    roofs = [
        Roof(f"memory {device.memory_gb_s:g} GB/s", "bandwidth", device.memory_gb_s * 1e9, sheet),
        Roof(
            f"L2 {device.memory_gb_s * L2_RATIO:g} GB/s",
            "bandwidth",
            device.memory_gb_s * L2_RATIO * 1e9,
            "order of magnitude: twice the memory's",
        ),
    ]
    rates = (
        ("f16 tensor", device.f16_tflops),
        ("tf32 tensor", device.tf32_tflops),
        ("f8 tensor", device.f8_tflops),
        ("FP32", device.f32_tflops),
    )
    roofs += [
        Roof(f"{name} {rate:.4g} TFLOP/s", "compute", rate * 1e12, sheet) for name, rate in rates if rate
    ]
    return tuple(roofs)


def gpu_roofline(
    work: Work,
    device: Device,
    prediction: Prediction,
    measured: Figure | None,
    point: RooflinePoint,
) -> RooflineInfo:
    """The roofline of a device's data sheet with this kernel on it.

    point: label, id, config and occupancy; the rest is filled in.
    """
    time = measured or Figure(prediction.total_us, "us", "predicted", f"model of {device.name}")
    whole = _filled(point, work, time)
    return RooflineInfo(
        device.name,
        gpu_roofs(device),
        (whole,),
        prediction.total_us,
        prediction.limiter,
        dict(prediction.bounds),
    )


def _filled(point: RooflinePoint, work: Work, time: Figure) -> RooflinePoint:
    return RooflinePoint(
        point.label, work.flops, work.tensor_bytes, time, point.id, point.config, point.occupancy
    )


def cpu_roofline(
    work: Work, name: str, gflops: float, gb_s: float, measured: Figure | None, point: RooflinePoint
) -> RooflineInfo:
    """The roofline of this machine's CPU; its peaks are measured once a machine (profiling/cpu_peaks.py)."""
    roofs = (
        Roof(f"memory {gb_s:.0f} GB/s", "bandwidth", gb_s * 1e9, "measured on this machine"),
        Roof(f"f32 {gflops:.0f} GFLOP/s", "compute", gflops * 1e9, "measured on this machine"),
    )
    bounds = {"FP32 units": work.flops / (gflops * 1e3), "memory": work.tensor_bytes / (gb_s * 1e3)}
    limiter = max(bounds, key=lambda unit: bounds[unit])
    time = measured or Figure(bounds[limiter], "us", "predicted", f"model of {name}")
    return RooflineInfo(name, roofs, (_filled(point, work, time),), bounds[limiter], limiter, bounds)
