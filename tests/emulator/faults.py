"""Faulty thread programs, each with a right twin that differs in one statement.

A case is a function of `bad`; it gives the program, its arguments, and what the bad one must report: the kind
and the lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.emulator.build import Build, intrinsic, zeros
from tests.emulator.kernels import gemm
from tilebench.ir.dtype import as_dtype
from tilebench.ir.expr import cast, select


@dataclass(frozen=True)
class Case:
    """lines: of the finding's statements, in the order earlier, later.

    None where the fault has no statement (unwritten output).
    """

    build: Build
    arguments: tuple[Any, ...]
    kind: str
    lines: tuple[int, ...] | None


CASES: dict[str, Callable[[bool], Case]] = {}


def case(function: Callable[[bool], Case]) -> Callable[[bool], Case]:
    CASES[function.__name__] = function
    return function


def _setup(
    threads: int = 64, dtype: str = "int32", grid: tuple[int, ...] = (1,)
) -> tuple[Build, Any, Any, Any]:
    b = Build(threads, grid)
    blocks = int(np.prod(grid))
    return (
        b,
        b.tensor("A", threads * blocks, dtype),
        b.tensor("C", threads * blocks, dtype, "inout"),
        b.shared("s", threads, dtype),
    )


def _data(threads: int = 64, dtype: str = "int32", blocks: int = 1) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(threads * blocks).astype(as_dtype(dtype).storage_dtype), zeros(threads * blocks, dtype)


# ------------------------------------------------------------------ races in shared memory


@case
def missing_barrier_after_a_shared_write(bad: bool) -> Case:
    b, a, c, s = _setup()
    w = b.store(s, b.tx, b.load(a, b.tx))
    if not bad:
        b.sync()
    r = b.store(c, b.tx, b.load(s, 63 - b.tx))
    return Case(b, _data(), "race", (w, r))


@case
def barrier_only_before_the_write(bad: bool) -> Case:
    b, a, c, s = _setup()
    if bad:
        b.sync()
    w = b.store(s, b.tx, b.load(a, b.tx))
    if not bad:
        b.sync()
    r = b.store(c, b.tx, b.load(s, b.tx ^ 32))
    return Case(b, _data(), "race", (w, r))


@case
def write_after_read_between_iterations(bad: bool) -> Case:
    b, a, c, s = _setup()
    with b.loop(3) as i:
        w = b.store(s, b.tx, b.load(a, b.tx) + i)
        b.sync()
        r = b.store(c, b.tx, b.load(s, 63 - b.tx))
        if not bad:
            b.sync()
    return Case(b, _data(), "race", (r, w))


@case
def double_buffer_with_one_buffer(bad: bool) -> Case:
    b, a, c, _ = _setup()
    s = b.shared("two", 128, "int32")
    with b.loop(4) as i:
        half = i * 0 if bad else (i % 2) * 64
        w = b.store(s, half + b.tx, b.load(a, b.tx) + i)
        b.sync()
        r = b.store(c, b.tx, b.load(s, half + (63 - b.tx)))
    return Case(b, _data(), "race", (r, w))


@case
def two_threads_store_one_element(bad: bool) -> Case:
    b, a, c, s = _setup()
    w = b.store(s, b.tx // 2 if bad else b.tx, b.load(a, b.tx))
    b.sync()
    b.store(c, b.tx, b.load(s, b.tx // 2))
    return Case(b, _data(), "race", (w, w))


@case
def histogram_without_an_atomic(bad: bool) -> Case:
    b, a, c, s = _setup()
    b.store(s, b.tx, 0)
    b.sync()
    at = b.load(a, b.tx) % 8
    w = 0
    if bad:
        w = b.store(s, at, b.load(s, at) + 1)
    else:
        b.atomic("add", s, at, 1)
    b.sync()
    b.store(c, b.tx, b.load(s, b.tx))
    return Case(b, _data(), "race", (w, w))


@case
def atomic_mixed_with_a_plain_read(bad: bool) -> Case:
    b, _, c, s = _setup()
    b.store(s, b.tx, 0)
    b.sync()
    w = b.loc().line + 1
    b.atomic("add", s, 0, 1)
    if not bad:
        b.sync()
    r = b.store(c, b.tx, b.load(s, 0))
    return Case(b, _data(), "race", (w, r))


@case
def race_that_one_warp_hides(bad: bool) -> Case:
    b, a, c, s = _setup()
    w = b.store(s, b.tx, b.load(a, b.tx))
    if bad:
        b.sync_warp()
    else:
        b.sync()
    r = b.store(c, b.tx, b.load(s, (b.tx + 1) % 64))
    return Case(b, _data(), "race", (w, r))


@case
def lanes_of_one_warp_without_a_warp_barrier(bad: bool) -> Case:
    b, a, c, s = _setup(32)
    w = b.store(s, b.tx, b.load(a, b.tx))
    if not bad:
        b.sync_warp()
    r = b.store(c, b.tx, b.load(s, 31 - b.tx))
    return Case(b, _data(32), "race", (w, r))


@case
def write_after_read_within_a_warp(bad: bool) -> Case:
    b, a, c, s = _setup(32)
    b.store(s, b.tx, b.load(a, b.tx))
    b.sync()
    r = b.store(c, b.tx, b.load(s, 31 - b.tx))
    if not bad:
        b.sync_warp()
    w = b.store(s, b.tx, 1)
    return Case(b, _data(32), "race", (r, w))


@case
def tree_reduction_without_a_barrier_between_steps(bad: bool) -> Case:
    b, a, c, s = _setup(128)
    b.store(s, b.tx, b.load(a, b.tx))
    b.sync()
    lines: list[int] = []
    for step in (64, 32):
        with b.when(b.tx < step):
            lines.append(b.store(s, b.tx, b.load(s, b.tx) + b.load(s, b.tx + step)))
        if not (bad and step == 64):
            b.sync()
    b.store(c, b.tx, b.load(s, 0))
    return Case(b, _data(128), "race", (lines[0], lines[1]))


@case
def buffers_on_the_same_bytes(bad: bool) -> Case:
    b, a, c, s = _setup()
    again = b.shared("again", 32, "int64", at=0)
    b.store(s, b.tx, b.load(a, b.tx))
    b.sync()
    r = b.store(c, b.tx, b.load(s, 63 - b.tx))
    if not bad:
        b.sync()
    with b.when(b.tx < 32):
        w = b.store(again, b.tx, cast(b.tx, as_dtype("int64")))
    return Case(b, _data(), "race", (r, w))


@case
def transposed_tile_without_a_barrier(bad: bool) -> Case:
    b, a, c, s = _setup(256)
    w = b.store(s, b.tx, b.load(a, b.tx))
    if not bad:
        b.sync()
    r = b.store(c, b.tx, b.load(s, b.tx % 16 * 16 + b.tx // 16))
    return Case(b, _data(256), "race", (w, r))


@case
def vector_store_then_scalar_read(bad: bool) -> Case:
    b, a, c, s = _setup(64, "float16")
    r8 = b.regs("r", 8, "float16")
    with b.loop(8, independent=True) as i:
        b.store(r8, i, b.load(a, i))
    w = 0
    with b.when(b.tx < 8):
        w = b.copy(s, b.tx * 8, r8, 0, 8)
    if not bad:
        b.sync()
    r = b.store(c, b.tx, b.load(s, b.tx))
    return Case(b, _data(64, "float16"), "race", (w, r))


@case
def ldmatrix_right_after_the_store(bad: bool) -> Case:
    b, a, c, _ = _setup(64, "float16")
    s, q = b.shared("tile", 512, "float16"), b.regs("q", 8, "float16")
    w = 0
    with b.loop(8, independent=True) as i:
        w = b.store(s, b.tx * 8 + i, b.load(a, b.tx))
    if not bad:
        b.sync()
    r = b.ldmatrix(q, 0, s, (b.tx ^ 32) * 8, 4)
    b.store(c, b.tx, b.load(q, 0))
    return Case(b, _data(64, "float16"), "race", (w, r))


@case
def named_barrier_that_leaves_readers_out(bad: bool) -> Case:
    b, a, c, s = _setup(128)
    w = b.store(s, b.tx, b.load(a, b.tx))
    if bad:
        with b.when(b.tx < 64):
            b.sync(1, 64)
        with b.otherwise():
            b.sync(2, 64)
    else:
        b.sync()
    r = b.store(c, b.tx, b.load(s, (b.tx + 64) % 128))
    return Case(b, _data(128), "race", (w, r))


@case
def named_barriers_of_pairs_of_warps(bad: bool) -> Case:
    b, a, c, s = _setup(128)
    w = b.store(s, b.tx, b.load(a, b.tx))
    with b.when(b.tx < 64):
        b.sync(1, 64)
    with b.otherwise():
        b.sync(2, 64)
    r = b.store(c, b.tx, b.load(s, b.tx ^ (64 if bad else 32)))
    return Case(b, _data(128), "race", (w, r))


# ------------------------------------------------------------------ asynchronous copies


@case
def async_copy_read_before_its_wait(bad: bool) -> Case:
    b, a, c, s = _setup()
    w = b.cp_async(s, b.tx, a, b.tx, 1)
    b.commit()
    if not bad:
        b.wait(0)
    b.sync()
    r = b.store(c, b.tx, b.load(s, b.tx))
    return Case(b, _data(), "async-race", (w, r))


@case
def async_copy_read_by_others_without_a_barrier(bad: bool) -> Case:
    b, a, c, s = _setup()
    w = b.cp_async(s, b.tx, a, b.tx, 1)
    b.commit()
    b.wait(0)
    if not bad:
        b.sync()
    r = b.store(c, b.tx, b.load(s, 63 - b.tx))
    return Case(b, _data(), "race", (w, r))


@case
def async_copy_with_the_barrier_before_the_wait(bad: bool) -> Case:
    b, a, c, s = _setup()
    w = b.cp_async(s, b.tx, a, b.tx, 1)
    b.commit()
    if bad:
        b.sync()
    b.wait(0)
    if not bad:
        b.sync()
    r = b.store(c, b.tx, b.load(s, 63 - b.tx))
    return Case(b, _data(), "race", (w, r))


@case
def async_copy_never_committed(bad: bool) -> Case:
    b, a, c, s = _setup()
    w = b.cp_async(s, b.tx, a, b.tx, 1)
    if not bad:
        b.commit()
    b.wait(0)
    b.sync()
    r = b.store(c, b.tx, b.load(s, b.tx))
    return Case(b, _data(), "async-race", (w, r))


def _pipeline(pending: int, late_barrier: bool, stages: int = 3, used: int = 3) -> tuple[Build, int, int]:
    b, a, c, _ = _setup()
    s = b.shared("ring", 64 * stages, "int32")
    for i in range(stages - 1):
        b.cp_async(s, i % used * 64 + b.tx, a, b.tx, 1)
        b.commit()
    with b.loop(6) as i:
        b.wait(pending)
        b.sync()
        if late_barrier:
            w = b.cp_async(s, (i + stages - 1) % used * 64 + b.tx, a, b.tx, 1)
            b.commit()
        r = b.store(c, b.tx, b.load(s, i % used * 64 + (63 - b.tx)))
        if not late_barrier:
            b.sync()
            w = b.cp_async(s, (i + stages - 1) % used * 64 + b.tx, a, b.tx, 1)
            b.commit()
    return b, w, r


@case
def pipeline_waits_for_one_group_too_few(bad: bool) -> Case:
    b, w, r = _pipeline(2 if bad else 1, True)
    return Case(b, _data(), "async-race", (w, r))


@case
def pipeline_with_a_stage_too_few(bad: bool) -> Case:
    b, w, r = _pipeline(0, True, stages=3, used=2 if bad else 3)
    return Case(b, _data(), "async-race", (w, r))


@case
def async_copy_into_a_buffer_still_read(bad: bool) -> Case:
    b, a, c, s = _setup()
    b.store(s, b.tx, b.load(a, b.tx))
    b.sync()
    r = b.store(c, b.tx, b.load(s, 63 - b.tx))
    if not bad:
        b.sync()
    w = b.cp_async(s, b.tx, a, b.tx, 1)
    b.commit()
    b.wait(0)
    return Case(b, _data(), "race", (r, w))


@case
def gemm_pipeline_without_its_barrier(bad: bool) -> Case:
    b = gemm(128, barrier=not bad)
    rng = np.random.default_rng(0)
    x, y = (
        rng.integers(-3, 4, 128 * 128).astype(np.float16),
        rng.integers(-3, 4, 128 * 128).astype(np.float16),
    )
    return Case(b, (x, y, zeros(128 * 128, "float16")), "race", None)


@case
def gemm_pipeline_without_its_wait(bad: bool) -> Case:
    b = gemm(128, wait=not bad)
    rng = np.random.default_rng(0)
    x, y = (
        rng.integers(-3, 4, 128 * 128).astype(np.float16),
        rng.integers(-3, 4, 128 * 128).astype(np.float16),
    )
    return Case(b, (x, y, zeros(128 * 128, "float16")), "async-race", None)


# ------------------------------------------------------------------ races in global memory


@case
def blocks_store_one_element(bad: bool) -> Case:
    b = Build(32, (4,))
    c = b.tensor("C", 4, "int32", "inout")
    with b.when(b.tx == 0):
        w = b.store(c, b.blocks[0] * 0 if bad else b.blocks[0], b.blocks[0])
    return Case(b, (zeros(4, "int32"),), "race", (w, w))


@case
def in_place_shift_in_one_block(bad: bool) -> Case:
    b = Build(64)
    x = b.tensor("X", 65, "int32", "inout")
    v = b.bind(b.load(x, b.tx + 1))
    r = b.line
    if not bad:
        b.sync()
    w = b.store(x, b.tx, v)
    return Case(b, (np.arange(65, dtype=np.int32),), "race", (r, w))


@case
def write_after_two_readers(bad: bool) -> Case:
    b = Build(64)
    x, y = b.tensor("X", 64, "int32", "inout"), b.tensor("Y", 64, "int32", "inout")
    b.store(y, b.tx, b.load(x, 63 - b.tx))
    if not bad:
        b.sync()
    r = b.store(y, b.tx, b.load(x, b.tx))
    w = b.store(x, b.tx, 5)
    return Case(b, (np.arange(64, dtype=np.int32), zeros(64, "int32")), "race", None)


@case
def in_place_shift_over_blocks(bad: bool) -> Case:
    b = Build(32, (3,))
    x, y = b.tensor("X", 97, "int32", "inout"), b.tensor("Y", 97, "int32", "inout")
    at = b.blocks[0] * 32 + b.tx
    v = b.bind(b.load(x, at + 1))
    r = b.line
    b.sync()
    w = b.store(x if bad else y, at, v)
    return Case(b, (np.arange(97, dtype=np.int32), zeros(97, "int32")), "race", (w, r) if False else (r, w))


@case
def halo_of_the_block_before(bad: bool) -> Case:
    b = Build(32, (3,))
    x, y = b.tensor("X", 96, "int32", "inout"), b.tensor("Y", 96, "int32", "inout")
    at = b.blocks[0] * 32 + b.tx
    w = b.store(x, at, at * 2)
    b.sync()
    before = select(at > 0, at - 1, at)
    r = b.store(y, at, b.load(x, before if bad else b.blocks[0] * 32 + (31 - b.tx)))
    return Case(b, (zeros(96, "int32"), zeros(96, "int32")), "race", (w, r))


@case
def global_histogram_without_an_atomic(bad: bool) -> Case:
    b = Build(32, (2,))
    x, y = b.tensor("X", 64, "int32"), b.tensor("H", 64, "int32", "inout")
    at = b.load(x, b.blocks[0] * 32 + b.tx)
    w = 0
    if bad:
        w = b.store(y, at, b.load(y, at) + 1)
    else:
        b.atomic("add", y, at, 1)
    return Case(b, (np.resize(np.arange(32, dtype=np.int32), 64), zeros(64, "int32")), "race", (w, w))


# ------------------------------------------------------------------ initialisation


@case
def accumulator_without_a_clear(bad: bool) -> Case:
    b, a, c, _ = _setup()
    r = b.regs("acc", 1, "int32")
    if not bad:
        b.store(r, 0, 0)
    with b.loop(3) as i:
        line = b.store(r, 0, b.load(r, 0) + b.load(a, b.tx))
    b.store(c, b.tx, b.load(r, 0))
    return Case(b, _data(), "uninitialised", (line,))


@case
def shared_read_before_any_write(bad: bool) -> Case:
    b, a, c, s = _setup()
    if not bad:
        b.store(s, b.tx, b.load(a, b.tx))
        b.sync()
    r = b.store(c, b.tx, b.load(s, 63 - b.tx))
    return Case(b, _data(), "uninitialised", (r,))


@case
def partial_copy_then_full_read(bad: bool) -> Case:
    b, a, c, s = _setup()
    with b.when(b.tx < (48 if bad else 64)):
        b.store(s, b.tx, b.load(a, b.tx))
    b.sync()
    r = b.store(c, b.tx, b.load(s, 63 - b.tx))
    return Case(b, _data(), "uninitialised", (r,))


@case
def register_written_only_when_the_loop_runs(bad: bool) -> Case:
    b = Build(32)
    n, c, r = b.scalar("n", "int32"), b.tensor("C", 32, "int32", "inout"), b.regs("r", 1, "int32")
    with b.loop(n) as i:
        b.store(r, 0, i)
    line = b.store(c, b.tx, b.load(r, 0))
    return Case(b, (0 if bad else 2, zeros(32, "int32")), "uninitialised", (line,))


@case
def register_written_by_some_threads(bad: bool) -> Case:
    b, a, c, _ = _setup()
    r = b.regs("r", 1, "int32")
    with b.when(b.tx < (63 if bad else 64)):
        b.store(r, 0, b.load(a, b.tx))
    line = b.store(c, b.tx, b.load(r, 0))
    return Case(b, _data(), "uninitialised", (line,))


@case
def mma_with_an_operand_half_loaded(bad: bool) -> Case:
    b = Build(32)
    a, w, d = b.regs("a", 8, "float16"), b.regs("b", 4, "float16"), b.regs("d", 4, "float32")
    for memory, count in ((a, 4 if bad else 8), (w, 4), (d, 4)):
        with b.loop(count, independent=True) as i:
            b.store(memory, i, 1.0)
    line = b.mma(16, d, 0, a, 0, w, 0)
    return Case(b, (), "uninitialised", (line,))


@case
def output_partly_written(bad: bool) -> Case:
    b = Build(32)
    c = b.tensor("C", 40 if bad else 32, "int32", "out")
    b.store(c, b.tx, b.tx)
    return Case(b, (zeros(40 if bad else 32, "int32"),), "unwritten", None)


# ------------------------------------------------------------------ bounds and alignment


@case
def load_past_the_tail(bad: bool) -> Case:
    b = Build(32, (2,))
    a, c, r = b.tensor("A", 40, "int32"), b.tensor("C", 64, "int32", "inout"), b.regs("r", 1, "int32")
    at = b.blocks[0] * 32 + b.tx
    b.store(r, 0, 0)
    if bad:
        line = b.store(r, 0, b.load(a, at))
    else:
        with b.when(at < 40):
            line = b.store(r, 0, b.load(a, at))
    b.store(c, at, b.load(r, 0))
    return Case(b, (np.arange(40, dtype=np.int32), zeros(64, "int32")), "out-of-bounds", (line,))


@case
def guard_with_the_wrong_bound(bad: bool) -> Case:
    b = Build(64)
    c = b.tensor("C", 50, "int32", "inout")
    with b.when(b.tx <= 50 if bad else b.tx < 50):
        line = b.store(c, b.tx, 1)
    return Case(b, (zeros(50, "int32"),), "out-of-bounds", (line,))


@case
def loop_off_by_one(bad: bool) -> Case:
    b, a, c, s = _setup(32)
    b.store(s, b.tx, b.load(a, b.tx))
    b.sync()
    r = b.regs("r", 1, "int32")
    b.store(r, 0, 0)
    with b.loop(33 if bad else 32) as i:
        line = b.store(r, 0, b.load(r, 0) + b.load(s, i))
    b.store(c, b.tx, b.load(r, 0))
    return Case(b, _data(32), "out-of-bounds", (line,))


@case
def negative_index(bad: bool) -> Case:
    b, a, c, _ = _setup(32)
    at = b.tx - 1
    line = b.store(c, b.tx, b.load(a, at if bad else select(b.tx > 0, at, b.tx)))
    return Case(b, _data(32), "out-of-bounds", (line,))


@case
def shared_store_past_its_buffer(bad: bool) -> Case:
    b, _, _, s = _setup(32)
    b.shared("other", 32, "int32")
    line = b.store(s, b.tx + (1 if bad else 0), 1)
    return Case(b, _data(32), "out-of-bounds", (line,))


@case
def register_index_of_the_thread(bad: bool) -> Case:
    b, _, c, _ = _setup(32)
    r = b.regs("r", 16, "int32")
    with b.loop(16, independent=True) as i:
        b.store(r, i, i)
    line = b.store(c, b.tx, b.load(r, b.tx if bad else b.tx % 16))
    return Case(b, _data(32), "out-of-bounds", (line,))


@case
def gather_through_a_bad_index(bad: bool) -> Case:
    b = Build(32)
    index, table, c = (
        b.tensor("I", 32, "int32"),
        b.tensor("T", 10, "int32"),
        b.tensor("C", 32, "int32", "inout"),
    )
    line = b.store(c, b.tx, b.load(table, b.load(index, b.tx)))
    values = np.arange(32, dtype=np.int32) % (11 if bad else 10)
    return Case(b, (values, np.arange(10, dtype=np.int32), zeros(32, "int32")), "out-of-bounds", (line,))


@case
def out_of_bounds_only_in_the_last_block(bad: bool) -> Case:
    n = 95 if bad else 96
    b = Build(32, (3,))
    c = b.tensor("C", n, "int32", "inout")
    line = b.store(c, b.blocks[0] * 32 + b.tx, 1)
    return Case(b, (zeros(n, "int32"),), "out-of-bounds", (line,))


@case
def async_copy_past_the_tile(bad: bool) -> Case:
    b = Build(32)
    a, s = b.tensor("A", 160, "float32"), b.shared("s", 128, "float32")
    line = b.cp_async(s, b.tx * 4 + (4 if bad else 0), a, b.tx * 4, 4)
    b.commit()
    b.wait(0)
    return Case(b, (np.zeros(160, np.float32),), "out-of-bounds", (line,))


@case
def unaligned_vector(bad: bool) -> Case:
    b = Build(32)
    a, r = b.tensor("A", 132, "float32"), b.regs("r", 4, "float32")
    line = b.copy(r, 0, a, b.tx * 4 + (1 if bad else 0), 4)
    return Case(b, (np.zeros(132, np.float32),), "misaligned", (line,))


@case
def ldmatrix_rows_of_the_wrong_pitch(bad: bool) -> Case:
    b = Build(32)
    s, q = b.shared("s", 32 * 9, "float16"), b.regs("q", 8, "float16")
    with b.loop(9, independent=True) as i:
        b.store(s, b.tx * 9 + i, 0.0)
    b.sync()
    line = b.ldmatrix(q, 0, s, b.tx * (9 if bad else 8), 4)
    return Case(b, (), "misaligned", (line,))


# ------------------------------------------------------------------ barriers and convergence


@case
def barrier_in_a_divergent_branch(bad: bool) -> Case:
    b, _, _, s = _setup(32)
    with b.when(b.tx < 16):
        b.store(s, b.tx, 1)
        line = b.sync() if bad else 0
    if not bad:
        b.sync()
    return Case(b, _data(32), "deadlock", (line,))


@case
def barrier_that_one_warp_skips(bad: bool) -> Case:
    b, *_ = _setup(64)
    with b.when(b.tx < (32 if bad else 64)):
        line = b.sync()
    return Case(b, _data(64), "deadlock", (line,))


@case
def barrier_in_a_loop_of_the_thread(bad: bool) -> Case:
    b, *_ = _setup(64)
    with b.loop(b.tx // 32 + 1 if bad else (b.tx // 64) + 2):
        line = b.sync()
    return Case(b, _data(64), "deadlock", (line,))


@case
def leaving_before_the_barrier(bad: bool) -> Case:
    b, *_ = _setup(64)
    with b.loop(4) as i:
        with b.when((i == 2) & (b.tx == 7) if bad else i == 2):
            b.leave()
        line = b.sync()
    return Case(b, _data(64), "deadlock", (line,))


@case
def barrier_with_a_count_off_by_a_warp(bad: bool) -> Case:
    b = Build(96)
    line = b.sync(1, 96 if bad else 64)
    b.end_role("consumers", 0, 64)
    b.end_role("producer", 64, 32)
    return Case(b, (), "deadlock", (line,))


@case
def producer_that_leaves_early(bad: bool) -> Case:
    b = Build(64)
    s = b.shared("s", 32, "int32")
    with b.loop(3 if bad else 4) as i:
        b.sync(2, 64)
        b.store(s, b.tx, i)
        b.sync(1, 64)
    b.end_role("producer", 0, 32)
    r = b.regs("r", 1, "int32")
    with b.loop(4):
        line = b.sync(2, 64)
        b.sync(1, 64)
        b.store(r, 0, b.load(s, b.tx - 32))
    b.end_role("consumer", 32, 32)
    return Case(b, (), "deadlock", (line,))


@case
def producer_and_consumer_with_one_barrier(bad: bool) -> Case:
    b = Build(64)
    s = b.shared("s", 32, "int32")
    with b.loop(4) as i:
        w = b.store(s, b.tx, i)
        b.sync(1, 64)
        if not bad:
            b.sync(2, 64)
    b.end_role("producer", 0, 32)
    r = b.regs("r", 1, "int32")
    with b.loop(4):
        b.sync(1, 64)
        line = b.store(r, 0, b.load(s, b.tx - 32))
        if not bad:
            b.sync(2, 64)
    b.end_role("consumer", 32, 32)
    return Case(b, (), "race", (line, w))


@case
def shuffle_in_a_divergent_branch(bad: bool) -> Case:
    b, _, c, _ = _setup(32)
    if bad:
        with b.when(b.tx < 16):
            line = b.store(c, b.tx, intrinsic("shfl_xor", b.tx, 16))
    else:
        line = b.store(c, b.tx, intrinsic("shfl_xor", b.tx, 16))
    return Case(b, _data(32), "divergence", (line,))


@case
def loop_that_never_ends(bad: bool) -> Case:
    b = Build(32)
    r = b.regs("r", 1, "int32")
    b.store(r, 0, 0)
    line = b.line + 1
    with b.loop_while(b.load(r, 0) < 5):
        b.store(r, 0, b.load(r, 0) + (0 if bad else 1))
    return Case(b, (), "endless-loop", (line,))
