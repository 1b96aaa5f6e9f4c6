"""A short way to write kernels in IR: for the ops' examples, and for tests that need a kernel without a
front-end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

from tilebench.ir.dtype import as_dtype, int32
from tilebench.ir.expr import Expr, Var, as_expr, const
from tilebench.ir.rewrite import seq
from tilebench.ir.tile import (
    AtomicRMW,
    Bind,
    Buffer,
    For,
    If,
    Kernel,
    Parallel,
    Param,
    Pipelined,
    Region,
    Scope,
    Stmt,
    Store,
    While,
)
from tilebench.ops.base import Effect


def _as_tuple(indices: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", indices) if isinstance(indices, tuple) else (indices,)


class Draft:
    """A kernel under construction: allocate buffers, add statements, open loops, and take `kernel()`.

    grid: extents (ints or Exprs); `blocks` and `thread` are the kernel's variables.
    """

    def __init__(self, name: str, grid: tuple[Any, ...] = (1,), threads: int = 128) -> None:
        self.name, self.threads = name, threads
        self.grid = tuple(as_expr(g) for g in grid)
        self.blocks = tuple(Var(n, dtype=int32) for n in ("bx", "by", "bz")[: len(grid)])
        self.thread = Var("tx", dtype=int32)
        self.params: list[Param] = []
        self.buffers: list[Buffer] = []
        self.symbols: list[Var] = []
        self.attributes: dict[str, Any] = {}
        self._bodies: list[list[Stmt]] = [[]]

    def tensor(
        self, name: str, shape: tuple[Any, ...], dtype: Any, role: Any = "in", strides: Any = None
    ) -> Buffer:
        """A global tensor argument; new Vars in `shape` become symbols."""
        for extent in shape:
            if isinstance(extent, Var) and not any(extent is s for s in self.symbols):
                self.symbols.append(extent)
        steps = None if strides is None else tuple(as_expr(s) for s in strides)
        buffer = Buffer(name, tuple(as_expr(s) for s in shape), as_dtype(dtype), "global", steps)
        self.params.append(Param(name, buffer, role))
        return buffer

    def scalar(self, name: str, dtype: Any = "int32") -> Var:
        """A scalar argument."""
        var = Var(name, dtype=as_dtype(dtype))
        self.params.append(Param(name, var))
        return var

    def _buffer(self, name: str, shape: tuple[int, ...], dtype: Any, scope: Scope) -> Buffer:
        buffer = Buffer(name, tuple(const(s) for s in shape), as_dtype(dtype), scope)
        self.buffers.append(buffer)
        return buffer

    def shared(self, name: str, shape: tuple[int, ...], dtype: Any) -> Buffer:
        """A buffer in shared memory."""
        return self._buffer(name, shape, dtype, "shared")

    def fragment(self, name: str, shape: tuple[int, ...], dtype: Any) -> Buffer:
        """A buffer spread over the registers of the block."""
        return self._buffer(name, shape, dtype, "fragment")

    def local(self, name: str, shape: tuple[int, ...], dtype: Any) -> Buffer:
        """An array of each thread."""
        return self._buffer(name, shape, dtype, "local")

    def var(self, name: str, dtype: Any) -> Buffer:
        """A scalar of each thread."""
        return self._buffer(name, (1,), dtype, "var")

    def add(self, *steps: Stmt | Effect) -> Any:
        """Append statements; the value of the last one when it has one."""
        value: Any = None
        for step in steps:
            if isinstance(step, Effect):
                self._bodies[-1].append(step.stmt)
                value = step.value
            else:
                self._bodies[-1].append(step)
        return value

    def store(self, buffer: Buffer, indices: Any, value: Any) -> None:
        """buffer[indices] = value, cast."""
        place = _as_tuple(indices)
        self.add(Store(buffer, tuple(as_expr(i) for i in place), as_expr(value).astype(buffer.dtype)))

    def atomic(self, op: str, buffer: Buffer, indices: Any, value: Any) -> None:
        """buffer[indices] op= value, atomically."""
        place = _as_tuple(indices)
        self.add(AtomicRMW(op, buffer, tuple(as_expr(i) for i in place), as_expr(value).astype(buffer.dtype)))

    def bind(self, name: str, value: Expr) -> Var:
        """A named value."""
        var = Var(name, dtype=value.dtype)
        self.add(Bind(var, value))
        return var

    @contextmanager
    def _block(self, make: Callable[[Stmt], Stmt]) -> Generator[None]:
        self._bodies.append([])
        yield
        inside = self._bodies.pop()
        self._bodies[-1].append(make(seq(*inside)))

    @contextmanager
    def serial(self, stop: Any, start: Any = 0, step: int = 1) -> Generator[Var]:
        """`for k in range(start, stop, step)`."""
        k = Var("k", dtype=int32)
        with self._block(lambda body: For(k, as_expr(start), as_expr(stop), body, const(step))):
            yield k

    @contextmanager
    def pipelined(self, stop: Any, num_stages: int = 2) -> Generator[Var]:
        """`for ko in T.Pipelined(stop, num_stages)`."""
        k = Var("ko", dtype=int32)
        with self._block(lambda body: Pipelined(k, const(0), as_expr(stop), body, num_stages)):
            yield k

    @contextmanager
    def parallel(self, *extents: int) -> Generator[tuple[Var, ...]]:
        """`for i, j in T.Parallel(...)`."""
        vars = tuple(Var("ijlmnopqr"[d], dtype=int32) for d in range(len(extents)))
        with self._block(lambda body: Parallel(vars, extents, body)):
            yield vars

    @contextmanager
    def when(self, condition: Expr) -> Generator[None]:
        """`if condition`."""
        with self._block(lambda body: If(condition, body)):
            yield

    @contextmanager
    def loop_while(self, condition: Expr) -> Generator[None]:
        """`while condition`."""
        with self._block(lambda body: While(condition, body)):
            yield

    def kernel(self) -> Kernel:
        """The finished kernel."""
        assert len(self._bodies) == 1, "a block is still open"
        return Kernel(
            self.name,
            tuple(self.params),
            self.grid,
            self.blocks,
            (self.threads,),
            self.thread,
            tuple(self.buffers),
            seq(*self._bodies[0]),
            tuple(self.symbols),
            attributes=self.attributes,
        )


def tile(buffer: Buffer, *parts: tuple[Any, int] | int | Expr) -> Region:
    """A slice: one (start, extent) pair or one index for each dimension."""
    offsets: list[Expr] = []
    extents: list[int] = []
    dropped: set[int] = set()
    for d, part in enumerate(parts):
        if isinstance(part, tuple):
            offsets.append(as_expr(part[0]))
            extents.append(part[1])
        else:
            offsets.append(as_expr(part))
            extents.append(1)
            dropped.add(d)
    return Region(buffer, tuple(offsets), tuple(extents), frozenset(dropped))
