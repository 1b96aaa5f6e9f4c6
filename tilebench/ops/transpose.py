"""`T.transpose`: a 2-D tile written with its axes exchanged."""

from __future__ import annotations

from dataclasses import dataclass

from tilebench.ir.tile import Region
from tilebench.ops.base import Op, register


@register
@dataclass(frozen=True, eq=False)
class Transpose(Op):
    """destination[j, i] = source[i, j]."""

    source: Region
    destination: Region

    @property
    def reads(self) -> tuple[Region, ...]:
        return (self.source,)

    @property
    def writes(self) -> tuple[Region, ...]:
        return (self.destination,)
