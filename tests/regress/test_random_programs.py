"""Random programs: interp, cpu and emulated GPU code agree bit for bit; the emulator finds nothing wrong."""

from __future__ import annotations

import pytest
import torch

import tilebench
from tests.regress.generator import Generated, generate
from tilebench.kernel.emulate import emulate
from tilebench.kernel.program import define

SEEDS = [*range(60), 1104, 1110, 1316]
"""The last three found two faults of the lowering (tests/regress/test_found.py); the rest never failed."""


def tensors(program: Generated, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    a = torch.randint(-3, 4, program.shape, generator=generator).to(getattr(torch, program.dtype))
    return [a, *(torch.zeros(program.shape, dtype=getattr(torch, program.result)) for _ in range(2))]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_target_gives_the_same_bits(seed: int) -> None:
    program = generate(seed)
    want = tensors(program, seed)
    tilebench.compile(define(program.text)[0], target="interp")(*want)
    native = tensors(program, seed)
    tilebench.compile(define(program.text)[0], target="cpu")(*native)
    lowered = tensors(program, seed)
    kernel = tilebench.compile(define(program.text)[0], target="interp")
    result = emulate(kernel, *lowered, target="emu:sm_80" if seed % 2 else "emu:sm_90a")
    assert not [f for f in result.findings if f.severity == "error"], f"{program.text}\n{result}"
    for name, a, b, c in zip("ABD", want, native, lowered, strict=True):
        assert torch.equal(a, b), f"cpu differs in {name}:\n{program.text}"
        assert torch.equal(a, c), f"the emulator differs in {name}:\n{program.text}"
