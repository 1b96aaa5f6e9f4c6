"""Where wrong elements are and what stands there is turned into the most likely cause."""

from __future__ import annotations

import numpy as np
import pytest

from tilebench.kernel.pattern import guess, runs

RNG = np.random.default_rng(3)
WANT = RNG.standard_normal((128, 128))


def said(mask: np.ndarray, got: np.ndarray | None = None, want: np.ndarray = WANT) -> str:
    """The guess for a mask; without values the wrong elements are unrelated noise."""
    values = want + np.where(mask, RNG.standard_normal(want.shape) + 3, 0) if got is None else got
    return guess(mask, values, want)


def rows(*parts: slice | int) -> np.ndarray:
    mask = np.zeros((128, 128), bool)
    for part in parts:
        mask[part] = True
    return mask


I, J = np.indices((128, 128))

CASES = {
    "only the last row": rows(127),
    "only the last column": rows(127).T,
    "only the first row": rows(0),
    "the last 7 rows of 128: a tail": rows(slice(121, None)),
    "the last 64 rows of 128: a tail": rows(slice(64, None)),
    "the last 7 columns of 128: a tail": rows(slice(121, None)).T,
    "whole columns 64 to 79 of 128": rows(slice(64, 80)).T,
    "whole 16-column stripes, one in every 64 columns (2 of them)": (J % 64) < 16,
    "every second tile of 32 rows (2 of them): one of two pipeline versions": (I % 64) < 32,
    "whole 8-row stripes, one in every 32 rows (4 of them): a row statistic": (I % 32) < 8,
    "everything above the diagonal": J > I,
    "the diagonal: a causal mask that is off by one": I == J,
    "every second 32x32 tile, as on a chess board": ((I // 32 + J // 32) % 2) == 0,
    "1 of 16 whole 32x32 tiles, the first at tile [1, 2]": (I // 32 == 1) & (J // 32 == 2),
    "one box, rows 3 to 40 and columns 5 to 60": (I >= 3) & (I <= 40) & (J >= 5) & (J <= 60),
    "nearly every element": np.ones((128, 128), bool),
    "scattered": RNG.random((128, 128)) < 0.01,
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_the_place_of_the_wrong_elements_is_named(text: str) -> None:
    assert said(CASES[text]).startswith(text)


def test_one_dimensional_outputs_are_one_row() -> None:
    mask = np.zeros(256, bool)
    mask[250:] = True
    want = RNG.standard_normal(256)
    assert guess(mask, want + mask, want).startswith("the last 6 columns of 256")


VALUES = {
    "they are NaN": np.full_like(WANT, np.nan),
    "they are 0": np.zeros_like(WANT),
    "they are those of the transposed result": WANT.T.copy(),
    "they are those of the column before: an index off by one": np.roll(WANT, 1, axis=1),
    "they are those of the row after": np.roll(WANT, -1, axis=0),
    "they are 2 times the right ones": 2 * WANT,
    "the right values in the wrong places": WANT[:, RNG.permutation(128)],
}


@pytest.mark.parametrize("text", VALUES)
def test_values_that_are_recognisably_something_else_are_named(text: str) -> None:
    got = VALUES[text]
    mask = ~np.isclose(got, WANT)
    assert text in guess(mask, got, WANT)


def test_noise_is_taken_for_nothing_else() -> None:
    assert said(CASES["scattered"]).endswith("rounding beyond the bound")


def test_nothing_wrong_gives_no_pattern() -> None:
    assert guess(np.zeros((4, 4), bool), np.ones((4, 4)), np.ones((4, 4))) == ""


def test_runs_are_counted_with_their_length_and_distance() -> None:
    found = runs(np.array([0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1], bool))
    assert (found.count, found.length, found.period, found.first, found.last) == (3, 2, 4, 1, 10)
    assert runs(np.array([1, 0, 1, 1], bool)).length == 0


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3, 4), (1, 1)])
def test_every_shape_has_a_sentence(shape: tuple[int, ...]) -> None:
    want = np.ones(shape)
    assert guess(np.ones(shape, bool), want + 1, want)
