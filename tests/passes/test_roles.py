"""How the warps split a gemm."""

from __future__ import annotations

import pytest

from tests.passes.pipelined_kernels import attention
from tilebench.compiler import analyse
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import clear
from tilebench.ops.examples import Draft
from tilebench.ops.gemm import GemmWarpPolicy, gemm
from tilebench.ops.gemm.place import warp_splits
from tilebench.passes.stages import Partitioned
from tilebench.targets import parse

P = GemmWarpPolicy


def split(m: int, n: int, threads: int, policy: GemmWarpPolicy = P.Square) -> tuple[tuple[int, int], str]:
    d = Draft("split", threads=threads)
    A, B, C = (
        d.tensor("A", (m, 32), "float16"),
        d.tensor("B", (32, n), "float16"),
        d.tensor("C", (m, n), "float32", "out"),
    )
    A_s, B_s, c = (
        d.shared("A_s", (m, 32), "float16"),
        d.shared("B_s", (32, n), "float16"),
        d.fragment("c", (m, n), "float32"),
    )
    d.add(clear(c), copy(A, A_s), copy(B, B_s), gemm(A_s, B_s, c, policy=policy), copy(c, C))
    stage = analyse(d.kernel(), parse("emu:sm_80")).stage(Partitioned)
    ((op, grid),) = stage.warp_grids.items()
    return grid, stage.reasons[op].text


@pytest.mark.parametrize(
    ("m", "n", "threads", "policy", "grid"),
    [
        (128, 128, 128, P.Square, (2, 2)),
        (128, 256, 256, P.Square, (2, 4)),
        (256, 128, 256, P.Square, (4, 2)),
        (128, 128, 128, P.FullRow, (4, 1)),
        (128, 128, 128, P.FullCol, (1, 4)),
        (32, 128, 128, P.FullRow, (2, 2)),
        (96, 48, 96, P.Square, (3, 1)),
        (64, 96, 96, P.Square, (1, 3)),
        (16, 32, 128, P.FullRow, (1, 4)),
    ],
)
def test_policies(m: int, n: int, threads: int, policy: GemmWarpPolicy, grid: tuple[int, int]) -> None:
    assert split(m, n, threads, policy)[0] == grid


def test_too_few_atoms_are_computed_several_times() -> None:
    grid, reason = split(16, 16, 128)
    assert grid[0] * grid[1] == 2
    assert "2 groups of warps do the same" in reason


def test_every_split_is_whole_atoms() -> None:
    for warps in range(1, 13):
        for m, n in ((16, 8), (48, 40), (128, 96)):
            for wm, wn in warp_splits(m, n, warps):
                assert warps % (wm * wn) == 0
                assert m % (16 * wm) == 0
                assert n % (8 * wn) == 0


def test_rows_stay_together_where_they_are_folded_or_fed_on() -> None:
    stage = analyse(attention(), parse("emu:sm_80")).stage(Partitioned)
    assert list(stage.warp_grids.values()) == [(4, 1), (4, 1)]
    first, second = (r.text for r in stage.reasons.values())
    assert "its rows become the left operand of another gemm" in first
    assert "p comes from registers" in second


def test_gemms_into_one_accumulator_share_their_split() -> None:
    d = Draft("twice")
    A, B, C = (
        d.tensor("A", (64, 32), "float16"),
        d.tensor("B", (32, 64), "float16"),
        d.tensor("C", (64, 64), "float32", "out"),
    )
    A_s, B_s, c = (
        d.shared("A_s", (64, 32), "float16"),
        d.shared("B_s", (32, 64), "float16"),
        d.fragment("c", (64, 64), "float32"),
    )
    d.add(clear(c), copy(A, A_s), copy(B, B_s))
    d.add(gemm(A_s, B_s, c, policy=P.FullCol), gemm(A_s, B_s, c), copy(c, C))
    stage = analyse(d.kernel(), parse("emu:sm_80")).stage(Partitioned)
    assert list(stage.warp_grids.values()) == [(1, 4), (1, 4)]
