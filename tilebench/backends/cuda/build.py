"""A lowered kernel -> an executable: emit, look in the store, compile, keep. The GPU is touched at the
first launch only.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from tilebench.backends.base import Argument, Built, TensorArgument
from tilebench.backends.cuda import flags, nvrtc
from tilebench.backends.cuda.driver import ArgumentPack, Gpu, LoadedKernel
from tilebench.backends.cuda.emit import ENTRY, FILE, Emitted, compiled_text, emit, kernel_parameters
from tilebench.backends.cuda.prepared import PreparedLaunch
from tilebench.backends.cuda.tensor_maps import TensorMaps
from tilebench.errors import LaunchError, Source, TargetError
from tilebench.ir.expr import Var, const, int_value
from tilebench.ir.rewrite import substitute
from tilebench.ir.thread import Memory, Program
from tilebench.passes.stages import Lowered
from tilebench.report import CodeText
from tilebench.store import Store, current_store, make_key
from tilebench.targets import Target

_GRID_LIMITS = (
    2**31 - 1,
    65535,
    65535,
)  # CUDA C++ programming guide, "Technical Specifications per Compute Capability"


def warm() -> threading.Thread:
    """Start NVRTC in a thread, so that the first cell does not pay for it."""
    return nvrtc.warm()


def nvrtc_version() -> tuple[int, int]:
    """(13, 5). Raises TargetError TB510 where there is no NVRTC."""
    major, minor = nvrtc.version().split(".")
    return int(major), int(minor)


def build(stage: Lowered, target: Target) -> CudaExecutable:
    """Compile for target.arch (its program's own when the target names none).

    Without NVRTC the executable has the CUDA text and no binary; its launch then raises TargetError TB510.
    Raises InternalError TB903 when NVRTC refuses the text, TargetError TB507, TB508, TB511 for what is not
    supported.
    """
    kernel = stage.kernel
    return build_program(stage.program, target, kernel.loc.source if kernel.loc is not None else None)


def build_program(
    program: Program, target: Target, source: Source | None = None, store: Store | None = None
) -> CudaExecutable:
    """`build` for a thread program alone. source: the cell, for error messages; store: instead of the
    configured one.
    """
    start = time.perf_counter()
    emitted = emit(program)
    emit_ms = (time.perf_counter() - start) * 1e3
    cuda = CodeText("cuda", emitted.text, emitted.lines)
    arch = target.arch or program.arch
    if not nvrtc.available():
        built = Built(
            target,
            (cuda,),
            shared_bytes=program.shared_bytes,
            entry=emitted.entry,
            milliseconds={"emit": emit_ms},
        )
        return CudaExecutable(built, program)
    compiled, cached, ms = _compile(emitted, arch, source, store or current_store(), passed(program))
    built = Built(
        target,
        (cuda, ptx_text(compiled.ptx)),
        registers=compiled.registers,
        spill_bytes=compiled.spill_bytes,
        shared_bytes=program.shared_bytes,
        log=compiled.log,
        warnings=compiled.warnings,
        binary=compiled.cubin,
        entry=emitted.entry,
        milliseconds={
            "emit": emit_ms,
            "nvrtc": 0.0 if cached else compiled.milliseconds,
            "build": emit_ms + ms,
        },
        cached=cached,
    )
    return CudaExecutable(built, program)


def passed(program: Program) -> tuple[str, ...]:
    """The user's compile flags that NVRTC is given."""
    return flags.sort(program.facts.get("compile_flags", ())).passed


def _compile(
    emitted: Emitted, arch: str, source: Source | None, store: Store, given: tuple[str, ...]
) -> tuple[nvrtc.Compiled, bool, float]:
    """(what NVRTC made or the store had, whether it was stored, milliseconds)."""
    start = time.perf_counter()
    text = compiled_text(emitted)
    entry = store.get(_key(text, arch, given))
    if entry is not None and {"kernel.ptx", "kernel.cubin", "log.txt"} <= entry.files.keys():
        log = entry.files["log.txt"].decode()
        registers, spills, stack, warnings = nvrtc.read_log(log)
        ptx, cubin = entry.files["kernel.ptx"].decode(), entry.files["kernel.cubin"]
        compiled = nvrtc.Compiled(ptx, cubin, log, registers, spills, stack, warnings, 0.0)
        return compiled, True, (time.perf_counter() - start) * 1e3
    compiled = nvrtc.compile_text(text, arch, source, given)
    keep(store, text, arch, compiled.ptx, compiled.cubin, compiled.log, given)
    return compiled, False, (time.perf_counter() - start) * 1e3


def _key(text: str, arch: str, given: Sequence[str]) -> str:
    return make_key("cuda", text, *nvrtc.options(arch, given), nvrtc.version(), arch)


def is_kept(store: Store, text: str, arch: str, given: Sequence[str] = ()) -> bool:
    """Whether the store has the binary of this text, made with these flags of the user's."""
    return store.get(_key(text, arch, given)) is not None


def keep(
    store: Store, text: str, arch: str, ptx: str, cubin: bytes, log: str, given: Sequence[str] = ()
) -> None:
    """Put what NVRTC made of a text, here or in another process, where `build` finds it."""
    files = {
        "kernel.cu": text.encode(),
        "kernel.ptx": ptx.encode(),
        "kernel.cubin": cubin,
        "log.txt": log.encode(),
    }
    meta = {"arch": arch, "nvrtc": nvrtc.version(), "options": list(nvrtc.options(arch, given))}
    store.put(_key(text, arch, given), files, meta)


_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*?inlined_at\s+(\d+)\s+(\d+))?")


