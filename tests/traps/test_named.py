"""Small traps of the language, each by name: what TileLang's programs do that is easy to get wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tilebench
import tilebench.language as T
from tests.traps.running import TARGETS, check, numbers, refused
from tilebench.errors import TileError


def test_layouts_of_global_tensors_and_scopes_by_position() -> None:
    """annotate_layout names a tensor in global memory (it says how atomics are spread, and changes no value);
    the memory of alloc_shared is its third argument."""

    @T.prim_func
    def program(A: T.Tensor((6, 64), "float32"), B: T.Tensor((6, 64), "float32")):
        with T.Kernel(1, threads=96) as (only):
            T.annotate_layout({B: T.Layout((6, 64), lambda i, j: (i, j // 8, j % 8))})
            S = T.alloc_shared((6, 64), "float32", "shared")
            D = T.alloc_shared((6, 64), "float32", scope="shared.dyn")
            T.copy(A, S)
            T.copy(S, D)
            for i, j in T.Parallel(6, 64):
                T.atomic_add(B[i, j], D[i, j] + only)

    a = numbers(6, 64)
    check(program, [a], a + 1, start=[np.ones_like(a)])


def test_what_is_read_outside_is_nothing_or_the_safe_value() -> None:
    @T.prim_func
    def program(A: T.Tensor((5, 7), "float32"), B: T.Tensor((3, 8, 16), "float32")):
        with T.Kernel(1, threads=96):
            X = T.alloc_fragment((8, 16), "float32")
            S = T.alloc_shared((8, 16), "float32")
            T.copy(A[0, 0], S)
            T.copy(S, B[0, :, :])
            T.copy(A[3, 2], X)
            T.copy(X, B[1, :, :])
            for i, j in T.Parallel(8, 16):
                X[i, j] = T.if_then_else(i >= 2 and j >= 3 and i < 7 and j < 10, A[i - 2, j - 3], 0.0)
            T.copy(X, B[2, :, :])

    @T.prim_func
    def safe(A: T.Tensor((5, 7), "float32"), B: T.Tensor((8, 16), "float32")):
        with T.Kernel(1, threads=96):
            T.annotate_safe_value({A: 9.0})
            X = T.alloc_fragment((8, 16), "float32")
            T.copy(A[3, 2], X)
            T.copy(X, B)

    a = numbers(5, 7)
    want = np.zeros((3, 8, 16), np.float32)
    want[0, :5, :7] = a
    want[1, :2, :5] = a[3:, 2:]
    want[2, 2:7, 3:10] = a
    check(program, [a], want)
    check(safe, [a], np.where(np.pad(np.ones((2, 5)), ((0, 6), (0, 11))) > 0, want[1], 9).astype(np.float32))


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32", "int8"])
def test_the_largest_values_of_a_buffers_type(dtype: str) -> None:
    is_float = dtype.startswith("float")

    @T.prim_func
    def program(A: T.Tensor((10,), dtype), B: T.Tensor((3,), dtype)):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((10,), dtype)
            m = T.alloc_fragment((1,), dtype)
            T.copy(A, x)
            if is_float:
                T.fill(m, -T.infinity(m.dtype))
            else:
                T.fill(m, T.min_value(m.dtype))
            T.reduce_max(x, m, dim=0, clear=False)
            B[0] = m[0]
            B[1] = T.max_value(B.dtype)
            B[2] = T.min_value(B.dtype)

    limits: Any = np.finfo(dtype) if is_float else np.iinfo(dtype)
    a = numbers(10, dtype=dtype) - 4
    check(program, [a], np.array([a.max(), limits.max, limits.min], dtype))


def test_a_product_and_a_difference_are_one_rounding_where_asked() -> None:
    """exp2(x * c - m * c): T.fma rounds once, and whole numbers are exact either way."""

    @T.prim_func
    def program(A: T.Tensor((64,), "float32"), B: T.Tensor((2, 64), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[0, i] = T.fma(A[i], A[i], -1.0)
                B[1, i] = T.exp2(T.cast(i - 40, "float32") * 2.0 - T.cast(i, "float32") * 2.0)

    a = (1 + np.arange(1, 65) * 2.0**-13).astype(np.float32)
    wide = a.astype(np.float64)
    check(program, [a], np.stack([(wide * wide - 1).astype(np.float32), np.full(64, 2.0**-80, np.float32)]))


def test_sizes_that_come_as_torch_gives_them_and_are_divided() -> None:
    shape = torch.zeros(6, 10).shape
    per_byte = 2

    @T.prim_func
    def program(A: T.Tensor(shape, "uint8"), B: T.Tensor([shape[0], shape[1] * per_byte], "int32")):
        with T.Kernel(shape[0], threads=32) as (row):
            for j in T.Parallel(shape[-1] * per_byte):
                byte = T.cast(A[row, j // per_byte], "int32")
                B[row, j] = (byte >> (j % per_byte * 4)) & 15

    a = np.arange(60, dtype=np.uint8).reshape(6, 10) * 4
    want = np.stack([a & 15, a >> 4], -1).reshape(6, 20).astype(np.int32)
    check(program, [a], want)


def test_negative_indices_count_from_the_end() -> None:
    @T.prim_func
    def program(A: T.Tensor((5, 33), "int32"), B: T.Tensor((4, 33), "int32")):
        with T.Kernel(1, threads=96):
            S = T.alloc_shared((5, 33), "int32")
            x = T.alloc_fragment((33,), "int32")
            T.copy(A, S)
            T.copy(S[-1, :], x)
            T.copy(x, B[-1, :])
            T.copy(A[-2, :], B[0, :])
            for j in T.Parallel(33):
                B[1, j] = S[-5, j]
                B[-2, j] = S[2, -1]

    a = numbers(5, 33, dtype=np.int32)
    check(program, [a], np.stack([a[-2], a[0], np.full(33, a[2, -1], np.int32), a[-1]]))


def test_indices_that_are_always_negative_count_from_the_end() -> None:
    rows = T.dynamic("rows")

    @T.prim_func
    def program(A: T.Tensor((rows, 33), "int32"), At: T.Tensor((7,), "int32"), B: T.Tensor((4, 33), "int32")):
        with T.Kernel(1, threads=96):
            S = T.alloc_shared((4, 33), "int32")
            for i, j in T.Parallel(4, 33):
                S[i - 4, -j - 1] = A[-i - 1, j]
            for i, j in T.Parallel(4, 33):
                B[-1 - i, j] = S[i, j] + A[At[i - 7] - 0, j]
            for j in T.Parallel(33):
                B[0, j - 33] += 1000

    a, at = numbers(6, 33, dtype=np.int32), np.array([3, 1, 2, 0, 5, 5, 5], np.int32)
    want = (a[::-1][:4, ::-1] + a[at[:4]])[::-1].copy()
    want[0] += 1000
    check(program, [a, at], want)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_loops_with_bounds_known_at_run_time_and_steps_down(n: int) -> None:
    @T.prim_func
    def program(B: T.Tensor((4,), "int32"), n: T.int32):
        with T.Kernel(1, threads=32):
            s = T.alloc_var("int32", 0)
            d = T.alloc_var("int32", init=0)
            for i in range(n):
                s = s * 3 + i
            for i in range(n + 2, 0, -2):
                d = d * 10 + i
            B[0] = s
            B[1] = d
            for i in range(3, -1, -3):
                B[2 + i // 3] = i

    s = d = 0
    for i in range(n):
        s = s * 3 + i
    for i in range(n + 2, 0, -2):
        d = d * 10 + i
    check(program, [], np.array([s, d, 0, 3], np.int32), numbers=[n])


def test_comparisons_in_a_row_swaps_and_chains() -> None:
    @T.prim_func
    def program(A: T.Tensor((32,), "int32"), B: T.Tensor((5, 32), "int32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((32,), "int32")
            T.copy(A, x)
            for i in T.Parallel(32):
                x[i] = B[3, i] = x[i] * 2 + 1
                B[4, i] = x[i]
            for i in T.Parallel(32):
                a = T.alloc_var("int32")
                b = T.alloc_var("int32")
                a = A[i]
                b = i
                a, b = b, a
                B[0, i] = a * 100 + b
                a = b = 7
                B[1, i] = a + b
                B[2, i] = 1 if 3 < i <= 9 else (2 if i == 20 or (i == 21 and not i < 5) else 0)

    a = numbers(32, dtype=np.int32)
    i = np.arange(32)
    third = np.where((i > 3) & (i <= 9), 1, np.where((i == 20) | (i == 21), 2, 0))
    check(
        program, [a], np.stack([i * 100 + a, np.full(32, 14), third, a * 2 + 1, a * 2 + 1]).astype(np.int32)
    )


def test_functions_say_what_they_compile_to_before_they_are_called() -> None:
    @tilebench.jit(target="interp")
    def doubled(A):  # type: ignore[no-untyped-def]
        M, N = T.const("M, N")
        A: T.Tensor[[M, N], T.float32]
        B = T.empty((M, N), T.float32)
        with T.Kernel(M, threads=32) as row:
            for j in T.Parallel(N):
                B[row, j] = A[row, j] * 2
        return B

    kernel = doubled.compile(M=3, N=5)
    assert [p.value.static_shape for p in kernel.params] == [(3, 5), (3, 5)]
    assert doubled.get_kernel_source(M=3, N=5)
    profiler = kernel.get_profiler()
    profiler.assert_allclose(lambda a: a * 2)
    x = torch.ones(3, 5)
    assert torch.equal(doubled(x), x * 2)


def test_tuned_functions_compile_with_their_tunables_given() -> None:
    @tilebench.autotune(configs=[{"threads": 32}, {"threads": 96}])
    @tilebench.jit(target="interp", out_idx=[-1])
    def factory(n: int, threads: int = 64) -> Any:
        @T.prim_func
        def program(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=threads):
                T.copy(A, B)

        return program

    kernel = factory.compile(10, threads=96)
    x = torch.arange(10.0)
    assert torch.equal(kernel(x), x)


def test_newer_and_older_keywords_are_taken() -> None:
    @T.prim_func
    def program(
        A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 32), "float16"), C: T.Tensor((64, 32), "float32")
    ):
        with T.Kernel(1, threads=128, prelude=None):
            A_s = T.alloc_shared((64, 32), "float16")
            B_s = T.alloc_shared((32, 32), "float16")
            acc = T.alloc_fragment((64, 32), "float32")
            T.clear(acc)
            for _ in T.Pipelined(1, num_stages=2, sync=[], group=[]):
                T.copy(A, A_s, coalesced_width=8, disable_tma=True)
                T.copy(B, B_s, eviction_policy="evict_first")
                T.gemm(A_s, B_s, acc, k_pack=1, policy=T.GemmWarpPolicy.FullRow)
            T.copy(acc, C)

    a, b = numbers(64, 32, dtype=np.float16), numbers(32, 32, dtype=np.float16, seed=1)
    check(program, [a, b], a.astype(np.float32) @ b.astype(np.float32))


def test_keywords_of_persistent_loops_and_views() -> None:
    @T.prim_func
    def program(A: T.Tensor((6, 8), "int32"), B: T.Tensor((6, 8), "int32")):
        with T.Kernel(2, threads=32, cluster_dims=(1, 1, 1)) as b:
            S = T.alloc_shared((48,), "int32")
            V = T.view(S, (6, 8), strides=(8, 1))
            T.copy(A, V)
            for i, _ in T.Persistent([6, 1], 2, b, num_stages=2, annotations={}):
                for j in T.Parallel(8):
                    B[i, j] = S[i * 8 + 7 - j]

    a = numbers(6, 8, dtype=np.int32)
    check(program, [a], a[:, ::-1].copy())


# ------------------------------------------------------------------------------------------ what is refused


def a_loop_with_else() -> Any:
    @T.prim_func
    def program(B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in range(B[0]):
                B[1] = i
            else:
                B[2] = 1  # HERE

    return program


def an_attribute_that_is_set() -> Any:
    class Holder:
        value = 0

    holder = Holder()

    @T.prim_func
    def program(B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            holder.value = B[0]  # HERE

    return program


def a_buffer_that_is_added_to() -> Any:
    @T.prim_func
    def program(B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((4,), "int32")
            x += 1  # HERE
            T.copy(x, B)

    return program


def a_slice_with_a_step() -> Any:
    @T.prim_func
    def program(A: T.Tensor((8,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            T.copy(A[0:8:2], B)  # HERE

    return program


def a_macro_that_returns_from_a_branch() -> Any:
    @T.macro
    def pick(x: Any):
        if x > 0:
            return x  # HERE
        return 0

    @T.prim_func
    def program(B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            B[1] = pick(B[0])

    return program


def a_name_after_its_loop() -> Any:
    @T.prim_func
    def program(B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in range(B[0]):
                last = i * 2
            B[1] = last  # HERE

    return program


def a_name_that_is_not_there() -> Any:
    @T.prim_func
    def program(B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            B[0] = T.dyn["n"]  # HERE

    return program


def two_conditions_for_all_of() -> Any:
    @T.prim_func
    def program(B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            if T.all_of(B[0] > 0, B[1] > 0):  # HERE
                B[2] = 1

    return program


def a_view_with_columns_first() -> Any:
    @T.prim_func
    def program(B: T.Tensor((4, 4), "int32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((16,), "int32")
            T.clear(S)
            T.copy(T.view(S, (4, 4), strides=(1, 4)), B)  # HERE

    return program


def blocks_in_clusters() -> Any:
    @T.prim_func
    def program(B: T.Tensor((4,), "int32")):
        with T.Kernel(2, threads=32, cluster_dims=2):  # HERE
            T.fill(B, 1)

    return program


def an_element_that_may_be_outside() -> Any:
    @T.prim_func
    def program(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = A[i - 1]  # HERE

    return program


def an_index_that_is_out_from_the_start() -> Any:
    @T.prim_func
    def program(B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            B[-5] = 1  # HERE

    return program


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (a_loop_with_else, "TB102"),
        (an_attribute_that_is_set, "TB102"),
        (a_buffer_that_is_added_to, "TB202"),
        (a_slice_with_a_step, "TB219"),
        (a_macro_that_returns_from_a_branch, "TB104"),
        (a_name_after_its_loop, "TB105"),
        (a_name_that_is_not_there, "TB121"),
        (two_conditions_for_all_of, "TB211"),
        (an_element_that_may_be_outside, "TB260"),
        (a_view_with_columns_first, "TB209"),
        (blocks_in_clusters, "TB535"),
        (an_index_that_is_out_from_the_start, "TB218"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_what_has_no_meaning_is_refused_where_it_stands(make: Any, code: str) -> None:
    for target in TARGETS:
        refused(make, code, "HERE", target)


def test_a_kernel_without_threads_is_refused() -> None:
    def make() -> Any:
        @T.prim_func
        def program(B: T.Tensor((4,), "int32")):
            with T.Kernel(1, threads=0):
                B[0] = 1

        return program

    with pytest.raises(TileError) as caught:
        tilebench.compile(make(), target="interp")
    assert caught.value.code == "TB531"
