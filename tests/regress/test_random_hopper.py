"""Random programs with warpgroup products and a producer: the emulator against interp, bit for bit."""

from __future__ import annotations

import pytest
import torch

import tilebench
from tests.regress.hopper_generator import Generated, generate
from tilebench.compiler import analyse
from tilebench.ir.verify import verify_kernel, verify_program
from tilebench.kernel.emulate import emulate
from tilebench.kernel.program import define
from tilebench.passes.stages import Lowered, Synchronised
from tilebench.targets import parse

SEEDS = range(141, 157)


def tensors(program: Generated, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    found: list[torch.Tensor] = []
    for t in program.tensors:
        x = torch.randint(t.low, t.high + 1, t.shape, generator=generator)
        dtype = torch.float8_e4m3fn if t.dtype == "float8_e4m3" else getattr(torch, t.dtype)
        found.append((x * 0 if t.output else x).to(dtype))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_the_emulator_gives_what_the_interpreter_gives(seed: int) -> None:
    program = generate(seed)
    kernel = tilebench.compile(define(program.text)[0], target="interp", pass_configs=program.configs)
    stages = analyse(kernel.prim, parse("emu:sm_90a"), thread_ir=True)
    verify_kernel(stages.stage(Synchronised).kernel, stages.stage(Synchronised).body)
    verify_program(stages.stage(Lowered).program)
    want, got = tensors(program, seed), tensors(program, seed)
    kernel(*want)
    result = emulate(kernel, *got, target="emu:sm_90a", schedule=("forward", "reverse", seed)[seed % 3])
    assert not [f for f in result.findings if f.severity == "error"], f"{program.text}\n{result}"
    for t, a, b in zip(program.tensors, want, got, strict=True):
        assert torch.equal(a.float(), b.float()), f"{t.name} differs:\n{program.text}"
