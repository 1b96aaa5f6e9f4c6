"""Programs that are wrong in silence: tiles wholly beyond their tensor, blocks that write the same elements.

Each beside the right program that looks most like it, which nothing is said about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tilebench
from tests.kernels import programs
from tests.kernels.cases import BOUNDED, EXACT
from tilebench.ir.tile import Kernel
from tilebench.kernel import beyond, overlapping
from tilebench.kernel.decorator import compile
from tilebench.report import Finding

GEMM = """\
@T.prim_func
def gemm(A: T.Tensor((256, 128), "float16"), B: T.Tensor((128, 256), "float16"),
         C: T.Tensor((256, 256), "float32")):
    with T.Kernel(2, 2, threads=128) as (bx, by):
        A_s = T.alloc_shared((128, 32), "float16")
        B_s = T.alloc_shared((32, 128), "float16")
        C_l = T.alloc_fragment((128, 128), "float32")
        T.clear(C_l)
        for k in T.Pipelined(4, num_stages=2):
            T.copy(A[by * 128, k * 32], A_s)
            T.copy({b}, B_s)
            T.gemm(A_s, B_s, C_l)
        T.copy(C_l, C[by * 128, bx * 128])
"""
TILES = """\
@T.prim_func
def tiles(A: T.Tensor(({rows}, 64), "float32"), C: T.Tensor((128, 64), "float32")):
    with T.Kernel(2, threads=64) as b:
        x = T.alloc_fragment((64, 64), "float32")
        {body}
        T.copy(x, C[b * 64, 0])
"""
WITHIN = """\
@T.prim_func
def program(A: T.Tensor({a}, "float32"), O: T.Tensor({o}, "float32")):
    with T.Kernel({grid}, threads=64) as {names}:
{body}
"""


def found(text: str, kind: str, target: str = "cpu", **options: Any) -> list[Finding]:
    report = tilebench.run(text, target=target, cell="In[1]", **options).report
    return [f for f in report.findings if f.kind == kind]


def within(body: str, a: str, o: str = "(16, 64)", grid: str = "4", names: str = "b") -> str:
    lines = "\n".join("        " + line for line in body.splitlines())
    return WITHIN.format(a=a, o=o, grid=grid, names=names, body=lines)


# ------------------------------------------------------------------ wholly beyond


@pytest.mark.parametrize("target", ["cpu", "interp", "emu:sm_80", "cuda:sm_90a"])
def test_a_copy_that_starts_behind_the_end_is_said(target: str) -> None:
    text = TILES.format(rows=64, body="T.copy(A[b * 64, 0], x)")
    report = tilebench.run(text, target=target, cell="In[1]").report
    (said,) = [f for f in report.findings if f.code == "TB288"]
    assert (said.severity, said.spans[0].line) == ("warning", 5)
    assert said.text == "copy starts beyond A in 1 of 2 blocks: zeros are read"
    assert "dimension 0 of A has 64 elements, and it starts at 64 for bx = 1" in said.hint
    assert said.text in str(report)


def test_it_is_said_without_a_run() -> None:
    text = TILES.format(rows=64, body="T.copy(A[b * 64, 0], x)")
    assert found(text, "beyond", launch=False)


def test_indices_of_b_the_wrong_way_round() -> None:
    (said,) = found(GEMM.format(b="B[bx * 128, k * 32]"), "beyond")
    assert said.text == "copy starts beyond B in 2 of 4 blocks: zeros are read"
    assert said.spans[0].line == 11
    assert found(GEMM.format(b="B[k * 32, bx * 128]"), "beyond") == []


def test_a_loop_that_is_too_long() -> None:
    (said,) = found(GEMM.replace("Pipelined(4", "Pipelined(5").format(b="B[0, bx * 128]"), "beyond")
    assert said.text == "copy starts beyond A in 4 of 4 blocks: zeros are read"
    assert "it starts at 128 for" in said.hint
    assert "k = 4" in said.hint


def test_stores_beyond_write_nothing() -> None:
    text = TILES.format(rows=256, body="T.copy(A[b * 64, 0], x)").replace("Kernel(2,", "Kernel(4,")
    assert [f.text for f in found(text, "beyond")] == [
        "copy starts beyond C in 2 of 4 blocks: nothing is written"
    ]


def test_elements_that_a_guard_leaves_to_the_tensor_s_end() -> None:
    body = "for i, j in T.Parallel(16, 64):\n    if i < 9:\n        O[i, b * 64 + j] = A[i, b * 64 + j]"
    (said,) = [
        f for f in found(within(body, "(16, 256)", "(16, 64)"), "beyond") if "written" in f.text
    ]  # fmt: skip
    assert said.text == "an access starts beyond O in 3 of 4 blocks: nothing is written"


@pytest.mark.parametrize(
    ("rows", "body"),
    [
        (65, "T.copy(A[b * 64, 0], x)"),  # a tail: one row is inside
        (64, "T.copy(A[(b % 1) * 64, 0], x)"),
        (64, "if b * 64 < 64:\n            T.copy(A[b * 64, 0], x)"),
        (64, "if b == 0:\n            T.copy(A[b * 64, 0], x)\n        else:\n            T.clear(x)"),
        (64, "for k in T.serial(b, 1):\n            T.copy(A[k * 64, 0], x)"),
        (128, "T.copy(A[b * 64, 0], x)\n        T.copy(A[b * 64 + 64, 0], x)"),  # the neighbour below
    ],
)
def test_tails_guards_and_neighbours_are_meant(rows: int, body: str) -> None:
    assert found(TILES.format(rows=rows, body=body), "beyond", check="none") == []


def test_a_tile_fetched_ahead_is_meant() -> None:
    body = """\
