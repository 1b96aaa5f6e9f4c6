"""NVRTC through cuda-bindings: CUDA C++ text -> PTX, cubin, log. Releases the GIL while it compiles."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from tilebench.backends.cuda.emit import FILE
from tilebench.errors import InternalError, LaunchError, Loc, Source, TargetError


@dataclass(frozen=True)
class Compiled:
    """What NVRTC made. registers and spill_bytes are of the entry, from ptxas's log; warnings: its C75xx
    lines.
    """

    ptx: str
    cubin: bytes
    log: str
    registers: int | None
    spill_bytes: int | None
    stack_bytes: int
    warnings: tuple[str, ...]
    milliseconds: float


@cache
def _nvrtc() -> Any:
    """cuda.bindings.nvrtc with its library loaded. Raises TargetError TB510 where there is none."""
    try:
        nvrtc: Any = import_module("cuda.bindings.nvrtc")
        result = nvrtc.nvrtcVersion()[0]
    except Exception as error:  # the loader raises RuntimeError, OSError or its own kinds, by platform
        said = (str(error).splitlines() or ["cuda-bindings could not load it"])[0]
        raise TargetError(
            "TB510",
            "there is no CUDA compiler (NVRTC) on this machine",
            why=f"{type(error).__name__}: {said}",
            fix="pip install 'cuda-bindings>=13,<14' 'nvidia-cuda-nvrtc>=13,<14' (Linux); the CUDA text, "
            "target='emu', 'cpu' and 'interp' work without it",
        ) from error
    assert int(result) == 0, f"nvrtcVersion gives {result}"
    return nvrtc


def available() -> bool:
    """Whether kernels can be compiled to binaries here."""
    try:
        _nvrtc()
    except TargetError:
        return False
    return True


@cache
def version() -> str:
    """'13.5'. Raises TargetError TB510."""
    _, major, minor = _nvrtc().nvrtcVersion()
    return f"{major}.{minor}"


@cache
def supported() -> frozenset[int]:
    """Capabilities that this NVRTC compiles for: 80, 86, ... Raises TargetError TB510."""
    _, archs = _nvrtc().nvrtcGetSupportedArchs()
    return frozenset(int(a) for a in archs)


def options(arch: str, flags: Sequence[str] = ()) -> tuple[str, ...]:
    """The compile flags, in the order in which they count for the key of the store. flags: the user's."""
    return (
        f"--gpu-architecture={arch}",
        "--generate-line-info",
        "--ptxas-options=-v",
        "--diag-suppress=177,550",
        *flags,
    )


_UNRECOGNISED = re.compile(r"unrecognized option (.*) found")


def unrecognised(flags: Sequence[str]) -> str | None:
    """The first flag that NVRTC does not know. Takes no time where there is one: NVRTC looks at flags first.
    Raises TargetError TB510.
    """
    program = _checked(_nvrtc().nvrtcCreateProgram(b"", b"empty.cu", 0, [], []), "nvrtcCreateProgram")
    try:
        _nvrtc().nvrtcCompileProgram(program, len(flags), [f.encode() for f in flags])
        found = _UNRECOGNISED.search(_log(program))
    finally:
        _nvrtc().nvrtcDestroyProgram(program)
    return found[1] if found else None


