"""Accesses outside of global tensors that the language defines, spelled out for the host back ends.

GPU code reads 0 (or the safe value) outside of a tensor and skips stores there. On the host every access is
checked and an element outside is an error, which finds mistakes; two cases are no mistakes:

* a load of a tensor with T.annotate_safe_value: outside it reads as that value;
* a load or store that the program guards, in a dimension that the guard leaves to the ends of the tensor:

      for i, j in T.Parallel(64, 64):
          if i < rows:                                  # says which rows; the columns end where C does
              C[start + i, by * 64 + j] = c[i, j]

A dimension counts when its index is a sum of multiples of loop and block variables that no guard names: a
wrong guard stays an error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tilebench.ir.expr import Expr, Load, Select, Var, as_expr, binary, const, int_value, select
from tilebench.ir.rewrite import rebuild, transform, variables
from tilebench.ir.simplify import bounds, from_linear, linear
from tilebench.ir.tile import Buffer, For, If, Kernel, Parallel, Stmt, Store, TileOp

Interval = tuple[int, int]


def with_safe_values(kernel: Kernel) -> Kernel:
    """The kernel whose element loads of tensors with a safe value give it outside of the tensor."""
    safe: Mapping[Buffer, Any] = kernel.attributes.get("safe_values") or {}
    if not safe:
        return kernel

    def rule(node: Any) -> Any:
        if not isinstance(node, Load) or node.buffer not in safe:
            return None
        indices = tuple(transform(i, rule) for i in node.indices)
        inside: Expr | None = None
        for index, size in zip(indices, node.buffer.shape, strict=True):
            for test in (binary("ge", index, const(0, index.dtype)), binary("lt", index, size)):
                inside = test if inside is None else binary("and", inside, test)
        load = dataclasses.replace(node, indices=indices)
        value = as_expr(safe[node.buffer]).astype(node.dtype)
        return load if inside is None else select(inside, load, value)

    return dataclasses.replace(kernel, body=transform(kernel.body, rule))


def with_clipped_accesses(kernel: Kernel) -> Kernel:
    """The kernel whose guarded accesses end where their tensor does, in the dimensions that no guard names:
    stores there are skipped, loads give 0 (or what stands in their place)."""
    ranges: dict[Var, Interval] = {}
    for var, extent in zip(kernel.blocks, kernel.grid, strict=True):
        size = int_value(extent)
        ranges[var] = (0, (size or 1 << 31) - 1)
    return dataclasses.replace(kernel, body=_visit(kernel.body, ranges, None, frozenset()))


def _visit(
    s: Stmt, ranges: Mapping[Var, Interval], guarded: frozenset[Var] | None, inner: frozenset[Var]
) -> Stmt:
    """guarded: variables of the conditions around s (None: there is none); inner: those of T.Parallel."""

    def change(c: Any) -> Any:
        return (
            _visit(c, ranges, guarded, inner)
            if isinstance(c, Stmt)
            else _expression(c, ranges, guarded, inner)
            if isinstance(c, Expr)
            else c
        )

    match s:
        case Store() if s.buffer.scope == "global" and guarded is not None and inner:
            inside = _inside(s.indices, s.buffer, ranges, guarded, inner)
            made = rebuild(s, change)
            return made if inside is None else If(inside, made, None, loc=s.loc)
        case Parallel():
            more = {v: (0, max(e - 1, 0)) for v, e in zip(s.vars, s.extents, strict=True)}
            ranges, inner = {**ranges, **more}, inner | set(s.vars)
        case For():
            start, stop = int_value(s.start), int_value(s.stop)
            if start is not None and stop is not None and int_value(s.step) == 1 and stop > start:
                ranges = {**ranges, s.var: (start, stop - 1)}
        case If():
            guarded = (guarded or frozenset()) | variables(s.condition)
        case TileOp():
            return s
        case _:
            pass
    return rebuild(s, change)


def _expression(
    e: Expr, ranges: Mapping[Var, Interval], guarded: frozenset[Var] | None, inner: frozenset[Var]
) -> Expr:
    if not inner:
        return e
    if isinstance(e, Select):
        chosen = (guarded or frozenset()) | variables(e.condition)
        return rebuild(
            e,
            lambda c: (
                _expression(c, ranges, guarded if c is e.condition else chosen, inner)
                if isinstance(c, Expr)
                else c
            ),
        )
    made = rebuild(e, lambda c: _expression(c, ranges, guarded, inner) if isinstance(c, Expr) else c)
    if isinstance(e, Load) and isinstance(made, Load) and e.buffer.scope == "global" and guarded is not None:
        inside = _inside(e.indices, e.buffer, ranges, guarded, inner)
        if inside is not None:
            return select(inside, made, const(0, e.dtype))
    return made


def _inside(
    indices: tuple[Expr, ...],
    buffer: Buffer,
    ranges: Mapping[Var, Interval],
    guarded: frozenset[Var],
    inner: frozenset[Var],
) -> Expr | None:
    """The condition that an access does not pass the ends that it leaves to the tensor; None: it cannot."""
    inside: Expr | None = None
    for index, size in zip(indices, buffer.shape, strict=True):
        test = _end(index, size, ranges, guarded, inner)
        if test is not None:
            inside = test if inside is None else binary("and", inside, test)
    return inside


def _end(
    index: Expr, size: Expr, ranges: Mapping[Var, Interval], guarded: frozenset[Var], inner: frozenset[Var]
) -> Expr | None:
    """`index < size` where the index may pass the end and is one that counts; else None."""
    form = linear(index)
    names = {term for term, _ in form.terms if isinstance(term, Var)}
    if len(names) != len(form.terms) or not names <= ranges.keys() or names & guarded or not names & inner:
        return None
    interval, extent = bounds(from_linear(form), ranges), int_value(size)
    if interval is None or interval[0] < 0 or (extent is not None and interval[1] < extent):
        return None
    return binary("lt", index, size)
