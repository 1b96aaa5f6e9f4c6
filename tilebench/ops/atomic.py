"""`T.atomic_add/max/min/...`: scalar forms are the AtomicRMW statement; tile forms are this op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilebench.ir.expr import Expr
from tilebench.ir.tile import Region
from tilebench.ops.base import Op, register


@register
@dataclass(frozen=True, eq=False)
class AtomicTile(Op):
    """destination[...] op= value[...] atomically, element by element; value is a tile or one scalar for all."""

    op: Literal["add", "max", "min", "and", "or", "xor"]
    destination: Region
    value: Region | Expr

    @property
    def reads(self) -> tuple[Region, ...]:
        return (self.destination, self.value) if isinstance(self.value, Region) else (self.destination,)

    @property
    def writes(self) -> tuple[Region, ...]:
        return (self.destination,)
