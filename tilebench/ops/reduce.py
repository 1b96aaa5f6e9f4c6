"""`T.reduce_*`, `T.any_of`, `T.all_of`: one dimension of a tile folded away."""

from __future__ import annotations

from dataclasses import dataclass

from tilebench.ir.tile import Region
from tilebench.ops.base import Op, ReduceKind, register


@register
@dataclass(frozen=True, eq=False)
class Reduce(Op):
    """destination = fold of source along `dim` (of source.shape); not `clear`: folded into destination's old value.

    destination.shape is source.shape without `dim`, or with extent 1 there. kinds any/all take booleans.
    nan_propagate: max and min give NaN when an element is NaN (else NaN is passed over).
    """

    kind: ReduceKind
    source: Region
    destination: Region
    dim: int
    clear: bool = True
    nan_propagate: bool = False

    @property
    def reads(self) -> tuple[Region, ...]:
        return (self.source,) if self.clear else (self.source, self.destination)

    @property
    def writes(self) -> tuple[Region, ...]:
        return (self.destination,)
