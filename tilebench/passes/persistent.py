"""Persistent blocks: as many as the GPU holds, each going through tiles one after the other.

That is one for each multiprocessor, or more where small blocks share one (passes/occupied.py).

A block per tile starts with empty rings and ends with its result on the way; the next one waits for both. A
persistent block keeps its producer running: while the consumers write a result, the next tile's operands
arrive. Tiles are numbered as the grid's blocks are, in panels when the program asks for them
(`T.use_swizzle`).

Where the work of a block grows with its first index (causal attention) persistent blocks do pairs of tiles
that are equally much work, a long and a short one, as long as no tile has more than PAIRED_TRIPS trips:
measured on an H200 that is 1.03 to 1.2 times faster up to 4096 keys, and 0.95 to 1.0 from 8192 on. Otherwise
there is one block a tile: the hardware hands them out, the longest first, in sections of heads whose operands
fit in L2, and the short ones fill the gaps at the end. Persistent blocks that cannot be paired take that
order there and back, so that a block that had a long tile gets a short one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tilebench.ir.dtype import int32
from tilebench.ir.expr import Expr, Var, binary, const, int_value, select
from tilebench.ir.rewrite import seq, substitute, variables, walk
from tilebench.ir.simplify import simplify
from tilebench.ir.tile import Bind, For, Kernel, Pipelined, Stmt
from tilebench.ops.gemm import Gemm
from tilebench.passes.occupied import blocks_per_sm
from tilebench.passes.rasterise import panel_of, permuted
from tilebench.passes.stages import Selected
from tilebench.passes.staging import PANEL, RESERVE, ring_bytes
from tilebench.passes.teams import FACT as TEAMS
from tilebench.passes.teams import wanted_teams
from tilebench.targets.nvidia import multiprocessors

SECTION = 16
"""Heads (blocks that share nothing) visited together, longest tiles first: their operands fit in L2."""
PERSISTENT = "TB_PERSISTENT"
"""Pass config: True or False; left out, kernels that have tiles for two rounds or more."""
LONGEST_FIRST = "TB_LONGEST_FIRST"
"""Pass config: True or False; left out, kernels whose blocks have the more to do, the larger their index."""
PAIRED = "TB_PAIRED_TILES"
"""Pass config: where tiles grow with their index, persistent blocks do a long and a short one in turn; False
keeps them from it, True does so for tiles of any length."""
PAIRED_TRIPS = 32
"""Trips of the longest tile up to which that pays."""
FACT = "persistent"
REORDERED = "longest_first"
ROUNDS = 2


def wanted(selected: Selected) -> bool:
    """Whether the kernel should go round with persistent blocks."""
    kernel, target = selected.kernel, selected.typed.target
    asked = kernel.configs.get(PERSISTENT)
    sizes = [int_value(n) for n in kernel.grid]
    if asked is False or not selected.specialised or None in sizes or kernel.attributes.get(FACT):
        return False
    tiles = prod(n or 0 for n in sizes)
    if asked:
        return True
    if _grows(kernel) and len(sizes) > 1:
        longest = _longest(kernel)
        short = longest is not None and longest <= PAIRED_TRIPS
        return target.kind == "cuda" and short and _pairs(selected) > 0
    products = [n for n in walk(kernel.body) if isinstance(n, Gemm)]
    facts = target.facts
    if len(products) == 1 and facts is not None:
        tiles_out = 2 * PANEL * products[0].mnk[0]
        if ring_bytes(selected) + tiles_out + RESERVE > facts.shared_per_block:
            return False
    return target.kind == "cuda" and tiles >= ROUNDS * _resident(selected)


def _pairs(selected: Selected) -> int:
    """Pairs of a long and a short tile; 0 where they are not to be paired, or not enough for all blocks."""
    sizes = [int_value(n) or 1 for n in selected.kernel.grid]
    pairs = sizes[0] // 2 * prod(sizes[1:])
    if sizes[0] % 2 or pairs < _resident(selected) or not selected.kernel.configs.get(PAIRED, True):
        return 0
    return pairs


def _resident(selected: Selected) -> int:
    """Blocks that the GPU holds at a time."""
    return multiprocessors(selected.typed.target.arch or "") * blocks_per_sm(selected.kernel)


def with_persistent_blocks(selected: Selected) -> Kernel:
    """The kernel with a loop over tiles around its body."""
    kernel = selected.kernel
    blocks = _resident(selected)
    sizes = [int_value(n) or 1 for n in kernel.grid]
    tiles = prod(sizes)
    block, tile = Var("block", dtype=int32), Var("tile", dtype=int32)
    names: list[Stmt] = []
    if _grows(kernel) and len(sizes) > 1:
        pairs = _pairs(selected)
        if pairs:
            names = _paired(tile, block, blocks, kernel.blocks, sizes)
            stop = (const(pairs + blocks - 1) - block) // blocks * (2 * blocks)
            return _going_round(kernel, block, tile, blocks, tiles, names, stop)
        names = _longest_first(_there_and_back(tile, blocks, tiles), kernel.blocks, sizes)
        return _going_round(kernel, block, tile, blocks, tiles, names)
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
    return _going_round(kernel, block, tile, blocks, tiles, names)


def _going_round(
    kernel: Kernel,
    block: Var,
    tile: Var,
    blocks: int,
    tiles: int,
    names: list[Stmt],
    stop: Expr | None = None,
) -> Kernel:
    """stop: where a block's tile numbers end, when not at `tiles`."""
    end, step = const(tiles) if stop is None else stop, const(blocks)
    body = For(tile, block, end, seq(*names, kernel.body), step=step, loc=kernel.loc)
    attributes = {k: v for k, v in kernel.attributes.items() if k != "swizzle_panel"}
    teams = wanted_teams(kernel) if stop is None else 1
    if teams > 1:
        attributes[TEAMS] = teams
    return replace(
        kernel,
        grid=(const(min(blocks, tiles)),),
        blocks=(block,),
        body=body,
        attributes={**attributes, FACT: True},
    )