def ptx_text(ptx: str) -> CodeText:
    """PTX without its debug sections, each line with the cell line that its `.loc` names (0 for none)."""
    files = {number for number, name in _FILE.findall(ptx) if name == FILE}
    texts: list[str] = []
    lines: list[int] = []
    line = 0
    in_section = False
    for text in ptx.rstrip("\n").split("\n"):
        if in_section:
            in_section = "}" not in text
            continue
        if text.lstrip().startswith(".section"):
            in_section = "}" not in text
            continue
        if (found := _LOC.match(text)) is not None:
            own, at = (found[1], found[2]), (found[3], found[4])
            line = int(own[1]) if own[0] in files else int(at[1]) if at[0] in files else line
            continue
        if _FILE.match(text) or text.startswith("$L__tmp") or text.lstrip().startswith("//"):
            continue
        if not text.strip() and texts and not texts[-1].strip():
            continue
        if text.startswith((".visible", ".entry", "}")):
            line = 0
        texts.append(text)
        lines.append(line if text.strip() else 0)
    while texts and not texts[-1].strip():
        texts.pop()
        lines.pop()
    return CodeText("ptx", "\n".join(texts), tuple(lines))


class CudaExecutable:
    """A built CUDA kernel. It is loaded on a device when it is first launched there."""

    def __init__(self, built: Built, program: Program, gpu: Callable[[], Gpu] | None = None) -> None:
        self.built = built
        self.program = program
        self._gpu = gpu
        self._loaded: dict[int, LoadedKernel] = {}
        self._arguments, self._workspaces = kernel_parameters(program)
        dtypes = [None if isinstance(a, Memory) else a.dtype for a in self._arguments]
        slots = [*dtypes, *(None for _ in self._workspaces)]
        self._new_pack = partial(ArgumentPack, slots, len(program.tensor_maps))
        self._pack = self._new_pack()
        self._maps = _maps(program, (*self._arguments, *self._workspaces)) if program.tensor_maps else None
        listed = {id(p.value) for p in program.params}
        self._extra = tuple(s for s in program.symbols if id(s) not in listed)

    def launch(
        self,
        arguments: Sequence[Argument],
        symbols: Mapping[Var, int],
        grid: tuple[int, ...],
        stream: int = 0,
    ) -> None:
        """Queue the kernel on a stream (a CUstream as an int); an empty grid queues nothing.

        Raises LaunchError: TB613 for a grid beyond CUDA's limits, TB619 for a tensor that bulk copies cannot
        reach, GpuError TB610-TB612 from the driver; TargetError TB510 without a binary, TB512 without a
        driver.
        """
        if 0 in grid:
            return
        self.prepare(arguments, symbols, grid).launch(_values(arguments), stream)

    def prepare(
        self, arguments: Sequence[Argument], symbols: Mapping[Var, int], grid: tuple[int, ...]
    ) -> PreparedLaunch:
        """The launch of these arguments on their device, with other addresses and numbers. Raises as `launch`
        does.
        """
        kernel = self.load(self._device(self._find_gpu(), arguments))
        program = self.program
        return PreparedLaunch(
            kernel,
            (_grid(program.launched(grid)), program.threads, program.shared_bytes),
            self._pack,
            self._maps,
            [symbols[s] for s in self._extra],
            self._sizes(symbols) if self._workspaces else (),
            overlap=bool(program.facts.get("overlap_launches")),
        )

    def bound(
        self, arguments: Sequence[Argument], symbols: Mapping[Var, int], grid: tuple[int, ...]
    ) -> Callable[[int], None]:
        """The launch of exactly these arguments, a function of the stream. Raises as `launch` does."""
        return self.prepare(arguments, symbols, grid).bound(_values(arguments), self._new_pack())

    def load(self, device: int) -> LoadedKernel:
        """The kernel on a device, loaded on first use. Raises TargetError TB510 when there is no binary."""
        kernel = self._loaded.get(device)
        if kernel is None:
            if not self.built.binary:
                nvrtc.version()  # raises TB510: why there is none
                raise TargetError(
                    "TB510",
                    "this kernel was built without a CUDA compiler",
                    why="it has text but no binary",
                    fix="compile it again",
                )
            kernel = self._find_gpu().load(
                device, self.built.binary, self.built.entry or ENTRY, self.program.shared_bytes
            )
            self._loaded[device] = kernel
        return kernel

    @contextmanager
    def workspace(self, size: int, stream: int, arguments: Sequence[Argument]) -> Generator[int]:
        """The address of `size` bytes on the arguments' device, which are given back on the stream."""
        gpu = self._find_gpu()
        with gpu.on(self._device(gpu, arguments)):
            made = gpu.api.cuMemAllocAsync(size, stream)
            pointer = int(gpu.check(made, "allocate a workspace", f"{size} bytes"))
            try:
                yield pointer
            finally:
                gpu.api.cuMemFreeAsync(pointer, stream)

    def _find_gpu(self) -> Gpu:
        if self._gpu is not None:
            return self._gpu()
        from tilebench.backends.cuda.driver import gpu

        return gpu()

    def _device(self, gpu: Gpu, arguments: Sequence[Argument]) -> int:
        """The device of the tensors; asked for only where there are several."""
        if gpu.devices == 1:
            return 0
        first = next((a.pointer for a in arguments if isinstance(a, TensorArgument) and a.pointer), 0)
        return gpu.device_of_pointer(first) if first else gpu.current_device()

    def _sizes(self, symbols: Mapping[Var, int]) -> list[int]:
        """Bytes of each workspace."""
        known = {v: const(n, v.dtype) for v, n in symbols.items()}
        found: list[int] = []
        for memory in self._workspaces:
            count = int_value(substitute(memory.shape[0], known))
            if count is None:
                raise LaunchError(
                    "TB604",
                    f"the size of the workspace {memory.name} is not determined by the arguments",
                    at=memory.loc,
                )
            found.append(max(1, count * memory.dtype.bytes))
        return found


def _values(arguments: Sequence[Argument]) -> list[int | float | bool]:
    return [a.pointer if isinstance(a, TensorArgument) else a for a in arguments]


def _maps(program: Program, arguments: Sequence[Memory | Var]) -> TensorMaps:
    """The tensor maps of a program; the memory of a view is that of the tensor."""
    places: dict[Memory | Var, int] = {a: i for i, a in enumerate(arguments)}
    for buffer, memory in program.globals.items():
        places.setdefault(memory, places[program.globals[buffer.data]])
    return TensorMaps(program.tensor_maps, places)


def _grid(grid: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*grid, 1, 1)[:3]
    if 0 < x < 65536 and 0 < y < 65536 and 0 < z < 65536:
        return x, y, z
    for axis, (extent, limit) in enumerate(zip((x, y, z), _GRID_LIMITS, strict=True)):
        if not 0 < extent <= limit:
            raise LaunchError(
                "TB613",
                f"the grid {'x'.join(map(str, grid))} is too large: axis {axis} has {extent} blocks",
                why=f"CUDA allows at most {limit} there",
                fix="put the largest extent first in T.Kernel, or let a block do more",
            )
    return x, y, z
