"""Rings between producer and consumers as thread code: mbarriers, bulk copies, slots and phases.

Each ring has `stages` full and as many empty mbarriers. Both sides count slot and phase for themselves, in
registers: slot goes round, phase flips when it does. A consumer waits for its phase of the full barrier, a
producer for the opposite phase of the empty one, so that its first round passes at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilebench.errors import InternalError
from tilebench.ir.dtype import uint64
from tilebench.ir.expr import Expr, Var, binary, const, select
from tilebench.ir.hopper import (
    BulkLoad,
    FenceProxyAsync,
    MBarrierArrive,
    MBarrierExpect,
    MBarrierInit,
    MBarrierInitFence,
    MBarrierWait,
)
from tilebench.ir.rewrite import children, seq, variables, walk
from tilebench.ir.thread import Barrier, Memory, shared_memory
from tilebench.ir.tile import (
    Acquire,
    Bind,
    Channel,
    For,
    If,
    Pipelined,
    Produce,
    Release,
    Seq,
    Stmt,
    Versioned,
)  # fmt: skip
from tilebench.ops.copy import Copy
from tilebench.ops.copy.bulk import boxes, coordinates
from tilebench.passes.lower import timers
from tilebench.passes.lower.builder import Builder
from tilebench.passes.lower.statements import lower_for, lower_if, lower_stmt
from tilebench.passes.specialise import WARPGROUP


@dataclass(frozen=True)
class Ring:
    """A channel's barriers (full, then empty), one Memory of 64-bit words."""

    channel: Channel
    barriers: Memory

    @property
    def empty(self) -> int:
        """Index of the first empty barrier."""
        return self.channel.stages


def ring_of(b: Builder, channel: Channel) -> Ring:
    """The ring's barriers, known to the builder."""
    if channel not in b.rings:
        offset = b.stage.allocated.barriers[channel]
        memory = shared_memory(f"{channel.name}_barriers", 2 * channel.stages, uint64, offset)
        b.shared_used.append(memory)
        b.rings[channel] = Ring(channel, memory)
    return b.rings[channel]


# -- both sides


def start_counting(b: Builder, channels: list[Channel]) -> None:
    """Slots and phases of a role: all zero."""
    for channel in channels:
        ring_of(b, channel)
        if channel.stages > 1:
            b.store(b.local(channel.slot), 0, const(0))
        b.store(b.local(channel.phase), 0, const(0))


def _slot(b: Builder, channel: Channel) -> Expr:
    return b.load(b.local(channel.slot), 0) if channel.stages > 1 else const(0)


def _phase(b: Builder, channel: Channel) -> Expr:
    return b.load(b.local(channel.phase), 0)


def _advance(b: Builder, channel: Channel) -> None:
    phase = b.local(channel.phase)
    flipped = binary("bitxor", b.load(phase, 0), const(1))
    if channel.stages == 1:
        b.store(phase, 0, flipped)
        return
    slot = b.local(channel.slot)
    b.store(slot, 0, b.load(slot, 0) + 1)
    with b.when(binary("eq", b.load(slot, 0), const(channel.stages))):
        b.store(slot, 0, const(0))
        b.store(phase, 0, flipped)


# -- consumers


def lower_acquire(b: Builder, s: Acquire) -> None:
    """Wait for the full barrier of the slot."""
    ring = ring_of(b, s.channel)
    b.emit(MBarrierWait(ring.barriers, _slot(b, s.channel), _phase(b, s.channel)))


def lower_release(b: Builder, s: Release) -> None:
    """Arrive at the empty barrier of a slot, and count on."""
    channel = s.channel
    ring = ring_of(b, channel)
    if s.give != "none":
        slot = _slot(b, channel)
        if s.give == "previous" and channel.stages > 1:
            slot = select(binary("eq", slot, const(0)), const(channel.stages - 1), slot - 1)
        condition = b.condition(s.condition) if s.condition is not None else None
        if s.fence:  # for the releases behind it too, whose conditions may be others
            b.emit(FenceProxyAsync())
        elected = binary("eq", b.thread % WARPGROUP, const(0)) if channel.elected else None
        with b.when(condition), b.when(elected):
            b.emit(MBarrierArrive(ring.barriers, ring.empty + slot))
    if s.advance:
        _advance(b, channel)


