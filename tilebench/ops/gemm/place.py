"""Which instructions can carry out a gemm, how warps may split it, and what that requires of its layouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilebench.layouts import (
    FragmentLayout,
    mma_accumulator,
    mma_k,
    mma_operand_a,
    mma_operand_b,
    swizzled,
    wgmma_accumulator,
    wgmma_operand_a,
)  # fmt: skip
from tilebench.ops.base import Instruction, Offer, PlaceContext, Requirement
from tilebench.ops.gemm import wgmma
from tilebench.targets import Target

if TYPE_CHECKING:
    from tilebench.ir.tile import Region
    from tilebench.ops.gemm.spec import Gemm

ATOM = (16, 8)
"""M and N of the mma.sync instructions used here."""

_MMA: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "float16": ("mma.m16n8k16", "f16_mma", ("float32", "float16")),
    "bfloat16": ("mma.m16n8k16", "bf16_mma", ("float32",)),
    "tfloat32": ("mma.m16n8k8", "tf32_mma", ("float32",)),
    "int8": ("mma.m16n8k32", "i8_mma", ("int32",)),
    "uint8": ("mma.m16n8k32", "i8_mma", ("int32",)),
    "float8_e4m3": ("mma.m16n8k32", "fp8_mma", ("float32",)),
    "float8_e5m2": ("mma.m16n8k32", "fp8_mma", ("float32",)),
}
"""Operand dtype -> (instruction, the feature it needs, accumulators). Source: PTX ISA, mma, "Target ISA
Notes".
"""


def warp_splits(m: int, n: int, warps: int) -> Iterator[tuple[int, int]]:
    """Every (warps along M, warps along N) with a product that divides `warps` and whole atoms for each warp.

    When the product is smaller, several groups of warps compute the same.
    """
    for wm in range(1, warps + 1):
        for wn in range(1, warps // wm + 1):
            if warps % (wm * wn) == 0 and m % (ATOM[0] * wm) == 0 and n % (ATOM[1] * wn) == 0:
                yield wm, wn


def offers(op: Gemm, target: Target, threads: int) -> tuple[Offer, ...]:
    """mma.sync, then one multiply-add at a time from shared memory, then element by element."""
    a, b = op.a.dtype, op.b.dtype
    name, feature, accumulators = _MMA.get(a.name, ("mma", "", ()))
    against = _against_mma(op, target, threads, name, feature, accumulators)
    facts = {"k": mma_k(a.bits), "kind": "tf32" if a == "tfloat32" else ""} if name != "mma" else {}
    k = facts.get("k")
    good = f"tensor cores: {a} x {b} -> {op.c.dtype} in steps of 16x8x{k}"
    return (
        *wgmma.offers(op, target, threads),
        Offer(Instruction(name, facts), not against, against or good),
        Offer(
            Instruction("fma"),
            not (reason := _against_fma(op)),
            reason or "multiply-adds of each thread on a tile of registers, operands from shared memory",
        ),
        Offer(
            Instruction("expand"),
            True,
            "element by element: an operand is spread over the threads' registers",
        ),
    )


def _against_mma(
    op: Gemm, target: Target, threads: int, name: str, feature: Any, accumulators: tuple[str, ...]
) -> str:
    m, n, k = op.mnk
    a, c = op.a.dtype, op.c.dtype
    if name == "mma" or c.name not in accumulators:
        if a == "float32":
            return "float32 operands would be rounded to tf32; T.copy them to tfloat32 buffers to have that"
        return f"no tensor-core instruction multiplies {a} into {c}"
    if not target.supports(feature):
        oldest = "sm_89" if feature == "fp8_mma" else "sm_80"
        return f"{name} of {a} needs {oldest} or later; the target is {target}"
    if threads % 32:
        return f"{threads} threads are not whole warps"
    step = mma_k(a.bits)
    wrong: list[str] = []
    if m % ATOM[0]:
        wrong.append(f"M = {m} is no multiple of {ATOM[0]}")
    if n % ATOM[1]:
        wrong.append(f"N = {n} is no multiple of {ATOM[1]}")
    if k % step:
        wrong.append(f"K = {k} is no multiple of {step}")
    if wrong:
        legal = f"{-(-m // 16) * 16}x{-(-n // 8) * 8}x{-(-k // step) * step}"
        return f"{', '.join(wrong)} (M x N x K of {legal} would do)"
    for region, what in ((op.a, "A"), (op.b, "B"), (op.c, "C")):
        if region.buffer.scope == "fragment" and not region.is_whole:
            return f"{what} is part of the fragment {region.buffer.name}"
    return ""


def _against_fma(op: Gemm) -> str:
    for region, what in ((op.a, "A"), (op.b, "B")):
        if region.buffer.scope != "shared":
            return f"{what} ({region.buffer.name}) is in registers of other threads"
    if not op.c.is_whole:
        return f"C is part of the fragment {op.c.buffer.name}"
    return ""


def requirements(op: Gemm, context: PlaceContext) -> tuple[Requirement, ...]:
    """Layouts: fragments as the instruction has them (strict), shared operands swizzled (a wish)."""
    instruction = context.instruction(op)
    m, n, k = op.mnk
    found: list[Requirement] = []
    if instruction.name == wgmma.NAME:
        return _of_warpgroups(op, context)
    if instruction.name.startswith("mma"):
        bits = op.a.dtype.bits
        grid = context.warp_grid(op)
        copies = max(1, context.warps // (grid[0] * grid[1]))
        name = instruction.name
        split = f"{grid[0]}x{grid[1]} warps"
        c = mma_accumulator((m, n), grid)
        found.append(_fragment(op.c, c, copies, f"the accumulator of {name}, {split}"))
        if op.a.buffer.scope == "fragment":
            a = mma_operand_a((m, k), grid, bits)
            a = a.permute((1, 0)) if op.transpose_a else a
            found.append(_fragment(op.a, a, copies, f"operand A of {name} from registers, {split}"))
        if op.b.buffer.scope == "fragment":
            b = mma_operand_b((n, k) if op.transpose_b else (k, n), grid, bits, op.transpose_b)
            found.append(_fragment(op.b, b, copies, f"operand B of {name} from registers, {split}"))
        for region in (op.a, op.b):
            if region.buffer.scope == "shared":
                shape = region.buffer.static_shape
                layout = swizzled(shape, region.dtype.bits)
                found.append(
                    Requirement(
                        region.buffer,
                        layout,
                        False,
                        "swizzled, so that ldmatrix has no bank conflicts",
                        op.loc,
                    )
                )
    elif instruction.name == "fma":
        from tilebench.ops.gemm.fma import accumulator_layout

        layout = lifted(op.c, accumulator_layout(m, n, context.threads, 1 if op.transpose_b else 4))
        found.append(Requirement(op.c.buffer, layout, False, "a tile of registers for each thread", op.loc))
        for region, along_k in ((op.a, not op.transpose_a), (op.b, op.transpose_b)):
            if along_k and region.dtype.bits >= 8:
                layout = swizzled(region.buffer.static_shape, region.dtype.bits)
                found.append(
                    Requirement(
                        region.buffer, layout, False, "swizzled: threads read rows of it side by side", op.loc
                    )
                )
    return tuple(found)


def _of_warpgroups(op: Gemm, context: PlaceContext) -> tuple[Requirement, ...]:
    m, n, k = op.mnk
    wm, wn = context.warp_grid(op)
    groups = (wm // 4, wn)
    split = f"{groups[0]}x{groups[1]} warpgroups"
    c = wgmma_accumulator((m, n), groups)
    found = [_fragment(op.c, c, 1, f"the accumulator of wgmma, {split}")]
    if op.a.buffer.scope == "fragment":
        a = wgmma_operand_a((m, k), groups, op.a.dtype.bits)
        found.append(_fragment(op.a, a, 1, f"operand A of wgmma from registers, {split}"))
    step = wgmma.step_of(op, n // groups[1])
    for region, transposed, each in ((op.a, op.transpose_a, wgmma.ROWS), (op.b, not op.transpose_b, step)):
        if region.buffer.scope == "shared":
            layout = wgmma.operand_layout(region, transposed, each)
            rows = "swizzled rows" if layout.swizzle.bits else "columns of 16 bytes"
            reason = f"{rows}, as the matrix descriptor of wgmma reads them"
            found.append(Requirement(region.buffer, layout, True, reason, op.loc))
    return tuple(found)


def _fragment(region: Region, layout: FragmentLayout, copies: int, reason: str) -> Requirement:
    if copies > 1:
        layout = layout.replicate(copies)
        reason += f", computed {copies} times"
    return Requirement(region.buffer, lifted(region, layout), True, reason)


def lifted(region: Region, layout: FragmentLayout) -> FragmentLayout:
    """A matrix layout for a buffer with unit dimensions in front."""
    for _ in range(len(region.extents) - layout.rank):
        layout = layout.expand(0, 1)
    return layout
