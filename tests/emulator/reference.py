"""A second emulator, as plain as can be: every thread is a generator over Python and NumPy scalars, one node
at a time.

It knows nothing of masks, vectorisation or hoisting, so what it computes is what the emulator must compute.
Barriers and shuffles are points where a thread waits for the others.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from tilebench.ir.dtype import decode, encode
from tilebench.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, wrap
from tilebench.ir.thread import Barrier, Memory, Program, VectorCopy
from tilebench.ir.tile import AtomicRMW, Bind, Break, Continue, For, If, Seq, Stmt, Store, While

Steps = Generator[tuple[Any, ...], Any, Any]


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class Thread:
    """One thread: its variables and registers, and the memories that it shares."""

    def __init__(self, env: dict[Var, Any], memories: dict[Memory, np.ndarray]) -> None:
        self.env, self.memories, self.own = env, memories, {}

    def array(self, memory: Memory) -> np.ndarray:
        if memory.space != "register":
            return self.memories[memory]
        if memory not in self.own:
            self.own[memory] = np.zeros(memory.static_shape[0], memory.dtype.storage_dtype)
        return self.own[memory]

    def value(self, e: Expr) -> Steps:
        match e:
            case Const():
                return e.dtype.compute_dtype.type(e.value) if e.dtype.is_float else e.value
            case Var():
                return self.env[e]
            case Load():
                index = yield from self.value(e.indices[0])
                found = decode(self.array(e.buffer)[index : index + 1], e.dtype)[0]  # type: ignore[arg-type]
                return found if e.dtype.is_float else int(found)
            case Unary(op="neg"):
                v = yield from self.value(e.value)
                return -v if e.dtype.is_float else wrap(-v, e.dtype)
            case Unary(op="not"):
                return not (yield from self.value(e.value))
            case Unary():
                return wrap(~(yield from self.value(e.value)), e.dtype)
            case Select():
                c = yield from self.value(e.condition)
                return (yield from self.value(e.then if c else e.orelse))
            case Binary(op="and"):
                return (yield from self.value(e.left)) and (yield from self.value(e.right))
            case Binary(op="or"):
                return (yield from self.value(e.left)) or (yield from self.value(e.right))
            case Binary():
                a = yield from self.value(e.left)
                b = yield from self.value(e.right)
                return _binary(e, a, b)
            case Cast():
                v = yield from self.value(e.value)
                if e.dtype.is_float:
                    return e.dtype.compute_dtype.type(v)
                return wrap(int(v), e.dtype) if e.dtype.kind != "bool" else bool(v)
            case Call(name="shfl_xor" | "shfl"):
                v = yield from self.value(e.args[0])
                m = yield from self.value(e.args[1])
                return (yield ("shuffle", e.name, v, m))
            case _:
                raise NotImplementedError(type(e).__name__)

    def run(self, s: Stmt) -> Steps:
        match s:
            case Seq():
                for part in s.body:
                    yield from self.run(part)
            case Bind():
                self.env[s.var] = yield from self.value(s.value)
            case Store():
                index = yield from self.value(s.indices[0])
                v = yield from self.value(s.value)
                self._put(s.buffer, index, v)  # type: ignore[arg-type]
            case AtomicRMW():
                index = yield from self.value(s.indices[0])
                v = yield from self.value(s.value)
                old = int(self.array(s.buffer)[index])  # type: ignore[arg-type]
                new = {
                    "add": lambda: wrap(old + v, s.buffer.dtype),
                    "max": lambda: max(old, v),
                    "xor": lambda: old ^ v,
                }[s.op]()
                self._put(s.buffer, index, new)  # type: ignore[arg-type]
            case VectorCopy():
                take = True if s.predicate is None else (yield from self.value(s.predicate))
                d = yield from self.value(s.destination_index)
                f = yield from self.value(s.source_index)
                if take:
                    self.array(s.destination)[d : d + s.lanes] = self.array(s.source)[f : f + s.lanes]
                elif s.zero_fill:
                    self.array(s.destination)[d : d + s.lanes] = 0
            case If():
                if (yield from self.value(s.condition)):
                    yield from self.run(s.then)
                elif s.orelse is not None:
                    yield from self.run(s.orelse)
            case For():
                bounds = []
                for e in (s.start, s.stop, s.step):
                    bounds.append((yield from self.value(e)))
                for i in range(*bounds):
                    self.env[s.var] = i
                    try:
                        yield from self.run(s.body)
                    except _Continue:
                        continue
                    except _Break:
                        break
            case While():
                while (yield from self.value(s.condition)):
                    try:
                        yield from self.run(s.body)
                    except _Continue:
                        continue
                    except _Break:
                        break
            case Break():
                raise _Break
            case Continue():
                raise _Continue
            case Barrier():
                yield ("barrier",)
            case _:
                raise NotImplementedError(type(s).__name__)

    def _put(self, memory: Memory, index: int, v: Any) -> None:
        self.array(memory)[index] = encode(np.asarray([v], dtype=memory.dtype.compute_dtype), memory.dtype)[0]


def _binary(e: Binary, a: Any, b: Any) -> Any:
    kind = e.left.dtype
    table: dict[str, Any] = {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "div": lambda: a / b,
        "min": lambda: min(a, b), "max": lambda: max(a, b), "eq": lambda: a == b, "ne": lambda: a != b,
        "lt": lambda: a < b, "le": lambda: a <= b, "gt": lambda: a > b, "ge": lambda: a >= b,
        "bitand": lambda: a & b, "bitor": lambda: a | b, "bitxor": lambda: a ^ b,
        "floordiv": lambda: a // b, "floormod": lambda: a % b, "shl": lambda: a << b, "shr": lambda: a >> b,
        "truncdiv": lambda: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
        "truncmod": lambda: abs(a) % abs(b) * (1 if a >= 0 else -1),
    }  # fmt: skip
    result = table[e.op]()
    if e.dtype.kind == "bool":
        return bool(result)
    return result if kind.is_float else wrap(int(result), kind)


def run_reference(program: Program, arrays: list[np.ndarray], scalars: dict[Var, Any]) -> None:
    """All blocks, thread by thread, in place."""
    memories = dict(zip(program.globals.values(), arrays, strict=True))
    grid = [g.value for g in program.grid]  # type: ignore[attr-defined]
    for number in range(int(np.prod(grid))):
        index, rest = [], number
        for n in grid:
            rest, i = divmod(rest, n)
            index.append(i)
        for m in program.shared:
            memories[m] = np.zeros(m.static_shape[0], m.dtype.storage_dtype)
        (role,) = program.roles
        running: dict[int, Steps] = {}
        for t in range(role.threads):
            env = {program.thread: t, **dict(zip(program.blocks, index, strict=True)), **scalars}
            running[t] = Thread(env, memories).run(role.body)
        with np.errstate(all="ignore"):
            _together(running)


def _together(running: dict[int, Steps]) -> None:
    answers: dict[int, Any] = dict.fromkeys(running)
    while running:
        asked: dict[int, tuple[Any, ...]] = {}
        for t in list(running):
            try:
                asked[t] = running[t].send(answers[t])
            except StopIteration:
                del running[t]
        assert not asked or len(asked) == len(running), "threads leave while others wait"
        assert len({a[0] for a in asked.values()}) <= 1, "some threads are at a barrier, others at a shuffle"
        for t, a in asked.items():
            answers[t] = None
            if a[0] == "shuffle":
                lane = t % 32 ^ a[3] if a[1] == "shfl_xor" else a[3]
                answers[t] = asked[t // 32 * 32 + lane % 32][2]
