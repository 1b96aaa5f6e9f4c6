"""Folds over threads: in registers first, then between lanes by shuffles, then between warps through scratch.

The destination's natural layout is the source's, projected: every thread that held a part of a row ends up
with the row's value, so using it in the row costs nothing. A row that several warps share costs two barriers,
the first of them only where no other stands between the last use of the scratch and this (lower/reused.py).
"""

from __future__ import annotations

from math import prod

from tilebench.ir.dtype import bool_, int32
from tilebench.ir.expr import Expr, Load, Var, binary, call, cast, const, to_bool
from tilebench.ir.folds import PAIRED, FoldOp, LaneFold
from tilebench.ir.thread import Memory
from tilebench.ir.tile import Buffer, Parallel, Seq, Store
from tilebench.layouts import Digit, FragmentLayout
from tilebench.layouts.digits import digit_terms, merged
from tilebench.ops.copy import Copy
from tilebench.ops.reduce import Reduce
from tilebench.passes.exchange import Exchange, everyone, exchange_of, is_barrier, source_layout
from tilebench.passes.exchange import projected as projected_layout
from tilebench.passes.indices import flat_index
from tilebench.passes.lower.builder import Builder, both
from tilebench.passes.lower.fragments import Loop
from tilebench.passes.lower.halves import digits_of, fold_halves, takes_halves
from tilebench.passes.lower.nest import lower_nest, lower_parallel
from tilebench.passes.nodes import Node, loop_names, node_of


def lower_reduce(op: Reduce, b: Builder) -> None:
    """Fold op.source along op.dim into op.destination."""
    node = node_of(op)
    layout = source_layout(op, b.layouts, b.threads, node) if node is not None else None
    if node is None or layout is None:
        b.expand(op.expand())
        return
    if op.destination.buffer.scope in ("local", "var"):
        _fold_to_private(op, b, node, layout)
        return
    _fold(op, b, node, layout)


def _registers(
    op: Reduce, b: Builder, node: Node, layout: FragmentLayout
) -> tuple[Memory, FragmentLayout, Buffer]:
    """Partial folds of each thread: a temporary fragment in the projected layout, filled from the thread's
    own registers."""
    projected = projected_layout(layout, op.dim)
    dtype = op.accumulator_dtype
    partial = Buffer("fold", tuple(const(n) for n in projected.shape), dtype, "fragment")
    b.add_fragment(partial, projected)
    memory, _ = b.fragment(partial)
    with b.loop(projected.registers, independent=True) as r:
        b.store(memory, r, const(op.identity, dtype))
    # The nest's own register loop walks the source; the destination register is the projection of the same
    # digits.
    names = node.names
    place = tuple(const(0) if d == op.dim else v for d, v in enumerate(names))
    source = Load(op.source.buffer, op.source.index(names), dtype=op.source.dtype)
    old = Load(partial, place, dtype=dtype)
    step = Store(partial, place, op.combine(old, op.prepare(source)))
    lower_nest(b, Loop(names, node.extents, layout), step, own=partial)
    return memory, projected, partial


def _fold(op: Reduce, b: Builder, node: Node, layout: FragmentLayout) -> None:
    memory, projected, partial = _halves(op, b, layout) or _registers(op, b, node, layout)
    _between_threads(op, b, layout, memory, projected)
    _deliver(op, b, partial, projected)


def _halves(op: Reduce, b: Builder, layout: FragmentLayout) -> tuple[Memory, FragmentLayout, Buffer] | None:
    """The partial folds in pairs of halves, where the source is a fragment that has them side by side."""
    buffer = op.source.buffer
    if buffer.scope != "fragment" or not takes_halves(op) or b.layouts[buffer] != layout:
        return None
    digits = digits_of(layout, op.dim)
    if digits is None:
        return None
    source, _ = b.fragment(buffer)
    projected = projected_layout(layout, op.dim)
    partial = Buffer("fold", tuple(const(n) for n in projected.shape), buffer.dtype, "fragment")
    b.add_fragment(partial, projected)
    memory, _ = b.fragment(partial)
    fold_halves(op, b, source, digits, memory)
    return memory, projected, partial


