"""Small kernels that use T.gemm: dtypes, transpositions, operands in fragments, odd sizes."""

from __future__ import annotations

from collections.abc import Callable

from tilebench.ir.tile import Kernel
from tilebench.ops.copy.spec import copy
from tilebench.ops.elementwise import clear
from tilebench.ops.examples import Draft
from tilebench.ops.gemm.spec import gemm


def product(
    M: int,
    N: int,
    K: int,
    dtype: str,
    accumulator: str,
    transpose_A: bool = False,
    transpose_B: bool = False,
    a_scope: str = "shared",
    clear_accum: bool = False,
    steps: int = 1,
) -> Callable[[], Kernel]:
    """A kernel of one block: C[M, N] = A @ B over `steps` tiles of K."""

    def build() -> Kernel:
        d = Draft(f"gemm_{dtype}_{M}x{N}x{K}")
        total = K * steps
        a = d.tensor("A", (total, M) if transpose_A else (M, total), dtype)
        b = d.tensor("B", (N, total) if transpose_B else (total, N), dtype)
        c = d.tensor("C", (M, N), accumulator, "out")
        a_shape = (K, M) if transpose_A else (M, K)
        a_tile = (
            d.shared("A_shared", a_shape, dtype)
            if a_scope == "shared"
            else d.fragment("A_local", a_shape, dtype)
        )
        b_tile = d.shared("B_shared", (N, K) if transpose_B else (K, N), dtype)
        c_tile = d.fragment("C_local", (M, N), accumulator)
        if not clear_accum:
            d.add(clear(c_tile))
        with d.serial(steps) as k:
            d.add(
                copy(a[k * K, 0] if transpose_A else a[0, k * K], a_tile),
                copy(b[0, k * K] if transpose_B else b[k * K, 0], b_tile),
                gemm(a_tile, b_tile, c_tile, transpose_A, transpose_B, clear_accum=clear_accum),
            )
        d.add(copy(c_tile, c))
        return d.kernel()

    build.__name__ = (
        f"{dtype}_{M}x{N}x{K}"
        + "_ta" * transpose_A
        + "_tb" * transpose_B
        + f"_{a_scope}"
        + "_clear" * clear_accum
    )
    return build


EXAMPLES = (
    product(64, 64, 32, "float16", "float32", steps=3),
    product(64, 32, 32, "bfloat16", "float32", transpose_B=True),
    product(32, 64, 16, "float16", "float32", transpose_A=True),
    product(32, 32, 48, "float16", "float16", transpose_A=True, transpose_B=True),
    product(64, 64, 64, "float16", "float32", a_scope="fragment", transpose_B=True),
    product(32, 40, 24, "float32", "float32", steps=2),
    product(16, 24, 64, "int8", "int32", transpose_B=True),
    product(16, 16, 32, "float8_e4m3", "float32", transpose_B=True),
    product(48, 16, 16, "float16", "float32", clear_accum=True),
)
