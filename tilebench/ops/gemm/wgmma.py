"""gemm on a warpgroup's tensor cores: asynchronous products that read their operands from shared memory.

A warpgroup (four warps) multiplies 64 rows at a time; B, and A unless it is in registers, are read through
matrix descriptors, which know the hardware's swizzled layouts only. Warpgroups share the rows of C first,
then its columns. Source: PTX ISA, "Asynchronous warpgroup level matrix instructions"; layouts/atoms.py,
shared.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilebench.errors import InternalError
from tilebench.ir.expr import Expr, const
from tilebench.ir.hopper import Descriptor, Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait, product_columns
from tilebench.ir.thread import Memory
from tilebench.ir.tile import Region
from tilebench.layouts import SharedLayout, mma_k, swizzled, upright
from tilebench.ops.base import Instruction, Offer, ThreadBuilder
from tilebench.ops.divisors import known_divisor
from tilebench.targets import Target

if TYPE_CHECKING:
    from tilebench.ops.gemm.spec import Gemm

NAME = "wgmma"
ROWS = 64
"""M of every wgmma."""
WIDEST = 256
"""Largest N."""
OPERANDS: dict[str, tuple[str, ...]] = {
    "float16": ("float32", "float16"),
    "bfloat16": ("float32",),
    "tfloat32": ("float32",),
    "int8": ("int32",),
    "uint8": ("int32",),
    "float8_e4m3": ("float32", "float16"),
    "float8_e5m2": ("float32", "float16"),
}
"""Operand dtype -> accumulators. Source: PTX ISA, wgmma.mma_async, table of types."""


def splits(m: int, n: int, threads: int) -> Iterator[tuple[int, int]]:
    """Every (warpgroups along M, along N) that uses all of them, with whole instructions for each."""
    groups = threads // 128
    for gm in range(groups, 0, -1):
        if groups % gm == 0 and m % (ROWS * gm) == 0 and n % (8 * (groups // gm)) == 0:
            yield gm, groups // gm


def offers(op: Gemm, target: Target, threads: int) -> tuple[Offer, ...]:
    """The warpgroup product, or what stands against it; nothing on targets that have none."""
    if not target.supports("wgmma"):
        return ()
    reason = _against(op, threads)
    good = f"tensor cores of whole warpgroups, asynchronously: {op.a.dtype} x {op.b.dtype} -> {op.c.dtype}"
    return (Offer(Instruction(NAME), not reason, reason or good),)


def _against(op: Gemm, threads: int) -> str:
    """Why the instruction cannot be used here; '' when it can."""
    m, n, k = op.mnk
    a, c = op.a.dtype, op.c.dtype
    if c.name not in OPERANDS.get(a.name, ()):
        return f"no warpgroup instruction multiplies {a} into {c}"
    if threads % 128:
        return f"{threads} threads are not whole warpgroups of 128"
    step = mma_k(a.bits)
    wrong: list[str] = []
    if m % ROWS:
        wrong.append(f"M = {m} is no multiple of {ROWS}")
    if n % 8:
        wrong.append(f"N = {n} is no multiple of 8")
    if k % step:
        wrong.append(f"K = {k} is no multiple of {step}")
    if wrong:
        return ", ".join(wrong)
    if next(splits(m, n, threads), None) is None:
        return f"{threads // 128} warpgroups cannot share {m}x{n} in whole 64x8 tiles"
    if op.b.buffer.scope != "shared":
        return f"B ({op.b.buffer.name}) is in registers; the instruction reads it from shared memory"
    for region, what, transposed in ((op.a, "A", op.transpose_a), (op.b, "B", not op.transpose_b)):
        if region.buffer.scope == "fragment":
            if not region.is_whole:
                return f"{what} is part of the fragment {region.buffer.name}"
            if transposed:
                return f"{what} ({region.buffer.name}) comes from registers and is transposed"
            continue
        if reason := _against_shared(region, what, transposed):
            return reason
    return f"C is part of the fragment {op.c.buffer.name}" if not op.c.is_whole else ""


def _against_shared(region: Region, what: str, transposed: bool) -> str:
    buffer = region.buffer
    if transposed and region.dtype.bits != 16:
        return f"{what} ({buffer.name}): {region.dtype} operands must lie along K, only 16-bit types may not"
    if buffer.static_shape[-1] * region.dtype.bits % (128 if transposed else 256):
        return f"rows of {buffer.name} are no multiple of {16 if transposed else 32} bytes"
    layout = operand_layout(region, transposed, 0)
    if buffer.view_of is not None:
        return f"{what} ({buffer.name}) is a view of another buffer"
    if known_divisor(region.offsets[-2]) % 8 or region.extents[-2] % 8:
        return f"{what} does not start at a multiple of 8 rows of {buffer.name}"
    panel = layout.panel or 1
    whole = region.extents[-1] == layout.shape[-1]
    if not whole and (known_divisor(region.offsets[-1]) % panel or region.extents[-1] % panel):
        return f"{what} is no whole panel of {panel} columns of {buffer.name}"
    return ""


def operand_layout(region: Region, transposed: bool, step: int) -> SharedLayout:
    """The layout that a descriptor reads: swizzled rows, cut into panels of the swizzle's span; where K is
    the row and no swizzle's span divides what it must, columns of 16 bytes.

    step: along a row that is no K, every product covers so many elements (0: the row): whole panels, or a
    part of one.
    """
    shape, bits = region.buffer.static_shape, region.dtype.bits
    if not transposed:
        return swizzled(shape, bits)
    each = (step or shape[-1]) * bits // 8
    rows = (n for n in (128, 64, 32) if shape[-1] * bits // 8 % n == 0)
    span = next((n for n in rows if each % n == 0 or n % each == 0), 0)
    return swizzled(shape, bits, span) if span else upright(shape, bits)


def step_of(op: Gemm, columns: int) -> int:
    """Distance of the products of a gemm along N, 0 for one. columns: of a warpgroup."""
    width = columns_of(columns, op.c.dtype.name)
    return width if width < op.mnk[1] else 0


def columns_of(n: int, sums: str) -> int:
    """N of the instructions that cover n columns: the largest legal divisor. sums: accumulators' dtype."""
    return next(c for c in range(WIDEST, 0, -8) if n % c == 0 and product_columns(c, sums))


