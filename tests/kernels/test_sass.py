"""Whether the machine code of whole kernels has the schedule that was asked for: in its order, with nothing
spilled and no product serialised.
"""

from __future__ import annotations

from typing import Any

import pytest

import tilebench
from tests.kernels import programs
from tilebench.backends.cuda.sass import disassemble
from tilebench.backends.cuda.sass_order import order
from tilebench.passes.stages import Schedule, Scheduled

TURNS = ("HGMMA", "QGMMA", "WARPGROUP.DEPBAR", "MUFU")


def compiled(program: Any, **configs: object) -> tuple[tuple[str, ...], Schedule]:
    """(order of products, waits and exponentials, the record of the loop)."""
    kernel = tilebench.compile(program, target="cuda:sm_90a", pass_configs=configs)
    built = kernel.executable.built
    assert built.warnings == (), "C7508 to C7515"
    assert not built.spill_bytes
    (schedule,) = kernel.compilation.stage(Scheduled).schedules
    return order(disassemble(built.binary).text, TURNS), schedule


def attention(dim: int, causal: bool = False, kv_heads: int = 16) -> Any:
    return programs.attention(
        2, 16, 4096, 4096, dim, causal=causal, kv_heads=kv_heads, block_M=128, block_N=128, threads=256
    )


@pytest.mark.parametrize("transpose_B", [True, False])
def test_a_gemm_keeps_one_group_of_products_under_way(transpose_B: bool) -> None:
    program = programs.gemm(
        8192, 8192, 8192, transpose_B=transpose_B, block_N=256, block_K=64, num_stages=4, threads=256
    )
    found, schedule = compiled(program)
    assert found == ("HGMMA x4", "WARPGROUP.DEPBAR 1", "WARPGROUP.DEPBAR 0")
    assert (schedule.overlap, schedule.persistent, schedule.key_tile, schedule.pinned) == (
        True,
        True,
        64,
        False,
    )


def test_so_does_one_of_8_bits() -> None:
    program = programs.gemm(
        8192, 8192, 8192, "float8_e4m3", "bfloat16", transpose_B=True, block_N=256, block_K=128, num_stages=4,
        threads=256,
    )  # fmt: skip
    found, schedule = compiled(program)
    assert found == ("QGMMA x4", "WARPGROUP.DEPBAR 1", "WARPGROUP.DEPBAR 0")
    assert schedule.key_tile == 128


@pytest.mark.parametrize(("dim", "causal", "kv_heads"), [(128, False, 16), (128, True, 4), (64, True, 16)])
def test_attention_issues_the_next_scores_before_the_last_values(
    dim: int, causal: bool, kv_heads: int
) -> None:
    found, schedule = compiled(attention(dim, causal, kv_heads))
    scores = f"HGMMA x{dim // 16}"  # then those of the next iteration with the values of the last
    assert found[:5] == (
        scores, "WARPGROUP.DEPBAR 0", found[2], f"HGMMA x{dim // 16 + 8}", "WARPGROUP.DEPBAR 1",
    )  # fmt: skip
    assert found[2].startswith("MUFU x")
    assert (schedule.overlap, schedule.persistent, schedule.key_tile) == (True, True, 128)


def test_a_pinned_wait_stays_behind_the_exponentials() -> None:
    found, schedule = compiled(attention(128), TB_PIN_PRODUCT_WAIT=True)
    at = found.index("WARPGROUP.DEPBAR 1")
    assert found[at + 1].startswith("MUFU x")
    assert found[at + 2] == "WARPGROUP.DEPBAR 0"
    assert schedule.pinned


def test_without_overlap_every_product_is_waited_for() -> None:
    found, schedule = compiled(attention(128), TB_DISABLE_PRODUCT_OVERLAP=True)
    assert "WARPGROUP.DEPBAR 1" not in found
    assert not schedule.overlap
