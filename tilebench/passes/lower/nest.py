"""A Parallel nest as code of one thread: a loop over the registers of its layout.

The nest runs in up to four parts, all over the same registers r:

    fragments that the thread does not hold itself -> shared scratch          (only when there are such)
    for r: loads from global and shared memory, as wide as the layout allows  -> temporary registers
    for r: the body, element by element, between registers
    for r: wide stores                                                        (and scratch -> fragments)

Iterations are independent, so taking the loads first changes nothing; what the body writes is never loaded
early.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from tilebench.ir.expr import Binary, Call, Const, Expr, Load, Var, binary, const, is_const
from tilebench.ir.rewrite import children, variables, walk
from tilebench.ir.simplify import Linear, from_linear, linear
from tilebench.ir.thread import Memory, VectorAtomic, VectorCopy
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
from tilebench.layouts.digits import digit_terms
from tilebench.passes.indices import evaluate, register_expr
from tilebench.passes.lower.builder import Builder, both, expr_key
from tilebench.passes.lower.elements import lower_statement
from tilebench.passes.lower.fragments import Loop, Resolved, access_key, resolve_all
from tilebench.passes.lower.packed import Words, lower_packed, plan_packed
from tilebench.passes.lower.wide import Plan, Wide, plan_wide
from tilebench.passes.nodes import flattened, node_of_nest
from tilebench.passes.place_rules import find_by_place, free_layout, loop_layout


def lower_parallel(b: Builder, nest: Parallel, layout: FragmentLayout | None = None) -> None:
    """Lower a Parallel nest over the threads by its layout (chosen by passes/place.py when not given)."""
    names, extents, body = flattened(nest)
    if b.nest is not None:
        _serially(b, names, extents, body)
        return
    if layout is None:
        layout = find_by_place(b.placed.loops, nest)
        if layout is None or layout.shape != extents:  # of another loop at the same place in the text
            layout, _ = loop_layout(nest, b.layouts, b.threads)
    with b.at(nest.loc):
        lower_nest(b, Loop(names, extents, layout), body, nest.coalesced_width)


def lower_vectorized(b: Builder, s: For, count: int) -> None:
    """A loop of one thread over neighbours (T.vectorized) with its memory accesses made wide."""
    layout = FragmentLayout((count,), (Digit(count, 0, 1),), (Digit(b.threads, None),))
    with b.ranging((s.var,), (count,)):
        Nest(b, Loop((s.var,), (count,), layout), s.body, {}, None, each=True).run()


def lower_nest(
    b: Builder, loop: Loop, body: Stmt, width: int | None = None, own: Buffer | None = None
) -> None:
    """Lower `body` for every iteration of `loop`; fragments that its threads do not hold go through scratch.

    own: a fragment of which each thread writes its own version for now.
    """
    if any(n == 0 for n in loop.extents):
        return
    with b.ranging(loop.names, loop.extents):
        resolved, lost = resolve_all(b, loop, body, own)
        if lost and loop.layout.replication > 1 and _reads_back(body, lost):
            # What one holder writes to scratch the others would read at once: one thread must run the
            # iteration alone.
            node = node_of_nest(Parallel(loop.names, loop.extents, body))
            loop = Loop(loop.names, loop.extents, free_layout(node, b.threads)[0])
            resolved, lost = resolve_all(b, loop, body, own)
        if not lost:
            _branches(b, loop, body, resolved, width)
            return
        from tilebench.passes.lower.convert import through_scratch

        with through_scratch(b, loop, body, lost) as exchanged:
            Nest(b, loop, exchanged, resolved, width).run()


def _branches(
    b: Builder, loop: Loop, body: Stmt, resolved: Mapping[object, Resolved], width: int | None
) -> None:
    """The nest; one that is an If on what a thread's registers have in common stands inside of that If."""
    if not isinstance(body, If) or not is_common(body.condition, loop):
        Nest(b, loop, body, resolved, width).run()
        return
    b.names.update(zip(loop.names, b.thread_coordinates(loop.layout), strict=True))
    condition = b.simple(b.condition(body.condition))
    for v in loop.names:
        del b.names[v]
    arms: list[Stmt] = []
    for arm in (body.then, body.orelse):
        with b.inside() as inside:
            if arm is not None:
                _branches(b, loop, arm, resolved, width)
        arms.append(Seq(tuple(inside)))
    then, orelse = arms
    if isinstance(condition, Const):
        b.emit(then if condition.value else orelse)
        return
    b.emit(If(condition, then, orelse if body.orelse is not None else None))


