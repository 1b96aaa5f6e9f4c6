"""`tilebench doctor`: what is here, what is missing, and what each missing part costs."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True)
class Check:
    """One part: whether it is there, what was found, and what is lost without it."""

    name: str
    ok: bool
    found: str
    without: str


def _package(name: str, module: str, without: str) -> Check:
    if find_spec(module.split(".")[0]) is None:
        return Check(name, False, "not installed", without)
    try:
        return Check(name, True, version(name), without)
    except PackageNotFoundError:
        return Check(name, True, "found", without)


def checks() -> list[Check]:
    """Look at this machine. Nothing here raises."""
    from tilebench.config import current
    from tilebench.profiling.cpu_peaks import cpu_name

    rows = [
        Check("cpu", True, f"{cpu_name()}, {os.cpu_count()} cores, Python {platform.python_version()}", ""),
        _package("torch", "torch", "inputs and references must be NumPy arrays"),
        _package("llvmlite", "llvmlite", "no cpu target: programs run in the interpreter"),
        _package("matplotlib", "matplotlib", "no still pictures of plots"),
        _package("anywidget", "anywidget", "views are still pictures"),
        _package("jupyterlab", "jupyterlab", "no notebook to work in"),
        _nvrtc(),
        _driver(),
        _nvdisasm(),
        _extension(),
        _counters(),
    ]
    root = current().cache_dir
    rows.append(
        Check("store", root is not None, str(root or "off"), "kernels are compiled again in every process")
    )
    return rows


def _nvrtc() -> Check:
    without = "no PTX, registers or occupancy: the CUDA text and the emulator still work"
    try:
        from tilebench.backends.cuda.build import nvrtc_version

        return Check("NVRTC", True, ".".join(str(v) for v in nvrtc_version()), without)
    except Exception as error:  # whatever a broken installation raises, doctor reports it
        return Check(
            "NVRTC",
            False,
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
            without,
        )


def _nvdisasm() -> Check:
    from tilebench.backends.cuda import sass

    path = sass.find()
    found = "not installed" if path is None else str(path)
    return Check("nvdisasm", path is not None, found, "no machine code (SASS) in the code view")


def _extension() -> Check:
    """The prebuilt extension where JupyterLab looks for it."""
    without = "no marks while typing, and saved reports are still pictures; all views work"
    roots = [Path(sys.prefix) / "share", Path.home() / ".local" / "share", Path("/usr/local/share")]
    for root in roots:
        manifest = root / "jupyter" / "labextensions" / "tilebench" / "package.json"
        if manifest.is_file():
            return Check("lab extension", True, str(manifest.parent), without)
    return Check("lab extension", False, "not installed", without)


def _counters() -> Check:
    """Whether hardware counters may be read: Nsight Compute is there and the driver lets users use it."""
    without = "no counters: times are measured, causes are predicted or simulated"
    tool = shutil.which("ncu")
    if tool is None:
        return Check("counters", False, "no Nsight Compute (ncu)", without)
    limits = Path("/proc/driver/nvidia/params")
    closed = limits.is_file() and "RmProfilingAdminOnly: 1" in limits.read_text() and os.geteuid() != 0
    return Check("counters", not closed, f"{tool}{', for administrators only' if closed else ''}", without)


def _driver() -> Check:
    without = "kernels run on the CPU; compiling for a GPU works"
    try:
        from tilebench.backends.cuda import driver

        if driver.available():
            return Check("NVIDIA driver", True, f"{driver.device_name()} ({driver.arch()})", without)
        return Check("NVIDIA driver", False, "no GPU", without)
    except Exception as error:  # as above
        return Check("NVIDIA driver", False, f"{type(error).__name__}: {error}", without)


@dataclass(frozen=True)
class Examination:
    """The checks of `doctor()`; prints as text."""

    checks: tuple[Check, ...]

    def __repr__(self) -> str:
        return doctor_text(self.checks)


def doctor() -> Examination:
    """What is here, what is missing, and what each missing part costs."""
    return Examination(tuple(checks()))


def doctor_text(rows: Sequence[Check] | None = None) -> str:
    """The checks as lines: a mark, the part, what was found, and what is lost where it is missing."""
    lines: list[str] = []
    for row in checks() if rows is None else rows:
        mark = "ok  " if row.ok else "no  "
        lines.append(
            f"{mark}{row.name:22s} {row.found}"
            + ("" if row.ok or not row.without else f"\n    {'':22s} without it: {row.without}")
        )
    return "\n".join(lines)
