"""This machine's CPU: its name, and its peaks measured once (NumPy's matrix product and a large copy), kept
on disk.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


def peaks(reached: tuple[float, float] = (0.0, 0.0)) -> tuple[float, float]:
    """(f32 GFLOP/s, memory GB/s) of all cores, measured once a machine in about half a second, then from the
    store.

    reached: what a kernel did. Where that is more, the peaks were measured beside other work: they are
    measured once more in this process, and the best is kept. A kernel whose data stay in caches is above
    memory all the same.
    """
    found = _kept()
    return found if reached[0] <= found[0] and reached[1] <= found[1] else _once_more()


@cache
def _kept() -> tuple[float, float]:
    return _stored() or _keep(_measure())


@cache
def _once_more() -> tuple[float, float]:
    old, new = _kept(), _measure()
    return _keep((max(old[0], new[0]), max(old[1], new[1])))


def _place() -> tuple[Path | None, str]:
    """The file, and what it says of the machine and the way of measuring."""
    root = current().cache_dir
    return root and root / "cpu-peaks.json", f"{cpu_name()} x{os.cpu_count()}, best of short runs"


def _stored() -> tuple[float, float] | None:
    path, key = _place()
    if path is None:
        return None
    try:
        data = json.loads(path.read_text())
        return (float(data["gflops"]), float(data["gb_s"])) if data.get("machine") == key else None
    except (OSError, ValueError, KeyError, AttributeError):
        return None  # none yet, or of another version: it is measured and written anew


def _keep(result: tuple[float, float]) -> tuple[float, float]:
    path, key = _place()
    if path is not None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(json.dumps({"machine": key, "gflops": result[0], "gb_s": result[1]}))
        except OSError:
            return result  # a read-only home costs a measurement each time, nothing else
    return result


def _measure() -> tuple[float, float]:
    """The best of many short runs: one that nothing interrupts is what the machine can do. Small products and
    copies are on one core, which something else running leaves alone more often than all of them.
    """
    gflops = max(_product(256, 0.08), _product(768, 0.1))
    if 2 * 2048**3 / 1e9 / gflops < SHORT:
        gflops = max(gflops, _product(2048, 0.1))
    source = np.ones(16 << 20, np.float32)
    target = np.zeros_like(source)
    pieces = list(zip(np.split(target, 8), np.split(source, 8), strict=True))
    turns = itertools.cycle(pieces)  # the next piece has left the caches
    gb_s = _best(2 * source.nbytes / 8, lambda: np.copyto(*next(turns)), 0.08)
    with ThreadPoolExecutor() as threads:
        whole = _best(
            2 * source.nbytes, lambda: list(threads.map(np.copyto, *zip(*pieces, strict=True))), 0.1
        )
    return gflops, max(gb_s, whole)


SHORT = 0.05
"""Seconds that one product may take to be worth measuring."""


def _product(n: int, seconds: float) -> float:
    """GFLOP/s of the product of two n x n matrices."""
    a = np.random.default_rng(0).standard_normal((n, n), dtype=np.float32)
    np.dot(a, a)
    return _best(2 * n**3, lambda: np.dot(a, a), seconds)


def _best(work: float, run: Callable[[], object], seconds: float) -> float:
    """Billions of `work` a second in the best of the runs that fill these seconds, at least three."""
    shortest, runs, begin = float("inf"), 0, time.perf_counter()
    while runs < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        run()
        shortest, runs = min(shortest, time.perf_counter() - start), runs + 1
    return work / shortest / 1e9
