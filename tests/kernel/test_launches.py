"""Programs of several launches: what one writes, the next one reads."""

import numpy as np
import pytest
import torch

import tilebench
import tilebench.language as T
from tilebench.errors import LaunchError, SyntaxTileError
from tilebench.ir.launches import launches, separate

HOSTS = ["interp", "cpu", "emu:sm_80"]


def program(rows=64, columns=96, parts=3):
    """The sum of each row, in two launches: partial sums first."""

    @T.prim_func
    def sums(A: T.Tensor((rows, columns), "float32"), O: T.Tensor((rows,), "float32")):
        partial = T.alloc_global((rows, parts), "float32")
        with T.Kernel(rows // 16, parts, threads=64) as (bx, by):
            tile = T.alloc_fragment((16, columns // parts), "float32")
            total = T.alloc_fragment((16,), "float32")
            T.copy(A[bx * 16, by * (columns // parts)], tile)
            T.reduce_sum(tile, total, dim=1)
            T.copy(total, partial[bx * 16 : bx * 16 + 16, by])
        with T.Kernel(rows // 32, threads=32) as bx:
            tile = T.alloc_fragment((32, parts), "float32")
            total = T.alloc_fragment((32,), "float32")
            T.copy(partial[bx * 32, 0], tile)
            T.reduce_sum(tile, total, dim=1)
            T.copy(total, O[bx * 32 : bx * 32 + 32])

    return sums


def row_sums(target):
    return tilebench.compile(program(), out_idx=[1], target=target)


@pytest.mark.parametrize("target", HOSTS)
def test_a_later_launch_reads_what_the_one_before_wrote(target):
    kernel = row_sums(target)
    a = torch.randn(64, 96)
    for _ in range(3):  # the second call and later ones take the short path
        torch.testing.assert_close(kernel(a), a.sum(1), rtol=1e-5, atol=1e-5)
    out = torch.empty(64)
    kernel.bind(a, out)()
    torch.testing.assert_close(out, a.sum(1), rtol=1e-5, atol=1e-5)


def test_each_launch_has_its_grid_threads_and_tiles():
    first, second = launches(row_sums("interp").prim)
    assert [first.thread_count, second.thread_count] == [64, 32]
    assert [len(first.grid), len(second.grid)] == [2, 1]
    assert not {b for b in first.buffers if not b.workspace} & set(second.buffers)
    parts, shared = separate(first)
    assert [b.name for b in shared] == ["partial"]
    assert [p.name for p in parts[1].params] == ["A", "O", "partial"]
    assert all(p.then is None for p in parts)


def test_each_launch_is_a_kernel_by_itself():
    kernel = row_sums("interp")
    a = torch.randn(64, 96)
    first, second = kernel.parts
    out, partial = torch.empty(64), torch.empty(64, 3)
    first(a, out, partial)
    torch.testing.assert_close(partial, a.reshape(64, 3, 32).sum(2), rtol=1e-5, atol=1e-5)
    second(a, out, partial)
    torch.testing.assert_close(out, a.sum(1), rtol=1e-5, atol=1e-5)
    assert first.report() is not None
    assert first.parts == (first,)


@pytest.mark.parametrize("target", HOSTS)
def test_a_tensor_may_pass_values_on_too(target):
    @tilebench.jit(target=target)
    def twice(A):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        B = T.empty((N,), "float32")
        for _ in range(2):
            with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
                for i in T.Parallel(32):
                    if bx * 32 + i < N:
                        B[bx * 32 + i] = A[bx * 32 + i]
                        A[bx * 32 + i] = A[bx * 32 + i] + 1.0
        return B

    a = torch.arange(50, dtype=torch.float32)
    b = twice(a)
    assert torch.equal(b, torch.arange(50) + 1.0)
    assert torch.equal(a, torch.arange(50) + 2.0)


@pytest.mark.parametrize("check", ["static", "full"])
def test_the_interpreter_watches_every_launch(check):
    a = torch.randn(64, 96)
    result = tilebench.run(program(), args=(a, torch.empty(64)), target="interp", check=check)
    torch.testing.assert_close(result.outputs[0], a.sum(1), rtol=1e-5, atol=1e-5)


def test_roles_are_those_of_all_launches():
    kernel = row_sums("interp")
    assert [p.role for p in kernel.params] == ["in", "out"]


def test_the_oracle_evaluates_all_launches():
    a = torch.randn(64, 96)
    result = tilebench.run(program(), args=(a, torch.empty(64)), ref=lambda a: a.sum(1), target="cpu")
    assert {d.against for d in result.report.diffs} == {"oracle", "torch"}
    assert all(d.verdict == "pass" for d in result.report.diffs)
    assert any("2 launches" in f.text for f in result.report.findings)


def test_text_has_every_launch():
    assert row_sums("interp").get_source("tile").count("kernel sums") == 2
    for target in ("interp", "cpu", "cuda:sm_90a"):
        assert row_sums(target).get_kernel_source().count("__global__") == 2


def test_eager_functions_and_dynamic_extents():
    @tilebench.jit(target="cpu")
    def scaled_by_maximum(A, block: int):
        n = T.dynamic("n")
        A: T.Tensor((n,), "float32")
        most = T.alloc_global((T.ceildiv(n, block),), "float32")
        C = T.empty((n,), "float32")
        with T.Kernel(T.ceildiv(n, block), threads=32) as b:
            tile = T.alloc_fragment((block,), "float32")
            top = T.alloc_fragment((1,), "float32")
            T.copy(A[b * block], tile)
            T.reduce_max(tile, top, dim=0)
            most[b] = top[0]
        with T.Kernel(T.ceildiv(n, block), threads=32) as b:
            for i in T.Parallel(block):
                if b * block + i < n:
                    C[b * block + i] = A[b * block + i] / most[b]
        return C

    for n in (64, 100, 7):
        a = torch.rand(n) + 0.5
        tops = [a[i : i + 32].max() for i in range(0, n, 32)]
        expected = torch.cat([a[i : i + 32] / t for i, t in zip(range(0, n, 32), tops, strict=True)])
        torch.testing.assert_close(scaled_by_maximum(a, 32), expected)


def test_an_empty_first_launch_does_not_keep_the_next_one_from_running():
    @tilebench.jit(target="cpu")
    def fill(A):
        n = T.dynamic("n")
        A: T.Tensor((n,), "float32")
        C = T.empty((4,), "float32")
        with T.Kernel(n, threads=32) as b:
            A[b] = 1.0
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                C[i] = 3.0
        return C

    for n in (0, 2, 0):
        a = torch.zeros(n)
        assert fill(a).tolist() == [3.0] * 4
        assert a.tolist() == [1.0] * n


def test_launches_in_a_python_loop_follow_each_other():
    @tilebench.jit(target="cpu")
    def powers(A):
        A: T.Tensor((32,), "int32")
        for _ in range(3):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    A[i] = A[i] * 2

    a = torch.arange(32, dtype=torch.int32)
    powers(a)
    assert a.tolist() == [8 * i for i in range(32)]


def test_a_tile_of_another_launch_is_refused_where_it_is_named():
    @T.prim_func
    def wrong(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((32,), "float32")
            T.copy(A, tile)
        with T.Kernel(1, threads=32):
            T.copy(tile, A)

    with pytest.raises(SyntaxTileError, match="tile belongs to another launch") as caught:
        tilebench.compile(wrong, target="interp")
    assert caught.value.code == "TB105"
    assert "T.copy(tile, A)" in str(caught.value)


def test_a_block_index_of_another_launch_is_refused():
    @T.prim_func
    def wrong(A: T.Tensor((32,), "float32")):
        with T.Kernel(32, threads=32) as first:
            A[first] = 1.0
        with T.Kernel(32, threads=32):
            A[first] = 2.0

    with pytest.raises(SyntaxTileError, match="belongs to another launch"):
        tilebench.compile(wrong, target="interp")


@pytest.mark.parametrize("nested", [True, False])
def test_a_launch_inside_of_a_launch_or_a_condition_is_refused(nested):
    if nested:

        @T.prim_func
        def wrong(A: T.Tensor((32,), "float32")):
            with T.Kernel(1, threads=32), T.Kernel(1, threads=32):
                A[0] = 1.0

    else:

        @T.prim_func
        def wrong(A: T.Tensor((32,), "float32")):
            with T.Kernel(1, threads=32):
                A[0] = 1.0
            if A[0] > 0:
                with T.Kernel(1, threads=32):
                    A[0] = 2.0

    with pytest.raises(SyntaxTileError, match=r"a T\.Kernel|outside of T\.Kernel") as caught:
        tilebench.compile(wrong, target="interp")
    assert caught.value.code == "TB108"


def test_looking_at_single_blocks_is_refused():
    kernel = row_sums("cpu")
    a = torch.randn(64, 96)
    with pytest.raises(LaunchError, match="one launch"):
        tilebench.emulate(kernel, a)
    with pytest.raises(LaunchError, match="one launch"):
        tilebench.record(kernel, a)


def test_annotations_ahead_of_the_launches_are_said_of_each():
    @T.prim_func
    def both(A: T.Tensor((32,), "float32")):
        T.annotate_pass_configs({"TL_ENABLE_FAST_MATH": True})
        with T.Kernel(1, threads=32):
            A[0] = 1.0
        with T.Kernel(1, threads=32):
            A[1] = 1.0

    prims = launches(tilebench.compile(both, target="interp").prim)
    assert len({str(p.attributes["pass_configs"]) for p in prims}) == 1
    a = np.zeros(32, np.float32)
    tilebench.compile(both, target="interp")(a)
    assert a[:2].tolist() == [1.0, 1.0]
