"""Synchronised -> Lowered: tile statements as what one thread runs.

statements.py dispatches; nest.py turns Parallel nests into loops over the registers of a layout; builder.py
holds memories, names and addresses; convert.py and scalar.py reach elements of other threads; reduce.py and
scan.py fold; reused.py and fences.py take out the barriers and fences that nothing needs.
"""

from __future__ import annotations

from typing import Any

from tilebench.ir.expr import Var
from tilebench.ir.hopper import SetMaxRegisters
from tilebench.ir.thread import Program, Role
from tilebench.ir.tile import Stmt
from tilebench.passes.lower import timers
from tilebench.passes.lower.builder import Builder
from tilebench.passes.lower.fences import without_idle_fences
from tilebench.passes.lower.handover import lower_producer, prologue, start_counting
from tilebench.passes.lower.late_releases import with_late_releases
from tilebench.passes.lower.rasterise import rasterised_blocks
from tilebench.passes.lower.reused import without_idle_barriers
from tilebench.passes.lower.statements import lower_stmt
from tilebench.passes.lower.teams import lower_in_turn
from tilebench.passes.lower.turns import with_turns
from tilebench.passes.overlap import overlaps_launches
from tilebench.passes.roles import PRODUCER
from tilebench.passes.stages import Allocated, Lowered, Placed, Scheduled, Slot, Synchronised

__all__ = ["lower", "scratch_bytes"]


def lower(stage: Synchronised) -> Lowered:
    """The thread program of a kernel: one role of all threads, or consumers and their producer."""
    b = Builder(stage)
    first: Stmt | None = None
    blocks = rasterised_blocks(b)
    if b.specialised:
        first, roles = _handed_over(stage, b, blocks)
    else:
        timers.start(b, blocks)
        timers.begin(b)
        lower_stmt(b, stage.body)
        b.finish_stores()
        timers.end(b)
        roles = (Role("all", 0, b.threads, b.finish()),)
    kernel = stage.kernel
    roles = with_late_releases(without_idle_fences(without_idle_barriers(roles)))
    if b.specialised:
        roles = with_turns(roles, b.every, kernel.configs) if b.teams == 1 else roles
    facts: dict[str, Any] = {
        k: v for k, v in kernel.attributes.items() if isinstance(v, int | float | str | bool)
    }
    facts["fast_math"] = bool(kernel.configs.get("TL_ENABLE_FAST_MATH", False))
    if overlaps_launches(kernel, b.target):
        facts["overlap_launches"] = True
    if kernel.compile_flags:
        facts["compile_flags"] = kernel.compile_flags
    program = Program(
        name=kernel.name,
        params=kernel.params,
        globals=b.globals,
        symbols=kernel.symbols,
        grid=kernel.grid,
        blocks=blocks,
        thread=b.every,
        threads=sum(r.threads for r in roles),
        roles=roles,
        registers=tuple(dict.fromkeys(b.registers_used)),
        shared=tuple(b.shared_used),
        shared_bytes=b.shared_bytes,
        arch=b.target.arch or "",
        facts=facts,
        prologue=first,
        tensor_maps=tuple(b.tensor_maps.values()),
        timers=tuple(b.timers.sites) if b.timers is not None else (),
    )
    return Lowered(stage, program, tuple(b.conversions))


def _handed_over(stage: Synchronised, b: Builder, blocks: tuple[Var, ...]) -> tuple[Stmt, tuple[Role, ...]]:
    """What all threads do first, and the roles; `b` has written the permutation of the blocks, if any."""
    channels = list(stage.allocated.barriers)
    specs = stage.allocated.scheduled.placed.partitioned
    permuted, registers = list(b.root), specs.registers
    if registers:
        b.emit(SetMaxRegisters(registers[specs.roles[0].name], True))
    timers.start(b, blocks)
    timers.begin(b)
    if b.teams > 1:
        lower_in_turn(b, stage.body, channels)
    else:
        start_counting(b, channels)
        lower_stmt(b, stage.body)
    b.finish_stores()
    timers.end(b)
    producer = Builder(stage, beside=b)
    for s in permuted:
        producer.emit(s)
    producer.ranges = {**b.ranges, b.kernel.thread: producer.ranges[b.kernel.thread]}
    if b.teams > 1:
        producer.ranges[b.every] = (b.teams * b.threads, b.teams * b.threads + 127)
    if registers:
        producer.emit(SetMaxRegisters(registers[PRODUCER], False))
    timers.start(producer, blocks, b.timers)
    lower_producer(producer, stage.body, [c for c in channels if c.buffers])
    b.registers_used += producer.registers_used
    consumer, produce = b.finish(), producer.finish()
    roles = tuple(
        Role(r.name, r.first_thread, r.threads, produce if r.name == PRODUCER else consumer)
        for r in specs.roles
    )
    return prologue(b, channels), roles


def scratch_bytes(placed: Placed) -> int:
    """Shared bytes that conversions, folds and broadcasts need beyond the buffers: what lowering will ask
    for.

    Found by lowering the body as it was before pipelining, with buffers at made-up addresses.
    """
    kernel = placed.kernel
    slots: dict[Any, Slot] = {}
    for buffer in placed.layouts:
        if buffer.scope == "shared" and buffer.view_of is None:
            size = 1
            for n in buffer.static_shape:
                size *= n
            slots[buffer] = Slot(0, size * 2 * buffer.dtype.bytes, 0, 0)
    scheduled = Scheduled(placed, kernel.body, (), {})
    stage = Synchronised(Allocated(scheduled, slots, None, 0), kernel.body, ())
    b = Builder(stage)
    lower_stmt(b, kernel.body)
    return b.scratch_needed