def is_common(e: Expr, loop: Loop) -> bool:
    """Whether an expression has one value in all registers of a thread, and more than one in the block."""
    if not loop.layout.is_digits or any(loop.layout.padded_dims) or not variables(e) & set(loop.names):
        return False
    grids = np.unravel_index(np.maximum(loop.layout.elements(), 0), loop.extents)
    values = dict(zip(loop.names, grids, strict=True))
    return _is_common(e, values)


def _is_common(e: Expr, values: Mapping[Var, Any]) -> bool:
    if not variables(e) & set(values):
        return True
    if isinstance(e, Load | Call):
        return False
    found = None if e.dtype.is_float else evaluate(e, values)
    if found is not None:
        table = np.broadcast_to(np.asarray(found), next(iter(values.values())).shape)
        return bool((table == table[:, :1]).all())
    return not isinstance(e, Var) and all(_is_common(x, values) for x in children(e) if isinstance(x, Expr))


def _reads_back(body: Stmt, lost: Sequence[Buffer]) -> bool:
    written = {n.buffer.data for n in walk(body) if isinstance(n, Store | AtomicRMW)}
    return any(isinstance(n, Load) and (x := n.buffer.data) in lost and x in written for n in walk(body))


def _serially(b: Builder, names: Sequence[Var], extents: Sequence[int], body: Stmt) -> None:
    assert b.nest is not None
    for name, extent in reversed(list(zip(names, extents, strict=True))):
        body = For(name, const(0), const(extent), body)
    lower_statement(b.nest, body)


