"""After every pass, the IR is valid: the examples of the ops and the real kernels, for three generations of
GPUs.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernels import programs
from tests.ops.test_examples import EXAMPLES
from tilebench.compiler import passes
from tilebench.ir.tile import Kernel
from tilebench.ir.verify import verify_kernel, verify_program
from tilebench.language.parse import parse_prim_func
from tilebench.passes.check import check
from tilebench.passes.stages import Lowered, Scheduled, Synchronised
from tilebench.targets import parse

PROGRAMS = [
    pytest.param(programs.gemm(256, 256, 128), id="gemm"),
    pytest.param(programs.gemm(200, 136, 72, transpose_A=True, transpose_B=True), id="gemm-tails-transposed"),
    pytest.param(programs.softmax(37, 100), id="softmax"),
    pytest.param(programs.rms_norm(37, 128), id="rms-norm"),
    pytest.param(programs.attention(1, 2, 128, 192, 64, True), id="attention-causal"),
    pytest.param(programs.mlp(140, 150, 48), id="mlp"),
    pytest.param(programs.transpose(100, 70), id="transpose"),
    pytest.param(programs.histogram(5000, 64), id="histogram"),
]


def verify_all(kernel: Kernel, target: str) -> None:
    stage: Any = check(kernel, parse(target))
    verify_kernel(stage.kernel)
    for _, run in passes():
        stage = run(stage)
        match stage:
            case Scheduled() | Synchronised():
                verify_kernel(stage.kernel, stage.body)
            case Lowered():
                verify_program(stage.program)
            case _:
                pass
    assert isinstance(stage, Lowered)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_stay_valid(example: Any) -> None:
    verify_all(example(), "emu:sm_80")


@pytest.mark.parametrize("target", ["emu:sm_80", "emu:sm_90a", "emu:sm_120"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_real_kernels_stay_valid(program: Any, target: str) -> None:
    verify_all(parse_prim_func(program), target)
