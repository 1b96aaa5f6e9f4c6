"""Folds of halves two at a time, of many values at a time, and of what is no number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tests.traps.running import check, numbers, refused
from tilebench.kernel.emulate import emulate

FOLD: dict[str, Any] = {
    "sum": np.sum, "max": np.max, "min": np.min, "absmax": lambda x, axis: np.abs(x).max(axis=axis),
    "abssum": lambda x, axis: np.abs(x).sum(axis=axis), "bitxor": np.bitwise_xor.reduce,
}  # fmt: skip


def folding(
    kind: str, shape: tuple[int, int], dim: int, dtype: str, threads: int, batch: int = 1, keep: bool = False,
    nan: bool = False, scope: str = "fragment",
) -> Any:  # fmt: skip
    """B = the fold of A along dim, into -1 when `keep`."""
    rest = shape[1 - dim]

    @T.prim_func
    def program(A: T.Tensor(shape, dtype), B: T.Tensor((rest,), dtype)):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment(shape, dtype) if scope == "fragment" else T.alloc_shared(shape, dtype)
            y = T.alloc_fragment((rest,), dtype)
            T.copy(A, x)
            T.fill(y, -1)
            T.reduce(x, y, kind, dim, not keep, batch, nan)
            T.copy(y, B)

    return program


def text_of(program: Any, target: str = "cuda:sm_90a") -> str:
    """The CUDA C++ of a program."""
    return tilebench.lower(program, target=target).kernel_source


@pytest.mark.parametrize("kind", ["max", "min", "absmax"])
@pytest.mark.parametrize(
    ("shape", "dim", "threads"),
    [((64, 128), 1, 256), ((64, 128), 0, 256), ((128, 2), 1, 128), ((1, 256), 1, 64),
     ((6, 128), 1, 32), ((33, 20), 0, 32)],
)  # fmt: skip
def test_the_largest_and_smallest_half(kind: str, shape: tuple[int, int], dim: int, threads: int) -> None:
    x = (np.random.default_rng(0).integers(-999, 999, shape) / 8).astype(np.float16)
    want = FOLD[kind](x, axis=dim).astype(np.float16)
    check(folding(kind, shape, dim, "float16", threads), [x], want)
    merged = np.minimum(want, np.float16(-1)) if kind == "min" else np.maximum(want, np.float16(-1))
    check(folding(kind, shape, dim, "float16", threads, keep=True), [x], merged)


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_folded_two_at_a_time(dtype: str, target: str) -> None:
    c = "f16" if dtype == "float16" else "bf16"
    text = text_of(folding("max", (64, 128), 1, dtype, 256), target)
    assert f"= tl::max2<{c}>(" in text
    assert "tl::AllReduceWord<tl::MaxOp, 1, 2, 16>::run(" in text
    assert "to_f32" not in text


def test_sums_of_halves_are_float32_all_the_way() -> None:
    """2048 ones: a running sum in float16 would be right only up to where 1 is half a step."""
    x = np.ones((2, 4096), np.float16)
    check(folding("sum", (2, 4096), 1, "float16", 128), [x], np.full(2, 4096, np.float16))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("kind", ["max", "min", "absmax"])
@pytest.mark.parametrize("batch", [1, 4])
def test_nan_is_kept_only_where_it_is_asked_for(kind: str, dtype: str, batch: int) -> None:
    import torch

    x = torch.from_numpy(numbers(64, 128)).to(getattr(torch, dtype))
    x[5, 77] = x[9, 0] = x[63, 127] = torch.nan
    x[20] = torch.nan
    plain = FOLD["max" if kind == "absmax" else kind](
        np.nan_to_num(np.abs(x.float().numpy()) if kind == "absmax" else x.float().numpy(), nan=0), axis=1
    )
    for nan in (False, True):
        want = plain.copy()
        want[20] = {"max": -np.inf, "min": np.inf, "absmax": 0}[kind]
        if nan:
            want[[5, 9, 20, 63]] = np.nan
        program = folding(kind, (64, 128), 1, dtype, 256, batch, nan=nan)
        for target in ("interp", "cpu", "emu:sm_90a", "emu:sm_80"):
            got = torch.zeros(64, dtype=x.dtype)
            if target.startswith("emu"):
                result = emulate(tilebench.compile(program, target="interp"), x, got, target=target)
                assert not result.findings, result
            else:
                tilebench.compile(program, target=target)(x, got)
            np.testing.assert_array_equal(got.float().numpy(), want, err_msg=f"{target} {nan}")


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16", "int64", "int8"])
@pytest.mark.parametrize("kind", ["sum", "max", "min", "abssum", "absmax", "bitxor"])
def test_no_result_depends_on_how_many_go_at_a_time(kind: str, dtype: str) -> None:
    if kind == "bitxor" and dtype.startswith("float"):
        pytest.skip("bits are of integers")
    x = numbers(64, 64, dtype=dtype)
    want = (
        FOLD[kind](x.astype("int64" if kind == "bitxor" else "float64"), axis=1).astype("int64").astype(dtype)
    )
    for batch, scope in ((2, "fragment"), (8, "shared")):
        check(folding(kind, (64, 64), 1, dtype, 256, batch, scope=scope), [x], want)


def test_a_batch_goes_by_one_call() -> None:
    for batch, calls, of in ((2, 2, "2"), (4, 1, "4"), (16, 1, "4"), (3, 2, "2")):
        text = text_of(folding("sum", (64, 64), 1, "float32", 256, batch))
        name = "AllReduceWord" if of == "1" else "AllReduce"
        assert f"tl::{name}<tl::SumOp, 1, {of}, 16>::run" in text, (batch, text)
        loops = f"r < {calls}; ++r) {{\n    tl::{name}"
        assert calls == 1 or loops in text, (batch, text)
    assert "run_batch" not in text_of(folding("sum", (64, 64), 1, "float32", 256))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("kind", ["max", "min", "absmax"])
@pytest.mark.parametrize("keep", [False, True])
def test_arrays_of_each_thread(kind: str, dim: int, keep: bool) -> None:
    rest = (8, 4)[1 - dim]

    @T.prim_func
    def program(A: T.Tensor((32, 8, 4), "float16"), B: T.Tensor((32, rest), "float16")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            x = T.alloc_local((8, 4), "float16")
            y = T.alloc_local((rest,), "float16")
            for i, j in T.grid(8, 4):
                x[i, j] = A[t, i, j]
            for k in T.serial(rest):
                y[k] = 2
            T.reduce(x, y, kind, dim, not keep)
            for k in T.serial(rest):
                B[t, k] = y[k]

    x = (np.random.default_rng(1).integers(-9, 9, (32, 8, 4)) / 4).astype(np.float16)
    want = FOLD[kind](x, axis=1 + dim)
    if keep:
        want = np.minimum(want, np.float16(2)) if kind == "min" else np.maximum(want, np.float16(2))
    check(program, [x], want)
    assert f"tl::{'min' if kind == 'min' else 'max'}2<f16>(" in text_of(program)


def fold_into(source: Any, total: Any, twice: Any) -> Any:
    """A plain function that folds into a variable of its caller, and changes its own name for another."""
    T.reduce_max(source, total, dim=0)
    twice = twice + twice
    return total + twice


def test_a_plain_function_folds_into_its_callers_variable() -> None:
    @T.prim_func
    def program(A: T.Tensor((32, 8), "float16"), B: T.Tensor((32, 3), "float16")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            x = T.alloc_local((8,), "float16")
            for i in T.serial(8):
                x[i] = A[t, i]
            largest = T.alloc_var("float16")
            other = T.alloc_var("float16")
            other = 3
            B[t, 0] = fold_into(x, largest, other)
            B[t, 1] = largest
            B[t, 2] = other

    x = (np.random.default_rng(1).integers(-9, 9, (32, 8)) / 4).astype(np.float16)
    top = x.max(axis=1)
    check(program, [x], np.stack([top + 6, top, np.full(32, 3)], axis=1).astype(np.float16))
    assert "tl::max2<f16>(" in text_of(program)


def test_rows_over_several_warps_are_folded_in_halves_too() -> None:
    x = (np.random.default_rng(2).integers(-999, 999, (2, 2048)) / 8).astype(np.float16)
    for batch in (1, 2):
        check(folding("max", (2, 2048), 1, "float16", 256, batch), [x], x.max(axis=1))


def test_a_batch_of_none_is_refused() -> None:
    def make() -> Any:
        @T.prim_func
        def program(B: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=32):
                x = T.alloc_fragment((4, 8), "float32")
                y = T.alloc_fragment((4,), "float32")
                T.clear(x)
                T.reduce_sum(x, y, dim=1, batch=0)  # here
                T.copy(y, B)

        return program

    refused(make, "TB245", "# here")
