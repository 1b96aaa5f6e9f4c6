"""Run a kernel in IR form on interp with NumPy arrays in storage form."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilebench.backends.base import TensorArgument
from tilebench.backends.interp import Interpreted, build
from tilebench.ir.expr import Var
from tilebench.ir.simplify import bounds
from tilebench.ir.tile import Buffer, Kernel
from tilebench.passes.check import check
from tilebench.targets import parse

INTERP = parse("interp")


def run(
    kernel: Kernel,
    *arguments: Any,
    check_init: bool = False,
    check_races: bool = False,
    observer: Any = None,
    blocks: Any = None,
) -> Interpreted:
    """Check, build and launch `kernel`; arrays are changed in place. Gives what was launched."""
    typed = check(kernel, INTERP)
    symbols: dict[Var, int] = {}
    wrapped: list[Any] = []
    for param, value in zip(kernel.params, arguments, strict=True):
        if isinstance(param.value, Buffer):
            sizes = zip(param.value.shape, value.shape, strict=True)
            symbols.update({extent: size for extent, size in sizes if isinstance(extent, Var)})
            wrapped.append(
                TensorArgument(0, value.shape, tuple(s // value.itemsize for s in value.strides), value)
            )
        else:
            wrapped.append(value)
    ranges = {v: (n, n) for v, n in symbols.items()}
    grid: list[int] = []
    for extent in kernel.grid:
        interval = bounds(extent, ranges)
        assert interval is not None
        grid.append(interval[0])
    built = build(typed, INTERP, check_init, observer, check_races)
    built.launch(wrapped, symbols, tuple(grid), blocks=blocks)
    return built


def integers(rng: np.random.Generator, *shape: int, dtype: Any = np.float16) -> np.ndarray:
    """Values in -3..3 without 0: sums of products are exact, and a lost term always shows."""
    return (rng.integers(1, 4, shape) * rng.choice([-1, 1], shape)).astype(dtype)
