"""The oracle against interp: every op's example within the bound, small integers bit for bit, and planted
errors found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.backends.running import run
from tests.ops.test_examples import EXAMPLES, SYMBOL, arguments
from tilebench.backends.base import TensorArgument
from tilebench.ir.dtype import decode
from tilebench.ir.expr import Var
from tilebench.ir.simplify import bounds
from tilebench.ir.tile import Buffer, Kernel
from tilebench.oracle import OracleResult, evaluate
from tilebench.oracle.value import gamma
from tilebench.passes.check import check
from tilebench.targets import parse


def oracle(kernel: Kernel, values: list[np.ndarray]) -> dict[str, OracleResult]:
    kernel = check(kernel, parse("interp")).kernel
    wrapped = [TensorArgument(0, v.shape, tuple(s // v.itemsize for s in v.strides), v) for v in values]
    symbols = {
        s: SYMBOL
        for p in kernel.params
        if isinstance(p.value, Buffer)
        for s in p.value.shape
        if isinstance(s, Var)
    }
    ranges = {v: (n, n) for v, n in symbols.items()}
    grid = tuple(b[0] for e in kernel.grid if (b := bounds(e, ranges)) is not None)
    return evaluate(kernel, wrapped, symbols, grid)


def wrong(got: np.ndarray, result: OracleResult) -> np.ndarray:
    a, b = got.astype(np.float64), result.value.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        return ~same & ~(np.abs(a - b) <= result.bound) & result.covered & ~result.ambiguous


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("exact", [True, False], ids=["integers", "normal"])
def test_interp_is_within_the_bound(example: Callable[[], Kernel], exact: bool) -> None:
    kernel = example()
    values = arguments(kernel, 7, exact)
    expected = oracle(kernel, [v.copy() for v in values])
    run(kernel, *values)
    assert expected, "the kernel writes something"
    for param, value in zip(kernel.params, values, strict=True):
        if param.name in expected:
            assert isinstance(param.value, Buffer)
            result = expected[param.name]
            assert result.covered.any()
            got = decode(value, param.value.dtype)
            assert not wrong(got, result).any()
            assert (result.ambiguous & result.covered).mean() < 0.01
            if exact and param.value.dtype.is_int:
                assert not result.bound.any()


@pytest.mark.parametrize("example", [e for e in EXAMPLES if "gemm" in str(e.id)])
def test_small_integers_leave_no_room(example: Callable[[], Kernel]) -> None:
    kernel = example()
    values = arguments(kernel, 3, True)
    for result in oracle(kernel, values).values():
        assert not result.bound[result.covered].any()


def test_gamma_grows_with_the_length_and_ends_in_infinity() -> None:
    assert gamma(100, 2.0**-24) == pytest.approx(100 * 2.0**-24, rel=1e-4)
    assert gamma(1 << 11, 2.0**-11) == np.inf


def test_a_dropped_term_is_found() -> None:
    example: Any = next(e for e in EXAMPLES if "gemm" in str(e.id)).values[0]
    kernel = example()
    values = arguments(kernel, 5, True)
    expected = oracle(kernel, [v.copy() for v in values])
    first = values[0]
    first[..., -1] = 0
    run(kernel, *values)
    for param, value in zip(kernel.params, values, strict=True):
        if param.name in expected:
            assert isinstance(param.value, Buffer)
            assert wrong(decode(value, param.value.dtype), expected[param.name]).mean() > 0.5
