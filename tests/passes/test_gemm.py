"""gemm through mma.sync and multiply-adds: every dtype, transposition, operand place, tail and warp split,
emulated against interp.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.passes.emulated import assert_emulated_is_interp
from tests.passes.pipelined_kernels import pipelined_gemm
from tilebench.ir.dtype import int32
from tilebench.ir.expr import Var, binary
from tilebench.ir.rewrite import walk
from tilebench.ir.thread import CpAsync, LdMatrix, Mma
from tilebench.ir.tile import Kernel
from tilebench.layouts import padded, row_major
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import clear
from tilebench.ops.examples import Draft, tile
from tilebench.ops.gemm import Gemm, GemmWarpPolicy, gemm
from tilebench.ops.gemm.examples import product
from tilebench.ops.gemm.fma import accumulator_layout
from tilebench.passes.stages import Placed, Selected

DTYPES = [
    ("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32"), ("tfloat32", "float32"),
    ("int8", "int32"), ("uint8", "int32"), ("float8_e4m3", "float32"), ("float8_e5m2", "float32"),
    ("float32", "float32"), ("float64", "float64"),
]  # fmt: skip
TRANSPOSITIONS = list(itertools.product([False, True], repeat=2))


def instructions(emulated: Any, kind: type) -> list[Any]:
    return [
        n for role in emulated.compilation.last.program.roles for n in walk(role.body) if isinstance(n, kind)
    ]


@pytest.mark.parametrize("example", Gemm.examples)
def test_every_example(example: Any) -> None:
    assert_emulated_is_interp(example())


@pytest.mark.parametrize(("ta", "tb"), TRANSPOSITIONS)
@pytest.mark.parametrize(("dtype", "accumulator"), DTYPES)
def test_dtypes_and_transpositions(dtype: str, accumulator: str, ta: bool, tb: bool) -> None:
    emulated = assert_emulated_is_interp(
        pipelined_gemm(96, 80, 104, (64, 64, 32), 3, dtype, accumulator, ta, tb)
    )
    for access in emulated.result.counts.accesses:
        if access.kind == "ldmatrix":
            assert access.ways_worst == 1


@pytest.mark.parametrize(("ta", "tb"), TRANSPOSITIONS)
def test_16_bit_operands_come_by_ldmatrix_alone(ta: bool, tb: bool) -> None:
    emulated = assert_emulated_is_interp(pipelined_gemm(64, 64, 64, stages=2, transpose_a=ta, transpose_b=tb))
    assert {(n.source.name, n.transpose) for n in instructions(emulated, LdMatrix)} == {
        ("A_s", ta),
        ("B_s", not tb),
    }
    assert not any(
        a.space == "shared" and a.kind in ("load", "store", "copy-in")
        for a in emulated.result.counts.accesses
    )
    assert emulated.result.counts.worst_ways() == 1


@pytest.mark.parametrize("a_scope", ["shared", "fragment"])
@pytest.mark.parametrize(("ta", "tb"), TRANSPOSITIONS)
@pytest.mark.parametrize("dtype", ["float16", "int8", "tfloat32", "float32"])
def test_a_from_registers(dtype: str, ta: bool, tb: bool, a_scope: str) -> None:
    accumulator = "int32" if dtype == "int8" else "float32"
    assert_emulated_is_interp(product(64, 48, 64, dtype, accumulator, ta, tb, a_scope)())


def small(
    m: int,
    n: int,
    k: int,
    threads: int,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    dtype: str = "float16",
    b_scope: str = "shared",
    tb: bool = False,
) -> Kernel:
    d = Draft("small", threads=threads)
    A, B, C = (
        d.tensor("A", (m, k), dtype),
        d.tensor("B", (n, k) if tb else (k, n), dtype),
        d.tensor("C", (m, n), "float32", "out"),
    )
    A_s, c = d.shared("A_s", (m, k), dtype), d.fragment("c", (m, n), "float32")
    b = (
        d.shared("b", (n, k) if tb else (k, n), dtype)
        if b_scope == "shared"
        else d.fragment("b", (n, k) if tb else (k, n), dtype)
    )
    d.add(clear(c), copy(A, A_s), copy(B, b), gemm(A_s, b, c, transpose_B=tb, policy=policy), copy(c, C))
    return d.kernel()


@pytest.mark.parametrize("policy", GemmWarpPolicy)
@pytest.mark.parametrize(
    ("m", "n", "threads"),
    [(64, 64, 32), (96, 48, 96), (64, 40, 160), (16, 16, 128), (16, 24, 64), (128, 8, 256), (48, 56, 224)],
)
def test_warp_splits(m: int, n: int, threads: int, policy: GemmWarpPolicy) -> None:
    assert_emulated_is_interp(small(m, n, 32, threads, policy))


@pytest.mark.parametrize("tb", [False, True])
def test_b_from_registers(tb: bool) -> None:
    emulated = assert_emulated_is_interp(small(32, 64, 32, 128, b_scope="fragment", tb=tb))
    assert {n.source.name for n in instructions(emulated, LdMatrix)} == {"A_s"}


@pytest.mark.parametrize(
    ("m", "n", "k", "threads"),
    [(10, 12, 6, 96), (1, 8, 32, 32), (64, 64, 64, 256), (33, 17, 5, 64), (16, 16, 3, 48), (7, 130, 9, 128)],
)
def test_odd_tiles_by_multiply_adds(m: int, n: int, k: int, threads: int) -> None:
    emulated = assert_emulated_is_interp(small(m, n, k, threads, dtype="float32"))
    assert not instructions(emulated, Mma)


def test_multiply_adds_take_any_layout_of_digits() -> None:
    for m, n, threads in (
        (128, 128, 128),
        (32, 40, 128),
        (64, 64, 256),
        (10, 12, 96),
        (1, 8, 32),
        (33, 17, 64),
    ):
        layout = accumulator_layout(m, n, threads)
        assert layout.threads == threads
        assert layout.covers


def test_slices_of_operands() -> None:
    d = Draft("slices")
    A, B, C = (
        d.tensor("A", (64, 64), "float16"),
        d.tensor("B", (64, 64), "float16"),
        d.tensor("C", (64, 64), "float32", "out"),
    )
    A_s, B_s, c = (
        d.shared("A_s", (2, 64, 64), "float16"),
        d.shared("B_s", (64, 64), "float16"),
        d.fragment("c", (64, 64), "float32"),
    )
    d.add(clear(c), copy(A, tile(A_s, 1, (0, 64), (0, 64))), copy(B, B_s))
    with d.serial(4) as j:
        d.add(gemm(tile(A_s, 1, (0, 64), (j * 16, 16)), tile(B_s, (j * 16, 16), (0, 64)), c))
    d.add(copy(c, C))
    emulated = assert_emulated_is_interp(d.kernel())
    assert len(instructions(emulated, LdMatrix)) == 2
    assert emulated.result.counts.worst_ways() == 1


@pytest.mark.parametrize(
    "layout", [padded((64, 64), 16, 8), padded((64, 64), 16, 1), row_major((64, 64), 16)]
)
def test_layouts_that_the_user_gave(layout: Any) -> None:
    kernel = small(64, 64, 64, 128)
    (a_s, _, b_s) = kernel.buffers
    kernel.attributes["layouts"] = {a_s: layout, b_s: layout}  # type: ignore[index]
    emulated = assert_emulated_is_interp(kernel)
    aligned = layout.strides[0] % 8 == 0
    assert bool(instructions(emulated, LdMatrix)) == aligned


def test_two_products_with_different_splits_are_converted() -> None:
    d = Draft("twice")
    A, B, C = (
        d.tensor("A", (64, 64), "float16"),
        d.tensor("B", (64, 64), "float16"),
        d.tensor("C", (64, 64), "float32", "out"),
    )
    A_s, B_s = d.shared("A_s", (64, 64), "float16"), d.shared("B_s", (64, 64), "float16")
    s, p, o = (
        d.fragment("s", (64, 64), "float32"),
        d.fragment("p", (64, 64), "float16"),
        d.fragment("o", (64, 64), "float32"),
    )
    d.add(clear(s), clear(o), copy(A, A_s), copy(B, B_s))
    d.add(gemm(A_s, B_s, s, policy=GemmWarpPolicy.FullCol), copy(s, p), gemm(p, B_s, o), copy(o, C))
    emulated = assert_emulated_is_interp(d.kernel())
    assert emulated.compilation.last.conversions  # type: ignore[union-attr]


def test_a_chain_of_products_moves_no_data() -> None:
    d = Draft("chain")
    A, B, C = (
        d.tensor("A", (64, 64), "float16"),
        d.tensor("B", (64, 64), "float16"),
        d.tensor("C", (64, 64), "float32", "out"),
    )
    A_s, B_s = d.shared("A_s", (64, 64), "float16"), d.shared("B_s", (64, 64), "float16")
    s, p, o = (
        d.fragment("s", (64, 64), "float32"),
        d.fragment("p", (64, 64), "float16"),
        d.fragment("o", (64, 64), "float32"),
    )
    d.add(
        clear(s),
        clear(o),
        copy(A, A_s),
        copy(B, B_s),
        gemm(A_s, B_s, s),
        copy(s, p),
        gemm(p, B_s, o),
        copy(o, C),
    )
    emulated = assert_emulated_is_interp(d.kernel())
    assert not emulated.compilation.last.conversions  # type: ignore[union-attr]
    stage = emulated.compilation.stage(Placed)
    assert all(stage.reasons[b].text for b in (s, p, o))
    assert {
        i.name for op, i in emulated.compilation.stage(Selected).instructions.items() if isinstance(op, Gemm)
    } == {"mma.m16n8k16"}


def test_a_symbolic_number_of_rows_is_copied_asynchronously() -> None:
    rows = Var("rows", dtype=int32)
    d = Draft("symbolic", (binary("floordiv", rows + 31, 32),))
    A, B = d.tensor("A", (rows, 64), "float16"), d.tensor("B", (64, 64), "float16")
    C = d.tensor("C", (rows, 64), "float32", "out")
    A_s, B_s = d.shared("A_s", (32, 16), "float16"), d.shared("B_s", (16, 64), "float16")
    c = d.fragment("c", (32, 64), "float32")
    d.add(clear(c))
    with d.pipelined(4, 3) as k:
        d.add(copy(A[d.blocks[0] * 32, k * 16], A_s), copy(B[k * 16, 0], B_s), gemm(A_s, B_s, c))
    d.add(copy(c, C[d.blocks[0] * 32, 0]))
    emulated = assert_emulated_is_interp(d.kernel())
    copies = instructions(emulated, CpAsync)
    assert {n.destination.name for n in copies} == {"A_s", "B_s"}
    assert {n.source.name for n in copies if n.predicate is not None} == {"A"}


def test_a_pipelined_copy_to_a_layout_without_chunks_is_made_by_the_threads() -> None:
    kernel = pipelined_gemm(64, 64, 128, stages=3)
    kernel.attributes["layouts"] = {kernel.buffers[0]: padded((64, 32), 16, 1)}  # type: ignore[index]
    emulated = assert_emulated_is_interp(kernel)
    assert {n.destination.name for n in instructions(emulated, CpAsync)} == {"B_s"}
