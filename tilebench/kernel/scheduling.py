"""What the passes chose for a kernel as a whole, for its report: who does what, in words and by op."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilebench.errors import Loc
from tilebench.ir.expr import int_value
from tilebench.ir.tile import Kernel, Stmt, TileOp
from tilebench.ops.copy import Copy
from tilebench.ops.copy.bulk import NAME as BULK
from tilebench.ops.copy.bulk import STORE
from tilebench.passes.occupied import blocks_per_sm
from tilebench.passes.roles import PRODUCER
from tilebench.passes.stages import Partitioned, Scheduled
from tilebench.profiling.rings import tiles_of
from tilebench.report import RoleInfo

ALL, CONSUMERS = "all", "consumers"


def carried_out_by(op: Stmt, partitioned: Partitioned) -> tuple[TileOp, ...]:
    """The ops that do a program's op: itself, or those that a pass put in its place; none for a nest."""
    chosen = partitioned.selected.instructions
    if not isinstance(op, TileOp):
        return ()
    if op in chosen:
        return (op,)
    own = _place(op.loc)
    return tuple(s for s in chosen if own is not None and type(s) is type(op) and _place(s.loc) == own)


def _place(at: Loc | None) -> tuple[int, int] | None:
    return (at.line, at.column) if at is not None else None


def instruction_of(op: Stmt, partitioned: Partitioned) -> str:
    """The name of an op's instruction; of a result that goes through shared memory, its ways in order."""
    chosen = partitioned.selected.instructions
    return ", then ".join(dict.fromkeys(chosen[s].name for s in carried_out_by(op, partitioned)))


def role_of(op: Stmt, partitioned: Partitioned | None) -> str:
    """Who does a statement: 'all', 'producer', or 'consumers'."""
    if partitioned is None or not partitioned.specialised:
        return ALL
    chosen = partitioned.selected.instructions
    made = carried_out_by(op, partitioned)
    return PRODUCER if made and all(chosen[s].name == BULK for s in made) else CONSUMERS


def roles(stages: Any, ids: Mapping[Stmt, str]) -> tuple[RoleInfo, ...]:
    """The roles with their ops: the producer's are its bulk copies, a consumer's are all others."""
    if stages is None:
        return ()
    partitioned: Partitioned = stages.stage(Partitioned)
    infos: list[RoleInfo] = []
    for role in partitioned.roles:
        own = role.name if role.name in (ALL, PRODUCER) else CONSUMERS
        ops = tuple(ident for stmt, ident in ids.items() if role_of(stmt, partitioned) == own)
        infos.append(RoleInfo(role.name, role.first_thread, role.threads, ops, _note(role.name, partitioned)))
    return tuple(infos)


def _note(name: str, partitioned: Partitioned) -> str:
    count = partitioned.registers.get(name)
    parts = (
        ["thread 0 of it starts the bulk copies; the others have nothing to do"] if name == PRODUCER else []
    )
    if count is not None:
        parts.append(f"{count} registers a thread (setmaxnreg)")
    return "; ".join(parts)


def schedule(stages: Any, prim: Kernel) -> tuple[str, ...]:
    """What was chosen, a sentence each: who copies, what overlaps, persistent blocks, staged results.

    prim: the program as it was written.
    """
    if stages is None:
        return ()
    scheduled: Scheduled = stages.stage(Scheduled)
    partitioned = scheduled.placed.partitioned
    why = partitioned.selected.producer
    said = [why if partitioned.specialised else f"all threads copy and compute: {why}"] if why else []
    for s in scheduled.schedules:
        at = f", line {s.loop.loc.line}" if s.loop.loc else ""
        said.append(f"loop over {s.loop.var.name}{at}: {s.reason.text}")
    said += _persistent(scheduled)
    said += _staged(partitioned, prim)
    consumers = [r for r in partitioned.roles if r.name.startswith("consumer")]
    if len(consumers) > 1 and all(m == 4 * len(consumers) for m, _ in partitioned.warp_grids.values()):
        said.append(f"{len(consumers)} consumer warpgroups each have their own rows of every product")
    return tuple(said)


def _persistent(scheduled: Scheduled) -> list[str]:
    order = "the longest first" if scheduled.kernel.attributes.get("longest_first") else ""
    tiles = tiles_of(scheduled)
    if tiles is None:
        return [f"blocks are handed out {order}"] if order else []
    blocks, count = int_value(scheduled.kernel.grid[0]), int_value(tiles.stop)
    how = f", {order}" if order else ""
    each = blocks_per_sm(scheduled.kernel)
    where = "one for each multiprocessor" if each == 1 else f"{each} for each multiprocessor"
    return [f"{blocks} persistent blocks, {where}, go through {count} tiles{how}"]


def _staged(partitioned: Partitioned, prim: Kernel) -> list[str]:
    own = set(map(id, prim.buffers))
    leaving = [
        op.source.buffer
        for op, i in partitioned.selected.instructions.items()
        if i.name == STORE and isinstance(op, Copy) and id(op.source.buffer) not in own
    ]
    if not leaving:
        return []
    count = len(set(map(id, leaving)))
    many = f"{count} tiles" if count > 1 else "a tile"
    names = ", ".join(dict.fromkeys(b.name for b in leaving))
    return [f"results leave by bulk copies through {many} of shared memory ({names})"]
