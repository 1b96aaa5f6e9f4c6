"""Scratch is used again only behind a barrier, and barriers that only wait for that are never for nothing; a
fold between warps counts as a barrier.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest

from tests.passes.emulated import assert_emulated_is_interp
from tests.passes.exchanging import softmax_loop
from tests.passes.lowering import lowered, stage
from tilebench.backends.emulator import run_program
from tilebench.ir.expr import Load, binary, const
from tilebench.ir.hopper import Wgmma
from tilebench.ir.rewrite import transform, walk
from tilebench.ir.thread import Barrier, Memory, Program
from tilebench.ir.tile import Break, For, If, Kernel, Seq, Stmt, While
from tilebench.language.parse import parse_prim_func
from tilebench.ops.copy import copy
from tilebench.ops.examples import Draft
from tilebench.ops.reduce import reduce_max, reduce_sum
from tilebench.passes.stages import Lowered, Synchronised

ROWS, WIDE = 1, 512
EXECUTIONS = 200


def waits(body: Stmt) -> list[Barrier]:
    """Barriers that only wait for the last readers of scratch."""
    return [n for n in walk(body) if isinstance(n, Barrier) and n.reuse is not None]


def barriers(body: Stmt) -> list[Barrier]:
    return [n for n in walk(body) if isinstance(n, Barrier)]


def is_scratch(m: object) -> bool:
    return isinstance(m, Memory) and m.space == "shared" and m.origin is None


def events(s: Stmt, rng: random.Random, out: list[str]) -> bool:
    """Append the barriers, reads and writes of scratch of one execution; whether it ended by a break."""
    match s:
        case Seq():
            return any(events(part, rng, out) for part in s.body)
        case Barrier():
            out.append("barrier")
        case Break():
            return True
        case If():
            if s.orelse is not None or rng.random() < 0.5:
                return events(s.then if rng.random() < 0.5 or s.orelse is None else s.orelse, rng, out)
        case For() | While():
            for _ in range(rng.randrange(4)):
                if events(s.body, rng, out):
                    break
        case _:
            out += ["read" for n in walk(s) if isinstance(n, Load) and is_scratch(n.buffer)]
            if is_scratch(getattr(s, "buffer", None)):
                out.append("write")
    return False


def is_overwritten(body: Stmt) -> bool:
    """Whether scratch may be written while some thread still reads what was there."""
    rng = random.Random(1)
    for _ in range(EXECUTIONS):
        path: list[str] = []
        events(body, rng, path)
        reading = False
        for e in path:
            if e == "write" and reading:
                return True
            reading = e == "read" or (reading and e != "barrier")
    return False


def random_program(seed: int) -> Kernel:
    """Folds between warps and elements sent to all threads, in loops and ifs, with tiles in between."""
    rng = np.random.default_rng(seed)
    d = Draft("folds")
    flag = d.tensor("F", (4,), "int32")
    a, out = d.tensor("A", (ROWS, WIDE), "int32"), d.tensor("O", (ROWS,), "int32", "out")
    x, s = d.fragment("x", (ROWS, WIDE), "int32"), d.shared("s", (WIDE,), "int32")
    total, y = d.fragment("total", (ROWS,), "int32"), d.fragment("y", (WIDE,), "int32")
    with d.parallel(ROWS) as (i,):
        d.store(total, i, 0)
    with d.parallel(WIDE) as (i,):
        d.store(y, i, i)
    d.add(copy(a, x))

    def statement() -> None:
        kind = rng.integers(0, 4)
        if kind == 0:
            d.add(reduce_max(x, total, dim=1, clear=False))
        elif kind == 1:
            d.add(reduce_sum(x, total, dim=1))
        elif kind == 2:
            with d.parallel(WIDE) as (i,):
                d.store(s, i, y[i] + 1)
            with d.parallel(WIDE) as (i,):
                d.store(y, i, s[WIDE - 1 - i])
        else:
            with d.parallel(ROWS, WIDE) as (i, j):
                d.store(x, (i, j), x[i, j] + total[i])

    def block(depth: int) -> None:
        for _ in range(rng.integers(1, 4)):
            kind = rng.integers(0, 6) if depth < 2 else 5
            if kind == 0:
                with d.serial(2):
                    block(depth + 1)
            elif kind == 1:
                with d.when(binary("gt", flag[int(rng.integers(0, 4))], 0)):
                    block(depth + 1)
            elif kind == 2:
                with d.serial(3) as k:
                    block(depth + 1)
                    d.add(If(binary("eq", k, const(1)), Break()))
                    statement()
            else:
                statement()

    block(0)
    d.add(reduce_sum(x, total, dim=1))
    d.add(copy(total, out))
    return d.kernel()


SEEDS = range(30)


@pytest.mark.parametrize("seed", SEEDS)
def test_scratch_is_never_overwritten_under_its_readers_and_no_wait_is_for_nothing(seed: int) -> None:
    (role,) = lowered(random_program(seed)).program.roles
    assert not is_overwritten(role.body)
    for barrier in waits(role.body):
        without = transform(role.body, lambda n, b=barrier: Seq(()) if n is b else None)
        assert is_overwritten(without)


@pytest.mark.parametrize("seed", range(8))
def test_random_folds_run_without_races(seed: int) -> None:
    assert_emulated_is_interp(random_program(seed), seed)


def test_there_are_waits_to_leave_out_and_waits_to_keep() -> None:
    left = [len(waits(lowered(random_program(s)).program.roles[0].body)) for s in SEEDS]
    assert any(left)
    assert not all(left)


# -- a maximum between warpgroups, and a tile of weights that both write and read, in each iteration


def in_the_loop(s: Stmt) -> list[Barrier]:
    loops = [n for n in walk(s) if isinstance(n, For) and any(isinstance(m, Wgmma) for m in walk(n))]
    return barriers(loops[-1].body)


def softmax_program() -> Program:
    low: Lowered = stage(parse_prim_func(softmax_loop()), Lowered)
    return low.program


def test_an_iteration_of_a_softmax_between_warpgroups_has_two_barriers() -> None:
    body = softmax_program().roles[0].body
    assert len(in_the_loop(body)) == 2
    assert not waits(body)


def without(program: Program, barrier: Barrier) -> Program:
    """The program in which one barrier is missing."""
    fresh: dict[int, Stmt] = {}
    for r in program.roles:
        if id(r.body) not in fresh:
            fresh[id(r.body)] = transform(r.body, lambda n: Seq(()) if n is barrier else None)
    roles = tuple(dataclasses.replace(r, body=fresh[id(r.body)]) for r in program.roles)
    return dataclasses.replace(program, roles=roles)


def inputs() -> list[Any]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((n, 64)).astype(np.float16) for n in (64, 256, 64)]


def emulated(program: Program) -> list[str]:
    return [f.text for f in run_program(program, inputs(), {}).findings]


def test_the_emulator_finds_each_of_them_when_it_is_missing() -> None:
    program = softmax_program()
    assert not emulated(program)
    for barrier in in_the_loop(program.roles[0].body):
        assert any("no barrier between" in text for text in emulated(without(program, barrier)))


def test_the_softmax_may_trail_by_an_iteration() -> None:
    kernel = parse_prim_func(softmax_loop(order=[-1, 6, 7, *range(6)], stage=[-1, 0, 0, *[1] * 6]))
    by_hand = {**kernel.attributes, "pass_configs": {"TB_STAGES_BY_HAND": True}}
    trailing: Lowered = stage(dataclasses.replace(kernel, attributes=by_hand), Lowered)
    assert len(in_the_loop(trailing.program.roles[0].body)) == 2
    values = [inputs() for _ in range(2)]
    for program, tensors in zip((softmax_program(), trailing.program), values, strict=True):
        assert not run_program(program, tensors, {}).findings
    assert np.array_equal(values[0][2], values[1][2])


# -- a fold as a barrier


def weights(threads: int) -> Kernel:
    """A tile that all threads read, folded, and written anew from what was read."""
    d = Draft("weights", threads=threads)
    a, b = d.tensor("A", (ROWS, WIDE), "int32"), d.tensor("B", (ROWS, WIDE), "int32", "out")
    s = d.shared("s", (ROWS, WIDE), "int32")
    x, top = d.fragment("x", (ROWS, WIDE), "int32"), d.fragment("top", (ROWS,), "int32")
    d.add(copy(a, s))
    with d.parallel(ROWS, WIDE) as (i, j):
        d.store(x, (i, j), s[ROWS - 1 - i, WIDE - 1 - j])
    d.add(reduce_max(x, top, dim=1))
    with d.parallel(ROWS, WIDE) as (i, j):
        d.store(s, (i, j), x[i, j] - top[i])
    with d.parallel(ROWS, WIDE) as (i, j):
        d.store(b, (i, j), s[ROWS - 1 - i, j])
    return d.kernel()


def test_reads_before_a_fold_between_warps_are_over_behind_it() -> None:
    kernel = weights(128)
    assert [n.hazard for n in stage(kernel, Synchronised, "emu:sm_80").notes] == ["RAW", "RAW"]
    assert_emulated_is_interp(kernel)


def test_a_fold_within_a_warp_is_no_barrier() -> None:
    kernel = weights(64)
    assert [n.hazard for n in stage(kernel, Synchronised, "emu:sm_80").notes] == ["RAW", "WAR", "RAW"]
    assert_emulated_is_interp(kernel)
