"""Negative // and %, wrap-around, shifts, and indices made with them, for every integer type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilebench.language as T
from tests.traps.running import Array, check

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]


def edges(dtype: str) -> Array:
    info = np.iinfo(dtype)
    near = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2, info.max // 3, info.min // 3]
    small = [v for v in range(-9, 10) if v >= info.min]
    return np.array([v for v in [*near, *small] if info.min <= v <= info.max], dtype)


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
def test_arithmetic_wraps(dtype: str) -> None:
    values = edges(dtype)
    a, b = (x.reshape(-1).copy() for x in np.meshgrid(values, values))
    n = len(a)

    @T.prim_func
    def wraps(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((6, n), dtype)):
        with T.Kernel(1, threads=96):
            x = T.alloc_fragment((n,), dtype)
            y = T.alloc_fragment((n,), dtype)
            T.copy(A, x)
            T.copy(B, y)
            for i in T.Parallel(n):
                C[0, i] = x[i] + y[i]
                C[1, i] = x[i] - y[i]
                C[2, i] = x[i] * y[i]
                C[3, i] = -x[i]
                C[4, i] = T.max(x[i] + y[i], y[i])
                C[5, i] = (x[i] + y[i]) * T.cast(2, dtype)

    with np.errstate(over="ignore"):
        s = (a + b).astype(dtype)
        want = np.stack(
            [s, a - b, a * b, (0 - a.astype(dtype)).astype(dtype), np.maximum(s, b), s + s]
        ).astype(dtype)
    check(wraps, [a, b], want)


@pytest.mark.parametrize("dtype", SIGNED)
def test_division_of_negative_numbers(dtype: str) -> None:
    """// and % are Python's; truncdiv and truncmod are C's."""
    values = edges(dtype)
    a, b = (x.reshape(-1) for x in np.meshgrid(values, values))
    fine = (b != 0) & ~((a == np.iinfo(dtype).min) & (b == -1))
    a, b = a[fine].copy(), b[fine].copy()
    n = len(a)

    @T.prim_func
    def divides(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((6, n), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(n):
                C[0, i] = A[i] // B[i]
                C[1, i] = A[i] % B[i]
                C[2, i] = T.truncdiv(A[i], B[i])
                C[3, i] = T.truncmod(A[i], B[i])
                C[4, i] = T.floordiv(A[i], B[i])
                C[5, i] = T.floormod(A[i], B[i])

    def toward_zero(x: int, y: int) -> int:
        q = abs(x) // abs(y)
        return q if (x < 0) == (y < 0) else -q

    q = np.array([toward_zero(int(x), int(y)) for x, y in zip(a, b, strict=True)], dtype)
    r = np.array([int(x) - toward_zero(int(x), int(y)) * int(y) for x, y in zip(a, b, strict=True)], dtype)
    check(divides, [a, b], np.stack([a // b, a % b, q, r, a // b, a % b]))


@pytest.mark.parametrize("by", [512, 7, 3, 1, -1, -4, -5])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_division_by_a_constant(by: int, dtype: str) -> None:
    if dtype == "int8" and by == 512:
        by = 64
    values = edges(dtype)
    values = values[values != np.iinfo(dtype).min].copy()
    n = len(values)

    @T.prim_func
    def divides(A: T.Tensor((n,), dtype), C: T.Tensor((4, n), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                C[0, i] = A[i] // by
                C[1, i] = A[i] % by
                C[2, i] = T.truncdiv(A[i], T.cast(by, dtype))
                C[3, i] = T.truncmod(A[i], T.cast(by, dtype))

    quotient = np.array(
        [int(abs(int(v)) // abs(by)) * (1 if (v < 0) == (by < 0) else -1) for v in values], dtype
    )
    rest = np.array([int(v) - int(q) * by for v, q in zip(values, quotient, strict=True)], dtype)
    check(divides, [values], np.stack([values // by, values % by, quotient, rest]).astype(dtype))


def test_indices_made_of_negative_numbers() -> None:
    """i - 17 is negative for the first ones: // and % give rows and columns all the same."""

    @T.prim_func
    def places(A: T.Tensor((8, 12), "int32"), C: T.Tensor((40,), "int32")):
        with T.Kernel(1, threads=33):
            S = T.alloc_shared((8, 12), "int32")
            x = T.alloc_fragment((40,), "int32")
            T.copy(A, S)
            for i in T.Parallel(40):
                x[i] = S[(i - 17) // 12 + 2, (i - 17) % 12] * 10 + (i - 17) // -5 + (i - 17) % -5
            T.copy(x, C)

    a = np.arange(96, dtype=np.int32).reshape(8, 12)
    i = np.arange(40, dtype=np.int32) - 17
    check(places, [a], (a[i // 12 + 2, i % 12] * 10 + i // -5 + i % -5).astype(np.int32))


@pytest.mark.parametrize("block", [-3, -1, 0, 2])
def test_scalars_divided_at_run_time(block: int) -> None:
    @T.prim_func
    def divides(C: T.Tensor((4, 4), "int32"), n: T.int32):
        with T.Kernel(4, threads=32) as b:
            C[b, 0] = (n + b) // 4
            C[b, 1] = (n + b) % 4
            C[b, 2] = (n - b) // -3
            C[b, 3] = (n - b) % -3

    b = np.arange(4)
    n = block * 5 + 1
    want = np.stack([(n + b) // 4, (n + b) % 4, (n - b) // -3, (n - b) % -3], 1).astype(np.int32)
    check(divides, [], want, numbers=[n])


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "uint32"])
def test_shifts_and_bits(dtype: str) -> None:
    values = edges(dtype)
    n, bits = len(values), np.iinfo(dtype).bits

    @T.prim_func
    def shifts(A: T.Tensor((n,), dtype), C: T.Tensor((6, n), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                C[0, i] = A[i] >> T.cast(3, dtype)
                C[1, i] = A[i] << T.cast(bits - 1, dtype)
                C[2, i] = ~A[i]
                C[3, i] = A[i] ^ T.cast(85, dtype)
                C[4, i] = A[i] & T.cast(60, dtype)
                C[5, i] = A[i] | T.cast(3, dtype)

    c = values
    want = np.stack([c >> 3, c << np.array(bits - 1, dtype), ~c, c ^ 85, c & 60, c | 3]).astype(dtype)
    check(shifts, [values], want)


@pytest.mark.parametrize(
    ("wide", "narrow"), [("int32", "int8"), ("int64", "int16"), ("uint32", "uint8"), ("int32", "uint16")]
)
def test_casts_to_narrower_integers_wrap(wide: str, narrow: str) -> None:
    values = edges(wide)
    n = len(values)

    @T.prim_func
    def casts(A: T.Tensor((n,), wide), B: T.Tensor((n,), narrow), C: T.Tensor((n,), wide)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = T.cast(A[i], narrow)
                C[i] = T.cast(T.cast(A[i], narrow), wide)

    with np.errstate(over="ignore"):
        low = values.astype(narrow)
    check(casts, [values], low, low.astype(wide))


def test_sums_and_scans_wrap() -> None:
    @T.prim_func
    def total(A: T.Tensor((3, 37), "int32"), s: T.Tensor((3,), "int32"), C: T.Tensor((3, 37), "int32")):
        with T.Kernel(1, threads=96):
            X = T.alloc_fragment((3, 37), "int32")
            r = T.alloc_fragment((3,), "int32")
            T.copy(A, X)
            T.reduce_sum(X, r, dim=1)
            T.copy(r, s)
            T.cumsum(X, dim=1)
            T.copy(X, C)

    a = np.random.default_rng(0).integers(2**29, 2**31, (3, 37)).astype(np.int32)
    check(total, [a], a.sum(1, dtype=np.int32), np.cumsum(a, 1, dtype=np.int32))


def test_comparisons_know_signed_from_unsigned() -> None:
    @T.prim_func
    def compares(A: T.Tensor((9,), "uint32"), B: T.Tensor((9,), "int32"), C: T.Tensor((4, 9), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(9):
                C[0, i] = T.if_then_else(A[i] < T.cast(5, "uint32"), 1, 0)
                C[1, i] = T.if_then_else(B[i] < 5, 1, 0)
                C[2, i] = T.cast(A[i] // T.cast(2, "uint32") > T.cast(100, "uint32"), "int32")
                C[3, i] = T.cast(B[i] // 2 > 100, "int32")

    b = np.array([-1, 0, 4, 5, 2**31 - 1, -(2**31), 200, 201, -7], np.int32)
    a = b.view(np.uint32)
    want: Any = np.stack([a < 5, b < 5, a // 2 > 100, b // 2 > 100]).astype(np.int32)
    check(compares, [a, b], want)
