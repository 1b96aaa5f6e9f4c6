"""Names of the language that no other test uses, each in a program that runs on every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tests.traps.running import TARGETS, check, numbers, poisoned
from tilebench.kernel.emulate import emulate

Function = Callable[..., Any]
AROUND_ZERO = np.array([-0.9, -0.5, -0.125, 0.0, 0.25, 0.5, 0.75, 0.9], np.float32)
POSITIVE = np.array([0.01, 0.125, 0.5, 1.0, 1.5, 2.0, 7.25, 100.0], np.float32)
ANY = np.array([-7.75, -2.5, -1.5, -0.5, 0.5, 1.5, 2.25, 8.5], np.float32)
ONE_UP = ANY**2 + 1


def math_erf(x: Any) -> Any:
    import math

    return np.vectorize(math.erf)(x)


UNARY: dict[str, tuple[Function, Function, Any, int]] = {
    "acos": (lambda x: T.acos(x), np.arccos, AROUND_ZERO, 4),
    "asin": (lambda x: T.asin(x), np.arcsin, AROUND_ZERO, 4),
    "atan": (lambda x: T.atan(x), np.arctan, ANY, 4),
    "acosh": (lambda x: T.acosh(x), np.arccosh, ONE_UP, 4),
    "asinh": (lambda x: T.asinh(x), np.arcsinh, ANY, 4),
    "atanh": (lambda x: T.atanh(x), np.arctanh, AROUND_ZERO, 4),
    "sin": (lambda x: T.sin(x), np.sin, ANY, 4),
    "cos": (lambda x: T.cos(x), np.cos, ANY, 4),
    "tan": (lambda x: T.tan(x), np.tan, AROUND_ZERO, 8),
    "sinh": (lambda x: T.sinh(x), np.sinh, AROUND_ZERO, 4),
    "cosh": (lambda x: T.cosh(x), np.cosh, ANY, 4),
    "erf": (lambda x: T.erf(x), math_erf, ANY, 4),
    "exp10": (lambda x: T.exp10(x), lambda x: 10**x, AROUND_ZERO, 4),
    "log": (lambda x: T.log(x), np.log, POSITIVE, 4),
    "log10": (lambda x: T.log10(x), np.log10, POSITIVE, 4),
    "log1p": (lambda x: T.log1p(x), np.log1p, AROUND_ZERO, 4),
    "sqrt": (lambda x: T.sqrt(x), np.sqrt, POSITIVE, 1),
    "sigmoid": (lambda x: T.sigmoid(x), lambda x: 1 / (1 + np.exp(-x)), ANY, 8),
    "fast_rcp": (lambda x: T.fast_rcp(x), lambda x: 1 / x, POSITIVE, 4),
    "ieee_frsqrt": (lambda x: T.ieee_frsqrt(x), lambda x: 1 / np.sqrt(x), POSITIVE, 1),
    "ceil": (lambda x: T.ceil(x), np.ceil, ANY, 0),
    "floor": (lambda x: T.floor(x), np.floor, ANY, 0),
    "trunc": (lambda x: T.trunc(x), np.trunc, ANY, 0),
    "round": (lambda x: T.round(x), np.round, ANY, 0),
    "round away": (
        lambda x: T.round(x, "ties-away-from-zero"),
        lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
        ANY,
        0,
    ),
    "nearbyint": (lambda x: T.nearbyint(x), np.round, ANY, 0),
}
FAST: dict[str, tuple[Function, Function, Any, int]] = {
    "__exp": (lambda x: T.__exp(x), np.exp, AROUND_ZERO, 64),
    "__exp10": (lambda x: T.__exp10(x), lambda x: 10**x, AROUND_ZERO, 64),
    "__log": (lambda x: T.__log(x), np.log, POSITIVE, 64),
    "__log2": (lambda x: T.__log2(x), np.log2, POSITIVE, 64),
    "__log10": (lambda x: T.__log10(x), np.log10, POSITIVE, 64),
    "__sin": (lambda x: T.__sin(x), np.sin, AROUND_ZERO, 64),
    "__cos": (lambda x: T.__cos(x), np.cos, AROUND_ZERO, 64),
    "__tan": (lambda x: T.__tan(x), np.tan, AROUND_ZERO, 64),
}
BINARY: dict[str, tuple[Function, Function, int]] = {
    "atan2": (lambda x, y: T.atan2(x, y), np.arctan2, 4),
    "pow": (lambda x, y: T.pow(T.abs(x), y), lambda x, y: np.abs(x) ** y, 8),
    "fmod": (lambda x, y: T.fmod(x, y), np.fmod, 0),
    "hypot": (lambda x, y: T.hypot(x, y), np.hypot, 4),
    "copysign": (lambda x, y: T.copysign(x, y), np.copysign, 0),
    "nextafter": (lambda x, y: T.nextafter(x, y), np.nextafter, 0),
}


def close(program: Any, inputs: list[Any], want: Any, ulps: int) -> None:
    """As `check`, within so many units of the last place."""
    if not ulps:
        check(program, inputs, want)
        return
    for target in TARGETS:
        got = poisoned(want)
        values = [*(v.copy() for v in inputs), got]
        if target.startswith("emu"):
            found = emulate(tilebench.compile(program, target="interp"), *values, target=target).findings
            assert not found
        else:
            tilebench.compile(program, target=target)(*values)
        np.testing.assert_array_max_ulp(got, want, ulps, np.float32)


@pytest.mark.parametrize("name", [*UNARY, *FAST])
def test_functions_of_one_number(name: str) -> None:
    function, right, x, ulps = {**UNARY, **FAST}[name]

    @T.prim_func
    def program(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = function(A[i])

    close(program, [x], np.asarray(right(x.astype(np.float64))).astype(np.float32), ulps)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(name: str) -> None:
    function, right, ulps = BINARY[name]

    @T.prim_func
    def program(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                C[i] = function(A[i], B[i])

    y = AROUND_ZERO + 1.25
    exact = name in ("nextafter", "copysign")
    want = right(ANY, y) if exact else right(ANY.astype(np.float64), y.astype(np.float64))
    close(program, [ANY, y], want.astype(np.float32), ulps)


def test_parts_of_floats_and_tests_of_them() -> None:
    x = np.array([1.5, np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38, 1e-40], np.float32)

    @T.prim_func
    def program(A: T.Tensor((8,), "float32"), B: T.Tensor((3, 8), "int32"), C: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[0, i] = T.Select(T.isinf(A[i]), 1, 0)
                B[1, i] = T.Select(T.isfinite(A[i]), 1, 0)
                B[2, i] = T.cast(T.And(T.Not(T.isnan(A[i])), T.Or(A[i] > 1.0, A[i] < -1.0)), "int32")
                C[i] = T.ldexp(T.cast(i + 1, "float32"), i - 4)

    want = np.stack([np.isinf(x), np.isfinite(x), np.abs(x) > 1]).astype(np.int32)
    i = np.arange(8)
    check(program, [x], want, ((i + 1) * 2.0 ** (i - 4)).astype(np.float32))


def test_bits() -> None:
    a = np.array([0, 1, 2, 255, 2**31 - 1, -1, -(2**31), 12345], np.int32)

    @T.prim_func
    def program(A: T.Tensor((8,), "int32"), B: T.Tensor((8, 8), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[0, i] = T.bitwise_and(A[i], 60)
                B[1, i] = T.bitwise_or(A[i], 3)
                B[2, i] = T.bitwise_xor(A[i], 85)
                B[3, i] = T.bitwise_not(A[i])
                B[4, i] = T.shift_left(A[i], 3)
                B[5, i] = T.shift_right(A[i], 2)
                B[6, i] = T.clz(A[i])
                B[7, i] = T.align_up(i * 3, 8)

    clz = np.array([32 - int(v).bit_length() if v >= 0 else 0 for v in a], np.int32)
    up = (np.arange(8) * 3 + 7) // 8 * 8
    check(program, [a], np.stack([a & 60, a | 3, a ^ 85, ~a, a << 3, a >> 2, clz, up]).astype(np.int32))


def test_products_of_four_bytes() -> None:
    a, b = numbers(16, 4, dtype=np.int8), numbers(16, 4, dtype=np.int8, seed=1)

    @T.prim_func
    def program(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32"), C: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                C[i] = T.dp4a(A[i], B[i], i)

    want = (a.astype(np.int32) * b).sum(1) + np.arange(16)
    check(program, [a.view(np.int32)[:, 0].copy(), b.view(np.int32)[:, 0].copy()], want.astype(np.int32))


@pytest.mark.parametrize("threads", [32, 128])
def test_where_a_thread_is(threads: int) -> None:
    @T.prim_func
    def program(B: T.Tensor((2, 3, threads, 9), "int32")):
        with T.Kernel(3, 2, threads=threads) as (bx, by):
            t = T.get_thread_binding()
            B[by, bx, t, 0] = T.get_block_binding(0) * 10 + T.get_block_binding(1)
            B[by, bx, t, 1] = T.get_block_bindings()[1]
            B[by, bx, t, 2] = T.get_block_extent(0) * 10 + T.get_block_extents()[1]
            B[by, bx, t, 3] = T.get_thread_bindings()[0]
            B[by, bx, t, 4] = T.get_thread_extent(0) + T.get_thread_extents()[0]
            B[by, bx, t, 5] = T.get_lane_idx()
            B[by, bx, t, 6] = T.get_warp_idx()
            B[by, bx, t, 7] = T.get_warp_idx_sync()
            B[by, bx, t, 8] = T.get_warp_group_idx()

    by, bx, t = np.indices((2, 3, threads))
    rows = [bx * 10 + by, by, 0 * t + 32, t, 0 * t + 2 * threads, t % 32, t // 32, t // 32, t // 128]
    check(program, [], np.stack(rows, -1).astype(np.int32))


def test_what_the_threads_of_a_warp_say_to_each_other() -> None:
    @T.prim_func
    def program(A: T.Tensor((64,), "int32"), B: T.Tensor((14, 64), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            x = A[t]
            B[0, t] = T.shfl_down(x, 3)
            B[1, t] = T.shfl_up(x, 3)
            B[2, t] = T.shfl_sync(x, 5)
            B[3, t] = T.cast(T.any_sync(x > 2), "int32")
            B[4, t] = T.cast(T.all_sync(x > -4), "int32")
            B[5, t] = T.cast(T.ballot(x > 0), "int32")
            B[6, t] = T.cast(T.ballot_sync(x > 1), "int32")
            B[7, t] = T.cast(T.activemask(), "int32")
            B[8, t] = T.warp_reduce_sum(x)
            B[9, t] = T.warp_reduce_max(x)
            B[10, t] = T.warp_reduce_min(x)
            B[11, t] = T.warp_reduce_bitand(x) * 100 + T.warp_reduce_bitor(x)
            B[12, t] = T.cast(T.syncthreads_and(x > -4), "int32")
            B[13, t] = T.cast(T.syncthreads_or(x > 7), "int32")
            T.sync_warp()

    a = numbers(64, dtype=np.int32)
    w = a.reshape(2, 32)
    lane = np.arange(32)
    bits = (2 ** lane.astype(np.int64))[None]
    ballots = [np.repeat((bits * (w > k)).sum(1), 32).astype(np.uint32).view(np.int32) for k in (0, 1)]

    def warp(x: Any) -> Any:
        return np.repeat(x, 32)

    want = np.stack([
        w[:, np.where(lane + 3 < 32, lane + 3, lane)].reshape(-1),
        w[:, np.where(lane >= 3, lane - 3, lane)].reshape(-1),
        warp(w[:, 5]), warp((w > 2).any(1)), warp((w > -4).all(1)), ballots[0], ballots[1],
        np.full(64, -1), warp(w.sum(1)), warp(w.max(1)), warp(w.min(1)),
        warp(np.bitwise_and.reduce(w, 1) * 100 + np.bitwise_or.reduce(w, 1)), np.ones(64), np.zeros(64),
    ])  # fmt: skip
    check(program, [a], want.astype(np.int32))


@pytest.mark.parametrize(
    ("dtype", "right"),
    [
        (T.half, "float16"), (T.f16, "float16"), (T.fp16, "float16"), (T.f32, "float32"), (T.fp32, "float32"),
        (T.double, "float64"), (T.float64, "float64"), (T.int, "int32"), (T.uint, "uint32"),
        (T.short, "int16"), (T.int16, "int16"), (T.uint16, "uint16"), (T.long, "int64"),
        (T.int64, "int64"), (T.uint8, "uint8"), (T.bool, "bool"), (T.bool_, "bool"),
    ],
)  # fmt: skip
def test_other_names_of_the_element_types(dtype: Any, right: str) -> None:
    @T.prim_func
    def program(A: T.Tensor((9,), dtype), B: T.Tensor((9,), dtype)):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((9,), dtype)
            T.copy(A, x)
            T.copy(x, B)

    a = (np.arange(9) % 5).astype(right)
    check(program, [a], a)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (T.bf16, "bfloat16"), (T.e4m3, "float8_e4m3"), (T.float8_e4m3, "float8_e4m3"),
        (T.e5m2, "float8_e5m2"), (T.float8_e5m2, "float8_e5m2"), (T.tf32, "tfloat32"),
        (T.tfloat32, "tfloat32"), (T.int4, "int4"),
        (T.uint4, "uint4"),
    ],
)  # fmt: skip
def test_values_go_through_types_that_numpy_does_not_have(dtype: Any, name: str) -> None:
    """Small whole numbers are exact in all of them."""
    low = 0 if name.startswith("u") else -3

    @T.prim_func
    def program(A: T.Tensor((6,), "int32"), B: T.Tensor((6,), "int32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((6,), dtype)
            for i in T.Parallel(6):
                x[i] = T.cast(A[i], dtype)
            for i in T.Parallel(6):
                B[i] = T.cast(x[i], "int32")

    assert dtype == name
    a = np.arange(low, low + 6, dtype=np.int32)
    check(program, [a], a)


def test_spellings_of_loops_and_of_macros_parameters() -> None:
    @T.macro
    def add(
        S: T.SharedBuffer((4, 8), "int32"),
        x: T.FragmentBuffer((4, 8), "int32"),
        v: T.LocalBuffer((1,), "int32"),
    ):
        for i, j in T.Parallel(4, 8):
            x[i, j] = x[i, j] + S[i, j] + v[0]

    @T.inline
    def scaled(e: T.PrimExpr) -> Any:
        return e * 2

    @T.prim_func
    def program(A: T.Tensor((4, 8), "int32"), B: T.Tensor((4, 8), "int32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((4, 8), "int32")
            x = T.alloc_fragment((4, 8), "int32")
            v = T.alloc_local((1,), "int32")
            v[0] = 0
            for k in T.Serial(3):
                for _ in T.Unroll(2):
                    v[0] = v[0] + k
            T.annotate_layout({S: T.make_linear_layout(S)})
            T.annotate_min_blocks_per_sm(1)
            T.async_copy(A, S)
            T.copy(A, x)
            add(S, x, v)
            T.device_assert(v[0] == 6, "counted")
            for i, j in T.Parallel(4, 8):
                x[i, j] = scaled(x[i, j])
            T.copy(x, B)

    a = numbers(4, 8, dtype=np.int32)
    check(program, [a], (a * 2 + 6) * 2)


def test_warp_groups_by_their_other_name_and_dynamic_sizes_by_theirs() -> None:
    n = T.symbolic("n")

    @T.prim_func
    def program(A: T.Buffer((n,), "int32"), B: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=256):
            t = T.get_thread_binding()
            S = T.alloc_shared((256,), "int32")
            S[t] = 0
            with T.WarpSpecialize(1):
                S[t] = 5
            T.sync_threads()
            if t < n:
                B[t] = A[t] + S[t]

    a = numbers(200, dtype=np.int32)
    check(program, [a], a + np.where(np.arange(200) < 128, 0, 5).astype(np.int32))


def test_buffers_by_scope_and_reducers_step_by_step() -> None:
    @T.prim_func
    def program(A: T.Tensor((5, 24), "float32"), B: T.Tensor((5,), "float32")):
        with T.Kernel(1, threads=96):
            S = T.alloc_buffer((5, 24), "float32", scope="shared")
            r = T.alloc_reducer((5,), "float32", op="sum")
            T.copy(A, S)
            T.reducer_init(r)
            for i, j in T.Parallel(5, 24):
                T.reducer_update(r[i], S[i, j])
            T.finalize_reducer(r)
            T.copy(r, B)

    a = numbers(5, 24)
    check(program, [a], a.sum(1))


def test_a_loop_of_one_thread_over_neighbours() -> None:
    @T.prim_func
    def program(A: T.Tensor((32, 4), "float32"), B: T.Tensor((32, 4), "float32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            for j in T.Vectorized(4):
                B[t, j] = A[t, j] * 3

    a = numbers(32, 4)
    check(program, [a], a * 3)


def test_a_workspace_in_global_memory() -> None:
    @T.prim_func
    def program(A: T.Tensor((2, 32), "int32"), B: T.Tensor((2, 32), "int32")):
        with T.Kernel(2, threads=32) as b:
            W = T.alloc_global((2, 32), "int32")
            T.copy(A[b, :], W[b, :])
            T.sync_threads()
            for i in T.Parallel(32):
                B[b, i] = W[b, 31 - i]

    a = numbers(2, 32, dtype=np.int32)
    check(program, [a], a[:, ::-1].copy())


def test_options_in_the_program() -> None:
    @T.prim_func
    def program(B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            T.annotate_compile_flags(["-lineinfo"])
            T.annotate_pass_configs({tilebench.PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC: False})
            T.fill(B, 3)

    check(program, [], np.full(4, 3, np.int32))
    attributes = tilebench.compile(program, target="interp").prim.attributes
    assert attributes["pass_configs"] == {"TL_DISABLE_THREAD_STORAGE_SYNC": False}
    assert attributes["compile_flags"] == ("-lineinfo",)
