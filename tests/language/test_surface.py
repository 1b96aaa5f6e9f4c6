"""Forms of programs: declared tensors, launches in macros, conditions over global slices, one block."""

from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench import config
from tilebench.errors import TypeTileError


def test_a_program_whose_launch_is_in_a_macro_is_not_a_factory() -> None:
    @T.macro
    def double(A: Any) -> Any:
        (n,) = A.shape
        B = T.empty((n,), dtype=A.dtype)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * 2.0
        return B

    @tilebench.jit(target="interp")
    def program(A: Any) -> Any:
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        return double(A)

    a = np.arange(5, dtype="float32")
    np.testing.assert_array_equal(program(a), a * 2)


def test_declared_tensors_need_no_call_to_compile() -> None:
    @tilebench.jit(target="interp")
    def program(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(threads=16):
            T.copy(A, B)

    kernel = program.compile()
    a, b = np.arange(16, dtype="float32"), np.empty(16, "float32")
    kernel(a, b)
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_any_of_and_all_of_read_global_slices(target: str) -> None:
    @T.prim_func
    def kernel(M: T.Tensor((4, 3), "bool"), B: T.Tensor((4, 2), "int32")):
        with T.Kernel(4, threads=32) as bx:
            B[bx, 0] = 0
            B[bx, 1] = 0
            if T.any_of(M[bx, :]):
                B[bx, 0] = 1
            if T.all_of(M[bx, :]):
                B[bx, 1] = 1

    m = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 1], [1, 0, 1]], bool)
    b = np.empty((4, 2), "int32")
    tilebench.compile(kernel, target=target)(m, b)
    np.testing.assert_array_equal(b, np.stack([m.any(1), m.all(1)], 1))


def test_a_cuda_kernel_runs_on_the_target_that_the_configuration_names() -> None:
    from tilebench.kernel.target import gpu_arch

    if gpu_arch() is not None:
        pytest.skip("there is a GPU")
    torch = pytest.importorskip("torch")

    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = A[i] + 1.0

    made = tilebench.compile(kernel, target="cuda")
    assert "__global__" in made.get_kernel_source()
    a, b = torch.arange(8.0), torch.empty(8)
    with config.using(target="cpu"), pytest.warns(UserWarning, match="without a GPU it runs on cpu"):
        made(a, b)
    assert torch.equal(b, a + 1)


def test_a_view_of_another_size_is_refused() -> None:
    with pytest.raises(AssertionError) as found:

        @T.prim_func
        def kernel(B: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                a = T.alloc_shared((8,), "float32")
                b = T.view(a, (9,))
                T.copy(b, B)

    assert isinstance(found.value, TypeTileError)


def test_a_pointer_gets_its_shape_in_the_program() -> None:
    @tilebench.jit(target="interp")
    def program(A: T.ptr, B: T.ptr, n: int, dtype: T.dtype):
        A = T.make_tensor(A, (n,), dtype)
        B = T.make_tensor(B, (n,), dtype)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * 2.0

    a, b = np.arange(6, dtype="float32"), np.empty(6, "float32")
    program(a, b, 6, T.float32)
    np.testing.assert_array_equal(b, a * 2)
    assert len(program.par_compile([{"A": T.ptr(), "B": T.ptr(), "n": 4, "dtype": T.float32}])) == 1


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_parallel_loops_directly_inside_each_other_are_one(target: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(16):
                for j in T.Parallel(8):
                    for k in T.Parallel(2):
                        B[i * 16 + j * 2 + k] = A[i * 16 + j * 2 + k] + 1.0

    a, b = np.arange(256, dtype="float32"), np.empty(256, "float32")
    tilebench.compile(kernel, target=target)(a, b)
    np.testing.assert_array_equal(b, a + 1)


def test_parallel_loops_with_more_between_them_are_refused() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(8):
                A[i] = 0.0
                for j in T.Parallel(8):
                    A[i * 8 + j] = 1.0

    with pytest.raises(ValueError, match="inside T"):
        tilebench.compile(kernel, target="interp")
