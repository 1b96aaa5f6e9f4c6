"""A Parallel nest as code of one thread: a loop over the registers of its layout.

The nest runs in up to four parts, all over the same registers r:

    fragments that the thread does not hold itself -> shared scratch          (only when there are such)
    for r: loads from global and shared memory, as wide as the layout allows  -> temporary registers
    for r: the body, element by element, between registers
    for r: wide stores                                                        (and scratch -> fragments)

Iterations are independent, so taking the loads first changes nothing; what the body writes is never loaded early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from tilebench.errors import LayoutError, Loc
from tilebench.ir.expr import (
    Binary,
    Const,
    Expr,
    Load,
    Select,
    Var,
    binary,
    cast,
    const,
    int_value,
    is_const,
    select,
)
from tilebench.ir.rewrite import variables, walk
from tilebench.ir.simplify import Linear as LinearForm
from tilebench.ir.simplify import from_linear, linear
from tilebench.ir.thread import Memory, VectorCopy
from tilebench.ir.tile import (
    Assert,
    AtomicRMW,
    Bind,
    Break,
    Buffer,
    Continue,
    Evaluate,
    For,
    If,
    Parallel,
    Print,
    Seq,
    Stmt,
    Store,
    While,
)  # fmt: skip
from tilebench.layouts import Digit, FragmentLayout
from tilebench.layouts.digits import digit_terms, merged
from tilebench.passes.indices import (
    Own,
    divisor,
    evaluate,
    flat_index,
    opaque_register,
    own_registers,
    register_expr,
    split_index,
)  # fmt: skip
from tilebench.passes.lower.builder import Builder, both, expr_key, global_strides, storage_of
from tilebench.passes.place_rules import flattened, loop_layout
from tilebench.passes.stages import Reason

VECTOR_BYTES = 16
TEMPORARY_BYTES = 128
"""Registers (in bytes a thread) that hoisted loads and gathered stores may take at a time."""


@dataclass(frozen=True)
class Resolved:
    """Where an access finds its element: the thread's own register, plus an offset that the layout does not know."""

    own: Own
    extra: Expr | None


@dataclass(frozen=True)
class Wide:
    """A load done before the body, or a store done after it. memory: the registers that stand for it."""

    access: Load | Store
    lanes: int
    memory: Memory
    direct: Resolved | None
    """The fragment register that it goes to or comes from without a temporary."""


def lower_parallel(b: Builder, nest: Parallel, layout: FragmentLayout | None = None) -> None:
    """Lower a Parallel nest over the threads by its layout (chosen by passes/place.py when not given)."""
    names, extents, body = flattened(nest)
    if b.nest is not None:
        _serially(b, names, extents, body)
        return
    if layout is None:
        layout = b.placed.loops.get(nest)
        if layout is None:
            layout, _ = loop_layout(nest, b.layouts, b.threads)
    with b.at(nest.loc):
        Nest(b, names, extents, body, layout, nest.coalesced_width).run()


def _serially(b: Builder, names: Sequence[Var], extents: Sequence[int], body: Stmt) -> None:
    assert b.nest is not None
    for name, extent in reversed(list(zip(names, extents, strict=True))):
        body = For(name, const(0), const(extent), body)
    b.nest.stmt(body)


