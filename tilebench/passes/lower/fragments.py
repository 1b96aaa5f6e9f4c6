"""Which of its own registers an iteration of a nest names, and which fragments it writes over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilebench.ir.expr import Expr, Load, Var, const, int_value, is_const
from tilebench.ir.rewrite import walk
from tilebench.ir.thread import Memory
from tilebench.ir.tile import AtomicRMW, Break, Buffer, Continue, For, Seq, Stmt, Store
from tilebench.layouts import FragmentLayout
from tilebench.passes.indices import (
    Own,
    divisor,
    evaluate,
    flat_index,
    opaque_register,
    own_registers,
    split_index,
)  # fmt: skip
from tilebench.passes.lower.builder import Builder, expr_key


@dataclass(frozen=True)
class Loop:
    """The iterations of a nest: variables, extents, and where they run."""

    names: tuple[Var, ...]
    extents: tuple[int, ...]
    layout: FragmentLayout


@dataclass(frozen=True)
class Resolved:
    """Where an access finds its element: the thread's own register, plus what the layout does not know."""

    own: Own
    extra: Expr | None


def access_key(node: Load | Store | AtomicRMW) -> object:
    """Equal for two accesses of one element."""
    return (node.buffer.id, *(expr_key(i) for i in node.indices))


def resolve_all(
    b: Builder, loop: Loop, body: Stmt, own: Buffer | None = None
) -> tuple[dict[object, Resolved], list[Buffer]]:
    """Every access to a fragment by its key, and the fragments with one that a thread's own registers cannot
    serve.

    own: a fragment of which each thread writes its own version for now (a fold that is not finished).
    """
    found: dict[object, Resolved | None] = {}
    lost: list[Buffer] = []
    for node in walk(body):
        if not isinstance(node, Load | Store | AtomicRMW) or isinstance(node.buffer, Memory):
            continue
        if node.buffer.scope != "fragment":
            continue
        key = access_key(node)
        if key not in found:
            found[key] = resolve(b, loop, node.buffer, node.indices)
        place, storage = found[key], node.buffer.data
        served = place is not None and (isinstance(node, Load) or place.own.complete or storage is own)
        if not served and storage not in lost:
            lost.append(storage)
    resolved = {key: place for key, place in found.items() if place is not None}
    return resolved, lost


def resolve(b: Builder, loop: Loop, buffer: Buffer, indices: Sequence[Expr]) -> Resolved | None:
    """Where the iterations find buffer[indices] in their own thread, or None when they do not."""
    held = b.layouts.get(buffer)
    assert isinstance(held, FragmentLayout), f"{buffer.name} has no layout"
    affine: list[tuple[tuple[int, ...], int]] = []
    extra: Expr | None = None
    for dim, index in enumerate(indices or (const(0),)):
        index = b.simple(index)
        parts = split_index(index, loop.names)
        if parts is None:
            return _resolve_by_values(b, loop, buffer, indices)
        if parts.rest is None:
            affine.append(parts.affine)
            continue
        named = any(parts.coefficients)
        unit, rest = 1, parts.rest
        if named:
            reach = parts.constant + sum(
                c * (n - 1) for c, n in zip(parts.coefficients, loop.extents, strict=True) if c > 0
            )
            if parts.constant < 0 or any(c < 0 for c in parts.coefficients):
                return None
            d = divisor(rest, b.divisors)
            unit = d & -d
            if unit <= reach:
                return None
            affine.append(parts.affine)
        else:
            rest = rest + parts.constant
            affine.append(((0,) * len(loop.names), 0))
        more = opaque_register(held, dim, b.simple(rest), unit)
        if more is None:
            return None
        b.want_unrolled(rest)
        extra = more if extra is None else extra + more
    own = own_registers(held, loop.layout, tuple(affine))
    return None if own is None else Resolved(own, extra)


def _resolve_by_values(b: Builder, loop: Loop, buffer: Buffer, indices: Sequence[Expr]) -> Resolved | None:
    grids = np.indices(loop.extents)
    values = dict(zip(loop.names, grids, strict=True))
    found = [evaluate(i, values) for i in indices]
    if any(f is None for f in found):
        return None
    access = np.stack([np.broadcast_to(np.asarray(f), loop.extents) for f in found], axis=-1)
    held = b.layouts[buffer]
    assert isinstance(held, FragmentLayout)
    own = own_registers(held, loop.layout, access)
    return None if own is None else Resolved(own, None)


def overwrites(body: Stmt, loop: Loop, buffer: Buffer) -> bool:
    """Whether the nest writes every element of a fragment and reads none, so that its old value does not
    matter."""
    if any(isinstance(n, Load | AtomicRMW) and n.buffer.data is buffer for n in walk(body)):
        return False
    covered = np.zeros(prod(buffer.static_shape), bool)
    for store, loops in _certain_stores(body, ()):
        if store.buffer.data is not buffer:
            continue
        shape = (*loop.extents, *(n for _, n in loops))
        if np.prod(shape) > 1 << 22:
            return False
        grids = np.indices(shape, sparse=True)
        values = dict(zip((*loop.names, *(v for v, _ in loops)), grids, strict=True))
        found = evaluate(flat_index(store.indices, store.buffer.static_shape), values)
        if found is not None:
            flat = np.broadcast_to(found, shape).ravel()
            covered[flat[(flat >= 0) & (flat < len(covered))]] = True
    return bool(covered.all())


def _certain_stores(
    s: Stmt, loops: tuple[tuple[Var, int], ...]
) -> Iterator[tuple[Store, tuple[tuple[Var, int], ...]]]:
    """Stores that every iteration does, with the loops around them that count from 0 to a constant."""
    match s:
        case Seq():
            for part in s.body:
                yield from _certain_stores(part, loops)
        case Store():
            yield s, loops
        case For() if (
            is_const(s.start, 0) and is_const(s.step, 1) and (stop := int_value(s.stop)) is not None
        ):
            if not any(isinstance(n, Break | Continue) for n in walk(s.body)):
                yield from _certain_stores(s.body, (*loops, (s.var, stop)))
        case _:
            return
