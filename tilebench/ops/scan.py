"""`T.cumsum`, `T.cummax`: running sum or maximum along one dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilebench.ir.tile import Region
from tilebench.ops.base import Op, register


@register
@dataclass(frozen=True, eq=False)
class Scan(Op):
    """destination[..., k, ...] = fold of source[..., 0..k, ...] along `dim` (k..end when reverse); may be in place."""

    kind: Literal["sum", "max"]
    source: Region
    destination: Region
    dim: int = 0
    reverse: bool = False

    @property
    def reads(self) -> tuple[Region, ...]:
        return (self.source,)

    @property
    def writes(self) -> tuple[Region, ...]:
        return (self.destination,)
