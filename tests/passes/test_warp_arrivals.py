"""Slots that a warp gives back by one lane: the same values, fewer arrivals, the warp's meeting is needed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.ops.test_examples import arguments
from tests.passes.emulated import assert_emulated_is_interp
from tests.passes.pipelined_kernels import attention
from tests.passes.test_handover import HOPPER, configured, nodes, stage
from tilebench.backends.emulator import run_program
from tilebench.ir.hopper import MBarrierInit
from tilebench.ir.rewrite import transform
from tilebench.ir.thread import Role, SyncWarp
from tilebench.ir.tile import Kernel, Seq
from tilebench.ops.copy import copy
from tilebench.ops.examples import Draft
from tilebench.ops.gemm import gemm
from tilebench.passes.stages import Lowered

WARPS = {"TB_WARP_ARRIVALS": True}


def scaled(trips: int = 5, threads: int = 256) -> Kernel:
    """C[k] = A[k] B times a row of factors that threads read from a ring."""
    d = Draft("scaled", (2,), threads)
    (bx,) = d.blocks
    A, B = d.tensor("A", (trips, 128, 32), "float16"), d.tensor("B", (32, 64), "float16")
    F, C = d.tensor("F", (trips, 64), "float32"), d.tensor("C", (2, trips, 128, 64), "float32", "out")
    A_s, B_s = d.shared("A_s", (128, 32), "float16"), d.shared("B_s", (32, 64), "float16")
    F_s, c = d.shared("F_s", (64,), "float32"), d.fragment("c", (128, 64), "float32")
    d.add(copy(B[0, 0], B_s))
    with d.pipelined(trips, 2) as k:
        d.add(copy(A[k, 0, 0], A_s), copy(F[k, 0], F_s), gemm(A_s, B_s, c, clear_accum=True))
        with d.parallel(128, 64) as (i, j):
            d.store(c, (i, j), c[i, j] * F_s[j])
        d.add(copy(c, C[bx, k, 0, 0]))
    return d.kernel()


@pytest.mark.parametrize("threads", [128, 256])
def test_values_and_arrivals(threads: int) -> None:
    kernel = configured(scaled(threads=threads), **WARPS)
    assert_emulated_is_interp(kernel, target=HOPPER)
    prologue = stage(kernel, Lowered).program.prologue
    counts = {n.arrivals for n in _inits(prologue)}
    assert counts == {1, threads // 128, threads // 32}
    assert nodes(kernel, SyncWarp)
    assert not nodes(scaled(threads=threads), SyncWarp)


def _inits(prologue: Any) -> list[MBarrierInit]:
    from tilebench.ir.rewrite import walk

    return [n for n in walk(prologue) if isinstance(n, MBarrierInit)]


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    assert_emulated_is_interp(configured(attention(192, causal=causal), **WARPS), target=HOPPER)


def test_the_meeting_of_the_warp_is_needed() -> None:
    kernel = configured(scaled(), **WARPS)
    program = stage(kernel, Lowered).program
    bodies = {
        r.body: transform(r.body, lambda n: Seq(()) if isinstance(n, SyncWarp) else None)
        for r in program.roles
    }
    roles = tuple(Role(r.name, r.first_thread, r.threads, bodies[r.body]) for r in program.roles)
    mutant = dataclasses.replace(program, roles=roles)
    found = (
        run_program(mutant, arguments(kernel, 1, True), {}, schedule=s).first_error
        for s in ("forward", "reverse")
    )
    assert any(error is not None for error in found)
