"""Layouts as text: the formula of an element's place, and a grid for small tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilebench.layouts.digits import Digit, merged

if TYPE_CHECKING:
    from tilebench.layouts.fragment import FragmentLayout

_NAMES = "ijklmn"


def index_names(rank: int) -> tuple[str, ...]:
    """i, j, k ... for the dimensions of a tile."""
    return tuple(_NAMES[:rank]) if rank <= len(_NAMES) else tuple(f"i{d}" for d in range(rank))


def place_formula(layout: FragmentLayout) -> tuple[str, str] | None:
    """('thread = ...', 'register = ...') in the tile's indices, or None when an index has no digits.

    Replicas add '+ {0..n-1}*weight': all those places hold the element.
    """
    if not layout.is_digits:
        return None
    names = index_names(layout.rank)
    # The digits of a dimension must tile it: sorted, each stride is the product of the sizes below.
    tops: dict[int, int] = {}
    for dim in range(layout.rank):
        reach = 1
        for d in sorted((d for d in (*layout.reg, *layout.thread) if d.dim == dim), key=lambda d: d.stride):
            if d.size == 1:
                continue
            if d.stride != reach:
                return None
            reach *= d.size
        tops[dim] = reach

    def formula(digits: Sequence[Digit]) -> str:
        terms: list[str] = []
        weight = 1
        for d in merged(digits):
            if d.dim is None:
                text = "{" + f"0..{d.size - 1}" + "}"
            else:
                text = names[d.dim]
                if d.stride > 1:
                    text += f"//{d.stride}"
                if d.stride * d.size < min(tops[d.dim], layout.shape[d.dim]):
                    text = f"({text})%{d.size}" if d.stride > 1 else f"{text}%{d.size}"
            if weight > 1:
                text = f"({text})*{weight}" if not text.isalpha() else f"{text}*{weight}"
            terms.append(text)
            weight *= d.size
        return " + ".join(terms) or "0"

    return f"thread = {formula(layout.thread)}", f"register = {formula(layout.reg)}"


def element_formula(layout: FragmentLayout) -> list[str] | None:
    """['i = ...', 'j = ...'] in thread t and register r, or None for a table."""
    if not layout.is_digits:
        return None
    names = index_names(layout.rank)
    parts: list[list[str]] = [[] for _ in names]
    for symbol, digits in (("t", merged(layout.thread)), ("r", merged(layout.reg))):
        below = 1
        for k, d in enumerate(digits):
            if d.dim is not None:
                text = symbol if below == 1 else f"{symbol}//{below}"
                text += f"%{d.size}" if k + 1 < len(digits) else ""
                parts[d.dim].append(text if d.stride == 1 else f"({text})*{d.stride}")
            below *= d.size
    return [f"{name} = {' + '.join(p) or '0'}" for name, p in zip(names, parts, strict=True)]


def describe_fragment(layout: FragmentLayout, grid: bool = True) -> str:
    """Sizes, formulas and (for rank 2 up to 16x16) the grid of 'thread:register' that hold each element."""
    shape = "x".join(map(str, layout.shape))
    lines = [f"{shape} over {layout.threads} threads, {layout.registers} registers each"]
    if layout.replication > 1:
        lines[0] += f", up to {layout.replication} holders of an element"
    place = place_formula(layout)
    if place is not None:
        lines += place
    lines += element_formula(layout) or ["no formula: given as a table"]
    if grid and layout.rank <= 2 and max(layout.shape) <= 16:
        lines += _grid(layout)
    return "\n".join(lines)


def _grid(layout: FragmentLayout) -> list[str]:
    columns = layout.shape[-1]
    rows = layout.shape[0] if layout.rank == 2 else 1
    first: dict[int, tuple[int, int]] = {}
    flat = layout.elements()
    for thread in range(layout.threads):
        for reg in range(layout.registers):
            if flat[thread, reg] >= 0:
                first.setdefault(int(flat[thread, reg]), (thread, reg))
    cells = [
        [
            f"{first[i * columns + j][0]}:{first[i * columns + j][1]}" if i * columns + j in first else "-"
            for j in range(columns)
        ]
        for i in range(rows)
    ]
    width = max(len(cell) for row in cells for cell in row)
    note = ["each cell is thread:register" + (" of the first holder" if layout.replication > 1 else "")]
    return note + ["  ".join(cell.rjust(width) for cell in row) for row in cells]
