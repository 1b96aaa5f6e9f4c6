"""Tensors as raw bytes and back, for messages to workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tilebench.ir.dtype import as_dtype
from tilebench.kernel import args
from tilebench.kernel.compiled import torch_dtype


def pack(values: Sequence[Any]) -> tuple[list[Any], list[bytes]]:
    """Tensors as (dtype, shape) and bytes, scalars as they are."""
    described: list[Any] = []
    buffers: list[bytes] = []
    for value in values:
        if args.is_tensor(value):
            host = (
                value.detach().cpu().contiguous() if hasattr(value, "detach") else np.ascontiguousarray(value)
            )
            tensor = args.view(host, "argument")
            described.append({"dtype": tensor.dtype.name, "shape": list(tensor.shape)})
            buffers.append(tensor.array().tobytes())
        else:
            described.append(value)
    return described, buffers


def unpack(described: Sequence[Any], buffers: Sequence[bytes], device: str, numpy: bool = False) -> list[Any]:
    """torch tensors (on `device`) and scalars from what `pack` made.

    numpy: NumPy arrays where NumPy has the type, so that torch need not be there.
    """

    rest = iter(buffers)
    values: list[Any] = []
    for item in described:
        if not isinstance(item, dict):
            values.append(item)
            continue
        dtype = as_dtype(item["dtype"])
        if numpy and dtype.storage_dtype == dtype.compute_dtype:
            flat = np.frombuffer(bytearray(next(rest)), dtype.storage_dtype)
            shape = cast("list[int]", item["shape"])
            values.append(flat.reshape(shape))
            continue
        raw = bytes_tensor(next(rest))
        values.append(raw.view(torch_dtype(dtype.name)).reshape(item["shape"]).to(device))
    return values


def bytes_tensor(raw: bytes) -> Any:
    """A torch tensor of uint8 over a copy of the bytes."""
    import torch

    values: Any = np.frombuffer(bytearray(raw), np.uint8)
    return torch.from_numpy(values)  # pyright: ignore[reportUnknownMemberType] # torch's own gap
