"""PrimFunc.script(): the program in its own language, which is the program again when it is read."""

from __future__ import annotations

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench.kernel.program import define


def product():
    rows = T.dynamic("rows")

    @T.prim_func
    def product(
        A: T.Tensor((rows, 64), "float16"),
        B: T.Tensor((96, 64), "float16"),
        C: T.Tensor((rows, 96), "float32"),
        scale: T.float32,
    ):
        with T.Kernel(3, T.ceildiv(rows, 32), threads=64) as (bx, by):
            T.use_swizzle(4)
            a = T.alloc_shared((32, 16), "float16")
            b = T.alloc_shared((32, 16), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            top = T.alloc_fragment((32,), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[by * 32, k * 16], a)
                T.copy(B[bx * 32, k * 16], b)
                T.gemm(a, b, c, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            T.reduce_max(c, top, dim=1)
            for i, j in T.Parallel(32, 32):
                c[i, j] = T.if_then_else(i < j, c[i, j] * scale - top[i], -T.infinity("float32"))
            T.copy(c, C[by * 32, bx * 32])

    return product


def counting():
    @T.prim_func
    def counting(A: T.StridedTensor((8, 64), (128, 1), "int32"), N: T.Tensor((8,), "int32")):
        with T.Kernel(8, threads=32) as b:
            rest = T.alloc_var("int32")
            sums = T.alloc_shared((64,), "int32")
            T.copy(A[b, 0:64], sums)
            T.cumsum(sums, reverse=True)
            rest = sums[0]
            while rest > 3:
                rest = rest // 2
                if rest % 5 == 1 and not rest > 100:
                    break
            tx = T.get_thread_binding()
            if tx == 0:
                T.atomic_add(N[b], rest)
        with T.Kernel(1, threads=32):
            for i in T.serial(0, 8, 2):
                N[i] = T.max(N[i], 1) << 2

    return counting


PRODUCT = """\
rows = T.dynamic("rows")
@T.prim_func
def product(A: T.Tensor((rows, 64), "float16"), B: T.Tensor((96, 64), "float16"), \
C: T.Tensor((rows, 96), "float32"), scale: T.float32):
    with T.Kernel(3, (rows + 31) // 32, threads=64) as (bx, by):
        a = T.alloc_shared((32, 16), "float16")
        b = T.alloc_shared((32, 16), "float16")
        c = T.alloc_fragment((32, 32), "float32")
        top = T.alloc_fragment((32,), "float32")
        T.use_swizzle(4)
        T.clear(c)
        for k in T.Pipelined(4, num_stages=2):
            T.copy(A[by * 32 : by * 32 + 32, k * 16 : k * 16 + 16], a)
            T.copy(B[bx * 32 : bx * 32 + 32, k * 16 : k * 16 + 16], b)
            T.gemm(a, b, c, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
        T.reduce_max(c, top, dim=1)
        for i, j in T.Parallel(32, 32):
            c[i, j] = T.if_then_else(i < j, c[i, j] * scale - top[i], -T.infinity("float32"))
        T.copy(c, C[by * 32 : by * 32 + 32, bx * 32 : bx * 32 + 32])"""


def test_the_text_says_what_the_program_says() -> None:
    assert product().script() == PRODUCT


@pytest.mark.parametrize("make", [product, counting])
def test_the_text_read_again_gives_the_same_text(make) -> None:
    text = make().script()
    again, _ = define(text)
    assert again.script() == text


def test_the_text_read_again_computes_the_same() -> None:
    again, _ = define(counting().script())
    a = np.random.default_rng(0).integers(-9, 99, (8, 128)).astype(np.int32)[:, :64]
    results = []
    for program in (counting(), again):
        n = np.arange(8, dtype=np.int32)
        tilebench.compile(program, target="interp")(a, n)
        results.append(n)
    assert (results[0] == results[1]).all()
    assert (results[0] > 0).all()


def test_annotations_stand_on_the_line_of_their_op() -> None:
    @T.prim_func
    def annotated(A: T.Tensor((32, 8), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_fragment((32, 8), "float32")
            b = T.alloc_fragment((32,), "float32")
            T.copy(A, a, annotations={"owner": "loader", "my.rank": 3})
            T.reduce_sum(a, b, annotations={"owner": "folder"})
            T.copy(b, B)

    lines = [line.strip() for line in annotated.script().splitlines()]
    assert 'T.copy(A, a, owner="loader", my.rank=3)' in lines
    assert 'T.reduce_sum(a, b, dim=1, owner="folder")' in lines
    assert "T.copy(b, B)" in lines


def test_annotations_change_no_result() -> None:
    def doubled(notes):
        @T.prim_func
        def doubled(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=32):
                a = T.alloc_shared((64,), "float32")
                T.copy(A, a, annotations=notes)
                T.cumsum(a, annotations=notes)
                T.copy(a, B)

        return doubled

    plain, noted = (tilebench.compile(doubled(n), target="cuda:sm_80") for n in (None, {"a": 1}))
    assert plain.get_kernel_source() == noted.get_kernel_source()
    a = np.arange(64, dtype=np.float32)
    b = np.zeros_like(a)
    tilebench.compile(doubled({"a": 1}), target="cpu")(a, b)
    assert (b == np.cumsum(a)).all()
