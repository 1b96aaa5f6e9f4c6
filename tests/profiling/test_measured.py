"""Predicted beside measured: kernels that were timed on a GPU, each with where and how.

Every row is a launch of generated code, checked first, random inputs, median of interleaved rounds. The table
is printed (`pytest -s`), and its median error is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

import pytest

from tests.kernels import programs
from tests.profiling.test_model import prediction

H200 = "NVIDIA H200, CUDA 13.0"
BOUND = 0.25


@dataclass(frozen=True)
class Row:
    """A launch. us: measured, in microseconds; where: on which device; arch: what it was compiled for;
    configs: pass configs that it was compiled with.
    """

    name: str
    program: Any
    us: float
    where: str = H200
    arch: str = "sm_90a"
    configs: tuple[tuple[str, bool], ...] = ()


def product(m: int, n: int, k: int, columns: int) -> Any:
    """C = A @ B^T in float16, tiles of 128 x columns, two consumer warpgroups, four stages of 64."""
    return programs.gemm(
        m, n, k, transpose_B=True, block_M=128, block_N=columns, block_K=64, num_stages=4, threads=256,
        panel=8,
    )  # fmt: skip


def attention(dim: int, causal: bool = False) -> Any:
    """2 batches of 16 heads, 4096 queries and keys, float16, 128 x 128 tiles, two consumer warpgroups."""
    return programs.attention(
        2, 16, 4096, 4096, dim, causal=causal, block_M=128, block_N=128, threads=256
    )  # fmt: skip


PERSISTENT = (("TB_PERSISTENT", True),)
ROWS = (
    Row("gemm 8192^3, 128x192", product(8192, 8192, 8192, 192), 1680.0),
    Row("gemm 8192^3, 128x256", product(8192, 8192, 8192, 256), 1700.0),
    Row("gemm 4096^3, 128x256", product(4096, 4096, 4096, 256), 184.0),
    Row("gemm 8192x8192x1024, 128x256", product(8192, 8192, 1024, 256), 202.0),
    Row("attention D128", attention(128), 418.0, configs=PERSISTENT),
    Row("attention D128 causal", attention(128, causal=True), 253.0, configs=PERSISTENT),
    Row("attention D64", attention(64), 234.0, configs=PERSISTENT),
    # mma.sync: compiled without warpgroup products
    Row("gemm 4096^3, 128x128x32, mma.sync", programs.gemm(4096, 4096, 4096), 350.0, arch="sm_90"),
)


@pytest.fixture(scope="module")
def predicted() -> dict[str, float]:
    """Microseconds of every row, by name."""
    return {
        row.name: prediction(row.program, arch=row.arch, configs=dict(row.configs)).total_us for row in ROWS
    }


def test_the_median_error_over_the_table_is_at_most_a_quarter(predicted: dict[str, float]) -> None:
    errors: list[float] = []
    print(f"\n{'launch':<36}{'predicted us':>14}{'measured us':>13}{'error':>8}  measured on")
    for row in ROWS:
        us = predicted[row.name]
        errors.append(abs(us / row.us - 1.0))
        print(f"{row.name:<36}{us:>14.1f}{row.us:>13.1f}{us / row.us - 1.0:>+8.0%}  {row.where}")
    print(f"median error {median(errors):.1%}")
    assert median(errors) <= BOUND


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_row_is_off_by_more_than_a_third(row: Row, predicted: dict[str, float]) -> None:
    assert predicted[row.name] == pytest.approx(row.us, rel=1 / 3)
