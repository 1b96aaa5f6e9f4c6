"""A guess at the cause of wrong elements, from where they are and from what stands there instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

TILES = (128, 64, 32, 16, 8)
"""Sizes of blocks that are looked for, largest first: block tiles, warp tiles, mma atoms."""
NEARLY_ALL = 0.95
SAME_VALUES = 0.98
"""Share of wrong elements that must agree with a shifted, transposed or permuted reference to say so."""


def guess(wrong: Array, got: Array, want: Array) -> str:
    """One sentence: the place of the wrong elements and what most often causes that; '' when none is wrong.

    wrong: bool, the shape of the output; got and want: its values and the reference's.
    """
    if not wrong.any():
        return ""
    mask, a, b = (_matrix(x) for x in (wrong, got, want))
    where = _place(mask)
    what = _values(mask, a, b)
    return f"{where}; {what}" if what else where


def _matrix(x: Array) -> Array:
    """All dimensions but the last as rows, as the heat map has it."""
    if x.ndim == 0:
        return x.reshape(1, 1)
    return x.reshape(1, -1) if x.ndim == 1 else x.reshape(-1, x.shape[-1])


# ------------------------------------------------------------------ where


@dataclass(frozen=True)
class Runs:
    """Stretches of a boolean line: how many, their common length and distance (0 when they differ)."""

    count: int
    length: int
    period: int
    first: int
    last: int


def runs(line: Array) -> Runs:
    """The stretches of True in a line."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], line.astype(np.int8), [0]))))
    starts, ends = edges[::2], edges[1::2]
    lengths, distances = np.unique(ends - starts), np.unique(np.diff(starts))
    length = int(lengths[0]) if lengths.size == 1 else 0
    period = int(distances[0]) if distances.size == 1 else 0
    return Runs(int(starts.size), length, period, int(starts[0]), int(ends[-1]) - 1)


def _any(mask: Array, axis: int) -> Array:
    return np.asarray(np.any(mask, axis=axis))


