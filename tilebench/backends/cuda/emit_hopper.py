"""Statements of ir/hopper.py -> CUDA C++: each a line or two that call the pieces of prelude_hopper.py and
prelude_wgmma.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilebench.backends.cuda.literals import TERNARY
from tilebench.backends.cuda.prelude import NARROW_FLOATS
from tilebench.backends.cuda.prelude_hopper import (
    HOPPER_PIECES,
    bulk_add_piece,
    bulk_load_piece,
    bulk_store_piece,
    stmatrix_piece,
)
from tilebench.backends.cuda.prelude_wgmma import (
    WGMMA_PIECES,
    Product,
    layout_bits,
    pin_piece,
    wgmma_piece,
    why_not,
)
from tilebench.backends.cuda.values import Values
from tilebench.errors import InternalError
from tilebench.ir.dtype import DType
from tilebench.ir.expr import Expr, int_value
from tilebench.ir.hopper import (
    BulkCommit,
    BulkLoad,
    BulkStore,
    BulkWait,
    Descriptor,
    FenceProxyAsync,
    MBarrierArrive,
    MBarrierExpect,
    MBarrierInit,
    MBarrierInitFence,
    MBarrierWait,
    SetMaxRegisters,
    StMatrix,
    TensorMap,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from tilebench.ir.thread import Memory
from tilebench.ir.tile import Stmt

TENSOR_MAP = HOPPER_PIECES["tensor_map"]
"""The piece with `struct TensorMap`, for the kernel's signature."""


def hopper_lines(s: Stmt, values: Values, maps: Mapping[TensorMap, str]) -> list[str] | None:
    """The text of a statement of sm_90a, None for any other statement. maps: the names of tensor maps.

    Raises InternalError TB902 for what the hardware does not have.
    """
    at = values.address
    match s:
        case MBarrierInit():
            return [_call(values, "mbarrier_init", at(s.barrier, s.index), str(s.arrivals))]
        case MBarrierInitFence():
            return [_call(values, "mbarrier_init_fence")]
        case MBarrierArrive():
            return [_call(values, "mbarrier_arrive", at(s.barrier, s.index))]
        case MBarrierExpect():
            return [_call(values, "mbarrier_expect", at(s.barrier, s.index), str(s.bytes))]
        case MBarrierWait():
            parity = values.text(s.parity, TERNARY)
            return [_call(values, "mbarrier_wait", at(s.barrier, s.index), parity)]
        case BulkLoad():
            return [_bulk_load(s, values, maps)]
        case BulkStore():
            return [_bulk_store(s, values, maps)]
        case BulkCommit():
            return [_call(values, "bulk_commit")]
        case BulkWait():
            return [_call(values, "bulk_wait_read" if s.reading else "bulk_wait", of=s.pending)]
        case FenceProxyAsync():
            return [_call(values, "fence_proxy_async")]
        case Wgmma():
            return [_wgmma(s, values)]
        case WgmmaFence():
            return [*_pins(s, s.registers, values), _call(values, "wgmma_fence")]
        case WgmmaCommit():
            return [_call(values, "wgmma_commit")]
        case WgmmaWait():
            return [_call(values, "wgmma_wait", of=s.pending), *_pins(s, s.registers, values)]
        case StMatrix():
            piece = stmatrix_piece(s.matrices, s.transpose)
            values.use(piece)
            into, source = at(s.destination, s.destination_index), at(s.source, s.source_index)
            return [f"{piece.name}({into}, {source});"]
        case SetMaxRegisters():
            return [_call(values, "take_registers" if s.increase else "give_registers", of=s.count)]
        case _:
            return None


def _call(values: Values, name: str, *arguments: str, of: int | None = None) -> str:
    """A call of a piece with a fixed name; of: its template argument."""
    values.use(HOPPER_PIECES.get(name) or WGMMA_PIECES[name])
    return f"{name}{'' if of is None else f'<{of}>'}({', '.join(arguments)});"


