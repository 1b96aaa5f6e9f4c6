"""Mixed-radix digits: how a thread or register index is taken apart, and how digits are found in a table.

An index n with digit sizes (s0, s1, s2), least significant first, has the digits n % s0, n // s0 % s1,
n // (s0 * s1) (% s2, which cannot matter while n stays in range). Everything here is least significant first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Digit:
    """One digit of a thread or register index: it moves coordinate `dim` by `stride` elements per step.

    dim None is a replica: the digit does not change the coordinate, so `size` holders have the same element.
    """

    size: int
    dim: int | None
    stride: int = 0

    def __post_init__(self) -> None:
        assert self.size >= 1, f"a digit has at least one value, not {self.size}"
        if self.dim is None or self.stride == 0:
            object.__setattr__(self, "dim", None)
            object.__setattr__(self, "stride", 0)


def total(digits: Sequence[Digit]) -> int:
    """How many values the index has: the product of the sizes."""
    return prod(d.size for d in digits)


def merged(digits: Sequence[Digit]) -> tuple[Digit, ...]:
    """The same map with the fewest digits: none of size 1, neighbours that continue each other joined."""
    out: list[Digit] = []
    for d in digits:
        if d.size == 1:
            continue
        last = out[-1] if out else None
        if last is not None and last.dim == d.dim and d.stride == last.stride * last.size:
            out[-1] = Digit(last.size * d.size, last.dim, last.stride)
        else:
            out.append(d)
    return tuple(out)


def digit_terms(index: Any, digits: Sequence[Digit]) -> list[tuple[int, Any]]:
    """(dim, contribution) of each digit of `index`, built with // % * only; replicas contribute nothing.

    `index` is an int, a NumPy array or an IR expression. The % of the most significant digit is left out, so
    the index must be in range.
    """
    digits = merged(digits)
    terms: list[tuple[int, Any]] = []
    below = 1
    for k, d in enumerate(digits):
        if d.dim is not None:
            value = index if below == 1 else index // below
            if k + 1 < len(digits):
                value = value % d.size
            terms.append((d.dim, value if d.stride == 1 else value * d.stride))
        below *= d.size
    return terms


def add(left: Any, right: Any) -> Any:
    """left + right, with Python's 0 left out so that expressions stay short."""
    if isinstance(left, int) and left == 0:
        return right
    if isinstance(right, int) and right == 0:
        return left
    return left + right


def enumerate_digits(digits: Sequence[Digit], rank: int) -> Ints:
    """Coordinates of every index value: int32 [total, rank]."""
    out = np.zeros((1, rank), np.int32)
    for d in digits:
        step = np.zeros((d.size, 1, rank), np.int32)
        if d.dim is not None:
            step[:, 0, d.dim] = np.arange(d.size, dtype=np.int32) * d.stride
        out = (out[None] + step).reshape(-1, rank)
    return out


def fit_digits(values: Ints) -> tuple[Digit, ...] | None:
    """Digits whose enumeration is `values` [n, rank], or None. Runs are taken as long as they go."""
    rank = values.shape[1]
    if values[0].any():
        return None
    digits: list[Digit] = []
    rest = values
    while len(rest) > 1:
        n = len(rest)
        step = rest[1]
        moved = np.flatnonzero(step)
        if len(moved) > 1:
            return None
        linear = (rest == np.arange(n)[:, None] * step).all(axis=1)
        run = n if linear.all() else int(np.argmin(linear))
        size = max(s for s in range(1, run + 1) if n % s == 0)
        if size == 1:
            return None
        digits.append(Digit(size, int(moved[0]), int(step[moved[0]])) if len(moved) else Digit(size, None))
        rest = rest[::size]
    return tuple(digits) if np.array_equal(enumerate_digits(digits, rank), values) else None


def affine_over_digits(
    values: Sequence[int] | NDArray[Any], sizes: Sequence[int]
) -> tuple[tuple[int, ...], int] | None:
    """(coeffs, const) with values[r] == const + sum(coeffs[k] * digit_k(r)), or None when there are none.

    `sizes` are the mixed-radix sizes of r, least significant first; len(values) is their product. A digit of
    size 1 gets the coefficient 0. Values below 0 stand for "no such register" and do not matter.
    """
    table = np.asarray(values, dtype=np.int64).reshape(-1)
    assert len(table) == prod(sizes), f"{len(table)} values for digits of sizes {tuple(sizes)}"
    known = table >= 0
    if not known.any():
        return (0,) * len(sizes), 0
    number = np.arange(len(table))
    coeffs: list[int] = []
    sums = np.zeros(len(table), np.int64)
    below = 1
    for size in sizes:
        digit = number // below % size
        starts = number[known & (digit < size - 1)]
        starts = starts[known[starts + below]]
        coeff = int(table[starts[0] + below] - table[starts[0]]) if len(starts) else 0
        coeffs.append(coeff)
        sums += digit * coeff
        below *= size
    const = int((table - sums)[known][0])
    return (tuple(coeffs), const) if np.array_equal((sums + const)[known], table[known]) else None
