"""Results on their way out: an accumulator goes through shared memory, and from there as one bulk copy.

A thread of a warpgroup product holds two neighbours of a row: 4 bytes of float16, an eighth of a sector.
Through a swizzled tile whole lines leave, outside of the registers and clipped by hardware. The tile costs
nothing: the rings are empty by then, and their bytes are free. Where the rings stay busy (persistent blocks),
or the warpgroups run out of step (attention: meeting would cost 3 % on an H200), there are two small tiles
with bytes of their own: each warpgroup stages its own rows, panel by panel, and none waits for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tilebench.ir.expr import const
from tilebench.ir.rewrite import rebuild, seq, substitute, variables, walk
from tilebench.ir.simplify import linear
from tilebench.ir.tile import (
    Buffer,
    For,
    Kernel,
    Parallel,
    Pipelined,
    Region,
    Seq,
    Stmt,
    TileOp,
    While,
    whole,
)
from tilebench.ops.copy import Copy
from tilebench.ops.copy.bulk import NAME as BULK
from tilebench.ops.copy.bulk import STORE, offers
from tilebench.ops.gemm import Gemm, GemmWarpPolicy
from tilebench.ops.gemm.wgmma import NAME as WGMMA
from tilebench.ops.gemm.wgmma import splits
from tilebench.passes.regions import bound_indices, guarded_copies, touches
from tilebench.passes.stages import Selected

PANEL = 128
"""Bytes of a row in a panel: the widest swizzle."""
RESERVE = 1024
"""Bytes of shared memory for the rings' barriers and alignment."""
NO_STAGING = "TB_DISABLE_RESULT_STAGING"
"""Pass config: accumulators are stored straight from registers."""

IN_LOOPS = "TB_STAGE_IN_LOOPS"
"""Pass config: False keeps results of each iteration of a pipelined loop from leaving through shared memory
too."""


def with_staged_results(selected: Selected, going_round: bool) -> Kernel:
    """The kernel with its accumulators stored through shared tiles; itself when there is nothing to do.

    going_round: the blocks are persistent, so that the rings stay busy: a result then leaves panel by panel
    through two small tiles.
    """
    kernel = selected.kernel
    products = [n for n in walk(kernel.body) if isinstance(n, Gemm)]
    results = {p.c.buffer: p for p in products}
    if kernel.configs.get(NO_STAGING, False) or not products:
        return kernel
    free = free_bytes(selected)
    in_loops = bool(kernel.configs.get(IN_LOOPS, True))
    tiles: list[Buffer] = []

    def visit(s: Stmt, around: tuple[Pipelined, ...] = ()) -> Stmt:
        """around: pipelined loops, whose rings have no byte to spare."""
        if isinstance(s, Copy) and s.source.buffer in results and s not in selected.typed.per_thread:
            product = results[s.source.buffer]
            own = _own_bytes(s, product)
            alone = _by_rows(product, selected) and own <= free and (going_round or len(products) > 1)
            if not alone and len(products) > 1:
                return s
            room = own if going_round or alone else ring_bytes(selected)
            if around and not _goes_on(s, around, kernel):
                return s
            room = min(room, free) if around else room
            return _staged(s, selected, room, going_round or alone, alone, tiles)
        if isinstance(s, TileOp | Parallel | For | While):
            return s
        if isinstance(s, Pipelined):
            if not in_loops or (s.order, s.stage, s.group) != (None, None, None):
                return s  # (tables of the program's own count its statements)
            around = (*around, s)
        return rebuild(s, lambda c: visit(c, around) if isinstance(c, Stmt) else c)

    body = visit(kernel.body)
    if not tiles:
        return kernel
    return replace(kernel, body=body, buffers=(*kernel.buffers, *tiles))


def _goes_on(s: Copy, around: Sequence[Pipelined], kernel: Kernel) -> bool:
    """Whether a result of a loop goes to another place in each iteration, and nothing else touches its
    tensor: bulk stores end in no order.
    """
    tensor = s.destination.buffer.data
    if any(t.stmt is not s and t.buffer.data is tensor for t in touches(kernel.body)):
        return False
    known = bound_indices(kernel.body)
    starts = [linear(substitute(o, known)) for o in s.destination.offsets]

    def moves(loop: Pipelined) -> bool:
        return any(
            abs(start.coefficient(loop.var)) >= extent
            and not any(loop.var in variables(e) for e, _ in start.terms if e is not loop.var)
            for start, extent in zip(starts, s.destination.extents, strict=True)
        )

    return all(map(moves, around))


