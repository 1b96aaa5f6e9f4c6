"""The body of a Parallel nest in one iteration: statements between the registers and memories of a thread."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tilebench.errors import LayoutError
from tilebench.ir.expr import Const, Expr, Load, binary, cast
from tilebench.ir.thread import Memory
from tilebench.ir.tile import (
    Assert,
    AtomicRMW,
    Bind,
    Break,
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
from tilebench.passes.lower.atomics import add_together, grouped
from tilebench.passes.lower.builder import both
from tilebench.passes.lower.wide import Wide

if TYPE_CHECKING:
    from tilebench.passes.lower.nest import Nest


def lower_statement(nest: Nest, s: Stmt) -> None:
    """A statement of the nest's body in the current iteration."""
    b = nest.b
    with b.at(s.loc):
        match s:
            case Seq():
                for part in grouped(b, s.body):
                    lower_statement(nest, part) if isinstance(part, Stmt) else _additions(nest, part)
            case Store():
                _store(nest, s)
            case AtomicRMW():
                _atomic(nest, s)
            case Bind():
                b.emit(Bind(s.var, b.expr(s.value), loc=s.loc))
            case If():
                _if(nest, s)
            case For():
                from tilebench.passes.lower.statements import lower_for

                lower_for(b, s, partial(lower_statement, nest))
            case Parallel():
                from tilebench.passes.lower.nest import lower_parallel

                lower_parallel(b, s)
            case While():
                condition = b.expr(s.condition)
                with b.inside() as body:
                    lower_statement(nest, s.body)
                b.emit(While(condition, Seq(tuple(body))))
            case Break() | Continue():
                b.emit(s)
            case Evaluate():
                b.emit(Evaluate(b.expr(s.value)))
            case Assert():
                b.emit(Assert(b.condition(s.condition), s.message))
            case Print():
                with b.when(nest.owner()):
                    b.emit(Print(s.message, tuple(b.expr(v) for v in s.values)))
            case _:
                raise LayoutError(
                    "TB308",
                    f"{type(s).__name__} inside a T.Parallel loop",
                    at=s.loc,
                    why="an iteration of a parallel loop belongs to one thread, a tile op to the block",
                    fix="move it out of the loop",
                )


def _if(nest: Nest, s: If) -> None:
    b = nest.b
    condition = b.condition(s.condition)
    if isinstance(condition, Const):
        if condition.value:
            lower_statement(nest, s.then)
        elif s.orelse is not None:
            lower_statement(nest, s.orelse)
        return
    with b.inside() as then, b.knowing(s.condition):
        lower_statement(nest, s.then)
    orelse: list[Stmt] = []
    if s.orelse is not None:
        with b.inside() as orelse:
            lower_statement(nest, s.orelse)
    if then or orelse:
        b.emit(If(condition, Seq(tuple(then)), Seq(tuple(orelse)) if orelse else None))


def _store(nest: Nest, s: Store) -> None:
    b = nest.b
    if isinstance(s.buffer, Memory):
        with b.when(nest.owner() if s.buffer.space == "shared" else None):
            b.store(s.buffer, nest.hoist(b.simple(b.expr(s.indices[0]))), b.expr(s.value))
        return
    late = nest.plan.stores.get(id(s))
    if late is not None:
        if late.direct is None and not _is_early(nest, s, late):
            b.store(late.memory, nest.slot, b.expr(s.value))
        return
    match s.buffer.scope:
        case "fragment":
            memory, _ = b.fragment(s.buffer)
            b.store(memory, nest.register_of(nest.found(s)), b.expr(s.value))
        case "global":
            memory, index, inside = b.global_element(s.buffer, s.indices)
            with b.when(both(nest.owner(), inside)):
                b.store(memory, index, b.expr(s.value))
        case "shared":
            memory, index = b.shared_element(s.buffer, s.indices)
            with b.when(nest.owner()):
                b.store(memory, index, b.expr(s.value))
        case _:
            b.store(b.local(s.buffer), b.local_index(s.buffer, s.indices), b.expr(s.value))


def _is_early(nest: Nest, s: Store | AtomicRMW, late: Wide) -> bool:
    return isinstance(s.value, Load) and any(w.memory is late.memory for w in nest.plan.loads.values())


def _additions(nest: Nest, run: Sequence[AtomicRMW]) -> None:
    """Additions to neighbours that are one access."""
    with nest.b.at(run[0].loc):
        _check_owner(nest, run[0])
        add_together(nest.b, run, nest.owner(), shared=False)


def _check_owner(nest: Nest, s: AtomicRMW) -> None:
    if nest.loop.layout.replication > 1 and nest.loop.layout.is_owner(nest.b.thread) is None:
        raise LayoutError(
            "TB312",
            "this loop's layout has no rule for which of the threads that share an element acts",
            at=s.loc,
        )


def _atomic(nest: Nest, s: AtomicRMW) -> None:
    b = nest.b
    value = b.expr(s.value)
    late = nest.plan.stores.get(id(s))
    if late is not None:
        if late.direct is None and not _is_early(nest, s, late):
            b.store(late.memory, nest.slot, value)
        return
    inside: Expr | None = None
    if s.buffer.scope == "fragment":
        if s.result is not None:
            raise LayoutError(
                "TB311",
                f"an atomic on the fragment {s.buffer.name} cannot return the old value",
                at=s.loc,
                why="a fragment is in registers, where nothing is atomic",
                fix="use a shared buffer",
            )
        memory, _ = b.fragment(s.buffer)
        register = nest.register_of(nest.found(s))
        b.store(memory, register, combine(s.op, b.load(memory, register), value))
        return
    if s.buffer.scope == "global":
        memory, index, inside = b.global_element(s.buffer, s.indices)
    else:
        memory, index = b.shared_element(s.buffer, s.indices)
    _check_owner(nest, s)
    guard = both(nest.owner(), inside)
    if s.result is None:
        with b.when(guard):
            b.emit(AtomicRMW(s.op, memory, (index,), value, order=s.order))
        return
    old = b.registers(s.result.name, 1, s.result.dtype)
    with b.when(guard):
        b.emit(AtomicRMW(s.op, memory, (index,), value, s.result, s.order))
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
