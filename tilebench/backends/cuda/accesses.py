"""What the statements of a thread program touch: memories read and written, registers addressed by a loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilebench.ir.expr import Expr, Load, Var, int_value
from tilebench.ir.folds import FoldPairs, LaneFold
from tilebench.ir.hopper import (
    BulkLoad,
    BulkStore,
    MBarrierArrive,
    MBarrierExpect,
    MBarrierInit,
    MBarrierWait,
    StMatrix,
    Wgmma,
    WgmmaFence,
    WgmmaWait,
)
from tilebench.ir.rewrite import Node, walk
from tilebench.ir.simplify import Interval
from tilebench.ir.thread import CpAsync, LdMatrix, Memory, Mma, VectorAtomic, VectorCopy
from tilebench.ir.tile import AtomicRMW, Bind, Buffer, For, Stmt, Store
from tilebench.ir.timers import ReadCounter, Timestamp


def written(bodies: Iterable[Stmt]) -> set[Buffer]:
    """Memories that some statement writes."""
    found: set[Buffer] = set()
    for node in (n for body in bodies for n in walk(body)):
        match node:
            case Store() | AtomicRMW():
                found.add(node.buffer)
            case VectorCopy() | CpAsync() | LdMatrix() | StMatrix() | BulkLoad():
                found.add(node.destination)
            case FoldPairs() | LaneFold():
                found.add(node.destination)
            case VectorAtomic():
                found.add(node.destination)
                if node.old is not None:
                    found.add(node.old)
            case BulkStore():
                found.add(node.destination.memory)
            case Mma() | Wgmma():
                found.add(node.d)
            case Timestamp():
                found |= {node.buffer, node.at}
            case ReadCounter():
                found.add(node.buffer)
            case _:
                pass
    return found


def read_variables(bodies: Iterable[Stmt]) -> set[Var]:
    """Variables that stand in some expression."""
    return {n for body in bodies for n in walk(body) if isinstance(n, Var)}


def memories(body: Stmt) -> set[Buffer]:
    """Every memory that the body names, but for those behind tensor maps."""
    found: set[Buffer] = set()
    for node in walk(body):
        match node:
            case Load() | Store() | AtomicRMW():
                found.add(node.buffer)
            case WgmmaFence() | WgmmaWait():
                found.update(node.registers)
            case MBarrierInit() | MBarrierArrive() | MBarrierExpect() | MBarrierWait():
                found.add(node.barrier)
            case Timestamp():
                found |= {node.buffer, node.at, node.end}
            case ReadCounter():
                found.add(node.buffer)
            case _:
                found.update(memory for memory, _ in _operands(node))
    return found


def _operands(node: Node) -> Sequence[tuple[Memory, Expr]]:
    """(memory, index) of each operand of a statement that moves or multiplies."""
    match node:
        case VectorCopy() | CpAsync() | LdMatrix() | StMatrix():
            return (node.destination, node.destination_index), (node.source, node.source_index)
        case VectorAtomic():
            pairs = (node.destination, node.destination_index), (node.source, node.source_index)
            if node.old is None or node.old_index is None:
                return pairs
            return (*pairs, (node.old, node.old_index))
        case FoldPairs():
            return (node.destination, node.destination_index), (node.source, node.source_index)
        case LaneFold():
            return ((node.destination, node.destination_index),)
        case BulkLoad():
            return (node.destination, node.destination_index), (node.barrier, node.barrier_index)
        case BulkStore():
            return ((node.source, node.source_index),)
        case Mma() | Wgmma():
            return (node.d, node.d_index), (node.a, node.a_index), (node.b, node.b_index)
        case _:
            return ()


def indexes_registers(loop: For) -> bool:
    """Whether a register array in the body is indexed by the loop's variable (also through bound values)."""
    moving: set[Var] = {loop.var}

    def moves(e: Expr) -> bool:
        return any(isinstance(n, Var) and n in moving for n in walk(e))

    for node in walk(loop.body):
        match node:
            case Bind() if moves(node.value):
                moving.add(node.var)
            case Load() | Store() | AtomicRMW():
                if is_register(node.buffer) and moves(node.indices[0]):
                    return True
            case _:
                if any(memory.space == "register" and moves(index) for memory, index in _operands(node)):
                    return True
    return False


def is_register(buffer: Buffer) -> bool:
    """Whether a memory is an array of one thread."""
    return isinstance(buffer, Memory) and buffer.space == "register"


def trips(s: For) -> int | None:
    """How often a loop runs, None when that is not known."""
    start, stop, step = int_value(s.start), int_value(s.stop), int_value(s.step)
    if start is None or stop is None or not step:
        return None
    return max(0, -(-(stop - start) // step))


def range_of(start: Interval, stop: Interval, step: int) -> Interval:
    """Bounds of a loop's variable."""
    if step > 0:
        return start[0], max(start[0], stop[1] - 1)
    return min(start[1], stop[0] + 1), start[1]
