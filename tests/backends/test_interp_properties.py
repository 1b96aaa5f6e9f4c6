"""Random per-thread programs and copies: interp's masks and slices against one thread, one element."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.backends.running import INTERP, run
from tilebench.ir.dtype import bool_, int32
from tilebench.ir.expr import Binary, Cast, Const, Expr, Load, Select, Unary, Var, binary, const, select, wrap
from tilebench.ir.rewrite import seq
from tilebench.ir.tile import (
    Bind,
    Break,
    Buffer,
    Continue,
    For,
    If,
    Kernel,
    Parallel,
    Param,
    Region,
    Seq,
    Stmt,
    Store,
    While,
)
from tilebench.ops.copy import Copy
from tilebench.ops.examples import Draft
from tilebench.passes.check import check

THREADS = 40  # a warp and a part of one
VARS = 3


# ------------------------------------------------------------------ one thread, the obvious way


class Stop(Exception):
    """A break or continue on its way to its loop."""

    def __init__(self, is_break: bool) -> None:
        super().__init__()
        self.is_break = is_break


def value_of(e: Expr, env: dict[Any, int]) -> int:
    match e:
        case Const():
            return int(e.value)
        case Var():
            return env[e]
        case Load():
            return env[(e.buffer, *(value_of(i, env) for i in e.indices))]
        case Unary():
            inner = value_of(e.value, env)
            return {
                "neg": lambda: wrap(-inner, e.dtype),
                "not": lambda: int(not inner),
                "bitnot": lambda: ~inner,
            }[e.op]()
        case Cast():
            return value_of(e.value, env)
        case Select():
            return value_of(e.then if value_of(e.condition, env) else e.orelse, env)
        case Binary(op="and"):
            return int(bool(value_of(e.left, env)) and bool(value_of(e.right, env)))
        case Binary(op="or"):
            return int(bool(value_of(e.left, env)) or bool(value_of(e.right, env)))
        case Binary():
            a, b = value_of(e.left, env), value_of(e.right, env)
            out = {
                "add": lambda: a + b,
                "sub": lambda: a - b,
                "mul": lambda: a * b,
                "floordiv": lambda: a // b,
                "floormod": lambda: a % b,
                "min": lambda: min(a, b),
                "max": lambda: max(a, b),
                "lt": lambda: a < b,
                "eq": lambda: a == b,
                "ge": lambda: a >= b,
                "bitxor": lambda: a ^ b,
                "bitand": lambda: a & b,
            }[e.op]()
            return int(out) if e.dtype == "bool" else wrap(int(out), e.dtype)
        case _:
            raise AssertionError(e)


def execute(s: Stmt, env: dict[Any, int]) -> None:
    match s:
        case Seq():
            for part in s.body:
                execute(part, env)
        case Store():
            env[(s.buffer, *(value_of(i, env) for i in s.indices))] = value_of(s.value, env)
        case Bind():
            env[s.var] = value_of(s.value, env)
        case If():
            branch = s.then if value_of(s.condition, env) else s.orelse
            if branch is not None:
                execute(branch, env)
        case For():
            for i in range(value_of(s.start, env), value_of(s.stop, env), value_of(s.step, env)):
                env[s.var] = i
                try:
                    execute(s.body, env)
                except Stop as stop:
                    if stop.is_break:
                        break
        case While():
            while value_of(s.condition, env):
                try:
                    execute(s.body, env)
                except Stop as stop:
                    if stop.is_break:
                        break
        case Break() | Continue():
            raise Stop(isinstance(s, Break))
        case _:
            raise AssertionError(s)


# ------------------------------------------------------------------ random programs


class Maker:
    """Draws statements over the thread index, three variables of each thread and the loops around."""

    def __init__(self, seed: int, uniform: bool) -> None:
        self.random, self.uniform = random.Random(seed), uniform
        self.thread = Var("tx", dtype=int32)
        self.vars = [Buffer(f"v{n}", (const(1),), int32, "var") for n in range(VARS)]
        self.guards: list[Buffer] = []

    def pick(self, options: Any) -> Any:
        return self.random.choice(options)

    def expression(self, scope: list[Var], depth: int) -> Expr:
        leaves: list[Expr] = [*scope, *(v[0] for v in self.vars), const(self.random.randint(-9, 9))]
        if not self.uniform:
            leaves.append(self.thread)
        if depth == 0 or self.random.randint(0, 3) == 0:
            return self.pick(leaves)
        op = self.pick(
            ["add", "sub", "mul", "min", "max", "floordiv", "floormod", "select", "bitxor", "bitand"]
        )
        a = self.expression(scope, depth - 1)
        if op == "select":
            return select(self.condition(scope, depth - 1), a, self.expression(scope, depth - 1))
        if op in ("floordiv", "floormod"):
            return binary(op, a, self.pick([2, 3, 7, -4]))
        return binary(op, a, self.expression(scope, depth - 1))

    def condition(self, scope: list[Var], depth: int) -> Expr:
        op = self.pick(["lt", "eq", "ge", "and", "or"])
        if op in ("and", "or") and depth > 0:
            return binary(op, self.condition(scope, depth - 1), self.condition(scope, depth - 1))
        left = self.expression(scope, max(depth - 1, 0)) % self.pick([2, 3, 5])
        return binary("lt" if op in ("and", "or") else op, left, self.random.randint(0, 3))

    def statement(self, scope: list[Var], depth: int, in_loop: bool) -> Stmt:
        kinds = (
            ["store", "store", "if"]
            + ["for", "while", "while"] * (depth > 0)
            + ["break", "break", "continue"] * in_loop
        )
        kind = self.pick(kinds)
        if kind == "if" and depth > 0:
            orelse = self.block(scope, depth - 1, in_loop) if self.random.random() < 0.5 else None
            return If(self.condition(scope, 2), self.block(scope, depth - 1, in_loop), orelse)
        if kind == "for":
            k = Var(f"k{depth}", dtype=int32)
            stop = self.expression(scope, 1) % self.pick([2, 4])
            step = self.pick([1, 1, 2, -1])
            start, stop = (stop, const(-1)) if step < 0 else (const(0), stop)
            return For(k, start, stop, self.block([*scope, k], depth - 1, True), const(step))
        if kind == "while":
            guard = Buffer(f"g{len(self.guards)}", (const(1),), int32, "var")
            self.guards.append(guard)
            count = Store(guard, (const(0),), guard[0] + 1)
            going = binary("and", binary("lt", guard[0], 4), self.condition(scope, 1))
            reset = Store(guard, (const(0),), const(0))
            return seq(reset, While(going, seq(count, self.block(scope, depth - 1, True))))
        if kind in ("break", "continue"):
            return If(self.condition(scope, 1), Break() if kind == "break" else Continue())
        return Store(self.pick(self.vars), (const(0),), self.expression(scope, 2))

    def block(self, scope: list[Var], depth: int, in_loop: bool) -> Stmt:
        return seq(*(self.statement(scope, depth, in_loop) for _ in range(self.random.randint(1, 4))))


def per_thread_kernel(maker: Maker, body: Stmt) -> Kernel:
    out = Buffer("Y", (const(VARS), const(THREADS)), int32, "global")
    start = [
        Store(v, (const(0),), const(n) + (0 if maker.uniform else maker.thread))
        for n, v in enumerate(maker.vars)
    ]
    zero = [Store(g, (const(0),), const(0)) for g in maker.guards]
    end = [Store(out, (const(n), maker.thread), v[0]) for n, v in enumerate(maker.vars)]
    return Kernel(
        "random",
        (Param("Y", out, "out"),),
        (const(1),),
        (Var("bx", dtype=int32),),
        (THREADS,),
        maker.thread,
        (*maker.vars, *maker.guards),
        seq(*start, *zero, body, *end),
    )


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.booleans())
def test_masks_equal_one_thread_at_a_time(seed: int, uniform: bool) -> None:
    maker = Maker(seed, uniform)
    body = maker.block([], 3, False)
    kernel = per_thread_kernel(maker, body)
    out = np.zeros((VARS, THREADS), np.int32)
    per_thread = check(kernel, INTERP).per_thread

    def observe(block: Any, stmt: Stmt, writes: Any) -> None:
        """What runs under a mask, or writes what differs between threads, was known to be per-thread."""
        divergent = block.mask is not None and not block.mask.all()
        assert stmt in per_thread or not divergent
        for buffer in (b for b in writes if b.scope == "var"):
            values = block.values(buffer)
            assert stmt in per_thread or (values == values[0]).all()

    run(kernel, out, check_init=True, observer=observe)
    for t in range(THREADS):
        env: dict[Any, int] = {maker.thread: t}
        execute(kernel.body, env)
        assert [env[(kernel.params[0].value, n, t)] for n in range(VARS)] == out[:, t].tolist()


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_a_parallel_nest_equals_its_iterations_one_by_one(seed: int) -> None:
    """The same random bodies inside T.Parallel(5, 8), each iteration with its own variables."""
    maker = Maker(seed, True)
    d = Draft("nest")
    out = d.tensor("Y", (VARS, 5, 8), "int32", "out")
    i, j = Var("i", dtype=int32), Var("j", dtype=int32)
    body = maker.block([i, j], 2, False)
    d.buffers += [*maker.vars, *maker.guards]
    start = [Store(v, (const(0),), i + n - j) for n, v in enumerate(maker.vars)]
    zero = [Store(g, (const(0),), const(0)) for g in maker.guards]
    end = [Store(out, (const(n), i, j), v[0]) for n, v in enumerate(maker.vars)]
    inside = seq(*start, *zero, body, *end)
    d.add(Parallel((i, j), (5, 8), inside))
    values = np.zeros((VARS, 5, 8), np.int32)
    run(d.kernel(), values, check_init=True)
    for a in range(5):
        for b in range(8):
            env: dict[Any, int] = {i: a, j: b}
            execute(inside, env)
            assert [env[(out, n, a, b)] for n in range(VARS)] == values[:, a, b].tolist()


@given(st.data())
def test_a_copy_moves_what_is_inside_and_fills_the_rest(data: Any) -> None:
    """Random boxes, partly or wholly outside, of tensors of rank 1 to 3 with dropped dimensions."""
    rank = data.draw(st.integers(1, 3))
    sizes = [data.draw(st.integers(1, 6)) for _ in range(rank)]
    extents = [data.draw(st.integers(1, 5)) for _ in range(rank)]
    starts = [data.draw(st.integers(-3, 7)) for _ in range(rank)]
    targets = [data.draw(st.integers(-3, 7)) for _ in range(rank)]
    dropped = frozenset(d for d in range(rank) if extents[d] == 1 and data.draw(st.booleans()))
    draft = Draft("box")
    x, y = draft.tensor("X", tuple(sizes), "int32"), draft.tensor("Y", tuple(sizes), "int32", "out")
    part = draft.shared("part", tuple(extents), "int32")
    box = tuple(const(e) for e in starts)
    place = tuple(const(e) for e in targets)
    tile = Region(part, tuple(const(0) for _ in extents), tuple(extents), dropped)
    draft.add(Copy(Region(x, box, tuple(extents), dropped), tile))
    draft.add(Copy(tile, Region(y, place, tuple(extents), dropped)))
    source = np.arange(1, 1 + np.prod(sizes), dtype=np.int32).reshape(sizes)
    out = np.full(sizes, -1, np.int32)
    run(draft.kernel(), source, out, check_init=True)
    expected = np.full(sizes, -1, np.int32)
    for point in np.ndindex(*extents):
        read, write = tuple(np.add(point, starts)), tuple(np.add(point, targets))
        if all(0 <= p < s for p, s in zip(write, sizes, strict=True)):
            inside = all(0 <= p < s for p, s in zip(read, sizes, strict=True))
            expected[write] = source[read] if inside else 0
    assert np.array_equal(out, expected)


def test_the_reference_knows_the_difference() -> None:
    """The one-thread executor itself: a loop that breaks at 2 and skips 1."""
    k, v = Var("k", dtype=int32), Buffer("v", (const(1),), int32, "var")
    body = seq(
        If(binary("eq", k, 1), Continue()), If(binary("eq", k, 3), Break()), Store(v, (const(0),), v[0] + k)
    )
    env: dict[Any, int] = {(v, 0): 0}
    execute(For(k, const(0), const(9), body), env)
    assert env[(v, 0)] == 2
    assert bool_.kind == "bool"