class Nest:
    """One nest being lowered."""

    def __init__(
        self,
        b: Builder,
        loop: Loop,
        body: Stmt,
        resolved: Mapping[object, Resolved],
        width: int | None,
        each: bool = False,
    ) -> None:
        layout = loop.layout
        assert layout.shape == loop.extents, f"loop layout of {layout.shape} for a nest of {loop.extents}"
        assert layout.threads == b.threads, (
            f"loop layout over {layout.threads} threads in a block of {b.threads}"
        )
        self.b = b
        self.loop = loop
        self.width = width
        self.body = body
        self.resolved = resolved
        self.each = each
        """Whether every thread runs all of it for itself."""
        self.top = body.body if isinstance(body, Seq) else (body,)
        self.parent = b.body
        self.local: set[Var] = set()
        """Variables that change inside the nest."""
        self.written: dict[Buffer, list[Store | AtomicRMW]] = {}
        """What is written, by storage."""
        for n in walk(body):
            if isinstance(n, For | Bind):
                self.local.add(n.var)
            elif isinstance(n, Parallel):
                self.local.update(n.vars)
            elif isinstance(n, Store | AtomicRMW):
                self.written.setdefault(n.buffer.data, []).append(n)
                if isinstance(n, AtomicRMW) and n.result is not None:
                    self.local.add(n.result)
        self.register: Expr = const(0)
        """The register of the loop at which code is being written."""
        self.slot: Expr = const(0)
        """Its place in the temporaries of the current chunk."""
        self.plan = Plan()
        self.words: Mapping[object, Words] = {}
        """Loads of which several registers share one (packed.py), by key."""

    def writers(self, buffer: Buffer) -> list[Store | AtomicRMW]:
        """The statements that write the buffer's storage."""
        return self.written.get(buffer.data, [])

    # -- the whole of it -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Emit the nest."""
        b = self.b
        b.nest = self
        try:
            packed = plan_packed(self)
            self.plan = plan_wide(self, () if packed is None else packed.words)
            chunk = self.plan.chunk
            if packed is not None:
                lower_packed(self, packed)
                return
            with b.loop(self.loop.layout.registers // chunk, name="c") as c:
                if isinstance(c, Var):
                    self.local.add(c)
                self.load_loops(c, chunk)
                self._compute_loop(c, chunk)
                self._store_loops(c, chunk)
        finally:
            b.nest = None
            for v in self.loop.names:
                b.names.pop(v, None)

    @contextmanager
    def at_register(self, register: Expr, slot: Expr) -> Generator[None]:
        """Inside, the nest's variables are the coordinates of `register` of this thread."""
        register = self.b.simple(register)
        self.register, self.slot = register, self.b.simple(slot)
        for v, x in zip(self.loop.names, self._coordinates(register), strict=True):
            self.b.names[v] = x
        yield

    def _coordinates(self, register: Expr) -> list[Expr]:
        out = list(self.b.thread_coordinates(self.loop.layout))
        for dim, term in digit_terms(register, self.loop.layout.reg):
            out[dim] = out[dim] + (term if isinstance(register, Var) else self.b.simple(term))
        return out

    def _inside(self) -> Expr | None:
        """Whether the current register is an iteration at all (ragged shapes have padding)."""
        found: Expr | None = None
        for d, padded in enumerate(self.loop.layout.padded_dims):
            if padded:
                test = self.b.simple(
                    binary("lt", self.b.names[self.loop.names[d]], const(self.loop.extents[d]))
                )
                found = both(found, None if is_const(test, True) else test)
        return found

    def owner(self) -> Expr | None:
        """Whether this thread and register do the memory writes of the iteration (one of its holders
        must)."""
        b = self.b
        if self.each or self.loop.layout.replication <= 1:
            return None
        zeros = self.loop.layout.is_owner(b.thread)
        if zeros is None:
            return None
        found: Expr | None = None
        for x in zeros:
            found = both(found, b.simple(binary("eq", x, const(0))))
        if found is not None:
            found = b.bind_above(b.root, "owner", found)
        if not all(self.loop.layout.owner_registers_by_digits):
            below = 1
            for d in self.loop.layout.reg:
                if d.dim is None and d.size > 1:
                    digit = b.simple(self.register // below % d.size)
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
        base = self.hoist(from_linear(Linear(fixed, 0)))
        rest = Linear(tuple((t, c) for t, c in form.terms if variables(t) & self.local), form.constant)
        return base + from_linear(rest)

    def compared(self, e: Binary) -> Expr:
        """A comparison of integers with what changes inside the nest on its left, the rest on its right."""
        form = linear(e.left - e.right)
        terms = [(t, c, bool(variables(t) & self.local)) for t, c in form.terms]
        if not all(isinstance(t, Var | Binary) for t, _, _ in terms) or not any(
            moving for _, _, moving in terms
        ):
            return binary(e.op, self.hoist(e.left), self.hoist(e.right))
        left = from_linear(Linear(tuple((t, c) for t, c, moving in terms if moving), 0))
        fixed = from_linear(Linear(tuple((t, -c) for t, c, moving in terms if not moving), -form.constant))
        return binary(e.op, left, self.hoist(self.b.simple(fixed)))

    def _home(self, e: Expr) -> list[Stmt]:
        """The outermost body where everything that `e` names is known: the top for what only names the
        thread."""
        return self.b.root if variables(e) <= self.b.root_names else self.parent

    # -- fragments -------------------------------------------------------------------------------------------

    def found(self, node: Load | Store | AtomicRMW) -> Resolved:
        """Where an access to a fragment is in the thread's own registers."""
        return self.resolved[access_key(node)]

    def register_of(self, found: Resolved) -> Expr:
        """The register of a fragment that the current iteration touches."""
        index = register_expr(found.own, self.loop.layout.reg, self.register)
        if found.extra is not None:
            index = index + self.b.expr(found.extra)
        return self.b.simple(index)

    def fragment_load(self, e: Load) -> Expr:
        """A fragment element in the current iteration."""
        memory, _ = self.b.fragment(e.buffer)
        return Load(memory, (self.register_of(self.found(e)),), dtype=e.dtype, loc=e.loc)

    # -- wide accesses ---------------------------------------------------------------------------------------

    def replaced_load(self, e: Load) -> Expr | None:
        """The register that holds a load done early, if it was."""
        shared = self.words.get(expr_key(e)) if self.words else None
        if shared is not None:
            assert isinstance(self.register, Const), "registers are named one by one"
            return Load(shared.memory, (const(shared.slots[int(self.register.value)]),), dtype=e.dtype)
        early = self.plan.loads.get(expr_key(e)) if self.plan.loads else None
        if early is None:
            return None
        if early.direct is not None:
            return Load(early.memory, (self.register_of(early.direct),), dtype=e.dtype)
        return Load(early.memory, (self.slot,), dtype=e.dtype)

    def _vectors(self, c: Expr, chunk: int, lanes: int) -> Iterator[None]:
        with self.b.loop(chunk // lanes, independent=True, name="v") as v:
            if isinstance(v, Var):
                self.local.add(v)
            with self.at_register(c * chunk + v * lanes, v * lanes):
                yield

    def load_loops(self, c: Expr, chunk: int) -> None:
        """The early loads of a chunk of registers."""
        b = self.b
        for w in self.plan.loads.values():
            e = w.access
            assert isinstance(e, Load)
            for _ in self._vectors(c, chunk, w.lanes):
                register = self.slot if w.direct is None else self.register_of(w.direct)
                if e.buffer.scope == "global":
                    memory, index, inside = b.global_element(e.buffer, e.indices)
                else:
                    (memory, index), inside = b.shared_element(e.buffer, e.indices), None
                outside = (
                    b.outside_value(e.buffer) if e.buffer.scope == "global" and inside is not None else None
                )
                part = w.direct is not None and not self._fills(w.memory)
                predicate = inside if part else both(self._inside(), inside)
                if e.buffer.data in self.written:  # read and written by one of its holders
                    predicate = both(predicate, self.owner())
                with b.when(self._inside() if part else None):  # the rest of the fragment keeps what it holds
                    self._load_wide(w, register, memory, index, predicate, outside)

    def _fills(self, memory: Memory) -> bool:
        """Whether the nest has an iteration for every element of the fragment behind a register array."""
        origin = memory.origin
        return origin is None or prod(origin.static_shape) == prod(self.loop.extents)

    def _load_wide(
        self,
        w: Wide,
        register: Expr,
        memory: Memory,
        index: Expr,
        predicate: Expr | None,
        outside: Expr | None,
    ) -> None:
        """One wide load: outside elements read as `outside` (None and 0: the load itself gives zeros)."""
        b = self.b
        zeros = outside is None or is_const(outside, 0)
        if outside is not None and not zeros:
            with b.loop(w.lanes, independent=True, name="e") as k:
                b.store(w.memory, register + k, outside)
        fill = zeros and predicate is not None
        b.emit(VectorCopy(w.memory, register, memory, index, w.lanes, predicate, zero_fill=fill))

    def _store_loops(self, c: Expr, chunk: int) -> None:
        b = self.b
        for w in self.plan.stores.values():
            s = w.access
            if s.buffer.scope == "fragment":
                continue
            for _ in self._vectors(c, chunk, w.lanes):
                register = self.slot if w.direct is None else self.register_of(w.direct)
                if s.buffer.scope == "global":
                    memory, index, inside = b.global_element(s.buffer, s.indices)
                else:
                    (memory, index), inside = b.shared_element(s.buffer, s.indices), None
                predicate = both(both(self._inside(), self.owner()), inside)
                if isinstance(s, AtomicRMW):
                    with b.when(predicate):
                        b.emit(VectorAtomic(memory, index, w.memory, register, w.lanes, s.order))
                    continue
                b.emit(VectorCopy(memory, index, w.memory, register, w.lanes, predicate))

    # -- the body --------------------------------------------------------------------------------------------

    def _compute_loop(self, c: Expr, chunk: int) -> None:
        b = self.b
        needs_constants = any(f.own.coefficients is None for f in self.resolved.values())
        if needs_constants:
            for k in range(chunk):
                with self.at_register(c * chunk + k, const(k)):
                    self._element()
            return
        with b.loop(chunk, independent=self._independent()) as r:
            if isinstance(r, Var):
                self.local.add(r)
            with self.at_register(c * chunk + r, r):
                self._element()

    def _element(self) -> None:
        with self.b.when(None if self._only_fills else self._inside()):
            lower_statement(self, self.body)

    @cached_property
    def _only_fills(self) -> bool:
        """Whether the body only puts values made of no memory into the loop's own registers: padding may have
        them too."""
        top = self.body.body if isinstance(self.body, Seq) else (self.body,)
        for s in top:
            if not isinstance(s, Store) or s.buffer.scope != "fragment" or isinstance(s.buffer, Memory):
                return False
            if self.found(s).extra is not None or self.b.layouts.get(s.buffer) != self.loop.layout:
                return False
            visits_in_order = len(s.indices) == len(self.loop.names) and all(
                a is b for a, b in zip(s.indices, self.loop.names, strict=True)
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
                if n.buffer.scope == "fragment" and not isinstance(n.buffer, Memory):
                    found = self.found(n)
                    if not found.own.is_injective or found.extra is not None:
                        return False
        return True
