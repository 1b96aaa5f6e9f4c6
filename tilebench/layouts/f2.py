"""Linear algebra over F2: a matrix is a list of columns, a column a Python int (bit i = row i).

A layout whose sizes and strides are powers of two is such a matrix: it takes the bits of the hardware index
to the bits of the coordinate, and every question about it (is it invertible, how many banks does it reach) is
a rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def apply(columns: Sequence[int], x: int) -> int:
    """The image of the bit vector `x`: the XOR of the columns that its bits name."""
    image = 0
    for i, column in enumerate(columns):
        if x >> i & 1:
            image ^= column
    return image


def rank(columns: Iterable[int]) -> int:
    """The dimension of the span of the columns."""
    return len(_eliminated(list(columns))[0])


def solve(columns: Sequence[int], target: int) -> int | None:
    """One x with apply(columns, x) == target, or None when the target is outside the span."""
    left, x = _reduced(target, _eliminated(columns)[0])
    return None if left else x


def _eliminated(columns: Sequence[int]) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """(highest bit -> (reduced column with it, which original columns make it), those that cancel out)."""
    pivots: dict[int, tuple[int, int]] = {}
    nothing: list[int] = []
    for i, column in enumerate(columns):
        left, parts = _reduced(column, pivots)
        made_of = parts ^ 1 << i
        if left:
            pivots[left.bit_length()] = (left, made_of)
        else:
            nothing.append(made_of)
    return pivots, nothing


def _reduced(column: int, pivots: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    """(what is left of a column where no pivot has its highest bit, which original columns were taken)."""
    made_of = 0
    while column and (pivot := pivots.get(column.bit_length())) is not None:
        column ^= pivot[0]
        made_of ^= pivot[1]
    return column, made_of


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
    return _eliminated(columns)[1]
