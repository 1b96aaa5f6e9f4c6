"""Statements that move vectors and fragments, and products of a warp -> CUDA C++."""

from __future__ import annotations

from tilebench.backends.cuda.literals import OR, TERNARY
from tilebench.backends.cuda.prelude import NARROW_FLOATS, c_name
from tilebench.backends.cuda.prelude_atomics import RELAXED, vector_name, vector_piece
from tilebench.backends.cuda.prelude_mma import mma_piece
from tilebench.backends.cuda.values import Values
from tilebench.errors import InternalError
from tilebench.ir.thread import CpAsync, CpAsyncCommit, CpAsyncWait, LdMatrix, Mma, VectorAtomic, VectorCopy
from tilebench.ir.tile import MEMORY_ORDERS, Stmt

_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}


def moving_lines(s: Stmt, values: Values) -> list[str] | None:
    """The text of a vector copy, cp.async, ldmatrix or mma; None for any other statement.

    Raises InternalError TB902 for what the hardware does not have.
    """
    match s:
        case VectorCopy():
            return _vector_copy(s, values)
        case VectorAtomic():
            return [_vector_atomic(s, values)]
        case CpAsync():
            return [_cp_async(s, values)]
        case CpAsyncCommit():
            return [_call(values, "cp_async_commit", "cp_async_commit()")]
        case CpAsyncWait():
            return [_call(values, "cp_async_wait", f"cp_async_wait<{s.pending}>()")]
        case LdMatrix():
            name = f"ldmatrix_x{s.matrices}" + ("_trans" if s.transpose else "")
            into = values.address(s.destination, s.destination_index)
            source = values.address(s.source, s.source_index)
            return [_call(values, name, f"{name}({into}, {source})")]
        case Mma():
            return [_mma(s, values)]
        case _:
            return None


def _call(values: Values, piece: str, text: str) -> str:
    values.use(piece)
    return text + ";"


def _vector_copy(s: VectorCopy, values: Values) -> list[str]:
    width = s.lanes * s.destination.dtype.bytes
    word = _WORDS.get(width)
    if word is None or s.destination.dtype.bytes == width:
        return _element_copies(s, values)
    target = f"*({word}*)({values.address(s.destination, s.destination_index)})"
    source = f"*(const {word}*)({values.address(s.source, s.source_index)})"
    if s.predicate is None:
        return [f"{target} = {source};"]
    if s.zero_fill:
        zero = f"{word}{{}}" if word.startswith("uint") else "0"
        return [f"{target} = {values.text(s.predicate, OR)} ? {source} : {zero};"]
    return [f"if ({values.text(s.predicate)}) {target} = {source};"]


def _vector_atomic(s: VectorAtomic, values: Values) -> str:
    ordered = s.order != RELAXED
    values.use(vector_piece(s.destination.dtype, s.lanes, s.old is not None, ordered))
    arguments: list[str] = []
    if s.old is not None and s.old_index is not None:
        arguments.append(values.address(s.old, s.old_index))
    arguments.append(values.address(s.destination, s.destination_index))
    arguments.append(values.address(s.source, s.source_index))
    if ordered:
        arguments.append(str(MEMORY_ORDERS.index(s.order)))
    return f"{vector_name(s.lanes, s.old is not None)}({', '.join(arguments)});"


def _element_copies(s: VectorCopy, values: Values) -> list[str]:
    predicate = None if s.predicate is None else values.text(s.predicate, OR)
    zero = f"{c_name(s.destination.dtype)}{{}}" if s.destination.dtype.name in NARROW_FLOATS else "0"
    lines: list[str] = []
    for lane in range(s.lanes):
        d, f = s.destination_index + lane, s.source_index + lane
        target = f"{values.memories[s.destination]}[{values.index_text(s.destination, d)}]"
        source = f"{values.memories[s.source]}[{values.index_text(s.source, f)}]"
        if predicate is None:
            lines.append(f"{target} = {source};")
        elif s.zero_fill:
            lines.append(f"{target} = {predicate} ? {source} : ({c_name(s.destination.dtype)}){zero};")
        else:
            lines.append(f"if ({predicate}) {target} = {source};")
    return lines


def _cp_async(s: CpAsync, values: Values) -> str:
    width = s.lanes * s.destination.dtype.bytes
    if width not in (4, 8, 16):
        raise InternalError("TB902", f"cp.async of {width} bytes", at=s.loc, why="it moves 4, 8 or 16 bytes")
    name = f"cp_async_{width}" + ("" if s.predicate is None else "_or_zero")
    into, source = (
        values.address(s.destination, s.destination_index),
        values.address(s.source, s.source_index),
    )
    arguments = [into, source]
    if s.predicate is not None:
        arguments.append(values.text(s.predicate, TERNARY))
    return _call(values, name, f"{name}({', '.join(arguments)})")


def _mma(s: Mma, values: Values) -> str:
    a, b = s.a.dtype, s.b.dtype
    rounds = a == "float32"
    if rounds and s.kind not in ("tf32", "tfloat32", ""):
        raise InternalError("TB902", f"mma of float32 operands as {s.kind}", at=s.loc)
    try:
        piece = mma_piece(s.shape, s.d.dtype, a, b, rounds)
    except KeyError:
        raise InternalError("TB902", f"no mma.sync of {a} and {b} into {s.d.dtype}", at=s.loc) from None
    values.use(piece)
    operands = (
        values.address(s.d, s.d_index),
        values.address(s.a, s.a_index),
        values.address(s.b, s.b_index),
    )
    return f"{piece.name}({', '.join(operands)});"
