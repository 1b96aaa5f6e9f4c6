"""Tensor maps of a launch: what bulk copies are told of the tensors, encoded by the driver on the host.

Source: CUDA driver API, cuTensorMapEncodeTiled; what it demands of addresses, strides, sizes and boxes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from tilebench.backends.cuda.driver import Gpu
from tilebench.errors import InternalError, LaunchError
from tilebench.ir.dtype import DType
from tilebench.ir.expr import Expr, Var, const, int_value
from tilebench.ir.hopper import TensorMap
from tilebench.ir.rewrite import substitute, variables
from tilebench.ir.thread import Memory

MAP_BYTES = 128
MAP_ALIGNMENT = 64
_KEPT_AT_MOST = 1024
_DATA_TYPES = {
    "uint8": 0, "int8": 0, "bool": 0, "float8_e4m3": 0, "float8_e5m2": 0, "float8_e8m0fnu": 0,
    "uint16": 1, "int16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7,
    "float64": 8, "bfloat16": 9, "tfloat32": 11,
}  # fmt: skip
"""CUtensorMapDataType; types that it does not have go as others of their width: copies only move them."""
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_PROMOTE_128, _PROMOTE_256 = 2, 3


def check_map(tensor: TensorMap) -> None:
    """Raises InternalError TB902 for a map that no tensor could be described by."""
    rank, itemsize = len(tensor.box), tensor.memory.dtype.bytes
    row = tensor.box[0] * itemsize if tensor.box else 0
    wrong = None
    if not 1 <= rank <= 5 or len(tensor.sizes) != rank or len(tensor.strides) != rank - 1:
        wrong = f"{rank} box extents, {len(tensor.sizes)} sizes and {len(tensor.strides)} strides"
    elif not all(1 <= n <= 256 for n in tensor.box):
        wrong = f"a box of {tensor.box}: at most 256 along a dimension"
    elif tensor.swizzle not in _SWIZZLES or row % 16 or (tensor.swizzle and row > tensor.swizzle):
        wrong = f"rows of {row} bytes with a swizzle of {tensor.swizzle} bytes"
    elif tensor.memory.dtype.name not in _DATA_TYPES:
        wrong = f"elements of {tensor.memory.dtype}"
    if wrong is not None:
        raise InternalError(
            "TB902", f"a tensor map of {tensor.memory.name} with {wrong}", at=tensor.memory.loc
        )


class TensorMaps:
    """The maps of one kernel. They are encoded once for each set of addresses, sizes and strides.

    places: where the address of each memory and the value of each variable stand in the kernel's arguments.
    """

    def __init__(self, maps: Sequence[TensorMap], places: Mapping[Memory | Var, int]) -> None:
        self._maps, self._places = tuple(maps), places
        self._variables = {v for m in maps for e in (*m.sizes, *m.strides) for v in variables(e)}
        used: set[Memory | Var] = {*self._variables, *(m.memory for m in maps)}
        self._indices = sorted({places[u] for u in used})
        self._key: Callable[[Sequence[Any]], Any] = itemgetter(*self._indices) if used else _nothing
        self._kept: dict[Any, bytes] = {}

    def encoded(self, gpu: Gpu, device: int, values: Sequence[int | float | bool]) -> bytes:
        """All maps one behind the other for a launch with these arguments.

        Raises LaunchError TB619 for a tensor that bulk copies cannot read, GpuError from the driver.
        """
        key = self._key(values)
        found = self._kept.get(key)
        if found is None:
            known = {v: const(int(values[self._places[v]]), v.dtype) for v in self._variables}
            addresses = [int(values[self._places[m.memory]]) for m in self._maps]
            with gpu.on(device):
                found = b"".join(
                    _encode(gpu, m, a, known) for m, a in zip(self._maps, addresses, strict=True)
                )
            if len(self._kept) >= _KEPT_AT_MOST:
                self._kept.clear()
            self._kept[key] = found
        return found


def _nothing(values: Sequence[Any]) -> Any:
    return None


def _encode(gpu: Gpu, tensor: TensorMap, pointer: int, known: Mapping[Var, Expr]) -> bytes:
    """One map; zeros for an empty tensor, from which nothing is copied."""
    sizes = [_number(e, known, tensor) for e in tensor.sizes]
    if 0 in sizes:
        return bytes(MAP_BYTES)
    itemsize = tensor.memory.dtype.bytes
    strides = [_number(e, known, tensor) * itemsize for e in tensor.strides]
    # the stride of a dimension of one element says nothing, but is checked by the driver
    strides = [s if n > 1 else -(-max(s, 16) // 16) * 16 for s, n in zip(strides, sizes[1:], strict=True)]
    _check(tensor, pointer, sizes, strides)
    row = tensor.box[0] * itemsize
    memory = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
    address = -(-ctypes.addressof(memory) // MAP_ALIGNMENT) * MAP_ALIGNMENT
    rank, wide, word = len(sizes), ctypes.c_uint64, ctypes.c_uint32
    code = gpu.encode_tensor_map(
        address,
        _DATA_TYPES[tensor.memory.dtype.name],
        rank,
        pointer,
        (wide * rank)(*sizes),
        (wide * max(1, rank - 1))(*strides),
        (word * rank)(*tensor.box),
        (word * rank)(*([1] * rank)),
        0,
        _SWIZZLES[tensor.swizzle],
        _PROMOTE_256 if row >= 256 else _PROMOTE_128,
        0,
    )
    if code != 0:
        shape = f"sizes {sizes}, strides {strides} bytes, box {list(tensor.box)}, swizzle {tensor.swizzle}"
        raise gpu.error(code, f"describe {_name(tensor)} to bulk copies", shape)
    return ctypes.string_at(address, MAP_BYTES)


def _check(tensor: TensorMap, pointer: int, sizes: Sequence[int], strides: Sequence[int]) -> None:
    why = None
    odd = next((s for s in strides if s % 16), None)
    if pointer % 16:
        why = f"it starts at {pointer:#x}, {pointer % 16} bytes behind a multiple of 16"
    elif odd is not None:
        dtype: DType = tensor.memory.dtype
        why = f"its rows are {odd} bytes ({odd // dtype.bytes} elements of {dtype}) apart"
    elif any(not 0 < s < 1 << 40 for s in strides):
        why = f"its strides are {', '.join(map(str, strides))} bytes; they must be positive and below 2^40"
    elif any(n > 1 << 32 for n in sizes):
        why = f"its sizes are {', '.join(map(str, sizes))}; a dimension has at most 2^32 elements"
    if why is None:
        return
    raise LaunchError(
        "TB619",
        f"bulk copies cannot reach {_name(tensor)} as it lies in memory",
        at=tensor.memory.loc,
        why=f"{why}; the copy engine works in units of 16 bytes",
        fix="pass a tensor that starts at a multiple of 16 bytes and whose rows are multiples of 16 bytes "
        "long (pad the last dimension, or use x.clone() instead of a slice)",
    )


def _name(tensor: TensorMap) -> str:
    return tensor.memory.origin.name if tensor.memory.origin is not None else tensor.memory.name


def _number(e: Expr, known: Mapping[Var, Expr], tensor: TensorMap) -> int:
    value = int_value(substitute(e, known)) if known else int_value(e)
    if value is None:
        raise LaunchError(
            "TB604",
            f"the sizes of {_name(tensor)} are not determined by the arguments",
            at=tensor.memory.loc,
        )
    return value
