"""Folds of ir/folds.py -> CUDA C++: calls of the functions of prelude_folds.py."""

from __future__ import annotations

from tilebench.backends.cuda.prelude import c_name
from tilebench.backends.cuda.prelude_folds import (
    ABSOLUTE,
    LANES,
    WORD,
    op_name,
    op_piece,
    pair_name,
    pair_piece,
)
from tilebench.backends.cuda.values import Values
from tilebench.ir.folds import PAIRED, FoldPairs, LaneFold
from tilebench.ir.tile import Stmt


def folding_lines(s: Stmt, values: Values) -> list[str] | None:
    """The text of a fold; None for any other statement."""
    match s:
        case FoldPairs():
            return [_pairs(s, values)]
        case LaneFold():
            return [_lanes(s, values)]
        case _:
            return None


def _pairs(s: FoldPairs, values: Values) -> str:
    values.use(pair_piece(s.op, s.nan, s.destination.dtype))
    into = f"*(unsigned*)({values.address(s.destination, s.destination_index)})"
    word = f"*(const unsigned*)({values.address(s.source, s.source_index)})"
    if s.absolute:
        values.use(ABSOLUTE)
        word = f"tl::abs2({word})"
    return f"{into} = tl::{pair_name(s.op, s.nan)}<{c_name(s.destination.dtype)}>({into}, {word});"


def _lanes(s: LaneFold, values: Values) -> str:
    dtype = s.destination.dtype
    paired = dtype.name in PAIRED
    values.use(op_piece(s.op, s.nan))
    if paired:
        values.use(pair_piece(s.op, s.nan, dtype))
    alone = s.count == 1 or (paired and s.count == 2)
    values.use(WORD if alone else LANES)
    name, function = ("AllReduceWord", "run") if alone else ("AllReduce", "run_batch")
    of = f"tl::{name}<tl::{op_name(s.op, s.nan)}, {s.scale}, {s.count}, {s.threads}>"
    return f"{of}::{function}({values.address(s.destination, s.destination_index)});"


__all__ = ["folding_lines"]
