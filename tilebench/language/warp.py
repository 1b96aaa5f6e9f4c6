"""Between the lanes of a warp: shuffles, votes, reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilebench.errors import TypeTileError
from tilebench.ir import expr as ir
from tilebench.ir.dtype import bool_, int32, uint32
from tilebench.ir.expr import Expr, as_expr
from tilebench.language.math import bitwise_and, bitwise_or, max, min


def _lanes(name: str, value: Any, other: Any) -> Expr:
    e = as_expr(value)
    return ir.call(name, (e, as_expr(other).astype(int32)), e.dtype)


def _whole_warp(name: str, width: int) -> None:
    if width != 32:
        raise TypeTileError(
            "TB209",
            f"{name}: width={width}",
            why="shuffles go over the whole warp here",
            fix="leave width out, or compute the lane yourself",
        )


def shfl_xor(value: Any, delta: Any, width: int = 32, mask: Any = None) -> Expr:
    """The value of lane (lane ^ delta); width may be smaller when delta is."""
    del mask
    if not (isinstance(delta, int) and delta < width):
        _whole_warp("shfl_xor", width)
    return _lanes("shfl_xor", value, delta)


def shfl_up(value: Any, delta: Any, width: int = 32, mask: Any = None) -> Expr:
    """The value of lane - delta; own value where there is none."""
    del mask
    _whole_warp("shfl_up", width)
    return _lanes("shfl_up", value, delta)


def shfl_down(value: Any, delta: Any, width: int = 32, mask: Any = None) -> Expr:
    """The value of lane + delta; own value where there is none."""
    del mask
    _whole_warp("shfl_down", width)
    return _lanes("shfl_down", value, delta)


def shfl_sync(value: Any, srcLane: Any, width: int = 32, mask: Any = None) -> Expr:
    """The value of one lane."""
    del mask
    _whole_warp("shfl_sync", width)
    return _lanes("shfl", value, srcLane)


def _warp_reduce(value: Any, combine: Callable[[Any, Any], Any]) -> Any:
    total = as_expr(value)
    for distance in (16, 8, 4, 2, 1):
        total = combine(total, shfl_xor(total, distance))
    return total


def warp_reduce_sum(value: Any) -> Any:
    """The sum over the warp's lanes, in all of them."""
    return _warp_reduce(value, lambda a, b: a + b)


def warp_reduce_max(value: Any) -> Any:
    """The maximum over the warp's lanes."""
    return _warp_reduce(value, max)


def warp_reduce_min(value: Any) -> Any:
    """The minimum over the warp's lanes."""
    return _warp_reduce(value, min)


def warp_reduce_bitand(value: Any) -> Any:
    """The bitwise and over the warp's lanes."""
    return _warp_reduce(value, bitwise_and)


def warp_reduce_bitor(value: Any) -> Any:
    """The bitwise or over the warp's lanes."""
    return _warp_reduce(value, bitwise_or)


def any_sync(predicate: Any, mask: Any = None) -> Expr:
    """Whether any lane's predicate holds."""
    del mask
    return ir.call("any_sync", (ir.to_bool(as_expr(predicate)),), bool_)


def all_sync(predicate: Any, mask: Any = None) -> Expr:
    """Whether all lanes' predicates hold."""
    del mask
    return ir.call("all_sync", (ir.to_bool(as_expr(predicate)),), bool_)


def ballot(predicate: Any) -> Expr:
    """Bit l is lane l's predicate."""
    return ir.call("ballot", (ir.to_bool(as_expr(predicate)),), uint32)


def ballot_sync(predicate: Any, mask: Any = None) -> Expr:
    """Same as ballot."""
    del mask
    return ballot(predicate)


def activemask() -> Expr:
    """The lanes that run this call."""
    return ir.call("activemask", (), uint32)
