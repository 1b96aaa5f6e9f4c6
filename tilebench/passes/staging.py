"""Results on their way out: an accumulator goes through shared memory, and from there as one bulk copy.

A thread of a warpgroup product holds two neighbours of a row: 4 bytes of float16, an eighth of a sector.
Through a swizzled tile whole lines leave, outside of the registers and clipped by hardware. The tile costs
nothing: the rings are empty by then, and their bytes are free.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilebench.ir.expr import const
from tilebench.ir.rewrite import rebuild, seq, walk
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
from tilebench.ops.gemm import Gemm
from tilebench.ops.regions import squeezed
from tilebench.passes.stages import Selected

NO_STAGING = "TB_DISABLE_RESULT_STAGING"
"""Pass config: accumulators are stored straight from registers."""


def with_staged_results(selected: Selected) -> Kernel:
    """The kernel with its accumulators stored through shared tiles; itself when there is nothing to do."""
    kernel = selected.kernel
    if kernel.attributes.get("pass_configs", {}).get(NO_STAGING, False):
        return kernel
    room = _ring_bytes(selected)
    products = {n.c.buffer for n in walk(kernel.body) if isinstance(n, Gemm)}
    tiles: list[Buffer] = []

    def visit(s: Stmt) -> Stmt:
        if isinstance(s, Copy) and s.source.buffer in products and s not in selected.typed.per_thread:
            return _staged(s, selected, room, tiles)
        if isinstance(s, TileOp | Parallel | For | Pipelined | While):
            return s
        return rebuild(s, lambda c: visit(c) if isinstance(c, Stmt) else c)

    body = visit(kernel.body)
    if not tiles:
        return kernel
    return replace(kernel, body=body, buffers=(*kernel.buffers, *tiles))


def _staged(s: Copy, selected: Selected, room: int, tiles: list[Buffer]) -> Stmt:
    source, destination = s.source, s.destination
    shape = squeezed(source.shape)
    size = prod(shape) * destination.dtype.bytes
    if destination.buffer.scope != "global" or len(shape) != 2 or size + sum(_bytes(t) for t in tiles) > room:
        return s
    name = f"{source.buffer.name}_tile"
    tile = Buffer(name, tuple(const(n) for n in shape), destination.dtype, "shared", loc=source.buffer.loc)
    out = Copy(
        whole(tile), _matching(destination, shape), disable_tma=s.disable_tma, prefer=s.prefer, loc=s.loc
    )
    if not any(o.legal and o.instruction.name == STORE for o in offers(out, selected.typed.target)):
        return s
    tiles.append(tile)
    return seq(Copy(source, whole(tile), loc=s.loc), out)


def _matching(region: Region, shape: tuple[int, ...]) -> Region:
    """The destination, its unit dimensions dropped."""
    unit = frozenset(d for d, e in enumerate(region.extents) if e == 1)
    return replace(region, dropped=unit) if len(unit) == len(region.extents) - len(shape) else region


def _bytes(buffer: Buffer) -> int:
    return prod(buffer.static_shape) * buffer.dtype.bytes


def _ring_bytes(selected: Selected) -> int:
    """Shared memory of the rings of pipelined loops: free when the loops are over."""
    total = 0
    for loop in walk(selected.kernel.body):
        if isinstance(loop, Pipelined):
            parts = loop.body.body if isinstance(loop.body, Seq) else (loop.body,)
            for p in parts:
                if isinstance(p, Copy) and selected.instructions[p].name == BULK:
                    total += _bytes(p.destination.buffer) * max(1, loop.num_stages)
    return total
