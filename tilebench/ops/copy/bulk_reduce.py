"""Bulk tensor reductions: one thread starts the addition of a whole tile in shared memory to a tensor.

The tile lies as for a bulk store; the additions are done in the L2 cache, each element atomically, in no
order. A warpgroup on its own sends the panels that its threads wrote. Source: PTX ISA,
"cp.reduce.async.bulk.tensor".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilebench.ir.expr import Expr, binary, const
from tilebench.ir.hopper import BulkCommit, BulkStore
from tilebench.ir.tile import Region
from tilebench.ops.base import Instruction, Offer, ThreadBuilder
from tilebench.ops.copy.bulk import against_store, boxes, coordinates, tile_layout
from tilebench.targets import Target

if TYPE_CHECKING:
    from tilebench.ops.atomic import AtomicTile

NAME = "bulk.reduce"
DTYPES = ("float16", "bfloat16", "float32", "int32", "uint32", "uint64")
"""Element types that are added. Source: PTX ISA, cp.reduce.async.bulk.tensor, .add."""


def offers(op: AtomicTile, target: Target) -> tuple[Offer, ...]:
    """The bulk reduction of a shared tile into a tensor, or what stands against it; nothing without bulk
    copies.
    """
    if not target.supports("tma") or not isinstance(op.value, Region):
        return ()
    if not op.bulk and not target.supports("wgmma"):
        return ()
    if op.value.buffer.scope != "shared" or op.destination.buffer.scope != "global":
        return ()
    reason = _against(op, op.value)
    good = "bulk tensor reduction: one thread starts it, and the L2 cache adds"
    return (Offer(Instruction(NAME), not reason, reason or good),)


def refusal(op: AtomicTile, target: Target) -> str:
    """Why no such tile can be added by a bulk reduction on the target, when one was asked for; '' when some
    can. Targets that are no GPU add as they do."""
    if not op.bulk or target.facts is None:
        return ""
    if not target.supports("tma"):
        return f"TMA atomic add requires a CUDA target with TMA support (SM90+), not {target.arch}"
    if op.destination.dtype.name not in DTYPES:
        return (
            f"TMA atomic add does not support dtype {op.destination.dtype} "
            f"(supported scalar dtypes: {', '.join(DTYPES)})"
        )
    return ""


def _against(op: AtomicTile, value: Region) -> str:
    if op.op != "add":
        return f"it adds; this is atomic_{op.op}"
    if value.dtype.name not in DTYPES:
        return f"it adds {', '.join(DTYPES)} here, not {value.dtype}"
    return against_store(value, op.destination)


def panels_of_columns(value: Region, groups: int) -> bool:
    """Whether `groups` equal parts of the tile's columns are whole panels."""
    layout = tile_layout(value.buffer)
    columns = value.extents[-1]
    return layout.panel is not None and columns % (groups * layout.panel) == 0


def lower(op: AtomicTile, b: ThreadBuilder) -> None:
    """Thread code: one thread starts the reductions (of each warpgroup, for its columns or rows, when they go
    alone); at the next barrier it waits for them to have read the tile.
    """
    value = op.value
    assert isinstance(value, Region)
    memory, layout, version = b.shared(value.buffer)
    groups = b.threads // 128 if op.alone else 1
    columns = value.extents[-1] // (1 if op.by_rows else groups)
    panels = columns // (layout.panel or columns)
    with b.when(binary("eq", b.thread % 128 if op.alone else b.thread, const(0))):
        group: Expr = b.thread // 128 if op.alone else const(0)
        for box in boxes(op.destination, value, layout, groups if op.by_rows else 1):
            if box.column >= columns:
                break
            map_ = b.tensor_map(op.destination.buffer, layout, box.sizes)
            if op.by_rows:
                at = tuple(b.value(x) for x in coordinates(op.destination, box, group * box.own))
                lower = group * (box.own * (layout.panel or box.sizes[0]))
                b.emit(BulkStore(map_, at, memory, version + box.start + lower, "add"))
                continue
            row, *others = coordinates(op.destination, box)
            at = (b.value(row + group * columns), *(b.value(x) for x in others))
            start = version + box.start + group * (panels * layout.panel_stride)
            b.emit(BulkStore(map_, at, memory, start, "add"))
        b.emit(BulkCommit())


__all__ = ["DTYPES", "NAME", "lower", "offers", "panels_of_columns", "refusal"]
