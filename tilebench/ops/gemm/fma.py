"""A gemm of one multiply-add at a time: each thread has a tile of registers, operands come from shared memory.

For dtypes that tensor cores do not multiply exactly (float32, float64) and for shapes that they do not have. Any layout of C made of
digits will do; the thread's rows are those of its register digits along M, its columns those along N.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tilebench.ir.dtype import float32
from tilebench.ir.expr import Expr, Var, binary, cast, const
from tilebench.layouts import Digit, FragmentLayout
from tilebench.ops.base import ThreadBuilder

if TYPE_CHECKING:
    from tilebench.ops.gemm.spec import Gemm

TILE = 8
"""Rows and columns of a thread's tile at most."""


def accumulator_layout(m: int, n: int, threads: int) -> FragmentLayout:
    """C (m, n) with about square tiles for each thread: groups of up to 4 neighbours along N, spread over the block."""
    vector = next(v for v in (4, 2, 1) if n % v == 0)
    across = _threads_along_n(m, n // vector, vector, threads)
    down = threads // across
    rows = -(-m // down)
    groups = -(-n // (vector * across))
    reg = (Digit(vector, 1, 1), Digit(groups, 1, vector * across), Digit(rows, 0, down))
    return FragmentLayout(
        (m, n), tuple(d for d in reg if d.size > 1), tuple(d for d in (Digit(across, 1, vector), Digit(down, 0, 1)) if d.size > 1)
    )


def _threads_along_n(m: int, groups: int, vector: int, threads: int) -> int:
    """How many threads go along N: fewest registers, then fewest operands to read for a step of K."""

    def cost(t: int) -> tuple[int, int]:
        rows, columns = -(-m // (threads // t)), vector * -(-groups // t)
        return rows * columns, rows + columns

    return min((t for t in range(1, threads + 1) if threads % t == 0), key=cost)
