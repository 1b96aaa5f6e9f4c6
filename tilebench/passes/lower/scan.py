"""Running folds: rows are brought to threads that hold them whole, folded there, and taken back."""

from __future__ import annotations

from tilebench.ops.scan import Scan
from tilebench.passes.lower.builder import Builder


def lower_scan(op: Scan, b: Builder) -> None:
    """Scan op.source along op.dim into op.destination: one thread walks a row."""
    b.expand(op.expand())
