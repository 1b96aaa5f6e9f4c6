"""Persistent blocks: as many as the GPU has multiprocessors, each going through tiles one after the other.

A block per tile starts with empty rings and ends with its result on the way; the next one waits for both. A
persistent block keeps its producer running: while the consumers write a result, the next tile's operands
arrive. Tiles are numbered as the grid's blocks are, in panels when the program asks for them
(`T.use_swizzle`).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilebench.ir.dtype import int32
from tilebench.ir.expr import Expr, Var, const, int_value
from tilebench.ir.rewrite import seq, walk
from tilebench.ir.tile import Bind, For, Kernel, Stmt
from tilebench.ops.gemm import Gemm
from tilebench.passes.rasterise import panel_of, permuted
from tilebench.passes.stages import Selected
from tilebench.passes.staging import PANEL, ring_bytes
from tilebench.targets.nvidia import multiprocessors

PERSISTENT = "TB_PERSISTENT"
"""Pass config: True or False; left out, kernels with one product that have tiles for two rounds or more."""
FACT = "persistent"
ROUNDS = 2
RESERVE = 1024
"""Bytes of shared memory for the rings' barriers and alignment."""


def wanted(selected: Selected) -> bool:
    """Whether the kernel should go round with persistent blocks."""
    kernel, target = selected.kernel, selected.typed.target
    asked = kernel.attributes.get("pass_configs", {}).get(PERSISTENT)
    sizes = [int_value(n) for n in kernel.grid]
    if asked is False or not selected.specialised or None in sizes or kernel.attributes.get(FACT):
        return False
    tiles = prod(n or 0 for n in sizes)
    if asked:
        return True
    products = [n for n in walk(kernel.body) if isinstance(n, Gemm)]
    facts = target.facts
    if products and facts is not None:
        tiles_out = 2 * PANEL * products[0].mnk[0]
        if ring_bytes(selected) + tiles_out + RESERVE > facts.shared_per_block:
            return False
    rounds = tiles >= ROUNDS * multiprocessors(target.arch or "")
    return target.kind == "cuda" and rounds and len(products) == 1


def with_persistent_blocks(selected: Selected) -> Kernel:
    """The kernel with a loop over tiles around its body."""
    kernel = selected.kernel
    blocks = multiprocessors(selected.typed.target.arch or "")
    sizes = [int_value(n) or 1 for n in kernel.grid]
    tiles = prod(sizes)
    block, tile = Var("block", dtype=int32), Var("tile", dtype=int32)
    names: list[Stmt] = []
    rest: Expr = tile
    for k, (var, size) in enumerate(zip(kernel.blocks, sizes, strict=True)):
        last = k == len(sizes) - 1
        raw = Var(f"raw_{var.name}", dtype=int32)
        names.append(Bind(raw, rest if last else rest % size, loc=kernel.loc))
        rest = rest // size
        names.append(Bind(var, raw, loc=kernel.loc))
    size, order = panel_of(kernel.attributes.get("swizzle_panel"))
    if size and len(sizes) >= 2:
        raws = [s.var for s in names[::2] if isinstance(s, Bind)]
        named = permuted(raws, kernel.grid, size, order, kernel.blocks)
        names = [*names[::2], *named, *names[5::2]]
    body = For(tile, block, const(tiles), seq(*names, kernel.body), step=const(blocks), loc=kernel.loc)
    attributes = {k: v for k, v in kernel.attributes.items() if k != "swizzle_panel"}
    return replace(
        kernel,
        grid=(const(min(blocks, tiles)),),
        blocks=(block,),
        body=body,
        attributes={**attributes, FACT: True},
    )
