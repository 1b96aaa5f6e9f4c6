"""`TensorCoreIntrinEmitter`: ldmatrix_a, ldmatrix_b, mma and stmatrix, thread by thread, on every target.

A thread keeps the sums that the tensor core would give it. It loads the rows of A and the columns of B
that they need, and multiplies them itself: the result is the instruction's, the speed is that of plain
multiplications. `T.gemm` uses the tensor cores.
"""

from __future__ import annotations

from typing import Any

import tilebench.language as language
from tilebench.errors import TypeTileError
from tilebench.ir.expr import const
from tilebench.ir.tile import Buffer
from tilebench.language.dtypes import dtype as as_scalar
from tilebench.language.markers import Deferred

T: Any = language  # the macros below are programs of the language, not Python
TILE = 16
"""Rows and columns of a step; a thread has 8 of its 256 sums: 2 rows, 4 columns."""


class TensorCoreIntrinEmitter:
    """One block's share of C += A @ B: block_row_warps x block_col_warps warps with warp_row_tiles rows and
    warp_col_tiles columns each, `chunk` elements deep.

    a_transposed: A is [K, M] and not [M, K]; b_transposed: B is [N, K] and not [K, N].
    """

    def __init__(
        self,
        a_dtype: Any = "float16",
        b_dtype: Any = "float16",
        accum_dtype: Any = "float16",
        a_transposed: bool = False,
        b_transposed: bool = False,
        block_row_warps: int = 2,
        block_col_warps: int = 2,
        warp_row_tiles: int = 8,
        warp_col_tiles: int = 8,
        chunk: int = 16,
        **accepted: Any,
    ) -> None:
        unknown = set(accepted) - {"reduce_k", "num_elems_per_byte", "is_m_first", "thread_var"}
        if unknown or accepted.get("reduce_k", 1) != 1 or accepted.get("num_elems_per_byte", 1) != 1:
            raise TypeTileError(
                "TB209",
                f"TensorCoreIntrinEmitter: {accepted}",
                why="that form of the product is not offered",
                fix="use T.gemm",
            )
        self.a_dtype, self.b_dtype = as_scalar(a_dtype), as_scalar(b_dtype)
        self.accum_dtype = as_scalar(accum_dtype)
        self.a_transposed, self.b_transposed = a_transposed, b_transposed
        self.row_warps, self.col_warps = block_row_warps, block_col_warps
        self.rows, self.columns = warp_row_tiles // TILE, warp_col_tiles // TILE
        self.depth = 32 if self.a_dtype.bits == 8 else TILE
        self._held: dict[int, Buffer] = {}

    def held(self, local: Buffer, count: int) -> Any:
        """The operands that a thread has loaded in place of its share of an instruction's registers."""

        def run(walker: Any, at: Any) -> Buffer:
            if local.id not in self._held:
                made = Buffer("", (const(count),), local.dtype, "local")
                self._held[local.id] = walker.declare(made, f"{local.name}_rows", at)
            return self._held[local.id]

        return Deferred(run)

    @T.macro
    def ldmatrix_a(self, A_local: Any, A_shared: Any, ki: Any, rk: Any = 0) -> Any:
        """The thread's rows of A at step ki: two of each 16."""
        rows = self.held(A_local, self.rows * 2 * self.depth)
        thread = T.get_thread_binding(0)
        first = thread // 32 % self.row_warps * self.rows * TILE + thread % 32 // 4
        for i, r, k in T.grid(self.rows, 2, self.depth):
            row, column = first + i * TILE + r * 8, (rk + ki) * self.depth + k
            if self.a_transposed:
                rows[(i * 2 + r) * self.depth + k] = A_shared[column, row]
            else:
                rows[(i * 2 + r) * self.depth + k] = A_shared[row, column]

    @T.macro
    def ldmatrix_b(self, B_local: Any, B_shared: Any, ki: Any, rk: Any = 0) -> Any:
        """The thread's columns of B at step ki: four of each 16."""
        columns = self.held(B_local, self.columns * 4 * self.depth)
        thread = T.get_thread_binding(0)
        first = thread // 32 // self.row_warps % self.col_warps * self.columns * TILE + thread % 4 * 2
        for j, c, k in T.grid(self.columns, 4, self.depth):
            column, row = first + j * TILE + c // 2 * 8 + c % 2, (rk + ki) * self.depth + k
            if self.b_transposed:
                columns[(j * 4 + c) * self.depth + k] = B_shared[column, row]
            else:
                columns[(j * 4 + c) * self.depth + k] = B_shared[row, column]

    @T.macro
    def mma(self, A_local: Any, B_local: Any, C_local: Any, k_inner: Any = 0) -> Any:
        """C_local += the product of what was loaded."""
        rows = self.held(A_local, self.rows * 2 * self.depth)
        columns = self.held(B_local, self.columns * 4 * self.depth)
        for i, j in T.grid(self.rows, self.columns):
            for r, c in T.grid(2, 4):
                place = (i * self.columns + j) * 8 + c // 2 * 4 + r * 2 + c % 2
                for k in T.serial(self.depth):
                    C_local[place] += T.cast(rows[(i * 2 + r) * self.depth + k], self.accum_dtype) * T.cast(
                        columns[(j * 4 + c) * self.depth + k], self.accum_dtype
                    )

    @T.macro
    def stmatrix(self, C_local: Any, C_buf: Any, pid_m: Any = None, pid_n: Any = None) -> Any:
        """C_local to C_buf: [rows / 16, columns / 16, 16, 16] of the block, or rows and columns of a tensor
        from block (pid_m, pid_n).
        """
        thread = T.get_thread_binding(0)
        warp_row = thread // 32 % self.row_warps * self.rows
        warp_column = thread // 32 // self.row_warps % self.col_warps * self.columns
        for i, j in T.grid(self.rows, self.columns):
            for r, c in T.grid(2, 4):
                value = C_local[(i * self.columns + j) * 8 + c // 2 * 4 + r * 2 + c % 2]
                row, column = thread % 32 // 4 + r * 8, thread % 4 * 2 + c // 2 * 8 + c % 2
                if pid_m is None:
                    C_buf[warp_row + i, warp_column + j, row, column] = value
                else:
                    C_buf[
                        (pid_m * self.row_warps * self.rows + warp_row + i) * TILE + row,
                        (pid_n * self.col_warps * self.columns + warp_column + j) * TILE + column,
                    ] = value
