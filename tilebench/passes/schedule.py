"""The record of one statement of a pipelined loop: what it keeps busy and how much work it is."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tilebench.ir.expr import Binary, Call
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import For, If, Parallel, Stmt, While
from tilebench.ops.base import Cost, Op
from tilebench.ops.copy import Copy
from tilebench.ops.gemm import Gemm
from tilebench.passes.stages import ScheduledOp


def scheduled_op(s: Stmt, stage: int, order: int, asynchronous: bool) -> ScheduledOp:
    """The record. stage: iterations ahead of the last stage."""
    if isinstance(s, Copy) and "global" in (s.source.buffer.scope, s.destination.buffer.scope):
        return ScheduledOp(s, stage, order, "copy", cost_of(s), asynchronous)
    tensor = any(isinstance(n, Gemm) for n in walk(s))
    return ScheduledOp(s, stage, order, "tensor" if tensor else "alu", cost_of(s), asynchronous)


def key_tile_of(parts: Iterable[Stmt]) -> int:
    """How far an iteration gets along the dimension that is summed: the columns of scores that a later
    product takes, else K of the first product; 0 without one.
    """
    products = [n for p in parts for n in walk(p) if isinstance(n, Gemm)]
    if not products:
        return 0
    _, columns, depth = products[0].mnk
    return columns if len(products) > 1 and products[-1].mnk[2] == columns else depth


def cost_of(s: Stmt) -> Cost:
    """Work of one execution: of an op what it says, of a nest its operations times its iterations (loops of
    unknown length once).
    """
    if isinstance(s, Op):
        return s.cost()
    flops = transcendentals = 0.0
    read: dict[str, float] = {}
    written: dict[str, float] = {}
    if isinstance(s, Parallel):
        times = prod(s.extents)
        for n in walk(s.body):
            if isinstance(n, Binary) and n.dtype.is_float:
                flops += times
            elif isinstance(n, Call):
                transcendentals += times
        return Cost(flops=flops, transcendentals=transcendentals)
    if isinstance(s, For | If | While) or hasattr(s, "body"):
        from tilebench.ir.rewrite import children

        parts = [cost_of(c) for c in children(s) if isinstance(c, Stmt)]
        for part in parts:
            flops += part.flops
            transcendentals += part.transcendentals
            for into, of in ((read, part.read), (written, part.written)):
                for scope, n in of.items():
                    into[scope] = into.get(scope, 0.0) + n
    return Cost(flops, read, written, transcendentals)
