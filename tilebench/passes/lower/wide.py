"""Wide accesses of a nest: which loads go before the body and which stores after it, and how many elements at
a time."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import TYPE_CHECKING

from tilebench.ir.expr import Expr, Load, Var, binary, const, is_const
from tilebench.ir.rewrite import variables, walk
from tilebench.ir.thread import Memory
from tilebench.ir.tile import AtomicRMW, Buffer, Store
from tilebench.layouts.digits import Digit, merged
from tilebench.passes.indices import Own, divisor, split_index
from tilebench.passes.lower.atomics import most_lanes
from tilebench.passes.lower.builder import Builder, expr_key, global_strides
from tilebench.passes.lower.fragments import Loop, Resolved

if TYPE_CHECKING:
    from tilebench.passes.lower.nest import Nest

VECTOR_BYTES = 16
TEMPORARY_BYTES = 128
"""Registers (in bytes a thread) that early loads and late stores may take at a time."""


@dataclass(frozen=True)
class Wide:
    """A load done before the body, or a store or addition done after it. memory: registers in its place."""

    access: Load | Store | AtomicRMW
    lanes: int
    memory: Memory
    direct: Resolved | None
    """The fragment register that it goes to or comes from without a temporary."""


@dataclass
class Plan:
    """Early loads by the key of the load, late stores by identity, and how many registers are handled at a
    time."""

    loads: dict[object, Wide] = field(default_factory=dict[object, Wide])
    stores: dict[int, Wide] = field(default_factory=dict[int, Wide])
    chunk: int = 1

    def all(self) -> list[Wide]:
        """Every wide access."""
        return [*self.loads.values(), *self.stores.values()]


def plan_wide(nest: Nest, without: Container[object] = ()) -> Plan:
    """Decide. Nothing is moved in a loop whose layout has no formula, or over an atomic with an order.

    without: keys of loads to leave alone.
    """
    plan = Plan(chunk=nest.loop.layout.registers)
    if nest.loop.layout.is_digits and not _keeps_order(nest):
        direct = _plan_loads(nest, plan, without)
        _plan_stores(nest, plan)
        plan.stores.update(direct)
        _set_chunk(nest, plan)
    return plan


def _keeps_order(nest: Nest) -> bool:
    """Whether an atomic of the body says what is seen before and after it, and there is more than it."""
    writes = [n for n in walk(nest.body) if isinstance(n, Store | AtomicRMW)]
    return len(writes) > 1 and any(isinstance(n, AtomicRMW) and n.order != "relaxed" for n in writes)


def _plan_loads(nest: Nest, plan: Plan, without: Container[object]) -> dict[int, Wide]:
    """Fills plan.loads; gives the stores to fragments that the loads themselves do."""
    seen = [n for n in walk(nest.body) if isinstance(n, Load)]
    keys = [expr_key(n) for n in seen]
    targets = _direct_targets(nest)
    done: dict[int, Wide] = {}
    for e, key in zip(seen, keys, strict=True):
        if key in plan.loads or key in without or not _may_hoist(nest, e):
            continue
        lanes = _lanes(nest, e.buffer, e.indices)
        if lanes == 1 and (e.buffer.scope == "shared" or nest.loop.layout.registers == 1):
            continue
        target = targets.get(key) if keys.count(key) == 1 else None
        if target is not None and target[0].extra is None and _runs(target[0].own, lanes):
            memory, _ = nest.b.fragment(target[1].buffer)
            plan.loads[key] = Wide(e, lanes, memory, target[0])
            done[id(target[1])] = Wide(target[1], lanes, memory, target[0])
        else:
            plan.loads[key] = Wide(e, lanes, nest.b.registers(f"{e.buffer.name}_read", 0, e.dtype), None)
    return done


def _direct_targets(nest: Nest) -> dict[object, tuple[Resolved, Store]]:
    """Loads that are stored to a fragment as they are, by key: no temporary is needed for them."""
    reads = {n.buffer.data for n in walk(nest.body) if isinstance(n, Load)}
    found: dict[object, tuple[Resolved, Store]] = {}
    for s in nest.top:
        if not isinstance(s, Store) or s.buffer.scope != "fragment" or not isinstance(s.value, Load):
            continue
        storage = s.buffer.data
        if s.value.dtype != s.buffer.dtype or storage in reads or len(nest.writers(s.buffer)) != 1:
            continue
        place = nest.found(s)
        if place.own.coefficients is not None and place.own.is_injective:
            found[expr_key(s.value)] = (place, s)
    return found


def _plan_stores(nest: Nest, plan: Plan) -> None:
    seen = [n for n in walk(nest.body) if isinstance(n, Load)]
    reads = {n.buffer.data for n in seen}
    for s in nest.top:
        if (
            not isinstance(s, Store | AtomicRMW)
            or isinstance(s.buffer, Memory)
            or s.buffer.scope not in ("global", "shared")
        ):
            continue
        if isinstance(s, AtomicRMW):
            if s.op != "add" or s.result is not None or s.buffer.data in reads:
                continue
        elif s.buffer.data in reads and not _reads_only_itself(s, seen):
            continue
        if len(nest.writers(s.buffer)) > 1 or not _plain_indices(nest, s.indices):
            continue
        lanes = _lanes(nest, s.buffer, s.indices)
        if isinstance(s, AtomicRMW):
            lanes = min(lanes, most_lanes(nest.b, s.buffer))
        if lanes == 1:
            continue
        source = _store_source(nest, plan, s, lanes)
        if source is None:
            source = nest.b.registers(f"{s.buffer.name}_written", 0, s.buffer.dtype), None
        plan.stores[id(s)] = Wide(s, lanes, *source)


def _store_source(
    nest: Nest, plan: Plan, s: Store | AtomicRMW, lanes: int
) -> tuple[Memory, Resolved | None] | None:
    """Registers that hold the stored values already: a fragment in order, or a hoisted load."""
    if not isinstance(s.value, Load) or s.value.dtype != s.buffer.dtype:
        return None
    early = plan.loads.get(expr_key(s.value))
    if early is not None and early.direct is None:
        return early.memory, None
    if s.value.buffer.scope == "fragment" and s.value.buffer.data not in nest.written:
        found = nest.found(s.value)
        if found.extra is None and found.own.coefficients is not None and _runs(found.own, lanes):
            return nest.b.fragment(s.value.buffer)[0], found
    return None


def _plain_indices(nest: Nest, indices: Sequence[Expr]) -> bool:
    return not any(
        isinstance(n, Load) or (isinstance(n, Var) and n in nest.local) for i in indices for n in walk(i)
    )


def _may_hoist(nest: Nest, e: Load) -> bool:
    buffer = e.buffer
    if (
        isinstance(buffer, Memory)
        or buffer.scope not in ("global", "shared")
        or not _plain_indices(nest, e.indices)
    ):
        return False
    if buffer.data in nest.written and not _only_read_before_write(nest, e):
        return False
    if not any(v in variables(i) for i in e.indices for v in nest.loop.names):
        return False
    return buffer.scope == "global" or nest.b.is_inside(buffer, e.indices)


def _only_read_before_write(nest: Nest, e: Load) -> bool:
    """`X[i] = f(X[i])` as the only statement that writes X: the old value may be loaded first."""
    writers = nest.writers(e.buffer)
    if len(writers) != 1 or not isinstance(writers[0], Store) or writers[0].buffer is not e.buffer:
        return False
    key = expr_key(e)
    readers = [n for n in walk(nest.body) if isinstance(n, Load) and n.buffer.data is e.buffer.data]
    inside = {id(n) for n in walk(writers[0])}
    place = Load(writers[0].buffer, writers[0].indices, dtype=e.dtype)
    return expr_key(place) == key and all(expr_key(n) == key and id(n) in inside for n in readers)


def _set_chunk(nest: Nest, plan: Plan) -> None:
    """Registers handled at a time, so that temporaries stay within TEMPORARY_BYTES; the temporaries get that
    size."""
    count = nest.loop.layout.registers
    temporaries = {id(w.memory): w for w in plan.all() if w.direct is None}
    each = sum(w.access.buffer.dtype.bytes for w in temporaries.values())
    lanes = max((w.lanes for w in plan.all()), default=1)
    if each and count * each > TEMPORARY_BYTES:
        most = max(TEMPORARY_BYTES, lanes * each)
        sizes = [n for n in range(lanes, count + 1, lanes) if count % n == 0 and n * each <= most]
        plan.chunk = max(sizes, default=count)
    sized = {key: nest.b.resized(w.memory, plan.chunk) for key, w in temporaries.items()}
    plan.loads = {k: _with_memory(w, sized) for k, w in plan.loads.items()}
    plan.stores = {k: _with_memory(w, sized) for k, w in plan.stores.items()}


def _lanes(nest: Nest, buffer: Buffer, indices: Sequence[Expr]) -> int:
    limit = VECTOR_BYTES // buffer.dtype.bytes
    if nest.width is not None:
        limit = min(limit, max(1, nest.width))
    return widest_access(nest.b, nest.loop, buffer, indices, limit)


def widest_access(b: Builder, loop: Loop, buffer: Buffer, indices: Sequence[Expr], limit: int) -> int:
    """Elements in one access of a thread: neighbours in the first register digits, as far as alignment is
    proved."""
    digits = merged(loop.layout.reg) if loop.layout.is_digits else ()
    splits = [split_index(i, loop.names) for i in indices]
    if not splits or any(s is None for s in splits):
        return 1
    steps_of = [s.coefficients for s in splits if s is not None]
    run: list[tuple[int, Digit]] = []
    """The register digits that step through neighbours, each with its step."""
    covered = 1
    for d in digits:
        if d.dim is None or steps_of[-1][d.dim] * d.stride != covered or any(c[d.dim] for c in steps_of[:-1]):
            break
        run.append((covered, d))
        covered *= d.size
    memory = row_steps(b, buffer)
    if not run or memory is None:
        return 1
    steps, panel = memory
    others = [*digits[len(run) :], *merged(loop.layout.thread)]
    best, v = 1, 2
    while v <= limit and covered % v == 0:
        inside = [(d, min(d.size, v // c)) for c, d in run if c < v]
        """Digits that a vector covers, and how much of them."""
        rest = [*others, *(d for c, d in run if c >= v)]
        starts = [*((d, 1) for d in rest), *((d, n) for d, n in inside if n < d.size)]
        known = dict(b.divisors)
        for k, name in enumerate(loop.names):
            known[name] = _gcd([d.stride * n for d, n in starts if d.dim == k])
        ok = all(loop.extents[d.dim] % (n * d.stride) == 0 for d, n in inside if d.dim is not None)
        ok = ok and all(steps_of[-1][d.dim] * d.stride % v == 0 for d in rest if d.dim is not None)
        ok = ok and panel % v == 0 and divisor(indices[-1], known) % v == 0
        ok = ok and all(
            divisor(i, known) * step % v == 0 for i, step in zip(indices[:-1], steps[:-1], strict=True)
        )
        if ok and buffer.scope == "global":
            extent = buffer.shape[-1]
            ok = divisor(extent, b.divisors) % v == 0 or (
                b.proves(binary("lt", indices[-1], extent))
                and b.proves(binary("ge", indices[-1], const(0, indices[-1].dtype)))
            )
        if not ok:
            break
        best, v = v, v * 2
    return best


def row_steps(b: Builder, buffer: Buffer) -> tuple[list[int], int] | None:
    """(divisors of the strides, panel width or 0) of a buffer whose last dimension is contiguous; else
    None."""
    if buffer.scope == "global":
        strides = global_strides(buffer)
        return ([divisor(s, b.divisors) for s in strides], 0) if is_const(strides[-1], 1) else None
    _, shared, _ = b.shared(buffer)
    if shared.table is not None or shared.inner != shared.rank - 1 or shared.strides[-1] != 1:
        return None
    panel = gcd(shared.panel, shared.panel_stride) if shared.panel is not None else 0
    return [abs(s) or 1 << 30 for s in shared.strides], panel


def _reads_only_itself(s: Store, loads: Sequence[Load]) -> bool:
    """Every load of the stored buffer is of the stored element, in the stored value."""
    key = [expr_key(i) for i in s.indices]
    inside = {id(n) for n in walk(s.value)}
    return all(
        n.buffer is s.buffer and id(n) in inside and [expr_key(i) for i in n.indices] == key
        for n in loads
        if n.buffer.data is s.buffer.data
    )


def _runs(own: Own, lanes: int) -> bool:
    """Whether each group of `lanes` iterations names consecutive registers."""
    return all(
        own.table[k + e] == own.table[k] + e
        for k in range(0, len(own.table), lanes)
        for e in range(lanes)
        if own.table[k] >= 0
    )


def _with_memory(w: Wide, renamed: dict[int, Memory]) -> Wide:
    return Wide(w.access, w.lanes, renamed.get(id(w.memory), w.memory), w.direct)


def _gcd(values: Iterable[int]) -> int:
    total = 0
    for x in values:
        total = gcd(total, x)
    return total or 1 << 30