def _between_threads(
    op: Reduce, b: Builder, layout: FragmentLayout, memory: Memory, projected: FragmentLayout
) -> None:
    exchange = exchange_of(layout, op.dim, b.threads)
    count = projected.registers
    if _is_called(op, memory):
        _lanes(op, b, memory, count, exchange.masks)
        masks: tuple[int, ...] = ()
    else:
        masks = exchange.masks
    for mask in masks:
        with b.loop(count, independent=True) as r:
            # All lanes must reach the shuffle: its result is named before an `or` or a select could skip it.
            other = b.bind("other", shuffle_xor(b.load(memory, r), mask))
            b.store(memory, r, op.combine(b.load(memory, r), other))
    if exchange.across:
        _through_scratch(op, b, layout, memory, projected, exchange)


def _is_called(op: Reduce, memory: Memory) -> bool:
    """Whether lanes exchange by a function: of so many values at a time, of halves in pairs, or keeping
    NaN."""
    if op.kind in ("any", "all"):
        return False
    return memory.dtype.name in PAIRED or (
        memory.dtype.bits >= 32 and (op.batch > 1 or (op.nan_propagate and memory.dtype.is_float))
    )


def _lanes(op: Reduce, b: Builder, memory: Memory, count: int, masks: tuple[int, ...]) -> None:
    """The exchange between lanes, `batch` values at a time (halves at least two)."""
    word = 2 if memory.dtype.name in PAIRED and count % 2 == 0 else 1
    size = max(n for n in range(word, max(word, op.batch) + 1, word) if count % n == 0)
    kind = _FOLDS[op.kind]
    nan = op.nan_propagate and memory.dtype.is_float
    for scale, threads in _ranges(masks):
        with b.loop(count // size) as r:
            b.emit(LaneFold(kind, nan, memory, b.simple(r * size), size, scale, threads))


_FOLDS: dict[str, FoldOp] = {
    "sum": "sum", "abssum": "sum", "max": "max", "absmax": "max", "min": "min", "bitand": "bitand",
    "bitor": "bitor", "bitxor": "bitxor",
}  # fmt: skip


def _ranges(masks: tuple[int, ...]) -> list[tuple[int, int]]:
    """Masks as (first, twice the last) of runs in which each is twice the one before."""
    found: list[tuple[int, int]] = []
    for mask in masks:
        if found and found[-1][1] == mask:
            found[-1] = found[-1][0], mask * 2
        else:
            found.append((mask, mask * 2))
    return found


def shuffle_xor(value: Expr, mask: int) -> Expr:
    """The value of lane ^ mask; booleans travel as integers."""
    if value.dtype.kind == "bool":
        return to_bool(call("shfl_xor", (cast(value, int32), const(mask)), int32))
    return call("shfl_xor", (value, const(mask)), value.dtype)


def _through_scratch(
    op: Reduce,
    b: Builder,
    layout: FragmentLayout,
    memory: Memory,
    projected: FragmentLayout,
    exchange: Exchange,
) -> None:
    """Combine the partial folds of threads in different warps: each group writes its own, all read them
    all."""
    groups = prod(size for _, size in exchange.across)
    elements = projected.size
    dtype = memory.dtype
    scratch = b.scratch(dtype, groups * elements)
    group: Expr = const(0)
    weight = 1
    for divisor, size in exchange.across:
        group = group + b.simple(b.thread // divisor % size) * weight
        weight *= size
    group = b.bind("group", group)
    writer = _writer(b, layout, exchange)
    b.barrier("shared scratch may still be read from its last use", scratch)
    with b.loop(projected.registers, independent=True) as r:
        coordinates = [b.simple(_expr(x)) for x in projected.coordinate(b.thread, r)]
        inside = _valid(b, projected, coordinates)
        with b.when(both(writer, inside)):
            b.store(scratch, flat_index(coordinates, projected.shape) + group * elements, b.load(memory, r))
    b.barrier("parts of a row are folded in different warps")
    with b.loop(projected.registers, independent=True) as r:
        coordinates = [b.simple(_expr(x)) for x in projected.coordinate(b.thread, r)]
        with b.when(_valid(b, projected, coordinates)):
            element = b.bind("element", flat_index(coordinates, projected.shape))
            b.store(memory, r, b.load(scratch, element))
            for g in range(1, groups):
                b.store(memory, r, op.combine(b.load(memory, r), b.load(scratch, element + g * elements)))


def _expr(x: object) -> Expr:
    return const(x) if isinstance(x, int) else x  # type: ignore[return-value]


def _valid(b: Builder, layout: FragmentLayout, coordinates: list[Expr]) -> Expr | None:
    found: Expr | None = None
    for d, padded in enumerate(layout.padded_dims):
        if padded:
            found = both(found, b.simple(binary("lt", coordinates[d], const(layout.shape[d]))))
    return found


def _writer(b: Builder, layout: FragmentLayout, exchange: Exchange) -> Expr | None:
    """One thread of each group: lanes that shuffles made equal, and replicas, are left out."""
    found: Expr | None = None
    for mask in exchange.masks:
        found = both(found, binary("eq", b.simple(b.thread // mask % 2), const(0)))
    below = 1
    for d in layout.thread:
        if d.dim is None and d.size > 1:
            found = both(found, binary("eq", b.simple(b.thread // below % d.size), const(0)))
        below *= d.size
    return None if found is None else b.bind("writer", found)


def _deliver(op: Reduce, b: Builder, partial: Buffer, projected: FragmentLayout) -> None:
    """Put the folds into the destination (with its old value, unless cleared)."""
    names = loop_names(projected.rank)
    rest = [v for d, v in enumerate(names) if d != op.dim]
    shape = projected.shape
    points = [v for d, v in enumerate(names) if d != op.dim and shape[d] != 1]
    region = op.destination
    wide = iter(points)
    target = region.index(tuple(const(0) if n == 1 else next(wide) for n in region.shape))
    value: Expr = Load(
        partial, tuple(const(0) if d == op.dim else v for d, v in enumerate(names)), dtype=partial.dtype
    )
    if not op.clear:
        old = Load(region.buffer, target, dtype=region.dtype)
        value = op.combine(to_bool(old) if partial.dtype == bool_ else cast(old, partial.dtype), value)
    body = Store(region.buffer, target, cast(value, region.dtype), loc=op.loc)
    nest = Parallel(
        tuple(rest) or names,
        tuple(n for d, n in enumerate(shape) if d != op.dim) or shape,
        Seq((body,)),
        loc=op.loc,
    )
    lower_parallel(b, nest)


def _fold_to_private(op: Reduce, b: Builder, node: Node, layout: FragmentLayout) -> None:
    """T.any_of and the like: the fold of everything, in a variable of each thread."""
    memory, projected, _ = _registers(op, b, node, layout)
    if prod(projected.shape) != 1:
        b.expand(op.expand())
        return
    voted = op.kind in ("any", "all") and is_barrier(op, b.layouts, b.threads)
    if not voted:
        _between_threads(op, b, layout, memory, projected)
    target = b.local(op.destination.buffer)
    value = b.load(memory, 0)
    if voted:
        value = b.vote(value, op.kind == "all", "all threads vote")
    elif not everyone(projected):
        scratch = b.scratch(memory.dtype, 1)
        b.barrier("shared scratch may still be read from its last use", scratch)
        with b.when(binary("eq", b.thread, const(0))):
            b.store(scratch, 0, value)
        b.barrier("the fold is read by all threads")
        value = b.load(scratch, 0)
    index = b.local_index(
        op.destination.buffer, op.destination.index(tuple(const(0) for _ in op.destination.shape))
    )
    if not op.clear:
        old = b.load(target, index)
        value = op.combine(to_bool(old) if memory.dtype == bool_ else cast(old, memory.dtype), value)
    b.store(target, index, value)


__all__ = [
    "Copy",
    "Digit",
    "Var",
    "digit_terms",
    "lower_reduce",
    "merged",
    "shuffle_xor",
]
