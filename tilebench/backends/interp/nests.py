"""What is found out about a Parallel nest before it runs: the buffers that each iteration has for itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilebench.errors import SyncError
from tilebench.ir.expr import Expr, int_value
from tilebench.ir.rewrite import loads, variables, walk
from tilebench.ir.tile import AtomicRMW, Bind, Buffer, For, Parallel, Seq, Stmt, Store
from tilebench.ops.base import Op
from tilebench.passes.uniform import stores_only_private


@dataclass(frozen=True)
class Nest:
    """What is known of a Parallel nest. private: every thread runs all of it; scalars: private buffers with a
    copy for each iteration."""

    private: bool
    scalars: tuple[Buffer, ...] = ()


def nest_facts(s: Parallel) -> Nest:
    """The facts of a nest. Raises SyncError TB413 for a private buffer carried from one iteration to the
    next."""
    if stores_only_private(s):
        return Nest(True)
    bound = {n.var for n in walk(s.body) if isinstance(n, Bind)} | set(s.vars)
    stores: dict[Buffer, list[Store | AtomicRMW]] = {}
    for node in walk(s.body):
        if isinstance(node, Store | AtomicRMW) and node.buffer.scope in ("local", "var"):
            stores.setdefault(node.buffer.data, []).append(node)
    scalars: list[Buffer] = []
    for root, nodes in stores.items():
        if root.scope == "local" and any(variables(i) & bound for n in nodes for i in n.indices):
            continue
        first = first_access(s.body, root)
        if first is not None and not isinstance(first, Store):
            raise SyncError(
                "TB413",
                f"{root.name} is carried from one iteration of T.Parallel to the next",
                at=first.loc or s.loc,
                why="the iterations run on different threads, in no order",
                fix=f"use a serial loop, T.reduce_sum, or make {root.name} a tile with one element for "
                "each iteration",
            )
        scalars.append(root)
    return Nest(False, tuple(scalars))


@dataclass(frozen=True)
class Facts:
    """What was found out about nests and ops (their varying expressions, private buffers read), kept from
    block to block."""

    nests: dict[Parallel, Nest] = field(default_factory=dict[Parallel, Nest])
    ops: dict[Op, tuple[tuple[Expr, ...], tuple[Buffer, ...]]] = field(
        default_factory=dict[Op, "tuple[tuple[Expr, ...], tuple[Buffer, ...]]"]
    )


def first_access(s: Stmt, buffer: Buffer) -> Any:
    """The first access of `buffer` in the order of execution: an unconditional Store, else whatever reads
    it."""
    match s:
        case Seq():
            for part in s.body:
                found = first_access(part, buffer)
                if found is not None:
                    return found
            return None
        case Store() if s.buffer.data is buffer:
            mine = [
                n
                for n in (*loads(s.value), *(x for i in s.indices for x in loads(i)))
                if n.buffer.data is buffer
            ]
            return mine[0] if mine else s
        case For() | Parallel() if _runs(s):
            return first_access(s.body, buffer)
        case _:
            mine = [n for n in loads(s) if n.buffer.data is buffer]
            return mine[0] if mine else None


def _runs(s: For | Parallel) -> bool:
    """Whether the loop is known to have an iteration."""
    if isinstance(s, Parallel):
        return all(s.extents)
    start, stop, step = int_value(s.start), int_value(s.stop), int_value(s.step)
    return start is not None and stop is not None and bool(step) and bool(range(start, stop, step))
