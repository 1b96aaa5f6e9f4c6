"""Persistent blocks: their next tiles ahead, long and short tiles in pairs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.backends.running import run
from tests.kernels import programs
from tests.ops.test_examples import arguments, shape_of
from tests.passes.emulated import assert_emulated_is_interp
from tests.passes.pipelined_kernels import pipelined_gemm
from tests.passes.test_handover import HOPPER, configured, stage
from tilebench.backends.emulator import run_program
from tilebench.compiler import analyse
from tilebench.ir.expr import Var, const, int_value
from tilebench.ir.hopper import MBarrierArrive, MBarrierWait
from tilebench.ir.rewrite import substitute, transform, walk
from tilebench.ir.simplify import simplify
from tilebench.ir.thread import Program, Role
from tilebench.ir.tile import Bind, For, Kernel, Seq
from tilebench.kernel.roles import with_roles
from tilebench.language.parse import parse_prim_func
from tilebench.passes import handover, persistent
from tilebench.passes.stages import Allocated, Lowered, Selected
from tilebench.targets import parse

BLOCKS = 5
AHEAD = {"TB_PERSISTENT": True}
NOT_AHEAD = {**AHEAD, "TB_TILES_AHEAD": False}
BACK = {"TB_PAIRED_TILES": False}
CHOICES = [AHEAD, NOT_AHEAD, {**AHEAD, **BACK}, {**NOT_AHEAD, **BACK}]


@pytest.fixture(autouse=True)
def few_multiprocessors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistent, "multiprocessors", lambda arch: BLOCKS)


def attention(causal: bool, seq: int = 256, heads: int = 3, dim: int = 64, threads: int = 128) -> Kernel:
    rows = threads // 2
    return with_roles(
        parse_prim_func(
            programs.attention(1, heads, seq, seq, dim, causal, block_M=rows, block_N=64, threads=threads)
        )
    )


@pytest.mark.parametrize(
    "choice", CHOICES, ids=lambda c: "+".join(x[3:].lower() for x in c if x != "TB_PERSISTENT")
)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_right_with_each(choice: dict[str, bool], causal: bool) -> None:
    kernel = configured(attention(causal, dim=128), **choice)
    rng = np.random.default_rng(2)
    given = [rng.standard_normal(shape_of(p.value)).astype("float16") for p in kernel.params]  # type: ignore[arg-type]
    expected, emulated = [a.copy() for a in given], [a.copy() for a in given]
    run(kernel, *expected)
    result = run_program(stage(kernel, Lowered).program, emulated, {})
    assert not result.findings, "\n".join(f.text for f in result.findings)
    x, y = expected[3].astype(np.float64), emulated[3].astype(np.float64)
    assert np.linalg.norm(x - y) <= 1e-3 * np.linalg.norm(x)


@pytest.mark.parametrize("choice", CHOICES[:2])
def test_gemm_is_right_with_each(choice: dict[str, bool]) -> None:
    kernel = pipelined_gemm(64 * 3, 128 * 3, 96, (64, 128, 32), 3, threads=128)
    assert_emulated_is_interp(configured(kernel, **choice), target=HOPPER)


def test_the_next_queries_have_a_place_of_their_own() -> None:
    def versions(**configs: bool) -> dict[str, int]:
        allocated = stage(configured(attention(False), **configs), Allocated)
        return {b.name: n for b, n in allocated.scheduled.versions.items()}

    assert versions(**NOT_AHEAD)["Q_s"] == 1
    assert versions(**AHEAD)["Q_s"] == 2
    assert versions(TB_PERSISTENT=False)["Q_s"] == 1


def test_where_there_is_no_room_the_queries_have_one_place() -> None:
    prim = programs.attention(1, 3, 512, 512, 128, False, block_M=128, block_N=160, num_stages=2, threads=256)
    kernel = configured(with_roles(parse_prim_func(prim)), **AHEAD)
    allocated = stage(kernel, Allocated)
    assert {b.name: n for b, n in allocated.scheduled.versions.items()}["Q_s"] == 1
    assert "Q_s: one version" in allocated.scheduled.schedules[0].reason.text


def test_a_place_for_the_next_queries_takes_nothing_from_the_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "free_bytes", lambda selected: 1 << 20)
    prim = programs.attention(1, 3, 512, 512, 128, False, block_M=128, block_N=160, num_stages=2, threads=256)
    kernel = configured(with_roles(parse_prim_func(prim)), **AHEAD)
    for as_asked in (False, True):
        found = analyse(kernel, parse(HOPPER), as_asked=as_asked).stage(Allocated).scheduled
        assert {b.name: n for b, n in found.versions.items()} == {"Q_s": 1, "K_s": 2, "V_s": 2}
        assert found.schedules[0].wanted == 0
        assert "Q_s: one version" in found.schedules[0].reason.text


# -- pairs


@pytest.mark.parametrize(
    ("seq", "configs", "paired"),
    [
        (512, {}, True),
        (512, {"TB_PAIRED_TILES": False}, False),
        (512, {"TB_PERSISTENT": False}, False),
        (2048, {}, True),
        (2112 + 64, {}, False),
    ],
)
def test_causal_attention_of_few_trips_is_paired(seq: int, configs: dict[str, bool], paired: bool) -> None:
    kernel = configured(attention(True, seq), **configs)
    selected = analyse(kernel, parse("cuda:sm_90a"), until="select").stage(Selected)
    assert bool(selected.kernel.attributes.get(persistent.FACT)) == paired


def tiles_of(kernel: Kernel) -> list[list[tuple[int, ...]]]:
    """For each block the tiles that it does, in turn."""
    (loop,) = [n for n in walk(kernel.body) if isinstance(n, For) and n.start is kernel.blocks[0]]
    (block,) = kernel.blocks
    parts = loop.body.body if isinstance(loop.body, Seq) else (loop.body,)
    names = [p for p in parts if isinstance(p, Bind)]
    done: list[list[tuple[int, ...]]] = []

    def value(e: Any, known: dict[Var, Any]) -> int:
        found = int_value(simplify(substitute(e, known), {}))
        assert found is not None
        return found

    for b in range(value(kernel.grid[0], {})):
        mine: list[tuple[int, ...]] = []
        for tile in range(b, value(loop.stop, {block: const(b)}), value(loop.step, {})):
            known: dict[Var, Any] = {block: const(b), loop.var: const(tile)}
            for n in names:
                known[n.var] = const(value(n.value, known))
            mine.append(tuple(value(known[v], {}) for v in loop_blocks(names)))
        done.append(mine)
    return done


def loop_blocks(names: list[Bind]) -> list[Var]:
    return [n.var for n in names if n.var.name in ("bx", "by", "bz")]


@pytest.mark.parametrize(("seq", "heads"), [(256, 3), (512, 4), (128, 7)])
def test_pairs_cover_every_tile_once_and_are_equally_much_work(seq: int, heads: int) -> None:
    selected = stage(
        configured(attention(True, seq, heads), TB_PERSISTENT=True, TB_PAIRED_TILES=True), Selected
    )
    done = tiles_of(selected.kernel)
    rows = seq // 64
    every = sorted(t for mine in done for t in mine)
    assert every == [(x, y, 0) for x in range(rows) for y in range(heads)]
    for mine in done:
        for (long, head, _), (short, same, _) in zip(mine[::2], mine[1::2], strict=True):
            assert (long + short, head) == (rows - 1, same)
            assert long > short
    work = [sum(x + 1 for x, _, _ in mine) for mine in done]
    assert max(work) - min(work) <= rows + 1


def test_an_odd_number_of_rows_is_not_paired() -> None:
    kernel = attention(True, 320)
    plain = stage(configured(kernel, TB_PERSISTENT=True, TB_PAIRED_TILES=False), Selected).kernel
    asked = stage(configured(kernel, TB_PERSISTENT=True, TB_PAIRED_TILES=True), Selected).kernel
    assert tiles_of(plain) == tiles_of(asked)


# -- what orders the second version is needed


def changed(program: Program, change: Any) -> Program:
    bodies = {r.body: transform(r.body, change) for r in program.roles}
    roles = tuple(Role(r.name, r.first_thread, r.threads, bodies[r.body]) for r in program.roles)
    return dataclasses.replace(program, roles=roles)


@pytest.mark.parametrize("kind", [MBarrierWait, MBarrierArrive])
def test_each_barrier_of_the_queries_ring_is_needed(kind: type[Any]) -> None:
    # several tiles of one trip in turn
    kernel = configured(attention(True, 128, 16), **AHEAD, TB_PAIRED_TILES=False)
    program = stage(kernel, Lowered).program
    arrays = arguments(kernel, 1, True)
    assert run_program(program, arrays, {}).findings == ()
    victims = [
        n
        for r in program.roles
        for n in walk(r.body)
        if isinstance(n, kind) and n.barrier.name.startswith("Q_s")
    ]
    assert victims
    for victim in dict.fromkeys(victims):
        mutant = changed(program, lambda n, v=victim: Seq(()) if n is v else None)
        found = (run_program(mutant, arrays, {}, schedule=s).first_error for s in ("forward", "reverse"))
        assert any(error is not None for error in found)
