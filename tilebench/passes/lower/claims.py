"""Tiles that blocks claim: the producer draws the next number from a counter in global memory while it brings
the present tile, and hands it to the consumers through a ring of two numbers.

Every block draws once for each tile that it does, and stops at the first number beyond the last tile. So a
launch draws exactly as many numbers as there are tiles; who draws the last one sets the counter back to zero,
since nobody draws any more.
"""

from __future__ import annotations

from collections.abc import Callable

from tilebench.ir.dtype import int32
from tilebench.ir.expr import Expr, binary, const
from tilebench.ir.hopper import MBarrierArrive, MBarrierWait
from tilebench.ir.rewrite import seq
from tilebench.ir.simplify import bounds
from tilebench.ir.thread import Memory, shared_memory
from tilebench.ir.tile import AtomicRMW, Bind, Break, Claimed, If, Stmt, While
from tilebench.passes.lower.builder import INT32_MAX, Builder


def lower_claimed(b: Builder, s: Claimed, visit: Callable[[Stmt], None], producing: bool) -> None:
    """The loop of one role."""
    from tilebench.passes.lower.handover import advance, give_back, phase_of, ring_of, slot_of

    channel = s.channel
    ring = ring_of(b, channel)
    start, stop, blocks = (b.simple(b.expr(x)) for x in (s.start, s.stop, s.step))
    last = bounds(stop, b.ranges)
    b.ranges[s.var] = (0, (last[1] if last is not None else INT32_MAX) - 1)
    number = b.registers("tile_number", 1, int32)
    b.store(number, 0, start)
    with b.inside() as body:
        b.emit(Bind(s.var, b.load(number, 0)))
        drawn = b.fresh("drawn")
        if producing:  # long before it is needed
            b.emit(AtomicRMW("add", b.global_of(s.counter), (const(0),), const(1), drawn))
        visit(s.body)
        slot, phase = slot_of(b, channel), phase_of(b, channel)
        following: Expr
        if producing:
            with b.when(binary("eq", drawn, stop - 1)):
                b.emit(AtomicRMW("exch", b.global_of(s.counter), (const(0),), const(0)))
            following = b.bind("next_tile", drawn + blocks)
            b.emit(MBarrierWait(ring.barriers, ring.empty + slot, binary("bitxor", phase, const(1))))
            b.store(numbers_of(b, s), slot, following)
            b.emit(MBarrierArrive(ring.barriers, slot))
        else:
            b.emit(MBarrierWait(ring.barriers, slot, phase))
            following = b.bind("next_tile", b.load(numbers_of(b, s), slot))
            give_back(b, ring, slot)
        advance(b, channel)
        b.store(number, 0, following)
        b.emit(If(binary("ge", following, stop), Break()))
    b.emit(While(const(True), seq(*body), loc=s.loc))


def numbers_of(b: Builder, s: Claimed) -> Memory:
    """Where the ring's numbers lie: behind its barriers."""
    found = b.numbers.get(s.channel)
    if found is None:
        offset = b.stage.allocated.barriers[s.channel] + 2 * 8 * s.channel.stages
        found = shared_memory(f"{s.channel.name}_numbers", s.channel.stages, int32, offset)
        b.numbers[s.channel] = found
        b.shared_used.append(found)
    return found


__all__ = ["lower_claimed", "numbers_of"]
