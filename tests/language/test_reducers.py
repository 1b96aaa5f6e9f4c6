"""Folds over threads in older spellings, and T.Parallel over extents that only the run knows."""

import re
from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T

TARGETS = ["interp", "cpu"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", ["sum", "max"])
def test_a_parallel_loop_folds_rows_into_a_reducer(op: str, target: str) -> None:
    m, n = 24, 40

    @T.prim_func
    def kernel(A: T.Tensor((m, n), "float32"), B: T.Tensor((m,), "float32")):
        with T.Kernel(threads=64):
            rows = T.alloc_reducer(m, "float32", op=op, replication="all")
            T.reducer_init(rows)
            a = T.alloc_fragment((m, n), "float32")
            T.copy(A, a)
            for i, j in T.Parallel(m, n):
                if j != 3:
                    if op == "sum":
                        rows[i] += a[i, j]
                    else:
                        rows[i] = T.max(rows[i], a[i, j])
            T.finalize_reducer(rows)
            T.copy(rows, B)

    a = np.random.default_rng(1).standard_normal((m, n)).astype("float32")
    a[:, 3] = 1000
    b = np.empty(m, "float32")
    tilebench.compile(kernel, target=target)(a, b)
    rest = np.delete(a, 3, 1)
    np.testing.assert_allclose(b, rest.sum(1) if op == "sum" else rest.max(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("batch", "text"),
    [(0, "must be >= 1"), (16, "exceeds total output elements, 8"), (3, "must evenly divide the 8")],
)
def test_a_reducer_says_which_batches_there_are(batch: int, text: str) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            rows = T.alloc_reducer(8, "float32")
            T.clear(rows)
            T.finalize_reducer(rows, batch=batch)
            T.copy(rows, B)

    with pytest.raises(ValueError, match=f"batch={batch}.*{text}"):
        tilebench.compile(kernel, target="interp")


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_a_reducers_batch_is_how_many_elements_lanes_exchange_at_once(batch: int) -> None:
    @T.prim_func
    def kernel(
        A: T.Tensor((2, 128, 48), "float32"), B: T.Tensor((128,), "float32"), C: T.Tensor((128,), "float32")
    ):
        with T.Kernel(1, threads=128):
            rows = T.alloc_reducer(128, "float32", op="max")
            tile = T.alloc_fragment((128, 48), "float32")
            copied = T.alloc_fragment((128,), "float32")
            T.reducer_init(rows)
            for part in range(2):
                T.copy(A[part, 0:128, 0:48], tile)
                for i, j in T.Parallel(128, 48):
                    rows[i] = T.max(rows[i], tile[i, j])
            T.finalize_reducer(rows, copied, batch=batch)
            T.copy(rows, B)
            T.copy(copied, C)

    for target in ("interp", "emu:sm_90a"):
        a = np.random.default_rng(0).standard_normal((2, 128, 48)).astype("float32")
        b, c = np.empty((2, 128), "float32")
        tilebench.compile(kernel, target=target)(a, b, c)
        np.testing.assert_array_equal(b, a.max((0, 2)))
        np.testing.assert_array_equal(c, b)
    text = tilebench.compile(kernel, target="cuda:sm_90a").get_kernel_source()
    batches = set(re.findall(r"AllReduce<.*?, \d+, (\d+), \d+>::run_batch", text))
    assert batches == ({str(batch)} if batch > 1 else set())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("valid", [0, 13, 150, 500])
def test_parallel_over_a_length_of_the_run(valid: int, target: str) -> None:
    n = 150

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), length: T.int32):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(n):
                B[i] = 0.0
            for i in T.Parallel(T.min(length, n)):
                B[i] = A[i] + 1.0

    a, b = np.arange(n, dtype="float32"), np.empty(n, "float32")
    tilebench.compile(kernel, target=target)(a, b, valid)
    np.testing.assert_array_equal(b, np.where(np.arange(n) < valid, a + 1, 0))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", [0, 1])
def test_thread_allreduce_folds_an_axis(axis: int, target: str) -> None:
    shape = (8, 16)

    @T.prim_func
    def kernel(A: T.Tensor(shape, "float32"), B: T.Tensor(shape, "float32")):
        with T.Kernel(1, threads=shape):
            x, y = T.get_thread_binding(0), T.get_thread_binding(1)
            total = T.alloc_local((1,), "float32")
            with T.attr(
                T.comm_reducer(lambda a, b: a + b, [T.cast(0, "float32")]),
                "reduce_scope",
                T.reinterpret(T.uint64(0), dtype="handle"),
            ):
                T.evaluate(
                    T.tvm_thread_allreduce(T.uint32(1), A[x, y], True, total[0], (x, y)[axis], dtype="handle")
                )
            B[x, y] = total[0]

    a = np.random.default_rng(2).standard_normal(shape).astype("float32")
    b: Any = np.empty(shape, "float32")
    tilebench.compile(kernel, target=target)(a, b)
    np.testing.assert_allclose(b, np.broadcast_to(a.sum(axis, keepdims=True), shape), rtol=1e-4, atol=1e-5)
