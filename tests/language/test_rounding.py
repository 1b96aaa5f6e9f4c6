"""T.ieee_*: the four roundings against exact fractions, on the interpreter and the CPU."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench.errors import TypeTileError

COUNT = 256
OPS = {
    "add": (T.ieee_add, lambda a, b, c: a + b),
    "sub": (T.ieee_sub, lambda a, b, c: a - b),
    "mul": (T.ieee_mul, lambda a, b, c: a * b),
    "fdiv": (T.ieee_fdiv, lambda a, b, c: a / b),
    "fmaf": (T.ieee_fmaf, lambda a, b, c: a * b + c),
}


def directed(exact: Fraction, near: Any, mode: str) -> Any:
    """The value of near's type that `exact` rounds to; near is one of its two neighbours, or exact."""
    kind = type(near)
    low = near if Fraction(float(near)) <= exact else np.nextafter(near, kind(-math.inf))
    high = near if Fraction(float(near)) >= exact else np.nextafter(near, kind(math.inf))
    return {"ru": high, "rd": low, "rz": low if exact > 0 else high}[mode]


def values(dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    spread = rng.integers(-12, 12, (3, COUNT)).astype(np.float64)
    return [(rng.standard_normal(COUNT) * 2.0**e).astype(dtype) for e in spread]


def run(op: Any, mode: str, dtype: str, target: str, given: list[np.ndarray]) -> np.ndarray:
    count = len(given[0])

    @tilebench.jit(target=target)
    def factory(mode: str) -> Any:
        @T.prim_func
        def kernel(
            A: T.Tensor((count,), dtype), B: T.Tensor((count,), dtype),
            C: T.Tensor((count,), dtype), D: T.Tensor((count,), dtype),
        ):  # fmt: skip
            with T.Kernel(1, threads=64):
                for i in T.Parallel(count):
                    if op is T.ieee_fmaf:
                        D[i] = op(A[i], B[i], C[i], mode)
                    else:
                        D[i] = op(A[i], B[i], mode)

        return kernel

    out = np.empty(count, dtype)
    factory(mode)(*given, out)
    return out


@pytest.mark.parametrize("target", ["interp", "cpu"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPS)
def test_directed_results_are_those_of_exact_arithmetic(name: str, dtype: str, target: str) -> None:
    op, exactly = OPS[name]
    given = values(dtype)
    for mode in ("rz", "ru", "rd"):
        got = run(op, mode, dtype, target, given)
        for i in range(COUNT):
            exact = exactly(*(Fraction(float(x[i])) for x in given))
            near = (
                got.dtype.type(float(exact))
                if dtype == "float64"
                else got.dtype.type(np.float64(float(exact)))
            )
            assert got[i] == directed(exact, near, mode), (mode, [x[i] for x in given])


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_overflow_and_poles(target: str) -> None:
    big, zero = np.array([3e38, -3e38, 1.0, 5.0], "float32"), np.array([3e38, 3e38, 0.0, -5.0], "float32")
    largest = np.finfo(np.float32).max
    assert run(T.ieee_mul, "rz", "float32", target, [big, zero, zero]).tolist()[:2] == [largest, -largest]
    assert run(T.ieee_mul, "ru", "float32", target, [big, zero, zero]).tolist()[:2] == [math.inf, -largest]
    assert run(T.ieee_fdiv, "rz", "float32", target, [big, zero, zero])[2] == math.inf
    down = run(T.ieee_add, "rd", "float32", target, [big, zero, zero])
    assert down[3] == 0
    assert math.copysign(1, down[3]) == -1


def test_root_is_bracketed() -> None:
    given = [np.abs(x) for x in values("float32")]

    def kernel_of(mode: str) -> np.ndarray:
        @T.prim_func
        def kernel(A: T.Tensor((COUNT,), "float32"), B: T.Tensor((COUNT,), "float32")):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(COUNT):
                    B[i] = T.ieee_fsqrt(A[i], mode)

        out = np.empty(COUNT, "float32")
        tilebench.compile(kernel, target="cpu")(given[0], out)
        return out

    low, high = kernel_of("rd").astype(float), kernel_of("ru").astype(float)
    for x, a, b in zip(given[0].astype(float), low, high, strict=True):
        assert Fraction(a) ** 2 <= Fraction(x) <= Fraction(b) ** 2
    assert (kernel_of("rz") == low.astype("float32")).all()


def test_refusals_say_which_rounding() -> None:
    with pytest.raises(ValueError, match="odd"):
        T.ieee_add(1.0, 2.0, "odd")
    with pytest.raises(TypeTileError, match="half precision"):
        T.ieee_add(T.float16(1.0), T.float16(2.0), "rz")
