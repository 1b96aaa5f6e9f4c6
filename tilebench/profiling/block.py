"""One block's program as the model sees it: steps and loops, each step with its work on the units of an SM.

The tile program is read for one block (its indices known), so that trip counts that depend on the block are
numbers. What one step costs is counted by the same walk as the whole launch (profiling/work.py): the two
never disagree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tilebench.ir.expr import Var
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import Bind, For, If, Parallel, Pipelined, Seq, Stmt, TileOp, Versioned, While
from tilebench.passes.stages import Partitioned, Schedule, Scheduled
from tilebench.profiling.work import Work, evaluate, work_of
from tilebench.targets import Device

Lane = Literal["copy", "tensor cores", "ALU"]
LANES: tuple[Lane, ...] = ("copy", "tensor cores", "ALU")

WGMMA_SHARE = 0.8
"""Share of the data sheet's tensor rate that warpgroup products can hold: power bounds it, not the pipes. On
an H200 the ceiling in practice is about 790 of 989 TFLOP/s (cuBLAS, f16 8192^3 on random data: 670 to 798
from run to run; 894 on zeros, which take less power). Large launches stay below it.
"""
MMA_SYNC_SHARE = {"sm_90": 0.43, "sm_90a": 0.43}
"""Share that mma.sync reaches: 62 % of the wgmma rate on sm_90 (arXiv 2402.13499), elsewhere
OTHER_MMA_SHARE.
"""
OTHER_MMA_SHARE = 0.9
ALU_SHARE = 0.5
"""Share of the FP32 rate for other arithmetic: the data sheet counts an FMA as two operations."""
SPECIAL_PER_CLOCK = 16
"""Special-function results per SM and clock (CUDA programming guide, arithmetic instructions)."""
SHARED_PER_CLOCK = 128
"""Bytes of shared memory per SM and clock: 32 banks of 4 bytes (CUDA programming guide, shared memory)."""
SM_BYTES_PER_CLOCK = 64
"""Most bytes that one SM takes from L2 per clock (A100 whitepaper: 5120 bytes for 108 SMs, each with a
64-byte port).
"""
LATENCY_US = 0.6
"""From issuing a copy from memory to its data, in microseconds (order of magnitude, H100 class)."""
L2_LATENCY_US = 0.35
"""The same from L2, for a bulk copy (order of magnitude, H100: a load that hits L2 takes 0.15, the tensor
memory unit adds some 0.1; Luo et al., arXiv 2501.12084).
"""
STEP_CLOCKS = 40
"""What starting and ending a step costs a block (index arithmetic, a barrier), in clocks: order of
magnitude.
"""


@dataclass(frozen=True)
class Rates:
    """What one SM does in a microsecond. copy_bytes: its share of L2 and memory in this launch; spill_bytes:
    of registers that a thread puts away and fetches back in each iteration; first_reads: the share of bytes
    that come from memory, the others from L2.
    """

    device: Device
    copy_bytes: float
    tensor_share: float
    spill_bytes: float = 0.0
    first_reads: float = 1.0

    @property
    def latency_us(self) -> float:
        """From starting a bulk copy to its data, in microseconds."""
        return self.first_reads * LATENCY_US + (1.0 - self.first_reads) * L2_LATENCY_US

    @property
    def clocks(self) -> float:
        """Clocks in a microsecond."""
        return float(self.device.boost_mhz)

    @property
    def l2_bytes(self) -> float:
        """Most bytes that an SM exchanges with L2 in a microsecond."""
        return SM_BYTES_PER_CLOCK * self.clocks

    def tensor_flops(self, dtype: str) -> float:
        """Tensor-core FLOP of an SM in a microsecond, for operands of a dtype by name."""
        return max(self.device.tensor_tflops(dtype) * self.tensor_share * 1e6 / self.device.sm_count, 1e-9)


@dataclass(frozen=True)
class Step:
    """A statement that the block executes as one. us: on `lane`, alone on its SM.

    ahead: a copy that a pipelined loop issues for a later iteration; trails: a product that is still under
    way when the next iteration begins; waits: it needs its data from memory before the next step. times:
    executions drawn as one (a loop inside a loop).
    """

    stmt: Stmt
    lane: Lane
    us: float
    ahead: bool = False
    trails: bool = False
    waits: bool = False
    times: float = 1.0


@dataclass(frozen=True)
class Loop:
    """A loop over steps. trips: as counted for this block; known: whether the program tells."""

    steps: tuple[Step, ...]
    trips: int
    stages: int = 1
    known: bool = True

    @property
    def depth(self) -> int:
        """Iterations that the copies run ahead."""
        return max(0, self.stages - 1) if any(s.ahead for s in self.steps) else 0


Program = tuple[Step | Loop, ...]


def program_of(scheduled: Scheduled, values: Mapping[Var, float], rates: Rates) -> Program:
    """The block's steps in order. values: the block's indices and the symbols of the call."""
    reader = _Reader(scheduled, rates)
    return tuple(reader.visit(scheduled.kernel.body, dict(values)))


class _Reader:
    def __init__(self, scheduled: Scheduled, rates: Rates) -> None:
        self.rates = rates
        self.threads = scheduled.kernel.thread_count
        self.schedules: dict[int, Schedule] = {id(s.loop): s for s in scheduled.schedules}
        self.partitioned = scheduled.placed.partitioned

    def visit(self, s: Stmt, values: dict[Var, float]) -> list[Step | Loop]:
        match s:
            case Seq():
                found: list[Step | Loop] = []
                for part in s.body:
                    if isinstance(part, Bind):
                        value = evaluate(part.value, values)
                        if value is not None:
                            values = {**values, part.var: value}
                    found += self.visit(part, values)
                return found
            case Bind():
                return []
            case If():
                decided = evaluate(s.condition, values)
                if decided is None or decided:
                    return self.visit(s.then, values)
                return [] if s.orelse is None else self.visit(s.orelse, values)
            case Versioned() | While():
                return self.visit(s.body, values)
            case For() | Pipelined() if _has_ops(s.body):
                return [self._loop(s, values)]
            case _:
                step = self.step(s, values)
                return [] if step is None else [step]

    def _loop(self, s: For | Pipelined, values: dict[Var, float]) -> Loop:
        start, stop = evaluate(s.start, values), evaluate(s.stop, values)
        stride = (evaluate(s.step, values) or 1.0) if isinstance(s, For) else 1.0
        known = start is not None and stop is not None
        trips = max(0, math.ceil(((stop or 0) - (start or 0)) / stride)) if known else 1
        inside = {**values, s.var: (start or 0.0) + stride * (trips // 2)}
        schedule = self.schedules.get(id(s))
        ops = [op for op in schedule.ops if op.asynchronous] if schedule else []
        ahead = {id(op.stmt) for op in ops if op.resource == "copy"}
        products = [op for op in ops if op.resource == "tensor"]
        trailing = id(products[-1].stmt) if schedule and schedule.overlap and products else 0
        steps: list[Step] = []
        for item in self.visit(s.body, inside):
            steps += [item] if isinstance(item, Step) else _flattened(item)
        steps = [replace(x, ahead=True, waits=False) if id(x.stmt) in ahead else x for x in steps]
        steps = [replace(x, trails=True) if id(x.stmt) == trailing else x for x in steps]
        steps = self._spilling(steps)
        return Loop(tuple(steps), trips, schedule.stages if schedule else 1, known)

    def _spilling(self, steps: list[Step]) -> list[Step]:
        """Steps of one iteration, the longest made longer by what spilled registers cost in L1."""
        moved = 2 * self.rates.spill_bytes * self.threads
        if not moved or not steps:
            return steps
        longest = max(range(len(steps)), key=lambda k: 0.0 if steps[k].ahead else steps[k].us)
        more = moved / (SHARED_PER_CLOCK * self.rates.clocks)
        return [replace(s, us=s.us + more) if k == longest else s for k, s in enumerate(steps)]

    def step(self, s: Stmt, values: Mapping[Var, float]) -> Step | None:
        """A statement with its time on the unit that it keeps busy longest; None when it does nothing."""
        work = work_of(s, values)
        times = self.times(s, work)
        lane = max(LANES, key=lambda name: times[name])
        if not any(times.values()):
            return None
        return Step(s, lane, times[lane], waits=work.read.get("global", 0.0) > 0)

    def times(self, s: Stmt, work: Work) -> dict[Lane, float]:
        """Microseconds on each lane for one execution, alone on the SM."""
        rates, device = self.rates, self.rates.device
        exact = work.tensor_flops.get("float32", 0.0)  # such a gemm is multiply-adds, not tensor cores
        tensor = sum(f / rates.tensor_flops(d) for d, f in work.tensor_flops.items() if d != "float32")
        per_sm = device.f32_tflops * 1e6 / device.sm_count
        rest = max(0.0, work.flops - sum(work.tensor_flops.values()))
        alu = (rest / ALU_SHARE + exact) / per_sm
        special = work.transcendentals / (SPECIAL_PER_CLOCK * rates.clocks)
        shared = self.shared_bytes(s, work) / (SHARED_PER_CLOCK * rates.clocks)
        copy = work.global_bytes / rates.copy_bytes
        if tensor:
            return {"copy": copy, "tensor cores": max(tensor, shared), "ALU": max(alu, special)}
        return {"copy": copy, "tensor cores": 0.0, "ALU": max(alu, special, shared)}

    def shared_bytes(self, s: Stmt, work: Work) -> float:
        """Bytes that the step moves from and to shared memory; operands of a gemm once for each warp that
        reads them.
        """
        products = gemm_shared_bytes(s, self.partitioned)
        if products is not None:
            return products
        return work.read.get("shared", 0.0) + work.written.get("shared", 0.0)


def gemm_shared_bytes(s: Stmt, partitioned: Partitioned) -> float | None:
    """Bytes of shared memory that a product's warps read: an operand once for each warp, of a warpgroup
    product once for each warpgroup. None for other statements.
    """
    if not isinstance(s, TileOp) or not hasattr(s, "a"):
        return None
    if s in partitioned.warp_grids:
        rows, columns = partitioned.warp_grids[s]
    elif partitioned.specialised:  # a product that the pipeline pass moved to another iteration
        rows, columns = 4 * (len(partitioned.roles) - 1), 1
    else:
        return None
    instruction = partitioned.selected.instructions.get(s)
    if instruction is None or instruction.name.startswith("wgmma"):
        rows = max(1, rows // 4)  # a warpgroup reads B once for its four warps
    a, b = getattr(s, "a"), getattr(s, "b")  # noqa: B009  (an op with operands: see ops/gemm)
    return float(
        sum(
            math.prod(r.shape) * r.dtype.bytes * copies
            for r, copies in ((a, columns), (b, rows))
            if r.buffer.scope == "shared"
        )
    )


def _has_ops(body: Stmt) -> bool:
    return any(isinstance(n, TileOp | Parallel) for n in walk(body))


def _flattened(loop: Loop) -> list[Step]:
    """A loop inside a loop as steps that stand for all its trips."""
    return [replace(s, us=s.us * loop.trips, times=s.times * loop.trips, ahead=False) for s in loop.steps]


def demands(program: Program) -> dict[Lane, float]:
    """Microseconds of the block on each lane by steps that run in order (copies that run ahead are left
    out).
    """
    total: dict[Lane, float] = dict.fromkeys(LANES, 0.0)
    for item in program:
        for step in (item,) if isinstance(item, Step) else item.steps:
            if not step.ahead:
                total[step.lane] += step.us * (item.trips if isinstance(item, Loop) else 1)
    return total


def idle(program: Program, rates: Rates) -> float:
    """Microseconds in which the block occupies no unit: waiting for memory, starting and ending steps."""
    overhead = STEP_CLOCKS / rates.clocks
    total = 0.0
    for item in program:
        for step in (item,) if isinstance(item, Step) else item.steps:
            if not step.ahead:
                trips = item.trips if isinstance(item, Loop) else 1
                total += trips * (overhead + (LATENCY_US if step.waits else 0.0))
    return total


def residence(needs: Mapping[Lane, float], waiting: float, blocks: int) -> dict[Lane, float]:
    """How many times longer a step takes on each lane when `blocks` blocks share the SM.

    Exact mean-value analysis of a closed network: each block goes from lane to lane and queues behind those
    that it meets there; `waiting` is the time that it spends on none. One block waits for nobody (1.0);
    when one lane is the bottleneck its factor tends to `blocks`. Source: Reiser and Lavenberg, JACM 27
    (1980), 313-322.
    """
    queue: dict[Lane, float] = dict.fromkeys(LANES, 0.0)
    factor: dict[Lane, float] = dict.fromkeys(LANES, 1.0)
    for n in range(1, max(1, blocks) + 1):
        factor = {lane: 1.0 + queue[lane] for lane in LANES}
        cycle = waiting + sum(needs[lane] * factor[lane] for lane in LANES)
        queue = {lane: n * needs[lane] * factor[lane] / cycle if cycle else 0.0 for lane in LANES}
    return factor