def _paired(tile: Var, block: Var, blocks: int, names: Sequence[Var], sizes: Sequence[int]) -> list[Stmt]:
    """Statements that name the block to do when each does a long tile and the short one that makes up for it:
    the k-th from the end of a head, and the k-th. Heads come one after the other, so that neighbours share
    operands.
    """
    half = sizes[0] // 2
    pairs = half * prod(sizes[1:])
    out: list[Stmt] = []

    def named(name: str, value: Expr) -> Expr:
        var = Var(name, dtype=int32)
        out.append(Bind(var, value))
        return var

    turn = named("turn", tile // blocks)
    pair = named("pair", binary("min", turn // 2 * blocks + block, const(pairs - 1)))
    place = named("place", pair % half)
    long = binary("eq", turn % 2, const(0))
    out.append(Bind(names[0], select(long, sizes[0] - 1 - place, place)))
    rest = named("other", pair // half)
    for k, (var, size) in enumerate(zip(names[1:], sizes[1:], strict=True), 2):
        out.append(Bind(var, rest if k == len(sizes) else rest % size))
        rest = rest // size
    return out


def _there_and_back(tile: Var, blocks: int, tiles: int) -> Expr:
    """The place of a block's tile in the order: every other whole round runs backwards."""
    turn = tile // blocks
    back = binary("and", binary("eq", turn % 2, const(1)), binary("lt", turn, const(tiles // blocks)))
    return select(back, turn * (2 * blocks) + (blocks - 1) - tile, tile)


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


def _longest(kernel: Kernel) -> int | None:
    """Trips of the last block's loop where each is two products, as in attention; None where they are not
    known, and for other kernels.
    """
    bound = {n.var: n.value for n in walk(kernel.body) if isinstance(n, Bind)}
    loops = [n for n in walk(kernel.body) if isinstance(n, Pipelined)]
    if len(loops) != 1 or sum(isinstance(n, Gemm) for n in walk(loops[0].body)) != 2:
        return None
    last = {kernel.blocks[0]: kernel.grid[0] - 1}
    return int_value(simplify(substitute(substitute(loops[0].stop, bound), last) - loops[0].start, {}))


def unbalanced(selected: Selected) -> bool:
    """Whether the blocks of the kernel should be handed out in another order than the grid's."""
    kernel, target = selected.kernel, selected.typed.target
    asked = kernel.configs.get(LONGEST_FIRST)
    static = all(int_value(n) is not None for n in kernel.grid) and len(kernel.grid) > 1
    if asked is False or not static or kernel.attributes.get(REORDERED) or not _grows(kernel):
        return False
    return bool(asked) or target.kind == "cuda"


def with_longest_first(kernel: Kernel) -> Kernel:
    """The kernel with its blocks renamed: in the hardware's order, the first index runs downwards, in
    sections of the others.
    """
    sizes = [int_value(n) or 1 for n in kernel.grid]
    raw = tuple(Var(f"raw_{v.name}", dtype=int32) for v in kernel.blocks)
    number: Expr = raw[-1]
    for var, size in zip(reversed(raw[:-1]), reversed(sizes[:-1]), strict=True):
        number = number * size + var
    names = _longest_first(number, kernel.blocks, sizes)
    attributes = {k: v for k, v in kernel.attributes.items() if k != "swizzle_panel"}
    return replace(
        kernel, blocks=raw, body=seq(*names, kernel.body), attributes={**attributes, REORDERED: True}
    )


def _longest_first(place: Expr, blocks: Sequence[Var], sizes: Sequence[int]) -> list[Stmt]:
    """Statements that name the block to do at a place of the order."""
    others = prod(sizes[1:])
    section = next(d for d in range(min(SECTION, others), 0, -1) if others % d == 0)
    names: list[Stmt] = []

    def named(name: str, value: Expr) -> Expr:
        var = Var(name, dtype=int32)
        names.append(Bind(var, value))
        return var

    number = named("number", place)
    within = named("within", number % (section * sizes[0]))
    names.append(Bind(blocks[0], sizes[0] - 1 - within // section))
    rest = named("other", number // (section * sizes[0]) * section + within % section)
    for k, (var, size) in enumerate(zip(blocks[1:], sizes[1:], strict=True), 2):
        names.append(Bind(var, rest if k == len(sizes) else rest % size))
        rest = rest // size
    return names
