"""Stages made without the passes under other names: every op its first legal offer, barriers everywhere, no pipelining."""

from __future__ import annotations

from tilebench.ir.rewrite import seq
from tilebench.ir.tile import For, If, Kernel, Parallel, Seq, Stmt, Store, SyncThreads, TileOp, While
from tilebench.passes.check import check
from tilebench.passes.lower import lower, scratch_bytes
from tilebench.passes.place import place
from tilebench.passes.stages import (
    Allocated, Lowered, Partitioned, Placed, RoleSpec, Scheduled, Selected, Slot, Synchronised,
)  # fmt: skip
from tilebench.targets import parse


def placed(kernel: Kernel, target: str = "emu:sm_80") -> Placed:
    """The kernel with layouts."""
    typed = check(kernel, parse(target))
    selected = Selected(typed, {}, {}, {})
    roles = (RoleSpec("all", 0, kernel.thread_count),)
    return place(Partitioned(selected, roles, {}, {}))


def with_barriers(s: Stmt, per_thread: frozenset[Stmt]) -> Stmt:
    """A barrier after every statement that the block does as one."""
    if s in per_thread:
        return s
    match s:
        case Seq():
            return seq(*(with_barriers(part, per_thread) for part in s.body))
        case TileOp() | Parallel() | Store():
            return seq(s, SyncThreads())
        case For():
            return For(s.var, s.start, s.stop, with_barriers(s.body, per_thread), s.step, s.kind, s.independent, loc=s.loc)
        case If():
            orelse = None if s.orelse is None else with_barriers(s.orelse, per_thread)
            return If(s.condition, with_barriers(s.then, per_thread), orelse, loc=s.loc)
        case While():
            return While(s.condition, with_barriers(s.body, per_thread), loc=s.loc)
        case _:
            return s


def synchronised(stage: Placed) -> Synchronised:
    """Shared buffers one after the other, and barriers."""
    slots: dict[object, Slot] = {}
    offset = 0
    for buffer, layout in stage.layouts.items():
        if buffer.scope == "shared" and buffer.view_of is None:
            size = -(-layout.size_bytes // 128) * 128  # type: ignore[union-attr]
            offset = -(-offset // 1024) * 1024
            slots[buffer] = Slot(offset, size, 0, 0)
            offset += size
    scratch = scratch_bytes(stage)
    place_of_scratch = Slot(-(-offset // 128) * 128, scratch, 0, 0) if scratch else None
    total = place_of_scratch.offset + scratch if place_of_scratch else offset
    kernel = stage.kernel
    body = with_barriers(kernel.body, stage.partitioned.selected.typed.per_thread)
    scheduled = Scheduled(stage, kernel.body, (), {})
    return Synchronised(Allocated(scheduled, slots, place_of_scratch, total), body, ())  # type: ignore[arg-type]


def lowered(kernel: Kernel, target: str = "emu:sm_80") -> Lowered:
    """The thread program of a kernel."""
    return lower(synchronised(placed(kernel, target)))
