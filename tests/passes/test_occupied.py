"""Blocks that share a multiprocessor: predicted registers, setmaxnreg, as many persistent blocks."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from tests.kernels import programs_scan, references_more
from tests.kernels.running import run
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.decorator import compile
from tilebench.passes import occupied
from tilebench.passes.stages import Lowered, Partitioned, Selected
from tilebench.targets.nvidia import occupancy

STATE = partial(programs_scan.chunk_state, 8, 4096, 80)
LINEAR = partial(programs_scan.linear_attention, 8, 4096, 16, 128, block_V=64)
TWO = {"TB_BLOCKS_PER_SM": 2}


def compiled(make: Any, **configs: Any) -> Kernel:
    return compile(make(), target="cuda:sm_90a", pass_configs=configs)


@pytest.mark.parametrize("make", [STATE, LINEAR], ids=["state", "linear"])
def test_prediction_is_no_less_than_what_ptxas_takes_and_close(make: Any) -> None:
    kernel = compiled(make)
    predicted = occupied.predicted_registers(kernel.stages().stage(Selected))
    used = kernel.executable.built.registers
    assert used <= predicted <= used + 48
    assert compiled(make, TB_BLOCKS_PER_SM=True).stages().stage(Lowered).program.facts["min_blocks"] == 2


@pytest.mark.parametrize("make", [STATE, LINEAR], ids=["state", "linear"])
def test_two_blocks_fit_without_spills(make: Any) -> None:
    built = compiled(make, **TWO).executable.built
    assert not built.spill_bytes
    assert not built.warnings
    assert occupancy("sm_90a", 256, built.registers, built.shared_bytes).blocks == 2
    text = built.code["cuda"].text if "cuda" in built.code else compiled(make, **TWO).get_kernel_source()
    assert "__launch_bounds__(256, 2)" in text
    assert "take_registers<232>" in text


def test_persistent_blocks_are_as_many_as_the_gpu_holds() -> None:
    grid = compiled(STATE, **TWO).stages().stage(Lowered).program.launched((1, 80, 128))
    assert grid == (264,)
    said = compiled(STATE).stages().stage(Lowered).program.launched((1, 80, 128))
    assert said == (132,)


def test_more_than_the_accumulators_allow_is_not_tried() -> None:
    kernel = compiled(STATE, TB_BLOCKS_PER_SM=4)
    assert occupied.blocks_per_sm(kernel.stages().stage(Selected).kernel) == 2


def test_several_consumers_share_by_hand_only() -> None:
    make = partial(programs_scan.chunk_state, 8, 4096, 80, threads=256)
    assert compiled(make, TB_BLOCKS_PER_SM=True).stages().stage(Partitioned).registers["consumer0"] == 240


def test_a_block_with_its_share_of_registers_computes_the_same() -> None:
    g = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(1, 128, 1, 64, generator=g).half() for _ in range(3))
    program = programs_scan.linear_attention(1, 128, 1, 64, block_V=64)
    kernel = compile(program, target="emu:sm_90a", pass_configs=TWO)
    o = torch.zeros(1, 128, 1, 64, dtype=torch.float16)
    kernel(q, k, v, o)
    _, plain = run(programs_scan.linear_attention(1, 128, 1, 64, block_V=64), "emu:sm_90a", [q, k, v, o])
    assert torch.equal(o, plain[3])
    want = references_more.linear_attention(q, k, v).float()
    assert float((o.float() - want).norm() / want.norm()) < 2e-3
