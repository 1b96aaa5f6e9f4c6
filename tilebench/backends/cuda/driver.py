"""The CUDA driver through cuda-bindings: devices, loaded kernels, launches, and what its errors mean.

Work happens in the primary context of the device, the one that torch uses. Nothing is imported or initialised
before the first question; without a driver `available()` is False and everything else raises TargetError
TB512.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib import import_module
from typing import Any

from tilebench.backends.cuda.prelude import storage_bits
from tilebench.errors import LaunchError, TargetError
from tilebench.ir.dtype import DType
from tilebench.targets import arch_of

# CUDA driver API, CUdevice_attribute and CUfunction_attribute.
_MAJOR, _MINOR, _SMS, _SHARED_OPTIN, _L2, _CLOCK_KHZ = 75, 76, 16, 97, 38, 13
_MAX_DYNAMIC_SHARED = 8
_SHARED_WITHOUT_OPTIN = 48 * 1024

STICKY = {
    700: ("an illegal address was read or written", "an index runs outside its tensor or tile"),
    702: (
        "a kernel ran longer than the display driver allows",
        "the kernel runs too long, or a loop does not end",
    ),
    710: ("a device assertion failed", "its message is on the standard error of this process"),
    714: ("a hardware stack error occurred", "the kernel's stack is corrupt"),
    715: ("an illegal instruction was executed", "the binary does not fit this GPU, or a trap was reached"),
    716: (
        "a misaligned address was read or written",
        "a vector access needs an address that is a multiple of its width",
    ),
    717: (
        "an address was used in the wrong memory space",
        "a pointer does not point where the instruction needs it",
    ),
    718: ("the program counter became invalid", "the kernel's stack is corrupt"),
    719: ("the kernel failed while it ran", "an access outside of memory, or a trap"),
}
"""Errors after which every later call in this process fails too: cause and what to look for. CUDA driver
API, CUresult.
"""
_REFUSED = {
    1: (
        "the driver refused an argument of the launch",
        "a bug of tilebench, or a grid or block beyond the device's limits",
    ),
    2: ("the GPU's memory does not suffice", "free tensors, or make them smaller"),
    98: ("the kernel's binary has no such function", "a bug of tilebench"),
    200: ("the kernel's binary is not valid", "clear the store of built kernels"),
    209: ("the kernel's binary is not for this GPU", "compile for the GPU's own architecture: target='cuda'"),
    218: ("the driver cannot read this PTX", "install a newer driver"),
    222: ("the driver is too old for this code", "install a newer driver, or an older nvidia-cuda-nvrtc"),
    701: (
        "the launch needs more registers or shared memory than the GPU has",
        "use fewer threads or smaller tiles",
    ),
}
"""Errors after which the next call works."""
OUT_OF_MEMORY = 2
_WRONG_CONTEXT = (201, 400)


class GpuError(LaunchError):
    """The driver refused or the GPU failed. code: CUresult; sticky: this process can use the GPU no more."""

    code_number: int = 0
    sticky: bool = False


@dataclass(frozen=True)
class DeviceProperties:
    """What the driver says of a GPU. capability: (9, 0); memory in bytes; clock in kHz."""

    index: int
    name: str
    capability: tuple[int, int]
    sms: int
    memory_bytes: int
    shared_per_block: int
    l2_bytes: int
    clock_khz: int


class Gpu:
    """The driver's calls that we use, on an object with cuda.bindings.driver's functions; contexts by
    device.
    """

    def __init__(self, api: Any) -> None:
        self.api = api
        self._contexts: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._entered = threading.local()
        self.check(api.cuInit(0), "start the driver")
        self.devices = int(self.check(api.cuDeviceGetCount(), "count devices"))
        self.launch_kernel = _launcher(api)

    def check(self, result: Any, doing: str, detail: str = "") -> Any:
        """The values of a driver call. Raises GpuError for a failure; `doing` completes 'could not ...'."""
        answer: tuple[Any, ...] = result
        if int(answer[0]) != 0:
            raise self.error(int(answer[0]), doing, detail)
        return answer[1] if len(answer) == 2 else answer[1:]

    def error(self, code: int, doing: str, detail: str = "") -> GpuError:
        """CUresult `code` as an error that says whether the process can go on."""
        name = self._error_name(code)
        if code in STICKY:
            what, hint = STICKY[code]
            error = GpuError(
                "TB610",
                f"{what} on the GPU ({name}, {code})",
                why=f"{hint}; CUDA reports it at a later call, and this process cannot use the GPU any more",
                fix="find the access with target='emu' or 'interp', which name the line; restart the kernel "
                "to use the GPU again, or run with --isolate: that keeps such faults in a worker process",
            )
        else:
            what, hint = _REFUSED.get(code, (f"the driver could not {doing}", self._error_text(code)))
            error = GpuError(
                "TB611" if code == OUT_OF_MEMORY else "TB612",
                f"{what} ({name}, {code}){': ' + detail if detail else ''}",
                why=f"the driver could not {doing}; nothing was changed on the GPU",
                fix=hint,
            )
        error.code_number, error.sticky = code, code in STICKY
        return error

    def _error_name(self, code: int) -> str:
        return self._words("cuGetErrorName", code) or "CUDA_ERROR"

    def _error_text(self, code: int) -> str:
        return self._words("cuGetErrorString", code) or "see the CUDA driver API, CUresult"

    def _words(self, function: str, code: int) -> str:
        kind = getattr(self.api, "CUresult", int)
        try:
            status, text = getattr(self.api, function)(kind(code))
        except ValueError:  # a code that these bindings do not know
            return ""
        return text.decode(errors="replace") if int(status) == 0 and text else ""

    # ---------------------------------------------------------------- devices

    def current_device(self) -> int:
        """The device that torch would use in this thread, else that of the current context, else 0."""
        torch = sys.modules.get("torch")
        if torch is not None and getattr(torch.version, "cuda", None) and torch.cuda.is_initialized():
            return int(torch.cuda.current_device())
        context = self.check(self.api.cuCtxGetCurrent(), "read the current context")
        return int(self.check(self.api.cuCtxGetDevice(), "read the current device")) if int(context) else 0

    def properties(self, index: int) -> DeviceProperties:
        """Facts about device `index`."""
        device = self.check(self.api.cuDeviceGet(index), "open the device")
        name = self.check(self.api.cuDeviceGetName(128, device), "read the device's name")
        text = name.split(b"\0")[0].decode(errors="replace") if isinstance(name, bytes) else str(name)
        memory = int(self.check(self.api.cuDeviceTotalMem(device), "read the device's memory"))
        major, minor, sms, shared, l2, clock = (
            self._attribute(a, device) for a in (_MAJOR, _MINOR, _SMS, _SHARED_OPTIN, _L2, _CLOCK_KHZ)
        )
        return DeviceProperties(index, text, (major, minor), sms, memory, shared, l2, clock)

    def _attribute(self, attribute: int, device: Any) -> int:
        kind = getattr(self.api, "CUdevice_attribute", int)
        return int(
            self.check(self.api.cuDeviceGetAttribute(kind(attribute), device), "read a device attribute")
        )

    def enter(self, index: int) -> Any:
        """Make the primary context of a device current in this thread (no call when it already is). Gives
        the context.

        With a single device a thread that has entered once stays in its context: nothing else makes another
        one current.
        """
        if self.devices == 1 and (known := getattr(self._entered, "context", None)) is not None:
            return known
        context = self._contexts.get(index)
        if context is None:
            with self._lock:
                context = self._contexts.get(index)
                if context is None:
                    device = self.check(self.api.cuDeviceGet(index), "open the device")
                    context = self.check(
                        self.api.cuDevicePrimaryCtxRetain(device), "open the device's context"
                    )
                    self._contexts[index] = context
        current = self.check(self.api.cuCtxGetCurrent(), "read the current context")
        if int(current) != int(context):
            self.check(self.api.cuCtxSetCurrent(context), "make the device's context current")
        self._entered.context = context
        return context

    def leave(self) -> None:
        """Forget which context this thread is in: the next `enter` asks the driver."""
        self._entered.context = None

    @contextmanager
    def on(self, index: int) -> Generator[None]:
        """Work on a device, after which this thread is in the context that it was in: torch's current device
        is that of the context, and is the user's to choose.
        """
        if self.devices == 1:
            self.enter(index)
            yield
            return
        before = self.check(self.api.cuCtxGetCurrent(), "read the current context")
        changed = int(self.enter(index)) != int(before)
        try:
            yield
        except BaseException:
            if changed:
                self.api.cuCtxSetCurrent(before)  # the first failure is the one to tell
            raise
        if changed:
            self.check(self.api.cuCtxSetCurrent(before), "go back to the context before")

    def device_of_pointer(self, pointer: int) -> int:
        """The device that holds an address. CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL is 9."""
        kind = getattr(self.api, "CUpointer_attribute", int)
        return int(
            self.check(self.api.cuPointerGetAttribute(kind(9), pointer), "find the device of a tensor")
        )

    def memory(self, index: int) -> tuple[int, int]:
        """(free, total) bytes of a device."""
        with self.on(index):
            free, total = self.check(self.api.cuMemGetInfo(), "read the free memory")
        return int(free), int(total)

    def synchronize(self, index: int | None = None) -> None:
        """Wait for the device. Raises GpuError for a fault of any kernel before."""
        with self.on(self.current_device() if index is None else index):
            self.check(self.api.cuCtxSynchronize(), "wait for the device")

    # ---------------------------------------------------------------- kernels

    @cached_property
    def launch_with(self) -> Callable[..., int]:
        """cuLaunchKernelEx as a C function. Raises TargetError TB512 for a driver that has none."""
        config = ctypes.POINTER(LaunchConfig)
        return _function(self.api, "cuLaunchKernelEx", config, _POINTER, _POINTER, _POINTER)

    @cached_property
    def encode_tensor_map(self) -> Callable[..., int]:
        """cuTensorMapEncodeTiled as a C function. Raises TargetError TB512 for a driver that has none."""
        return _function(
            self.api,
            "cuTensorMapEncodeTiled",
            *(_POINTER, ctypes.c_int, _UNSIGNED, _POINTER),  # the map, type, rank, address
            *(_POINTER,) * 4,  # sizes, strides, box, element strides
            *(ctypes.c_int,) * 4,  # interleave, swizzle, promotion, fill
        )

    def load(self, index: int, binary: bytes, entry: str, shared_bytes: int) -> LoadedKernel:
        """Load a cubin on a device and find its kernel, ready for `shared_bytes` of dynamic shared memory."""
        with self.on(index):
            return self._load(index, binary, entry, shared_bytes)

    def _load(self, index: int, binary: bytes, entry: str, shared_bytes: int) -> LoadedKernel:
        module = self.check(self.api.cuModuleLoadData(binary), "load the kernel's binary")
        function = self.check(
            self.api.cuModuleGetFunction(module, entry.encode()), "find the kernel in its binary"
        )
        if shared_bytes > _SHARED_WITHOUT_OPTIN:
            kind = getattr(self.api, "CUfunction_attribute", int)
            detail = f"{shared_bytes} bytes of shared memory"
            self.check(
                self.api.cuFuncSetAttribute(function, kind(_MAX_DYNAMIC_SHARED), shared_bytes),
                "reserve shared memory",
                detail,
            )
        return LoadedKernel(self, index, module, function)

    def occupancy(self, kernel: LoadedKernel, threads: int, shared_bytes: int) -> int:
        """Blocks of the kernel that fit on one SM, by the driver."""
        with self.on(kernel.device):
            found = self.api.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                kernel.function, threads, shared_bytes
            )
        return int(self.check(found, "compute the occupancy"))


_POINTER, _UNSIGNED = ctypes.c_void_p, ctypes.c_uint


def _launcher(api: Any) -> Callable[..., int]:
    """cuLaunchKernel as a C function: a launch costs microseconds, and the GIL is released."""
    return _function(api, "cuLaunchKernel", _POINTER, *(_UNSIGNED,) * 7, _POINTER, _POINTER, _POINTER)


PROGRAMMATIC = 6
"""CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION."""


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: a number and a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int * 16))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((name, _UNSIGNED) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")),
        ("shared_bytes", _UNSIGNED),
        ("stream", _POINTER),
        ("attributes", _POINTER),
        ("count", _UNSIGNED),
    )


def _function(api: Any, name: str, *parameters: Any) -> Callable[..., int]:
    """A function of the driver as a C function of these parameters; its address is from the bindings."""
    code, address, _ = api.cuGetProcAddress(name.encode(), 12000, 0)
    if int(code) != 0 or not int(address):
        raise TargetError(
            "TB512",
            f"the NVIDIA driver has no {name}",
            why="it is older than CUDA 12",
            fix="install a newer driver",
        )
    return ctypes.CFUNCTYPE(ctypes.c_int, *parameters)(int(address))


class LoadedKernel:
    """A kernel on one device. The module is unloaded with the object."""

    def __init__(self, gpu: Gpu, device: int, module: Any, function: Any) -> None:
        self.gpu, self.device, self.module, self.function = gpu, device, module, function
        self._handle = int(function)

    def launch(
        self, grid: tuple[int, int, int], threads: int, shared_bytes: int, stream: int, arguments: int
    ) -> None:
        """Queue the kernel. arguments: address of an array of pointers to the arguments."""
        self.launcher(grid, threads, shared_bytes)(stream, arguments)

    def launcher(
        self, grid: tuple[int, int, int], threads: int, shared_bytes: int, *, overlap: bool = False
    ) -> Callable[[int, int], None]:
        """`launch` with all but (stream, arguments) settled, and already in C's form.

        overlap: the kernel may be brought in while the one before it in the stream runs; it waits for it.
        """
        run = (self._overlapping if overlap else self._alone)(grid, threads, shared_bytes)
        gpu, device = self.gpu, self.device

        def run_there(stream: int, arguments: int) -> None:
            with gpu.on(device):
                run(stream, arguments)

        return run if gpu.devices == 1 else run_there

    def _alone(
        self, grid: tuple[int, int, int], threads: int, shared_bytes: int
    ) -> Callable[[int, int], None]:
        """`launcher` of a launch that begins when the one before it is over."""
        shape, device = (grid, threads, shared_bytes), self.device
        enter, launch_kernel = self.gpu.enter, self.gpu.launch_kernel
        x, y, z, one = (_UNSIGNED(n) for n in (*grid, 1))
        handle, block, shared, nothing = (
            _POINTER(self._handle), _UNSIGNED(threads), _UNSIGNED(shared_bytes), _POINTER()
        )  # fmt: skip

        def run(stream: int, arguments: int) -> None:
            enter(device)
            code = launch_kernel(handle, x, y, z, block, one, one, shared, stream, arguments, nothing)
            if code:
                self._mend(code, shape, stream, arguments)

        return run

    def _overlapping(
        self, grid: tuple[int, int, int], threads: int, shared_bytes: int
    ) -> Callable[[int, int], None]:
        """`launcher` of a launch with the attribute that lets it overlap; settled once for each stream."""
        enter, device, launch_kernel = self.gpu.enter, self.device, self.gpu.launch_with
        handle, nothing = _POINTER(self._handle), _POINTER()
        attribute = LaunchAttribute(PROGRAMMATIC, 0, (ctypes.c_int * 16)(1))
        settled: dict[int, LaunchConfig] = {}

        def run(stream: int, arguments: int) -> None:
            enter(device)
            config = settled.get(stream)
            if config is None:
                config = settled[stream] = LaunchConfig(
                    *grid, threads, 1, 1, shared_bytes, stream, ctypes.addressof(attribute), 1
                )
            code = launch_kernel(config, handle, arguments, nothing)
            if code:  # without the attribute it waits no less; what else is wrong is said there
                self.launch(grid, threads, shared_bytes, stream, arguments)

        return run

    def _mend(
        self, code: int, shape: tuple[tuple[int, int, int], int, int], stream: int, arguments: int
    ) -> None:
        """Launch again in the right context where that was wrong. Raises GpuError for what it was else."""
        gpu, (grid, threads, shared_bytes) = self.gpu, shape
        if code in _WRONG_CONTEXT:  # somebody else made another context current in this thread
            gpu.leave()
            gpu.enter(self.device)
            code = gpu.launch_kernel(
                self._handle, *grid, threads, 1, 1, shared_bytes, stream, arguments, None
            )
        if code != 0:
            said = f"grid {grid}, {threads} threads, {shared_bytes} bytes of shared memory"
            raise gpu.error(code, "launch the kernel", said)

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if finalizing():  # bound above: this module's own names may be gone by then
            return
        try:
            with self.gpu.on(self.device):
                self.gpu.api.cuModuleUnload(self.module)
        except GpuError:
            pass  # the context is gone, and the module with it


class ArgumentPack:
    """The buffer that cuLaunchKernel reads its arguments from, and an array of their addresses.

    One 8-byte slot each, then the tensor maps: 128 bytes each, from a multiple of 64.
    """

    def __init__(self, dtypes: Sequence[DType | None], maps: int = 0) -> None:
        """dtypes: one for each argument, None for a pointer; maps: how many tensor maps follow. Raises
        TargetError TB507 for a type with no C form.
        """
        self._format = struct.Struct("=" + "".join(_slot(d) for d in dtypes))
        self._pack = self._format.pack_into
        narrow = ((i, d) for i, d in enumerate(dtypes) if d is not None and d.is_float and d.bits < 32)
        self._narrow = tuple((i, partial(storage_bits, dtype=d)) for i, d in narrow)
        slots = max(8, 8 * len(dtypes))
        self._values = ctypes.create_string_buffer(slots + (64 + 128 * maps if maps else 0))
        first = ctypes.addressof(self._values)
        self._first_map = -(-(first + slots) // 64) * 64
        self._maps = b""
        addresses = [first + 8 * i for i in range(len(dtypes))]
        addresses += [self._first_map + 128 * i for i in range(maps)]
        self._pointers = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
        self.address = ctypes.addressof(self._pointers)
        self.lock = threading.Lock()

    def fill(self, values: list[int | float | bool], maps: bytes = b"") -> None:
        """Write the values (the list is changed) and the tensor maps, one behind the other.

        Hold `lock` from here until the launch has returned.
        """
        for i, bits in self._narrow:
            values[i] = bits(float(values[i]))
        self._pack(self._values, 0, *values)
        if maps is not self._maps:
            ctypes.memmove(self._first_map, maps, len(maps))
            self._maps = maps


def _slot(dtype: DType | None) -> str:
    if dtype is None:
        return "Q"
    letters = {
        "bool": "?7x", "float32": "f4x", "tfloat32": "f4x", "float64": "d", "float16": "H6x",
        "bfloat16": "H6x", "float8_e4m3": "B7x", "float8_e5m2": "B7x", "float8_e8m0fnu": "B7x",
    }  # fmt: skip
    if dtype.name in letters:
        return letters[dtype.name]
    letter, pad = {8: ("b", 7), 16: ("h", 6), 32: ("i", 4), 64: ("q", 0)}[max(8, dtype.bits)]
    return (letter.upper() if dtype.kind == "uint" else letter) + (f"{pad}x" if pad else "")


# ------------------------------------------------------------------ this process's driver


@cache
def gpu() -> Gpu:
    """The driver. Raises TargetError TB512 when there is none, or no GPU."""
    try:
        found = Gpu(import_module("cuda.bindings.driver"))
    except (ImportError, OSError, RuntimeError, AttributeError, LaunchError) as error:
        first = str(getattr(error, "what", error)).splitlines()
        raise TargetError(
            "TB512",
            "there is no NVIDIA driver that works on this machine",
            why=f"{type(error).__name__}: {first[0] if first else ''}",
            fix="use target='cpu', 'interp' or 'emu' here; on a machine with a GPU install its driver "
            "(nvidia-smi must work)",
        ) from error
    if found.devices == 0:
        raise TargetError(
            "TB512",
            "the NVIDIA driver sees no GPU",
            why="cuDeviceGetCount gives 0",
            fix="check CUDA_VISIBLE_DEVICES and nvidia-smi; else use target='cpu', 'interp' or 'emu'",
        )
    return found


@cache
def available() -> bool:
    """Whether there is a driver and a GPU."""
    try:
        gpu()
    except TargetError:
        return False
    return True


@cache
def properties(index: int) -> DeviceProperties:
    """Facts about a device. Raises TargetError TB512 without one."""
    return gpu().properties(index)


def device_name(index: int | None = None) -> str:
    """'NVIDIA H200' of the current (or given) device."""
    return properties(gpu().current_device() if index is None else index).name


def arch(index: int | None = None) -> str:
    """'sm_90a' for the current (or given) device. Raises TargetError TB502 for one that no code here fits."""
    return arch_of(*properties(gpu().current_device() if index is None else index).capability)


def synchronize() -> None:
    """Wait for the current device. Raises GpuError for a fault of any kernel before."""
    gpu().synchronize()
