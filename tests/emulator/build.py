"""Hand-built thread programs: a few words around the nodes of the thread IR, a line for each statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from tilebench.backends.emulator.schedule import EmulationResult, run_program
from tilebench.errors import Loc, Source
from tilebench.ir.dtype import DType, as_dtype
from tilebench.ir.expr import Expr, Load, Var, as_expr, call, cast, const
from tilebench.ir.rewrite import seq
from tilebench.ir.thread import (
    Barrier,
    CpAsync,
    CpAsyncCommit,
    CpAsyncWait,
    LdMatrix,
    Memory,
    Mma,
    Program,
    Role,
    SyncWarp,
    VectorCopy,
    global_memory,
    register_array,
    shared_memory,
)  # fmt: skip
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
    Param,
    Print,
    Stmt,
    Store,
    While,
)  # fmt: skip


class Build:
    """Collects parameters, memories and statements. Statement n (from 1) stands on line n of its source."""

    def __init__(self, threads: int = 32, grid: Sequence[int] = (1,)) -> None:
        i32 = as_dtype("int32")
        self.threads, self.grid = threads, tuple(grid)
        self.tx = Var("tx", dtype=i32)
        self.blocks = tuple(Var(n, dtype=i32) for n, _ in zip("xyz", grid, strict=False))
        self.params: list[Param] = []
        self.globals: dict[Buffer, Memory] = {}
        self.registers: list[Memory] = []
        self.memories: list[Memory] = []
        self.bytes = 0
        self.roles: list[Role] = []
        self.source = Source("test", "\n" * 400)
        self.line = 0
        self.open: list[list[Stmt]] = [[]]

    # -------------------------------------------------------------- memories

    def tensor(self, name: str, count: int, dtype: str, role: Any = "in") -> Memory:
        buffer = Buffer(name, (const(count),), as_dtype(dtype), "global")
        self.globals[buffer] = global_memory(buffer, const(count))
        self.params.append(Param(name, buffer, role))
        return self.globals[buffer]

    def scalar(self, name: str, dtype: str) -> Var:
        var = Var(name, dtype=as_dtype(dtype))
        self.params.append(Param(name, var))
        return var

    def shared(self, name: str, count: int, dtype: str, at: int | None = None) -> Memory:
        kind = as_dtype(dtype)
        at = -(-self.bytes // 16) * 16 if at is None else at
        memory = shared_memory(name, count, kind, at)
        self.bytes = max(self.bytes, at + count * kind.storage_dtype.itemsize)
        self.memories.append(memory)
        return memory

    def regs(self, name: str, count: int, dtype: str) -> Memory:
        self.registers.append(register_array(name, count, as_dtype(dtype)))
        return self.registers[-1]

    # -------------------------------------------------------------- statements

    def loc(self) -> Loc:
        self.line += 1
        return Loc(self.source, self.line)

    def emit(self, make: Any, *args: Any, **named: Any) -> int:
        """Append a statement; its line."""
        at = self.loc()
        self.open[-1].append(make(*args, **named, loc=at))
        return at.line

    def store(self, memory: Memory, index: Any, value: Any) -> int:
        value = as_expr(value) if isinstance(value, Expr) else const(value, memory.dtype)
        return self.emit(Store, memory, (as_expr(index),), cast(value, memory.dtype))

    def load(self, memory: Memory, index: Any) -> Load:
        return Load(memory, (as_expr(index),), dtype=memory.dtype)

    def bind(self, value: Expr, name: str = "v") -> Var:
        var = Var(name, dtype=value.dtype)
        self.emit(Bind, var, value)
        return var

    def copy(
        self,
        d: Memory,
        di: Any,
        s: Memory,
        si: Any,
        lanes: int,
        predicate: Any = None,
        zero_fill: bool = False,
    ) -> int:
        return self.emit(VectorCopy, d, as_expr(di), s, as_expr(si), lanes, predicate, zero_fill)

    def cp_async(self, d: Memory, di: Any, s: Memory, si: Any, lanes: int, predicate: Any = None) -> int:
        return self.emit(CpAsync, d, as_expr(di), s, as_expr(si), lanes, predicate)

    def commit(self) -> int:
        return self.emit(CpAsyncCommit)

    def wait(self, pending: int = 0) -> int:
        return self.emit(CpAsyncWait, pending)

    def sync(self, id: int = 0, threads: int | None = None) -> int:
        return self.emit(Barrier, id, threads)

    def sync_warp(self) -> int:
        return self.emit(SyncWarp)

    def ldmatrix(self, d: Memory, di: Any, s: Memory, si: Any, matrices: Any, transpose: bool = False) -> int:
        return self.emit(LdMatrix, d, as_expr(di), s, as_expr(si), matrices, transpose)

    def mma(self, k: int, d: Memory, di: Any, a: Memory, ai: Any, b: Memory, bi: Any, kind: str = "") -> int:
        return self.emit(Mma, (16, 8, k), d, as_expr(di), a, as_expr(ai), b, as_expr(bi), kind)

    def atomic(self, op: str, memory: Memory, index: Any, value: Any, result: bool = False) -> Var | None:
        old = Var("old", dtype=memory.dtype) if result else None
        value = value if isinstance(value, Expr) else const(value, memory.dtype)
        self.emit(AtomicRMW, op, memory, (as_expr(index),), cast(value, memory.dtype), old)
        return old

    def evaluate(self, value: Expr) -> int:
        return self.emit(Evaluate, value)

    def check(self, condition: Expr, message: str) -> int:
        return self.emit(Assert, condition, message)

    def print(self, message: str, *values: Expr) -> int:
        return self.emit(Print, message, values)

    def leave(self) -> int:
        return self.emit(Break)

    def skip(self) -> int:
        return self.emit(Continue)

    @contextmanager
    def _body(self) -> Iterator[list[Stmt]]:
        self.open.append([])
        yield self.open[-1]
        self.open.pop()

    @contextmanager
    def loop(
        self, stop: Any, start: Any = 0, step: int = 1, kind: Any = "serial", independent: bool = False
    ) -> Iterator[Var]:
        at = self.loc()
        var = Var("i", dtype=as_dtype("int32"))
        with self._body() as body:
            yield var
        self.open[-1].append(
            For(var, as_expr(start), as_expr(stop), seq(*body), const(step), kind, independent, loc=at)
        )

    def each(self, count: int) -> AbstractContextManager[Var]:
        """An unrolled loop of independent iterations."""
        return self.loop(count, kind="unroll", independent=True)

    @contextmanager
    def when(self, condition: Expr) -> Iterator[None]:
        at = self.loc()
        with self._body() as body:
            yield
        self.open[-1].append(If(condition, seq(*body), None, loc=at))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        last = self.open[-1].pop()
        assert isinstance(last, If)
        with self._body() as body:
            yield
        self.open[-1].append(If(last.condition, last.then, seq(*body), loc=last.loc))

    @contextmanager
    def loop_while(self, condition: Expr) -> Iterator[None]:
        at = self.loc()
        with self._body() as body:
            yield
        self.open[-1].append(While(condition, seq(*body), loc=at))

    def end_role(self, name: str, first: int, threads: int) -> None:
        """What was written so far is the body of a role."""
        self.roles.append(Role(name, first, threads, seq(*self.open.pop())))
        self.open.append([])

    # -------------------------------------------------------------- running

    def program(self) -> Program:
        if not self.roles:
            self.end_role("all", 0, self.threads)
        return Program(
            "test", tuple(self.params), self.globals, (),
            tuple(const(g) for g in self.grid), self.blocks, self.tx,
            self.threads, tuple(self.roles), tuple(self.registers), tuple(self.memories), self.bytes, "sm_80",
        )  # fmt: skip

    def run(self, *arguments: Any, **options: Any) -> EmulationResult:
        return run_program(self.program(), arguments, {}, **options)


def intrinsic(name: str, *args: Any, dtype: str | DType | None = None) -> Expr:
    """A Call."""
    values = [as_expr(a) for a in args]
    return call(name, values, as_dtype(dtype) if dtype is not None else values[0].dtype)


def zeros(count: int, dtype: str) -> np.ndarray:
    """An array in storage form."""
    return np.zeros(count, dtype=as_dtype(dtype).storage_dtype)


def kinds(result: EmulationResult) -> list[str]:
    """The kinds of the findings."""
    return [f.kind for f in result.findings]