# -- the producer


def lower_producer(b: Builder, body: Stmt, channels: list[Channel]) -> None:
    """The loops and conditions around the copies, and the copies, by one thread."""
    with b.when(binary("eq", b.every, const(b.teams * b.kernel.thread_count))):
        timers.begin(b)
        start_counting(b, channels)
        _produce_in(b, body, _needed(body))
        timers.end(b)


def _needed(body: Stmt) -> set[Var]:
    """Names that the producer's statements use, directly or through others."""
    wanted: set[Var] = set()

    def collect(s: Stmt) -> None:
        if isinstance(s, Produce):
            wanted.update(*(variables(c) for c in s.copies))
        elif _concerns(s):
            for child in children(s):
                if isinstance(child, Stmt):
                    collect(child)
                else:
                    wanted.update(variables(child))

    collect(body)
    for bind in reversed([n for n in walk(body) if isinstance(n, Bind)]):
        if bind.var in wanted:
            wanted |= variables(bind.value)
    return wanted


def _concerns(s: Stmt) -> bool:
    return any(isinstance(n, Produce) for n in walk(s))


def _produce_in(b: Builder, s: Stmt, needed: set[Var]) -> None:
    if isinstance(s, Bind):
        if s.var in needed:
            lower_stmt(b, s)
        return
    if not _concerns(s):
        return
    with b.at(s.loc):
        match s:
            case Seq():
                for part in s.body:
                    _produce_in(b, part, needed)
            case Versioned():
                _produce_in(b, s.body, needed)
            case Produce():
                _produce(b, s)
            case For():
                lower_for(b, s, lambda body: _produce_in(b, body, needed))
            case Pipelined():
                plain = For(s.var, s.start, s.stop, s.body, loc=s.loc)
                lower_for(b, plain, lambda body: _produce_in(b, body, needed))
            case If():
                lower_if(b, s, lambda body: _produce_in(b, body, needed))
            case _:
                raise InternalError("TB902", f"a producer cannot run {type(s).__name__}", at=s.loc)


def _produce(b: Builder, s: Produce) -> None:
    channel = s.channel
    ring = ring_of(b, channel)
    slot = _slot(b, channel)
    plan: list[BulkLoad] = []
    for copy in s.copies:
        assert isinstance(copy, Copy)
        memory, layout, _ = b.shared(copy.destination.buffer)
        start = b.version_start(copy.destination.buffer, slot)
        for box in boxes(copy.source, copy.destination, layout):
            at = tuple(b.value(x) for x in coordinates(copy.source, box))
            map_ = b.tensor_map(copy.source.buffer, layout, box.sizes)
            plan.append(
                BulkLoad(memory, b.simple(start + box.start), map_, at, ring.barriers, slot, loc=copy.loc)
            )
    with timers.timed(b, s, "wait"):
        b.emit(MBarrierWait(ring.barriers, ring.empty + slot, binary("bitxor", _phase(b, channel), const(1))))
    with timers.timed(b, s, "fill"):
        b.emit(MBarrierExpect(ring.barriers, slot, sum(load.source.bytes for load in plan)))
        for load in plan:
            b.emit(load)
    _advance(b, channel)


# -- all threads first


def prologue(b: Builder, channels: list[Channel]) -> Stmt:
    """Barriers made ready by one thread, then a barrier of the whole block."""
    groups = b.kernel.thread_count // WARPGROUP
    inits: list[Stmt] = []
    for channel in channels:
        ring = ring_of(b, channel)
        arrivals = groups if channel.elected else b.kernel.thread_count
        for i in range(channel.stages):
            inits.append(MBarrierInit(ring.barriers, const(i), 1))
            inits.append(MBarrierInit(ring.barriers, const(channel.stages + i), arrivals))
    inits.append(MBarrierInitFence())
    first = binary("eq", b.every, const(0))
    ready = Barrier(because="the rings' barriers are ready")
    return seq(If(first, seq(*inits)), ready)


__all__ = ["lower_acquire", "lower_producer", "lower_release", "prologue", "start_counting"]
