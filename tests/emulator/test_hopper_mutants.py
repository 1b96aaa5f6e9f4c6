"""Warp-specialised kernels without any one of their synchronising statements are found out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulator.build import zeros
from tests.emulator.hopper_kernels import attention, gemm
from tilebench.backends.emulator import run_program
from tilebench.ir.expr import as_expr
from tilebench.ir.hopper import (
    BulkCommit,
    BulkWait,
    FenceProxyAsync,
    MBarrierArrive,
    MBarrierExpect,
    MBarrierInit,
    MBarrierInitFence,
    MBarrierWait,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from tilebench.ir.rewrite import transform, walk
from tilebench.ir.thread import Barrier, Program, Role
from tilebench.ir.tile import Seq, Stmt

LEFT_OUT = (
    Barrier, BulkCommit, BulkWait, FenceProxyAsync, MBarrierArrive, MBarrierExpect, MBarrierInit,
    MBarrierInitFence, MBarrierWait, WgmmaCommit, WgmmaFence, WgmmaWait,
)  # fmt: skip


def mutants(program: Program) -> Iterator[tuple[str, Program]]:
    """The program without one synchronising statement, or with one that waits or counts wrongly."""
    assert program.prologue is not None
    bodies = list(dict.fromkeys([program.prologue, *(r.body for r in program.roles)]))
    for body in bodies:
        for victim in walk(body):
            if not isinstance(victim, LEFT_OUT):
                continue
            what = f"{type(victim).__name__} of line {victim.loc.line if victim.loc else 0}"
            changes: list[tuple[str, Stmt]] = [(f"no {what}", Seq(()))]
            match victim:
                case WgmmaWait() | BulkWait():
                    changes.append((f"late {what}", dataclasses.replace(victim, pending=victim.pending + 1)))
                case MBarrierWait():
                    changes.append((f"other {what}", dataclasses.replace(victim, parity=1 - victim.parity)))
                case MBarrierExpect():
                    changes.append((f"more {what}", dataclasses.replace(victim, bytes=victim.bytes + 16)))
                    changes.append((f"less {what}", dataclasses.replace(victim, bytes=victim.bytes - 16)))
                case MBarrierInit():
                    changes.append(
                        (f"more {what}", dataclasses.replace(victim, arrivals=victim.arrivals + 1))
                    )
                case _:
                    pass
            for name, instead in changes:

                def change(node: Any, victim: Any = victim, instead: Stmt = instead) -> Any:
                    return instead if node is victim else None

                mutated = {b: transform(b, change) if b is body else b for b in bodies}
                roles = tuple(Role(r.name, r.first_thread, r.threads, mutated[r.body]) for r in program.roles)
                yield name, dataclasses.replace(program, roles=roles, prologue=mutated[program.prologue])


PROGRAMS = {
    "gemm": lambda: gemm(320, stages=2, deferred=False),
    "deferred gemm": lambda: gemm(320, stages=2),
    "attention": lambda: attention(4),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("schedule", ["forward", "reverse"])
def test_each_synchronising_statement_is_needed(name: str, schedule: Any) -> None:
    program = PROGRAMS[name]().program()
    arrays = [zeros(int(as_expr(m.shape[0]).value), m.dtype.name) for m in program.globals.values()]  # type: ignore[attr-defined]
    assert run_program(program, arrays, {}, schedule=schedule).findings == ()
    found = {
        what: run_program(mutant, arrays, {}, schedule=schedule).first_error
        for what, mutant in mutants(program)
    }
    assert len(found) > 20
    assert [what for what, error in found.items() if error is None] == []
    assert all(error is None or error[0].spans for error in found.values())
