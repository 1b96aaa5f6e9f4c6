"""Indices that are outside for sure: intervals of index expressions against the extents of their buffers.

An index that is negative whatever its variables are counts from the end, as a constant one does: `A[-i - 1]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tilebench.errors import Loc, TypeTileError, located
from tilebench.ir.expr import Binary, Const, Expr, Load, Select, Var, int_value, unary
from tilebench.ir.rewrite import children, rebuild
from tilebench.ir.simplify import bounds, from_linear, linear, prove
from tilebench.ir.tile import (
    AtomicRMW,
    Bind,
    Buffer,
    For,
    If,
    Kernel,
    Parallel,
    Pipelined,
    Region,
    Seq,
    Stmt,
    Store,
    TileOp,
    While,
)

INT32_MAX = 2**31 - 1


@dataclass
class _Scope:
    """Intervals of the variables in force; exact: those that take both ends in every run of the kernel.

    from_end: negative indices found so far, by the identity of their access's indices: what they mean.
    """

    ranges: dict[Var, tuple[int, int]] = field(default_factory=dict[Var, tuple[int, int]])
    exact: set[Var] = field(default_factory=set[Var])
    guarded: bool = False
    from_end: dict[int, tuple[Expr, ...]] = field(default_factory=dict[int, tuple[Expr, ...]])


def check_indices(kernel: Kernel) -> dict[int, tuple[Expr, ...]]:
    """Raise TypeTileError for an index that is out of range for sure, TB260; for constant faults of
    arithmetic, TB263, TB264.

    What is returned is for `counted_from_end`: empty where no index but a constant one counts from the end.
    """
    scope = _Scope()
    for var, extent in zip(kernel.blocks, kernel.grid, strict=True):
        size = int_value(extent)
        scope.ranges[var] = (0, max((size or INT32_MAX) - 1, 0))
        if size:
            scope.exact.add(var)
    scope.ranges[kernel.thread] = (0, kernel.thread_count - 1)
    scope.exact.add(kernel.thread)
    for symbol in kernel.symbols:
        scope.ranges[symbol] = (0, INT32_MAX)
    _visit(kernel.body, scope)
    return scope.from_end


def counted_from_end(kernel: Kernel, found: dict[int, tuple[Expr, ...]]) -> Kernel:
    """The kernel with the indices that `check_indices` found in it counted from the front."""

    def change(node: Any) -> Any:
        if isinstance(node, Load | Store | AtomicRMW) and id(node.indices) in found:
            node = replace(node, indices=found[id(node.indices)])
        return rebuild(cast("Stmt", node), change)

    return replace(kernel, body=change(kernel.body))


def _inner(scope: _Scope, vars: Iterable[tuple[Var, tuple[int, int] | None, bool]], guarded: bool) -> _Scope:
    ranges, exact = dict(scope.ranges), set(scope.exact)
    for var, interval, is_exact in vars:
        if interval is not None:
            ranges[var] = interval
        if is_exact:
            exact.add(var)
    return _Scope(ranges, exact, guarded, scope.from_end)


def _visit(s: Stmt, scope: _Scope) -> None:
    with located(s.loc):
        _visit_inside(s, scope)


def _visit_inside(s: Stmt, scope: _Scope) -> None:
    match s:
        case Seq():
            inner = _inner(scope, (), scope.guarded)
            for part in s.body:
                _visit(part, inner)
            return
        case For() | Pipelined():
            step = int_value(s.step) if isinstance(s, For) else 1
            low, high = bounds(s.start, scope.ranges), bounds(s.stop, scope.ranges)
            interval, is_exact, surely = None, False, False
            if low is not None and high is not None and step:
                interval = (low[0], high[1] - 1) if step > 0 else (high[0] + 1, low[1])
                surely = (low[1] < high[0]) if step > 0 else (high[1] < low[0])
                is_exact = low[0] == low[1] and high[0] == high[1] and abs(step) == 1 and surely
                if interval[0] > interval[1]:
                    return  # never runs
            _expressions((s.start, s.stop), scope)
            _visit(s.body, _inner(scope, [(s.var, interval, is_exact)], scope.guarded or not surely))
        case Parallel():
            if any(e <= 0 for e in s.extents):
                return
            _visit(
                s.body,
                _inner(
                    scope,
                    [(v, (0, e - 1), True) for v, e in zip(s.vars, s.extents, strict=True)],
                    scope.guarded,
                ),
            )
        case While():
            _expressions((s.condition,), scope)
            _visit(s.body, _inner(scope, (), True))
        case If():
            _expressions((s.condition,), scope)
            decided = prove(s.condition, scope.ranges)
            if decided is not False:
                _visit(s.then, _refine(scope, s.condition, decided is None))
            if decided is not True and s.orelse is not None:
                _visit(s.orelse, _refine(scope, unary("not", s.condition), decided is None))
        case Bind():
            _expressions((s.value,), scope)
            interval = bounds(s.value, scope.ranges) if not s.value.dtype.is_float else None
            if interval is not None:
                scope.ranges[s.var] = interval
        case Store() | AtomicRMW():
            _expressions((s.value, *s.indices), scope)
            _check(s.buffer, s.indices, scope, s.loc)
        case TileOp():
            for region in (*s.reads, *s.writes):
                _check_region(region, scope, region.loc or s.loc, type(s).__name__.lower())
        case _:
            _expressions((c for c in children(s) if isinstance(c, Expr)), scope)
            for child in children(s):
                if isinstance(child, Stmt):
                    _visit(child, scope)


def _refine(scope: _Scope, condition: Expr, guarded: bool) -> _Scope:
    """The scope where `condition` holds: intervals of single variables that it bounds are cut."""
    inner = _inner(scope, (), scope.guarded or guarded)
    stack = [condition]
    while stack:
        c = stack.pop()
        if isinstance(c, Binary) and c.op == "and":
            stack += [c.left, c.right]
        elif isinstance(c, Binary) and c.op in ("lt", "le", "gt", "ge") and not c.left.dtype.is_float:
            left, right = (c.left, c.right) if c.op in ("lt", "le") else (c.right, c.left)
            strict = c.op in ("lt", "gt")
            high, low = bounds(right, inner.ranges), bounds(left, inner.ranges)
            if isinstance(left, Var) and left in inner.ranges and high is not None:
                old = inner.ranges[left]
                inner.ranges[left] = (old[0], max(old[0], min(old[1], high[1] - strict)))
            if isinstance(right, Var) and right in inner.ranges and low is not None:
                old = inner.ranges[right]
                inner.ranges[right] = (min(old[1], max(old[0], low[0] + strict)), old[1])
    return inner


def _expressions(exprs: Iterable[Expr], scope: _Scope) -> None:
    for e in exprs:
        _expression(e, scope)


def _expression(e: Expr, scope: _Scope) -> None:
    match e:
        case Load():
            _expressions(e.indices, scope)
            _check(e.buffer, e.indices, scope, e.loc)
        case Select():
            _expression(e.condition, scope)
            decided = prove(e.condition, scope.ranges)
            if decided is not False:
                _expression(e.then, _refine(scope, e.condition, decided is None))
            if decided is not True:
                _expression(e.orelse, _refine(scope, unary("not", e.condition), decided is None))
        case Binary(op="and" | "or"):
            _expression(e.left, scope)
            truth = e.left if e.op == "and" else unary("not", e.left)
            _expression(e.right, _refine(scope, truth, True))
        case Binary():
            _arithmetic(e)
            _expression(e.left, scope)
            _expression(e.right, scope)
        case _:
            for child in children(e):
                if isinstance(child, Expr):
                    _expression(child, scope)


def _arithmetic(e: Binary) -> None:
    if (
        e.op in ("floordiv", "floormod", "truncdiv", "truncmod")
        and isinstance(e.right, Const)
        and e.right.value == 0
        and e.dtype.is_int
    ):
        raise TypeTileError(
            "TB263",
            f"integer {'division' if e.op.endswith('div') else 'remainder'} by zero",
            at=e.loc,
            why="an integer has no quotient by 0",
            fix="guard the division: T.if_then_else(d != 0, x // d, 0)",
        )
    if e.op in ("shl", "shr") and isinstance(e.right, Const) and not 0 <= e.right.value < e.dtype.bits:
        raise TypeTileError(
            "TB264",
            f"a shift of {e.dtype} by {e.right.value}",
            at=e.loc,
            why=f"{e.dtype} has {e.dtype.bits} bits, so it can be shifted by 0 to {e.dtype.bits - 1}",
            fix=f"cast to a wider type first, or shift by at most {e.dtype.bits - 1}",
        )


def _is_exact(index: Expr, scope: _Scope) -> bool:
    """Whether both ends of the interval are taken: a sum of multiples of different variables that take all
    their values."""
    return all(isinstance(term, Var) and term in scope.exact for term, _ in linear(index).terms)


def _check(buffer: Buffer, indices: tuple[Expr, ...], scope: _Scope, at: Loc | None) -> None:
    meant = list(indices)
    for dim, (index, size) in enumerate(zip(indices, buffer.shape, strict=True)):
        total = int_value(size)
        interval = bounds(from_linear(linear(index)), scope.ranges) if not index.dtype.is_float else None
        if interval is None:
            continue
        low, high = interval
        if high < 0 and (total is None or low >= -total):
            meant[dim] = from_linear(linear(index + size.astype(index.dtype)))
            scope.from_end[id(indices)] = tuple(meant)
            continue
        if total is None or (low >= 0 and high < total):
            continue
        never_inside = low >= total or high < 0
        partly = not scope.guarded and _is_exact(index, scope)
        if not partly and not (never_inside and (not scope.guarded or isinstance(index, Const))):
            continue
        raise _outside(buffer, dim, low, high, total, at or index.loc)


def _outside(buffer: Buffer, dim: int, low: int, high: int, total: int, at: Loc | None) -> TypeTileError:
    values = f"{low}" if low == high else f"{low} to {high}"
    where = f" in dimension {dim}" if len(buffer.shape) > 1 else ""
    guard = (
        "guard it with an if, or use T.copy, which clips"
        if buffer.scope == "global"
        else "make the buffer larger or the loop shorter"
    )
    return TypeTileError(
        "TB260",
        f"{buffer.name} has {total} elements{where} (0 to {total - 1}), but the index is {values}",
        at=at,
        why="the access is outside the buffer"
        + (
            ""
            if low == high
            else f" for {'negative indices' if low < 0 else f'indices from {max(low, total)}'}"
        ),
        fix=guard,
    )


def _check_region(region: Region, scope: _Scope, at: Loc | None, name: str) -> None:
    _expressions(region.offsets, scope)
    if region.buffer.scope == "global":
        return
    for dim, (offset, extent, size) in enumerate(
        zip(region.offsets, region.extents, region.buffer.shape, strict=True)
    ):
        total, interval = int_value(size), bounds(from_linear(linear(offset)), scope.ranges)
        if total is None or interval is None or scope.guarded:
            continue
        low, high = interval[0], interval[1] + extent - 1
        never_inside = interval[0] + extent > total or interval[1] < 0
        if (low < 0 or high >= total) and (never_inside or _is_exact(offset, scope)):
            error = _outside(region.buffer, dim, low, high, total, at)
            error.what = f"{name}: {error.what}"
            raise error
