"""Real kernels through all passes: as they are the emulator is silent.

Without any one wait, commit or barrier it is not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

import tilebench
from tests.kernels.cases import BOUNDED, EXACT
from tests.ops.test_examples import arguments
from tilebench.backends.emulator import run_program
from tilebench.compiler import analyse
from tilebench.ir.rewrite import transform, walk
from tilebench.ir.thread import Barrier, CpAsyncCommit, CpAsyncWait, Program
from tilebench.ir.tile import Kernel, Seq, Stmt
from tilebench.targets import parse

KERNELS = {**EXACT, **BOUNDED}


def lowered(name: str) -> tuple[Kernel, Program]:
    kernel = tilebench.compile(KERNELS[name](), target="interp").prim
    return kernel, analyse(kernel, parse("emu:sm_80")).last.program  # type: ignore[union-attr]


def mutants(program: Program) -> Iterator[tuple[str, Program]]:
    """The program without one of its synchronising statements, or with a wait for one group too few."""
    (role,) = program.roles
    for victim in walk(role.body):
        if not isinstance(victim, Barrier | CpAsyncWait | CpAsyncCommit):
            continue
        kind = f"{type(victim).__name__} of line {victim.loc.line if victim.loc else 0}"
        changes: list[tuple[str, Stmt]] = [(f"no {kind}", Seq(()))]
        if isinstance(victim, CpAsyncWait):
            changes.append((f"late {kind}", dataclasses.replace(victim, pending=victim.pending + 1)))
        for what, instead in changes:

            def change(node: Any, victim: Any = victim, instead: Stmt = instead) -> Any:
                return instead if node is victim else None

            body = transform(role.body, change)
            yield what, dataclasses.replace(program, roles=(dataclasses.replace(role, body=body),))


@pytest.mark.parametrize("name", ["gemm-float16-NN", "gemm-256-threads", "mlp", "attention-D64"])
def test_each_synchronising_statement_of_a_real_kernel_is_needed(name: str) -> None:
    kernel, program = lowered(name)
    assert run_program(program, arguments(kernel, 1, True), {}).findings == ()
    count = 0
    for what, mutant in mutants(program):
        found = run_program(mutant, arguments(kernel, 1, True), {}, blocks=[0]).findings
        assert {f.kind for f in found} & {"race", "async-race"}, f"{what}: nothing was found"
        assert all(f.spans for f in found), what
        count += 1
    assert count >= 5