def _grid(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Row and column number of each place."""
    i, j = np.arange(shape[0])[:, None], np.arange(shape[1])[None, :]
    return np.broadcast_to(i, shape[:2]), np.broadcast_to(j, shape[:2])


def _place(mask: Array) -> str:
    rows, columns = _any(mask, 1), _any(mask, 0)
    share = float(mask.mean())
    if share > NEARLY_ALL:
        return "nearly every element: a wrong formula, a missing term, or the wrong operand"
    for axis, line, other in (("row", rows, columns), ("column", columns, rows)):
        if line.size > 1 and line[-1] and not line[:-1].any():
            return f"only the last {axis}: a tail that is cut off or an index that is off by one"
        if line.size > 1 and line[0] and not line[1:].any() and other.sum() > 1:
            return f"only the first {axis}: the first iteration, or an index that is off by one"
    for axis, line, whole in (
        ("row", rows, np.asarray(np.all(mask, axis=1))),
        ("column", columns, np.asarray(np.all(mask, axis=0))),
    ):
        if np.array_equal(line, whole):
            return _stripes(axis, line)
    diagonal = _diagonal(mask)
    if diagonal:
        return diagonal
    tiles = _tiles(mask)
    if tiles:
        return tiles
    for axis, line in (("row", rows), ("column", columns)):
        found = runs(line)
        if found.count > 2 and found.length and found.period:
            return f"parts of {_stripes(axis, line)}"
    (top, bottom), (left, right) = (
        (int(np.flatnonzero(x)[0]), int(np.flatnonzero(x)[-1])) for x in (rows, columns)
    )
    box = (bottom - top + 1) * (right - left + 1)
    if box < mask.size and np.count_nonzero(mask) > 0.9 * box:
        return (
            f"one box, rows {top} to {bottom} and columns {left} to {right}: one block or warp tile is wrong"
        )
    return f"scattered ({share:.1%} of the elements): a race, or rounding beyond the bound"


def _stripes(axis: str, line: Array) -> str:
    found, size = runs(line), line.size
    cause = (
        "a row statistic (max, sum, scale) is wrong there"
        if axis == "row"
        else "a column tile is wrong, or its layout is not the one that was written"
    )
    if found.count == 1:
        length = found.last - found.first + 1
        if found.last == size - 1 and length <= size / 2:
            cause = "a tail that is cut off, or a bound that is rounded down"
            return f"the last {length} {axis}s of {size}: {cause}"
        return f"whole {axis}s {found.first} to {found.last} of {size}: {cause}"
    if found.length and found.period:
        each = f"{found.length}-{axis} stripes" if found.length > 1 else f"{axis}s"
        if found.period == 2 * found.length:
            return (
                f"every second tile of {found.length} {axis}{'s' * (found.length > 1)} "
                f"({found.count} of them): one of two pipeline versions is stale or overwritten: "
                "a missing barrier, or the wrong stage"
            )
        return f"whole {each}, one in every {found.period} {axis}s ({found.count} of them): {cause}"
    return f"whole {axis}s ({int(line.sum())} of {size}): {cause}"


def _diagonal(mask: Array) -> str:
    if min(mask.shape) < 4:
        return ""
    i, j = _grid(mask.shape)
    share = min(mask.shape) / mask.size
    for name, part in (("above", j > i), ("below", j < i)):
        if mask[part].mean() > NEARLY_ALL and mask[~part].mean() < 2 * share:
            return f"everything {name} the diagonal: a mask with the wrong sign"
    on = mask[i == j].mean()
    if on > NEARLY_ALL and np.count_nonzero(mask) <= 1.2 * min(mask.shape):
        return "the diagonal: a causal mask that is off by one (< for <=)"
    return ""


def _tiles(mask: Array) -> str:
    """Whole tiles that are wrong, at the largest size at which the mask is made of tiles."""
    for size in TILES:
        high, wide = min(size, mask.shape[0]), min(size, mask.shape[1])
        if mask.shape[0] % high or mask.shape[1] % wide or (high, wide) == mask.shape:
            continue
        parts = mask.reshape(mask.shape[0] // high, high, mask.shape[1] // wide, wide).mean(axis=(1, 3))
        full = parts > 0.9
        if full.any() and not ((parts > 0.02) & ~full).any():
            count, total = int(full.sum()), full.size
            i, j = _grid(full.shape)
            even = (i + j) % 2 == 0
            if total >= 4 and (np.array_equal(full, even) or np.array_equal(full, ~even)):
                cause = "a tile index with its axes mixed up"
                return f"every second {high}x{wide} tile, as on a chess board: {cause}"
            at = tuple(int(x) for x in np.argwhere(full)[0])
            return (
                f"{count} of {total} whole {high}x{wide} tiles, the first at tile {list(at)}: "
                "a block that wrote nothing or elsewhere, or one warp's part"
            )
    return ""


# ------------------------------------------------------------------ what stands there


LARGEST = 1 << 22
"""Elements up to which values are compared with shifted and sorted ones."""


def _values(mask: Array, got: Array, want: Array) -> str:
    """What the wrong values are, when they are recognisably something else."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    seen, meant = a[mask], b[mask]
    if np.isnan(seen).all():
        return "they are NaN: never written, or 0/0 on the way"
    if (seen == 0).all() and (meant != 0).any():
        return "they are 0: never accumulated, or a guard that is too narrow"
    if not np.isfinite(seen).all() or mask.size > LARGEST:
        return ""
    with np.errstate(all="ignore"):
        if a.shape[0] == a.shape[1] and _agree(seen, b.T[mask]):
            return "they are those of the transposed result"
        for axis, name in ((1, "column"), (0, "row")):
            for by in (1, -1):
                if a.shape[axis] > 1 and _agree(seen, np.roll(b, by, axis=axis)[mask]):
                    side = "before" if by == 1 else "after"
                    return f"they are those of the {name} {side}: an index off by one"
        if seen.size >= 16 and _agree(np.sort(seen), np.sort(meant)):
            return "the right values in the wrong places: writer and reader use different layouts"
        ratio = seen[meant != 0] / meant[meant != 0]
        if ratio.size >= 16 and np.isfinite(ratio).all():
            middle = float(np.median(ratio))
            if abs(middle - 1) > 0.05 and np.mean(np.abs(ratio - middle) < 0.01 * abs(middle)) > SAME_VALUES:
                return f"they are {middle:.3g} times the right ones: a scale or a number of terms"
    return ""


def _agree(a: Array, b: Array) -> bool:
    scale = float(np.max(np.abs(b), initial=0.0)) or 1.0
    return bool(np.mean(np.abs(a - b) <= 1e-3 * scale) > SAME_VALUES)