def _own_bytes(s: Copy, product: Gemm) -> int:
    """Of the small tiles through which a result leaves: two panels, one where it has no more."""
    rows, columns, _ = product.mnk
    return min(2, -(-columns * s.destination.dtype.bytes // PANEL)) * PANEL * rows


def _by_rows(product: Gemm, selected: Selected) -> bool:
    """Whether each warpgroup has rows of the product's result to itself."""
    if selected.instructions[product].name != WGMMA or product.policy is GemmWarpPolicy.FullCol:
        return False
    m, n, _ = product.mnk
    threads = selected.kernel.thread_count
    return any(split == (threads // 128, 1) for split in splits(m, n, threads))


def _staged(
    s: Copy, selected: Selected, room: int, in_panels: bool, alone: bool, tiles: list[Buffer]
) -> Stmt:
    source, destination = s.source, _matching(s.destination)
    size = destination.dtype.bytes
    if destination.buffer.scope != "global" or len(source.shape) != 2 or destination.shape != source.shape:
        return s
    rows, columns = source.shape
    width = PANEL // size if in_panels and columns % (PANEL // size) == 0 else columns
    count = min(2, columns // width)
    if rows * width * size * count + sum(size_of(t) for t in tiles) > room or not source.is_whole:
        return s
    name, extents = f"{source.buffer.name}_tile", (const(rows), const(width))
    fresh = [Buffer(name, extents, destination.dtype, "shared", loc=s.loc) for _ in range(count)]
    parts: list[Stmt] = []
    for p in range(columns // width):
        tile = whole(fresh[p % count])
        there = _columns(destination, p * width, width)
        out = Copy(tile, there, disable_tma=s.disable_tma, prefer=s.prefer, alone=alone, loc=s.loc)
        if not any(o.legal and o.instruction.name == STORE for o in offers(out, selected.typed.target)):
            return s
        parts += [Copy(_columns(source, p * width, width), tile, alone=alone, loc=s.loc), out]
    tiles += fresh
    return seq(*parts)


def _columns(region: Region, start: int, width: int) -> Region:
    """Some of the last dimension of a region."""
    return replace(
        region,
        offsets=(*region.offsets[:-1], region.offsets[-1] + start),
        extents=(*region.extents[:-1], width),
    )


def _matching(region: Region) -> Region:
    """The destination, its unit dimensions dropped."""
    return replace(region, dropped=frozenset(d for d, e in enumerate(region.extents) if e == 1))


def size_of(buffer: Buffer) -> int:
    """Bytes of one version of a tile."""
    return prod(buffer.static_shape) * buffer.dtype.bytes


def free_bytes(selected: Selected) -> int:
    """Shared memory that the kernel's own tiles leave, in all their versions."""
    facts = selected.typed.target.facts
    limit = facts.shared_per_block if facts is not None else 0
    blocks = selected.kernel.attributes.get("min_blocks") or 1
    if facts is not None and blocks > 1:
        limit = min(limit, facts.shared_per_sm // blocks - facts.shared_reserved)
    return limit - RESERVE - kept_bytes(selected) - ring_bytes(selected)


def kept_bytes(selected: Selected) -> int:
    """Shared memory of the kernel's own tiles that are not in rings of pipelined loops."""
    brought = {
        n.destination.buffer
        for n, i in selected.instructions.items()
        if isinstance(n, Copy) and i.name == BULK
    }
    once = sum(size_of(b) for b in selected.kernel.buffers if b.scope == "shared" and b.view_of is None)
    pipelined = {
        p.destination.buffer
        for loop in walk(selected.kernel.body)
        if isinstance(loop, Pipelined)
        for p in walk(loop.body)
        if isinstance(p, Copy) and p.destination.buffer in brought
    }
    return once - sum(size_of(b) for b in pipelined)


def ring_bytes(selected: Selected) -> int:
    """Shared memory of the rings of pipelined loops: free when the loops are over."""
    total = 0
    for loop in walk(selected.kernel.body):
        if isinstance(loop, Pipelined):
            parts = loop.body.body if isinstance(loop.body, Seq) else (loop.body,)
            for copy in (c for p in parts for c in ((p,) if isinstance(p, Copy) else guarded_copies(p))):
                if selected.instructions[copy].name == BULK:
                    total += size_of(copy.destination.buffer) * max(1, loop.num_stages)
    return total
