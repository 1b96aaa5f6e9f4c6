"""Tiles that only products read, kept as panels and shared by all blocks of a launch.

    block (0, 0): copy(A[0, k]), copy(B[k, 0]), gemm        A[0, k] -> panels (0, k), made by who comes first
    block (1, 0): copy(A[0, k]), copy(B[k, 1]), gemm        A[0, k]: there already
    block (0, 1): copy(A[1, k]), copy(B[k, 0]), gemm        B[k, 0]: there already

A panel is what one register tile reads: for each k, its rows of A (or columns of B) side by side. A tile of a
tensor that the kernel does not write is the same for all who ask for the same offsets, so the offsets are its
key (a call whose tensors share memory with a written one is refused before: kernel/alias.py). The table of
panels is sized at the launch, when all extents are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Literal

from tilebench.ir.expr import Expr, Var, is_const
from tilebench.ir.rewrite import walk
from tilebench.ir.simplify import Interval, bounds, linear
from tilebench.ir.tile import AtomicRMW, Buffer, Kernel, Region, Store
from tilebench.ops.base import Op
from tilebench.ops.copy import Copy
from tilebench.ops.gemm import Gemm

SHARED_BYTES = 512 * 2**20
"""Most memory that the panels of one launch share; what does not fit is packed by each block for itself."""


@dataclass(frozen=True)
class Side:
    """How products read a tile: as A or B, `along` being the dimension that is K; size: M of A, N of B."""

    operand: Literal["A", "B"]
    along: int
    size: int
    depth: int


@dataclass(frozen=True)
class Step:
    """A name whose range follows from those before it: a loop's variable, or (stop None) a bound one."""

    var: Var
    start: Expr
    stop: Expr | None


@dataclass(frozen=True, eq=False)
class Pack:
    """One packed copy. keys: offsets that tell its tiles apart, each in units of its `unit`.

    bytes: of one tile; steps: the loops and names in scope; rounds: of the loops that are taken several at a
    time.
    """

    source: Buffer
    bytes: int
    keys: tuple[Expr, ...]
    units: tuple[int, ...]
    steps: tuple[Step, ...]
    rounds: Mapping[Var, int]


@dataclass(frozen=True)
class Table:
    """Where a launch keeps the tiles of a pack: number of tiles; key d counts from lows[d] in factors[d]."""

    count: int
    lows: tuple[int, ...]
    factors: tuple[int, ...]


def side_of(product: Gemm, operand: Literal["A", "B"]) -> Side:
    """How the product reads one of its operands."""
    m, n, k = product.mnk
    if operand == "A":
        return Side("A", 0 if product.transpose_a else 1, m, k)
    return Side("B", 1 if product.transpose_b else 0, n, k)


def written(kernel: Kernel) -> set[Buffer]:
    """The buffers that the kernel writes."""
    found: set[Buffer] = set()
    for node in walk(kernel.body):
        if isinstance(node, Op):
            found |= {r.buffer.data for r in node.writes}
        elif isinstance(node, Store | AtomicRMW):
            found.add(node.buffer.data)
    return found


def packable(kernel: Kernel) -> dict[Buffer, Side]:
    """Shared tiles that one copy writes whole and that only products read after it, all in the same way."""
    copies: dict[Buffer, int] = {}
    sides: dict[Buffer, Side] = {}
    mentions: dict[Buffer, int] = {}
    known: dict[Buffer, int] = {}
    for node in walk(kernel.body):
        buffer = getattr(node, "buffer", None)
        if isinstance(buffer, Buffer):
            mentions[buffer] = mentions.get(buffer, 0) + 1
        if isinstance(node, Copy) and node.destination.is_whole and node.destination.buffer.scope == "shared":
            target = node.destination.buffer
            copies[target] = copies.get(target, 0) + 1
            known[target] = known.get(target, 0) + 1
        if isinstance(node, Gemm):
            for region, side in ((node.a, side_of(node, "A")), (node.b, side_of(node, "B"))):
                b = region.buffer
                same = sides.setdefault(b, side) == side
                if copies.get(b) == 1 and region.is_whole and len(region.extents) == 2 and same:
                    known[b] = known.get(b, 0) + 1
    viewed = {b.view_of for b in kernel.buffers if b.view_of is not None}
    return {
        b: s
        for b, s in sides.items()
        if copies.get(b) == 1 and known[b] == mentions[b] and b.view_of is None and b not in viewed
    }


def keyed(source: Region, rounds: Mapping[Var, int]) -> tuple[tuple[Expr, ...], tuple[int, ...]]:
    """The offsets that are no constants, and the unit that each counts in."""
    keys = tuple(o for o in source.offsets if not is_const(o))
    units = tuple(
        max(gcd(*(c * (rounds.get(t, 1) if isinstance(t, Var) else 1) for t, c in linear(o).terms)), 1)
        for o in keys
    )
    return keys, units


def table(pack: Pack, known: Mapping[Var, Interval], blocks: int) -> Table | None:
    """The table of a launch; None where no tile would be used twice or its size cannot be told.

    known: ranges of the block variables, symbols and integer arguments; blocks: of the grid.
    """
    ranges = dict(known)
    uses = blocks
    for step in pack.steps:
        first = bounds(step.start, ranges)
        last = first if step.stop is None else bounds(step.stop, ranges)
        if first is None or last is None:
            continue
        if step.stop is None:
            ranges[step.var] = first
            continue
        ranges[step.var] = (first[0], max(last[1] - 1, first[0]))
        uses *= max(-(-(last[1] - first[0]) // pack.rounds.get(step.var, 1)), 1)
    count = 1
    lows: list[int] = []
    factors: list[int] = []
    for key, unit in zip(pack.keys, pack.units, strict=True):
        interval = bounds(key, ranges)
        if interval is None:
            return None
        lows.append(interval[0])
        factors.append(count)
        count *= (interval[1] - interval[0]) // unit + 1
    return Table(count, tuple(lows), tuple(factors)) if 2 * count <= uses else None
