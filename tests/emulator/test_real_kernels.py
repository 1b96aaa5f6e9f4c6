"""The real kernels, lowered for several architectures and run thread by thread: right values, no findings, no
conflicts.
"""

from __future__ import annotations

import pytest
import torch

from tests.kernels import programs
from tests.kernels.cases import BOUNDED, EXACT
from tests.kernels.running import integers, normal
from tilebench.kernel import verify
from tilebench.kernel.decorator import compile
from tilebench.kernel.emulate import emulate
from tilebench.kernel.session import poison
from tilebench.report import DiffInfo


def emulated(
    program: object, values: list[object], arch: str, schedule: object = "forward"
) -> list[DiffInfo]:
    """Run every block with all checks; findings fail the test."""
    kernel = compile(program, target="interp")
    after = verify.snapshot(values)
    poison(kernel, after)
    result = emulate(kernel, *after, target=f"emu:{arch}", schedule=schedule)
    assert not [f for f in result.findings if f.severity == "error"], result
    return verify.against_oracle(kernel, verify.snapshot(values), after)


@pytest.mark.parametrize("name", EXACT)
def test_small_integers_agree_bit_for_bit(name: str) -> None:
    program = EXACT[name]()
    values = integers(compile(program, target="interp"), seed=3)
    for diff in emulated(program, values, "sm_80"):
        assert diff.verdict == "pass", f"{diff.wrong} wrong, {diff.pattern}"
        assert diff.how == "equal bit for bit"


@pytest.mark.parametrize("name", BOUNDED)
def test_random_inputs_stay_within_the_bound(name: str) -> None:
    program = BOUNDED[name]()
    values = normal(compile(program, target="interp"), seed=4)
    for diff in emulated(program, values, "sm_90a"):
        assert diff.verdict == "pass", (
            f"{diff.wrong} of {diff.checked} wrong, worst {diff.max_ratio} x bound; {diff.pattern}"
        )


@pytest.mark.parametrize("schedule", ["reverse", 1, 2])
def test_the_order_of_threads_changes_nothing(schedule: object) -> None:
    program = EXACT["gemm-float16-NT"]()
    values = integers(compile(program, target="interp"), seed=9)
    for diff in emulated(program, values, "sm_80", schedule):
        assert diff.verdict == "pass"


def test_a_histogram_counts_every_element_once() -> None:
    x = torch.randint(0, 50, (3000,), dtype=torch.int32, generator=torch.Generator().manual_seed(1))
    h = torch.zeros(50, dtype=torch.int32)
    kernel = compile(programs.histogram(3000, 50, block=512), target="interp")
    result = emulate(kernel, x, h, target="emu:sm_80")
    assert not [f for f in result.findings if f.severity == "error"], result
    assert torch.equal(h, torch.bincount(x.long(), minlength=50).int())
