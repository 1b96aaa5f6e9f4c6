"""Loop nests over fragments: which thread runs an iteration, and which register it finds its element in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tilebench.layouts.digits import Digit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilebench.layouts.digits import Ints
    from tilebench.layouts.fragment import FragmentLayout

Access: TypeAlias = Sequence[tuple[Sequence[int], int]]
"""One (coefficients of the loop variables, constant) per buffer dimension: index = A . loop + c."""


def access_indices(access: Access | NDArray[Any], loop_shape: Sequence[int]) -> NDArray[np.int64]:
    """Buffer indices visited by a loop nest: int64 [*loop_shape, rank]."""
    if isinstance(access, np.ndarray):
        assert access.shape[:-1] == tuple(loop_shape), f"indices {access.shape} for a loop {loop_shape}"
        return access.astype(np.int64)
    out = np.empty((*loop_shape, len(access)), np.int64)
    for dim, (coeffs, const) in enumerate(access):
        assert len(coeffs) == len(loop_shape), f"{len(coeffs)} coefficients, {len(loop_shape)} loop variables"
        index: Any = np.full(tuple(loop_shape), const, np.int64)
        for k, coeff in enumerate(coeffs):
            if coeff:
                steps = np.arange(loop_shape[k], dtype=np.int64) * coeff
                index = index + steps.reshape([-1 if d == k else 1 for d in range(len(loop_shape))])
        out[..., dim] = index
    return out


def elements_of(
    layout: FragmentLayout, access: Access | NDArray[Any], loop_shape: Sequence[int]
) -> NDArray[np.int64]:
    """Row-major element of `layout` that each iteration visits: int64 [iterations], -1 outside the shape."""
    indices = access_indices(access, loop_shape).reshape(-1, layout.rank)
    shape = np.array(layout.shape)
    inside = ((indices >= 0) & (indices < shape)).all(axis=1)
    flat = np.ravel_multi_index(tuple(np.clip(indices, 0, shape - 1).T), layout.shape)
    return np.where(inside, flat, -1)


def pullback(
    layout: FragmentLayout, access: Access | NDArray[Any], loop_shape: tuple[int, ...]
) -> FragmentLayout | None:
    """`FragmentLayout.pullback`."""
    from tilebench.layouts.fragment import FragmentLayout

    renamed = None if isinstance(access, np.ndarray) else _renamed(layout, access, loop_shape)
    if renamed is not None:
        return renamed
    visited = elements_of(layout, access, loop_shape)
    if (visited < 0).any():
        return None
    iterations = np.arange(len(visited))
    inverse = np.full(layout.size + 1, -1, np.int64)  # element -1 finds the last entry, which stays -1
    inverse[visited] = iterations
    if not np.array_equal(inverse[visited], iterations):
        return None
    run_by = inverse[layout.elements()]
    used = (run_by >= 0).any(axis=0)
    run_by = run_by[:, used]
    if len(np.unique(run_by[run_by >= 0])) < len(iterations):
        return None  # the layout does not hold all of the tile
    coords = np.stack(np.unravel_index(np.maximum(run_by, 0), loop_shape), axis=-1)
    coords = np.where(run_by[..., None] >= 0, coords, -1)
    shifted = None if isinstance(access, np.ndarray) else _shifted(layout, access, len(loop_shape))
    if shifted is not None:
        # Say where padding would lie outside the loop, so that digits that overrun it are still digits.
        shifted = shifted[:, used]
        outside = ((shifted < 0) | (shifted >= np.array(loop_shape))).any(axis=-1, keepdims=True)
        coords = np.where(outside, shifted, coords)
    return FragmentLayout.from_table(loop_shape, coords)


def _shifted(layout: FragmentLayout, access: Access, rank: int) -> NDArray[np.int64] | None:
    """Loop coordinates of every place, if each dimension is one loop variable plus a constant; else None."""
    coords = layout.coords().astype(np.int64)
    out = np.zeros((*coords.shape[:2], rank), np.int64)
    seen: set[int] = set()
    for dim, (coeffs, const) in enumerate(access):
        used = [k for k, c in enumerate(coeffs) if c]
        if not used:
            continue
        if len(used) > 1 or coeffs[used[0]] != 1 or used[0] in seen:
            return None
        seen.add(used[0])
        out[..., used[0]] = coords[..., dim] - const
    return out if len(seen) == rank else None


def _renamed(layout: FragmentLayout, access: Access, loop_shape: tuple[int, ...]) -> FragmentLayout | None:
    """The pullback along a renaming of whole dimensions, digit by digit; None when it is more than that."""
    from tilebench.layouts.fragment import FragmentLayout

    if not layout.is_digits:
        return None
    to_loop: dict[int, int] = {}
    for dim, (coeffs, const) in enumerate(access):
        used = [k for k, c in enumerate(coeffs) if c]
        if const or len(used) > 1:
            return None
        if used:
            k = used[0]
            if coeffs[k] != 1 or k in to_loop.values() or loop_shape[k] != layout.shape[dim]:
                return None
            to_loop[dim] = k
        elif layout.shape[dim] != 1 or any(
            d.dim == dim and d.size > 1 for d in (*layout.reg, *layout.thread)
        ):
            return None
    if any(n != 1 for k, n in enumerate(loop_shape) if k not in to_loop.values()):
        return None

    def moved(d: Digit) -> Digit:
        return Digit(d.size, None if d.dim is None or d.size == 1 else to_loop[d.dim], d.stride)

    return FragmentLayout(loop_shape, tuple(map(moved, layout.reg)), tuple(map(moved, layout.thread)))


def registers_for(layout: FragmentLayout, loop: FragmentLayout, access: Access | NDArray[Any]) -> Ints:
    """`FragmentLayout.registers_for`."""
    assert layout.threads == loop.threads, f"{layout.threads} threads hold it, {loop.threads} run the loop"
    visited = elements_of(layout, access, loop.shape)
    wanted = np.where(loop.valid(), visited[np.maximum(loop.elements(), 0)], -1)
    return layout.lookup(np.arange(layout.threads)[:, None], wanted)
