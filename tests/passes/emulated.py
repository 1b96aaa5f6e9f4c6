"""Kernels in IR form through all passes and the emulator, against interp, bit for bit on small integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.backends.running import run
from tests.ops.test_examples import SYMBOL, arguments
from tilebench.backends.emulator import run_program
from tilebench.backends.emulator.schedule import EmulationResult
from tilebench.compiler import Compilation, analyse
from tilebench.ir.dtype import decode
from tilebench.ir.tile import Buffer, Kernel
from tilebench.targets import parse


@dataclass(frozen=True)
class Emulated:
    """A compilation and what the emulator said of a run that was right."""

    compilation: Compilation
    result: EmulationResult


def assert_emulated_is_interp(
    kernel: Kernel, seed: int = 1, target: str = "emu:sm_90", symbol: int = SYMBOL
) -> Emulated:
    """Compile, run and compare; the emulator must find nothing."""
    expected, emulated = arguments(kernel, seed, True), arguments(kernel, seed, True)
    run(kernel, *expected)
    compilation = analyse(kernel, parse(target))
    result = run_program(compilation.last.program, emulated, dict.fromkeys(kernel.symbols, symbol))  # type: ignore[union-attr]
    assert not result.findings, "\n".join(f.text for f in result.findings)
    for param, a, b in zip(kernel.params, expected, emulated, strict=True):
        assert isinstance(param.value, Buffer)
        x, y = decode(a, param.value.dtype), decode(b, param.value.dtype)
        assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f"), param.name
    return Emulated(compilation, result)