def compile_text(text: str, arch: str, source: Source | None = None, flags: Sequence[str] = ()) -> Compiled:
    """Compile one translation unit for one architecture.

    source: the cell, so that an error can show its line; flags: the user's (flags.py). Raises TargetError
    TB510 without NVRTC, TB511 when it does not know the architecture, LaunchError TB617 for flags that do not
    work, InternalError TB903 when it refuses our text.
    """
    nvrtc = _nvrtc()
    capability = int("".join(c for c in arch if c.isdigit()))
    if capability not in supported():
        raise TargetError(
            "TB511",
            f"NVRTC {version()} does not compile for {arch}",
            why=f"it knows {', '.join(f'sm_{a}' for a in sorted(supported()))}",
            fix="install another nvidia-cuda-nvrtc, or choose another architecture",
        )
    given = [o.encode() for o in options(arch, flags)]
    start = time.perf_counter()
    program = _checked(
        nvrtc.nvrtcCreateProgram(text.encode(), b"/tilebench/kernel.cu", 0, [], []), "nvrtcCreateProgram"
    )
    try:
        (result,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
        log = _log(program)
        if int(result) != 0:
            if flags:
                compile_text(text, arch, source)  # raises where the flags are not to blame
                raise _flags_refused(flags, log)
            raise compile_error(log, arch, source)
        ptx = _read(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0").decode(errors="replace")
        cubin = _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    registers, spills, stack, warnings = read_log(log)
    return Compiled(ptx, cubin, log, registers, spills, stack, warnings, (time.perf_counter() - start) * 1e3)


def _flags_refused(flags: Sequence[str], log: str) -> LaunchError:
    told = [line for line in log.splitlines() if re.search("error|fatal", line)]
    return LaunchError(
        "TB617",
        f"the kernel does not compile with compile_flags {' '.join(flags)}",
        why=(told or log.splitlines() or ["NVRTC says nothing"])[0].strip(),
        fix="leave out the flag that it names; without flags the kernel compiles",
    )


def _log(program: Any) -> str:
    nvrtc = _nvrtc()
    raw = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
    return raw.decode(errors="replace").strip("\0 \n")


def _checked(result: Any, what: str) -> Any:
    code, *values = result
    if int(code) != 0:
        raise InternalError(
            "TB903", f"{what} failed: {code}", why="NVRTC refused to work", fix="please report it"
        )
    return values[0] if values else None


def _read(size_of: Any, read: Any, program: Any) -> bytes:
    size = int(_checked(size_of(program), "NVRTC"))
    data = bytearray(size)
    buffer = bytes(data)
    _checked(read(program, buffer), "NVRTC")
    return buffer


_REGISTERS = re.compile(r"Used (\d+) registers")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_ERROR = re.compile(
    r"^(?P<file>[^\s(]+)\((?P<line>\d+)\): (?P<text>(?:catastrophic )?error.*)$", re.MULTILINE
)


def read_log(log: str) -> tuple[int | None, int | None, int, tuple[str, ...]]:
    """(registers, spilled bytes, stack bytes, C75xx lines) of ptxas's -v output; None when it says
    nothing.
    """
    registers = [int(m) for m in _REGISTERS.findall(log)]
    frames = [tuple(int(g) for g in m) for m in _FRAME.findall(log)]
    warnings = tuple(line.strip() for line in log.splitlines() if re.search(r"\bC75\d\d\b", line))
    spills = max((f[1] + f[2] for f in frames), default=0) if frames else None
    return max(registers, default=None), spills, max((f[0] for f in frames), default=0), warnings


def compile_error(log: str, arch: str, source: Source | None) -> InternalError:
    """NVRTC's refusal as our bug, at the user's line when the message names one."""
    found = next((m for m in _ERROR.finditer(log) if m["file"] == FILE), None) or _ERROR.search(log)
    at = Loc(source, int(found["line"])) if source is not None and found and found["file"] == FILE else None
    said = found["text"] if found else (log.splitlines() or ["no message"])[0]
    return InternalError(
        "TB903",
        f"the CUDA code made for this line does not compile for {arch}: {said[:300]}",
        at=at,
        why="this is a bug of tilebench, not of your program",
        fix="please report it with this cell; kernel.get_kernel_source() has the CUDA code",
        notes=[(None, line) for line in log.splitlines()[:12]],
    )


_WARM = 'extern "C" __global__ void warm(float* x) { x[threadIdx.x] = expf(x[threadIdx.x]); }'


def warm(arch: str = "sm_90a") -> threading.Thread:
    """Load NVRTC and compile a trivial kernel in a thread, so that the first cell does not pay for it.
    Never raises.
    """

    def run() -> None:
        if available():
            compile_text(_WARM, arch)

    thread = threading.Thread(target=run, name="tilebench-nvrtc-warm", daemon=True)
    thread.start()
    return thread
