"""Elements that every block along an axis of the grid writes: the last one wins, or additions get lost.

Blocks run in no order. Where they run one after the other (cpu, interp) such a program gives what it means
to give, or what the last block wrote, so a run does not say it. It is said when the program does: the place
and the guards do not depend on the axis, and the value does, or is made from what stands there. Programs
with atomics are left alone: they may well hand over in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilebench.errors import LaunchError
from tilebench.ir.expr import Expr, Load, Var
from tilebench.ir.launches import grid_of, launches
from tilebench.ir.rewrite import children, walk
from tilebench.ir.tile import (
    AtomicRMW,
    Bind,
    Buffer,
    For,
    If,
    Kernel,
    Pipelined,
    Region,
    Stmt,
    Store,
    TileOp,
    While,
)
from tilebench.kernel.facts import line_of, span
from tilebench.kernel.touches import Touch, depends, touches
from tilebench.ops.atomic import AtomicTile
from tilebench.report import Finding

CODE = "TB431"
NAMES = "xyz"


@dataclass(frozen=True)
class Overlap:
    """A write, the axes that its place does not depend on, and whether it reads what it writes."""

    touch: Touch
    axes: tuple[int, ...]
    updates: bool


def overlapping(kernel: Kernel, symbols: Mapping[Var, int]) -> tuple[Overlap, ...]:
    """The writes of all launches that several blocks make to the same elements, with values of their own."""
    parts = launches(kernel)
    if any(_is_atomic(node) for part in parts for node in walk(part.body)):
        return ()
    found: list[Overlap] = []
    for part in parts:
        try:
            grid = grid_of(part, symbols)
        except LaunchError as error:
            if error.code != "TB604":
                raise
            continue
        if 0 in grid:
            continue
        several = [d for d, n in enumerate(grid) if n > 1]
        for t in touches(part):
            if t.write and t.certain:
                made = _look(part, t, several)
                if made is not None:
                    found.append(made)
    return tuple(found)


def _is_atomic(node: object) -> bool:
    buffer = (
        node.buffer
        if isinstance(node, AtomicRMW)
        else node.destination.buffer
        if isinstance(node, AtomicTile)
        else None
    )
    return buffer is not None and buffer.scope == "global"


def _look(kernel: Kernel, t: Touch, several: Iterable[int]) -> Overlap | None:
    names: set[Var] = set()
    for e in (*t.indices, *t.guards):
        decided_by = depends(e, t.axes)
        if decided_by is None:
            return None
        names |= decided_by
    given = {p.value for p in kernel.params if isinstance(p.value, Var)}
    if names - {a.var for a in t.axes} - given - set(kernel.symbols):
        return None  # a value that an operation gave back
    same = [d for d in several if kernel.blocks[d] not in names]
    if not same:
        return None
    if _made_of(kernel, t, (), (t.buffer.data,)):
        return Overlap(t, tuple(same), True)
    axes = tuple(d for d in same if _made_of(kernel, t, (kernel.blocks[d],), ()))
    return Overlap(t, axes, False) if axes else None


# ------------------------------------------------------------------ what a value is made of


def _made_of(kernel: Kernel, t: Touch, vars: Iterable[Var], buffers: Iterable[Buffer]) -> bool:
    """Whether what the access stores is made of these variables, or of what these buffers hold."""
    flow = _Flow(set(vars), {id(b) for b in buffers})
    while flow.grew:
        flow.grew = False
        flow.statement(kernel.body, False)
    return t.by in flow.carrying


class _Flow:
    """Variables, buffers and writes that what is asked about flows into; conditions count."""

    def __init__(self, vars: set[Var], buffers: set[int]) -> None:
        self.vars, self.buffers = vars, buffers
        self.asked = frozenset(buffers)
        self.carrying: set[Stmt] = set()
        self.grew = True

    def has(self, e: Expr | Region) -> bool:
        for node in walk(e):
            if isinstance(node, Var) and node in self.vars:
                return True
            if isinstance(node, Load | Region) and id(node.buffer.data) in self.buffers:
                return True
        return False

    def statement(self, s: Stmt, inside: bool) -> None:
        """inside: what is around s decides by it whether s runs."""
        match s:
            case For() | Pipelined():
                if self.has(s.start) or self.has(s.stop):
                    self._var(s.var)
                    inside = True
                self.statement(s.body, inside)
            case If() | While():
                inside = inside or self.has(s.condition)
                for child in children(s):
                    if isinstance(child, Stmt):
                        self.statement(child, inside)
            case Bind():
                if self.has(s.value):
                    self._var(s.var)
            case Store():
                if inside or self.has(s.value) or any(self.has(i) for i in s.indices):
                    self._wrote(s, s.buffer)
            case AtomicRMW():
                if inside or self.has(s.value) or any(self.has(i) for i in s.indices):
                    self._wrote(s, s.buffer)
                    if s.result is not None:
                        self._var(s.result)
            case TileOp():
                self._op(s, inside)
            case _:
                for child in children(s):
                    if isinstance(child, Stmt):
                        self.statement(child, inside)

    def _op(self, s: TileOp, inside: bool) -> None:
        reads = any(self.has(r) for r in s.reads)
        values = any(self.has(c) for c in children(s) if isinstance(c, Expr))
        places = any(self.has(o) for w in s.writes for o in w.offsets)
        if inside or reads or values or places:
            for w in s.writes:
                self._wrote(s, w.buffer)

    def _var(self, v: Var) -> None:
        if v not in self.vars:
            self.vars.add(v)
            self.grew = True

    def _wrote(self, s: Stmt, buffer: Buffer) -> None:
        self.carrying.add(s)
        key = id(buffer.data)
        if key not in self.buffers:
            self.buffers.add(key)
            self.grew = True


# ------------------------------------------------------------------ findings


def findings(kernel: Kernel, symbols: Mapping[Var, int]) -> list[Finding]:
    """A warning for each tensor and line where several blocks write the same elements."""
    found: dict[tuple[int, int], Finding] = {}
    for o in overlapping(kernel, symbols):
        t = o.touch
        name = t.buffer.name
        axes = " and ".join(NAMES[d] for d in o.axes)
        text = f"every block of axis {axes} writes the same elements of {name}: the last one wins"
        if len(o.axes) > 1:
            text = text.replace("axis", "axes", 1)
        if o.updates:
            hint = (
                f"each reads {name} and writes it back, and what others added in between is lost: "
                f"T.atomic_add({name}[...], value), or a place for each block and a second launch that adds"
            )
        else:
            hint = (
                f"the index of {name} leaves the block's number out: put it in, add with T.atomic_add, or "
                "let one block write (if)"
            )
        place = span(t.at)
        found.setdefault(
            (id(t.buffer), line_of(t.at)),
            Finding("overlapping", "warning", text, (place,) if place else (), hint, CODE),
        )
    return list(found.values())


__all__ = ["CODE", "Overlap", "findings", "overlapping"]
