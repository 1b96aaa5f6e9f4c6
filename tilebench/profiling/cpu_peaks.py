"""This machine's CPU: its name, and its peaks measured once (NumPy's matrix product and a large copy), kept
on disk.
"""

from __future__ import annotations

import json
import os
import platform
import time
from functools import cache
from pathlib import Path

import numpy as np

from tilebench.config import current


@cache
def cpu_name() -> str:
    """The processor's marketing name, or the architecture where the system does not tell."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        return platform.processor() or platform.machine()
    return platform.processor() or platform.machine()


@cache
def peaks() -> tuple[float, float]:
    """(f32 GFLOP/s, memory GB/s) of all cores, measured once a machine: about a fifth of a second, then from
    the store.
    """
    root = current().cache_dir
    path = root / "cpu-peaks.json" if root is not None else None
    key = f"{cpu_name()} x{os.cpu_count()}"
    if path is not None:
        try:
            data = json.loads(path.read_text())
            if data.get("machine") == key:
                return float(data["gflops"]), float(data["gb_s"])
        except (OSError, ValueError, KeyError):
            data = None
    result = _measure()
    if path is not None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(json.dumps({"machine": key, "gflops": result[0], "gb_s": result[1]}))
        except OSError:
            return result  # a read-only home costs a measurement each time, nothing else
    return result


def _measure() -> tuple[float, float]:
    a = np.random.default_rng(0).standard_normal((768, 768), dtype=np.float32)
    np.dot(a, a)
    gflops = max(2 * 768**3 / _seconds(lambda: np.dot(a, a)) for _ in range(5)) / 1e9
    source = np.ones(16 << 20, np.float32)
    target = np.empty_like(source)
    gb_s = max(2 * source.nbytes / _seconds(lambda: np.copyto(target, source)) for _ in range(3)) / 1e9
    return gflops, gb_s


def _seconds(run: object) -> float:
    start = time.perf_counter()
    run()  # type: ignore[operator]
    return time.perf_counter() - start
