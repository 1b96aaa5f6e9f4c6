"""Linear algebra over F2: a matrix is a list of columns, a column a Python int (bit i = row i).

A layout whose sizes and strides are powers of two is such a matrix: it takes the bits of the hardware index
to the bits of the coordinate, and every question about it (is it invertible, how many banks does it reach) is
a rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def apply(columns: Sequence[int], x: int) -> int:
    """The image of the bit vector `x`: the XOR of the columns that its bits name."""
    image = 0
    for i, column in enumerate(columns):
        if x >> i & 1:
            image ^= column
    return image


def rank(columns: Iterable[int]) -> int:
    """The dimension of the span of the columns."""
    pivots: dict[int, int] = {}  # highest bit -> reduced column with that highest bit
    for column in columns:
        while column:
            top = column.bit_length()
            if top not in pivots:
                pivots[top] = column
                break
            column ^= pivots[top]
    return len(pivots)


def solve(columns: Sequence[int], target: int) -> int | None:
    """One x with apply(columns, x) == target, or None when the target is outside the span."""
    pivots: dict[int, tuple[int, int]] = {}  # highest bit -> (reduced column, which original columns make it)
    for i, column in enumerate(columns):
        made_of = 1 << i
        while column:
            top = column.bit_length()
            if top not in pivots:
                pivots[top] = (column, made_of)
                break
            reduced, parts = pivots[top]
            column ^= reduced
            made_of ^= parts
    x = 0
    while target:
        top = target.bit_length()
        if top not in pivots:
            return None
        reduced, parts = pivots[top]
        target ^= reduced
        x ^= parts
    return x


def invert(columns: Sequence[int], bits: int) -> list[int] | None:
    """The columns of the inverse of a square matrix with `bits` rows, or None when it is singular."""
    if len(columns) != bits or rank(columns) != bits or any(column >> bits for column in columns):
        return None
    inverse = [solve(columns, 1 << i) for i in range(bits)]
    return [x for x in inverse if x is not None]


def compose(outer: Sequence[int], inner: Sequence[int]) -> list[int]:
    """The columns of `outer` after `inner`."""
    return [apply(outer, column) for column in inner]


def kernel(columns: Sequence[int]) -> list[int]:
    """A basis of the x with apply(columns, x) == 0: bits that do not change the image (replicas)."""
    pivots: dict[int, tuple[int, int]] = {}
    basis: list[int] = []
    for i, column in enumerate(columns):
        made_of = 1 << i
        while column:
            top = column.bit_length()
            if top not in pivots:
                pivots[top] = (column, made_of)
                break
            reduced, parts = pivots[top]
            column ^= reduced
            made_of ^= parts
        if not column:
            basis.append(made_of)
    return basis
