"""What became of a running sum from one block to the next, and which mistake would give just that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Mistake:
    """A way to get it wrong. means: what happened, look: what to compare in the step view."""

    kind: str
    means: str
    look: str


NOT_RESCALED = Mistake(
    "not-rescaled",
    "the terms of earlier blocks were taken with the old maximum and not brought to the new one: each is too "
    "large by exp(m_new - m_old); rows whose maximum did not move are right",
    "the maximum and this buffer side by side in the step view, at the first block where the maximum grows",
)
LATE = Mistake(
    "rescaled-too-late",
    "the new terms were added first and then scaled with the old ones; they are already relative to the new "
    "maximum, so only the old part may be scaled",
    "the order of two statements: scale what is there, then add",
)
FORGETS = Mistake(
    "forgets",
    "this is the contribution of the last block alone: what the earlier blocks gave is gone",
    "the statement that writes it: does the old value stand on its right-hand side?",
)
OLD_MAXIMUM = Mistake(
    "old-maximum",
    "the new terms were taken with the maximum from before this block",
    "the order of reduce_max and of the exponentials, and which of the two maxima they read",
)
INVERTED = Mistake(
    "inverted",
    "the old part was multiplied by exp(m_new - m_old) where it needs exp(m_old - m_new): a maximum that "
    "grows makes old terms smaller, so the factor is never above 1",
    "the factor in the step view: at the first block it is exp(-inf) = 0, and later between 0 and 1",
)
BASE_TWO = Mistake(
    "base-two",
    "these are powers of 2, not of e: exp2(x) is exp(x) only when x was multiplied by log2(e) = 1.442695",
    "the calls of T.exp2",
)
STALE = Mistake(
    "stale-factor",
    "the old part was scaled with the factor of the block before, not with this block's",
    "where the factor is computed, and where it is used: which of the two lines comes first?",
)
DIVIDED = Mistake(
    "divided-early",
    "it is divided by l already: l still changes, so the division belongs after the loop",
    "the statement that divides: is it inside of the loop?",
)
UNKNOWN = Mistake(
    "wrong",
    "it is none of the usual mistakes",
    "the first step after which it differs, statement by statement",
)


@dataclass(frozen=True)
class Transition:
    """A block of scores [rows, n] and what the running sum was before and is after it.

    weights: [n, columns] of a weighted sum, None for the plain sum; before, after: [rows] or [rows, columns];
    older_max: the maximum of one block earlier than old_max; total: what l should be after it, [rows].
    """

    fresh: np.ndarray
    weights: np.ndarray | None
    old_max: np.ndarray
    new_max: np.ndarray
    before: np.ndarray
    after: np.ndarray
    older_max: np.ndarray
    total: np.ndarray


def diagnose(t: Transition, rtol: float) -> Mistake:
    """The mistake that explains all rows at once."""
    with np.errstate(all="ignore"):
        factor = _column(np.exp(t.old_max - t.new_max), t)
        new, old = _sum(t, t.new_max), _sum(t, t.old_max)
        doubled = _column(np.exp2(t.old_max - t.new_max), t)
        guesses = (
            (NOT_RESCALED, t.before + new),
            (LATE, (t.before + new) * factor),
            (FORGETS, new),
            (OLD_MAXIMUM, t.before * factor + old),
            (OLD_MAXIMUM, t.before + old),
            (INVERTED, t.before / factor + new),
            (STALE, t.before * _column(np.exp(t.older_max - t.old_max), t) + new),
            (DIVIDED, (t.before * factor + new) / _column(t.total, t)),
            (BASE_TWO, t.before * doubled + _sum(t, t.new_max, np.exp2)),
        )
        for mistake, value in guesses:
            if _same(t.after, value, rtol):
                return mistake
    return UNKNOWN


def _sum(t: Transition, maximum: np.ndarray, power: np.ufunc = np.exp) -> np.ndarray:
    terms = power(t.fresh - maximum[:, None])
    return terms.sum(1) if t.weights is None else terms @ t.weights


def _column(rows: np.ndarray, t: Transition) -> np.ndarray:
    return rows if t.weights is None else rows[:, None]


def _same(a: np.ndarray, b: np.ndarray, rtol: float) -> bool:
    """Equal within rtol of the largest element, special values alike."""
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max(initial=0.0))
    return bool(np.allclose(a, b, rtol=rtol, atol=rtol * scale, equal_nan=True))


__all__ = ["Mistake", "Transition", "diagnose"]
