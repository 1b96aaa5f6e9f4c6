"""Facts about loops: whether one can run as a single operation, and how it grows when written out."""

from __future__ import annotations

from typing import Any

from tilebench.ir.expr import Call, Expr, Load, int_value, same
from tilebench.ir.folds import FoldPairs, LaneFold
from tilebench.ir.hopper import THREAD_STATEMENTS, StMatrix
from tilebench.ir.intrinsics import INTRINSICS
from tilebench.ir.rewrite import variables, walk
from tilebench.ir.thread import (
    Barrier,
    CpAsyncCommit,
    CpAsyncWait,
    LdMatrix,
    Memory,
    Mma,
    SyncWarp,
    Turn,
    VectorAtomic,
    VectorCopy,
)
from tilebench.ir.tile import AtomicRMW, Bind, Break, Continue, For, If, Print, Seq, Stmt, Store, While
from tilebench.ir.timers import ReadCounter, Timestamp


def leaves(s: Stmt) -> bool:
    """Whether a Break or Continue in `s` leaves a loop around `s`."""
    match s:
        case Break() | Continue():
            return True
        case Seq():
            return any(leaves(p) for p in s.body)
        case If():
            return leaves(s.then) or (s.orelse is not None and leaves(s.orelse))
        case _:
            return False


def loop_weight(s: Stmt) -> int:
    """How many copies of the innermost statements writing out the unrolled loops in `s` makes."""
    match s:
        case For() if s.kind in ("unroll", "vectorized"):
            start, stop, step = int_value(s.start), int_value(s.stop), int_value(s.step)
            trips = len(range(start, stop, step)) if start is not None and stop is not None and step else 1
            return max(1, trips) * loop_weight(s.body) if not (s.independent and runs_as_one(s)) else 1
        case For() | While():
            return loop_weight(s.body)
        case Seq():
            return max((loop_weight(p) for p in s.body), default=1)
        case If():
            return max(loop_weight(s.then), loop_weight(s.orelse) if s.orelse is not None else 1)
        case _:
            return 1


_ALONE = (
    While, Break, Continue, Print, Barrier, Turn, SyncWarp, CpAsyncCommit, CpAsyncWait,
    FoldPairs, LaneFold,
    *(kind for kind in THREAD_STATEMENTS if kind is not StMatrix), Timestamp, ReadCounter,
)  # fmt: skip


def runs_as_one(s: For) -> bool:
    """Whether the body of an independent loop can run for all iterations at once.

    Not when it synchronises, leaves the loop, wants the old value of an atomic, has an inner loop with bounds
    that follow this one's variable, writes a register whose index does not follow it (a scratch register,
    reused in each iteration), or reads an array that it writes at another index than it writes: then the loop
    runs as it stands, whatever its mark says.
    """
    follows = {s.var}
    for node in walk(s.body):
        if isinstance(node, _ALONE) or (isinstance(node, AtomicRMW) and node.result is not None):
            return False
        if isinstance(node, VectorAtomic) and node.old is not None:
            return False
        if isinstance(node, Call) and INTRINSICS[node.name].effect:
            return False
        if isinstance(node, Bind) and variables(node.value) & follows:
            follows.add(node.var)
    wrote: dict[Memory, list[Expr]] = {}
    read: list[tuple[Memory, Expr]] = []
    for node in walk(s.body):
        if isinstance(node, For):
            if (variables(node.start) | variables(node.stop) | variables(node.step)) & follows:
                return False
            if any(isinstance(e, Load) for x in (node.start, node.stop, node.step) for e in walk(x)):
                return False
        written: list[tuple[Memory, Expr]] = []
        if isinstance(node, Store) and isinstance(node.buffer, Memory):
            written.append((node.buffer, node.indices[0]))
        elif isinstance(node, VectorCopy | LdMatrix):
            written.append((node.destination, node.destination_index))
        elif isinstance(node, Mma):
            written.append((node.d, node.d_index))
        for memory, index in written:
            if memory.space == "register":
                if not variables(index) & follows:
                    return False
                wrote.setdefault(memory, []).append(index)
        read += _register_reads(node)
    return all(any(same(index, w) for w in wrote[memory]) for memory, index in read if memory in wrote)


def _register_reads(node: Any) -> list[tuple[Memory, Expr]]:
    match node:
        case Load() if isinstance(node.buffer, Memory) and node.buffer.space == "register":
            return [(node.buffer, node.indices[0])]
        case VectorCopy() | StMatrix() | VectorAtomic() if node.source.space == "register":
            return [(node.source, node.source_index)]
        case Mma():
            return [(node.d, node.d_index), (node.a, node.a_index), (node.b, node.b_index)]
        case _:
            return []
