"""Fragment layouts that users give as functions (T.Fragment): evaluated, checked, recognised."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilebench.layouts.fragment import FragmentLayout


def fragment_from_function(
    shape: tuple[int, ...], place: Callable[..., tuple[int, int]], replicate: int, threads: int | None
) -> FragmentLayout:
    """`FragmentLayout.from_function`."""
    places: dict[tuple[int, int], tuple[int, ...]] = {}
    for index in np.ndindex(*shape):
        for copy in range(replicate):
            found = place(*index, copy) if replicate > 1 else place(*index)
            thread, reg = int(found[0]), int(found[1])
            if thread < 0 or reg < 0 or (threads is not None and thread >= threads):
                raise _bad_place(f"puts element {index} in thread {thread}, register {reg}", shape, threads)
            clash = places.setdefault((thread, reg), index)
            if clash != index:
                what = f"puts elements {clash} and {index} both in thread {thread}, register {reg}"
                raise _bad_place(what, shape, threads)
    count = threads if threads is not None else 1 + max(t for t, _ in places)
    table = np.full((count, 1 + max(r for _, r in places), len(shape)), -1, np.int32)
    for (thread, reg), index in places.items():
        table[thread, reg] = index
    return FragmentLayout.from_table(shape, table)


def _bad_place(what: str, shape: tuple[int, ...], threads: int | None) -> Exception:
    from tilebench.errors import LayoutError

    return LayoutError(
        "TB306",
        f"the layout of a {'x'.join(map(str, shape))} fragment {what}",
        why="each (thread, register) holds one element, and threads count from 0"
        + (f" to {threads - 1}" if threads is not None else ""),
        fix="check the two functions of T.Fragment: show(layout) draws what they say",
    )
