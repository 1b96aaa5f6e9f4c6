"""Left operands in registers that a second product reads from shared memory: stored by stmatrix.

The backward pass of attention has such a one: dS^T is the left operand of dK, and dQ needs it transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilebench.ir.rewrite import transform, walk
from tilebench.ir.tile import Kernel, Region, Stmt, TileOp
from tilebench.ops.copy import Copy
from tilebench.ops.gemm import Gemm, GemmWarpPolicy
from tilebench.ops.gemm.wgmma import NAME as WGMMA
from tilebench.ops.gemm.wgmma import splits
from tilebench.passes.stages import Selected

BY_MATRIX = "TB_STORE_OPERANDS_BY_MATRIX"
"""Pass config: False keeps such copies from being made by stmatrix."""


def with_operands_by_matrix(selected: Selected) -> Kernel:
    """The kernel with `operand` set on these copies; itself when there are none, or the config is off."""
    kernel = selected.kernel
    if not kernel.configs.get(BY_MATRIX, True):
        return kernel
    groups = kernel.thread_count // 128
    products = [
        n for n in walk(kernel.body) if isinstance(n, Gemm) and selected.instructions[n].name == WGMMA
    ]
    left = {g.a.buffer for g in products if _by_rows(g, products, groups)}
    read = {r.buffer for g in products for r in (g.a, g.b) if r.buffer.scope == "shared"}
    fresh: dict[Stmt, Stmt] = {
        c: replace(c, operand=True)
        for c in walk(kernel.body)
        if isinstance(c, Copy)
        and not c.operand
        and c.source.buffer in left
        and c.destination.buffer in read
        and c.source.is_whole
        and _is_matrix(c.destination)
        and len(c.source.buffer.shape) == 2
        and c.source.dtype == c.destination.dtype
    }
    if not fresh:
        return kernel
    return replace(
        kernel, body=transform(kernel.body, lambda n: fresh.get(n) if isinstance(n, TileOp) else None)
    )


def _is_matrix(r: Region) -> bool:
    """Whether it is all of the last two dimensions, at one place of those before."""
    shape = r.buffer.static_shape
    return r.extents[-2:] == shape[-2:] and all(n == 1 for n in r.extents[:-2]) and len(shape) > 1


def _by_rows(g: Gemm, products: Sequence[Gemm], groups: int) -> bool:
    """Whether A is in registers, the rows of each warpgroup its own (products into one accumulator share
    their split).
    """
    if g.a.buffer.scope != "fragment" or not g.a.is_whole:
        return False
    m, n, _ = g.mnk
    possible = list(splits(m, n, groups * 128))
    into = [p for p in products if p.c.buffer is g.c.buffer]
    asked = all(
        p.policy is GemmWarpPolicy.FullRow
        or (p.policy is not GemmWarpPolicy.FullCol and p.a.buffer.scope == "fragment")
        for p in into
    )
    return (groups, 1) in possible and (len(possible) == 1 or asked)


__all__ = ["with_operands_by_matrix"]
