"""A block with a producer as the model sees it: what the producer and the consumers do, in order.

The scheduled body is read for one block, with its indices known: a persistent block is several tiles. Long
loops and many tiles are not read to their ends: `Skip` stands for iterations, `Rest` for tiles that pass at
the pace of those around them (profiling/lanes.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilebench.ir.expr import Var
from tilebench.ir.rewrite import children, walk
from tilebench.ir.tile import (
    Acquire,
    Bind,
    For,
    If,
    Issue,
    Parallel,
    Produce,
    Release,
    Seq,
    Stmt,
    TileOp,
    Versioned,
    Wait,
    While,
)  # fmt: skip
from tilebench.ops.copy.bulk import STORE
from tilebench.passes.persistent import FACT
from tilebench.passes.regions import uses
from tilebench.passes.stages import Scheduled
from tilebench.profiling import timeline
from tilebench.profiling.actions import (
    Action,
    Await,
    Compute,
    Done,
    Fill,
    Give,
    Leave,
    Mark,
    Multiply,
    Rings,
    Skip,
    Take,
)  # fmt: skip
from tilebench.profiling.block import SHARED_PER_CLOCK, SPECIAL_PER_CLOCK, Rates, gemm_shared_bytes
from tilebench.profiling.issue import ALONE, LANES, Pipes, pipes_of
from tilebench.profiling.work import block_values, evaluate, work_of

TILE_EFFORT = 2
"""What starting and ending a tile costs, in iterations of its loop (for choosing the heaviest block)."""
BLOCKS_LOOKED_AT = 256
"""So many blocks' loops are counted where they may differ."""
TILES_LOOKED_AT = 64
"""So many tiles of a block at even distances, when there are more."""
TILES_PLAYED = 4
"""Of a persistent block with more tiles, the first ones and the last."""


def tiles_of(scheduled: Scheduled) -> For | None:
    """The loop over tiles of a persistent kernel, None for others."""
    if not scheduled.kernel.attributes.get(FACT):
        return None
    return next((n for n in walk(scheduled.body) if isinstance(n, For)), None)


