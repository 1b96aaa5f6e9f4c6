"""What is said of a candidate whose values are wrong."""

from __future__ import annotations

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench.tuning.bench import Rule, judge


@T.prim_func
def copied(X: T.Tensor((8,), "float32"), Y: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            Y[i] = X[i]


@T.prim_func
def halved(X: T.Tensor((8,), "float32"), Y: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            Y[i] = X[i] / 3


@pytest.mark.parametrize(
    ("program", "changed", "said"),
    [
        (copied, {3: 0.5}, "wrong result: 1 of 8 elements of Y are off, the largest error is 3.5"),
        (
            copied,
            {3: np.nan, 5: np.inf},
            "wrong result: 2 of 8 elements of Y are off, 2 of them NaN or infinite on one side",
        ),
        (
            copied,
            {3: np.nan, 5: 7.0},
            "wrong result: 2 of 8 elements of Y are off, 1 of them NaN or infinite on one side, the largest "
            "error is 1",
        ),
    ],
)
def test_a_wrong_value_is_told_in_numbers_that_there_are(
    program: object, changed: dict[int, float], said: str
) -> None:
    kernel = tilebench.compile(program, target="interp")
    before = np.arange(1, 9, dtype=np.float32), np.zeros(8, np.float32)
    after = before[0].copy()
    for i, value in changed.items():
        after[i] = value
    assert judge(kernel, before, (before[0], after), None, Rule()) == said


def test_a_wrong_value_beside_a_bound_is_told_in_bounds() -> None:
    kernel = tilebench.compile(halved, target="interp")
    x = np.arange(1, 9, dtype=np.float32)
    y = x / np.float32(3)
    y[1] += 0.01
    told = judge(kernel, (x, np.zeros_like(x)), (x, y), None, Rule())
    assert told.startswith("wrong result: 1 of 8 elements of Y are off, the worst by ")
    assert told.endswith(" times the oracle's bound")
    assert "e+30" not in told
