"""Fragments that no thread has registers for: said before the compiler is asked, since it then takes long."""

from __future__ import annotations

import warnings

from tilebench.compiler import Compilation
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import Buffer
from tilebench.kernel.facts import span
from tilebench.layouts import FragmentLayout
from tilebench.passes.stages import Placed
from tilebench.report import Finding

REGISTERS = 255
"""Of 32 bits, at most in a thread (CUDA C++ programming guide, "Technical Specifications per Compute
Capability").
"""
COMFORTABLE = 128
SECONDS_PER_SQUARE = 17 / 1024**2
"""NVRTC 13.5 for a loop over one fragment: 1.7, 4.9 and 17 s for 256, 512 and 1024 values a thread, measured
on a loaded machine of two cores.
"""
THREADS = 1024


class CrowdedWarning(UserWarning):
    """A fragment is larger than the registers of a thread."""


def crowded(stages: Compilation) -> list[Finding]:
    """A finding for each fragment with more values a thread than it has registers, and what to change."""
    try:
        placed = stages.stage(Placed)
    except KeyError:
        return []  # interp and cpu have no threads to run out of
    found: list[Finding] = []
    named = (getattr(n, "buffer", None) for n in walk(placed.kernel.body))
    used = {b.data for b in named if isinstance(b, Buffer)}
    for buffer, layout in placed.layouts.items():
        if not isinstance(layout, FragmentLayout) or buffer.view_of is not None or buffer not in used:
            continue
        needed = -(-layout.registers * buffer.dtype.bits // 32)
        if needed > REGISTERS:
            found.append(_finding(buffer, layout, needed, stages.kernel.thread_count))
    return found


def _finding(buffer: Buffer, layout: FragmentLayout, needed: int, threads: int) -> Finding:
    place = span(buffer.loc)
    shape = "x".join(map(str, layout.shape))
    text = (
        f"{buffer.name} ({shape}) is {layout.registers} values a thread, {needed} registers where a thread "
        f"has {REGISTERS}: expect about {SECONDS_PER_SQUARE * needed**2:.0f} s in the compiler, and spills"
    )
    return Finding("crowded", "warning", text, (place,) if place else (), _fix(layout, needed, threads))


def _fix(layout: FragmentLayout, needed: int, threads: int) -> str:
    """More threads where a block may have them, else a smaller tile."""
    factor = 1
    while needed > COMFORTABLE * factor:
        factor *= 2
    ways: list[str] = []
    if threads * factor <= THREADS:
        ways.append(f"threads={threads * factor}")
    rows, *rest = layout.shape
    if rows % factor == 0:
        ways.append(
            f"a tile of {'x'.join(map(str, (rows // factor, *rest)))}, with {factor} times the blocks"
        )
    ways = ways or ["a smaller tile"]
    return f"use {' or '.join(ways)}: {-(-needed // factor)} registers a thread"


def warn(stages: Compilation) -> None:
    """Say it now: what follows may take long."""
    for finding in crowded(stages):
        line = f" (line {finding.spans[0].line})" if finding.spans else ""
        warnings.warn(
            f"{stages.kernel.name}{line}: {finding.text}; {finding.hint}", CrowdedWarning, stacklevel=2
        )
