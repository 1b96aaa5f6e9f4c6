"""Pipelined loops: the opened form, what may not run ahead, and the same values for any number of stages and
trips.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.passes.emulated import assert_emulated_is_interp
from tests.passes.pipelined_kernels import attention, pipelined_gemm
from tilebench.compiler import analyse
from tilebench.errors import SyncError
from tilebench.ir.dtype import int32
from tilebench.ir.expr import Var, binary, const
from tilebench.ir.rewrite import transform, walk
from tilebench.ir.text import print_stmt
from tilebench.ir.tile import Break, If, Issue, Kernel, Pipelined, Wait
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import clear
from tilebench.ops.examples import Draft, tile
from tilebench.ops.gemm import gemm
from tilebench.passes.stages import Placed, Schedule, Scheduled, Synchronised
from tilebench.targets import parse

TARGET = parse("emu:sm_80")


def scheduled(kernel: Kernel) -> Scheduled:
    return analyse(kernel, TARGET).stage(Scheduled)


def reason(kernel: Kernel) -> str:
    (schedule,) = scheduled(kernel).schedules
    return schedule.reason.text


GEMM = """\
fill(c, 0.0)
issue copies:
  with A_s#0, B_s#0:
    copy(A[by * 64:+64, 0:+32], A_s)
    copy(B[0:+32, bx * 64:+64], B_s)
for ko in range(0, 8):
  slot: int32 = truncmod(ko, 2)
  free: int32 = select(slot == 0, 1, slot - 1)
  later: int32 = min(ko + 1, 7)
  wait copies pending=0
  sync_threads()
  issue copies:
    with A_s#free, B_s#free:
      if ko < 7:
        copy(A[by * 64:+64, later * 32:+32], A_s)
        copy(B[later * 32:+32, bx * 64:+64], B_s)
  with A_s#slot, B_s#slot:
    gemm(A_s, B_s, c)
copy(c, C[by * 64:+64, bx * 64:+64])"""

ATTENTION = """\
copy(Q[bx * 64:+64, 0:+64], Q_s)
fill(o, 0.0)
fill(l, 0.0)
fill(m, -1024.0)
issue copies:
  with K_s#0, V_s#0:
    copy(K[0:+64, 0:+64], K_s)
    copy(V[0:+64, 0:+64], V_s)
for ko in range(0, 4):
  slot: int32 = truncmod(ko, 2)
  free: int32 = select(slot == 0, 1, slot - 1)
  later: int32 = min(ko + 1, 3)
  wait copies pending=0
  sync_threads()
  issue copies:
    with K_s#free, V_s#free:
      if ko < 3:
        copy(K[later * 64:+64, 0:+64], K_s)
        copy(V[later * 64:+64, 0:+64], V_s)
  with K_s#slot, V_s#slot:
    fill(s, 0.0)
    gemm(Q_s, K_s, s, transpose_b=True)
    copy(m, m_before)
    reduce(kind=max, s, m, dim=1, clear=False)
    for i in parallel(64,):
      alpha[i] = m_before[i] - m[i]
    for i, j in parallel(64, 64):
      s[i, j] = s[i, j] - m[i]
    reduce(kind=sum, s, total, dim=1)
    for i in parallel(64,):
      l[i] = l[i] * 0.5 + total[i] + alpha[i]
    copy(s, p)
    for i, j in parallel(64, 64):
      o[i, j] = o[i, j] * 0.5
    gemm(p, V_s, o)
for i, j in parallel(64, 64):
  o[i, j] = o[i, j] * 0.0625 + l[i] * 0.0
