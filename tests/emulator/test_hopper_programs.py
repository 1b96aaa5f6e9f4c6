"""Whole warp-specialised programs: values, silence and the same result in every order, and what they cost."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.backends import hopper_programs
from tests.emulator.build import zeros
from tests.emulator.hopper_build import HopperBuild
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


def test_phases_that_registers_carry_across_tiles() -> None:
    """A persistent block: stage and parity are registers, a tile has three steps, a ring two stages."""
    h = HopperBuild(256)
    a, c = h.tensor("A", 15 * 128, "int32"), h.tensor("C", 5 * 128, "int32", "out")
    full, empty = h.barriers("full", 2), h.barriers("empty", 2)
    s, tensor = h.tile("s", 256, "int32"), h.map(a, (128, 15), (128, 1))
    stage, parity, total = (
        h.regs("stage", 1, "int32"),
        h.regs("parity", 1, "int32"),
        h.regs("total", 1, "int32"),
    )
    h.ready((full, 2, 1), (empty, 2, 128))
    h.end_prologue()

    def advance() -> None:
        h.store(parity, 0, h.load(parity, 0) ^ h.load(stage, 0))
        h.store(stage, 0, 1 - h.load(stage, 0))

    with h.first():
        h.store(stage, 0, 0)
        h.store(parity, 0, 1)
        with h.loop(5) as tile, h.loop(3) as k:
            h.await_(empty, h.load(parity, 0), h.load(stage, 0))
            h.expect(full, 512, h.load(stage, 0))
            h.bulk_load(s, h.load(stage, 0) * 128, tensor, (0, tile * 3 + k), full, h.load(stage, 0))
            advance()
    h.end_role("producer", 0, 128)
    h.store(stage, 0, 0)
    h.store(parity, 0, 0)
    with h.loop(5) as tile:
        h.store(total, 0, 0)
        with h.loop(3):
            h.await_(full, h.load(parity, 0), h.load(stage, 0))
            h.store(total, 0, h.load(total, 0) + h.load(s, h.load(stage, 0) * 128 + (255 - h.tx)))
            h.fence_proxy()
            h.arrive(empty, h.load(stage, 0))
            advance()
        h.store(c, tile * 128 + (255 - h.tx), h.load(total, 0))
    h.end_role("consumer", 128, 128)
    x = np.arange(15 * 128, dtype=np.int32)
    for order in ORDERS:
        y = zeros(5 * 128, "int32")
        assert h.run(x, y, schedule=order).findings == ()
        assert (y.reshape(5, 128) == x.reshape(5, 3, 128).sum(axis=1)).all()


def test_what_a_block_costs() -> None:
    """Bars: a GEMM block of K = 1024 in 0.3 s, an attention block of 8 steps in 0.5 s, with all checks on."""
    cases = {
        "gemm block 128x256, K=1024": (gemm(1024), [128 * 1024, 256 * 1024, -(128 * 256)], 300),
        "attention block, 8 steps": (
            attention(8),
            [128 * 128, 1024 * 128, 1024 * 128, -(128 * 128)],
            500,
        ),
    }
    for name, (build, sizes, bar) in cases.items():
        program = build.program()
        start = time.process_time()
        compiled = [compile_program(program, checks) for checks in (True, False)]
        made = (time.process_time() - start) / 2
        arrays = [zeros(abs(n), p.value.dtype.name) for n, p in zip(sizes, program.params, strict=True)]
        times: list[float] = []
        for checks, code in zip((True, False), compiled, strict=True):
            best = 9.9
            for _ in range(3):
                start = time.process_time()
                assert run_program(program, arrays, {}, checks=checks, compiled=code).first_error is None
                best = min(best, time.process_time() - start)
            times.append(best)
        print(
            f"\n{name}: {times[0] * 1e3:.0f} CPU ms checked, {times[1] * 1e3:.0f} without (bar {bar}); "
            f"translated in {made * 1e3:.0f}"
        )
        assert times[0] * 1e3 < bar * 2, "twice the bar: something is broken, not merely busy"