def _bulk_load(s: BulkLoad, values: Values, maps: Mapping[TensorMap, str]) -> str:
    piece = bulk_load_piece(_rank(s, s.source, s.coordinates))
    values.use(piece)
    arguments = [
        values.address(s.destination, s.destination_index),
        f"&{maps[s.source]}",
        values.address(s.barrier, s.barrier_index),
        *(values.text(c, TERNARY) for c in s.coordinates),
    ]
    return f"{piece.name}({', '.join(arguments)});"


def _bulk_store(s: BulkStore, values: Values, maps: Mapping[TensorMap, str]) -> str:
    rank = _rank(s, s.destination, s.coordinates)
    piece = bulk_add_piece(rank) if s.combine else bulk_store_piece(rank)
    values.use(piece)
    name = "tma_store_add" if s.combine else piece.name
    arguments = [
        f"&{maps[s.destination]}",
        values.address(s.source, s.source_index),
        *(values.text(c, TERNARY) for c in s.coordinates),
    ]
    return f"{name}({', '.join(arguments)});"


def _rank(s: Stmt, tensor: TensorMap, coordinates: tuple[Expr, ...]) -> int:
    rank = len(tensor.box)
    if not 1 <= rank <= 5 or len(coordinates) != rank:
        raise InternalError(
            "TB902",
            f"a bulk copy of {rank} dimensions with {len(coordinates)} coordinates",
            at=s.loc,
            why="a tensor map has one to five dimensions, and a copy one coordinate for each",
        )
    return rank


def _wgmma(s: Wgmma, values: Values) -> str:
    in_registers = s.a_descriptor is None
    product = Product(
        s.n,
        s.d.dtype,
        s.a.dtype,
        s.b.dtype,
        in_registers,
        s.a_descriptor is not None and s.a_descriptor.transposed,
        s.b_descriptor.transposed,
        _in_units(s, s.a, s.a_steps, 4 if in_registers else 16),
        _in_units(s, s.b, s.b_steps, 16),
    )
    reason = why_not(product)
    if reason is not None:
        raise InternalError("TB902", reason, at=s.loc)
    piece = wgmma_piece(product)
    values.use(piece)
    a = values.address(s.a, s.a_index)
    if s.a_descriptor is not None:
        a = _descriptor(s.a, s.a_index, s.a_descriptor, values)
    b = _descriptor(s.b, s.b_index, s.b_descriptor, values)
    d = values.address(s.d, s.d_index)
    return f"{piece.name}({d}, {a}, {b}, {values.text(s.accumulate, TERNARY)});"


def _in_units(s: Wgmma, memory: Memory, steps: tuple[int, ...], unit: int) -> tuple[int, ...]:
    """Element offsets as counts of `unit` bytes."""
    offsets = [step * memory.dtype.bytes for step in steps]
    if any(o % unit for o in offsets):
        raise InternalError(
            "TB902", f"a k step of wgmma at {offsets} bytes", at=s.loc, why=f"steps are multiples of {unit}"
        )
    return tuple(o // unit for o in offsets)


def _descriptor(memory: Memory, index: Expr, descriptor: Descriptor, values: Values) -> str:
    where = values.address(memory, index)
    return _call(values, "matrix_descriptor", where, f"{layout_bits(descriptor):#x}ull").rstrip(";")


def _pins(s: Stmt, registers: tuple[Memory, ...], values: Values) -> list[str]:
    lines: list[str] = []
    for memory in registers:
        count = int_value(memory.shape[0])
        found = None if count is None else _register_words(memory.dtype, count)
        if found is None:
            raise InternalError("TB902", f"{count} elements of {memory.dtype} are no registers", at=s.loc)
        piece = pin_piece(*found)
        values.use(piece)
        lines.append(f"{piece.name}({values.memories[memory]});")
    return lines


def _register_words(dtype: DType, count: int) -> tuple[str, str, int] | None:
    """(asm constraint, C++ type, count) of the registers that hold an array; narrow elements are packed."""
    if dtype.bits == 64:
        return ("d", "double", count) if dtype.is_float else ("l", "long long", count)
    if dtype.bits == 32:
        return ("f", "float", count) if dtype.is_float else ("r", "int", count)
    if count * dtype.bytes % 4 == 0:
        return "r", "unsigned", count * dtype.bytes // 4
    if dtype.bytes == 2 and dtype.name in NARROW_FLOATS:
        return "h", "unsigned short", count
    return None
