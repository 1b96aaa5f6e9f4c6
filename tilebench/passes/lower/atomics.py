"""Additions to neighbours in global memory as one access: those of a nest's registers that lie side by side
(planned with its wide stores), and atomics that the program wrote one behind the other.

Each element is added atomically and the elements in no order, before as after: only the number of accesses
changes. Which vectors there are: PTX ISA, "red" and "atom".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilebench.ir.expr import Expr, Load, Var, binary, const, is_const
from tilebench.ir.rewrite import variables, walk
from tilebench.ir.simplify import Linear, linear
from tilebench.ir.thread import Memory, VectorAtomic, VectorCopy
from tilebench.ir.tile import AtomicRMW, Buffer, Stmt
from tilebench.passes.indices import divisor
from tilebench.passes.lower.builder import Builder, both, expr_key

LANES = {"float32": 4, "float16": 8, "bfloat16": 8}
"""The most neighbours of one access, by type: 16 bytes."""
OLDER = {"float16": 2, "bfloat16": 2}
"""The same before sm_90, where two halves are one word."""


def most_lanes(b: Builder, buffer: Buffer) -> int:
    """The most neighbours of `buffer` that one access adds to; 1 where each element is an access."""
    if buffer.scope != "global":
        return 1
    return (LANES if b.target.supports("vector_atomics") else OLDER).get(buffer.dtype.name, 1)


def grouped(b: Builder, parts: Sequence[Stmt]) -> Iterator[Stmt | tuple[AtomicRMW, ...]]:
    """The statements in order, those that are one access together as a tuple."""
    k = 0
    while k < len(parts):
        run = _run(b, parts, k)
        yield run or parts[k]
        k += len(run) or 1


def _run(b: Builder, parts: Sequence[Stmt], k: int) -> tuple[AtomicRMW, ...]:
    """The additions from statement `k` on that are one access; none when it is no such addition."""
    first = parts[k]
    if not isinstance(first, AtomicRMW) or first.op != "add":
        return ()
    lanes = most_lanes(b, first.buffer)
    found: list[AtomicRMW] = []
    for s in parts[k : k + lanes]:
        if not isinstance(s, AtomicRMW) or not _follows(s, first, len(found)) or not _is_free(s, found):
            break
        found.append(s)
    while lanes > 1:
        if lanes <= len(found) and _is_aligned(b, first, lanes):
            return tuple(found[:lanes])
        lanes //= 2
    return ()


def _follows(s: AtomicRMW, first: AtomicRMW, by: int) -> bool:
    """Whether `s` adds to the element `by` further on in the row of the one of `first`."""
    if s.op != "add" or s.buffer is not first.buffer or s.order != first.order:
        return False
    if (s.result is None) != (first.result is None):
        return False
    return _beside(s, first, by)


def _beside(s: AtomicRMW | Load, first: AtomicRMW | Load, by: int) -> bool:
    if any(expr_key(a) != expr_key(b) for a, b in zip(s.indices[:-1], first.indices[:-1], strict=True)):
        return False
    mine, base = linear(s.indices[-1]), linear(first.indices[-1])
    return mine.constant - base.constant == by and _terms(mine) == _terms(base)


def _terms(form: Linear) -> dict[object, int]:
    return {expr_key(term): factor for term, factor in form.terms}


def _is_free(s: AtomicRMW, before: Sequence[AtomicRMW]) -> bool:
    """Whether the value is there before the additions: it names no old value of theirs, nor their memory."""
    old = {a.result for a in before}
    storage = s.buffer.data
    return not any(
        (isinstance(n, Var) and n in old) or (isinstance(n, Load) and n.buffer.data is storage)
        for e in (s.value, *s.indices)
        for n in walk(e)
    )


def _is_aligned(b: Builder, first: AtomicRMW | Load, lanes: int) -> bool:
    """Whether so many elements start at a multiple of their number, and are in one row or all outside."""
    from tilebench.passes.lower.wide import row_steps

    buffer = first.buffer
    memory = row_steps(b, buffer)
    if memory is None:
        return False
    steps, panel = memory
    known = dict(b.divisors)
    for v in {v for i in first.indices for v in variables(i)}:
        if v in b.names:
            known[v] = divisor(b.names[v], b.divisors)
    row, *others = (divisor(i, known) for i in reversed(first.indices))
    below = reversed(steps[:-1])
    if row % lanes or panel % lanes or any(i * s % lanes for i, s in zip(others, below, strict=True)):
        return False
    ends = (first.indices[-1], first.indices[-1] + (lanes - 1))
    return divisor(buffer.shape[-1], b.divisors) % lanes == 0 or (
        b.proves(binary("ge", ends[0], const(0, ends[0].dtype)))
        and b.proves(binary("lt", ends[1], buffer.shape[-1]))
    )


def _load_together(b: Builder, run: Sequence[AtomicRMW], into: Memory) -> bool:
    """Load the values of a run by one access, when they are neighbours in memory; False: nothing emitted."""
    loads = [s.value for s in run if isinstance(s.value, Load)]
    first = loads[0] if len(loads) == len(run) else None
    if first is None or isinstance(first.buffer, Memory) or first.buffer.scope not in ("global", "shared"):
        return False
    if any(e.buffer is not first.buffer or not _beside(e, first, k) for k, e in enumerate(loads)):
        return False
    if b.nest is not None and any(b.nest.replaced_load(e) is not None for e in loads):
        return False
    if not _is_aligned(b, first, len(run)):
        return False
    if first.buffer.scope == "shared":
        memory, index = b.shared_element(first.buffer, first.indices)
        b.emit(VectorCopy(into, const(0), memory, index, len(run)))
        return True
    if not is_const(b.outside_value(first.buffer), 0) and not b.is_inside(first.buffer, first.indices):
        return False
    memory, index, inside = b.global_element(first.buffer, first.indices)
    b.emit(VectorCopy(into, const(0), memory, index, len(run), inside, zero_fill=inside is not None))
    return True


def add_together(b: Builder, run: Sequence[AtomicRMW], one: Expr | None, shared: bool) -> None:
    """Emit a run. one: the condition under which this thread does it; shared: all threads want old values."""
    first = run[0]
    dtype, lanes = first.buffer.dtype, len(run)
    values = b.registers(f"{first.buffer.name}_added", lanes, dtype)
    if not _load_together(b, run, values):
        for k, s in enumerate(run):
            b.store(values, k, b.expr(s.value))
    memory, index, inside = b.global_element(first.buffer, first.indices)
    if first.result is None:
        with b.when(both(one, inside)):
            b.emit(VectorAtomic(memory, index, values, const(0), lanes, first.order))
        return
    old = b.registers(f"{first.buffer.name}_before", lanes, dtype)
    with b.when(both(one, inside)):
        b.emit(VectorAtomic(memory, index, values, const(0), lanes, first.order, old, const(0)))
    if shared and one is not None and b.threads > 1:
        scratch = b.scratch(dtype, lanes)
        b.barrier("shared scratch may still be read from its last use", scratch)
        with b.when(one):
            for k in range(lanes):
                b.store(scratch, k, b.load(old, k))
        b.barrier("the old values are read by all threads")
        for k in range(lanes):
            b.store(old, k, b.load(scratch, k))
    for k, s in enumerate(run):
        assert s.result is not None, "all of a run have old values, or none"
        b.names[s.result] = b.bind(s.result.name, b.load(old, k))


__all__ = ["LANES", "add_together", "grouped", "most_lanes"]
