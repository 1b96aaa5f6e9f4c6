"""Consumers in turn: each has every other tile, and the emulator finds what is left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.backends.running import run
from tests.kernels import programs
from tests.ops.test_examples import shape_of
from tests.passes.test_handover import configured, stage
from tilebench.backends.cuda.emit import emit
from tilebench.backends.emulator import EmulationResult, run_program
from tilebench.ir.hopper import MBarrierArrive, MBarrierWait
from tilebench.ir.rewrite import Node, seq, transform
from tilebench.ir.thread import Program
from tilebench.ir.tile import Kernel
from tilebench.kernel.roles import with_roles
from tilebench.language.parse import parse_prim_func
from tilebench.passes import persistent
from tilebench.passes.stages import Lowered, Scheduled

ASKED = {"TB_PERSISTENT": True, "TB_CONSUMERS_IN_TURN": True}
BLOCKS = 4


@pytest.fixture(autouse=True)
def few_multiprocessors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistent, "multiprocessors", lambda arch: BLOCKS)


def gemm(m: int = 128 * 4, n: int = 64 * 3, k: int = 192, **options: Any) -> Kernel:
    settings = {"block_M": 128, "block_N": 64, "block_K": 64, "num_stages": 3, "threads": 256, **options}
    return with_roles(parse_prim_func(programs.gemm(m, n, k, **settings)))


def attention(causal: bool = False) -> Kernel:
    made = programs.attention(1, 3, 256, 256, 64, causal, block_M=64, block_N=64, threads=128)
    return with_roles(parse_prim_func(made))


def program_of(kernel: Kernel, **configs: bool) -> Program:
    return stage(configured(kernel, **configs), Lowered).program


def emulate(kernel: Kernel, program: Program, **options: Any) -> tuple[EmulationResult, float]:
    """What the emulator finds, and the relative error of the last tensor."""
    rng = np.random.default_rng(2)
    given = [rng.standard_normal(shape_of(p.value)).astype("float16") for p in kernel.params]  # type: ignore[arg-type]
    expected, emulated = [a.copy() for a in given], [a.copy() for a in given]
    run(kernel, *expected)
    result = run_program(program, emulated, {}, **options)
    x, y = expected[-1].astype(np.float64), emulated[-1].astype(np.float64)
    return result, float(np.linalg.norm(x - y) / np.linalg.norm(x))


def is_right(kernel: Kernel, program: Program, **options: Any) -> None:
    result, error = emulate(kernel, program, **options)
    assert not result.findings, "\n".join(f.text for f in result.findings)
    assert error <= 1e-3


def changed(program: Program, rule: Callable[[Node], Node | None]) -> Program:
    roles = tuple(dataclasses.replace(r, body=transform(r.body, rule)) for r in program.roles)
    assert program.prologue is not None
    return dataclasses.replace(program, roles=roles, prologue=transform(program.prologue, rule))


def one_group(**options: Any) -> Kernel:
    return gemm(**{"m": 128 * 4, "n": 64 * 3, "k": 192, "threads": 128, **options})


def in_turn(kernel: Kernel, **more: bool) -> Program:
    return program_of(kernel, **ASKED, **more)


@pytest.mark.parametrize("schedule", ["forward", "reverse", 3, 8])
def test_two_teams_are_right(schedule: Any) -> None:
    kernel = one_group()
    program = in_turn(kernel)
    assert [r.name for r in program.roles] == ["consumer0", "consumer1", "producer"]
    assert program.threads == 384
    is_right(kernel, program, schedule=schedule)


@pytest.mark.parametrize(
    "options",
    [
        {"k": 320, "num_stages": 3},
        {"k": 64, "num_stages": 2},
        {"m": 128 * 5, "n": 64 * 3, "k": 448, "num_stages": 4},
        {"m": 128 * 3, "n": 64, "transpose_B": True},
        {"m": 300, "n": 136, "k": 200, "panel": 2},
    ],
    ids=str,
)
def test_rings_and_tiles_of_any_length(options: dict[str, Any]) -> None:
    kernel = one_group(**options)
    is_right(kernel, in_turn(kernel), schedule=5)


@pytest.mark.parametrize(
    "kernel", [gemm(threads=256), attention(causal=True)], ids=["two groups a tile", "loops of other lengths"]
)
def test_where_consumers_share_a_tile(kernel: Kernel) -> None:
    assert "teams" not in in_turn(kernel).facts


def test_only_where_it_is_asked_for() -> None:
    assert "teams" not in program_of(one_group(), TB_PERSISTENT=True).facts


def test_the_schedule_says_so() -> None:
    made = stage(configured(one_group(), **ASKED), Scheduled)
    assert [s.ping_pong for s in made.schedules] == [True]
    assert not any(s.ping_pong for s in stage(one_group(), Scheduled).schedules)


def test_the_text() -> None:
    text = emit(in_turn(one_group())).text
    assert "__launch_bounds__(384, 1)" in text
    assert "barrier<1, 128>()" in text
    assert "barrier<2, 128>()" in text


# ------------------------------------------------------------------ what the emulator says when it is wrong


def no_waiting_for_a_turn(node: Node) -> Node | None:
    return seq() if isinstance(node, MBarrierWait) and node.barrier.name.startswith("turn") else None


def no_turn_given(node: Node) -> Node | None:
    return seq() if isinstance(node, MBarrierArrive) and node.barrier.name.startswith("turn") else None


@pytest.mark.parametrize(
    ("rule", "kinds"),
    [
        (no_waiting_for_a_turn, {"mbarrier", "async-race", "deadlock"}),
        (no_turn_given, {"deadlock"}),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_the_emulator_finds(rule: Callable[[Node], Node | None], kinds: set[str]) -> None:
    kernel = one_group(m=128 * 6, n=64 * 4)
    result, _ = emulate(kernel, changed(in_turn(kernel), rule), schedule=3)
    assert {f.kind for f in result.findings} & kinds, [f.text for f in result.findings]
