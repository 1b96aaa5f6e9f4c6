"""The real kernels on interp and cpu: bit for bit on small integers where everything is exact, within the
bound elsewhere.
"""

from __future__ import annotations

import pytest
import torch

from tests.kernels import programs
from tests.kernels.cases import BOUNDED, EXACT
from tests.kernels.running import checked, integers, normal, run
from tilebench.kernel.decorator import compile

TARGETS = ("interp", "cpu")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EXACT)
def test_small_integers_agree_bit_for_bit(name: str, target: str) -> None:
    program = EXACT[name]()
    values = integers(compile(program, target="interp"), seed=3)
    for diff in checked(program, target, values):
        assert diff.verdict == "pass", f"{diff.wrong} wrong, {diff.pattern}"
        assert diff.how == "equal bit for bit"
        assert diff.checked == diff.total


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [*BOUNDED, "gemm-float16-NN", "gemm-int8-TT"])
def test_random_inputs_stay_within_the_bound(name: str, target: str) -> None:
    program = {**BOUNDED, **EXACT}[name]()
    values = normal(compile(program, target="interp"), seed=4)
    for diff in checked(program, target, values):
        assert diff.verdict == "pass", (
            f"{diff.wrong} of {diff.checked} wrong, worst {diff.max_ratio} x bound; {diff.pattern}"
        )
        assert diff.ambiguous <= diff.total // 100


@pytest.mark.parametrize("target", TARGETS)
def test_a_histogram_counts_every_element_once(target: str) -> None:
    x = torch.randint(0, 50, (3000,), dtype=torch.int32, generator=torch.Generator().manual_seed(1))
    h = torch.zeros(50, dtype=torch.int32)
    _, after = run(programs.histogram(3000, 50, block=512), target, [x, h])
    # the histogram adds to what is there, so nothing is poisoned
    assert torch.equal(after[1], torch.bincount(x.long(), minlength=50).int())


def test_stages_threads_and_tiles_change_no_bit_of_an_exact_product() -> None:
    results: list[torch.Tensor] = []
    for options in ({"num_stages": s} for s in (0, 1, 2, 3)):
        program = programs.gemm(72, 40, 64, block_M=64, block_N=64, **options)
        results.append(run(program, "interp", integers(compile(program, target="interp"), 5))[1][2])
    for blocks in ((32, 64, 16), (64, 32, 64)):
        program = programs.gemm(
            72, 40, 64, block_M=blocks[0], block_N=blocks[1], block_K=blocks[2], threads=64
        )
        results.append(run(program, "interp", integers(compile(program, target="interp"), 5))[1][2])
    assert all(torch.equal(r, results[0]) for r in results)
