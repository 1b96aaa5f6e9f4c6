"""`T.gemm`: C += A @ B on tiles."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tilebench.ir.tile import Region
from tilebench.ops.base import Op, register


class GemmWarpPolicy(Enum):
    """How the warps split M x N: Square balances, FullRow puts all along M, FullCol all along N."""

    Square = 0
    FullRow = 1
    FullCol = 2


@register
@dataclass(frozen=True, eq=False)
class Gemm(Op):
    """c[M, N] += op(a) @ op(b), accumulated in c's dtype; clear_accum: c = op(a) @ op(b).

    a is [M, K] ([K, M] when transpose_a), b is [K, N] ([N, K] when transpose_b), each shared or fragment; c is a fragment.
    """

    a: Region
    b: Region
    c: Region
    transpose_a: bool = False
    transpose_b: bool = False
    policy: GemmWarpPolicy = GemmWarpPolicy.Square
    clear_accum: bool = False

    @property
    def reads(self) -> tuple[Region, ...]:
        return (self.a, self.b) if self.clear_accum else (self.a, self.b, self.c)

    @property
    def writes(self) -> tuple[Region, ...]:
        return (self.c,)

    @property
    def mnk(self) -> tuple[int, int, int]:
        """(M, N, K) of this product."""
        m, k = self.a.shape[-2:][:: -1 if self.transpose_a else 1]
        return m, self.c.shape[-1], k
