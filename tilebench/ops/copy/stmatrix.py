"""A warpgroup's accumulator to a shared tile by stmatrix: four 8x8 matrices of 16-bit elements an
instruction.

Sixteen columns of a warp's sixteen rows are eight float32 registers of each thread. Converted and packed they
are the four registers that stmatrix.x4 spreads over rows of 16 bytes: a quarter of the instructions of plain
stores, and no bank conflicts on swizzled rows. Source: PTX ISA, "stmatrix"; layouts/atoms.py, wgmma_c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilebench.ir.expr import const
from tilebench.ir.hopper import StMatrix
from tilebench.ops.base import Instruction, Offer, ThreadBuilder
from tilebench.targets import Target

if TYPE_CHECKING:
    from tilebench.ops.copy.spec import Copy

NAME = "stmatrix"
COLUMNS = 16
ROWS = 64


def offers(op: Copy, target: Target) -> tuple[Offer, ...]:
    """The instruction, for results that each warpgroup stages on its own, and for operands in registers."""
    if (
        not (op.alone or op.operand)
        or not target.supports("stmatrix")
        or op.destination.buffer.scope != "shared"
    ):
        return ()
    good = "four 8x8 matrices at a time, straight from the accumulator's registers"
    return (Offer(Instruction(NAME), not (reason := _against(op)), reason or good),)


def _against(op: Copy) -> str:
    to = op.destination.dtype
    if (not op.operand and op.source.dtype.name != "float32") or to.bits != 16 or not to.is_float:
        return "it stores 16-bit floats from float32 accumulators"
    if op.source.extents[-1] % COLUMNS:
        return f"{op.source.extents[-1]} columns are no multiple of {COLUMNS}"
    return ""


def lower(op: Copy, b: ThreadBuilder) -> None:
    """Thread code. The accumulator's layout is wgmma_accumulator over warpgroups along M, an operand's
    wgmma_operand_a: its registers are packed already.
    """
    source, _ = b.fragment(op.source.buffer)
    rows, columns = op.source.buffer.static_shape
    groups = b.threads // 128
    blocks = rows // groups // ROWS
    first = op.source.offsets[-1]
    lane = b.bind("lane", b.thread % 32)
    group_row = b.thread // 128 % groups * (rows // groups)
    warp_row = b.bind("warp_row", group_row + b.thread // 32 % 4 * 16 + lane % 16)
    packed = source if op.operand else b.registers("packed", 8, op.destination.dtype)
    for i in range(blocks):
        with b.loop(op.source.extents[-1] // COLUMNS, name="q") as q:
            start = b.value(first) // 2 + i * (columns // 2) + q * 8
            if not op.operand:
                with b.loop(8, independent=True) as r:
                    b.store(packed, r, b.load(source, start + r))
            front = (const(0),) * (len(op.destination.shape) - 2)
            at = (*front, warp_row + i * ROWS, q * COLUMNS + lane // 16 * 8)
            memory, index = b.shared_index(op.destination, at)
            whole = (source, start) if op.operand else (packed, const(0))
            b.emit(StMatrix(memory, index, *whole, 4))