def rings_of(scheduled: Scheduled, values: Mapping[Var, float], rates: Rates) -> Rings:
    """The actions of one block. values: its indices and the symbols of the call."""
    reader = _Reader(scheduled, rates)
    tiles = tiles_of(scheduled)
    if tiles is None:
        reader.visit(scheduled.body, dict(values))
        reader.actions.append(Done(0))
        trips = (reader.trips,)
        return Rings(tuple(reader.actions), reader.consumers, 1, trips, (0,), reader.stages, reader.known)
    start, stop = evaluate(tiles.start, values) or 0.0, evaluate(tiles.stop, values) or 0.0
    step = evaluate(tiles.step, values) or 1.0
    numbers = [start + step * k for k in range(max(0, math.ceil((stop - start) / step)))]
    played = tuple(range(len(numbers)))
    if len(numbers) > TILES_PLAYED:
        played = (*range(TILES_PLAYED - 1), len(numbers) - 1)
    found: list[int] = []
    stride = max(1, len(numbers) // TILES_LOOKED_AT)
    between = 0
    for k, number in enumerate(numbers):
        inside = {**values, tiles.var: number}
        if k in played:
            reader.begin(k)
            reader.visit(tiles.body, inside)
            reader.actions.append(Done(k))
            found.append(reader.trips)
        else:
            if k % stride == 0 or not between:
                between = trips_of(tiles.body, inside)
            found.append(between)
    return Rings(
        tuple(reader.actions), reader.consumers, len(numbers), tuple(found), played, reader.stages,
        reader.known, True,
    )  # fmt: skip


def heaviest(scheduled: Scheduled, blocks: int) -> int:
    """The persistent block, of `blocks`, that has the most iterations: the one that the launch waits for.

    A sample of them is looked at, with those at the ends of the last round.
    """
    tiles = tiles_of(scheduled)
    variable = scheduled.kernel.blocks[0]
    if tiles is None or blocks < 1:
        return 0
    stop, step = evaluate(tiles.stop, {}) or 0.0, evaluate(tiles.step, {}) or 1.0
    rest = int(stop) % blocks
    candidates = sorted({0, blocks // 3, 2 * blocks // 3, blocks - 1, *((rest - 1, rest) if rest else ())})

    def effort(block: int) -> float:
        own = range(block, int(stop), int(step))
        some = own[:: max(1, len(own) // TILES_LOOKED_AT)] or own
        found = [TILE_EFFORT + trips_of(tiles.body, {variable: block, tiles.var: n}) for n in some]
        return sum(found) / max(1, len(found)) * len(own)

    return max(candidates, key=effort)


def trips_in_order(
    scheduled: Scheduled, grid: tuple[int, ...], symbols: Mapping[Var, int], most: int = BLOCKS_LOOKED_AT
) -> tuple[int, ...]:
    """Iterations of the loops of blocks in the order in which the hardware hands them out: of all, or of
    `most` at even distances.
    """
    kernel, total = scheduled.kernel, math.prod(grid)
    count = min(total, most)
    found: list[int] = []
    for k in range(count):
        flat = k * total // count
        index: list[int] = []
        for extent in grid:
            index.append(flat % extent)
            flat //= extent
        found.append(trips_of(scheduled.body, block_values(kernel, tuple(index), symbols)))
    return tuple(found)


def trips_of(s: Stmt, values: Mapping[Var, float]) -> int:
    """Iterations of the loop that rings feed, in one tile; 0 without one."""
    match s:
        case Seq():
            inside, total = dict(values), 0
            for part in s.body:
                if isinstance(part, Bind):
                    value = evaluate(part.value, inside)
                    if value is not None:
                        inside[part.var] = value
                total += trips_of(part, inside)
            return total + (1 if total and _peeled(s) else 0)
        case Versioned():
            return trips_of(s.body, values)
        case If():
            decided = evaluate(s.condition, values)
            return trips_of(s.then, values) if decided is None or decided else 0
        case For() if _fed(s.body):
            return _trips(s, values)[1] or 1
        case _:
            return 0


def _trips(s: For, values: Mapping[Var, float]) -> tuple[float, int, float, bool]:
    """(start, trips, step, whether they are known) of a loop; one trip when they are not."""
    start, stop, step = (evaluate(e, values) for e in (s.start, s.stop, s.step))
    if start is None or stop is None:
        return start or 0.0, 1, step or 1.0, False
    return start, max(0, math.ceil((stop - start) / (step or 1.0))), step or 1.0, True


def _fed(body: Stmt) -> bool:
    return any(isinstance(n, Produce) for n in walk(body))


def _peeled(s: Seq) -> bool:
    """Whether the first iteration of a loop stands before it (a product trails)."""
    before = False
    for part in s.body:
        if isinstance(part, For) and _fed(part.body):
            return before
        before = before or isinstance(part, Produce)
    return False


class _Reader:
    def __init__(self, scheduled: Scheduled, rates: Rates) -> None:
        self.rates = rates
        partitioned = scheduled.placed.partitioned
        self.partitioned = partitioned
        self.consumers = max(1, sum(r.name != "producer" for r in partitioned.roles))
        self.threads = scheduled.kernel.thread_count
        bulk = [op for op, i in partitioned.selected.instructions.items() if i.name == STORE]
        self.leaving = {id(op) for op in bulk}
        self.actions: list[Action] = []
        self.stages = max((s.stages for s in scheduled.schedules), default=1)
        self.known = True
        moved = 2 * rates.spill_bytes * self.threads / self.consumers
        self.spilled = moved / (SHARED_PER_CLOCK * rates.clocks)
        self.tile = 0
        self.trips = 0
        self._costs: dict[int, tuple[float, ...]] = {}
        self._pipes: dict[int, Pipes] = {}

    def begin(self, tile: int) -> None:
        """The next tile."""
        self.tile = tile
        self.trips = 0

    def visit(self, s: Stmt, values: Mapping[Var, float], iteration: int = -1) -> None:
        """Append what the block does in a statement."""
        match s:
            case Seq():
                self.sequence(s, dict(values), iteration)
            case If():
                decided = evaluate(s.condition, values)
                if decided is None or decided:
                    self.visit(s.then, values, iteration)
                elif s.orelse is not None:
                    self.visit(s.orelse, values, iteration)
            case Versioned() | While():
                self.visit(s.body, values, iteration)
            case For() if any(isinstance(n, Produce | Acquire | Issue | Wait) for n in walk(s.body)):
                self.loop(s, values, first=0)
            case Produce():
                copies = tuple((c, self.copy_us(c, values)) for c in s.copies)
                self.actions.append(Fill(s.channel, copies, iteration, self.tile))
            case Acquire():
                if not s.again:
                    self.actions.append(Take(s.channel))
            case Release():
                holds = True if s.condition is None else evaluate(s.condition, values)
                if s.give != "none" and (holds is None or holds):
                    self.actions.append(Give(s.channel))
            case Issue():
                for op in s.ops:
                    self.actions.append(Multiply(op, self.tensor_us(op, values), iteration, self.tile))
            case Wait():
                self.actions.append(Await(s.pending))
            case Bind():
                pass
            case _:
                self.statement(s, values, iteration)

    def sequence(self, s: Seq, values: dict[Var, float], iteration: int) -> None:
        """Statements in order; around the loop of a trailing product stand its first and last iteration."""
        peeled = _peeled(s)
        now = 0 if peeled else iteration
        for part in s.body:
            if isinstance(part, Bind):
                value = evaluate(part.value, values)
                if value is not None:
                    values[part.var] = value
            elif peeled and isinstance(part, For) and _fed(part.body):
                now = self.loop(part, values, first=1)
            else:
                self.visit(part, values, now)

    def loop(self, s: For, values: Mapping[Var, float], first: int) -> int:
        """A loop, not further than timeline.ITERATIONS_PLAYED; gives its last iteration's number."""
        start, trips, step, known = _trips(s, values)
        self.known = self.known and known
        self.trips += trips + first
        most, last = timeline.ITERATIONS_PLAYED, timeline.LAST_SHOWN
        k = 0
        while k < trips:
            if trips > most and k == most - last:
                self.actions.append(Skip(trips - most, self.tile, self.stages))
                k = trips - last
            self.visit(s.body, {**values, s.var: start + step * k}, k + first)
            self.actions.append(Mark(k + first, self.tile, trips + first, self.spilled))
            k += 1
        return trips + first - 1

    # -- costs

    def copy_us(self, op: Stmt, values: Mapping[Var, float]) -> float:
        """Microseconds of a copy on the SM's share of L2 and memory."""
        return self.cost(op, values)[0]

    def tensor_us(self, op: Stmt, values: Mapping[Var, float]) -> float:
        """Microseconds of a warpgroup's part of a product, the tensor cores its own."""
        return self.cost(op, values)[1] / self.consumers

    def cost(self, op: Stmt, values: Mapping[Var, float]) -> tuple[float, ...]:
        """(copy, tensor) microseconds of an op for the whole block."""
        if id(op) not in self._costs:
            work, rates = work_of(op, values), self.rates
            tensor = sum(f / rates.tensor_flops(d) for d, f in work.tensor_flops.items())
            shared = (gemm_shared_bytes(op, self.partitioned) or 0.0) / (SHARED_PER_CLOCK * rates.clocks)
            self._costs[id(op)] = (work.global_bytes / rates.copy_bytes, max(tensor, shared))
        return self._costs[id(op)]

    def statement(self, s: Stmt, values: Mapping[Var, float], iteration: int) -> None:
        """A statement that the consumers' threads execute."""
        rates = self.rates
        clocks = rates.clocks * self.consumers
        if id(s) in self.leaving and isinstance(s, TileOp):
            source = s.reads[0].buffer
            us = self.copy_us(s, values) / self.consumers
            self.actions.append(Leave(s, us, source, self.tile))
            return
        work = work_of(s, values)
        if id(s) not in self._pipes:
            self._pipes[id(s)] = self.pipes(s, values)
        pipes = self._pipes[id(s)]
        shared = pipes.shared / (SHARED_PER_CLOCK * clocks)
        part = work.global_bytes / self.consumers
        ports = part / rates.l2_bytes
        issue = max(pipes.issue / (LANES * clocks), shared)
        special = pipes.special / (SPECIAL_PER_CLOCK * clocks)
        alone = max(issue * ALONE, special, ports) + pipes.latency / rates.clocks
        if alone <= 0:
            return
        writes = tuple(b for b in uses(s)[1] if b.scope == "shared")
        reaches = work.read.get("global", 0.0) > 0
        moved = part / rates.copy_bytes
        self.actions.append(Compute(s, issue, special, alone, iteration, self.tile, moved, reaches, writes))

    def pipes(self, s: Stmt, values: Mapping[Var, float]) -> Pipes:
        """What a statement takes, loops inside of it as often as they go round."""
        match s:
            case Parallel() | TileOp():
                return pipes_of(s)
            case For():
                return self.pipes(s.body, values).times(_trips(s, values)[1])
            case Seq() | If() | While() | Versioned():
                parts = [c for c in children(s) if isinstance(c, Stmt)]
                return sum((self.pipes(c, values) for c in parts), Pipes())
            case _:
                return Pipes()
