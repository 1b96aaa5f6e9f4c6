"""The accesses of a kernel to shared and global memory, and what they cost, from its thread program.

The index of every access is evaluated for all threads of block 0 and the iterations of the loops around it,
as one NumPy array [loops..., threads]; that gives bank conflicts and sectors without running anything:
*predicted*. What the emulator counted while it ran becomes accesses too: *simulated*. Names that depend on
data have no value here, and an access whose address needs one is listed without addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilebench.backends.emulator.counts import AccessCounts, conflict_ways, sector_counts
from tilebench.errors import Loc
from tilebench.ir.expr import Binary, Cast, Const, Expr, Select, Unary, Var
from tilebench.ir.hopper import BulkLoad, BulkStore, StMatrix, TensorMap, Wgmma
from tilebench.ir.rewrite import children, loads
from tilebench.ir.thread import CpAsync, LdMatrix, Memory, Program, VectorAtomic, VectorCopy
from tilebench.ir.tile import AtomicRMW, Bind, For, If, Stmt, Store
from tilebench.report import Access, Finding, OpInfo, Span

Array = np.ndarray
MOST = 1 << 17
"""Addresses evaluated for one access: more iterations than that are counted, not looked at."""

_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "floormod": np.mod,
    "truncdiv": lambda a, b: np.trunc(a / b).astype(np.int64), "truncmod": np.fmod,
    "min": np.minimum, "max": np.maximum, "bitand": np.bitwise_and, "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift, "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


def value(e: Expr, known: Mapping[Var, Array | None]) -> Array | None:
    """An integer expression as an array over loops and threads; None where it needs memory or data."""
    match e:
        case Const():
            return None if isinstance(e.value, float) else np.asarray(e.value, np.int64)
        case Var():
            return known.get(e)
        case Cast():
            return value(e.value, known) if e.dtype.is_int and not e.value.dtype.is_float else None
        case Select():
            parts = [value(x, known) for x in (e.condition, e.then, e.orelse)]
            return None if any(p is None for p in parts) else np.where(*parts)  # type: ignore[arg-type]
        case Unary():
            inner = value(e.value, known)
            if inner is None:
                return None
            return -inner if e.op == "neg" else ~inner if e.op == "bitnot" else np.logical_not(inner)
        case Binary() if e.op in _OPERATIONS:
            a, b = value(e.left, known), value(e.right, known)
            if a is None or b is None or (e.op.startswith(("floor", "trunc")) and not np.all(b)):
                return None
            return _OPERATIONS[e.op](a, b)
        case _:
            return None


@dataclass
class _Walker:
    """The walk over one role's body: values of names, and the accesses found."""

    threads: int
    first: int
    known: dict[Var, Array | None]
    times: int = 1
    """Executions of the statement by one thread."""
    sampled: int = 1
    """Executions that the arrays have."""
    depth: int = 0
    mask: Array | None = None
    found: list[Access] = field(default_factory=list[Access])

    def statement(self, s: Stmt, at: Loc | None) -> None:
        """One statement and what is in it."""
        at = s.loc or at
        match s:
            case For():
                self._loop(s, at)
            case Bind():
                self._reads(s.value, at)
                self.known[s.var] = value(s.value, self.known)
            case If():
                self._reads(s.condition, at)
                condition = value(s.condition, self.known)
                before = self.mask
                for part, sign in ((s.then, True), (s.orelse, False)):
                    if part is None:
                        continue
                    taken = None if condition is None else np.equal(np.asarray(condition, bool), sign)
                    self.mask = before if taken is None else taken if before is None else before & taken
                    self.statement(part, at)
                self.mask = before
            case VectorCopy():
                kind, memory, index = (
                    ("ld", s.source, s.source_index)
                    if s.source.space != "register"
                    else ("st", s.destination, s.destination_index)
                )
                self._access(kind, memory, index, s.lanes, at, s.predicate)
            case VectorAtomic():
                self._access("atom", s.destination, s.destination_index, s.lanes, at)
            case CpAsync():
                self._access("cp.async", s.destination, s.destination_index, s.lanes, at)
                self._access("cp.async", s.source, s.source_index, s.lanes, at, s.predicate)
            case LdMatrix():
                rows = np.arange(self.threads) % 32 < 8 * s.matrices
                kind = "ldmatrix.trans" if s.transpose else "ldmatrix"
                self._access(kind, s.source, s.source_index, 16 // s.source.dtype.bytes, at, rows)
            case StMatrix():
                rows = np.arange(self.threads) % 32 < 8 * s.matrices
                kind = "stmatrix.trans" if s.transpose else "stmatrix"
                width = 16 // s.destination.dtype.bytes
                self._access(kind, s.destination, s.destination_index, width, at, rows)
            case BulkLoad():
                self._bulk(s.destination, s.source, at)
            case BulkStore():
                self._bulk(s.source, s.destination, at)
            case Wgmma():
                for memory, used in ((s.a, s.a_descriptor is not None), (s.b, True)):
                    if used:
                        self._unit("wgmma", memory, 16, at, self.threads // 128 * self.times)
            case Store():
                self._reads(s.value, at)
                if isinstance(s.buffer, Memory) and s.buffer.space != "register":
                    self._access("st", s.buffer, s.indices[0], 1, at)
            case AtomicRMW():
                self._reads(s.value, at)
                if isinstance(s.buffer, Memory) and s.buffer.space != "register":
                    self._access("atom", s.buffer, s.indices[0], 1, at)
            case _:
                for child in children(s):
                    if isinstance(child, Stmt):
                        self.statement(child, at)
                    elif isinstance(child, Expr):
                        self._reads(child, at)

    def _loop(self, s: For, at: Loc | None) -> None:
        bounds = [value(x, self.known) for x in (s.start, s.stop, s.step)]
        whole = [int(b) for b in bounds if b is not None and b.ndim == 0]
        count = len(range(*whole)) if len(whole) == 3 and whole[2] else 0
        if len(whole) == 3 and not count:
            return
        before = self.times, self.sampled, self.depth
        if count:
            room = max(1, MOST // (self.threads * self.sampled))
            taken = np.arange(*whole, dtype=np.int64)[: min(count, room)]
            self.known[s.var] = taken.reshape(-1, *(1,) * (self.depth + 1))
            self.times, self.sampled, self.depth = (
                self.times * count,
                self.sampled * len(taken),
                self.depth + 1,
            )
        else:
            start = bounds[0]  # an unknown number of iterations: the first stands for all
            self.known[s.var] = start
        self.statement(s.body, at)
        self.times, self.sampled, self.depth = before

    def _reads(self, e: Expr, at: Loc | None) -> None:
        for load in loads(e):
            if isinstance(load.buffer, Memory) and load.buffer.space != "register":
                self._access("ld", load.buffer, load.indices[0], 1, load.loc or at)

    def _bulk(self, memory: Memory, tensor: TensorMap, at: Loc | None) -> None:
        self._unit("bulk.shared", memory, tensor.bytes, at, self.times)
        self._unit("bulk.global", tensor.memory, tensor.bytes, at, self.times)

    def _unit(self, kind: str, memory: Memory, width: int, at: Loc | None, times: int) -> None:
        """An access by a unit of its own, not by lanes: the layout that it asks for has no conflicts."""
        name = memory.origin.name if memory.origin is not None else memory.name
        self.found.append(Access("", name, kind, width, 1, times, line=_line(at)))

    def _access(
        self,
        kind: str,
        memory: Memory,
        index: Expr,
        lanes: int,
        at: Loc | None,
        predicate: Expr | Array | None = None,
    ) -> None:
        for load in loads(index):
            self._reads(load, at)
        width, warps = lanes * memory.dtype.bytes, -(-self.threads // 32)
        space = "shared" if memory.space == "shared" else "global"
        name = memory.origin.name if memory.origin is not None else memory.name
        if kind in ("ld", "st", "atom", "cp.async"):
            kind = f"{kind}.{space}"
        base = Access("", name, kind, width, 0, warps * self.times, line=_line(at))
        elements = value(index, self.known)
        if elements is None:
            self.found.append(base)
            return
        mask = self.mask
        if isinstance(predicate, Expr):
            predicate = value(predicate, self.known)
        if predicate is not None:
            mask = np.asarray(predicate, bool) if mask is None else mask & np.asarray(predicate, bool)
        addresses = elements * memory.dtype.bytes + (memory.byte_offset if space == "shared" else 0)
        rows, active = self._warps(addresses, mask)
        busy = active.any(axis=1)
        if not busy.any():
            return
        base = replace(base, requests=round(base.requests * float(busy.mean())))
        if space == "global":
            moved = int(sector_counts(rows, width, active).sum()) * 32
            useful = int(active.sum()) * width
            self.found.append(
                replace(base, conflict_ways=1, efficiency=min(1.0, useful / moved) if moved else 1.0)
            )
            return
        phases = conflict_ways(rows, width, active).reshape(len(rows), -1)
        worst = int(phases.max(axis=1).argmax())
        lanes_bytes = np.where(active[worst], rows[worst], -1)
        self.found.append(
            replace(
                base,
                conflict_ways=max(1, int(phases.max())),
                addresses=tuple(int(b) for b in lanes_bytes),
                warp=self.first // 32 + worst % warps,
            )
        )

    def _warps(self, addresses: Array, mask: Array | None) -> tuple[Array, Array]:
        """Addresses and activity as [iterations * warps, 32]."""
        shape = np.broadcast_shapes(addresses.shape, (self.threads,), () if mask is None else mask.shape)
        lanes = -(-self.threads // 32) * 32
        rows = np.zeros((*shape[:-1], lanes), np.int64)
        active = np.zeros(rows.shape, bool)
        rows[..., : self.threads] = np.broadcast_to(addresses, shape)
        active[..., : self.threads] = True if mask is None else np.broadcast_to(mask, shape)
        return rows.reshape(-1, 32), active.reshape(-1, 32)


def _line(at: Loc | None) -> int:
    while at is not None and at.call_site is not None:
        at = at.call_site
    return at.line if at is not None else 0


def predicted(program: Program, symbols: Mapping[Var, int] | None = None) -> list[Access]:
    """Every access of the program; those of one line, buffer and kind are one (the worst).

    symbols: values of dynamic extents; block 0 is looked at.
    """

    def known(first: int, threads: int) -> dict[Var, Array | None]:
        names: dict[Var, Array | None] = {program.thread: np.arange(first, first + threads, dtype=np.int64)}
        names.update({b: np.asarray(0, np.int64) for b in program.blocks})
        names.update({v: np.asarray(n, np.int64) for v, n in (symbols or {}).items()})
        return names

    found: list[Access] = []
    start = _Walker(program.threads, 0, known(0, program.threads))
    if program.prologue is not None:
        start.statement(program.prologue, None)
        found += start.found
    for role in program.roles:
        shared = {v: x for v, x in start.known.items() if x is None or x.ndim == 0}  # bound for all roles
        walker = _Walker(role.threads, role.first_thread, shared | known(role.first_thread, role.threads))
        walker.statement(role.body, None)
        found += walker.found
    return merged(found)


def merged(found: Iterable[Access]) -> list[Access]:
    """One access for each line, buffer, kind and width: requests added up, the worst addresses kept."""
    together: dict[tuple[object, ...], Access] = {}
    for a in found:
        key = (a.line, a.buffer, a.kind, a.width_bytes, a.provenance)
        old = together.get(key)
        if old is None:
            together[key] = a
            continue
        worst = a if a.conflict_ways > old.conflict_ways else old
        weight = (old.efficiency * old.requests + a.efficiency * a.requests) / max(
            1, old.requests + a.requests
        )
        together[key] = replace(worst, requests=old.requests + a.requests, efficiency=weight)
    return list(together.values())


_NAMES = {
    "load": "ld", "store": "st", "copy-in": "ld", "copy-out": "st", "atomic": "atom",
    "bulk-load": "bulk", "bulk-store": "bulk",
}  # fmt: skip
_OF_A_WARP = ("ldmatrix", "stmatrix", "wgmma")
"""Kinds that are of shared memory alone, so that they do not say it."""


def simulated(counts: AccessCounts) -> list[Access]:
    """The emulator's counts as accesses, for the blocks that it ran."""
    found: list[Access] = []
    for c in counts.accesses:
        if not c.requests:
            continue
        name = _NAMES.get(c.kind, c.kind)
        kind = name if name in _OF_A_WARP else f"{name}.{c.space}"
        found.append(
            Access(
                "", c.memory, kind, c.width_bytes, c.ways_worst, c.requests, c.efficiency, _line(c.at),
                provenance="simulated",
            )
        )  # fmt: skip
    return merged(found)


def findings(found: Iterable[Access], ops: Iterable[OpInfo]) -> list[Finding]:
    """Bank conflicts, and global accesses that use less than their sectors, as predicted."""
    spans = {op.id: op.span for op in ops}
    out: list[Finding] = []
    for a in found:
        if a.provenance != "predicted":
            continue
        span = spans.get(a.op) or (Span(a.line) if a.line else None)
        where = (span,) if span is not None else ()
        if a.conflict_ways > 1 and ".global" not in a.kind:
            out.append(
                Finding(
                    "bank-conflict",
                    "warning" if a.conflict_ways >= 4 else "info",
                    f"{a.kind} of {a.buffer}: {a.conflict_ways}-way bank conflict (predicted)",
                    where,
                    "the shared memory view shows the phase, and what another swizzle would cost",
                )
            )
        if a.efficiency < 0.5 and ".global" in a.kind:
            share = f"{a.efficiency:.0%} of the bytes that it moves (predicted)"
            out.append(
                Finding(
                    "uncoalesced",
                    "warning" if a.efficiency <= 0.25 else "info",
                    f"{a.kind} of {a.buffer}, {a.width_bytes} bytes a thread, uses {share}",
                    where,
                    "neighbouring threads should touch neighbouring bytes: copy through shared memory",
                )
            )
    return out


def with_ops(found: Iterable[Access], ops: Iterable[OpInfo]) -> tuple[Access, ...]:
    """The accesses with the op that makes them: one of their line, of their buffer where one is."""
    by_line: dict[int, list[OpInfo]] = {}
    for op in ops:
        if op.span is not None:
            by_line.setdefault(op.span.line, []).append(op)
    out: list[Access] = []
    for a in found:
        here = by_line.get(a.line, [])
        owner = next((o for o in here if a.buffer in (*o.reads, *o.writes)), here[0] if here else None)
        out.append(replace(a, op=owner.id if owner else ""))
    return tuple(out)