sync_threads()
copy(o, O_s)
sync_threads()
copy(O_s, O[bx * 64:+64, 0:+64])"""


@pytest.mark.parametrize(
    ("kernel", "text"),
    [(lambda: pipelined_gemm(128, 128, 256, stages=2), GEMM), (lambda: attention(256), ATTENTION)],
    ids=["gemm", "attention"],
)
def test_the_opened_loop(kernel: Callable[[], Kernel], text: str) -> None:
    printed = print_stmt(analyse(kernel(), TARGET).stage(Synchronised).body).text
    assert printed == text
    assert len(printed.splitlines()) < 60


@pytest.mark.parametrize("stages", range(5))
@pytest.mark.parametrize("k", [32, 64, 104, 192])
def test_stages_and_trips(stages: int, k: int) -> None:
    emulated = assert_emulated_is_interp(pipelined_gemm(96, 80, k, stages=stages))
    assert emulated.result.counts.worst_ways() == 1
    (schedule,) = emulated.compilation.stage(Scheduled).schedules
    assert schedule.stages == max(1, min(stages, -(-k // 32)))


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(stages: int, causal: bool) -> None:
    emulated = assert_emulated_is_interp(attention(192, 80, stages=stages, causal=causal))
    assert not emulated.compilation.last.conversions  # type: ignore[union-attr]
    assert emulated.result.counts.worst_ways() == 1


def test_the_record_of_the_schedule() -> None:
    (schedule,) = scheduled(attention(256)).schedules
    assert isinstance(schedule, Schedule)
    assert [op.stage for op in schedule.ops if op.asynchronous] == [1, 1]
    assert [op.resource for op in schedule.ops].count("tensor") == 2
    assert [op.order for op in schedule.ops] == list(range(len(schedule.ops)))
    assert sum(op.cost.flops for op in schedule.ops) > 2 * 2 * 64 * 64 * 64
    assert scheduled(attention(256)).versions
    assert set(scheduled(attention(256)).versions.values()) == {2}


def loop(
    body: Callable[[Draft, Any, Any], None],
    trips: Any = 4,
    stages: int = 3,
    after: Callable[[Draft], None] | None = None,
) -> Kernel:
    """C += A_s @ B_s in a pipelined loop whose body `body(draft, k, buffers)` writes; buffers by name."""
    d = Draft("loop")
    buffers: dict[str, Any] = {
        "A": d.tensor("A", (64, 256), "float16"),
        "B": d.tensor("B", (256, 64), "float16"),
        "T": d.tensor("T", (8,), "int32"),
        "C": d.tensor("C", (64, 64), "float32", "out"),
        "W": d.tensor("W", (256, 64), "float32", "inout"),
        "A_s": d.shared("A_s", (64, 32), "float16"),
        "B_s": d.shared("B_s", (32, 64), "float16"),
        "c": d.fragment("c", (64, 64), "float32"),
        "row": d.var("row", "int32"),
    }
    d.add(clear(buffers["c"]))
    d.store(buffers["row"], 0, 0)
    with d.pipelined(trips, stages) as k:
        body(d, k, buffers)
    if after is not None:
        after(d)
    d.add(copy(buffers["c"], buffers["C"]))
    return d.kernel()


def usual(d: Draft, k: Any, b: dict[str, Any]) -> None:
    d.add(
        copy(b["A"][0, k * 32], b["A_s"]), copy(b["B"][k * 32, 0], b["B_s"]), gemm(b["A_s"], b["B_s"], b["c"])
    )


def test_read_after_the_loop_keeps_one_version() -> None:
    def after(d: Draft) -> None:
        x = d.buffers[0]
        y = d.fragment("y", (64, 32), "float16")
        d.add(copy(x, y), copy(y, d.params[0].value[0, 0]))  # type: ignore[index]

    kernel = loop(usual, after=after)
    stage = scheduled(kernel)
    assert [b.name for b in stage.versions] == ["B_s"]
    assert "A_s keeps one version: the program reads it outside of the loop" in stage.schedules[0].reason.text
    assert_emulated_is_interp(kernel)


def test_an_outer_loop_that_reads_what_the_inner_left() -> None:
    d = Draft("outer")
    A, C = d.tensor("A", (64, 256), "float16"), d.tensor("C", (64, 32), "float16", "out")
    A_s, c = d.shared("A_s", (64, 32), "float16"), d.fragment("c", (64, 32), "float16")
    d.add(clear(c), clear(A_s))
    with d.serial(2):
        with d.parallel(64, 32) as (i, j):
            d.store(c, (i, j), c[i, j] + A_s[i, j])
        with d.pipelined(4, 2) as k:
            d.add(copy(A[0, k * 32], A_s))
            with d.parallel(64, 32) as (i, j):
                d.store(c, (i, j), c[i, j] + A_s[i, j])
    d.add(copy(c, C))
    kernel = d.kernel()
    assert "the program reads it outside" in reason(kernel)
    assert_emulated_is_interp(kernel)


def test_two_loops_over_the_same_buffers() -> None:
    d = Draft("two")
    A, B, C = (
        d.tensor("A", (64, 256), "float16"),
        d.tensor("B", (256, 64), "float16"),
        d.tensor("C", (64, 64), "float32", "out"),
    )
    A_s, B_s, c = (
        d.shared("A_s", (64, 32), "float16"),
        d.shared("B_s", (32, 64), "float16"),
        d.fragment("c", (64, 64), "float32"),
    )
    d.add(clear(c))
    for first, stages in ((0, 3), (4, 2)):
        with d.pipelined(4, stages) as k:
            d.add(copy(A[0, (k + first) * 32], A_s), copy(B[(k + first) * 32, 0], B_s), gemm(A_s, B_s, c))
    d.add(copy(c, C))
    kernel = d.kernel()
    assert set(scheduled(kernel).versions.values()) == {3}
    assert_emulated_is_interp(kernel)


@pytest.mark.parametrize("stages", [2, 3])
def test_nested_pipelines(stages: int) -> None:
    d = Draft("nested")
    A, B, C = (
        d.tensor("A", (64, 256), "float16"),
        d.tensor("B", (256, 64), "float16"),
        d.tensor("C", (64, 64), "float32", "out"),
    )
    A_s, B_s, c = (
        d.shared("A_s", (64, 64), "float16"),
        d.shared("B_s", (16, 64), "float16"),
        d.fragment("c", (64, 64), "float32"),
    )
    d.add(clear(c))
    with d.pipelined(4, stages) as k:
        d.add(copy(A[0, k * 64], A_s))
        with d.pipelined(4, 2) as j:
            d.add(copy(B[k * 64 + j * 16, 0], B_s), gemm(tile(A_s, (0, 64), (j * 16, 16)), B_s, c))
    d.add(copy(c, C))
    kernel = d.kernel()
    assert {b.name: n for b, n in scheduled(kernel).versions.items()} == {"A_s": stages, "B_s": 2}
    assert_emulated_is_interp(kernel)


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_dynamic_trips(trips: int) -> None:
    d = Draft("dynamic")
    length = Var("length", dtype=int32)
    A, B, C = (
        d.tensor("A", (64, 192), "float16"),
        d.tensor("B", (192, 64), "float16"),
        d.tensor("C", (64, 64), "float32", "out"),
    )
    N = d.tensor("N", (length,), "int32")
    A_s, B_s, c = (
        d.shared("A_s", (64, 32), "float16"),
        d.shared("B_s", (32, 64), "float16"),
        d.fragment("c", (64, 64), "float32"),
    )
    d.add(clear(c))
    stop = d.bind("stop", binary("floordiv", length * trips, N.shape[0]))
    with d.pipelined(stop, 3) as k:
        d.add(copy(A[0, k * 32], A_s), copy(B[k * 32, 0], B_s), gemm(A_s, B_s, c))
    d.add(copy(c, C))
    kernel = d.kernel()
    assert set(scheduled(kernel).versions.values()) == {3}
    assert_emulated_is_interp(kernel)


def test_the_place_of_a_copy_from_a_table_in_global_memory() -> None:
    def body(d: Draft, k: Any, b: dict[str, Any]) -> None:
        row = d.bind("row", binary("bitand", b["T"][k], const(3)) * 32)
        d.add(
            copy(b["A"][0, k * 32], b["A_s"]),
            copy(b["B"][row, 0], b["B_s"]),
            gemm(b["A_s"], b["B_s"], b["c"]),
        )

    kernel = loop(body)
    assert len(scheduled(kernel).versions) == 1  # row has a load, so its Bind is not written out
    assert_emulated_is_interp(kernel)


def test_the_place_of_a_copy_that_the_loop_calculates() -> None:
    def body(d: Draft, k: Any, b: dict[str, Any]) -> None:
        row = b["row"]
        d.add(
            copy(b["A"][0, k * 32], b["A_s"]),
            copy(b["B"][row[0] * 32, 0], b["B_s"]),
            gemm(b["A_s"], b["B_s"], b["c"]),
        )
        d.store(row, 0, row[0] + 1)

    kernel = loop(body)
    assert "it depends on row, which the loop changes" in reason(kernel)
    assert_emulated_is_interp(kernel)


def test_a_copy_under_a_condition_stays_in_order() -> None:
    def body(d: Draft, k: Any, b: dict[str, Any]) -> None:
        d.add(copy(b["A"][0, k * 32], b["A_s"]))
        with d.when(binary("ne", k, 2)):
            d.add(copy(b["B"][k * 32, 0], b["B_s"]))
        d.add(gemm(b["A_s"], b["B_s"], b["c"]))

    kernel = loop(body)
    assert [b.name for b in scheduled(kernel).versions] == ["A_s"]
    assert_emulated_is_interp(kernel)


def test_statements_under_a_condition() -> None:
    def body(d: Draft, k: Any, b: dict[str, Any]) -> None:
        d.add(copy(b["A"][0, k * 32], b["A_s"]), copy(b["B"][k * 32, 0], b["B_s"]))
        with d.when(binary("eq", k % 2, 0)):
            d.add(gemm(b["A_s"], b["B_s"], b["c"]))

    kernel = loop(body)
    assert len(scheduled(kernel).versions) == 2
    assert_emulated_is_interp(kernel)


def test_break_leaves_the_loop_in_order() -> None:
    def body(d: Draft, k: Any, b: dict[str, Any]) -> None:
        usual(d, k, b)
        d.add(If(binary("eq", k, 2), Break()))

    kernel = loop(body)
    assert "break or continue would skip the copies" in reason(kernel)
    assert_emulated_is_interp(kernel)


def test_a_converting_copy_stays_in_order() -> None:
    d = Draft("converting")
    A, B, C = (
        d.tensor("A", (64, 128), "float32"),
        d.tensor("B", (128, 64), "float16"),
        d.tensor("C", (64, 64), "float32", "out"),
    )
    A_s, B_s, c = (
        d.shared("A_s", (64, 32), "float16"),
        d.shared("B_s", (32, 64), "float16"),
        d.fragment("c", (64, 64), "float32"),
    )
    d.add(clear(c))
    with d.pipelined(4, 3) as k:
        d.add(copy(A[0, k * 32], A_s), copy(B[k * 32, 0], B_s), gemm(A_s, B_s, c))
    d.add(copy(c, C))
    kernel = d.kernel()
    assert "the copy to A_s stays in order: cp.async: it cannot convert float32 to float16" in reason(kernel)
    assert [b.name for b in scheduled(kernel).versions] == ["B_s"]
    assert_emulated_is_interp(kernel)


def test_written_twice_or_in_part() -> None:
    def twice(d: Draft, k: Any, b: dict[str, Any]) -> None:
        usual(d, k, b)
        with d.parallel(64, 32) as (i, j):
            d.store(b["A_s"], (i, j), 0)

    def in_part(d: Draft, k: Any, b: dict[str, Any]) -> None:
        d.add(copy(tile(b["A"], (0, 32), (k * 32, 32)), tile(b["A_s"], (0, 32), (0, 32))))
        d.add(copy(b["B"][k * 32, 0], b["B_s"]), gemm(b["A_s"], b["B_s"], b["c"]))

    def in_halves(d: Draft, k: Any, b: dict[str, Any]) -> None:
        for half in (0, 32):
            d.add(copy(tile(b["A"], (half, 32), (k * 32, 32)), tile(b["A_s"], (half, 32), (0, 32))))
        d.add(copy(b["B"][k * 32, 0], b["B_s"]), gemm(b["A_s"], b["B_s"], b["c"]))

    assert "another statement of the loop writes it too" in reason(loop(twice))
    assert "the copy writes a part of it only" in reason(loop(in_part))
    assert len(scheduled(loop(in_halves)).versions) == 2
    assert_emulated_is_interp(loop(twice))
    assert_emulated_is_interp(loop(in_halves))


def test_a_source_that_the_loop_writes() -> None:
    d = Draft("written")
    A = d.tensor("A", (64, 160), "float16", "inout")
    A_s, c = d.shared("A_s", (64, 32), "float16"), d.fragment("c", (64, 32), "float16")
    with d.pipelined(4, 3) as k:
        d.add(copy(A[0, k * 32], A_s), copy(A_s, c))
        with d.parallel(64, 32) as (i, j):
            d.store(c, (i, j), c[i, j] + 1)
        d.add(copy(c, A[0, (k + 1) * 32]))
    kernel = d.kernel()
    assert "the loop writes A" in reason(kernel)
    assert_emulated_is_interp(kernel)


def test_atomics_in_the_loop() -> None:
    d = Draft("histogram")
    A, H = d.tensor("A", (256, 32), "int32"), d.tensor("H", (8,), "int32", "inout")
    A_s, H_s = d.shared("A_s", (64, 32), "int32"), d.shared("H_s", (8,), "int32")
    d.add(clear(H_s))
    with d.pipelined(4, 3) as k:
        d.add(copy(A[k * 64, 0], A_s))
        with d.parallel(64, 32) as (i, j):
            d.atomic("add", H_s, binary("bitand", A_s[i, j], const(7)), 1)
    with d.parallel(8) as (i,):
        d.atomic("add", H, i, H_s[i])
    kernel = d.kernel()
    assert len(scheduled(kernel).versions) == 1
    assert_emulated_is_interp(kernel)


def with_table(**table: Any) -> Kernel:
    """`usual` with order=, stage= or group=."""
    kernel = loop(usual)
    body = transform(
        kernel.body, lambda n: dataclasses.replace(n, **table) if isinstance(n, Pipelined) else None
    )
    return dataclasses.replace(kernel, body=body)


@pytest.mark.parametrize(
    "table",
    [
        {"order": (0, 1, 2), "stage": (0, 0, 1)},
        {"order": (-1, -1, 0), "stage": (-1, -1, 0)},
        {"order": (0, 1), "stage": (0, 1), "group": ((0, 1), (2,))},
    ],
)
def test_tables_that_are_schedules(table: dict[str, Any]) -> None:
    kernel = with_table(**table)
    assert len(scheduled(kernel).versions) == 2
    assert_emulated_is_interp(kernel)


def test_a_copy_in_the_last_stage_does_not_run_ahead() -> None:
    kernel = with_table(stage=(0, 1, 1))
    assert [b.name for b in scheduled(kernel).versions] == ["A_s"]
    assert "the copy to B_s stays in order: its stage is the last one" in reason(kernel)
    assert_emulated_is_interp(kernel)


@pytest.mark.parametrize(
    ("table", "code", "said"),
    [
        ({"order": (0, 1)}, "TB421", "order= has 2 entries for 3 statements"),
        ({"stage": (0, 0, 1, 1)}, "TB421", "stage= has 4 entries for 3 statements"),
        ({"order": (0, 0, 1)}, "TB422", "gives two statements one place"),
        ({"stage": (0, -2, 1)}, "TB422", "has a stage below -1"),
        (
            {"stage": (0, 1), "group": ((0, 1), (3,))},
            "TB421",
            "group= names statements [0, 1, 3]; the loop has 3",
        ),
        (
            {"order": (2, 1, 0), "stage": (0, 0, 0)},
            "TB423",
            "runs this before a statement that it depends on: both use",
        ),
    ],
)
def test_tables_that_are_none(table: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(SyncError) as error:
        scheduled(with_table(**table))
    assert error.value.code == code
    assert said in error.value.what


def test_every_iteration_closes_a_group() -> None:
    stage = scheduled(pipelined_gemm(64, 64, 256, stages=4))
    issues = [n for n in walk(stage.body) if isinstance(n, Issue)]
    (wait,) = (n for n in walk(stage.body) if isinstance(n, Wait))
    assert (len(issues), wait.pending) == (4, 2)
    assert isinstance(stage.placed, Placed)
