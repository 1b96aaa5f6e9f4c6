"""The real kernels, from their text, on interp: exact on small integers, else within a bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backends.running import integers, run
from tests.kernels import programs, references
from tilebench.ir.verify import verify_kernel
from tilebench.language.parse import parse_prim_func
from tilebench.passes.check import check
from tilebench.targets import parse

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(11)


def execute(program: Any, *arrays: np.ndarray) -> None:
    """Parse, verify and run with every check on."""
    kernel = parse_prim_func(program)
    verify_kernel(kernel)
    run(kernel, *arrays, check_init=True, check_races=True)


def tensor(array: np.ndarray) -> Any:
    return torch.from_numpy(array)


@pytest.mark.parametrize("transpose_A", [False, True])
@pytest.mark.parametrize("transpose_B", [False, True])
@pytest.mark.parametrize(("M", "N", "K"), [(128, 128, 64), (200, 136, 72)])
def test_gemm(M: int, N: int, K: int, transpose_A: bool, transpose_B: bool) -> None:
    a, b = (
        integers(RNG, *((K, M) if transpose_A else (M, K))),
        integers(RNG, *((N, K) if transpose_B else (K, N))),
    )
    c = np.zeros((M, N), np.float16)
    execute(programs.gemm(M, N, K, transpose_A=transpose_A, transpose_B=transpose_B), a, b, c)
    assert np.array_equal(c, references.gemm(transpose_A, transpose_B)(tensor(a), tensor(b)).numpy())


@pytest.mark.parametrize(
    ("dtype", "out", "accumulator"), [("int8", "int32", "int32"), ("float32", "float32", "float32")]
)
def test_gemm_of_other_types(dtype: str, out: str, accumulator: str) -> None:
    a, b, c = (
        integers(RNG, 100, 70, dtype=dtype),
        integers(RNG, 70, 90, dtype=dtype),
        np.zeros((100, 90), out),
    )
    execute(programs.gemm(100, 90, 70, dtype, out, accumulator), a, b, c)
    assert np.array_equal(c, references.gemm(out_dtype=out)(tensor(a), tensor(b)).numpy())


@pytest.mark.parametrize("name", ["softmax", "rms_norm"])
def test_rows(name: str) -> None:
    M, N = 37, 100
    x, w, y = (RNG.standard_normal(s).astype(np.float16) for s in ((M, N), (N,), (M, N)))
    inputs = (x,) if name == "softmax" else (x, w)
    execute(getattr(programs, name)(M, N), *inputs, y)
    expected = getattr(references, name)(*map(tensor, inputs)).numpy()
    # float32 inside on both sides: the float16 results are equal or neighbours
    assert (
        np.max(np.abs(y.astype(np.float32) - expected) / np.spacing(np.abs(expected)).astype(np.float32)) <= 1
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("queries", "keys", "dim", "groups"), [(128, 128, 64, 2), (100, 150, 80, 1), (70, 70, 96, 2)]
)
def test_attention(queries: int, keys: int, dim: int, groups: int, causal: bool) -> None:
    q = RNG.standard_normal((1, 2, queries, dim)).astype(np.float16)
    k, v = (RNG.standard_normal((1, groups, keys, dim)).astype(np.float16) for _ in range(2))
    o = np.zeros_like(q)
    program = programs.attention(1, 2, queries, keys, dim, causal, groups, block_M=64, block_N=32)
    execute(program, q, k, v, o)
    expected = references.attention(causal)(*map(tensor, (q, k, v))).numpy()
    # p is rounded to float16, and the result once more
    assert np.max(np.abs(o.astype(np.float32) - expected)) <= 3 * 2.0**-11 * np.abs(v).max()


def test_mlp() -> None:
    M, N, K = 140, 150, 48
    x, w, bias = (RNG.standard_normal(s).astype(np.float16) for s in ((M, K), (K, N), (N,)))
    y = np.zeros((M, N), np.float16)
    execute(programs.mlp(M, N, K), x, w, bias, y)
    expected = references.mlp(*map(tensor, (x, w, bias))).numpy().astype(np.float32)
    # sums of 48 products of size below 16 in float32, then one rounding to float16
    assert np.all(np.abs(y - expected) <= 48 * 2.0**-24 * 48 * 16 + 2.0**-10 * np.abs(expected))


def test_transpose() -> None:
    x, y = RNG.standard_normal((100, 70)).astype(np.float16), np.zeros((70, 100), np.float16)
    execute(programs.transpose(100, 70), x, y)
    assert np.array_equal(y, x.T)


def test_histogram() -> None:
    x, h = RNG.integers(0, 64, 5000).astype(np.int32), np.zeros(64, np.int32)
    execute(programs.histogram(5000, 64), x, h)
    assert np.array_equal(h, np.bincount(x, minlength=64))


@pytest.mark.parametrize(
    "program", [programs.softmax(8, 64), programs.gemm(64, 64, 64), programs.attention(1, 1, 64, 64, 64)]
)
def test_nothing_of_a_tile_program_is_per_thread(program: Any) -> None:
    assert check(parse_prim_func(program), parse("interp")).per_thread == frozenset()
