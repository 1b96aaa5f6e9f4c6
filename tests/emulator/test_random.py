"""Random programs: the emulator agrees bit for bit with a scalar reference that shares no code with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulator.programs import RandomProgram, scalars
from tests.emulator.reference import run_reference
from tilebench.backends.emulator.schedule import run_program


def compare(seed: int, n: int, checks: bool = True, schedule: object = "forward") -> None:
    p = RandomProgram(seed)
    program = p.b.program()
    rng = np.random.default_rng(seed)
    source = rng.integers(-50, 50, p.b.threads).astype(np.int32)
    count = p.b.threads * p.b.grid[0] * 4
    expected = [source, np.zeros(count, np.int32), np.zeros(count, np.float32)]
    got = [source.copy(), np.zeros(count, np.int32), np.zeros(count, np.float32)]
    run_reference(program, expected, scalars(p, n))
    result = run_program(program, [n, *got], {}, checks=checks, schedule=schedule)  # type: ignore[arg-type]
    assert result.findings == ()
    for x, y in zip(expected, got, strict=True):
        assert x.tobytes() == y.tobytes(), f"seed {seed}"


@settings(max_examples=20)
@given(st.integers(0, 10**9), st.integers(0, 7))
def test_random_programs_agree_with_the_reference(seed: int, n: int) -> None:
    compare(seed, n)


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_without_checks_and_in_reverse(seed: int) -> None:
    compare(seed, seed % 5, checks=False)
    compare(seed, seed % 5, schedule="reverse")
