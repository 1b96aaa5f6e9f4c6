"""Two arguments that share memory while the kernel writes one of them: refused before the launch.

The language lets blocks and threads run in any order, so what such a kernel reads is not defined; a parameter
that is itself read and written (inout) is passed once and is fine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilebench.errors import LaunchError

if TYPE_CHECKING:
    from tilebench.ir.tile import Kernel, Param
    from tilebench.kernel.args import TensorView

WORK = 10_000
"""Steps that the exact test of two interleaved views may take; beyond it they count as overlapping."""


def refuse_aliases(kernel: Kernel, views: Sequence[TensorView | None]) -> None:
    """Raises LaunchError TB615 when a tensor that the kernel writes shares an element with another."""
    known = [
        (p, v, *_span(v)) for p, v in zip(kernel.params, views, strict=True) if v is not None and v.pointer
    ]
    for i, (param, tensor, first, end) in enumerate(known):
        for other, second, low, high in known[i + 1 :]:
            if param.role == other.role == "in" or end <= low or high <= first:
                continue
            if tensor.device == second.device and _share(tensor, second):
                raise _alias(kernel, param, other, first == low and end == high)


def _span(v: TensorView) -> tuple[int, int]:
    """The addresses that a tensor touches: [first, end)."""
    if 0 in v.shape:
        return v.pointer, v.pointer
    size = v.dtype.bytes
    steps = [(n - 1) * s * size for n, s in zip(v.shape, v.strides, strict=True)]
    return v.pointer + sum(min(s, 0) for s in steps), v.pointer + sum(max(s, 0) for s in steps) + size


def _share(a: TensorView, b: TensorView) -> bool:
    """Whether two views whose spans overlap have an element in common."""
    try:
        return bool(np.shares_memory(_address_only(a), _address_only(b), max_work=cast("Any", WORK)))
    except np.exceptions.TooHardError:
        return True


def _address_only(v: TensorView) -> np.ndarray:
    """An array with the addresses of a tensor (of any device); its elements are never read."""

    class Addresses:
        __array_interface__ = {  # noqa: RUF012 # read once, below
            "version": 3,
            "data": (v.pointer, True),
            "shape": v.shape,
            "strides": tuple(s * v.dtype.bytes for s in v.strides),
            "typestr": f"|V{v.dtype.bytes}",
        }

    return np.asarray(cast("Any", Addresses()))


def _alias(kernel: Kernel, param: Param, other: Param, same: bool) -> LaunchError:
    written = param if param.role != "in" else other
    rest = other if written is param else param
    both = param.role != "in" and other.role != "in"
    return LaunchError(
        "TB615",
        f"{param.name} and {other.name} {'are the same memory' if same else 'share memory'}, "
        f"and {kernel.name} writes {'both' if both else written.name}",
        at=written.loc,
        why="blocks and threads run in any order, so a read may see the old value or the new one",
        fix=f"pass {rest.name}.clone() (NumPy: .copy()), or write the kernel with one tensor that it reads "
        "and writes",
    )
