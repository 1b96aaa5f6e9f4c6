"""Producers, rings and warpgroup products on sm_90a: who does what, the same values as interp for any loop,
and what makes the compiler do without.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.passes.emulated import assert_emulated_is_interp
from tests.passes.exchanging import softmax_loop
from tests.passes.lowering import stage
from tests.passes.pipelined_kernels import attention, pipelined_gemm
from tilebench.ir.expr import Var, binary, const
from tilebench.ir.hopper import BulkLoad, BulkStore, SetMaxRegisters, Wgmma, WgmmaWait
from tilebench.ir.rewrite import transform, walk
from tilebench.ir.tile import Acquire, For, If, Issue, Kernel, Pipelined, Produce, Release, Stmt, Wait
from tilebench.ir.verify import verify_kernel, verify_program
from tilebench.language.parse import parse_prim_func
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import clear
from tilebench.ops.examples import Draft
from tilebench.ops.gemm import gemm
from tilebench.passes.stages import Lowered, Partitioned, Scheduled, Selected, Synchronised

HOPPER = "emu:sm_90a"


def configured(kernel: Kernel, **configs: object) -> Kernel:
    return dataclasses.replace(kernel, attributes={**kernel.attributes, "pass_configs": configs})


def nodes(kernel: Kernel, kind: type[Any]) -> list[Any]:
    program = stage(kernel, Lowered).program
    bodies = {id(r.body): r.body for r in program.roles}.values()
    return [n for body in bodies for n in walk(body) if isinstance(n, kind)]


def scheduled(kernel: Kernel) -> list[Stmt]:
    return [n for n in walk(stage(kernel, Scheduled).body) if isinstance(n, Stmt)]


# -- values


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize(("ta", "tb"), [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_of_16_bits_in_every_transposition(dtype: str, ta: bool, tb: bool, threads: int) -> None:
    kernel = pipelined_gemm(136, 72, 104, (128, 64, 32), 3, dtype, "float32", ta, tb, threads)
    assert stage(kernel, Selected).specialised
    assert_emulated_is_interp(kernel, target=HOPPER)


@pytest.mark.parametrize("n", [8, 24, 40, 72, 200])
@pytest.mark.parametrize(("dtype", "tb"), [("float16", False), ("bfloat16", True), ("int8", True)])
def test_products_of_an_odd_number_of_eights(dtype: str, tb: bool, n: int) -> None:
    kernel = pipelined_gemm(72, n + 8, 104, (64, n, 32), 3, dtype, "float32", False, tb)
    if dtype == "int8":  # there, no N is an odd multiple of 8 but 8 and 24
        kernel = pipelined_gemm(72, n + 8, 112, (64, n, 32), 3, dtype, "int32", False, tb)
    products = nodes(kernel, Wgmma)
    assert {p.n for p in products} == ({24 if n in (24, 72) else 8} if dtype == "int8" else {n})
    assert stage(kernel, Selected).specialised
    assert_emulated_is_interp(kernel, target=HOPPER)


@pytest.mark.parametrize(
    ("m", "n", "threads"),
    [(64, 144, 256), (64, 272, 128), (64, 208, 256), (64, 216, 384), (64, 192, 256), (192, 88, 384)],
)
def test_products_side_by_side_start_where_panels_do(m: int, n: int, threads: int) -> None:
    kernel = pipelined_gemm(m, n + 8, 72, (m, n, 32), 2, threads=threads)
    assert stage(kernel, Selected).specialised
    assert_emulated_is_interp(kernel, target=HOPPER)


@pytest.mark.parametrize(
    ("dtype", "accumulator"),
    [("int8", "int32"), ("float8_e4m3", "float32"), ("float8_e5m2", "float16"), ("float16", "float16")],
)
def test_products_of_other_types(dtype: str, accumulator: str) -> None:
    kernel = pipelined_gemm(128, 80, 192, (64, 80, 64), 3, dtype, accumulator, False, True)
    assert nodes(kernel, Wgmma)
    assert_emulated_is_interp(kernel, target=HOPPER)


def test_8_bit_operands_along_n_are_refused_with_the_reason() -> None:
    kernel = pipelined_gemm(128, 64, 128, (64, 64, 64), 2, "int8", "int32")
    selected = stage(kernel, Selected)
    (op,) = [op for op in selected.declined if type(op).__name__ == "Gemm"]
    assert "must lie along K" in selected.declined[op][0].text
    assert not selected.specialised


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("length", [8, 32, 40, 200])
def test_any_number_of_stages_and_trips(stages: int, length: int) -> None:
    assert_emulated_is_interp(pipelined_gemm(64, 64, length, (64, 64, 32), stages), target=HOPPER)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [64, 128, 320])
@pytest.mark.parametrize(("rows", "threads"), [(64, 128), (128, 256)])
def test_attention_trails_its_second_product(length: int, causal: bool, rows: int, threads: int) -> None:
    kernel = attention(length, rows=rows, causal=causal, threads=threads)
    assert_emulated_is_interp(kernel, target=HOPPER)
    (schedule,) = stage(kernel, Scheduled).schedules
    assert "trails by an iteration" in schedule.reason.text
    assert schedule.overlap


@pytest.mark.parametrize(
    "config", ["TB_DISABLE_PRODUCT_OVERLAP", "TB_PIN_PRODUCT_WAIT", "TB_DISABLE_RESULT_STAGING"]
)
def test_every_schedule_gives_the_same_values(config: str) -> None:
    assert_emulated_is_interp(configured(attention(192, causal=True), **{config: True}), target=HOPPER)
    assert_emulated_is_interp(configured(pipelined_gemm(96, 64, 160), **{config: True}), target=HOPPER)


@pytest.mark.parametrize("tile", [(64, 32, 32), (64, 128, 64)])
def test_persistent_blocks_carry_their_rings_from_tile_to_tile(tile: tuple[int, int, int]) -> None:
    kernel = configured(pipelined_gemm(64 * 12, 32 * 12, 96, tile, 3, threads=128), TB_PERSISTENT=True)
    program = stage(kernel, Lowered).program
    tiles = 12 * 12 * 32 // tile[1]
    assert program.launched((tiles // 12, 12)) == (min(132, tiles),)
    assert_emulated_is_interp(kernel, target=HOPPER)


def loop_of(trips: Callable[[Var], Any], guard: bool = False) -> Kernel:
    """A product over a number of tiles that depends on the block, perhaps none."""
    d = Draft("some_trips", (4,), 128)
    A, B = d.tensor("A", (64, 256), "float16"), d.tensor("B", (256, 64), "float16")
    C = d.tensor("C", (4, 64, 64), "float32", "out")
    (bx,) = d.blocks
    A_s, B_s = d.shared("A_s", (64, 32), "float16"), d.shared("B_s", (32, 64), "float16")
    c = d.fragment("c", (64, 64), "float32")
    d.add(clear(c))
    with d.pipelined(trips(bx), 3) as k:
        d.add(copy(A[0, k * 32], A_s), copy(B[k * 32, 0], B_s), gemm(A_s, B_s, c))
    d.add(copy(c, C[bx, 0, 0]))
    kernel = d.kernel()
    if not guard:
        return kernel

    def change(n: Any) -> Any:
        return If(binary("gt", bx, const(1)), n, loc=n.loc) if isinstance(n, Pipelined) else n

    return dataclasses.replace(kernel, body=transform(kernel.body, change))


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize(
    "trips", [lambda b: b, lambda b: b * 2 + 1, lambda b: binary("max", b - 2, const(0))]
)
def test_loops_of_no_trip_one_trip_and_many(trips: Callable[[Var], Any], guard: bool) -> None:
    kernel = loop_of(trips, guard)
    assert stage(kernel, Selected).specialised
    assert_emulated_is_interp(kernel, target=HOPPER)


def test_a_loop_inside_a_loop_keeps_the_phase() -> None:
    d = Draft("nested", (2,), 128)
    A, B = d.tensor("A", (3, 64, 96), "float16"), d.tensor("B", (96, 64), "float16")
    C = d.tensor("C", (2, 3, 64, 64), "float32", "out")
    (bx,) = d.blocks
    A_s, B_s = d.shared("A_s", (64, 32), "float16"), d.shared("B_s", (32, 64), "float16")
    c = d.fragment("c", (64, 64), "float32")
    with d.serial(3) as t:
        d.add(clear(c))
        with d.pipelined(3, 2) as k:
            d.add(copy(A[t, 0, k * 32], A_s), copy(B[k * 32, 0], B_s), gemm(A_s, B_s, c))
        d.add(copy(c, C[bx, t, 0, 0]))
    kernel = d.kernel()
    assert stage(kernel, Selected).specialised
    assert_emulated_is_interp(kernel, target=HOPPER)


# -- structure


def test_a_gemm_has_consumers_that_share_a_body_and_a_producer() -> None:
    kernel = pipelined_gemm(128, 128, 128, (128, 128, 64), 3, threads=256)
    program = stage(kernel, Lowered).program
    verify_program(program)
    verify_kernel(kernel, stage(kernel, Synchronised).body)
    assert [(r.name, r.first_thread, r.threads) for r in program.roles] == [
        ("consumer0", 0, 128),
        ("consumer1", 128, 128),
        ("producer", 256, 128),
    ]
    assert program.roles[0].body is program.roles[1].body
    assert {n.count: n.increase for n in nodes(kernel, SetMaxRegisters)} == {240: True, 24: False}
    assert len(nodes(kernel, BulkLoad)) == 1 + 2  # A in one box, B [K, N] in two panels of 64 columns
    assert len(nodes(kernel, BulkStore)) == 4  # float32: panels of 32 columns
    assert [w.pending for w in nodes(kernel, WgmmaWait)] == [1, 0]


def test_registers_stay_where_they_are_with_one_consumer() -> None:
    assert not nodes(pipelined_gemm(64, 64, 128), SetMaxRegisters)


def test_one_product_stays_under_way_and_its_slot_is_given_back_an_iteration_later() -> None:
    statements = scheduled(pipelined_gemm(64, 64, 256))
    releases = [s for s in statements if isinstance(s, Release)]
    assert [(r.give, r.advance) for r in releases] == [("previous", True)]
    assert [s.pending for s in statements if isinstance(s, Wait)] == [1, 0]
    (schedule,) = stage(pipelined_gemm(64, 64, 256), Scheduled).schedules
    assert "stays under way" in schedule.reason.text


def test_attention_issues_the_next_scores_before_the_last_values() -> None:
    (loop,) = [n for n in walk(stage(attention(256), Scheduled).body) if isinstance(n, For)]
    kinds = [
        type(s).__name__ + (f" {s.channel.name}" if isinstance(s, Acquire | Produce) else "")
        for s in walk(loop)
        if isinstance(s, Acquire | Issue | Wait | Produce)
    ]
    order = ["Acquire K_s", "Issue", "Acquire V_s", "Issue", "Wait", "Wait"]
    assert kinds == ["Produce K_s", "Produce V_s", *order]


def test_a_mask_is_written_only_where_it_masks() -> None:
    body = stage(attention(256, causal=True), Scheduled).body
    guarded = [n for n in walk(body) if isinstance(n, If) and "Parallel" in type(n.then).__name__]
    assert len(guarded) == 2, "the first iteration and the loop"
    (product, *_) = [n for n in nodes(attention(256, causal=True), Wgmma) if n.a_descriptor is not None]
    assert product.accumulate is not None
    free = [n for n in nodes(attention(256), Wgmma) if n.a_descriptor is not None]
    assert all(getattr(n.accumulate, "value", None) is False for n in free), "cleared scores are overwritten"


# -- what stands against it


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (lambda: pipelined_gemm(64, 64, 64, threads=64), "no gemm runs on whole warpgroups"),
        (lambda: pipelined_gemm(64, 64, 64, (32, 64, 32)), "no gemm runs on whole warpgroups"),
        (lambda: pipelined_gemm(64, 64, 64, stages=1), "num_stages of 2 or more"),
        (lambda: configured(pipelined_gemm(64, 64, 64), TL_DISABLE_WARP_SPECIALIZED=True), "is set"),
        (lambda: pipelined_gemm(64, 63, 64, transpose_b=False), "multiple of 16 bytes"),
    ],
)
def test_why_there_is_no_producer(kernel: Callable[[], Kernel], why: str) -> None:
    selected = stage(kernel(), Selected)
    texts = [selected.producer, *(r.text for rs in selected.declined.values() for r in rs)]
    assert not selected.specialised or "multiple" in why
    assert any(why in t for t in texts), texts
    assert_emulated_is_interp(kernel(), target=HOPPER)


def test_a_tile_that_threads_change_is_not_handed_over() -> None:
    d = Draft("changed", (1,), 128)
    A, B = d.tensor("A", (64, 128), "float16"), d.tensor("B", (128, 64), "float16")
    C = d.tensor("C", (64, 64), "float32", "out")
    A_s, B_s = d.shared("A_s", (64, 32), "float16"), d.shared("B_s", (32, 64), "float16")
    c = d.fragment("c", (64, 64), "float32")
    d.add(clear(c))
    with d.pipelined(4, 2) as k:
        d.add(copy(A[0, k * 32], A_s), copy(B[k * 32, 0], B_s))
        with d.parallel(64, 32) as (i, j):
            d.store(A_s, (i, j), A_s[i, j] + A_s[i, j])
        d.add(gemm(A_s, B_s, c))
    d.add(copy(c, C))
    kernel = d.kernel()
    selected = stage(kernel, Selected)
    assert selected.specialised, "B is still brought by the producer"
    texts = [r.text for rs in selected.declined.values() for r in rs]
    assert any("another statement writes A_s too" in t for t in texts)
    assert_emulated_is_interp(kernel, target=HOPPER)


def test_other_architectures_do_without() -> None:
    kernel = pipelined_gemm(64, 64, 128)
    for target in ("emu:sm_80", "emu:sm_90"):
        assert len(stage(kernel, Partitioned, target).roles) == 1


@pytest.mark.parametrize("overlap", [True, False])
def test_an_order_given_by_hand_counts_the_statements_as_they_were_written(overlap: bool) -> None:
    kernel = attention(192)
    (loop,) = [n for n in walk(kernel.body) if isinstance(n, Pipelined)]
    parts = loop.body.body  # type: ignore[attr-defined]
    ahead = [type(p).__name__ == "Copy" and p.source.buffer.scope == "global" for p in parts]
    order = list(range(len(parts)))
    order[9], order[10] = order[10], order[9]  # p = s and o *= alpha, which do not touch each other
    table = {"order": tuple(order), "stage": tuple(0 if first else 1 for first in ahead)}

    def change(n: Any) -> Any:
        return dataclasses.replace(n, **table) if isinstance(n, Pipelined) else None

    kernel = dataclasses.replace(kernel, body=transform(kernel.body, change))
    if not overlap:
        kernel = configured(kernel, TB_DISABLE_PRODUCT_OVERLAP=True)
    assert_emulated_is_interp(kernel, target=HOPPER)


def test_a_tile_of_the_iteration_before_goes_back_when_its_product_is_over() -> None:
    """It does not wait for the product of the next iteration, which was issued behind that one."""
    kernel = parse_prim_func(softmax_loop(order=[-1, *range(6, 8), *range(6)], stage=[-1, 0, 0, *[1] * 6]))
    kernel = configured(kernel, TB_STAGES_BY_HAND=True)
    loops = [n for n in walk(stage(kernel, Scheduled).body) if isinstance(n, For)]
    found = [n for n in walk(loops[0].body) if isinstance(n, Issue | Wait | Release)]
    kinds = [(type(n).__name__, getattr(n, "pending", None)) for n in found]
    assert kinds[:5] == [("Issue", None), ("Issue", None), ("Wait", 1), ("Release", None), ("Wait", 0)]
