"""Whole warp-specialised programs: values, silence and the same result in every order, and what they cost."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.backends import hopper_programs
from tests.emulator.build import zeros
from tests.emulator.hopper_kernels import attention, gemm
from tilebench.backends.emulator import run_program
from tilebench.backends.emulator.compile import compile_program
from tilebench.ir.dtype import as_dtype, decode, encode

ORDERS = ["forward", "reverse", 1, 2, 3]


def random(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return encode(values.astype(as_dtype(dtype).compute_dtype), as_dtype(dtype))


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("rank", [2, 3])
def test_copies_of_clipped_tensors(rank: int, swizzle: int) -> None:
    program = hopper_programs.copy(rank, swizzle)
    shape = (2, 100, 136)[3 - rank :]
    x = random(shape, "float16")
    for order in ORDERS:
        y = np.zeros_like(x)
        result = run_program(program, [x, y], dict(zip(program.symbols, shape, strict=True)), schedule=order)
        assert result.findings == ()
        assert (y == 2 * x).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 320), (100, 136, 72), (64, 8, 8)])
def test_a_gemm_with_tails(dtype: str, m: int, n: int, k: int) -> None:
    kind = as_dtype(dtype)
    program = hopper_programs.gemm(kind)
    a, b = random((m, k), dtype), random((n, k), dtype, 1)
    x, y = (decode(v, kind).astype(np.float64) for v in (a, b))
    results: list[np.ndarray] = []
    for order in ORDERS:
        c = zeros(m * n, dtype).reshape(m, n)
        result = run_program(
            program, [a, b, c], dict(zip(program.symbols, (m, n, k), strict=True)), schedule=order
        )
        assert result.findings == ()
        results.append(c)
        # float32 sums of k products, then one rounding
        bound = np.abs(x) @ np.abs(y).T * k * 2.0**-24 + np.abs(x @ y.T) * kind.unit_roundoff * 1.01
        assert (np.abs(decode(c, kind).astype(np.float64) - x @ y.T) <= bound + 1e-7).all()
    assert all((c == results[0]).all() for c in results)


@pytest.mark.parametrize("deferred", [False, True])
def test_a_wide_gemm_in_every_order(deferred: bool) -> None:
    build = gemm(512, deferred=deferred)
    a, b = random((128, 512), "bfloat16"), random((256, 512), "bfloat16", 1)
    x, y = (decode(v, as_dtype("bfloat16")).astype(np.float64) for v in (a, b))
    for order in ORDERS:
        c = zeros(128 * 256, "float32")
        result = build.run(a.reshape(-1), b.reshape(-1), c, schedule=order)
        assert result.findings == ()
        assert np.abs(c.reshape(128, 256) - x @ y.T).max() <= 512 * 2.0**-24 * (np.abs(x) @ np.abs(y).T).max()


def test_attention_in_every_order() -> None:
    build = attention(3)
    q, k, v = (random((n, 128), "float16", i) for i, n in enumerate((128, 384, 384)))
    q = (q * 0.2).astype(np.float16)
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    p = np.exp2(scores - scores.max(axis=1, keepdims=True))
    expected = p @ v.astype(np.float64) / p.sum(axis=1, keepdims=True)
    for order in ORDERS:
        o = zeros(128 * 128, "float16")
        result = build.run(q.reshape(-1), k.reshape(-1), v.reshape(-1), o, schedule=order)
        assert result.findings == ()
        # P and O are rounded to float16: 2 * 2^-11 of values up to max |v|
        assert np.abs(o.reshape(128, 128) - expected).max() <= 2.5 * 2.0**-11 * np.abs(v).max()


def test_what_a_block_costs() -> None:
    """Bars: a GEMM block of K = 1024 in 0.3 s, an attention block of 8 steps in 0.5 s, with all checks on."""
    cases = {
        "gemm block 128x256, K=1024": (gemm(1024), [128 * 1024, 256 * 1024, -(128 * 256)], 300),
        "attention block, 8 steps of 128": (
            attention(8),
            [128 * 128, 1024 * 128, 1024 * 128, -(128 * 128)],
            500,
        ),
    }
    for name, (build, sizes, bar) in cases.items():
        program = build.program()
        start = time.perf_counter()
        compiled = [compile_program(program, checks) for checks in (True, False)]
        made = (time.perf_counter() - start) / 2
        arrays = [zeros(abs(n), p.value.dtype.name) for n, p in zip(sizes, program.params, strict=True)]
        times: list[float] = []
        for checks, code in zip((True, False), compiled, strict=True):
            best = 9.9
            for _ in range(3):
                start = time.perf_counter()
                assert run_program(program, arrays, {}, checks=checks, compiled=code).first_error is None
                best = min(best, time.perf_counter() - start)
            times.append(best)
        print(
            f"\n{name}: {times[0] * 1e3:.0f} ms with all checks, {times[1] * 1e3:.0f} ms without (bar {bar}); "
            f"translated in {made * 1e3:.0f} ms"
        )
        assert times[0] * 1e3 < bar * 4, "four times the bar: something is broken, not merely busy"
