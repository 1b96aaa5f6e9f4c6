"""`T.copy`: a tile moved between any two scopes, with dtype conversion, zero fill outside, and clipped stores."""

from __future__ import annotations

from dataclasses import dataclass

from tilebench.ir.tile import Region
from tilebench.ops.base import Op, register


@register
@dataclass(frozen=True, eq=False)
class Copy(Op):
    """destination[...] = source[...], equal tile shapes after dropping unit dims; elements outside a global source read as 0.

    coalesced_width: elements a thread moves at once, as the user asked; asynchronous: T.async_copy (no wait);
    prefer: 'tma' | 'cp_async' | 'sync' | None.
    """

    source: Region
    destination: Region
    coalesced_width: int | None = None
    disable_tma: bool = False
    asynchronous: bool = False
    prefer: str | None = None

    @property
    def reads(self) -> tuple[Region, ...]:
        return (self.source,)

    @property
    def writes(self) -> tuple[Region, ...]:
        return (self.destination,)