class Nest:
    """One nest being lowered."""

    def __init__(
        self,
        b: Builder,
        names: Sequence[Var],
        extents: Sequence[int],
        body: Stmt,
        layout: FragmentLayout,
        width: int | None,
    ) -> None:
        assert layout.shape == tuple(extents), f"loop layout of {layout.shape} for a nest of {extents}"
        assert layout.threads == b.threads, (
            f"loop layout over {layout.threads} threads in a block of {b.threads}"
        )
        self.b = b
        self.names = tuple(names)
        self.extents = tuple(extents)
        self.layout = layout
        self.width = width
        self.digits = merged(layout.reg) if layout.is_digits else (Digit(layout.registers, None),)
        self.body = body
        self.parent = b.body
        self.local: set[Var] = {n.var for n in walk(self.body) if isinstance(n, For | Bind)}
        self.local |= {v for n in walk(self.body) if isinstance(n, Parallel) for v in n.vars}
        self.local |= {n.result for n in walk(self.body) if isinstance(n, AtomicRMW) and n.result is not None}
        self.registers: Expr = const(0)
        """The register of the loop at which code is being written."""
        self.slot: Expr = const(0)
        """Its place in the temporaries of the current chunk."""
        self.loads: dict[object, Wide] = {}
        self.stores: dict[int, Wide] = {}
        self.resolved: dict[object, Resolved] = {}
        self.spilled: dict[Buffer, Memory] = {}
        self.written: set[Buffer] = {
            storage_of(n.buffer) for n in walk(self.body) if isinstance(n, Store | AtomicRMW)
        }
        self.strides = tuple(
            _gcd(d.stride for d in (*layout.reg, *layout.thread) if d.dim == k) for k in range(len(extents))
        )

    # -- the whole of it ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Emit the nest."""
        b = self.b
        if any(n == 0 for n in self.extents):
            return
        before = {v: b.ranges.get(v) for v in self.names}
        for v, n in zip(self.names, self.extents, strict=True):
            b.ranges[v] = (0, n - 1)
        self._resolve_all()
        self._spill()
        b.nest = self
        try:
            self._plan_wide()
            chunk = self._chunk()
            count = self.layout.registers // chunk
            with b.loop(count, name="c") as c:
                if isinstance(c, Var):
                    self.local.add(c)
                self._load_loops(c, chunk)
                self._compute_loop(c, chunk)
                self._store_loops(c, chunk)
        finally:
            b.nest = None
            for v in self.names:
                b.names.pop(v, None)
                if (old := before[v]) is not None:
                    b.ranges[v] = old
        self._unspill()

    @contextmanager
    def _at(self, register: Expr, slot: Expr) -> Iterator[None]:
        """Inside, the nest's variables are the coordinates of `register` of this thread."""
        register = self.b.simple(register)
        self.registers, self.slot = register, self.b.simple(slot)
        for v, x in zip(self.names, self._coordinates(register), strict=True):
            self.b.names[v] = x
        yield

    def _coordinates(self, register: Expr) -> list[Expr]:
        b, layout = self.b, self.layout
        rank = layout.rank
        if not layout.is_digits:
            layout.coordinate(b.thread, register)  # raises: a table has no formula
        out: list[Expr] = [const(0)] * rank
        for dim, term in digit_terms(b.thread, layout.thread):
            out[dim] = out[dim] + b.simple(term)
        root = b.root
        out = [b.bind_above(root, "ijkl"[d % 4] + "0", x) for d, x in enumerate(out)]
        for dim, term in digit_terms(register, layout.reg):
            out[dim] = out[dim] + term
        return [b.simple(x) for x in out]

    def _inside(self) -> Expr | None:
        """Whether the current register is an iteration at all (ragged shapes have padding)."""
        found: Expr | None = None
        for d, padded in enumerate(self.layout.padded_dims):
            if padded:
                test = self.b.simple(binary("lt", self.b.names[self.names[d]], const(self.extents[d])))
                found = both(found, None if is_const(test, True) else test)
        return found

    def _owner(self) -> Expr | None:
        """Whether this thread and register do the memory writes of the iteration (one of its holders must)."""
        b = self.b
        if self.layout.replication <= 1:
            return None
        zeros = self.layout.is_owner(b.thread)
        if zeros is None:
            return None
        found: Expr | None = None
        for x in zeros:
            found = both(found, b.simple(binary("eq", x, const(0))))
        if found is not None:
            found = b.bind_above(b.root, "owner", found)
        if not all(self.layout.owner_registers_by_digits):
            below = 1
            for d in self.layout.reg:
                if d.dim is None and d.size > 1:
                    digit = b.simple(self.registers // below % d.size)
                    found = both(found, binary("eq", digit, const(0)))
                below *= d.size
        return found

    def hoist(self, e: Expr) -> Expr:
        """`e` with its parts that do not change inside the nest named before it."""
        if isinstance(e, Const | Var):
            return e
        if any(isinstance(n, Load) for n in walk(e)):
            return e
        changing = variables(e) & self.local
        if not changing:
            return self.b.bind_above(self._home(e), "at", e)
        if e.dtype.kind == "bool" or e.dtype.is_float:
            return e
        form = linear(e)
        fixed = tuple((t, c) for t, c in form.terms if not variables(t) & self.local)
        if not fixed or (len(fixed) == 1 and fixed[0][1] == 1 and isinstance(fixed[0][0], Var)):
            return e
        base = self.hoist(from_linear(LinearForm(fixed, 0)))
        rest = LinearForm(tuple((t, c) for t, c in form.terms if variables(t) & self.local), form.constant)
        return base + from_linear(rest)

    def compared(self, e: Binary) -> Expr:
        """A comparison of integers with what changes inside the nest on its left, the rest on its right."""
        form = linear(e.left - e.right)
        terms = [(t, c, bool(variables(t) & self.local)) for t, c in form.terms]
        if not all(isinstance(t, Var | Binary) for t, _, _ in terms) or not any(
            moving for _, _, moving in terms
        ):
            return binary(e.op, self.hoist(e.left), self.hoist(e.right))
        left = from_linear(LinearForm(tuple((t, c) for t, c, moving in terms if moving), 0))
        fixed = from_linear(
            LinearForm(tuple((t, -c) for t, c, moving in terms if not moving), -form.constant)
        )
        return binary(e.op, left, self.hoist(self.b.simple(fixed)))

    def _home(self, e: Expr) -> list[Stmt]:
        """The outermost body where everything that `e` names is known: the top for what only names the thread."""
        return self.b.root if variables(e) <= self.b.root_names else self.parent

    # -- fragments ---------------------------------------------------------------------------------------------------

    def _resolve_all(self) -> None:
        lost: set[Buffer] = set()
        for node in walk(self.body):
            if (
                isinstance(node, Load | Store | AtomicRMW)
                and node.buffer.scope == "fragment"
                and not isinstance(node.buffer, Memory)
            ):
                key = (node.buffer.id, *(expr_key(i) for i in node.indices))
                if key in self.resolved:
                    continue
                found = self._resolve(node.buffer, node.indices)
                if found is None:
                    lost.add(storage_of(node.buffer))
                else:
                    self.resolved[key] = found
        start = 0
        for buffer in sorted(lost, key=lambda x: x.id):
            memory = self.b.scratch(buffer.dtype, _count(buffer), start)
            start = -(-(start + _count(buffer) * buffer.dtype.bytes) // 16) * 16
            self.spilled[buffer] = memory
            self.b.conversions.append(
                Reason(
                    f"{buffer.name} goes through shared scratch here: threads need elements that others hold",
                    self.b.loc,
                )
            )

    def _resolve(self, buffer: Buffer, indices: Sequence[Expr]) -> Resolved | None:
        held = self.b.layouts.get(buffer)
        assert isinstance(held, FragmentLayout), f"{buffer.name} has no layout"
        affine: list[tuple[tuple[int, ...], int]] = []
        extra: Expr | None = None
        for dim, index in enumerate(indices or (const(0),)):
            index = self.b.simple(index)
            parts = split_index(index, self.names)
            if parts is None:
                return self._resolve_by_values(buffer, indices)
            if parts.rest is None:
                affine.append(parts.affine)
                continue
            named = any(parts.coefficients)
            unit, rest = 1, parts.rest
            if named:
                reach = parts.constant + sum(
                    c * (n - 1) for c, n in zip(parts.coefficients, self.extents, strict=True) if c > 0
                )
                if parts.constant < 0 or any(c < 0 for c in parts.coefficients):
                    return None
                d = divisor(rest, self.b.divisors)
                unit = d & -d
                if unit <= reach:
                    return None
                affine.append(parts.affine)
            else:
                rest = rest + parts.constant
                affine.append(((0,) * len(self.names), 0))
            more = opaque_register(held, dim, self.b.simple(rest), unit)
            if more is None:
                return None
            for v in variables(rest):
                self.b.unroll_wanted.add(v)
            extra = more if extra is None else extra + more
        own = own_registers(held, self.layout, tuple(affine))
        return None if own is None else Resolved(own, extra)

    def _resolve_by_values(self, buffer: Buffer, indices: Sequence[Expr]) -> Resolved | None:
        import numpy as np

        grids = np.indices(self.extents)
        values = dict(zip(self.names, grids, strict=True))
        found = [evaluate(i, values) for i in indices]
        if any(f is None for f in found):
            return None
        access = np.stack([np.broadcast_to(np.asarray(f), self.extents) for f in found], axis=-1)
        held = self.b.layouts[buffer]
        assert isinstance(held, FragmentLayout)
        own = own_registers(held, self.layout, access)
        return None if own is None else Resolved(own, None)

    def _found(self, node: Load | Store | AtomicRMW) -> Resolved | None:
        if storage_of(node.buffer) in self.spilled:
            return None
        return self.resolved[(node.buffer.id, *(expr_key(i) for i in node.indices))]

    def _register(self, found: Resolved) -> Expr:
        index = register_expr(found.own, self._own_digits(), self.registers)
        if found.extra is not None:
            index = index + self.b.expr(found.extra)
        return self.b.simple(index)

    def _own_digits(self) -> tuple[Digit, ...]:
        return self.layout.reg if self.layout.is_digits else self.digits

    def fragment_load(self, e: Load) -> Expr:
        """A fragment element in the current iteration."""
        found = self._found(e)
        if found is None:
            memory = self.spilled[storage_of(e.buffer)]
            index = self.hoist(self.b.simple(self.b.expr(flat_index(e.indices, e.buffer.static_shape))))
            return Load(memory, (index,), dtype=e.dtype, loc=e.loc)
        memory, _ = self.b.fragment(e.buffer)
        return Load(memory, (self._register(found),), dtype=e.dtype, loc=e.loc)

    def _spill(self) -> None:
        from tilebench.passes.lower.convert import spill

        kept = [(buffer, memory) for buffer, memory in self.spilled.items() if not self._overwrites(buffer)]
        for k, (buffer, memory) in enumerate(kept):
            spill(self.b, buffer, memory, first=k == 0, last=k == len(kept) - 1)
        if self.spilled and not kept:
            self.b.barrier("shared scratch may still be read from its last use")

    def _overwrites(self, buffer: Buffer) -> bool:
        """Whether the nest writes every element of a fragment and reads none, so that its old value does not matter."""
        import numpy as np

        if any(isinstance(n, Load | AtomicRMW) and storage_of(n.buffer) is buffer for n in walk(self.body)):
            return False
        covered = np.zeros(_count(buffer), bool)
        for store, loops in _certain_stores(self.body, ()):
            if storage_of(store.buffer) is not buffer:
                continue
            shape = (*self.extents, *(n for _, n in loops))
            if np.prod(shape) > 1 << 22:
                return False
            grids = np.indices(shape, sparse=True)
            values = dict(zip((*self.names, *(v for v, _ in loops)), grids, strict=True))
            found = evaluate(flat_index(store.indices, store.buffer.static_shape), values)
            if found is not None:
                flat = np.broadcast_to(found, shape).ravel()
                covered[flat[(flat >= 0) & (flat < len(covered))]] = True
        return bool(covered.all())

    def _unspill(self) -> None:
        from tilebench.passes.lower.convert import unspill

        touched = [x for x in self.spilled if x in self.written]
        for k, buffer in enumerate(touched):
            unspill(self.b, buffer, self.spilled[buffer], first=k == 0)

    # -- wide accesses -----------------------------------------------------------------------------------------------

    def lanes(self, buffer: Buffer, indices: Sequence[Expr]) -> int:
        """Elements that one access of the thread may move: the innermost register digit, as far as alignment is proved."""
        limit = VECTOR_BYTES // buffer.dtype.bytes
        if self.width is not None:
            limit = min(limit, max(1, self.width))
        return widest_access(self.b, buffer, indices, self.names, self.extents, self.layout, limit)

    def _plan_wide(self) -> None:
        if not self.layout.is_digits:
            return
        count = self.layout.registers
        top = self.body.body if isinstance(self.body, Seq) else (self.body,)
        reads = {storage_of(n.buffer) for n in walk(self.body) if isinstance(n, Load)}
        direct_loads: dict[object, tuple[Resolved, Store]] = {}
        for s in top:
            if (
                isinstance(s, Store) and s.buffer.scope == "fragment" and isinstance(s.value, Load)
                and s.value.dtype == s.buffer.dtype and storage_of(s.buffer) not in reads and storage_of(s.buffer) not in self.spilled
                and sum(isinstance(n, Store | AtomicRMW) and storage_of(n.buffer) is storage_of(s.buffer) for n in walk(self.body)) == 1
            ):  # fmt: skip
                found = self._found(s)
                if found is not None and found.own.coefficients is not None and found.own.is_injective:
                    direct_loads[expr_key(s.value)] = (found, s)
        seen = [n for n in walk(self.body) if isinstance(n, Load)]
        keys = [expr_key(n) for n in seen]
        for e, key in zip(seen, keys, strict=True):
            if key in self.loads or not self._may_hoist(e):
                continue
            lanes = self.lanes(e.buffer, e.indices)
            if lanes == 1 and (e.buffer.scope == "shared" or count == 1):
                continue
            direct = direct_loads.get(key)
            if (
                direct is not None
                and keys.count(key) == 1
                and _runs(direct[0].own, lanes)
                and direct[0].extra is None
            ):
                memory, _ = self.b.fragment(direct[1].buffer)
                self.loads[key] = Wide(e, lanes, memory, direct[0])
                self.stores[id(direct[1])] = Wide(direct[1], lanes, memory, direct[0])
            else:
                self.loads[key] = Wide(e, lanes, self.b.registers(f"{e.buffer.name}_read", 0, e.dtype), None)
        for s in top:
            if (
                not isinstance(s, Store)
                or s.buffer.scope not in ("global", "shared")
                or isinstance(s.buffer, Memory)
            ):
                continue
            if storage_of(s.buffer) in reads and not _reads_only_itself(s, seen):
                continue
            same = [
                n
                for n in walk(self.body)
                if isinstance(n, Store | AtomicRMW) and storage_of(n.buffer) is storage_of(s.buffer)
            ]
            if len(same) > 1 or not self._plain_indices(s.indices):
                continue
            lanes = self.lanes(s.buffer, s.indices)
            if lanes == 1:
                continue
            source = self._store_source(s, lanes)
            if source is None:
                self.stores[id(s)] = Wide(
                    s, lanes, self.b.registers(f"{s.buffer.name}_written", 0, s.buffer.dtype), None
                )
            else:
                self.stores[id(s)] = Wide(s, lanes, source[0], source[1])

    def _store_source(self, s: Store, lanes: int) -> tuple[Memory, Resolved | None] | None:
        """Registers that hold the stored values already: a fragment in order, or a hoisted load."""
        if not isinstance(s.value, Load) or s.value.dtype != s.buffer.dtype:
            return None
        early = self.loads.get(expr_key(s.value))
        if early is not None and early.direct is None:
            return early.memory, None
        if s.value.buffer.scope == "fragment" and storage_of(s.value.buffer) not in self.written:
            found = self._found(s.value)
            if (
                found is not None
                and found.extra is None
                and found.own.coefficients is not None
                and _runs(found.own, lanes)
            ):
                return self.b.fragment(s.value.buffer)[0], found
        return None

    def _plain_indices(self, indices: Sequence[Expr]) -> bool:
        return not any(
            isinstance(n, Load) or (isinstance(n, Var) and n in self.local) for i in indices for n in walk(i)
        )

    def _may_hoist(self, e: Load) -> bool:
        buffer = e.buffer
        if (
            isinstance(buffer, Memory)
            or buffer.scope not in ("global", "shared")
            or not self._plain_indices(e.indices)
        ):
            return False
        if storage_of(buffer) in self.written and not self._only_read_before_write(e):
            return False
        if not any(v in variables(i) for i in e.indices for v in self.names):
            return False
        return buffer.scope == "global" or self.b.inside_bounds(buffer, e.indices) is None

    def _only_read_before_write(self, e: Load) -> bool:
        """`X[i] = f(X[i])` as the only statement that writes X: the old value may be loaded first."""
        writers = [
            n
            for n in walk(self.body)
            if isinstance(n, Store | AtomicRMW) and storage_of(n.buffer) is storage_of(e.buffer)
        ]
        if len(writers) != 1 or not isinstance(writers[0], Store) or writers[0].buffer is not e.buffer:
            return False
        key = expr_key(e)
        readers = [
            n for n in walk(self.body) if isinstance(n, Load) and storage_of(n.buffer) is storage_of(e.buffer)
        ]
        inside = {id(n) for n in walk(writers[0])}
        place = Load(writers[0].buffer, writers[0].indices, dtype=e.dtype)
        return expr_key(place) == key and all(expr_key(n) == key and id(n) in inside for n in readers)

    def _chunk(self) -> int:
        """Registers handled at a time, so that temporaries stay within TEMPORARY_BYTES."""
        count = self.layout.registers
        temporaries = {
            id(w.memory): w for w in (*self.loads.values(), *self.stores.values()) if w.direct is None
        }
        each = sum(w.access.buffer.dtype.bytes for w in temporaries.values())
        lanes = max((w.lanes for w in (*self.loads.values(), *self.stores.values())), default=1)
        chunk = count
        if each and count * each > TEMPORARY_BYTES and self.layout.is_digits:
            sizes = [
                n
                for n in range(lanes, count + 1, lanes)
                if count % n == 0 and n * each <= max(TEMPORARY_BYTES, lanes * each)
            ]
            chunk = max(sizes, default=count)
        renamed: dict[int, Memory] = {}
        for w in temporaries.values():
            self.b.registers_used = [m for m in self.b.registers_used if m is not w.memory]
            renamed[id(w.memory)] = self.b.registers(w.memory.name, chunk, w.memory.dtype)
        self.loads = {k: _with_memory(w, renamed) for k, w in self.loads.items()}
        self.stores = {k: _with_memory(w, renamed) for k, w in self.stores.items()}
        return chunk

    def replaced_load(self, e: Load) -> Expr | None:
        """The register that holds a load done early, if it was."""
        early = self.loads.get(expr_key(e)) if self.loads else None
        if early is None:
            return None
        if early.direct is not None:
            return Load(early.memory, (self._register(early.direct),), dtype=e.dtype)
        return Load(early.memory, (self.slot,), dtype=e.dtype)

    def _vectors(self, c: Expr, chunk: int, lanes: int) -> Iterator[None]:
        with self.b.loop(chunk // lanes, independent=True, name="v") as v:
            if isinstance(v, Var):
                self.local.add(v)
            with self._at(c * chunk + v * lanes, v * lanes):
                yield

    def _load_loops(self, c: Expr, chunk: int) -> None:
        b = self.b
        for w in self.loads.values():
            e = w.access
            assert isinstance(e, Load)
            for _ in self._vectors(c, chunk, w.lanes):
                register = self.slot if w.direct is None else self._register(w.direct)
                if e.buffer.scope == "global":
                    memory, index, inside = b.global_element(e.buffer, e.indices)
                else:
                    (memory, index), inside = b.shared_element(e.buffer, e.indices), None
                outside = (
                    b.outside_value(e.buffer) if e.buffer.scope == "global" and inside is not None else None
                )
                predicate = both(self._inside(), inside)
                if storage_of(e.buffer) in self.written:  # read and written by one of its holders
                    predicate = both(predicate, self._owner())
                if outside is None or is_const(outside, 0):
                    b.emit(
                        VectorCopy(
                            w.memory,
                            register,
                            memory,
                            index,
                            w.lanes,
                            predicate,
                            zero_fill=predicate is not None,
                        )
                    )
                    continue
                with b.loop(w.lanes, independent=True, name="e") as k:
                    b.store(w.memory, register + k, outside)
                b.emit(VectorCopy(w.memory, register, memory, index, w.lanes, predicate))

    def _store_loops(self, c: Expr, chunk: int) -> None:
        b = self.b
        for w in self.stores.values():
            s = w.access
            if s.buffer.scope == "fragment":
                continue
            for _ in self._vectors(c, chunk, w.lanes):
                register = self.slot if w.direct is None else self._register(w.direct)
                if s.buffer.scope == "global":
                    memory, index, inside = b.global_element(s.buffer, s.indices)
                else:
                    (memory, index), inside = b.shared_element(s.buffer, s.indices), None
                predicate = both(both(self._inside(), self._owner()), inside)
                b.emit(VectorCopy(memory, index, w.memory, register, w.lanes, predicate))

    # -- the body ----------------------------------------------------------------------------------------------------

    def _compute_loop(self, c: Expr, chunk: int) -> None:
        b = self.b
        needs_constants = any(f.own.coefficients is None for f in self.resolved.values())
        if needs_constants:
            for k in range(chunk):
                with self._at(c * chunk + k, const(k)):
                    self._element()
            return
        with b.loop(chunk, independent=self._independent()) as r:
            if isinstance(r, Var):
                self.local.add(r)
            with self._at(c * chunk + r, r):
                self._element()

    def _element(self) -> None:
        with self.b.when(None if self._only_fills else self._inside()):
            self.stmt(self.body)

    @cached_property
    def _only_fills(self) -> bool:
        """Whether the body only puts values made of no memory into the loop's own registers: padding may have them too."""
        top = self.body.body if isinstance(self.body, Seq) else (self.body,)
        for s in top:
            if not isinstance(s, Store) or s.buffer.scope != "fragment" or isinstance(s.buffer, Memory):
                return False
            found = self._found(s)
            if found is None or found.extra is not None or self.b.layouts.get(s.buffer) != self.layout:
                return False
            visits_in_order = len(s.indices) == len(self.names) and all(
                a is b for a, b in zip(s.indices, self.names, strict=True)
            )
            if not visits_in_order or any(isinstance(n, Load) for n in walk(s.value)):
                return False
        return True

    def _independent(self) -> bool:
        for n in walk(self.body):
            if isinstance(n, AtomicRMW | Print | Assert | Evaluate | While | Break | Continue):
                return False
            if isinstance(n, Store):
                if n.buffer.scope in ("local", "var"):
                    return False
                if n.buffer.scope == "fragment" and (found := self._found(n)) is not None:
                    if not found.own.is_injective or found.extra is not None:
                        return False
        return True

    def stmt(self, s: Stmt) -> None:
        """A statement of the nest's body in the current iteration."""
        b = self.b
        with b.at(s.loc):
            match s:
                case Seq():
                    for part in s.body:
                        self.stmt(part)
                case Store():
                    self._store(s)
                case AtomicRMW():
                    self._atomic(s)
                case Bind():
                    b.emit(Bind(s.var, b.expr(s.value), loc=s.loc))
                case If():
                    self._if(s)
                case For():
                    from tilebench.passes.lower.statements import lower_for

                    lower_for(b, s, self.stmt)
                case Parallel():
                    lower_parallel(b, s)
                case While():
                    condition = b.expr(s.condition)
                    with b.inside() as body:
                        self.stmt(s.body)
                    b.emit(While(condition, Seq(tuple(body))))
                case Break() | Continue():
                    b.emit(s)
                case Evaluate():
                    b.emit(Evaluate(b.expr(s.value)))
                case Assert():
                    b.emit(Assert(b.condition(s.condition), s.message))
                case Print():
                    with b.when(self._owner()):
                        b.emit(Print(s.message, tuple(b.expr(v) for v in s.values)))
                case _:
                    raise LayoutError(
                        "TB308",
                        f"{type(s).__name__} inside a T.Parallel loop",
                        at=s.loc,
                        why="the iterations of a parallel loop belong to single threads; tile ops need the whole block",
                        fix="move it out of the loop",
                    )

    def _if(self, s: If) -> None:
        b = self.b
        condition = b.condition(s.condition)
        if isinstance(condition, Const):
            if condition.value:
                self.stmt(s.then)
            elif s.orelse is not None:
                self.stmt(s.orelse)
            return
        with b.inside() as then, b.knowing(s.condition):
            self.stmt(s.then)
        orelse: list[Stmt] = []
        if s.orelse is not None:
            with b.inside() as orelse:
                self.stmt(s.orelse)
        if then or orelse:
            b.emit(If(condition, Seq(tuple(then)), Seq(tuple(orelse)) if orelse else None))

    def _store(self, s: Store) -> None:
        b = self.b
        if isinstance(s.buffer, Memory):
            with b.when(self._owner() if s.buffer.space == "shared" else None):
                b.store(s.buffer, self.hoist(b.simple(b.expr(s.indices[0]))), b.expr(s.value))
            return
        late = self.stores.get(id(s))
        if late is not None:
            if late.direct is None and not self._is_early(s, late):
                b.store(late.memory, self.slot, b.expr(s.value))
            return
        match s.buffer.scope:
            case "fragment":
                found = self._found(s)
                if found is not None:
                    memory, _ = b.fragment(s.buffer)
                    b.store(memory, self._register(found), b.expr(s.value))
                    return
                index = self.hoist(b.simple(b.expr(flat_index(s.indices, s.buffer.static_shape))))
                with b.when(self._owner()):
                    b.store(self.spilled[storage_of(s.buffer)], index, b.expr(s.value))
            case "global":
                memory, index, inside = b.global_element(s.buffer, s.indices)
                with b.when(both(self._owner(), inside)):
                    b.store(memory, index, b.expr(s.value))
            case "shared":
                memory, index = b.shared_element(s.buffer, s.indices)
                with b.when(self._owner()):
                    b.store(memory, index, b.expr(s.value))
            case _:
                b.store(b.local(s.buffer), b.local_index(s.buffer, s.indices), b.expr(s.value))

    def _is_early(self, s: Store, late: Wide) -> bool:
        return isinstance(s.value, Load) and any(w.memory is late.memory for w in self.loads.values())

    def _atomic(self, s: AtomicRMW) -> None:
        b = self.b
        value = b.expr(s.value)
        inside: Expr | None = None
        if s.buffer.scope == "fragment":
            found = self._found(s)
            if found is not None and s.result is None:
                memory, _ = b.fragment(s.buffer)
                register = self._register(found)
                b.store(memory, register, combine(s.op, b.load(memory, register), value))
                return
            buffer = storage_of(s.buffer)
            if buffer not in self.spilled:
                raise LayoutError("TB308", "an atomic on a fragment cannot return the old value", at=s.loc)
            memory, index = (
                self.spilled[buffer],
                b.simple(b.expr(flat_index(s.indices, s.buffer.static_shape))),
            )
        elif s.buffer.scope == "global":
            memory, index, inside = b.global_element(s.buffer, s.indices)
        else:
            memory, index = b.shared_element(s.buffer, s.indices)
        if self.layout.replication > 1 and self.layout.is_owner(b.thread) is None:
            raise LayoutError(
                "TB305",
                "this loop's layout has no rule for which of the threads that share an element acts",
                at=s.loc,
            )
        guard = both(self._owner(), inside)
        if s.result is None:
            with b.when(guard):
                b.emit(AtomicRMW(s.op, memory, (index,), value))
            return
        old = b.registers(s.result.name, 1, s.result.dtype)
        with b.when(guard):
            b.emit(AtomicRMW(s.op, memory, (index,), value, s.result))
            b.store(old, 0, s.result)
        b.names[s.result] = b.load(old, 0)


def combine(op: str, old: Expr, value: Expr) -> Expr:
    """`old op value` without atomicity."""
    match op:
        case "add" | "min" | "max":
            return binary(op, old, cast(value, old.dtype))
        case "and" | "or" | "xor":
            return binary({"and": "bitand", "or": "bitor", "xor": "bitxor"}[op], old, cast(value, old.dtype))  # type: ignore[arg-type]
        case _:
            return value


def widest_access(
    b: Builder,
    buffer: Buffer,
    indices: Sequence[Expr],
    names: Sequence[Var],
    extents: Sequence[int],
    layout: FragmentLayout,
    limit: int,
) -> int:
    """Elements in one access of a thread: neighbours in the first register digit, with every start aligned."""
    digits = merged(layout.reg) if layout.is_digits else ()
    if not digits or digits[0].dim is None or digits[0].stride != 1 or not indices:
        return 1
    lead = digits[0].dim
    others = [d for d in (*digits[1:], *merged(layout.thread)) if d.dim == lead]
    splits = [split_index(i, names) for i in indices]
    if any(s is None for s in splits):
        return 1
    last = splits[-1]
    assert last is not None
    if last.coefficients[lead] != 1 or any(s is not None and s.coefficients[lead] for s in splits[:-1]):
        return 1
    known = dict(b.divisors)
    for k, v in enumerate(names):
        same = [d.stride for d in (*digits, *merged(layout.thread)) if d.dim == k]
        known[v] = _gcd(same if k != lead else [digits[0].size, *(d.stride for d in others)])
    if buffer.scope == "global":
        strides = global_strides(buffer)
        if not is_const(strides[-1], 1):
            return 1
        steps = [divisor(s, b.divisors) for s in strides]
        panel = 0
    else:
        _, shared, _ = b.shared(buffer)
        if shared.table is not None or shared.inner != shared.rank - 1 or shared.strides[-1] != 1:
            return 1
        steps = [abs(s) or 1 << 30 for s in shared.strides]
        panel = gcd(shared.panel, shared.panel_stride) if shared.panel is not None else 0
    best, v = 1, 2
    while v <= limit and digits[0].size % v == 0:
        ok = extents[lead] % v == 0 and all(d.stride % v == 0 for d in others)
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


def _reads_only_itself(s: Store, loads: Sequence[Load]) -> bool:
    """Every load of the stored buffer is of the stored element, in the stored value."""
    key = [expr_key(i) for i in s.indices]
    inside = {id(n) for n in walk(s.value)}
    return all(
        n.buffer is s.buffer and id(n) in inside and [expr_key(i) for i in n.indices] == key
        for n in loads
        if storage_of(n.buffer) is storage_of(s.buffer)
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


def _gcd(values: Iterator[int] | Sequence[int]) -> int:
    total = 0
    for x in values:
        total = gcd(total, x)
    return total or 1 << 30


def _count(buffer: Buffer) -> int:
    total = 1
    for n in buffer.static_shape:
        total *= n
    return total


__all__ = [
    "Loc",
    "Nest",
    "Select",
    "combine",
    "flattened",
    "int_value",
    "lower_parallel",
    "select",
    "widest_access",
]
