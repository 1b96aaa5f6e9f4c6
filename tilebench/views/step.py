"""Time travel: a block step by step. The still form is a filmstrip of key steps."""

from __future__ import annotations

from tilebench.report import Trace


def sentence(trace: Trace) -> str:
    """One line: which block, how many steps, what is followed."""
    return f"{len(trace.steps)} steps of block {trace.block} at {trace.level} level"
