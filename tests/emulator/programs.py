"""Random thread programs of one meaning: no races, indices in range, no division by 0, barriers for all."""

from __future__ import annotations

import random
from typing import Any

from tests.emulator.build import Build, intrinsic
from tilebench.ir.dtype import as_dtype
from tilebench.ir.expr import Expr, Var, binary, cast, const, select, unary

I32, F32 = as_dtype("int32"), as_dtype("float32")


class RandomProgram:
    """A program of `size` statements drawn from a seed.

    Outputs are int32 I[threads * blocks * 4] and float32 F[...].
    """

    def __init__(self, seed: int, size: int = 6) -> None:
        self.rng = random.Random(seed)
        threads, blocks = self.rng.choice((32, 32, 64)), self.rng.choice((1, 1, 2))
        self.b = b = Build(threads, (blocks,))
        self.n = b.scalar("n", "int32")
        self.source = b.tensor("A", threads, "int32")
        self.i_out, self.f_out = (
            b.tensor(n, threads * blocks * 4, d, "inout") for n, d in (("I", "int32"), ("F", "float32"))
        )
        self.s = b.shared("s", threads, "int32")
        self.i, self.f, self.w = b.regs("i", 4, "int32"), b.regs("f", 4, "float32"), b.regs("w", 8, "int32")
        self.alone = False
        self.vars: list[Expr] = [b.tx, b.blocks[0], self.n]
        for k in range(4):
            b.store(self.i, k, b.tx * (k + 1))
            b.store(self.f, k, cast(b.tx, F32) * 0.5)
        with b.loop(8, independent=True) as k:
            b.store(self.w, k, k * 3 - b.tx)
        for _ in range(size):
            self.statement(3, uniform=True, loop=False)
        base = (b.blocks[0] * threads + b.tx) * 4
        for k in range(4):
            b.store(self.i_out, base + k, b.load(self.i, k) ^ b.load(self.w, k) ^ b.load(self.w, k + 4))
            b.store(self.f_out, base + k, b.load(self.f, k))

    # -------------------------------------------------------------- expressions

    def integer(self, depth: int) -> Expr:
        r, b = self.rng, self.b
        if depth <= 0 or r.random() < 0.15:
            pick = r.randrange(5)
            if pick == 0:
                return const(r.choice((0, 1, 2, 3, 7, 31, -1, -5, 1000003)))
            if pick <= 2:
                return r.choice(self.vars)
            if pick == 3:
                return b.load(self.i, r.randrange(4))
            return b.load(self.source, b.tx)
        op = r.randrange(10)
        x = self.integer(depth - 1)
        if op <= 4:
            kind: Any = r.choice(("add", "sub", "mul", "min", "max", "bitand", "bitor", "bitxor"))
            return binary(kind, x, self.integer(depth - 1))
        if op == 5:
            division: Any = r.choice(("floordiv", "floormod", "truncdiv", "truncmod"))
            return binary(division, x, r.choice((1, 2, 3, 4, 8, 7, -3)))
        if op == 6:
            shift: Any = r.choice(("shl", "shr"))
            return binary(shift, x, const(r.randrange(8)))
        if op == 7:
            return select(self.condition(depth - 1), x, self.integer(depth - 1))
        if op == 8:
            return b.load(self.i if self.alone else r.choice((self.i, self.w)), x & 3)
        return unary(r.choice(("neg", "bitnot")), x)

    def number(self, depth: int) -> Expr:
        r, b = self.rng, self.b
        if depth <= 0:
            return r.choice(
                (
                    b.load(self.f, r.randrange(4)),
                    const(r.choice((0.25, -1.5, 3.0))),
                    cast(self.integer(1) & 255, F32),
                )
            )
        op: Any = r.choice(("add", "sub", "mul", "add"))
        if r.random() < 0.2:
            return select(self.condition(depth - 1), self.number(depth - 1), self.number(depth - 1))
        return binary(op, self.number(depth - 1), self.number(depth - 1))

    def condition(self, depth: int) -> Expr:
        r = self.rng
        kind: Any = r.choice(("lt", "le", "eq", "ne", "gt", "ge"))
        c = binary(kind, self.integer(depth) & 15, self.integer(depth) & 15)
        if depth > 1 and r.random() < 0.3:
            joined: Any = r.choice(("and", "or"))
            c = binary(joined, c, self.condition(depth - 1))
        return unary("not", c) if r.random() < 0.2 else c

    # -------------------------------------------------------------- statements

    def body(self, depth: int, uniform: bool, loop: bool) -> None:
        scope = len(self.vars)
        for _ in range(self.rng.randrange(1, 4)):
            self.statement(depth, uniform, loop)
        del self.vars[scope:]

    def statement(self, depth: int, uniform: bool, loop: bool) -> None:
        """One statement. uniform: all threads come here together; loop: the innermost loop may be left."""
        r, b = self.rng, self.b
        pick = r.randrange(14)
        if pick <= 2 or depth <= 0:
            if r.random() < 0.5:
                b.store(self.i, self.integer(1) & 3 if r.random() < 0.3 else r.randrange(4), self.integer(3))
            else:
                b.store(self.f, r.randrange(4), self.number(2))
        elif pick == 3:
            self.vars.append(b.bind(self.integer(3)))
        elif pick <= 6:
            with b.when(self.condition(2)):
                self.body(depth - 1, False, loop)
            if r.random() < 0.5:
                with b.otherwise():
                    self.body(depth - 1, False, loop)
        elif pick == 7:
            with b.when((self.n & 3) > r.randrange(4)):
                self.body(depth - 1, uniform, loop)
        elif pick == 8 and loop:
            with b.when(self.condition(2)):
                b.leave() if r.random() < 0.5 else b.skip()
        elif pick <= 10:
            self.a_loop(depth)
        elif pick == 11:
            self.alone = True
            e = self.integer(2)
            with b.loop(8, kind=r.choice(("serial", "unroll")), independent=True) as k:
                self.vars.append(k)
                self.alone = True  # an independent iteration reads its own element only
                with b.when(self.condition(2)):
                    b.store(self.w, k, (b.load(self.w, k) if r.random() < 0.5 else e) + k * 5)
                self.vars.pop()
                self.alone = False
        elif uniform and pick == 12:
            at = b.tx ^ r.randrange(32)
            b.store(self.s, at, self.integer(2))
            b.sync()
            b.store(self.i, r.randrange(4), b.load(self.s, self.integer(2) & (b.threads - 1)))
            b.sync()
        elif uniform:
            v: Expr = b.bind(self.integer(2)) if r.random() < 0.5 else b.load(self.i, 1)
            b.store(self.i, r.randrange(4), intrinsic("shfl_xor", v, r.randrange(32)))
        else:
            b.store(self.i, r.randrange(4), self.integer(3))

    def a_loop(self, depth: int) -> None:
        r, b = self.rng, self.b
        inner = r.random() < 0.6
        stop: Expr | int = r.choice((2, 3, 5))
        if r.random() < 0.4:
            stop = self.integer(1) & 3
        elif r.random() < 0.3:
            stop = self.n & 3
        step = r.choice((1, 1, 2))
        start: Expr | int = r.choice((0, 0, 1))
        kind = "serial" if inner else r.choice(("serial", "unroll"))
        with b.loop(stop, start, step, kind) as k:
            self.vars.append(k)
            self.body(depth - 1, False, inner)
            self.vars.pop()


def scalars(p: RandomProgram, n: int) -> dict[Var, Any]:
    """The scalar arguments."""
    return {p.n: n}


assert I32.bits == 32
