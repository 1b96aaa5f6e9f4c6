"""cuda.bindings.driver as far as the back end uses it, without a GPU: it records calls and fails when told
to.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from tilebench.backends.cuda.driver import STICKY, LaunchAttribute, LaunchConfig

_NAMES = {
    2: b"CUDA_ERROR_OUT_OF_MEMORY",
    209: b"CUDA_ERROR_NO_BINARY_FOR_GPU",
    700: b"CUDA_ERROR_ILLEGAL_ADDRESS",
    701: b"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
}
_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *(ctypes.c_uint,) * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)

_POINTER = ctypes.c_void_p
_LAUNCH_WITH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(LaunchConfig), _POINTER, _POINTER, _POINTER)
_ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *(_POINTER, ctypes.c_int, ctypes.c_uint, _POINTER),
    *(_POINTER,) * 4,
    *(ctypes.c_int,) * 4,
)


class FakeCuda:
    """A machine of `devices` GPUs. `fail[name]` is the CUresult that a call gives; a sticky one goes to
    every later call.
    """

    def __init__(self, devices: int = 1) -> None:
        self.devices = devices
        self.fail: dict[str, int] = {}
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.launches: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self.launched_in: list[int] = []
        self.argument_sizes: list[int] = []
        self.context = 0
        self.sticky = 0
        self.maps: list[dict[str, Any]] = []
        self._launch = _LAUNCH(self._launch_kernel)
        self._launch_with = _LAUNCH_WITH(self._launch_with_attributes)
        self.attributes: list[tuple[int, int]] = []
        self._encode = _ENCODE(self._encode_map)

    def _answer(self, name: str, arguments: tuple[Any, ...], *values: Any) -> tuple[Any, ...]:
        self.calls.append((name, arguments))
        code = self.sticky or self.fail.get(name, 0)
        if code in STICKY:
            self.sticky = code
        return (code, *(values if code == 0 else (None,) * len(values)))

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        if not name.startswith("cu"):
            raise AttributeError(name)
        values = {
            "cuDeviceGetName": (b"Fake H200" + b"\0" * 10,),
            "cuDeviceTotalMem": (1 << 37,),
            "cuModuleLoadData": ("module",),
            "cuModuleGetFunction": (77,),
            "cuMemAllocAsync": (0x5000,),
            "cuMemGetInfo": (1 << 30, 1 << 37),
            "cuOccupancyMaxActiveBlocksPerMultiprocessor": (3,),
        }.get(name, ())
        return lambda *arguments: self._answer(name, arguments, *values)

    def cuDeviceGetCount(self) -> tuple[Any, ...]:
        return self._answer("cuDeviceGetCount", (), self.devices)

    def cuDeviceGet(self, index: int) -> tuple[Any, ...]:
        return self._answer("cuDeviceGet", (index,), index)

    def cuDeviceGetAttribute(self, attribute: int, device: int) -> tuple[Any, ...]:
        return self._answer(
            "cuDeviceGetAttribute",
            (attribute, device),
            {75: 9, 76: 0, 16: 132, 97: 232448, 38: 1, 13: 1}[attribute],
        )

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, ...]:
        return self._answer("cuDevicePrimaryCtxRetain", (device,), 100 + device)

    def cuCtxGetCurrent(self) -> tuple[Any, ...]:
        return self._answer("cuCtxGetCurrent", (), self.context)

    def cuCtxGetDevice(self) -> tuple[Any, ...]:
        return self._answer("cuCtxGetDevice", (), self.context - 100)

    def cuCtxSetCurrent(self, context: int) -> tuple[Any, ...]:
        self.context = context
        return self._answer("cuCtxSetCurrent", (context,))

    def cuPointerGetAttribute(self, attribute: int, pointer: int) -> tuple[Any, ...]:
        return self._answer("cuPointerGetAttribute", (attribute, pointer), pointer >> 32)

    def cuGetErrorName(self, code: int) -> tuple[Any, ...]:
        return 0, _NAMES.get(code, b"CUDA_ERROR_OTHER")

    def cuGetErrorString(self, code: int) -> tuple[Any, ...]:
        return 0, b"something of the driver"

    def cuGetProcAddress(self, symbol: bytes, version: int, flags: int) -> tuple[Any, ...]:
        others = {b"cuTensorMapEncodeTiled": self._encode, b"cuLaunchKernelEx": self._launch_with}
        function: Any = others.get(symbol, self._launch)
        return 0, ctypes.cast(function, ctypes.c_void_p).value, None

    def _encode_map(self, into: int, dtype: int, rank: int, pointer: int | None, *rest: int) -> int:
        """Record what was asked for; the 128 bytes begin with the number of the map, from 1."""
        tables, (interleave, swizzle, promotion, fill) = rest[:4], rest[4:]
        counts, words = (rank, rank - 1, rank, rank), (ctypes.c_uint64,) * 2 + (ctypes.c_uint32,) * 2
        sizes, strides, box, steps = (
            tuple((word * n).from_address(table))
            for table, n, word in zip(tables, counts, words, strict=True)
        )
        code, *_ = self._answer("cuTensorMapEncodeTiled", (pointer,))
        assert into % 64 == 0, "the driver demands a multiple of 64"
        assert (interleave, fill, set(steps)) == (0, 0, {1})
        if code == 0:
            self.maps.append(
                {
                    "dtype": dtype, "pointer": pointer, "sizes": sizes, "strides": strides, "box": box,
                    "swizzle": swizzle, "promotion": promotion,
                }
            )  # fmt: skip
            ctypes.memmove(into, len(self.maps).to_bytes(128, "little"), 128)
        return int(code)

    def _launch_with_attributes(self, config: Any, function: int, pointers: int, extra: int | None) -> int:
        """cuLaunchKernelEx: as cuLaunchKernel, and (id, value) of each attribute."""
        c = config.contents
        given = (LaunchAttribute * c.count).from_address(c.attributes)
        self.attributes += [(a.id, a.value[0]) for a in given]
        numbers = (c.grid_x, c.grid_y, c.grid_z, c.block_x, c.block_y, c.block_z, c.shared_bytes)
        return self._launch_kernel(function, *numbers, c.stream, pointers, extra)

    def _launch_kernel(self, function: int, *rest: Any) -> int:
        numbers, (stream, pointers, _) = rest[:7], rest[7:]
        addresses = (ctypes.c_void_p * max(1, len(self.argument_sizes))).from_address(pointers)
        values = tuple(
            int.from_bytes(ctypes.string_at(addresses[i], size), "little")
            for i, size in enumerate(self.argument_sizes)
        )
        code, *_ = self._answer("cuLaunchKernel", (function, *numbers, stream))
        if code == 0:
            self.launches.append((tuple(numbers), values))
            self.launched_in.append(self.context)
        return int(code)
