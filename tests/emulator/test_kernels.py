"""Whole kernels: values, schedules, and how long a block takes (in seconds of the processor)."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pytest

from tests.emulator.build import zeros
from tests.emulator.kernels import attention, gemm
from tilebench.backends.emulator.compile import compile_program
from tilebench.backends.emulator.schedule import run_program


def integers(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float16)


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("schedule", ["forward", "reverse", 5])
def test_gemm_is_exact_on_small_integers(stages: int, schedule: object) -> None:
    k = 160
    b = gemm(k, stages, (2, 2))
    x, y, c = integers((256, k), 1), integers((k, 256), 2), np.zeros((256, 256), np.float16)
    result = b.run(x, y, c, schedule=schedule)
    assert result.findings == ()
    assert (c == (x.astype(np.float32) @ y.astype(np.float32)).astype(np.float16)).all()
    assert result.counts.instructions["mma.m16n8k16"] == 4 * (256 * 128 * k // (16 * 8 * 16) // 2)


def attention_reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = q.astype(float) @ k.astype(float).T
    e = 2.0 ** (s - s.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True) @ v.astype(float)


def test_attention_agrees_with_float64() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((n, 64)).astype(np.float16) for n in (128, 256, 256))
    out = np.zeros((128, 64), np.float32)
    assert attention(4).run(q, k, v, out).findings == ()
    # p is rounded to float16 (2**-11) before the second product; s has an error of 64 * 2**-24 * |q||k|
    assert np.abs(out - attention_reference(q, k, v)).max() < 2.0**-10 * np.abs(v).max()


def test_gemm_in_the_wrong_order_of_stages_gives_wrong_values() -> None:
    x, y, c = integers((128, 128), 1), integers((128, 128), 2), np.zeros((128, 128), np.float16)
    gemm(128, wait=False).run(x, y, c)
    assert (c != (x.astype(np.float32) @ y.astype(np.float32)).astype(np.float16)).any(), (
        "a copy lands when it is waited for"
    )


def best(run: object, times: int = 3) -> float:
    seconds: list[float] = []
    for _ in range(times):
        start = time.process_time()
        run()  # type: ignore[operator]
        seconds.append(time.process_time() - start)
    return min(seconds)


def test_blocks_are_quick(capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    ratios: list[float] = []
    x, y, c = integers((128, 1024), 1), integers((1024, 128), 2), zeros(128 * 128, "float16")
    q, k, v, o = (
        integers((128, 64), 3),
        integers((512, 64), 4),
        integers((512, 64), 5),
        zeros(128 * 64, "float32"),
    )
    for name, b, arguments, bar in (
        ("gemm block 128x128, K=1024", gemm(1024), (x, y, c), 0.3),
        ("attention block, 8 steps", attention(8), (q, k, v, o), 0.5),
    ):
        program = b.program()
        start = time.process_time()
        compiled = compile_program(program, True)
        translated = time.process_time() - start
        seconds = best(partial(run_program, program, arguments, {}, compiled=compiled))
        plain = compile_program(program, False)
        bare = best(partial(run_program, program, arguments, {}, checks=False, compiled=plain))
        lines.append(
            f"{name}: {seconds * 1000:.0f} ms with all checks, {bare * 1000:.0f} ms without "
            f"(bar {bar * 1000:.0f}); translated in {translated * 1000:.0f} ms"
        )
        ratios.append(seconds / bare)
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    assert max(ratios) < 6, "checks cost more than the values"
