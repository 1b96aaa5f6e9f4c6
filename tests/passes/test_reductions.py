"""Additions and results that leave in bulk, and loops whose later stage runs an iteration behind."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.backends.running import run
from tests.kernels import programs_attention
from tests.ops.test_examples import arguments, shape_of
from tests.passes.emulated import assert_emulated_is_interp
from tests.passes.test_handover import HOPPER, configured, nodes, stage
from tilebench import compile as tb_compile
from tilebench.backends.cuda.sass import disassemble
from tilebench.backends.cuda.sass_order import order
from tilebench.backends.emulator import run_program
from tilebench.ir.expr import int_value
from tilebench.ir.hopper import BulkStore, BulkWait, FenceProxyAsync, StMatrix, WgmmaWait
from tilebench.ir.rewrite import transform, walk
from tilebench.ir.thread import Barrier, Program, Role, Turn, VectorCopy
from tilebench.ir.tile import For, Issue, Kernel, Pipelined, Release, Seq, Stmt, Versioned, Wait
from tilebench.kernel.roles import with_roles
from tilebench.language.parse import parse_prim_func
from tilebench.ops.atomic import AtomicTile, atomic_add
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import clear
from tilebench.ops.examples import Draft
from tilebench.ops.gemm import gemm
from tilebench.passes.lower import lower
from tilebench.passes.memory import allocate
from tilebench.passes.stages import Lowered, Scheduled, Selected
from tilebench.passes.sync import synchronise


def parts_of_a_sum(rows: int = 64, columns: int = 64, threads: int = 256, trips: int = 3) -> Kernel:
    """Two blocks add a product each, trip by trip, to one tensor."""
    d = Draft("parts_of_a_sum", (2,), threads)
    (bx,) = d.blocks
    A, B = (
        d.tensor("A", (rows, 2 * trips * 32), "float16"),
        d.tensor("B", (2 * trips * 32, columns), "float16"),
    )
    Z = d.tensor("Z", (trips, rows, columns), "float32", "inout")
    A_s, B_s = d.shared("A_s", (rows, 32), "float16"), d.shared("B_s", (32, columns), "float16")
    c, c_s = d.fragment("c", (rows, columns), "float32"), d.shared("c_s", (rows, columns), "float32")
    with d.pipelined(trips, 2) as k:
        at = (bx * trips + k) * 32
        d.add(copy(A[0, at], A_s), copy(B[at, 0], B_s), gemm(A_s, B_s, c, clear_accum=True), copy(c, c_s))
        d.add(atomic_add(Z[k, 0, 0], c_s))
    return d.kernel()


def reductions(kernel: Kernel) -> list[AtomicTile]:
    selected = stage(kernel, Selected)
    return [op for op, i in selected.instructions.items() if i.name == "bulk.reduce"]


def test_the_config_turns_them_off() -> None:
    kernel = configured(parts_of_a_sum(), TB_BULK_REDUCE=False)
    assert not reductions(kernel)
    (op,) = [op for op in stage(kernel, Selected).declined if isinstance(op, AtomicTile)]
    assert "TB_BULK_REDUCE is False" in stage(kernel, Selected).declined[op][0].text


@pytest.mark.parametrize(
    ("rows", "columns", "threads", "alone"),
    [
        (64, 64, 128, True),
        (64, 64, 256, True),
        (64, 128, 256, True),
        (128, 64, 256, False),
        (64, 32, 256, False),
    ],
)
def test_tiles_are_added_by_bulk_reductions(rows: int, columns: int, threads: int, alone: bool) -> None:
    kernel = parts_of_a_sum(rows, columns, threads)
    (op,) = reductions(kernel)
    assert op.alone == alone
    stores = nodes(kernel, BulkStore)
    assert stores
    assert {s.combine for s in stores} == {"add"}
    assert_emulated_is_interp(kernel, target=HOPPER)


def in_threads_order(threads: int = 256, mixed: bool = False) -> Kernel:
    """A product's result leaves in the order in which its threads hold it; mixed: the parts of the
    warpgroups change places.
    """
    d = Draft("in_threads_order", (2,), threads)
    (bx,) = d.blocks
    A, B = d.tensor("A", (64, 192), "float16"), d.tensor("B", (192, 128), "float16")
    Z = d.tensor("Z", (3, 256, 32), "float32", "inout")
    A_s, B_s = d.shared("A_s", (64, 32), "float16"), d.shared("B_s", (32, 128), "float16")
    c, c_s = d.fragment("c", (64, 128), "float32"), d.shared("c_s", (256, 32), "float32")
    with d.pipelined(3, 2) as k:
        at = (bx * 3 + k) * 32
        d.add(copy(A[0, at], A_s), copy(B[at, 0], B_s), gemm(A_s, B_s, c, clear_accum=True))
        with d.parallel(16, 4, 4, 2, 4, 2, 2) as (q, w, g, o, x, h, e):
            row = (15 - q if mixed else q) * 16 + w * 4 + g
            value = c[w * 16 + h * 8 + g * 2 + o, q * 8 + x * 2 + e]
            d.store(c_s, (row, o * 16 + x * 4 + h * 2 + e), value)
        d.add(atomic_add(Z[k, 0, 0], c_s))
    return d.kernel()


@pytest.mark.parametrize(
    ("threads", "mixed", "alone"), [(256, False, True), (256, True, False), (128, True, True)]
)
def test_results_may_leave_in_the_order_of_their_threads(threads: int, mixed: bool, alone: bool) -> None:
    kernel = in_threads_order(threads, mixed)
    (op,) = reductions(kernel)
    assert (op.alone, op.by_rows) == (alone, alone)
    tile = [n for n in nodes(kernel, VectorCopy) if n.destination.name == "c_s"]
    assert [n.lanes for n in tile] == [4]
    meetings = {n.threads for n in nodes(kernel, Barrier)}
    assert (256 in meetings) == (threads == 256 and not alone)
    assert_emulated_is_interp(kernel, target=HOPPER)


def test_without_a_producer_each_element_is_added_on_its_own() -> None:
    kernel = configured(parts_of_a_sum(), TL_DISABLE_WARP_SPECIALIZED=True)
    assert not reductions(kernel)
    assert_emulated_is_interp(kernel, target=HOPPER)


def without(program: Program, kind: type[Stmt]) -> Program:
    """The program without any statement of a kind in its roles."""

    def change(n: Any) -> Any:
        return Seq(()) if isinstance(n, kind) else None

    bodies = {r.body: transform(r.body, change) for r in program.roles}
    roles = tuple(Role(r.name, r.first_thread, r.threads, bodies[r.body]) for r in program.roles)
    return dataclasses.replace(program, roles=roles)


@pytest.mark.parametrize("kind", [Barrier, FenceProxyAsync, BulkWait, WgmmaWait])
@pytest.mark.parametrize("threads", [128, 256])
def test_what_orders_a_reduction_is_needed(kind: type[Stmt], threads: int) -> None:
    kernel = parts_of_a_sum(64, 64, threads)
    program = stage(kernel, Lowered).program
    arrays = arguments(kernel, 1, True)
    assert run_program(without(program, kind), arrays, {}).first_error is not None


def test_two_blocks_that_store_instead_of_adding_race() -> None:
    kernel = parts_of_a_sum()
    program = stage(kernel, Lowered).program

    def change(n: Any) -> Any:
        return dataclasses.replace(n, combine="") if isinstance(n, BulkStore) else None

    bodies = {r.body: transform(r.body, change) for r in program.roles}
    roles = tuple(Role(r.name, r.first_thread, r.threads, bodies[r.body]) for r in program.roles)
    error = run_program(dataclasses.replace(program, roles=roles), arguments(kernel, 1, True), {}).first_error
    assert error is not None
    assert "race" in error[0].kind


@pytest.mark.parametrize("causal", [False, True])
def test_in_machine_code_dq_leaves_while_dk_is_multiplied(causal: bool) -> None:
    prim = programs_attention.attention_backward(4, 16, 4096, 128, causal)
    built = tb_compile(prim, target="cuda:sm_90a").executable.built
    assert built.warnings == ()
    assert built.spill_bytes == 0
    found = order(disassemble(built.binary).text, ("HGMMA", "WARPGROUP.DEPBAR", "UTMAREDG", "STSM"))
    way = found[found.index("STSM x4") :]
    assert way[:5] == ("STSM x4", "HGMMA x12", "WARPGROUP.DEPBAR 1", "UTMAREDG", "WARPGROUP.DEPBAR 0")


# -- operands that are stored for another product


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_an_operand_in_registers_is_stored_by_stmatrix(dtype: str, threads: int) -> None:
    d = Draft("both_ways", (1,), threads)
    A, B = d.tensor("A", (128, 96), dtype), d.tensor("B", (96, 64), dtype)
    C, D = d.tensor("C", (128, 64), "float32", "out"), d.tensor("D", (64, 64), "float32", "out")
    A_s, B_s = d.shared("A_s", (128, 32), dtype), d.shared("B_s", (32, 64), dtype)
    s, p = d.fragment("s", (128, 64), "float32"), d.fragment("p", (128, 64), dtype)
    p_s = d.shared("p_s", (128, 64), dtype)
    c, e = d.fragment("c", (128, 64), "float32"), d.fragment("e", (64, 64), "float32")
    d.add(clear(s))
    with d.pipelined(3, 2) as k:
        d.add(copy(A[0, k * 32], A_s), copy(B[k * 32, 0], B_s), gemm(A_s, B_s, s))
    W, W_s = d.tensor("W", (64, 64), dtype), d.shared("W_s", (64, 64), dtype)
    d.add(copy(W[0, 0], W_s), copy(s, p), copy(p, p_s))
    d.add(gemm(p, W_s, c, clear_accum=True), gemm(p_s, p_s, e, transpose_A=True, clear_accum=True))
    d.add(copy(c, C[0, 0]), copy(e, D[0, 0]))
    kernel = d.kernel()
    plain = configured(kernel, TB_STORE_OPERANDS_BY_MATRIX=False)
    names = [
        i.name for op, i in stage(kernel, Selected).instructions.items() if getattr(op, "operand", False)
    ]
    assert names == ["stmatrix"]
    assert len(nodes(kernel, StMatrix)) > len(nodes(plain, StMatrix))
    assert_emulated_is_interp(kernel, target=HOPPER)


# -- the later of two stages


def twice(stages: list[int], order: list[int], trips: int = 4, versions: int = 3) -> Kernel:
    """The products of all tiles, one by one, and their sum, from the same tiles."""
    d = Draft("twice", (2,), 128)
    (bx,) = d.blocks
    A, B = d.tensor("A", (2, 64, trips * 32), "float16"), d.tensor("B", (trips * 32, 64), "float16")
    C, S = d.tensor("C", (2, trips, 64, 64), "float32", "out"), d.tensor("S", (2, 64, 64), "float32", "out")
    A_s, B_s = d.shared("A_s", (64, 32), "float16"), d.shared("B_s", (32, 64), "float16")
    c, s = d.fragment("c", (64, 64), "float32"), d.fragment("s", (64, 64), "float32")
    d.add(clear(s))
    with d.pipelined(trips, versions) as k:
        d.add(copy(A[bx, 0, k * 32], A_s), copy(B[k * 32, 0], B_s))
        d.add(gemm(A_s, B_s, c, clear_accum=True), copy(c, C[bx, k, 0, 0]), gemm(A_s, B_s, s))
    d.add(copy(s, S[bx, 0, 0]))
    kernel = d.kernel()

    def change(n: Any) -> Any:
        if not isinstance(n, Pipelined):
            return None
        return dataclasses.replace(n, stage=(-1, -1, *stages), order=(-1, -1, *order))

    return dataclasses.replace(kernel, body=transform(kernel.body, change))


@pytest.mark.parametrize("trips", [1, 2, 5])
@pytest.mark.parametrize("versions", [2, 3])
def test_tiles_are_kept_for_the_later_stage(trips: int, versions: int) -> None:
    kernel = configured(twice([0, 0, 1], [0, 2, 1], trips, versions), TB_STAGES_BY_HAND=True)
    late = [
        n
        for n in walk(stage(kernel, Scheduled).body)
        if isinstance(n, Versioned) and isinstance(n.body, Issue)
    ]
    assert len(late) == (2 if trips > 1 else 0)
    assert_emulated_is_interp(kernel, target=HOPPER)
    assert_emulated_is_interp(configured(kernel, TB_STAGES_BY_HAND=True, TB_PERSISTENT=True), target=HOPPER)


def test_a_version_given_back_too_early_or_the_wrong_one_is_found() -> None:
    kernel = configured(twice([0, 0, 1], [0, 2, 1]), TB_STAGES_BY_HAND=True)
    scheduled = stage(kernel, Scheduled)

    def run_with(change: Callable[[Any], Any]) -> tuple[bool, bool]:
        """Whether the emulator complains, and whether the values are right."""
        changed = dataclasses.replace(scheduled, body=transform(scheduled.body, change))
        program = lower(synchronise(allocate(changed))).program
        expected, got = arguments(kernel, 1, True), arguments(kernel, 1, True)
        run(kernel, *expected)
        result = run_program(program, got, {})
        return bool(result.findings), all(np.array_equal(a, b) for a, b in zip(expected, got, strict=True))

    assert run_with(lambda n: None) == (False, True)
    own = run_with(lambda n: n.body if isinstance(n, Versioned) and isinstance(n.body, Issue) else None)
    assert own[0] or not own[1]
    early = run_with(
        lambda n: (
            dataclasses.replace(n, give="own") if isinstance(n, Release) and n.give == "previous" else None
        )
    )
    assert early[0] or not early[1]
    complains, _ = run_with(lambda n: Seq(()) if isinstance(n, Wait) else None)
    assert complains


@pytest.mark.parametrize(
    ("stages", "order", "why"),
    [
        ([0, 1, 1], [0, 2, 1], "the copy out of c would see the next iteration's"),
        ([1, 0, 0], [0, 1, 2], "the copy out of c would come before it is made"),
        ([0, 0, 2], [0, 2, 1], "stages 0 and 2 are not one after the other"),
        ([0, 0, 0], [0, 1, 2], "one stage"),
    ],
)
def test_stages_that_break_a_dependence_are_left_alone(stages: list[int], order: list[int], why: str) -> None:
    kernel = configured(twice(stages, order), TB_STAGES_BY_HAND=True)
    loops = [n for n in walk(stage(kernel, Scheduled).body) if isinstance(n, For)]
    assert all(int_value(loop.start) == 0 for loop in loops), why
    assert_emulated_is_interp(kernel, target=HOPPER)


# -- where both come together


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seq", [128, 256])
def test_the_backward_pass(seq: int, causal: bool) -> None:
    kernel = with_roles(parse_prim_func(programs_attention.attention_backward(1, 1, seq, 64, causal)))
    assert {"bulk.reduce", "stmatrix"} <= {i.name for i in stage(kernel, Selected).instructions.values()}
    rng = np.random.default_rng(2)
    given = [rng.standard_normal(shape_of(p.value)).astype(p.value.dtype.name) for p in kernel.params]  # type: ignore[arg-type, union-attr]
    given[4] += 4.0  # log2 of the sums
    expected, emulated = [a.copy() for a in given], [a.copy() for a in given]
    run(kernel, *expected)
    result = run_program(stage(kernel, Lowered).program, emulated, {})
    assert not result.findings, "\n".join(f.text for f in result.findings)
    for x, y in zip(expected[6:], emulated[6:], strict=True):
        x, y = x.astype(np.float64), y.astype(np.float64)
        assert np.linalg.norm(x - y) <= 1e-3 * np.linalg.norm(x)


def test_warpgroups_of_the_backward_pass_take_turns() -> None:
    kernel = with_roles(parse_prim_func(programs_attention.attention_backward(1, 1, 256, 128)))
    turns = nodes(kernel, Turn)
    assert sorted((t.id, t.take) for t in turns) == [
        (i, take) for i in sorted({t.id for t in turns}) for take in (False, True)
    ]
    assert len(turns) == 4  # scores and their gradients, then dQ and dK
    assert not {t.id for t in turns} & {n.id for n in nodes(kernel, Barrier)}
    assert not nodes(configured(kernel, TB_TURNS=False), Turn)


def test_threads_meet_once_an_iteration_of_the_backward_pass() -> None:
    kernel = with_roles(parse_prim_func(programs_attention.attention_backward(1, 1, 256, 128)))
    loops = [n for n in nodes(kernel, For) if any(isinstance(x, Turn) for x in walk(n))]
    inner = min(loops, key=lambda n: sum(1 for _ in walk(n)))
    assert sum(isinstance(n, Barrier) and n.threads == 256 for n in walk(inner)) == 1
    assert sum(isinstance(n, FenceProxyAsync) for n in walk(inner)) == 2  # dS is there; dQ's tile is


# -- results of each iteration


def partial_results(*, same_place: bool = False, read_back: bool = False) -> Kernel:
    """A product an iteration, each to its own place of C; same_place: all to one; read_back: read again."""
    d = Draft("partial_results", (2,), 128)
    (bx,) = d.blocks
    A, B = d.tensor("A", (2, 64, 128), "float16"), d.tensor("B", (128, 64), "float16")
    C = d.tensor("C", (2, 4, 64, 64), "float16", "inout")
    A_s, B_s = d.shared("A_s", (64, 32), "float16"), d.shared("B_s", (32, 64), "float16")
    c, e = d.fragment("c", (64, 64), "float32"), d.fragment("e", (64, 64), "float32")
    with d.pipelined(4, 2) as k:
        d.add(copy(A[bx, 0, k * 32], A_s), copy(B[k * 32, 0], B_s), gemm(A_s, B_s, c, clear_accum=True))
        d.add(copy(c, C[bx, 0 if same_place else k, 0, 0]))
        if read_back:
            d.add(copy(C[bx, k, 0, 0], e), copy(e, C[bx, k, 0, 0]))
    return d.kernel()


@pytest.mark.parametrize(
    ("options", "configs", "staged"),
    [
        ({}, {}, True),
        ({}, {"TB_STAGE_IN_LOOPS": False}, False),
        ({"same_place": True}, {}, False),  # bulk stores end in no order
        ({"read_back": True}, {}, False),
    ],
)
def test_results_of_iterations_leave_in_bulk_where_their_order_is_nothing(
    options: dict[str, bool], configs: dict[str, bool], staged: bool
) -> None:
    kernel = configured(partial_results(**options), **configs)
    assert ("bulk.store" in {i.name for i in stage(kernel, Selected).instructions.values()}) == staged
    assert_emulated_is_interp(kernel, target=HOPPER)
