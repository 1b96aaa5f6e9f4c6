"""Persistent blocks: as many as the GPU has multiprocessors, each going through tiles one after the other.

A block per tile starts with empty rings and ends with its result on the way; the next one waits for both. A
persistent block keeps its producer running: while the consumers write a result, the next tile's operands
arrive. Tiles are numbered as the grid's blocks are, in panels when the program asks for them
(`T.use_swizzle`). Where
the work of a block grows with its first index (causal attention), the longest tiles come first, so that the
short ones fill the gaps at the end.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilebench.ir.dtype import int32
from tilebench.ir.expr import Expr, Var, const, int_value
from tilebench.ir.rewrite import seq, substitute, variables, walk
from tilebench.ir.simplify import simplify
from tilebench.ir.tile import Bind, For, Kernel, Pipelined, Stmt
from tilebench.ops.gemm import Gemm
from tilebench.passes.rasterise import panel_of, permuted
from tilebench.passes.stages import Selected
from tilebench.passes.staging import PANEL, ring_bytes
from tilebench.targets.nvidia import multiprocessors

SECTION = 16
"""Heads (blocks that share nothing) visited together, longest tiles first: their operands fit in L2."""
PERSISTENT = "TB_PERSISTENT"
"""Pass config: True or False; left out, kernels that have tiles for two rounds or more."""
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
    if len(products) == 1 and facts is not None:
        tiles_out = 2 * PANEL * products[0].mnk[0]
        if ring_bytes(selected) + tiles_out + RESERVE > facts.shared_per_block:
            return False
    return target.kind == "cuda" and tiles >= ROUNDS * multiprocessors(target.arch or "")


def with_persistent_blocks(selected: Selected) -> Kernel:
    """The kernel with a loop over tiles around its body."""
    kernel = selected.kernel
    blocks = multiprocessors(selected.typed.target.arch or "")
    sizes = [int_value(n) or 1 for n in kernel.grid]
    tiles = prod(sizes)
    block, tile = Var("block", dtype=int32), Var("tile", dtype=int32)
    order_of: list[Stmt] = []
    rest: Expr = tile if not _grows(kernel) else _longest_first(tile, sizes, order_of)
    names: list[Stmt] = []
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
    body = For(
        tile, block, const(tiles), seq(*order_of, *names, kernel.body), step=const(blocks), loc=kernel.loc
    )
    attributes = {k: v for k, v in kernel.attributes.items() if k != "swizzle_panel"}
    return replace(
        kernel,
        grid=(const(min(blocks, tiles)),),
        blocks=(block,),
        body=body,
        attributes={**attributes, FACT: True},
    )


def _grows(kernel: Kernel) -> bool:
    """Whether a block's pipelined loop is the longer, the larger its first index."""
    first = kernel.blocks[0]
    bound = {n.var: n.value for n in walk(kernel.body) if isinstance(n, Bind)}
    for loop in walk(kernel.body):
        if isinstance(loop, Pipelined):
            stop = substitute(loop.stop, bound)
            if first in variables(stop) and first not in variables(loop.start):
                low, high = (int_value(simplify(substitute(stop, {first: const(k)}), {})) for k in (0, 1))
                return low is not None and high is not None and high > low
    return False


def _longest_first(tile: Var, sizes: list[int], names: list[Stmt]) -> Expr:
    """The number of the block to do in place `tile`: the first index downwards, in sections of the others."""
    others = prod(sizes[1:])
    section = next(d for d in range(min(SECTION, others), 0, -1) if others % d == 0)

    def named(name: str, value: Expr) -> Expr:
        var = Var(name, dtype=int32)
        names.append(Bind(var, value))
        return var

    within = named("within", tile % (section * sizes[0]))
    row = sizes[0] - 1 - within // section
    other = tile // (section * sizes[0]) * section + within % section
    return named("number", other * sizes[0] + row)
