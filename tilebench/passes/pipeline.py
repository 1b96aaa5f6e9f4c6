"""Placed -> Scheduled."""

from __future__ import annotations

from tilebench.ir.rewrite import transform
from tilebench.ir.tile import For, Pipelined, Stmt
from tilebench.passes.stages import Placed, Scheduled


def pipeline(placed: Placed) -> Scheduled:
    """Loops in order."""

    def plain(s: object) -> Stmt | None:
        return For(s.var, s.start, s.stop, s.body, loc=s.loc) if isinstance(s, Pipelined) else None

    return Scheduled(placed, transform(placed.kernel.body, plain), (), {})
