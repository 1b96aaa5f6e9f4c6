"""A tile program, block by block, on numbers with bounds.

Parallel nests run as arrays over their iteration space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilebench.ir.dtype import decode, float64, int64, round_to
from tilebench.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from tilebench.ir.intrinsics import INTRINSICS
from tilebench.ir.launches import grid_of, launches
from tilebench.ir.rewrite import walk
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
    Kernel,
    Parallel,
    Pipelined,
    Print,
    Region,
    Seq,
    Stmt,
    Store,
    SyncThreads,
    TileOp,
    Versioned,
    While,
)  # fmt: skip
from tilebench.oracle import tileops
from tilebench.oracle.functions import intrinsic
from tilebench.oracle.value import OracleUnsupported, Val, binary, cast, make, select

MAX_TRIPS = 1 << 20


@dataclass(frozen=True)
class OracleResult:
    """One written tensor.

    value float64 (or int64); covered: elements that the evaluated blocks wrote; ambiguous: left out.
    """

    value: np.ndarray
    bound: np.ndarray
    covered: np.ndarray
    ambiguous: np.ndarray


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


@dataclass
class Memory:
    """The arrays of one buffer."""

    value: np.ndarray
    bound: np.ndarray
    ambiguous: np.ndarray
    covered: np.ndarray
    atomic_magnitude: np.ndarray | None = None
    atomic_count: np.ndarray | None = None


@dataclass
class Frame:
    """What is in force: values of Vars, the active mask of a Parallel nest (None: uniform), per-iteration
    variables.
    """

    values: dict[Var, Val]
    mask: Any = None
    shape: tuple[int, ...] = ()
    private: dict[Buffer, dict[int, Val]] = field(default_factory=dict[Buffer, dict[int, Val]])


def evaluate(
    kernel: Kernel,
    arguments: Sequence[Any],
    symbols: Mapping[Var, int],
    grid: tuple[int, ...],
    blocks: Sequence[tuple[int, ...]] | None = None,
) -> dict[str, OracleResult]:
    """The written tensors by parameter name. arguments as for an Executable with host arrays; blocks None:
    all.

    Raises OracleUnsupported for per-thread code, and when only some blocks are asked for, for atomics on
    global memory and for programs of several launches.
    """
    if blocks is not None and kernel.then is not None:
        raise OracleUnsupported("some blocks of a program of several launches")
    machine: Machine | None = None
    known = {**symbols, **_numbers(kernel, arguments)}
    for part in launches(kernel):
        _supported(part, blocks)
        earlier, machine = machine, Machine(part, arguments, symbols)
        if earlier is not None:
            machine.continue_from(earlier)
        here = (
            blocks if blocks is not None else np.ndindex(*(grid if part is kernel else grid_of(part, known)))
        )
        for index in here:
            machine.block(tuple(int(i) for i in index))
    assert machine is not None, "a program has a launch"
    return machine.results()


def _numbers(kernel: Kernel, arguments: Sequence[Any]) -> dict[Var, int]:
    """The whole numbers among the arguments, which the grid of a later launch may name."""
    return {
        p.value: int(a)
        for p, a in zip(kernel.params, arguments, strict=True)
        if isinstance(p.value, Var) and not p.value.dtype.is_float
    }


def _supported(kernel: Kernel, blocks: Sequence[Any] | None) -> None:
    for node in walk(kernel.body):
        if node is kernel.thread:
            raise OracleUnsupported("code that names a thread")
        if isinstance(node, Call) and INTRINSICS[node.name].per_thread:
            raise OracleUnsupported(f"the per-thread intrinsic {node.name}")
        if isinstance(node, AtomicRMW) and node.result is not None:
            raise OracleUnsupported("the old value of an atomic: it depends on the order of the blocks")
        atomic = isinstance(node, AtomicRMW) and node.buffer.scope == "global"
        if blocks is not None and (atomic or type(node).__name__ == "AtomicTile"):
            raise OracleUnsupported("atomics need all blocks")


class Machine:
    """Evaluates blocks of one launch into the tensors."""

    def __init__(self, kernel: Kernel, arguments: Sequence[Any], symbols: Mapping[Var, int]) -> None:
        self.kernel = kernel
        named = (n.buffer for n in walk(kernel.body) if isinstance(n, Region | Load))
        buffers = dict.fromkeys((*kernel.buffers, *named))
        self.views = [b for b in buffers if b.view_of is not None]
        self.own = [b for b in buffers if b.scope != "global" and b.view_of is None]
        """What a block starts with, unwritten; results of T.any_of are declared nowhere."""
        self.base: dict[Var, Val] = {v: make(x, v.dtype) for v, x in symbols.items()}
        self.memory: dict[Buffer, Memory] = {}
        self.written: set[Buffer] = set()
        for param, argument in zip(kernel.params, arguments, strict=True):
            if isinstance(param.value, Var):
                kind = param.value.dtype
                given = round_to(np.asarray(argument), kind) if kind.is_float else argument
                self.base[param.value] = make(given, kind)
            else:
                values = np.array(decode(argument.array, param.value.dtype))
                with np.errstate(invalid="ignore"):  # fresh outputs hold any bits, signalling NaNs too
                    values = (
                        values.astype(np.float64)
                        if param.value.dtype.is_float
                        else values.astype(bool if param.value.dtype.kind == "bool" else np.int64)
                    )
                self.memory[param.value] = _memory(values)
        for buffer in kernel.buffers:
            if buffer.workspace and buffer.view_of is None:
                self.memory[buffer] = _unwritten(buffer, self._extents(buffer))

    def _extents(self, buffer: Buffer) -> tuple[int, ...]:
        frame = Frame(dict(self.base))
        return tuple(int(self.value(e, frame).value) for e in buffer.shape)

    def continue_from(self, earlier: Machine) -> None:
        """Take the global memory as another launch left it."""
        for buffer, memory in earlier.memory.items():
            if buffer.scope == "global":
                self.memory[buffer] = memory
        self.written = earlier.written

    def block(self, index: tuple[int, ...]) -> None:
        """Run one block."""
        for buffer in self.own:
            self.memory[buffer] = _unwritten(buffer, buffer.static_shape)
        for buffer in self.views:
            self._view(buffer)
        frame = Frame(
            {**self.base, **{v: make(i, v.dtype) for v, i in zip(self.kernel.blocks, index, strict=True)}}
        )
        self.run(self.kernel.body, frame)

    def _view(self, buffer: Buffer) -> None:
        origin = buffer.view_of
        assert origin is not None, "only views come here"
        if origin not in self.memory:
            self._view(origin)
        if origin.dtype != buffer.dtype:
            raise OracleUnsupported(f"{buffer.name} reinterprets {origin.dtype} as {buffer.dtype}")
        m = self.memory[origin]
        shape = buffer.static_shape
        self.memory[buffer] = Memory(*(x.reshape(shape) for x in (m.value, m.bound, m.ambiguous, m.covered)))

    def results(self) -> dict[str, OracleResult]:
        """The written tensors."""
        found: dict[str, OracleResult] = {}
        for param in self.kernel.params:
            if isinstance(param.value, Buffer) and param.value in self.written:
                m = self.memory[param.value]
                bound = m.bound
                if (
                    m.atomic_count is not None
                    and m.atomic_magnitude is not None
                    and param.value.dtype.is_float
                ):
                    u = param.value.dtype.unit_roundoff
                    exact = (m.atomic_magnitude <= 1 / u) & (bound == 0) & (m.value == np.rint(m.value))
                    bound = bound + np.where(exact, 0.0, 1.01 * u * m.atomic_count * m.atomic_magnitude)
                found[param.name] = OracleResult(m.value, bound, m.covered, m.ambiguous)
        return found

    # ---------------------------------------------------------------- statements

    def run(self, s: Stmt, f: Frame) -> None:
        """One statement."""
        if isinstance(s, TileOp):
            if f.shape:
                raise OracleUnsupported("a tile op inside a parallel loop")
            tileops.run(s, self, f)
            return
        match s:
            case Seq():
                for part in s.body:
                    self.run(part, f)
            case Parallel():
                self._parallel(s, f)
            case For() | Pipelined():
                self._loop(s, f)
            case While():
                for _ in range(MAX_TRIPS):
                    if not self._decide(s.condition, f):
                        return
                    try:
                        self.run(s.body, f)
                    except _Break:
                        return
                    except _Continue:
                        continue
                raise OracleUnsupported("a while loop of more than a million trips")
            case If():
                self._if(s, f)
            case Bind():
                f.values[s.var] = self.value(s.value, f)
            case Store():
                self.store(s.buffer, tuple(self.value(i, f) for i in s.indices), self.value(s.value, f), f)
            case AtomicRMW():
                self.atomic(
                    s.op, s.buffer, tuple(self.value(i, f) for i in s.indices), self.value(s.value, f), f
                )
            case Versioned():
                self.run(s.body, f)
            case Break():
                raise _Break
            case Continue():
                raise _Continue
            case SyncThreads() | Print() | Assert() | Evaluate():
                return
            case _:
                raise OracleUnsupported(type(s).__name__)

    def _parallel(self, s: Parallel, f: Frame) -> None:
        rank = len(f.shape)
        shape = f.shape + s.extents
        values = (
            {v: _unsqueeze(x, len(s.extents)) if rank else x for v, x in f.values.items()}
            if rank
            else dict(f.values)
        )
        for d, (var, extent) in enumerate(zip(s.vars, s.extents, strict=True)):
            axis = np.arange(extent).reshape((1,) * (rank + d) + (-1,) + (1,) * (len(s.extents) - d - 1))
            values[var] = make(axis, var.dtype)
        mask = None if f.mask is None else np.asarray(f.mask)[(...,) + (None,) * len(s.extents)]
        private = {
            b: {k: _unsqueeze(v, len(s.extents)) for k, v in table.items()} for b, table in f.private.items()
        }
        self.run(s.body, Frame(values, mask, shape, private))

    def _loop(self, s: For | Pipelined, f: Frame) -> None:
        start, stop = self._int(s.start, f), self._int(s.stop, f)
        step = self._int(s.step, f) if isinstance(s, For) else 1
        for i in range(start, stop, step):
            f.values[s.var] = make(i, s.var.dtype)
            try:
                self.run(s.body, f)
            except _Break:
                return
            except _Continue:
                continue

    def _if(self, s: If, f: Frame) -> None:
        condition = self.value(s.condition, f)
        if not f.shape:
            if np.any(condition.ambiguous):
                raise OracleUnsupported("an if that hangs on rounding")
            branch = s.then if bool(condition.value) else s.orelse
            if branch is not None:
                self.run(branch, f)
            return
        if np.any(condition.ambiguous):
            raise OracleUnsupported("an if that hangs on rounding")
        active = np.broadcast_to(np.asarray(condition.value, bool), f.shape)
        outer = f.mask
        for branch, here in ((s.then, active), (s.orelse, ~active)):
            if branch is not None:
                f.mask = here if outer is None else here & outer
                self.run(branch, f)
        f.mask = outer

    def _decide(self, e: Expr, f: Frame) -> bool:
        value = self.value(e, f)
        if f.shape or np.any(value.ambiguous):
            raise OracleUnsupported("a loop that hangs on rounding or on the iteration")
        return bool(value.value)

    def _int(self, e: Expr, f: Frame) -> int:
        value = self.value(e, f)
        if np.size(value.value) != 1 or np.any(value.ambiguous):
            raise OracleUnsupported("a loop whose bounds differ between iterations")
        return int(np.asarray(value.value).reshape(()))

    # ---------------------------------------------------------------- expressions

    def value(self, e: Expr, f: Frame) -> Val:
        """An expression in the frame."""
        match e:
            case Const():
                exact = make(e.value, e.dtype)
                return (
                    cast(Val(exact.value, 0.0, float64, False), e.dtype)
                    if e.dtype.is_float and np.isfinite(e.value)
                    else exact
                )
            case Var():
                if e not in f.values:
                    raise OracleUnsupported(f"the variable {e.name}")
                return f.values[e]
            case Load():
                return self.load(e.buffer, tuple(self.value(i, f) for i in e.indices), f)
            case Binary():
                return binary(e.op, self.value(e.left, f), self.value(e.right, f), e.dtype)
            case Unary():
                a = self.value(e.value, f)
                if e.op == "not":
                    return Val(~np.asarray(a.value, bool), 0.0, e.dtype, a.ambiguous)
                if e.op == "bitnot":
                    return make(~np.asarray(a.value), e.dtype, 0.0, a.ambiguous)
                return make(-a.value, e.dtype, a.bound, a.ambiguous)
            case Cast():
                return cast(self.value(e.value, f), e.dtype)
            case Select():
                return select(self.value(e.condition, f), self.value(e.then, f), self.value(e.orelse, f))
            case Call():
                return intrinsic(e.name, [self.value(a, f) for a in e.args], e.dtype)
            case _:
                raise OracleUnsupported(type(e).__name__)

    def load(self, buffer: Buffer, indices: tuple[Val, ...], f: Frame) -> Val:
        """Elements of a buffer; an index outside (only under a guard that does not hold) gives whatever is
        nearest.
        """
        if buffer.scope in ("var", "local") and f.shape and buffer in f.private:
            return self._private(buffer, indices, f)
        m = self.memory[buffer]
        place = tuple(
            np.clip(np.asarray(i.value), 0, n - 1) for i, n in zip(indices, m.value.shape, strict=True)
        )
        ambiguous: Any = False
        for i in indices:
            ambiguous = ambiguous | np.asarray(i.ambiguous)
        if 0 in m.value.shape:
            return make(np.zeros(np.broadcast_shapes(*(np.shape(p) for p in place))), buffer.dtype)
        return Val(m.value[place], m.bound[place], buffer.dtype, m.ambiguous[place] | ambiguous)

    def _flat(self, buffer: Buffer, indices: tuple[Val, ...]) -> int:
        flat = 0
        for i, n in zip(indices, buffer.static_shape, strict=True):
            if np.size(i.value) != 1:
                raise OracleUnsupported("a private array indexed differently in each iteration")
            flat = flat * n + int(np.asarray(i.value).reshape(()))
        return flat

    def _private(self, buffer: Buffer, indices: tuple[Val, ...], f: Frame) -> Val:
        flat = self._flat(buffer, indices)
        if flat in f.private[buffer]:
            return f.private[buffer][flat]
        m = self.memory[buffer]
        return Val(m.value.ravel()[flat], m.bound.ravel()[flat], buffer.dtype, m.ambiguous.ravel()[flat])

    def store(self, buffer: Buffer, indices: tuple[Val, ...], value: Val, f: Frame) -> None:
        """`buffer[indices] = value` in the active iterations; outside elements raise (the program is wrong
        there).
        """
        if buffer.scope in ("var", "local") and f.shape:
            self._store_private(buffer, indices, value, f)
            return
        m = self.memory[buffer]
        place, (v, bound, ambiguous) = self._targets(m, indices, value, f)
        m.value[place], m.bound[place], m.ambiguous[place], m.covered[place] = v, bound, ambiguous, True
        self._note(buffer)

    def _note(self, buffer: Buffer) -> None:
        self.written.add(buffer.data)

    def _store_private(self, buffer: Buffer, indices: tuple[Val, ...], value: Val, f: Frame) -> None:
        flat = self._flat(buffer, indices)
        table = f.private.setdefault(buffer, {})
        if f.mask is not None:
            old = self._private(buffer, indices, f)
            keep = Val(np.asarray(f.mask), 0.0, float64, False)
            value = select(keep, value, old)
        table[flat] = value

    def _targets(
        self, m: Memory, indices: tuple[Val, ...], value: Val, f: Frame
    ) -> tuple[Any, tuple[Any, Any, Any]]:
        """The places written, and value, bound and ambiguity there: only active iterations, everything
        broadcast.
        """
        if any(np.any(i.ambiguous) for i in indices):
            raise OracleUnsupported("a store whose place hangs on rounding")
        parts = [np.asarray(i.value) for i in indices]
        shape = np.broadcast_shapes(
            f.shape,
            *(p.shape for p in parts),
            np.shape(value.value),
            np.shape(value.bound),
            np.shape(value.ambiguous),
        )
        if f.shape and shape != f.shape:
            raise OracleUnsupported("a value with more axes than its loop")
        place = tuple(np.broadcast_to(p, shape) for p in parts)
        data = (
            np.broadcast_to(value.value, shape),
            np.broadcast_to(value.bound, shape),
            np.broadcast_to(value.ambiguous, shape),
        )
        inside = np.ones(shape, bool)
        for p, n in zip(place, m.value.shape, strict=True):
            inside = inside & (p >= 0) & (p < n)
        if f.mask is not None:
            inside = inside & np.broadcast_to(f.mask, shape)
        if inside.all():
            return place, data
        return tuple(p[inside] for p in place), (data[0][inside], data[1][inside], data[2][inside])

    def atomic(self, op: str, buffer: Buffer, indices: tuple[Val, ...], value: Val, f: Frame) -> None:
        """`buffer[indices] op= value`, in any order."""
        m = self.memory[buffer]
        value = cast(value, buffer.dtype)
        place, (v, bound, ambiguous) = self._targets(m, indices, value, f)
        if op == "add":
            if m.atomic_count is None or m.atomic_magnitude is None:
                m.atomic_count, m.atomic_magnitude = (
                    np.zeros(m.value.shape),
                    np.abs(np.nan_to_num(m.value.astype(np.float64))),
                )
            np.add.at(m.value, place, v)
            np.add.at(m.bound, place, bound)
            np.add.at(m.atomic_count, place, 1)
            np.add.at(m.atomic_magnitude, place, np.abs(v) + bound)
            if not buffer.dtype.is_float:
                m.value[...] = make(m.value, buffer.dtype).value
        else:
            functions: dict[str, Any] = {
                "max": np.fmax,
                "min": np.fmin,
                "and": np.bitwise_and,
                "or": np.bitwise_or,
                "xor": np.bitwise_xor,
            }
            if op not in functions:
                raise OracleUnsupported(f"atomic {op}")
            functions[op].at(m.value, place, v)
            np.maximum.at(m.bound, place, bound)
        np.logical_or.at(m.ambiguous, place, ambiguous)
        m.covered[place] = True
        self._note(buffer)

    # ---------------------------------------------------------------- regions, for tile ops

    def read(self, region: Region, f: Frame, outside: float = 0.0) -> Val:
        """A region's numbers, shape region.shape; elements outside a global tensor are `outside`, exactly."""
        m = self.memory[region.buffer]
        starts = [self._int(o, f) for o in region.offsets]
        place = np.ix_(
            *(
                np.clip(s + np.arange(n), 0, max(0, size - 1))
                for s, n, size in zip(starts, region.extents, m.value.shape, strict=True)
            )
        )
        inside = np.ones(region.extents, bool)
        for d, (s, n, size) in enumerate(zip(starts, region.extents, m.value.shape, strict=True)):
            axis = s + np.arange(n)
            inside = inside & ((axis >= 0) & (axis < size)).reshape(
                (1,) * d + (-1,) + (1,) * (len(starts) - d - 1)
            )
        if 0 in m.value.shape:
            value = np.full(region.extents, outside, m.value.dtype)
            bound, ambiguous = np.zeros(region.extents), np.zeros(region.extents, bool)
        else:
            value = np.where(inside, m.value[place], np.asarray(outside, m.value.dtype))
            bound = np.where(inside, m.bound[place], 0.0)
            ambiguous = np.where(inside, m.ambiguous[place], False)
        shape = region.shape
        return Val(value.reshape(shape), bound.reshape(shape), region.dtype, ambiguous.reshape(shape))

    def places(self, region: Region, f: Frame) -> tuple[Val, ...]:
        """Index arrays of a region, of shape region.extents."""
        starts = [self._int(o, f) for o in region.offsets]
        axes = np.meshgrid(
            *(s + np.arange(n) for s, n in zip(starts, region.extents, strict=True)), indexing="ij"
        )
        return tuple(make(a, int64) for a in axes)

    def write(self, region: Region, value: Val, f: Frame) -> None:
        """Store numbers of shape region.shape (cast to its dtype); elements outside are skipped."""
        value = cast(value, region.dtype)
        numbers, error, unsure = (
            np.broadcast_to(x, region.shape).reshape(region.extents)
            for x in (value.value, value.bound, value.ambiguous)
        )
        full = Val(numbers, error, region.dtype, unsure)
        m = self.memory[region.buffer]
        place, (v, bound, ambiguous) = self._targets(m, self.places(region, f), full, Frame({}))
        m.value[place], m.bound[place], m.ambiguous[place], m.covered[place] = v, bound, ambiguous, True
        self._note(region.buffer)


def _unwritten(buffer: Buffer, shape: tuple[int, ...]) -> Memory:
    kind = bool if buffer.dtype.kind == "bool" else np.int64
    return _memory(np.full(shape, np.nan) if buffer.dtype.is_float else np.zeros(shape, kind))


def _memory(values: np.ndarray) -> Memory:
    values = np.array(values)
    return Memory(values, np.zeros(values.shape), np.zeros(values.shape, bool), np.zeros(values.shape, bool))


def _unsqueeze(v: Val, count: int) -> Val:
    def wide(x: Any) -> Any:
        array = np.asarray(x)
        return array.reshape(array.shape + (1,) * count) if array.ndim else x

    return Val(wide(v.value), wide(v.bound), v.dtype, wide(v.ambiguous))
