"""Pipelines: tiles used twice, atomics, any number of trips and stages, and data as indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tests.traps.running import check, numbers
from tilebench.passes.stages import Scheduled

STAGES = [0, 1, 2, 3, 4]


@pytest.mark.parametrize("stages", STAGES)
def test_a_tile_filled_twice_in_an_iteration(stages: int) -> None:
    @T.prim_func
    def twice(
        A: T.Tensor((5, 7, 24), "float32"),
        B: T.Tensor((5, 7, 24), "float32"),
        C: T.Tensor((7, 24), "float32"),
    ):
        with T.Kernel(1, threads=96):
            S = T.alloc_shared((7, 24), "float32")
            X = T.alloc_fragment((7, 24), "float32")
            T.clear(X)
            for k in T.Pipelined(5, num_stages=stages):
                T.copy(A[k, :, :], S)
                for i, j in T.Parallel(7, 24):
                    X[i, j] = X[i, j] * 2 + S[i, j]
                T.copy(B[k, :, :], S)
                for i, j in T.Parallel(7, 24):
                    X[i, j] = X[i, j] - S[i, 23 - j]
            T.copy(X, C)

    a, b = numbers(5, 7, 24), numbers(5, 7, 24, seed=1)
    want = np.zeros((7, 24), np.float32)
    for k in range(5):
        want = want * 2 + a[k] - b[k, :, ::-1]
    check(twice, [a, b], want)


@pytest.mark.parametrize("stages", STAGES)
def test_a_tile_that_is_also_scratch(stages: int) -> None:
    """Copied in, changed in place, read, and read once more after the loop."""

    @T.prim_func
    def scratch(
        A: T.Tensor((4, 6, 40), "float32"), B: T.Tensor((6, 40), "float32"), C: T.Tensor((6, 40), "float32")
    ):
        with T.Kernel(1, threads=96):
            S = T.alloc_shared((6, 40), "float32")
            X = T.alloc_fragment((6, 40), "float32")
            T.clear(X)
            for k in T.Pipelined(4, num_stages=stages):
                T.copy(A[k, :, :], S)
                for i, j in T.Parallel(6, 40):
                    S[i, j] = S[i, j] + X[i, j]
                for i, j in T.Parallel(6, 40):
                    X[i, j] = S[i, (j + 1) % 40]
            T.copy(S, B)
            T.copy(X, C)

    a = numbers(4, 6, 40)
    x = np.zeros((6, 40), np.float32)
    s = x
    for k in range(4):
        s = a[k] + x
        x = np.roll(s, -1, 1)
    check(scratch, [a], s, x)


@pytest.mark.parametrize("stages", STAGES)
def test_a_tile_that_carries_from_one_iteration_to_the_next(stages: int) -> None:
    @T.prim_func
    def previous(A: T.Tensor((6, 32), "int32"), C: T.Tensor((6, 32), "int32")):
        with T.Kernel(1, threads=64):
            old = T.alloc_shared((32,), "int32")
            new = T.alloc_shared((32,), "int32")
            x = T.alloc_fragment((32,), "int32")
            T.fill(old, 100)
            for k in T.Pipelined(6, num_stages=stages):
                T.copy(A[k, :], new)
                for i in T.Parallel(32):
                    x[i] = new[i] - old[31 - i]
                T.copy(x, C[k, :])
                T.copy(new, old)

    a = numbers(6, 32, dtype=np.int32)
    before = np.concatenate([np.full((1, 32), 100, np.int32), a[:-1]])
    check(previous, [a], a - before[:, ::-1])


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("scope", ["global", "shared"])
def test_atomics_in_a_pipeline(stages: int, scope: str) -> None:
    @T.prim_func
    def histogram(A: T.Tensor((5, 50), "int32"), H: T.Tensor((8,), "int32"), top: T.Tensor((1,), "int32")):
        with T.Kernel(2, threads=96) as b:
            S = T.alloc_shared((50,), "int32")
            local = T.alloc_shared((8,), "int32")
            T.clear(local)
            for k in T.Pipelined(5, num_stages=stages):
                T.copy(A[k, :], S)
                for i in T.Parallel(50):
                    if S[i] > b:
                        if scope == "global":
                            T.atomic_add(H[S[i]], 1)
                        else:
                            T.atomic_add(local[S[i]], 1)
                    T.atomic_max(top[0], S[i] * 10 + b)
            if scope == "shared":
                T.atomic_add(H, local)

    a = np.random.default_rng(0).integers(0, 8, (5, 50)).astype(np.int32)
    want = np.full(8, 3, np.int32)
    for b in range(2):
        want += np.bincount(a[a > b], minlength=8).astype(np.int32)
    start = [np.full(8, 3, np.int32), np.array([-5], np.int32)]
    check(histogram, [a], want, np.array([a.max() * 10 + 1], np.int32), start=start)


@pytest.mark.parametrize("stages", [0, 2, 3])
def test_products_added_to_global_memory_in_a_pipeline(stages: int) -> None:
    """Split K: every iteration of every block adds its product."""

    @T.prim_func
    def split(
        A: T.Tensor((40, 96), "float16"), B: T.Tensor((96, 24), "float16"), C: T.Tensor((40, 24), "float32")
    ):
        with T.Kernel(3, threads=128) as b:
            A_s = T.alloc_shared((64, 16), "float16")
            B_s = T.alloc_shared((16, 32), "float16")
            acc = T.alloc_fragment((64, 32), "float32")
            for k in T.Pipelined(2, num_stages=stages):
                T.copy(A[0, b * 32 + k * 16], A_s)
                T.copy(B[b * 32 + k * 16, 0], B_s)
                T.clear(acc)
                T.gemm(A_s, B_s, acc)
                for i, j in T.Parallel(64, 32):
                    if i < 40 and j < 24:
                        T.atomic_add(C[i, j], acc[i, j])

    a, b = numbers(40, 96, dtype=np.float16), numbers(96, 24, dtype=np.float16, seed=1)
    want = a.astype(np.float32) @ b.astype(np.float32) + 1
    check(split, [a, b], want, start=[np.ones((40, 24), np.float32)])


@pytest.mark.parametrize("stages", [0, 2, 4])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
def test_fewer_trips_than_stages_and_trips_known_at_the_call(stages: int, n: int) -> None:
    trips = T.dynamic("trips")

    @T.prim_func
    def total(A: T.Tensor((trips, 33), "float32"), C: T.Tensor((33,), "float32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((33,), "float32")
            x = T.alloc_fragment((33,), "float32")
            T.fill(x, 5)
            for k in T.Pipelined(trips, num_stages=stages):
                T.copy(A[k, :], S)
                for i in T.Parallel(33):
                    x[i] = x[i] + S[32 - i] * (k + 1)
            T.copy(x, C)

    a = numbers(max(n, 1), 33)[:n]
    weight = np.arange(1, n + 1, dtype=np.float32)[:, None]
    check(total, [a], (5 + (a[:, ::-1] * weight).sum(0)).astype(np.float32))


def test_a_pipeline_without_stages_is_a_loop() -> None:
    @T.prim_func
    def total(A: T.Tensor((4, 20), "int32"), C: T.Tensor((20,), "int32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((20,), "int32")
            y = T.alloc_fragment((20,), "int32")
            T.clear(x)
            for k in T.Pipelined(4):
                T.copy(A[k, :], y)
                for i in T.Parallel(20):
                    x[i] += y[i]
            T.copy(x, C)

    a = numbers(4, 20, dtype=np.int32)
    check(total, [a], a.sum(0, dtype=np.int32))


@pytest.mark.parametrize("stages", STAGES)
def test_rows_that_a_table_names(stages: int) -> None:
    @T.prim_func
    def gather(A: T.Tensor((9, 40), "float16"), rows: T.Tensor((7,), "int32"), C: T.Tensor((40,), "float32")):
        with T.Kernel(1, threads=96):
            S = T.alloc_shared((40,), "float16")
            x = T.alloc_fragment((40,), "float32")
            T.clear(x)
            for k in T.Pipelined(7, num_stages=stages):
                row = rows[k]
                if row >= 0:
                    T.copy(A[row, :], S)
                    for i in T.Parallel(40):
                        x[i] = x[i] * 2 + T.cast(S[i], "float32")
            T.copy(x, C)

    a = numbers(9, 40, dtype=np.float16)
    rows = np.array([3, -1, 8, 0, 0, -1, 5], np.int32)
    want = np.zeros(40, np.float32)
    for r in rows:
        if r >= 0:
            want = want * 2 + a[r].astype(np.float32)
    check(gather, [a, rows], want)


@pytest.mark.parametrize("stages", [0, 2, 3])
def test_two_pipelines_over_one_tile_and_one_inside_a_loop(stages: int) -> None:
    @T.prim_func
    def both(A: T.Tensor((3, 4, 24), "float32"), C: T.Tensor((24,), "float32")):
        with T.Kernel(1, threads=96):
            S = T.alloc_shared((24,), "float32")
            x = T.alloc_fragment((24,), "float32")
            T.clear(x)
            for h in T.serial(3):
                for k in T.Pipelined(4, num_stages=stages):
                    T.copy(A[h, k, :], S)
                    for i in T.Parallel(24):
                        x[i] = x[i] + S[23 - i]
                for i in T.Parallel(24):
                    x[i] = x[i] * 2
            for k in T.Pipelined(2, num_stages=stages):
                T.copy(A[k, 0, :], S)
                for i in T.Parallel(24):
                    x[i] = x[i] - S[i]
            T.copy(x, C)

    a = numbers(3, 4, 24)
    x = np.zeros(24, np.float32)
    for h in range(3):
        x = (x + a[h, :, ::-1].sum(0)) * 2
    check(both, [a], x - a[0, 0] - a[1, 0])


@pytest.mark.parametrize("stages", [2, 3])
def test_an_order_given_by_hand_with_a_tile_of_odd_width(stages: int) -> None:
    def make(**how: Any) -> Any:
        @T.prim_func
        def program(
            A: T.Tensor((80, 50), "float16"),
            B: T.Tensor((50, 24), "float16"),
            C: T.Tensor((80, 24), "float32"),
        ):
            with T.Kernel(1, threads=160):
                A_s = T.alloc_shared((80, 16), "float16")
                B_s = T.alloc_shared((16, 24), "float16")
                acc = T.alloc_fragment((80, 24), "float32")
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(50, 16), **how):
                    T.copy(A[0, k * 16], A_s)
                    T.copy(B[k * 16, 0], B_s)
                    T.gemm(A_s, B_s, acc)
                T.copy(acc, C)

        return program

    a, b = numbers(80, 50, dtype=np.float16), numbers(50, 24, dtype=np.float16, seed=1)
    want = a.astype(np.float32) @ b.astype(np.float32)
    check(make(num_stages=stages, order=[0, 1, 2], stage=[0, 0, 1]), [a, b], want)
    check(make(num_stages=stages), [a, b], want)
    if stages == 2:
        check(make(order=[0, 1, 2], stage=[0, 0, 1]), [a, b], want)


@pytest.mark.parametrize(
    ("stage", "versions"), [([0, 0, 1], 2), ([0, 1, 2], 3), ([-1, -1, 0], 0), ([1, 1, 1], 0)]
)
def test_a_schedule_by_hand_is_one_without_a_number_of_stages(stage: list[int], versions: int) -> None:
    @T.prim_func
    def program(
        A: T.Tensor((64, 160), "float16"), B: T.Tensor((160, 64), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 32), "float16")
            B_s = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(5, order=[0, 1, 2], stage=stage):
                T.copy(A[0, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C)

    for target in ("emu:sm_90a", "emu:sm_80"):
        (found,) = tilebench.compile(program, target=target).compilation.stage(Scheduled).schedules
        assert found.stages == max(versions, 1), found.reason
    a, b = numbers(64, 160, dtype=np.float16), numbers(160, 64, dtype=np.float16, seed=1)
    check(program, [a, b], a.astype(np.float32) @ b.astype(np.float32))
