"""Every example of every op: `run` and the interpretation of `expand` give the same values, and `cost` counts
something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.backends.running import run
from tilebench.ir.dtype import DType, decode, encode
from tilebench.ir.expr import Var
from tilebench.ir.rewrite import transform, walk
from tilebench.ir.simplify import bounds
from tilebench.ir.tile import Buffer, Kernel
from tilebench.ops import OPS, Op

EXAMPLES = [
    pytest.param(example, id=f"{name}-{example.__name__}")
    for name, op in OPS.items()
    for example in op.examples
]
SYMBOL = 53


def expanded(kernel: Kernel) -> Kernel:
    """The kernel with every op as plain loops."""
    import dataclasses

    body = transform(kernel.body, lambda n: n.expand() if isinstance(n, Op) else None)
    assert not any(isinstance(n, Op) for n in walk(body))
    return dataclasses.replace(kernel, body=body)


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    ranges = {s: (SYMBOL, SYMBOL) for s in buffer.shape if isinstance(s, Var)}
    sizes = [bounds(s, ranges) for s in buffer.shape]
    return tuple(s[0] for s in sizes if s is not None)


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, exact: bool) -> np.ndarray:
    """Storage form: small integers, on which every op is exact, or normal numbers."""
    if dtype.is_float and not exact:
        return encode(rng.standard_normal(shape).astype(np.float32), dtype)
    numbers = rng.integers(1, 4, shape) * (rng.choice([-1, 1], shape) if dtype.kind != "uint" else 1)
    return encode(numbers.astype(dtype.compute_dtype), dtype)


def arguments(kernel: Kernel, seed: int, exact: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    out: list[np.ndarray] = []
    for param in kernel.params:
        assert isinstance(param.value, Buffer)
        out.append(values(rng, shape_of(param.value), param.value.dtype, exact))
    return out


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("exact", [True, False], ids=["integers", "normal"])
def test_run_equals_the_interpretation_of_expand(example: Callable[[], Kernel], exact: bool) -> None:
    kernel = example()
    one, two = arguments(kernel, 1, exact), arguments(kernel, 1, exact)
    run(kernel, *one, check_init=True)
    run(expanded(kernel), *two, check_init=True)
    changed = False
    fresh = arguments(kernel, 1, exact)
    for param, a, b, before in zip(kernel.params, one, two, fresh, strict=True):
        assert isinstance(param.value, Buffer)
        dtype = param.value.dtype
        x, y = decode(a, dtype).astype(np.float64), decode(b, dtype).astype(np.float64)
        finite = np.where(np.isfinite(x), x, 0), np.where(np.isfinite(y), y, 0)
        if exact or not dtype.is_float:
            assert np.array_equal(a, b, equal_nan=dtype.is_float and a.dtype.kind == "f")
        else:
            # the longest fold has 100 terms of at most 4.5 * 4.5: gamma_100 * sum|a||b|, then rounding
            bound = 100 * 2.0**-24 * 100 * 4.5**2 + 2 * dtype.unit_roundoff * np.abs(finite[0])
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            assert np.all(same | (np.isfinite(x) & np.isfinite(y) & (np.abs(finite[0] - finite[1]) <= bound)))
        if param.role != "in":
            changed = changed or not np.array_equal(a, before)
    assert changed


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_op_has_a_cost(example: Callable[[], Kernel]) -> None:
    for node in walk(example().body):
        if isinstance(node, Op):
            cost = node.cost()
            assert sum(cost.written.values()) > 0
            assert cost.flops >= 0


def test_every_op_has_examples() -> None:
    assert {name for name, op in OPS.items() if not op.examples} == set()


def test_outputs_are_fully_written() -> None:
    """A copy with tails writes every element of its output: no NaN of the start remains."""
    kernel = OPS["copy"].examples[0]()
    a, b = arguments(kernel, 2, True)
    b[...] = np.nan
    run(kernel, a, b)
    assert np.array_equal(a, b)


def _reference(kind: str, x: np.ndarray, axis: int) -> Any:
    return {"sum": np.sum, "max": np.max, "min": np.min}[kind](x, axis=axis)


@pytest.mark.parametrize("index", range(6))
def test_reductions_equal_numpy(index: int) -> None:
    kernel = OPS["reduce"].examples[index]()
    op = next(n for n in walk(kernel.body) if n.__class__.__name__ == "Reduce")
    a, b = arguments(kernel, 3, True)
    run(kernel, a, b)
    start = 0 if op.clear else 3
    expected = _reference(op.kind, a.astype(np.float64), op.dim) + (start if op.kind == "sum" else 0)
    assert np.array_equal(b.astype(np.float64), expected)
