"""`tilebench doctor`: what is here, what is missing, and what each missing part costs."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec


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
        _package("nvidia-cuda-nvdisasm", "nvidia", "no machine code (SASS) in the code view"),
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


def _driver() -> Check:
    without = "kernels run on the CPU; compiling for a GPU works"
    try:
        from tilebench.backends.cuda import driver

        if driver.available():
            return Check("NVIDIA driver", True, f"{driver.device_name()} ({driver.arch()})", without)
        return Check("NVIDIA driver", False, "no GPU", without)
    except Exception as error:  # as above
        return Check("NVIDIA driver", False, f"{type(error).__name__}: {error}", without)


def doctor_text() -> str:
    """The checks as lines: a mark, the part, what was found, and what is lost where it is missing."""
    lines: list[str] = []
    for row in checks():
        mark = "ok  " if row.ok else "no  "
        lines.append(
            f"{mark}{row.name:22s} {row.found}"
            + ("" if row.ok or not row.without else f"\n    {'':22s} without it: {row.without}")
        )
    return "\n".join(lines)
