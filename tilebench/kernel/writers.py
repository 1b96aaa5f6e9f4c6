"""Which block writes an element of an output, from the slices of a report: the block to record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilebench.ir.tile import Kernel
from tilebench.kernel.slices import slices
from tilebench.report import Report, SliceInfo


def block_of(report: Report, output: str, element: Sequence[int]) -> tuple[int, ...] | None:
    """The block whose last op on `output` writes the element; None when the report does not say."""
    op = next((o for o in reversed(report.ops) if output in o.writes), None)
    if op is None:
        return None
    found = next((s for s in op.slices if s.buffer == output and s.mode == "write"), None)
    return None if found is None else _search(found, report.resources.grid, element)


def block_writing(
    prim: Kernel, grid: tuple[int, ...], output: str, element: Sequence[int]
) -> tuple[int, ...] | None:
    """The same of a kernel that has no report yet."""
    boxes = slices(prim, grid) if all(grid) else {}
    found = [s for several in boxes.values() for s in several if s.buffer == output and s.mode == "write"]
    return _search(found[-1], grid, element) if found else None


def _search(found: SliceInfo, grid: Sequence[int], element: Sequence[int]) -> tuple[int, ...] | None:
    shape = tuple(grid) or (1,)
    total = int(np.prod(shape, dtype=np.int64))
    numbers = np.arange(total)
    index = np.stack(np.unravel_index(numbers, shape[::-1])[::-1])  # x is the fastest
    if found.table is not None:
        starts = np.asarray(found.table).reshape(-1, len(found.base)).T[:, :total]
    else:
        steps = np.zeros((len(found.base), len(shape)), np.int64)
        for d, row in enumerate(found.blocks):
            steps[d, : len(row)] = row[: len(shape)]
        starts = np.asarray(found.base)[:, None] + steps @ index
    at = np.asarray(element, np.int64)[:, None]
    size = np.asarray(found.extents)[:, None]
    move = np.asarray(found.loop or (0,) * len(found.base))[:, None]
    for trip in range(max(1, found.trips) if np.any(move) else 1):
        low = starts + move * trip
        hits = np.flatnonzero(((at >= low) & (at < low + size)).all(axis=0))
        if hits.size:
            return tuple(int(i) for i in index[:, hits[0]])
    return None


def worst_block(report: Report) -> tuple[int, ...] | None:
    """The block that writes the worst element of the first output that is wrong; None when none is, or when
    the report does not say.
    """
    for d in report.diffs:
        if d.verdict == "fail" and d.worst:
            return block_of(report, d.output, d.worst[0].coord)
    return None
