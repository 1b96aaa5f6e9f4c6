"""Run a kernel in IR form on cpu and on interp with NumPy arrays in storage form."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilebench.backends.base import TensorArgument
from tilebench.backends.cpu.build import Native, build
from tilebench.ir.expr import Var
from tilebench.ir.simplify import bounds
from tilebench.ir.tile import Buffer, Kernel
from tilebench.passes.check import check
from tilebench.targets import parse

CPU = parse("cpu")


def run_native(kernel: Kernel, *arguments: Any, built: Native | None = None) -> Native:
    """Check, build and launch `kernel`; arrays are changed in place. Gives what was launched."""
    executable = built or build(check(kernel, CPU), CPU)
    symbols: dict[Var, int] = {}
    wrapped: list[Any] = []
    for param, value in zip(kernel.params, arguments, strict=True):
        if isinstance(param.value, Buffer):
            strides = tuple(s // value.itemsize for s in value.strides)
            for extents, sizes in ((param.value.shape, value.shape), (param.value.strides or (), strides)):
                symbols.update(
                    {e: n for e, n in zip(extents, sizes, strict=bool(extents)) if isinstance(e, Var)}
                    if extents
                    else {}
                )
            wrapped.append(TensorArgument(value.ctypes.data, value.shape, strides, value))
        else:
            wrapped.append(value)
    ranges = {v: (n, n) for v, n in symbols.items()}
    grid: list[int] = []
    for extent in kernel.grid:
        interval = bounds(extent, ranges)
        assert interval is not None
        grid.append(interval[0])
    executable.launch(wrapped, symbols, tuple(grid))
    return executable


def same_storage(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays hold the same bytes, any NaN being equal to any other."""
    if a.dtype.kind == "f":
        return bool(np.array_equal(a, b, equal_nan=True))
    return bool(np.array_equal(a, b))
