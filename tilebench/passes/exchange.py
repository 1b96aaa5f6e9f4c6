"""Folds over threads: who shares a row, and whether the exchange is a barrier of the whole block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tilebench.ir.tile import Buffer
from tilebench.layouts import FragmentLayout, SharedLayout
from tilebench.ops.reduce import Reduce
from tilebench.passes.nodes import Node, node_of
from tilebench.passes.place_rules import free_layout, interned, pulled_back

WARP = 32

Layouts = Mapping[Buffer, FragmentLayout | SharedLayout]


@dataclass(frozen=True)
class Exchange:
    """Threads that share a row. masks: lanes to fold by xor shuffles, in order; across: (divisor, size)
    digits left over."""

    masks: tuple[int, ...]
    across: tuple[tuple[int, int], ...]


def exchange_of(layout: FragmentLayout, dim: int, threads: int) -> Exchange:
    """Which part of a row's threads are lanes of one warp."""
    masks: list[int] = []
    across: list[tuple[int, int]] = []
    below = 1
    for d in layout.thread:
        if d.dim == dim and d.size > 1:
            divisor, size = below, d.size
            while (
                size > 1
                and size % 2 == 0
                and divisor & (divisor - 1) == 0
                and divisor * 2 <= WARP
                and threads % (divisor * 2) == 0
            ):
                masks.append(divisor)
                divisor *= 2
                size //= 2
            if size > 1:
                across.append((divisor, size))
        below *= d.size
    return Exchange(tuple(masks), tuple(across))


def source_layout(op: Reduce, layouts: Layouts, threads: int, node: Node) -> FragmentLayout | None:
    """The layout in which the source's tile is folded; None when it is folded as plain loops."""
    if op.source.buffer.scope == "fragment":
        held = layouts[op.source.buffer]
        assert isinstance(held, FragmentLayout)
        found = pulled_back(node, node.accesses[0], held, threads)
        if found is not None and held.shape == found.shape and not held.is_digits:
            return None
        if found is not None:
            return found
    layout, _ = free_layout(node, threads, frozenset({op.dim}), layouts)
    return layout


def projected(layout: FragmentLayout, dim: int) -> FragmentLayout:
    """The layout of the folds: each thread has those of the rows that it holds a part of."""
    found = layout.project(dim, keep=True)
    own = tuple(d for d in found.reg if d.dim is not None)
    return interned(FragmentLayout(found.shape, own, found.thread))


def everyone(layout: FragmentLayout) -> bool:
    """Whether every thread holds the one element."""
    return bool(layout.valid()[:, 0].all())


def is_barrier(op: Reduce, layouts: Layouts, threads: int) -> bool:
    """Whether all threads of the block meet in the fold, between what it reads of others and what it writes.

    So it is when values go through shared scratch (lower/reduce.py): all that was done to shared memory
    before is over for everybody behind it.
    """
    if op.source.buffer.scope in ("local", "var"):
        return False
    node = node_of(op)
    layout = source_layout(op, layouts, threads, node) if node is not None else None
    if layout is None:
        return False
    across = bool(exchange_of(layout, op.dim, threads).across)
    if op.destination.buffer.scope not in ("local", "var"):
        return across
    folds = projected(layout, op.dim)
    return prod(folds.shape) == 1 and (across or not everyone(folds))


__all__ = ["Exchange", "everyone", "exchange_of", "is_barrier", "projected", "source_layout"]
