"""The largest and smallest of float16 and bfloat16 found two at a time, in the type that they have.

A maximum rounds nothing, so the halves need not become floats: neighbours in a thread's registers are one
word, an instruction folds two words, and rows travel two in a word between lanes. Sums stay in float32, where
the specification has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilebench.ir.expr import Expr, const
from tilebench.ir.folds import PAIRED, FoldPairs
from tilebench.ir.thread import Memory
from tilebench.layouts import FragmentLayout
from tilebench.ops.reduce import Reduce
from tilebench.passes.lower.builder import Builder

Digits = Sequence[tuple[int, bool]]
"""(size, whether the fold takes it away) of the digits of a register number, the fastest first."""


def takes_halves(op: Reduce) -> bool:
    """Whether the fold can run in the half-precision type of its source and result."""
    same = op.source.dtype == op.destination.dtype and op.source.dtype.name in PAIRED
    return same and op.kind in ("max", "min", "absmax") and op.source.is_whole


def digits_of(layout: FragmentLayout, dim: int) -> Digits | None:
    """The register digits of a fragment; None where they do not pair."""
    if (
        not layout.is_digits
        or any(layout.padded_dims)
        or any(d.dim is None and d.size > 1 for d in layout.reg)
    ):
        return None
    return paired([(d.size, d.dim == dim) for d in layout.reg])


def paired(digits: Digits) -> Digits | None:
    """The digits without those of size 1; None when the first is odd, so that a word is no two neighbours."""
    wide = [(size, folded) for size, folded in digits if size > 1]
    return wide if wide and wide[0][0] % 2 == 0 else None


def fold_halves(op: Reduce, b: Builder, source: Memory, digits: Digits, into: Memory) -> None:
    """into[k] = the fold of the registers of `source` whose kept digits are k."""
    kept = prod(size for size, folded in digits if not folded)
    (first, along), *others = digits
    words = prod(size for size, _ in digits) // 2
    start = const(op.identity, source.dtype)
    target = b.registers("pairs", 2 * kept, source.dtype) if along else into
    with b.loop(2 * kept if along else kept, independent=True) as r:
        b.store(target, r, start)
    kind = "min" if op.kind == "min" else "max"
    with b.loop(words, name="p") as p:
        place, below, weight = const(0), 1, 2
        for size, folded in ((first // 2, along), *others):
            if not folded:
                place = place + p // below % size * weight
                weight *= size
            below *= size
        at: Expr = b.simple(place)
        b.emit(FoldPairs(kind, op.nan_propagate, op.kind == "absmax", target, at, source, b.simple(p * 2)))
    if along:
        _both_halves(op, b, target, kept, into)


def _both_halves(op: Reduce, b: Builder, pairs: Memory, count: int, into: Memory) -> None:
    """into[k] = the fold of the two halves of pair k; two pairs at a time where they are even."""
    kind = "min" if op.kind == "min" else "max"
    if count % 2:
        with b.loop(count, independent=True) as r:
            low, high = b.load(pairs, b.simple(r * 2)), b.load(pairs, b.simple(r * 2 + 1))
            b.store(into, r, op.combine(low, high))
        return
    others = b.registers("others", count, into.dtype)
    with b.loop(count, independent=True) as r:
        b.store(into, r, b.load(pairs, b.simple(r * 2)))
        b.store(others, r, b.load(pairs, b.simple(r * 2 + 1)))
    with b.loop(count // 2, name="p") as p:
        at = b.simple(p * 2)
        b.emit(FoldPairs(kind, op.nan_propagate, False, into, at, others, at))


def lower_private_halves(op: Reduce, b: Builder) -> bool:
    """The fold of an array of each thread, when it can be had in pairs; False when nothing was emitted."""
    source, destination = op.source, op.destination
    private = ("local", "var")
    if not takes_halves(op) or source.buffer.scope not in private or destination.buffer.scope not in private:
        return False
    digits = paired([(n, d == op.dim) for d, n in reversed(list(enumerate(source.shape)))])
    if digits is None or not destination.is_whole:
        return False
    count = prod(size for size, folded in digits if not folded)
    folded = b.registers("fold", count, source.dtype)
    fold_halves(op, b, b.local(source.buffer), digits, folded)
    target = b.local(destination.buffer)
    with b.loop(count) as r:
        value = b.load(folded, r)
        b.store(target, r, value if op.clear else op.combine(b.load(target, r), value))
    return True


__all__ = ["digits_of", "fold_halves", "lower_private_halves", "takes_halves"]
