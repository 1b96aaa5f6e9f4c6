"""Run a program on a target with given inputs and compare every output with the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tilebench.kernel import verify
from tilebench.kernel.compiled import Kernel, torch_dtype
from tilebench.kernel.decorator import compile
from tilebench.kernel.session import poison
from tilebench.report import DiffInfo

Case = tuple[str, Any]


def integers(kernel: Kernel, seed: int) -> list[Any]:
    """Every parameter filled with -3..3 without 0: sums are exact in any order, a lost term always shows."""
    generator = torch.Generator().manual_seed(seed)
    made: list[Any] = []
    for param in kernel.params:
        dtype = torch_dtype(param.value.dtype.name)
        shape = param.value.static_shape  # type: ignore[union-attr]
        value = torch.randint(1, 4, shape, generator=generator) * (
            torch.randint(0, 2, shape, generator=generator) * 2 - 1
        )
        made.append(value.to(dtype))
    return made


def normal(kernel: Kernel, seed: int) -> list[Any]:
    """Every float parameter standard normal, integer ones small."""
    generator = torch.Generator().manual_seed(seed)
    made: list[Any] = []
    for param, whole in zip(kernel.params, integers(kernel, seed), strict=True):
        dtype = torch_dtype(param.value.dtype.name)
        shape = param.value.static_shape  # type: ignore[union-attr]
        made.append(torch.randn(shape, generator=generator).to(dtype) if dtype.is_floating_point else whole)
    return made


def run(program: Any, target: str, values: Sequence[Any]) -> tuple[Kernel, list[Any]]:
    """Compile and run on copies of the values; outputs are poisoned first.

    Returns the kernel and all values after it.
    """
    kernel = compile(program, target=target)
    after = verify.snapshot(values)
    poison(kernel, after)
    kernel.launch(after)
    return kernel, after


def checked(program: Any, target: str, values: Sequence[Any]) -> list[DiffInfo]:
    """The comparison of each output with the oracle's bound."""
    kernel, after = run(program, target, values)
    before = verify.snapshot(values)
    diffs = verify.against_oracle(kernel, before, after)
    assert diffs, "the oracle knows every statement of these programs"
    return diffs