def lower(op: Gemm, b: ThreadBuilder) -> None:
    """Thread code of the product: issued and, unless the caller waits later (b.asynchronous), waited for."""
    m, n, k = op.mnk
    c, held = b.fragment(op.c.buffer)
    gm, gn = warpgroups(op, b)
    group = b.warpgroup
    first_row = b.bind("group_row", group % gm * (m // gm)) if gm > 1 else const(0)
    first_column = b.bind("group_column", group // gm % gn * (n // gn)) if gn > 1 else const(0)
    bits = op.a.dtype.bits
    blocks, wide = m // gm // ROWS, n // gn
    width = columns_of(wide, op.c.dtype.name)
    b_memory, b_steps, b_descriptor = _descriptor(op.b, not op.transpose_b, k, step_of(op, wide), b)
    a_registers: Memory | None = None
    a_steps: tuple[int, ...] = tuple(i * (8 * 32 // bits // 2) for i in range(k // mma_k(bits)))
    a_memory, a_descriptor = c, None
    if op.a.buffer.scope == "fragment":
        a_registers = a_memory = b.fragment(op.a.buffer)[0]
    else:
        a_memory, a_steps, a_descriptor = _descriptor(op.a, op.transpose_a, k, ROWS, b)
    accumulate = b.condition(op.keep) if op.keep is not None else const(not op.clear_accum)
    used = (c,) if a_registers is None else (c, a_registers)
    b.emit(WgmmaFence(used))
    for i in range(blocks):
        for j in range(wide // width):
            column = first_column + j * width
            b_index = _start(op.b, not op.transpose_b, column, b)
            if a_registers is not None:
                a_index: Expr = const(i * len(a_steps) * (4 * 32 // bits))
            else:
                a_index = _start(op.a, op.transpose_a, first_row + i * ROWS, b)
            b.emit(
                Wgmma(
                    width, c, const((i * wide + j * width) // 2), a_memory, a_index, a_steps, a_descriptor,
                    b_memory, b_index, b_steps, b_descriptor, accumulate,
                )
            )  # fmt: skip
    b.emit(WgmmaCommit())
    if not b.asynchronous:
        b.emit(WgmmaWait(0, used))
    assert held.threads >= gm * gn * 128


def warpgroups(op: Gemm, b: ThreadBuilder) -> tuple[int, int]:
    """(warpgroups along M, along N), from the partition."""
    wm, wn = b.warp_grid(op)
    return wm // 4, wn


def _descriptor(
    region: Region, transposed: bool, k: int, distance: int, b: ThreadBuilder
) -> tuple[Memory, tuple[int, ...], Descriptor]:
    """Memory, element offsets of the k steps, and how the operand lies.

    transposed: K is the row; distance: of products along M or N.
    """
    memory, layout, _ = b.shared(region.buffer)
    bits = region.dtype.bits
    span, panel = layout.swizzle.span, layout.panel or 1
    each = mma_k(bits)
    panel_bytes = layout.panel_stride * bits // 8
    if transposed:
        if distance % panel and (not distance or panel % distance):
            raise InternalError("TB902", f"a product goes over the edge of a panel of {region.buffer.name}")
        steps = tuple(i * each * panel for i in range(k // each))
        if not layout.swizzle.bits:  # eight rows of a column are a matrix of 128 bytes
            return memory, steps, Descriptor(128, panel_bytes, 0, True)
        return memory, steps, Descriptor(panel_bytes, 8 * span, span, True)
    steps = tuple(i * each // panel * layout.panel_stride + i * each % panel for i in range(k // each))
    return memory, steps, Descriptor(16, 8 * span, span, False)


def _start(region: Region, transposed: bool, position: Expr, b: ThreadBuilder) -> Expr:
    """Element index, before the swizzle, at which the operand starts: `position` along M or N."""
    at = (const(0), position) if transposed else (position, const(0))
    _, index = b.shared_start(region, (*(const(0) for _ in region.shape[:-2]), *at))
    return index
