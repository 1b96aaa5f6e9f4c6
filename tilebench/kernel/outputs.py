"""Which elements of its outputs a kernel wrote: they are poisoned before the launch and looked at after."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilebench.ir.dtype import DType
from tilebench.ir.tile import Buffer, Param
from tilebench.kernel import args
from tilebench.report import Finding, Span

if TYPE_CHECKING:
    from tilebench.kernel.compiled import Kernel
    from tilebench.kernel.verify import Reference

_MARKS = {"float16": 0x7E5D, "bfloat16": 0x7FDB, "float32": 0x7FC0DEAD, "float64": 0x7FF8_0000_DEAD_BEEF}
"""Quiet NaNs with a payload that arithmetic does not make: where they stand after a run, nobody wrote."""


def poison(kernel: Kernel, values: Sequence[Any]) -> None:
    """Fill what the kernel only writes: floats with a marked NaN, integers with their lowest value."""
    for param, value in zip(kernel.params, values, strict=True):
        if not _only_written(param):
            continue
        dtype = cast("Buffer", param.value).dtype
        mark = _MARKS.get(dtype.name)
        if mark is not None:
            _fill(_bits(value, dtype), mark)
        else:
            low = float("nan") if dtype.is_float else 0 if dtype.kind == "bool" else int(dtype.min)
            _fill(value, low)


def _only_written(param: Param) -> bool:
    return param.role == "out" and isinstance(param.value, Buffer)


def _bits(value: Any, dtype: DType) -> Any:
    """The tensor as signed integers of the same width, in the same memory."""
    if isinstance(value, np.ndarray):
        return cast("np.ndarray[Any, np.dtype[Any]]", value).view(f"i{dtype.bytes}")
    import torch

    return value.detach().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.bytes])


def _fill(value: Any, number: float) -> None:
    if isinstance(value, np.ndarray):
        cast("np.ndarray[Any, np.dtype[Any]]", value).fill(number)
    else:
        value.fill_(number)


def standing(param: Param, value: Any) -> np.ndarray | None:
    """Where the mark of `poison` still stands in an output, on the host; None when its type has no mark."""
    if not _only_written(param):
        return None
    dtype = cast("Buffer", param.value).dtype
    mark = _MARKS.get(dtype.name)
    if mark is None:
        return None
    host = value.detach().cpu() if hasattr(value, "detach") else value
    bits = args.view(host, param.name).array().view(f"i{dtype.bytes}")
    return np.asarray(bits == mark)


def missing(kernel: Kernel, values: Sequence[Any], oracle: Mapping[str, Reference]) -> dict[str, np.ndarray]:
    """Masks of the elements that nothing wrote, by output; only outputs that have some.

    The mark says it of floats of 16 bits and more; of other types the oracle does when it ran all blocks.
    """
    found: dict[str, np.ndarray] = {}
    for param, value in zip(kernel.params, values, strict=True):
        mask = standing(param, value)
        known = oracle.get(param.name)
        if mask is None and _only_written(param) and known is not None and known.complete:
            mask = None if known.covered is None else ~known.covered
        if mask is not None and mask.any():
            found[param.name] = mask
    return found


def put_back(kernel: Kernel, values: Sequence[Any], before: Sequence[Any], masks: Mapping[str, Any]) -> None:
    """Give the elements that nothing wrote what they held before the run."""
    for param, value, old in zip(kernel.params, values, before, strict=True):
        mask = masks.get(param.name)
        if mask is None:
            continue
        assign(value, old, mask)


def assign(value: Any, made: Any, mask: np.ndarray) -> None:
    """value[mask] = made[mask], in NumPy or torch; their bytes, since torch assigns few types by a mask."""
    if isinstance(value, np.ndarray):
        value[mask] = made[mask]
        return
    import torch

    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[value.element_size()]
    where = torch.from_numpy(mask).to(value.device)  # pyright: ignore[reportUnknownMemberType] # torch's gap
    value.detach().view(bits)[where] = made.detach().to(value.device).view(bits)[where]


def findings(kernel: Kernel, values: Sequence[Any], masks: Mapping[str, np.ndarray]) -> list[Finding]:
    """An error for each output with elements that nothing wrote; a warning for NaNs that were computed."""
    found: list[Finding] = []
    for param, value in zip(kernel.params, values, strict=True):
        mask = masks.get(param.name)
        place = (
            ()
            if param.loc is None
            else (Span(param.loc.line, param.loc.column, param.loc.end_line, param.loc.end_column),)
        )
        if mask is not None:
            found.append(
                Finding(
                    "unwritten", "error",
                    f"{int(mask.sum())} of {mask.size} elements of {param.name} are never written: "
                    f"{region(param.name, mask)}",
                    place,
                    "does the grid cover the whole output (T.ceildiv)? is a guard too narrow?",
                    "TB278",
                )
            )  # fmt: skip
        if _only_written(param) and cast("Buffer", param.value).dtype.is_float:
            nan = _nan(value, param.name)
            nan = nan if mask is None else nan & ~mask
            if nan.any():
                found.append(
                    Finding(
                        "nan", "warning",
                        f"{int(nan.sum())} of {nan.size} elements of {param.name} are NaN: "
                        f"{region(param.name, nan)}",
                        hint="0/0, inf - inf, or a NaN in the inputs; --steps shows where it is born",
                    )
                )  # fmt: skip
    return found


def _nan(value: Any, name: str) -> np.ndarray:
    from tilebench.kernel.verify import host_values

    got, _ = host_values(value, name)
    return np.isnan(got)


def region(name: str, mask: np.ndarray) -> str:
    """Where a mask is set, in slices: 'Y[100:128]' when it fills them, else its first element and its box."""
    if mask.ndim == 0:
        return name
    places = np.argwhere(mask)
    low, high = places.min(axis=0), places.max(axis=0) + 1
    box = ", ".join(
        ":" if a == 0 and b == n and mask.ndim > 1 else f"{a}:{b}" if b - a > 1 else f"{a}"
        for a, b, n in zip(low.tolist(), high.tolist(), mask.shape, strict=True)
    )
    extents: list[int] = (high - low).tolist()
    if math.prod(extents) == len(places):
        return f"{name}[{box}]"
    return f"within {name}[{box}], the first is {name}[{', '.join(map(str, places[0].tolist()))}]"
