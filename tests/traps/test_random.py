"""Random mixtures of the themes: NumPy's answer, bit for bit, on interp, cpu and the emulated GPUs."""

from __future__ import annotations

import pytest

from tests.traps.random_programs import mixture
from tests.traps.running import check
from tilebench.kernel.program import define

SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mixture_gives_numpys_answer(seed: int) -> None:
    mix = mixture(seed)
    try:
        check(define(mix.text)[0], mix.inputs, *mix.want, start=mix.start)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{mix.text}") from None
