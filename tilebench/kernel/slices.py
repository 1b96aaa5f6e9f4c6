"""Which box of each tensor a block touches, op by op: what the view of warps and blocks shows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from math import prod
from typing import Literal

import numpy as np

from tilebench.ir.expr import Expr, Var, const, int_value
from tilebench.ir.rewrite import children, loads, substitute
from tilebench.ir.simplify import linear, simplify
from tilebench.ir.tile import AtomicRMW, Bind, Buffer, For, Kernel, Parallel, Pipelined, Stmt, Store, TileOp
from tilebench.report import SliceInfo

MOST_BLOCKS = 1024
"""Blocks of a grid for which starts that are not affine are listed one by one."""


def slices(kernel: Kernel, grid: Sequence[int]) -> dict[Stmt, tuple[SliceInfo, ...]]:
    """The boxes of every tile op and parallel loop, for a launch of this grid.

    Loops inside are taken by the innermost loop around the op; an index that depends on data has no box.
    """
    found: dict[Stmt, tuple[SliceInfo, ...]] = {}
    bound: dict[Var, Expr] = {}

    def visit(s: Stmt, loop: tuple[Var, int] | None, ranges: Mapping[Var, int]) -> None:
        match s:
            case TileOp():
                boxes = [("read", r.buffer, r.offsets, r.extents) for r in s.reads]
                boxes += [("write", r.buffer, r.offsets, r.extents) for r in s.writes]
                made = [
                    _slice(kernel, grid, mode, buffer, offsets, extents, loop, bound, ranges)
                    for mode, buffer, offsets, extents in boxes
                    if buffer.scope == "global"
                ]
                found[s] = tuple(m for m in made if m is not None)
            case Parallel():
                inner = {**ranges, **dict(zip(s.vars, s.extents, strict=True))}
                made = [
                    _slice(kernel, grid, mode, b, indices, (1,) * len(indices), loop, bound, inner)
                    for mode, b, indices in _touched(s)
                ]
                found[s] = tuple(m for m in made if m is not None)
            case Pipelined() | For():
                start, stop = int_value(s.start), int_value(s.stop)
                trips = max(1, stop - start) if start is not None and stop is not None else 1
                if start is not None:
                    bound[s.var] = s.var + const(start) if start else s.var
                visit(s.body, (s.var, trips), ranges)
            case Bind():
                bound[s.var] = s.value
            case _:
                for child in children(s):
                    if isinstance(child, Stmt):
                        visit(child, loop, ranges)

    visit(kernel.body, None, {})
    return found


def _touched(nest: Parallel) -> list[tuple[Literal["read", "write"], Buffer, tuple[Expr, ...]]]:
    found: list[tuple[Literal["read", "write"], Buffer, tuple[Expr, ...]]] = []

    def visit(s: Stmt) -> None:
        if isinstance(s, Store | AtomicRMW) and s.buffer.scope == "global":
            found.append(("write", s.buffer, s.indices))
        for child in children(s):
            if isinstance(child, Stmt):
                visit(child)

    visit(nest.body)
    read = [e for e in loads(nest.body) if e.buffer.scope == "global"]
    return [*(("read", e.buffer, e.indices) for e in read), *found]


def _slice(
    kernel: Kernel,
    grid: Sequence[int],
    mode: str,
    buffer: Buffer,
    offsets: Sequence[Expr],
    extents: Sequence[int],
    loop: tuple[Var, int] | None,
    bound: Mapping[Var, Expr],
    ranges: Mapping[Var, int],
) -> SliceInfo | None:
    base: list[int] = []
    blocks: list[tuple[int, ...]] = []
    step: list[int] = []
    spans: list[int] = []
    opened = [_opened(e, bound) for e in offsets]
    affine = True
    for index, extent in zip(opened, extents, strict=True):
        form = linear(index)
        per_axis = tuple(form.coefficient(b) for b in kernel.blocks)
        by_loop = form.coefficient(loop[0]) if loop else 0
        low = span = 0
        for term, c in form.terms:
            if any(term is b for b in kernel.blocks) or (loop and term is loop[0]):
                continue
            size = ranges.get(term) if isinstance(term, Var) else None
            if size is None:
                affine = False
                continue
            low, span = low + min(0, c * (size - 1)), span + abs(c) * (size - 1)
        base.append(form.constant + low)
        blocks.append(per_axis)
        step.append(by_loop)
        spans.append(extent + span)
    table = None
    if not affine:
        table = _starts(kernel, grid, opened, loop, ranges)
        if table is None:
            return None
    return SliceInfo(
        buffer.name, "read" if mode == "read" else "write", tuple(spans), tuple(base), tuple(blocks),
        tuple(step), loop[1] if loop and any(step) else 1, table,
    )  # fmt: skip


def _opened(e: Expr, bound: Mapping[Var, Expr]) -> Expr:
    """The expression with names that were bound to expressions written out (a few levels deep)."""
    for _ in range(4):
        new = substitute(e, dict(bound)) if any(v in bound for v in _vars(e)) else e
        if new is e:
            break
        e = new
    return e


def _vars(e: Expr) -> list[Var]:
    found = [e] if isinstance(e, Var) else []
    for child in children(e):
        if isinstance(child, Expr):
            found += _vars(child)
    return found


def _starts(
    kernel: Kernel,
    grid: Sequence[int],
    offsets: Sequence[Expr],
    loop: tuple[Var, int] | None,
    ranges: Mapping[Var, int],
) -> np.ndarray | None:
    """int32 [blocks, rank]: the start for each block and iteration 0, None when it is not known."""
    if prod(grid) > MOST_BLOCKS or any(loads(e) for e in offsets):
        return None
    zero = {v: const(0, v.dtype) for v in (*([loop[0]] if loop else []), *ranges)}
    rows: list[list[int]] = []
    for place in itertools.product(*(range(n) for n in reversed(grid))):
        at = {b: const(x, b.dtype) for b, x in zip(kernel.blocks, reversed(place), strict=True)} | zero
        row = [int_value(simplify(substitute(e, at), {})) for e in offsets]
        if any(x is None for x in row):
            return None
        rows.append([x for x in row if x is not None])
    return np.array(rows, np.int32).reshape(-1, len(offsets))
