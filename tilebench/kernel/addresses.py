"""Tensors given by their address: a number for a parameter declared T.ptr, a table of numbers for one whose
entries T.make_tensor reads.

What lies at an address has the shape and the type that the program declares; nobody can check that. A table's
tensors are gathered into one before the launch, and what the kernel wrote is put back after it.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

from tilebench.errors import LaunchError
from tilebench.ir.tile import Buffer, Kernel, Param
from tilebench.kernel import args


def resolve(prim: Kernel, values: Sequence[Any], device: str) -> tuple[list[Any], Callable[[], None]]:
    """The values of a call with tensors in place of addresses, and what is to be done after it.

    Raises LaunchError TB603 for an address that is 0, TB615 for tensors of a table that overlap and are
    written.
    """
    tables = prim.attributes.get("tables", {})
    if not tables and "pointers" not in prim.attributes:
        return list(values), _nothing
    everything = len(values) == len(prim.params)
    params = [p for i, p in enumerate(prim.params) if everything or i not in prim.out_idx]
    if len(params) != len(values):
        return list(values), _nothing  # the call says what is missing
    made = list(values)
    after: list[Callable[[], None]] = []
    for n, (param, value) in enumerate(zip(params, values, strict=True)):
        if param.name in tables and _is_table(value):
            made[n], done = _gathered(param, [int(v) for v in value.tolist()], device)
            after.append(done)
    by_number = prim.attributes.get("pointers", ())
    if any(_is_address(p, v, by_number) for p, v in zip(params, made, strict=True)):
        known: list[Any] = []
        given = iter(zip(params, made, strict=True))
        for i, p in enumerate(prim.params):
            v = None if not everything and i in prim.out_idx else next(given)[1]
            number = not isinstance(p.value, Buffer)
            address = number or v is None or _is_address(p, v, by_number)
            known.append((v if number else None) if address else args.view_param(p, v))
        symbols = args.solve_symbols(prim, known)
        for n, (param, value) in enumerate(zip(params, made, strict=True)):
            if _is_address(param, value, by_number):
                assert isinstance(param.value, Buffer), "a number stands for a tensor"
                shape = [cast("int", args.evaluate(e, symbols)) for e in param.value.shape]
                made[n] = _at(param, int(value), shape, device)

    def put_back() -> None:
        for done in after:
            done()

    return made, put_back


def _nothing() -> None:
    """What most calls have to do after the launch."""


def _is_address(param: Param, value: Any, by_number: Sequence[str]) -> bool:
    return param.name in by_number and type(value) is int


def _is_table(value: Any) -> bool:
    return len(getattr(value, "shape", ())) == 1 and "int64" in str(getattr(value, "dtype", ""))


def _at(param: Param, address: int, shape: Sequence[int], device: str) -> Any:
    """A torch tensor over the memory at an address."""
    import torch

    from tilebench.kernel.compiled import torch_dtype

    assert isinstance(param.value, Buffer), "chosen by the caller"
    dtype = cast("torch.dtype", torch_dtype(param.value.dtype.name))
    count = math.prod(shape) * param.value.dtype.bytes
    if count == 0:
        return torch.empty(list(shape), dtype=dtype, device=device)
    if address <= 0:
        raise LaunchError(
            "TB603", f"{param.name}: the address of a tensor is {address}", at=param.loc,
            why="there is no memory at this address", fix="pass x.data_ptr() of a tensor that is alive",
        )  # fmt: skip
    if device == "cuda":
        flat = torch.as_tensor(_OnDevice(address, count), device="cuda")
    else:
        flat = torch.frombuffer((ctypes.c_uint8 * count).from_address(address), dtype=torch.uint8)
    return flat.view(dtype).view(list(shape))


class _OnDevice:
    """Bytes of a GPU's memory, as torch takes them."""

    def __init__(self, address: int, count: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (count,), "typestr": "|u1", "data": (address, False), "version": 3,
        }  # fmt: skip


def _gathered(param: Param, table: Sequence[int], device: str) -> tuple[Any, Callable[[], None]]:
    """The tensors of a table in one, and what puts back what was written."""
    import torch

    assert isinstance(param.value, Buffer), "a table stands for a tensor"
    buffer = param.value
    shape = list(buffer.static_shape[1:])
    if len(table) != buffer.static_shape[0]:
        raise LaunchError(
            "TB604", f"{param.name} has {len(table)} addresses, expected {buffer.static_shape[0]}",
            at=param.loc, fix="pass one address for each entry that is declared",
        )  # fmt: skip
    size = math.prod(shape) * buffer.dtype.bytes
    ordered = sorted(table)
    if param.role != "in" and any(b - a < size for a, b in pairwise(ordered)):
        raise LaunchError(
            "TB615", f"tensors of {param.name} share memory, and the kernel writes them", at=param.loc,
            why=f"each is {size} bytes long", fix="give each entry a tensor of its own",
        )  # fmt: skip
    views = [_at(param, address, shape, device) for address in table]
    stack = torch.stack(views) if views else torch.empty([0, *shape])

    def put_back() -> None:
        for view, part in zip(views, stack, strict=True):
            view.copy_(part)

    return stack, put_back if param.role != "in" else _nothing


__all__ = ["resolve"]
