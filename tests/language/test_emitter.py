"""The product of a warp's tiles spelled instruction by instruction."""

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench.cuda.intrinsics import get_swizzle_layout
from tilebench.cuda.intrinsics.macro.mma_macro_generator import TensorCoreIntrinEmitter


@pytest.mark.parametrize("target", ["interp", "cpu"])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_emitted_product_is_the_product(transposed: bool, target: str) -> None:
    m, n, depth = 64, 64, 32
    emitter = TensorCoreIntrinEmitter(
        "float16", "float16", "float32", transposed, not transposed, 2, 2, 32, 32, 32
    )
    a_shape, b_shape = ((depth, m), (depth, n)) if transposed else ((m, depth), (n, depth))

    @T.prim_func
    def kernel(
        A: T.Tensor(a_shape, "float16"), B: T.Tensor(b_shape, "float16"), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared(a_shape, "float16"), T.alloc_shared(b_shape, "float16")
            tiles = T.alloc_shared((m // 16, n // 16, 16, 16), "float32")
            a_local, b_local = T.alloc_local(16, "float16"), T.alloc_local(16, "float16")
            sums = T.alloc_local(32, "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(sums)
            for ki in T.serial(depth // 16):
                emitter.ldmatrix_a(a_local, a, ki)
                emitter.ldmatrix_b(b_local, b, ki)
                emitter.mma(a_local, b_local, sums)
            emitter.stmatrix(sums, tiles)
            for i, j in T.Parallel(m, n):
                C[i, j] = tiles[i // 16, j // 16, i % 16, j % 16]

    rng = np.random.default_rng(3)
    a, b = rng.standard_normal(a_shape).astype("float16"), rng.standard_normal(b_shape).astype("float16")
    c = np.empty((m, n), "float32")
    tilebench.compile(kernel, target=target)(a, b, c)
    wide = a.astype("float32"), b.astype("float32")
    np.testing.assert_allclose(c, wide[0].T @ wide[1] if transposed else wide[0] @ wide[1].T, atol=1e-4)


def test_the_swizzle_of_a_row_is_an_exchange_of_chunks() -> None:
    for row in range(16):
        places = [get_swizzle_layout(row, column, 32, "float16") for column in range(32)]
        assert sorted(c for _, c in places) == list(range(32))
        assert all(c % 8 == column % 8 for column, (_, c) in enumerate(places))
