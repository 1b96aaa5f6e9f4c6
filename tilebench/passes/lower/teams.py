"""Consumers in turn (passes/teams.py) as thread code: the same statements for each team, every other tile."""

from __future__ import annotations

import dataclasses

from tilebench.errors import InternalError, TargetError
from tilebench.ir.dtype import int32
from tilebench.ir.expr import Expr, Var, binary, const, select
from tilebench.ir.hopper import MBarrierArrive, MBarrierWait
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import Acquire, Bind, Channel, For, Pipelined, Seq, Stmt
from tilebench.passes.lower.builder import Builder
from tilebench.passes.lower.handover import ring_of, start_counting
from tilebench.passes.lower.statements import lower_for, lower_stmt
from tilebench.passes.specialise import WARPGROUP
from tilebench.passes.teams import IN_TURN, rounds_of, tile_loop


def lower_in_turn(b: Builder, body: Stmt, channels: list[Channel]) -> None:
    """The consumers' part of the program."""
    team = Var("team", dtype=int32)
    b.ranges[b.every] = (0, b.teams * b.threads - 1)
    b.ranges[team] = (0, b.teams - 1)
    for var, value in ((team, b.every // b.threads), (b.kernel.thread, b.every % b.threads)):
        b.emit(Bind(var, value))
        b.root_names.add(var)
    b.team = team
    rings = [c for c in channels if c.buffers]
    turn = next(c for c in channels if not c.buffers)
    start_counting(b, channels)
    loop = tile_loop(body)
    inner = (
        next((n for n in walk(loop) if isinstance(n, For | Pipelined) and n is not loop), None)
        if loop
        else None
    )
    rounds = rounds_of(inner) if inner is not None else None
    if loop is None or inner is None or rounds is None:
        raise InternalError("TB902", "consumers in turn need a loop over tiles with one of known length")
    with b.when(binary("eq", team, const(1))):
        for ring in rings:
            _skip(b, ring, rounds)
    allocated = b.stage.allocated
    held = {c for ring in rings for c in ring.buffers}
    staged = [k for k, n in allocated.scheduled.versions.items() if n == b.teams and k not in held]
    b.versions.update(dict.fromkeys(staged, team))

    def one_tile(tile: Stmt) -> None:
        for part in tile.body if isinstance(tile, Seq) else (tile,):
            mine = any(isinstance(n, Acquire) for n in walk(part))
            if mine:
                _wait_for_turn(b, turn)
            lower_stmt(b, part)
            if mine:
                _pass_turn(b, turn)
        for ring in rings:
            _skip(b, ring, rounds)

    for part in body.body if isinstance(body, Seq) else (body,):
        if part is loop:
            own = dataclasses.replace(loop, start=loop.start + team * loop.step, step=loop.step * b.teams)
            lower_for(b, own, one_tile)
        else:
            lower_stmt(b, part)
    if b.scratch_needed:
        raise TargetError(
            "TB520",
            "consumers cannot take turns: threads of this kernel exchange values through shared memory",
            at=b.kernel.loc,
            why=f"each team would need scratch of its own ({b.scratch_needed} bytes)",
            fix=f"leave {IN_TURN} out",
        )


def _skip(b: Builder, ring: Channel, rounds: int) -> None:
    """Count past the rounds of the other team's tile."""
    phase = b.local(ring.phase)
    old = b.load(phase, 0)
    if ring.stages == 1:
        b.store(phase, 0, binary("bitxor", old, const(rounds % 2)))
        return
    slot = b.local(ring.slot)
    over: Expr = b.load(slot, 0) + rounds
    if rounds % ring.stages == 0:
        b.store(phase, 0, binary("bitxor", old, const(rounds // ring.stages % 2)))
        return
    b.store(phase, 0, binary("bitxor", old, over // ring.stages % 2))
    b.store(slot, 0, over % ring.stages)


def _wait_for_turn(b: Builder, turn: Channel) -> None:
    """The first team's first turn is there at once."""
    ring = ring_of(b, turn)
    phase = b.load(b.local(turn.phase), 0)
    first = binary("eq", b.team, const(0))
    b.emit(MBarrierWait(ring.barriers, b.team, select(first, binary("bitxor", phase, const(1)), phase)))
    b.store(b.local(turn.phase), 0, binary("bitxor", phase, const(1)))


def _pass_turn(b: Builder, turn: Channel) -> None:
    ring = ring_of(b, turn)
    with b.when(binary("eq", b.thread % WARPGROUP, const(0))):
        b.emit(MBarrierArrive(ring.barriers, 1 - b.team))