s = T.alloc_shared((2, 16, 16), "float32")
c = T.alloc_fragment((16, 16), "float32")
T.clear(c)
T.copy(A[0, 0], s[0, :, :])
for k in T.serial(4):
    T.copy(A[0, (k + 1) * 16], s[(k + 1) % 2, :, :])
    for i, j in T.Parallel(16, 16):
        c[i, j] += s[k % 2, i, j]
T.copy(c, O[0, b * 16])"""
    assert found(within(body, "(16, 64)"), "beyond") == []
    alone = body.replace("T.copy(A[0, 0], s[0, :, :])\n", "T.clear(s)\n")
    assert [f.text for f in found(within(alone, "(16, 64)"), "beyond")] == [
        "copy starts beyond A in 4 of 4 blocks: zeros are read"
    ]


def test_sizes_are_those_of_the_call() -> None:
    text = """\
@T.prim_func
def program(A: T.Tensor((T.dynamic("n"), 64), "float32"), O: T.Tensor((128, 64), "float32")):
    with T.Kernel(2, threads=64) as b:
        x = T.alloc_fragment((64, 64), "float32")
        T.copy(A[b * 64, 0], x)
        T.copy(x, O[b * 64, 0])
"""
    for rows, warned in ((128, 0), (65, 0), (64, 1), (10, 1)):
        values = (torch.ones(rows, 64), torch.empty(128, 64))
        assert len(found(text, "beyond", args=values)) == warned
    values = (torch.ones(64, 64), torch.empty(128, 64))
    assert found(text, "beyond", args=values, launch=False) == []  # no call, no sizes


# ------------------------------------------------------------------ the same elements

SPLIT = "for i, j in T.Parallel(16, 64):\n    O[i, j] += A[b, i, j]"


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_sums_of_several_blocks_without_atomics(target: str) -> None:
    (said,) = found(within(SPLIT, "(4, 16, 64)"), "overlapping", target)
    assert (said.code, said.severity, said.spans[0].line) == ("TB431", "warning", 5)
    assert said.text == "every block of axis x writes the same elements of O: the last one wins"
    assert "T.atomic_add(O[...], value)" in said.hint


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_values_of_the_block_at_one_place(target: str) -> None:
    body = "for i, j in T.Parallel(16, 64):\n    O[i, j] = A[y, i, j]"
    text = within(body, "(4, 16, 64)", grid="1, 4", names="(x, y)")
    (said,) = found(text, "overlapping", target)
    assert said.text == "every block of axis y writes the same elements of O: the last one wins"
    assert "leaves the block's number out" in said.hint


@pytest.mark.parametrize(
    "body",
    [
        'x = T.alloc_fragment((16, 64), "float32")\nT.copy(A[b, 0, 0], x)\nT.copy(x, O)',
        'x = T.alloc_fragment((16, 64), "float32")\nT.copy(O, x)\n'
        "for i, j in T.Parallel(16, 64):\n    x[i, j] += 1.0\nT.copy(x, O)",
        'x = T.alloc_fragment((16, 64), "float32")\nT.clear(x)\nfor k in T.serial(b + 1):\n'
        "    for i, j in T.Parallel(16, 64):\n        x[i, j] += A[0, i, j]\nT.copy(x, O)",
    ],
)
def test_what_flows_through_tiles(body: str) -> None:
    assert len(found(within(body, "(4, 16, 64)"), "overlapping")) == 1


@pytest.mark.parametrize(
    "body",
    [
        "for i, j in T.Parallel(16, 64):\n    O[i, j] = 1.0",
        "for i, j in T.Parallel(16, 64):\n    O[i, j] = A[0, i, j] * 2.0",
        "for i, j in T.Parallel(16, 64):\n    if b == 0:\n        O[i, j] = A[b, i, j]",
        "if b == 3:\n    for i, j in T.Parallel(16, 64):\n        O[i, j] += A[b, i, j]",
        "for i, j in T.Parallel(16, 64):\n    T.atomic_add(O[i, j], A[b, i, j])",
        "for i, j in T.Parallel(4, 64):\n    O[b * 4 + i, j] += A[b, i, j]",
        "for i in T.serial(b * 4, b * 4 + 4):\n    for j in T.Parallel(64):\n        O[i, j] = A[b, i, j]",
        "at = b * 4\nfor i, j in T.Parallel(4, 64):\n    O[at + i, j] += A[b, i, j]",
    ],
)
def test_one_block_equal_values_own_places_and_atomics_are_right(body: str) -> None:
    assert found(within(body, "(4, 16, 64)"), "overlapping") == []


def test_one_block_may_do_as_it_likes() -> None:
    assert found(within(SPLIT, "(4, 16, 64)", grid="1"), "overlapping") == []


def test_a_second_launch_that_adds_is_right() -> None:
    text = """\
@T.prim_func
def program(A: T.Tensor((4, 16, 64), "float32"), O: T.Tensor((16, 64), "float32")):
    parts = T.alloc_global((4, 16, 64), "float32")
    with T.Kernel(4, threads=64) as b:
        for i, j in T.Parallel(16, 64):
            parts[b, i, j] = A[b, i, j]
    with T.Kernel(1, threads=64):
        for i, j in T.Parallel(16, 64):
            O[i, j] = parts[0, i, j] + parts[1, i, j] + parts[2, i, j] + parts[3, i, j]
"""
    assert found(text, "overlapping") == []


# ------------------------------------------------------------------ the real kernels

REAL: dict[str, Callable[[], Any]] = {
    **EXACT, **BOUNDED,
    "histogram": lambda: programs.histogram(3000, 50, block=512),
}  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_nothing_is_said_of_the_real_kernels(name: str) -> None:
    prim: Kernel = compile(REAL[name](), target="interp").prim
    assert beyond.findings(prim, {}) == []
    assert overlapping.findings(prim, {}) == []
