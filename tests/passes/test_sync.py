"""Barriers: every pair of conflicting accesses is kept apart on every path, none of them is for nothing, and
each says why.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from tests.passes.emulated import assert_emulated_is_interp
from tests.passes.pipelined_kernels import attention, pipelined_gemm
from tilebench.compiler import analyse
from tilebench.errors import Loc, Source
from tilebench.ir.expr import Expr, binary, const
from tilebench.ir.rewrite import loads, transform, walk
from tilebench.ir.tile import (
    AtomicRMW,
    Break,
    Buffer,
    Continue,
    For,
    If,
    Kernel,
    Parallel,
    Seq,
    Stmt,
    Store,
    SyncThreads,
    TileOp,
    While,
)  # fmt: skip
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import clear
from tilebench.ops.examples import Draft, tile
from tilebench.ops.reduce import Reduce, reduce_sum
from tilebench.passes.exchange import is_barrier
from tilebench.passes.stages import Slot, Synchronised
from tilebench.passes.sync import synchronise
from tilebench.targets import parse

TARGET = parse("emu:sm_80")
N = 64


def synchronised(kernel: Kernel) -> Synchronised:
    return analyse(kernel, TARGET).stage(Synchronised)


def barriers(stage: Synchronised) -> list[SyncThreads]:
    return [n for n in walk(stage.body) if isinstance(n, SyncThreads)]


# -- a brute-force checker: executions of a program, each loop taken 0 to 3 times, each if either way

Access = tuple[Buffer, bool, Stmt]
EXECUTIONS = 300


def execute(s: Stmt, rng: random.Random, out: list[Any], folds: frozenset[Stmt] = frozenset()) -> str:
    """Append the accesses and barriers of one execution of `s`; how it ends: '', 'break' or 'continue'.

    folds: those in which the threads meet after they have read and before they write.
    """
    match s:
        case Seq():
            for part in s.body:
                end = execute(part, rng, out, folds)
                if end:
                    return end
        case SyncThreads():
            out.append("barrier")
        case Break():
            return "break"
        case Continue():
            return "continue"
        case If():
            out += accesses_of(s.condition, s)
            if rng.random() < 0.5:
                return execute(s.then, rng, out, folds)
            if s.orelse is not None:
                return execute(s.orelse, rng, out, folds)
        case For() | While():
            head = accesses_of(s.condition, s) if isinstance(s, While) else []
            out += head
            for _ in range(rng.randrange(4)):
                if execute(s.body, rng, out, folds) == "break":
                    break
                out += head
        case _ if s in folds:
            found = list(accesses(s))
            out += [*(a for a in found if not a[1]), "barrier", *(a for a in found if a[1])]
        case _:
            out += accesses(s)
    return ""


def accesses_of(e: Expr, s: Stmt) -> list[Access]:
    return [(load.buffer, False, s) for load in loads(e) if load.buffer.scope == "shared"]


def accesses(s: Stmt) -> Iterator[Access]:
    for n in walk(s):
        if isinstance(n, Store | AtomicRMW) and n.buffer.scope == "shared":
            yield n.buffer, True, s
        elif isinstance(n, TileOp):
            yield from ((r.buffer, True, s) for r in n.writes if r.buffer.scope == "shared")
            yield from ((r.buffer, False, s) for r in n.reads if r.buffer.scope == "shared")
    yield from ((load.buffer, False, s) for load in loads(s) if load.buffer.scope == "shared")


def folds_of(stage: Synchronised) -> frozenset[Stmt]:
    """The folds between warps."""
    layouts, threads = stage.allocated.scheduled.placed.layouts, stage.kernel.thread_count
    found = (n for n in walk(stage.body) if isinstance(n, Reduce))
    return frozenset(n for n in found if is_barrier(n, layouts, threads))


def unprotected(
    body: Stmt, slots: dict[Buffer, Slot], folds: frozenset[Stmt] = frozenset()
) -> tuple[Stmt, Stmt] | None:
    """Two accesses to the same bytes, one of them a write, by two statements with no barrier between.

    A statement that runs twice is fine by itself: its threads touch the same elements each time.
    """

    def overlap(a: Buffer, b: Buffer) -> bool:
        x, y = slots[a], slots[b]
        return x.offset < y.offset + y.size and y.offset < x.offset + x.size

    rng = random.Random(1)
    for _ in range(EXECUTIONS):
        path: list[Any] = []
        execute(body, rng, path, folds)
        since: list[tuple[Access, int]] = []
        step = 0
        for item in path:
            if item == "barrier":
                since = []
                continue
            buffer, writes, stmt = item
            if (
                not since
                or since[-1][0][2] is not stmt
                or any(a[0] is buffer and a[2] is stmt and a[1] == writes for a, k in since if k == step)
            ):
                step += 1  # another execution of a statement begins
            for (other, wrote, earlier), k in since:
                if k != step and earlier is not stmt and (writes or wrote) and overlap(buffer, other):
                    return earlier, stmt
            since.append((item, step))
    return None


def random_program(seed: int, folds: bool = False) -> Kernel:
    """Nests that read and write four shared buffers in loops, ifs and whiles, in random order; folds: of
    such buffers into others, between warps, too.
    """
    rng = np.random.default_rng(seed)
    d = Draft("random")
    wide = 1024 if folds else N
    flag = d.tensor("F", (4,), "int32")
    out = d.tensor("O", (wide,), "int32", "out")
    x = d.fragment("x", (wide,), "int32")
    shared = [d.shared(f"s{i}", (wide,), "int32") for i in range(4)]
    d.add(clear(x), *(clear(s) for s in shared))

    def statement() -> None:
        a, b = (shared[i] for i in rng.choice(4, 2, replace=False))
        kind = rng.integers(0, 7 if folds else 4)
        if kind == 0:
            d.add(copy(a, x))
        elif kind > 3:
            d.add(reduce_sum(a, tile(b, 3), dim=0))
        elif kind == 1:
            d.store(a, 3, b[3] + 1)
        else:
            with d.parallel(wide) as (i,):
                d.store(a, i, b[wide - 1 - i] + 1)

    def block(depth: int) -> None:
        for _ in range(rng.integers(1, 4)):
            kind = rng.integers(0, 8) if depth < 2 else 7
            if kind == 0:
                with d.serial(2):
                    block(depth + 1)
            elif kind == 1:
                with d.when(binary("gt", flag[int(rng.integers(0, 4))], 0)):
                    block(depth + 1)
            elif kind == 2:
                with d.when(binary("gt", shared[int(rng.integers(0, 4))][3], 1)):
                    block(depth + 1)
            elif kind == 3:
                with d.serial(3) as k:
                    block(depth + 1)
                    d.add(If(binary("eq", k, 1), Break() if rng.integers(0, 2) else Continue()))
                    statement()
            else:
                statement()

    block(0)
    d.add(copy(x, out) if rng.integers(0, 2) else copy(shared[0], out))
    return d.kernel()


SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_are_ordered_on_every_path(seed: int) -> None:
    stage = synchronised(random_program(seed))
    assert unprotected(stage.body, dict(stage.allocated.slots)) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_no_barrier_is_for_nothing(seed: int) -> None:
    stage = synchronised(random_program(seed))
    for barrier in barriers(stage):
        without = transform(stage.body, lambda n, barrier=barrier: Seq(()) if n is barrier else None)
        assert unprotected(without, dict(stage.allocated.slots)) is not None, barrier.because


@pytest.mark.parametrize("seed", SEEDS)
def test_folds_between_warps_count(seed: int) -> None:
    stage = synchronised(random_program(seed, True))
    slots, folds = dict(stage.allocated.slots), folds_of(stage)
    assert unprotected(stage.body, slots, folds) is None
    for barrier in barriers(stage):
        without = transform(stage.body, lambda n, barrier=barrier: Seq(()) if n is barrier else None)
        assert unprotected(without, slots, folds) is not None, barrier.because


def test_there_are_folds_between_warps_and_they_save_barriers() -> None:
    stages = [synchronised(random_program(seed, True)) for seed in SEEDS]
    assert sum(len(folds_of(stage)) for stage in stages) > 10
    assert any(unprotected(stage.body, dict(stage.allocated.slots)) is not None for stage in stages)


@pytest.mark.parametrize("seed", range(12))
def test_random_folds_run_without_races(seed: int) -> None:
    assert_emulated_is_interp(random_program(seed, True), seed)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_run_without_races(seed: int) -> None:
    assert_emulated_is_interp(random_program(seed), seed)


def test_the_checker_sees_a_missing_barrier() -> None:
    stage = synchronised(random_program(1))
    bare = transform(stage.body, lambda n: Seq(()) if isinstance(n, SyncThreads) else None)
    assert unprotected(bare, dict(stage.allocated.slots)) is not None


# -- single rules


def exchange(auto: bool = True, user: bool = False) -> Kernel:
    d = Draft("exchange")
    A, B = d.tensor("A", (N,), "int32"), d.tensor("B", (N,), "int32", "out")
    s, x = d.shared("s", (N,), "int32"), d.fragment("x", (N,), "int32")
    d.add(copy(A, s))
    if user:
        d.add(SyncThreads())
    with d.parallel(N) as (i,):
        d.store(x, i, s[N - 1 - i])
    d.add(copy(x, B))
    if not auto:
        d.attributes["pass_configs"] = {"TL_DISABLE_THREAD_STORAGE_SYNC": True}
    return d.kernel()


def test_one_barrier_and_its_pair() -> None:
    kernel = exchange()
    source = Source("cell", "copy\nread\n")
    number = iter(range(1, 9))
    placed_body = transform(
        kernel.body,
        lambda n: (
            dataclasses.replace(n, loc=Loc(source, next(number))) if isinstance(n, TileOp | Store) else None
        ),
    )
    stage = synchronised(dataclasses.replace(kernel, body=placed_body))
    (note,) = stage.notes
    assert (note.buffer.name, note.hazard) == ("s", "RAW")
    assert note.before is not None
    assert note.after is not None
    assert (note.before.line, note.after.line) == (1, 2)
    assert note.barrier in barriers(stage)


def test_the_users_barrier_counts() -> None:
    assert not synchronised(exchange(user=True)).notes


def test_a_program_can_do_without() -> None:
    stage = synchronised(exchange(auto=False))
    assert not barriers(stage)
    with pytest.raises(AssertionError, match="no barrier between"):
        assert_emulated_is_interp(exchange(auto=False))


def test_per_thread_code() -> None:
    d = Draft("threads", threads=N)
    A, B = d.tensor("A", (N,), "int32"), d.tensor("B", (N,), "int32", "out")
    s, v = d.shared("s", (N,), "int32"), d.var("v", "int32")
    t = d.thread
    d.store(s, t, A[t])
    d.store(v, 0, s[N - 1 - t])
    with d.when(binary("lt", t, N // 2)):
        d.store(s, t, v[0])
    d.store(B, t, s[(t + 1) % N])
    kernel = d.kernel()
    stage = synchronised(kernel)
    assert [n.hazard for n in stage.notes] == ["RAW", "WAR", "RAW"]
    for n in walk(stage.body):
        if isinstance(n, If):
            assert not any(isinstance(m, SyncThreads) for m in walk(n))
    assert_emulated_is_interp(kernel)


def test_no_barrier_in_a_loop_that_some_threads_leave() -> None:
    d = Draft("leaving", threads=N)
    A, B = d.tensor("A", (N,), "int32"), d.tensor("B", (N,), "int32", "out")
    s, v, t = d.shared("s", (N,), "int32"), d.var("v", "int32"), d.thread
    d.store(s, t, A[t])
    d.store(v, 0, 0)
    with d.serial(4) as k:
        d.add(If(binary("gt", t, 32), Break()))
        d.store(v, 0, v[0] + s[(t + k) % N])
    d.store(s, t, v[0])
    d.store(B, t, s[N - 1 - t])
    stage = synchronised(d.kernel())
    (loop,) = (n for n in walk(stage.body) if isinstance(n, For))
    assert not any(isinstance(n, SyncThreads) for n in walk(loop))
    assert [n.hazard for n in stage.notes] == ["RAW", "WAR", "RAW"]
    assert_emulated_is_interp(d.kernel())


def test_a_uniform_store_is_read_by_all_threads() -> None:
    d = Draft("uniform")
    B, s, x = (
        d.tensor("B", (N,), "int32", "out"),
        d.shared("s", (1,), "int32"),
        d.fragment("x", (N,), "int32"),
    )
    d.store(s, 0, 7)
    with d.parallel(N) as (i,):
        d.store(x, i, s[0] + i)
    d.add(copy(x, B))
    assert [n.hazard for n in synchronised(d.kernel()).notes] == ["RAW"]
    assert_emulated_is_interp(d.kernel())


def test_global_memory_that_the_block_wrote() -> None:
    d = Draft("global")
    A, B, x = (
        d.tensor("A", (N,), "int32", "inout"),
        d.tensor("B", (N,), "int32", "out"),
        d.fragment("x", (N,), "int32"),
    )
    with d.parallel(N) as (i,):
        d.store(A, i, i * 2)
    with d.parallel(N) as (i,):
        d.store(x, i, A[N - 1 - i])
    d.add(copy(x, B))
    assert [(n.buffer.name, n.hazard) for n in synchronised(d.kernel()).notes] == [("A", "RAW")]
    assert_emulated_is_interp(d.kernel())


def test_tiles_of_an_output_in_a_loop_need_none() -> None:
    d = Draft("tiles")
    A, B, C = (d.tensor(name, (4 * N, N), "int32", "in" if name == "A" else "out") for name in "ABC")
    x = d.fragment("x", (N, N), "int32")
    with d.serial(4) as k:
        d.add(copy(A[k * N, 0], x))
        with d.parallel(N, N) as (i, j):
            d.store(C, (k * N + i, j), x[i, j] + 1)
        d.add(copy(x, B[k * N, 0]))
    assert not synchronised(d.kernel()).notes


def test_sums_of_atomics_need_none_between() -> None:
    d = Draft("atomics")
    A, B = d.tensor("A", (N,), "int32"), d.tensor("B", (8,), "int32", "out")
    s = d.shared("s", (8,), "int32")
    d.add(clear(s))
    for _ in range(3):
        with d.parallel(N) as (i,):
            d.atomic("add", s, binary("bitand", A[i], const(7)), 1)
    d.add(copy(s, B))
    assert len(synchronised(d.kernel()).notes) == 2
    assert_emulated_is_interp(d.kernel())


@pytest.mark.parametrize("kernel", [lambda: pipelined_gemm(64, 64, 256), lambda: attention(256)])
def test_one_barrier_for_each_step_of_a_pipeline(kernel: Callable[[], Kernel]) -> None:
    stage = synchronised(kernel())
    (loop,) = (n for n in walk(stage.body) if isinstance(n, For))
    assert sum(isinstance(n, SyncThreads) for n in walk(loop)) == 1


@pytest.mark.parametrize("stages", [2, 3])
def test_without_the_barrier_of_a_pipeline_the_emulator_finds_races(stages: int) -> None:
    kernel = pipelined_gemm(64, 64, 256, stages=stages)
    kernel = dataclasses.replace(
        kernel, attributes={"pass_configs": {"TL_DISABLE_THREAD_STORAGE_SYNC": True}}
    )
    with pytest.raises(AssertionError, match=r"no barrier between|asynchronous copy"):
        assert_emulated_is_interp(kernel)


def test_a_condition_that_is_read_again_after_each_iteration() -> None:
    d = Draft("while")
    B, s, x = (
        d.tensor("B", (N,), "int32", "out"),
        d.shared("s", (N,), "int32"),
        d.fragment("x", (N,), "int32"),
    )
    d.add(clear(s))
    with d.loop_while(binary("lt", s[0], 3)):
        with d.parallel(N) as (i,):
            d.store(x, i, s[i] + 1)
        d.add(copy(x, s))
    d.add(copy(s, B))
    kernel = d.kernel()
    stage = synchronised(kernel)
    (loop,) = (n for n in walk(stage.body) if isinstance(n, While))
    assert isinstance(loop.body, Seq)
    assert isinstance(loop.body.body[-1], SyncThreads)
    assert_emulated_is_interp(kernel)


def test_a_barrier_never_stands_in_a_nest() -> None:
    for seed in range(8):
        for n in walk(synchronised(random_program(seed)).body):
            if isinstance(n, Parallel):
                assert not any(isinstance(m, SyncThreads) for m in walk(n))


def test_synchronise_takes_what_memory_gave() -> None:
    stage = synchronised(exchange())
    again = synchronise(stage.allocated)
    assert len(again.notes) == len(stage.notes)


def in_turn(tiles: int, trips: int = 5, rounds: int = 1, apart: int = 0) -> Kernel:
    """Each trip writes one of the tiles, in turn, and reads it `apart` trips later, mirrored."""
    d = Draft("in_turn")
    B = d.tensor("B", (rounds, trips, N), "int32", "out")
    s, x = d.shared("s", (tiles, N), "int32"), d.fragment("x", (N,), "int32")
    d.add(clear(s), SyncThreads())
    with ExitStack() as loops:
        r = loops.enter_context(d.serial(rounds)) if rounds > 1 else const(0)
        k = loops.enter_context(d.serial(trips))
        with d.parallel(N) as (i,):
            d.store(s, (k % tiles, i), r * 1000 + k * N + i)
        with d.parallel(N) as (i,):
            d.store(x, i, s[(k + apart) % tiles, N - 1 - i])
        d.add(copy(x, B[r, k, 0]))
    return d.kernel()


def in_innermost(stage: Synchronised) -> int:
    """Barriers in the innermost loop."""
    loops = [n for n in walk(stage.body) if isinstance(n, For)]
    return min(sum(isinstance(n, SyncThreads) for n in walk(loop)) for loop in loops)


@pytest.mark.parametrize(
    ("tiles", "trips", "rounds", "apart", "expected"),
    [
        (1, 5, 1, 0, 2),
        (2, 5, 1, 0, 1),  # what the last trip reads is another tile than this one writes
        (3, 5, 1, 0, 1),
        (2, 5, 1, 1, 2),  # it is the one that this trip writes
        (2, 5, 3, 0, 2),  # a round may end with either tile
    ],
)
def test_tiles_in_turn_need_one_barrier_a_trip(
    tiles: int, trips: int, rounds: int, apart: int, expected: int
) -> None:
    kernel = in_turn(tiles, trips, rounds, apart)
    assert in_innermost(synchronised(kernel)) == expected
    assert_emulated_is_interp(kernel)
