"""`T.fill`, `T.clear`: one value everywhere in a tile."""

from __future__ import annotations

from dataclasses import dataclass

from tilebench.ir.expr import Expr
from tilebench.ir.tile import Region
from tilebench.ops.base import Op, register


@register
@dataclass(frozen=True, eq=False)
class Fill(Op):
    """destination[...] = value (already of destination's dtype)."""

    destination: Region
    value: Expr

    @property
    def reads(self) -> tuple[Region, ...]:
        return ()

    @property
    def writes(self) -> tuple[Region, ...]:
        return (self.destination,)
