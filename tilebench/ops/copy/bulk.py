"""Bulk tensor copies (TMA): one thread starts the copy of a whole box, hardware computes the addresses.

The tensor is described by a map that the host makes; elements outside of it arrive as zeros. A tile wider
than the swizzle's span is copied panel by panel. Source: PTX ISA, "cp.async.bulk.tensor"; CUDA driver API,
cuTensorMapEncodeTiled (limits on ranks, boxes and strides).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilebench.ir.expr import Expr, binary, const, int_value, is_const
from tilebench.ir.hopper import BulkCommit, BulkStore
from tilebench.ir.tile import Buffer, Region
from tilebench.layouts import SharedLayout, row_major, swizzled
from tilebench.ops.base import Instruction, Offer, ThreadBuilder
from tilebench.ops.divisors import known_divisor
from tilebench.targets import Target

if TYPE_CHECKING:
    from tilebench.ops.copy.spec import Copy

NAME = "bulk"
STORE = "bulk.store"
ALIGNMENT = 128
"""Bytes: where a bulk tensor copy may start in shared memory. Source: PTX ISA, cp.async.bulk.tensor."""
MAX_RANK = 5
MAX_BOX = 256
_DTYPES = frozenset({
    "float16", "bfloat16", "float32", "tfloat32", "float64", "int8", "uint8", "int32", "uint32", "int64",
    "uint64", "int16", "uint16", "float8_e4m3", "float8_e5m2", "float8_e8m0fnu",
})  # fmt: skip


def offers(op: Copy, target: Target) -> tuple[Offer, ...]:
    """The bulk copy global -> shared, or what stands against it; nothing on targets without warpgroups."""
    if not target.supports("tma") or not target.supports("wgmma"):
        return ()
    if op.source.buffer.scope == "shared" and op.destination.buffer.scope == "global":
        other = op.disable_tma or op.prefer in ("sync", "cp_async")
        reason = "another instruction was asked for" if other else against_store(op.source, op.destination)
        good = "bulk tensor copy: one thread starts it; what lies outside of the tensor is clipped"
        return (Offer(Instruction(STORE), not reason, reason or good),)
    reason = _against(op)
    good = "bulk tensor copy: one thread starts it, and no registers or address arithmetic are needed"
    return (Offer(Instruction(NAME), not reason, reason or good),)


def tile_layout(buffer: Buffer) -> SharedLayout:
    """How a bulk copy lays a tile down: swizzled panels where rows allow, else dense rows."""
    return (
        swizzled(buffer.static_shape, buffer.dtype.bits)
        if len(buffer.shape) > 1
        else row_major(buffer.static_shape, buffer.dtype.bits)
    )


def _against(op: Copy) -> str:
    source, destination = op.source, op.destination
    if source.buffer.scope != "global" or destination.buffer.scope != "shared":
        return f"copies global to shared memory, not {source.buffer.scope} to {destination.buffer.scope}"
    if op.disable_tma or op.prefer in ("sync", "cp_async"):
        return "the program asked for another instruction"
    if source.dtype != destination.dtype:
        return f"it cannot convert {source.dtype} to {destination.dtype}"
    if source.dtype.name not in _DTYPES:
        return f"tensor maps have no {source.dtype}"
    if op.outside is not None and not is_const(op.outside, 0):
        return "elements outside read as a value other than 0"
    return _against_source(source) or _against_destination(source, destination)


def against_store(source: Region, destination: Region) -> str:
    """Why a bulk instruction cannot move a shared tile to a tensor; '' when it can."""
    if source.dtype != destination.dtype:
        return f"it cannot convert {source.dtype} to {destination.dtype}"
    if source.dtype.name not in _DTYPES:
        return f"tensor maps have no {source.dtype}"
    return _against_source(destination) or _against_destination(destination, source)


def lower_store(op: Copy, b: ThreadBuilder) -> None:
    """Thread code: one thread starts the copies; at the next barrier it waits for them to have read."""
    memory, layout, version = b.shared(op.source.buffer)
    groups = b.threads // 128 if op.alone else 1
    with b.when(binary("eq", b.thread % 128 if op.alone else b.thread, const(0))):
        group = b.thread // 128 if op.alone else const(0)
        for box in boxes(op.destination, op.source, layout, groups):
            at = tuple(b.value(x) for x in coordinates(op.destination, box, group * box.own))
            map_ = b.tensor_map(op.destination.buffer, layout, box.sizes)
            lower = group * (box.own * (layout.panel or box.sizes[0]))
            b.emit(BulkStore(map_, at, memory, version + box.start + lower))
        b.emit(BulkCommit())


def _against_source(source: Region) -> str:
    buffer, size = source.buffer, source.dtype.bytes
    name, rank = buffer.name, len(buffer.shape)
    if buffer.view_of is not None:
        return f"{name} is a view of another tensor"
    if rank > MAX_RANK:
        return f"{name} has {rank} dimensions; tensor maps have at most {MAX_RANK}"
    for stride, extent in zip(*_strides(buffer), strict=True):
        if stride * size % 16 and not is_const(extent, 1):
            return f"a stride of {name} is not known to be a multiple of 16 bytes"
    if buffer.strides is not None and not is_const(buffer.strides[-1], 1):
        return f"neighbours in a row of {name} are not known to be neighbours in memory"
    return ""


def _strides(buffer: Buffer) -> tuple[tuple[int, ...], tuple[Expr, ...]]:
    """What certainly divides the strides of all dimensions but the last, and the extents of these."""
    if buffer.strides is not None:
        return tuple(known_divisor(s) for s in buffer.strides[:-1]), buffer.shape[:-1]
    out: list[int] = []
    below = 1
    for n in reversed(buffer.shape[1:]):
        below *= known_divisor(n)
        out.append(below)
    return tuple(reversed(out)), buffer.shape[:-1]


def _against_destination(source: Region, destination: Region) -> str:
    buffer = destination.buffer
    if buffer.view_of is not None:
        return f"{buffer.name} is a view of another buffer"
    rows, row = tile_of(destination)
    if rows * row != _count(destination):
        return f"{buffer.name} has more than two dimensions that count"
    if destination.extents[-1] != buffer.static_shape[-1] or (rows > 1 and destination.extents[-2] != rows):
        return f"the copy writes part of the rows of {buffer.name}"
    if any(e != s for e, s in zip(destination.extents[-2:], buffer.static_shape[-2:], strict=True)):
        return f"the copy writes a part of {buffer.name}"
    if source.extents[-1] != row:
        return f"rows of {buffer.name} do not run along the last dimension of {source.buffer.name}"
    size = rows * row * source.dtype.bytes
    if size % ALIGNMENT:
        return (
            f"{buffer.name} has {size} bytes, so in a ring not every slot starts at a multiple of {ALIGNMENT}"
        )
    layout = tile_layout(buffer)
    if not layout.swizzle.bits:
        if row * source.dtype.bytes % 16:
            return f"rows of {buffer.name} are no multiple of 16 bytes"
        if row > MAX_BOX:
            return f"rows of {buffer.name} are longer than {MAX_BOX} elements"
    return ""


def _count(region: Region) -> int:
    total = 1
    for e in region.extents:
        total *= e
    return total


def tile_of(region: Region) -> tuple[int, int]:
    """(rows, elements of a row) of a shared tile: its last dimension, and the one other that counts."""
    others = [e for e in region.extents[:-1] if e != 1]
    return (others[-1] if others else 1), region.extents[-1]


@dataclass(frozen=True)
class Box:
    """One copy: its box (innermost first), the column and row of the tile where it starts, and the element of
    the destination, before the swizzle; own: rows of a group.
    """

    sizes: tuple[int, ...]
    column: int
    row: int
    start: int
    own: int


def boxes(source: Region, destination: Region, layout: SharedLayout, groups: int = 1) -> Iterator[Box]:
    """The copies that bring the tile, with sizes for every dimension of the source.

    groups: those of the first of so many groups of rows, each of which has `own`.
    """
    rows, row = tile_of(destination)
    rows //= groups
    width = layout.panel if layout.panel is not None and layout.panel < row else row
    height = next(h for h in range(min(rows, MAX_BOX), 0, -1) if rows % h == 0)
    row_dim = _row_dim(source)
    sizes = tuple(
        width if d == len(source.extents) - 1 else height if d == row_dim else 1
        for d in range(len(source.extents))
    )
    pitch = layout.panel or row
    for panel in range(row // width):
        for part in range(rows // height):
            start = panel * layout.panel_stride + part * height * pitch
            yield Box(sizes[::-1], panel * width, part * height, start, rows)


def _row_dim(source: Region) -> int:
    return next((d for d in reversed(range(len(source.extents) - 1)) if source.extents[d] != 1), -1)


def coordinates(source: Region, box: Box, lower: Expr | int = 0) -> tuple[Expr, ...]:
    """Where a box starts in the tensor, innermost first; `lower` rows further down."""
    row_dim = _row_dim(source)
    last = len(source.extents) - 1
    return tuple(
        source.offsets[d] + (box.column if d == last else lower + box.row if d == row_dim else 0)
        for d in reversed(range(len(source.extents)))
    )


def version_start(region: Region, layout: SharedLayout) -> Expr:
    """Element at which the tile starts within its version: dimensions in front that are indexed."""
    total: Expr = const(0)
    for offset, stride in zip(region.offsets[:-2], layout.strides[:-2], strict=True):
        if int_value(offset) != 0:
            total = total + offset * stride
    return total
