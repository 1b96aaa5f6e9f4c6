"""Loops over K that copy two tiles and multiply them, taken several rounds at a time.

    for k in range(start, stop):                 for k in range(start, stop, U):
        copy(A[i, k * bk], A_s)          ->          copy(A[i, k * bk : ... + U * bk], deep_A)
        copy(B[k * bk, j], B_s)                      copy(B[k * bk : ... + U * bk, j], deep_B)
        gemm(A_s, B_s, C)                            gemm(deep_A, deep_B, C) over min(U, stop - k) * bk

The accumulators are loaded and stored U times less often. Rows of the deep tiles are padded, so that they do
not fall into the same sets of the cache, and the tiles are f32 when the operands are narrower floats: the
copy converts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilebench.backends.cpu.packs import Side, side_of
from tilebench.ir.dtype import float32
from tilebench.ir.expr import Expr, const, int_value
from tilebench.ir.rewrite import walk
from tilebench.ir.simplify import linear
from tilebench.ir.tile import Buffer, For, Kernel, Region, Seq, Stmt
from tilebench.ops.copy import Copy
from tilebench.ops.gemm import Gemm

DEPTH = 256
PAD = 16


@dataclass(frozen=True)
class Deep:
    """A loop taken `rounds` at a time: the copies and the product of one such step; bk: K of one round."""

    rounds: int
    bk: int
    copies: tuple[tuple[Copy, Side], tuple[Copy, Side]]
    product: Gemm


def deepened(loop: For, kernel: Kernel) -> Deep | None:
    """The loop with deeper tiles, None when it is not of this form."""
    body = loop.body.body if isinstance(loop.body, Seq) else (loop.body,)
    if len(body) != 3 or not isinstance(body[2], Gemm) or int_value(loop.step) != 1:
        return None
    product = body[2]
    copies = [s for s in body[:2] if isinstance(s, Copy)]
    if len(copies) != 2 or product.clear_accum:
        return None
    _, _, bk = product.mnk
    rounds = DEPTH // bk
    first, last = int_value(loop.start), int_value(loop.stop)
    if first is not None and last is not None:
        rounds = min(rounds, last - first)
    if rounds < 2:
        return None
    sides: dict[Buffer, tuple[Copy, Region]] = {}
    for name, operand, transposed in (
        ("A", product.a, product.transpose_a),
        ("B", product.b, not product.transpose_b),
    ):
        copy = next((c for c in copies if c.destination.buffer is operand.buffer), None)
        if copy is None or not operand.is_whole or not copy.destination.is_whole or len(operand.extents) != 2:
            return None
        along = 0 if transposed else 1
        found = _deep_copy(copy, loop, along, bk, rounds, name)
        if found is None or _used_elsewhere(operand.buffer, loop, kernel):
            return None
        sides[operand.buffer] = found
    if len(sides) != 2 or any(operand.buffer is product.c.buffer for operand in (product.a, product.b)):
        return None
    (copy_a, a), (copy_b, b) = sides[product.a.buffer], sides[product.b.buffer]
    side_a, side_b = (
        replace(side_of(product, "A"), depth=rounds * bk),
        replace(side_of(product, "B"), depth=rounds * bk),
    )
    return Deep(rounds, bk, ((copy_a, side_a), (copy_b, side_b)), replace(product, a=a, b=b))


def _deep_copy(
    copy: Copy, loop: For, along: int, bk: int, rounds: int, name: str
) -> tuple[Copy, Region] | None:
    source = copy.source
    if source.buffer.scope != "global" or source.buffer.view_of is not None:
        return None
    wide = [d for d in range(len(source.extents)) if d not in source.dropped]
    if len(wide) != 2 or any(
        source.extents[d] != e for d, e in zip(wide, copy.destination.extents, strict=True)
    ):
        return None
    moving = wide[along]
    for d, offset in enumerate(source.offsets):
        step = linear(offset).coefficient(loop.var)
        others = any(n is loop.var for t, _ in linear(offset).terms if t is not loop.var for n in walk(t))
        if others or step != (bk if d == moving else 0):
            return None
    if isinstance(copy.outside, Expr) and any(n is loop.var for n in walk(copy.outside)):
        return None
    dtype = copy.destination.dtype
    if dtype != source.dtype:
        return None  # the tile rounds
    if dtype.is_float and dtype.bits < 32:
        dtype = float32
    rows, columns = copy.destination.extents
    rows, columns = (rows * rounds, columns) if along == 0 else (rows, columns * rounds)
    buffer = Buffer(f"deep_{name}", (const(rows), const(columns + PAD)), dtype, "shared")
    extents = tuple(e * rounds if d == moving else e for d, e in enumerate(source.extents))
    target = Region(buffer, (const(0), const(0)), (rows, columns))
    return replace(copy, source=replace(source, extents=extents), destination=target), target


def _used_elsewhere(buffer: Buffer, loop: For, kernel: Kernel) -> bool:
    if any(b.view_of is buffer for b in kernel.buffers):
        return True
    inside = sum(_mentions(n, buffer) for n in walk(loop.body))
    return inside != 2 or sum(_mentions(n, buffer) for n in walk(kernel.body)) != inside


def _mentions(node: Stmt | Expr | Region, buffer: Buffer) -> bool:
    return getattr(node, "buffer", None) is buffer
