"""Which function lowers an op whose class has no lowering for the selected instruction: nests, folds, and
`expand`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilebench.ir.tile import TileOp
from tilebench.ops.base import Op
from tilebench.ops.copy import Copy
from tilebench.ops.reduce import Reduce
from tilebench.ops.regions import is_private
from tilebench.ops.scan import Scan
from tilebench.passes.lower.builder import Builder
from tilebench.passes.lower.halves import lower_private_halves
from tilebench.passes.lower.nest import lower_parallel
from tilebench.passes.lower.reduce import lower_reduce
from tilebench.passes.lower.scan import lower_scan
from tilebench.passes.lower.statements import lower_stmt
from tilebench.passes.nodes import as_nest


def lowering_of(op: TileOp) -> Callable[[Any, Builder], None]:
    """The lowering by kind of op."""
    if is_private(*op.reads, *op.writes) and not (
        isinstance(op, Reduce) and op.source.buffer.scope not in ("local", "var")
    ):
        return _private_fold if isinstance(op, Reduce) else _expanded
    if isinstance(op, Reduce):
        return lower_reduce
    if isinstance(op, Scan):
        return lower_scan
    return _as_nest


def _as_nest(op: Op, b: Builder) -> None:
    nest = as_nest(op)
    if nest is None:
        lower_stmt(b, op.expand())
        return
    before = b.outside
    b.outside = op.outside if isinstance(op, Copy) else None
    lower_parallel(b, nest)
    b.outside = before


def _private_fold(op: Reduce, b: Builder) -> None:
    if not lower_private_halves(op, b):
        _expanded(op, b)


def _expanded(op: Op, b: Builder) -> None:
    lower_stmt(b, op.expand())
