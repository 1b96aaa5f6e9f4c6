"""Atomics: neighbours that become one access, widths and tails that cannot, memory orders, old values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tests.traps.running import check, numbers, refused
from tilebench.kernel.emulate import emulate


def text_of(program: Any, target: str = "cuda:sm_90a") -> str:
    """The CUDA C++ of a program."""
    return tilebench.lower(program, target=target).kernel_source


def adding(rows: int, columns: int, threads: int, of: str, to: str, scope: str) -> Any:
    """Four blocks add a tile each to the same tensor, scaled."""

    @T.prim_func
    def program(A: T.Tensor((4, rows, columns), of), B: T.Tensor((rows, columns), to)):
        with T.Kernel(4, threads=threads) as b:
            tile = (
                T.alloc_shared((rows, columns), of)
                if scope == "shared"
                else T.alloc_fragment((rows, columns), of)
            )
            T.copy(A[b, 0, 0], tile)
            for i, j in T.Parallel(rows, columns):
                twice = tile[i, j] * 2
                T.atomic_add(B[i, j], twice)

    return program


@pytest.mark.parametrize("scope", ["shared", "fragment"])
@pytest.mark.parametrize(
    ("of", "to"),
    [("float32", "float32"), ("float16", "float16"), ("float32", "bfloat16"), ("float16", "float32")],
)
@pytest.mark.parametrize(("rows", "columns"), [(8, 64), (5, 24), (3, 7)])
def test_a_tile_is_added_whatever_its_width(rows: int, columns: int, of: str, to: str, scope: str) -> None:
    import torch

    x = numbers(4, rows, columns)
    kind = np.float16 if of == "float16" else np.float32
    start = torch.ones((rows, columns), dtype=getattr(torch, to))
    want = (1 + 2 * x.sum(axis=0)).astype(np.float32)
    program = adding(rows, columns, 32, of, to, scope)
    if to == "bfloat16":  # NumPy has none: the tensors are torch's
        for target in ("interp", "cpu"):
            out = start.clone()
            tilebench.compile(program, target=target)(torch.from_numpy(x.astype(kind)), out)
            np.testing.assert_array_equal(out.float().numpy(), want)
        return
    check(program, [x.astype(kind)], want.astype(to), start=[start.numpy()])


@pytest.mark.parametrize(
    ("columns", "dtype", "target", "want"),
    [
        (64, "float32", "cuda:sm_90a", "AtomicAddx4("),
        (64, "float16", "cuda:sm_90a", "AtomicAddx8("),
        (64, "bfloat16", "cuda:sm_90", "AtomicAddx8("),
        (66, "float32", "cuda:sm_90a", "AtomicAddx2("),
        (7, "float32", "cuda:sm_90a", "AtomicAdd("),
        (64, "float32", "cuda:sm_80", "AtomicAdd("),
        (64, "float16", "cuda:sm_80", "AtomicAddx2("),
        (64, "bfloat16", "cuda:sm_80", "AtomicAddx2("),
    ],
)
def test_as_many_neighbours_as_are_aligned_are_one_access(
    columns: int, dtype: str, target: str, want: str
) -> None:
    text = text_of(adding(8, columns, 32, dtype, dtype, "shared"), target)
    assert text.count(want) == 2, text  # its definition and its use
    assert sum(text.count(f"AtomicAdd{n}(") for n in ("", "x2", "x4", "x8")) == 2, text


def test_a_tail_beyond_the_tensor_is_left_out() -> None:
    """32 x 32 over 40 x 44: what sticks out is added nowhere, and rows of 44 floats are aligned still."""

    @T.prim_func
    def program(A: T.Tensor((40, 44), "float32"), B: T.Tensor((40, 44), "float32")):
        with T.Kernel(2, 2, threads=64) as (bx, by):
            tile = T.alloc_shared((32, 32), "float32")
            T.copy(A[bx * 32, by * 32], tile)
            T.atomic_add(B[bx * 32, by * 32], tile)

    x, start = numbers(40, 44), numbers(40, 44, seed=1)
    check(program, [x], x + start, start=[start])
    assert "AtomicAddx4(" in text_of(program)


def test_rows_that_start_anywhere_are_added_one_by_one() -> None:
    @T.prim_func
    def program(A: T.Tensor((64,), "float32"), S: T.Tensor((1,), "int32"), B: T.Tensor((80,), "float32")):
        with T.Kernel(1, threads=32):
            first = S[0]
            for i in T.Parallel(64):
                T.atomic_add(B[first + i], A[i])

    x, start = numbers(64), numbers(80, seed=1)
    want = start.copy()
    want[5:69] += x
    check(program, [x, np.array([5], np.int32)], want, start=[start])
    assert "AtomicAddx" not in text_of(program)


def test_atomics_that_read_what_they_add_to_are_not_put_off() -> None:
    @T.prim_func
    def program(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                T.atomic_add(B[i], A[i])
                A[i] = B[i]

    x, start = numbers(64), numbers(64, seed=1)
    import torch

    for target in ("interp", "cpu"):
        a, b = torch.from_numpy(x.copy()), torch.from_numpy(start.copy())
        tilebench.compile(program, target=target)(a, b)
        np.testing.assert_array_equal(a.numpy(), x + start)
    assert "AtomicAddx" not in text_of(program)


# ---- written as vectors


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("width", [2, 4])
def test_vectors_by_name(dtype: str, width: int) -> None:
    add = T.atomic_addx2 if width == 2 else T.atomic_addx4

    @T.prim_func
    def program(A: T.Tensor((16, 32), "float32"), B: T.Tensor((16, 32), dtype)):
        with T.Kernel(2, threads=32) as b:
            for i, j in T.Parallel(16, 16 // width):
                column = b * 16 + j * width
                add(B[i, column], A[i, column])

    x, start = numbers(16, 32), numbers(16, 32, dtype=dtype, seed=1)
    check(program, [x], (x + start).astype(dtype), start=[start])
    assert f"AtomicAddx{width}(" in text_of(program)


def test_vectors_at_rows_that_data_name() -> None:
    @T.prim_func
    def program(
        Rows: T.Tensor((32,), "int32"), V: T.Tensor((32, 4), "float32"), B: T.Tensor((8, 4), "float32")
    ):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            T.atomic_addx4(B[Rows[t], 0:4], V[t, 0:4])

    rows = np.random.default_rng(0).integers(0, 8, 32).astype(np.int32)
    x, start = numbers(32, 4), numbers(8, 4, seed=1)
    want = start.copy()
    np.add.at(want, rows, x)
    check(program, [rows, x], want, start=[start])
    assert "AtomicAddx4(" in text_of(program)


@pytest.mark.parametrize("columns", [32, 24])
def test_values_of_vectors_are_loaded_by_one_access(columns: int) -> None:
    """From a shared tile (swizzled or not), and from a row of a tensor that data name."""

    @T.prim_func
    def program(
        A: T.Tensor((32, columns), "float32"),
        R: T.Tensor((32,), "int32"),
        B: T.Tensor((32, columns), "float32"),
    ):
        with T.Kernel(2, threads=32) as b:
            tile = T.alloc_shared((16, columns), "float32")
            T.annotate_layout({tile: T.make_swizzled_layout(tile)})
            T.copy(A[b * 16, 0], tile)
            for i, j in T.Parallel(16, columns // 4):
                T.atomic_addx4(B[b * 16 + i, j * 4], tile[i, j * 4])
            t = T.get_thread_binding()
            for j in T.serial(columns // 4):
                T.atomic_addx4(B[t, j * 4], A[R[t], j * 4])

    x, start = numbers(32, columns), numbers(32, columns, seed=1)
    rows = np.random.default_rng(3).permutation(32).astype(np.int32)
    check(program, [x, rows], start + x + 2 * x[rows], start=[start])
    text = text_of(program)
    assert text.count("AtomicAddx4(B") == 2, text
    assert text.count(") = *(const uint4*)(tile + ") == 1, text
    assert re.search(r"\? \*\(const uint4\*\)\(A \+ .* : uint4\{\};\n *AtomicAddx4\(B", text), text


def test_vectors_at_an_odd_place_are_single_elements() -> None:
    @T.prim_func
    def program(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            T.atomic_addx2(B[3], A[1])
            T.atomic_addx4(B[4], A[4])

    x, start = numbers(8), numbers(8, seed=1)
    want = start.copy()
    want[3:5] += x[1:3]
    want[4:8] += x[4:8]
    check(program, [x], want, start=[start])
    text = text_of(program)
    assert "AtomicAddx4(" in text
    assert "AtomicAddx2(" not in text


@pytest.mark.parametrize("threads", [1, 32])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("width", [2, 4])
def test_old_values_of_vectors(width: int, dtype: str, threads: int) -> None:
    add = T.atomic_addx2 if width == 2 else T.atomic_addx4

    @T.prim_func
    def program(V: T.Tensor((8,), dtype), B: T.Tensor((8,), dtype), P: T.Tensor((width,), dtype)):
        with T.Kernel(1, threads=threads):
            P[0:width] = add(B[4 : 4 + width], V[0:width], return_prev=True)

    x, start = numbers(8, dtype=dtype), numbers(8, dtype=dtype, seed=1)
    want = start.copy()
    want[4 : 4 + width] += x[:width]
    check(program, [x], want, start[4 : 4 + width], start=[start, np.zeros(width, dtype)])
    assert f"AtomicAddx{width}Ret(" in text_of(program)


def test_values_that_depend_on_the_one_before_stay_apart() -> None:
    @T.prim_func
    def program(B: T.Tensor((2,), "float32"), P: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            old = T.atomic_add(B[0], 1, return_prev=True)
            P[0] = T.atomic_add(B[1], old, return_prev=True)

    start = np.array([5, 7], np.float32)
    check(program, [], np.array([6, 12], np.float32), start[1:], start=[start, np.zeros(1, np.float32)])
    assert "AtomicAddx" not in text_of(program)


# ---- memory orders


@pytest.mark.parametrize(
    ("order", "number"), [("acquire", 2), ("release", 3), ("acq_rel", 4), ("seq_cst", 5)]
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_an_order_is_kept_in_every_width(dtype: str, order: str, number: int) -> None:
    @T.prim_func
    def program(A: T.Tensor((64,), dtype), B: T.Tensor((64,), dtype), C: T.Tensor((1,), dtype)):
        with T.Kernel(1, threads=32):
            T.atomic_add(B[0:64], A, memory_order=order)
            T.atomic_max(C[0], 5, memory_order=order)

    x, start = numbers(64, dtype=dtype), numbers(64, dtype=dtype, seed=1)
    check(program, [x], x + start, np.array([5], dtype), start=[start, np.zeros(1, dtype)])
    calls = [line for line in text_of(program).splitlines() if line.strip().startswith("Atomic")]
    assert len(calls) == 2
    assert all(line.endswith(f", {number});") for line in calls), calls


def test_loads_and_stores_are_ordered() -> None:
    @T.prim_func
    def program(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            B[0] = T.atomic_load(A[0])
            B[1] = T.atomic_load(A[1], memory_order="relaxed")
            T.atomic_store(B[2], 7, memory_order="release")

    x, start = numbers(4, dtype=np.int32), np.zeros(4, np.int32)
    a = x.copy()
    check(program, [a], np.array([x[0], x[1], 7, 0], np.int32), start=[start])
    text = text_of(program)
    assert re.search(r"= AtomicAddRet\([^;]*, 5\);", text)
    assert re.search(r"\n +AtomicExch\([^;]*, 3\);", text)


def test_an_unknown_order_is_refused() -> None:
    def make() -> Any:
        @T.prim_func
        def program(A: T.Tensor((4,), "int32")):
            with T.Kernel(1, threads=32):
                T.atomic_add(A[0], 1, memory_order="soon")  # here

        return program

    refused(make, "TB249", "# here")


# ---- bulk reductions

BULK = ("float16", "float32", "int32", "uint32", "uint64")
HOPPER = ("interp", "cpu", "emu:sm_90", "emu:sm_90a")


def bulk(shape: tuple[int, int], dtype: str, threads: int) -> Any:
    """Two blocks add a tile each, three times, changing it in between."""

    @T.prim_func
    def program(A: T.Tensor((2, *shape), dtype), B: T.Tensor(shape, dtype)):
        with T.Kernel(2, threads=threads) as b:
            tile = T.alloc_shared(shape, dtype)
            T.copy(A[b, 0, 0], tile)
            for _ in range(3):
                T.atomic_add(B, tile, use_tma=True)
                for i, j in T.Parallel(*shape):
                    tile[i, j] += 1

    return program


@pytest.mark.parametrize(("shape", "threads"), [((16, 16), 128), ((16, 24), 32), ((64, 128), 256)])
@pytest.mark.parametrize("dtype", BULK)
def test_bulk_reductions_that_the_program_asks_for(dtype: str, shape: tuple[int, int], threads: int) -> None:
    rng = np.random.default_rng(0)
    x, start = (rng.integers(1, 9, s).astype(dtype) for s in ((2, *shape), shape))
    want = start + (3 * (x.astype("int64").sum(axis=0) + 2)).astype(dtype)
    program = bulk(shape, dtype, threads)
    check(program, [x], want.astype(dtype), start=[start], targets=HOPPER)
    assert "  tma_store_add(&" in text_of(program)


def test_bulk_reductions_of_bfloat16() -> None:
    import torch

    x, start = numbers(2, 16, 16), numbers(16, 16, seed=1)
    out = torch.from_numpy(start).bfloat16()
    arguments = (torch.from_numpy(x).bfloat16(), out)
    program = bulk((16, 16), "bfloat16", 128)
    result = emulate(tilebench.compile(program, target="interp"), *arguments, target="emu:sm_90a")
    assert not result.findings, result
    np.testing.assert_array_equal(out.float().numpy(), start + 3 * (x.sum(axis=0) + 2))


def test_a_bulk_reduction_is_clipped_to_the_tensor() -> None:
    @T.prim_func
    def program(B: T.Tensor((40, 44), "float32")):
        with T.Kernel(2, 2, threads=64) as (bx, by):
            tile = T.alloc_shared((32, 32), "float32")
            T.fill(tile, bx + 2 * by + 1)
            T.atomic_add(B[bx * 32, by * 32], tile, use_tma=True)

    start = numbers(40, 44)
    want = start + (1 + np.arange(40)[:, None] // 32 + 2 * (np.arange(44) // 32)).astype(np.float32)
    check(program, [], want, start=[start], targets=HOPPER)
    assert "  tma_store_add(&" in text_of(program)


def test_a_tensor_that_is_read_again_has_its_sums() -> None:
    """A bulk reduction is over when nobody says: a tensor that the block reads is added to by threads."""

    @T.prim_func
    def program(
        A: T.Tensor((16, 16), "float32"), B: T.Tensor((16, 16), "float32"), C: T.Tensor((16, 16), "float32")
    ):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((16, 16), "float32")
            T.copy(A, tile)
            T.atomic_add(B, tile, use_tma=True)
            T.copy(B, C)

    x, start = numbers(16, 16), numbers(16, 16, seed=1)
    blank = np.zeros((16, 16), np.float32)
    check(program, [x], x + start, x + start, start=[start, blank], targets=HOPPER)
    assert "tma_store_add" not in text_of(program)


@pytest.mark.parametrize(
    ("dtype", "target", "says"),
    [
        ("float32", "cuda:sm_80", "requires a CUDA target with TMA support"),
        ("float64", "cuda:sm_90a", "does not support dtype float64"),
        ("int64", "emu:sm_90", "does not support dtype int64"),
    ],
)
def test_bulk_reductions_that_there_are_not_are_refused(dtype: str, target: str, says: str) -> None:
    def make() -> Any:
        @T.prim_func
        def program(B: T.Tensor((16, 16), dtype)):
            with T.Kernel(1, threads=128):
                tile = T.alloc_shared((16, 16), dtype)
                T.fill(tile, 1)
                T.atomic_add(B, tile, use_tma=True)  # here

        return program

    assert says in str(refused(make, "TB520", "# here", target))
    tilebench.compile(make(), target="cpu")


def test_nothing_moves_over_an_atomic_with_an_order() -> None:
    """What a release lets others see is written before it, what an acquire waits for is read after it."""

    @T.prim_func
    def program(
        A: T.Tensor((64,), "float32"), D: T.Tensor((64,), "float32"), F: T.Tensor((64,), "int32"),
        E: T.Tensor((64,), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                D[i] = A[i] * 2
                T.atomic_add(F[i], 1, memory_order="acq_rel")
                E[i] = D[i] + 1

    x, zeros = numbers(64), np.zeros(64, np.float32)
    check(program, [x], x * 2, np.ones(64, np.int32), x * 2 + 1, start=[zeros, zeros.astype(np.int32), zeros])
    text = text_of(program)
    body = text[text.rindex("{", 0, text.index("AtomicAdd(", text.index("__launch_bounds__"))) :]
    assert re.search(r"D\[[^;]*\] = .*;\s+AtomicAdd\(F[^;]*, 4\);\s+E\[[^;]*\] = D\[", body), text


def test_an_atomic_that_names_no_thread_is_done_once_by_the_block() -> None:
    @T.prim_func
    def program(Count: T.Tensor((2,), "int32"), Seen: T.Tensor((6,), "int32")):
        with T.Kernel(6, threads=96) as b:
            T.atomic_add(Count[0], 1)
            before = T.atomic_add(Count[1], 2, return_prev=True)
            Seen[before // 2] = 1
            tx = T.get_thread_binding()
            if tx >= 64:
                T.atomic_add(Count[0], 100)

    count, ones = np.array([6 + 6 * 32 * 100, 12], np.int32), np.ones(6, np.int32)
    check(program, [], count, ones, start=[np.zeros(2, np.int32), np.zeros(6, np.int32)])
