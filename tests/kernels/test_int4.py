"""Weights of four bits in their packed order: right everywhere, and few instructions on sm_90a."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from tests.kernels import programs_int4, references_more
from tests.kernels.running import checked, run
from tilebench.kernel.decorator import compile

PROGRAMS: dict[str, tuple[Any, int, int]] = {
    "one group": (partial(programs_int4.gemm_int4_packed, block_K=128, num_stages=2), 1, 128),
    "two groups": (partial(programs_int4.gemm_int4_groups, block_K=128, num_stages=2), 2, 128),
}
"""Program of (M, N, K), its groups, its block_K."""


def inputs(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Whole numbers and scales that are powers of two: every sum is exact."""
    g = torch.Generator().manual_seed(seed)
    a = torch.randint(-3, 4, (16, 512), generator=g).half()
    w = torch.randint(0, 256, (128, 256), dtype=torch.uint8, generator=g)
    return a, w, (2.0 ** -torch.randint(0, 3, (128,), generator=g)).half()


def test_packing_loses_no_weight() -> None:
    i, j = np.indices((64, 256))
    row, word, bit = programs_int4.place(i, j)
    places = (row * 32 + word) * 32 + bit
    assert sorted(places.ravel()) == list(range(0, 64 * 256 * 4, 4))
    w = torch.randint(0, 256, (64, 128), dtype=torch.uint8)
    packed = programs_int4.pack_int4(w, 1, 256).view(torch.int32).numpy().view(np.uint32)[0]
    plain = torch.stack((w & 15, w >> 4), dim=-1).reshape(64, 256).numpy()
    assert np.array_equal(packed[row, word] >> bit & 15, plain)


@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_90a"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_weights_are_multiplied(name: str, target: str) -> None:
    make, groups, block_k = PROGRAMS[name]
    a, w, scale = inputs(3)
    packed = programs_int4.pack_int4(w, groups, block_k)
    values = [a.reshape(16 * groups, -1), packed, scale, torch.zeros(16, 128, dtype=torch.float16)]
    _, after = run(make(16, 128, 512), target, values)
    assert torch.equal(after[3], references_more.gemm_int4(a, w, scale))
    (diff,) = checked(make(16, 128, 512), target, values)
    assert diff.verdict == "pass", f"{diff.wrong} of {diff.checked} wrong; {diff.pattern}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_pair_of_weights_costs_little_more_than_two_instructions(name: str) -> None:
    from tilebench.backends.cuda.sass import disassemble

    make, _, _ = PROGRAMS[name]
    built = compile(make(16, 128, 2048, block_K=256), target="cuda:sm_90a").executable.built
    assert not built.spill_bytes
    assert not built.warnings
    lines = [x.split(None, 1)[1] for x in disassemble(built.binary).text.splitlines() if " " in x.strip()]
    count = {op: sum(x.startswith(op) for x in lines) for op in ("HADD2", "HFMA2", "LOP3", "LDS.128", "PRMT")}
    pairs = 64  # of a thread in the loop: 64 x 256 weights to 128 threads
    assert count["LDS.128"] >= 4
    assert count["HFMA2"] + count["HADD2"] <= pairs + 16
    assert count["LOP3"] <= pairs + 48
    assert count["PRMT"] <= 8
