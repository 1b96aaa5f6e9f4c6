"""`T.tvm_thread_allreduce`: a value folded over an axis of the block's threads, as older programs spell it.

    with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", ...):
        T.evaluate(T.tvm_thread_allreduce(T.uint32(1), value, True, result[0], tk, dtype="handle"))

It becomes an exchange through shared memory, right for every shape of the block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from tilebench.errors import TypeTileError
from tilebench.ir.expr import Expr, Load, Var, as_expr, const
from tilebench.ir.text import expr_text
from tilebench.ir.tile import Buffer, SyncThreads
from tilebench.language.launching import resolve_thread_value
from tilebench.language.markers import Deferred, ThreadValue


@dataclass(frozen=True)
class Combiner:
    """`T.comm_reducer(lambda x, y: ..., [identity])`."""

    combine: Callable[[Any, Any], Any]
    identity: tuple[Any, ...]


_combiner: ContextVar[Combiner | None] = ContextVar("tilebench_combiner", default=None)


def comm_reducer(combiner: Callable[[Any, Any], Any], identity: Sequence[Any]) -> Combiner:
    """How T.tvm_thread_allreduce folds two values."""
    return Combiner(combiner, tuple(identity))


class _Attribute:
    """`with T.attr(node, key, value):` a combiner is in force inside; other attributes change no value."""

    def __init__(self, node: Any) -> None:
        self.node = node

    def __enter__(self) -> None:
        self._token = _combiner.set(self.node) if isinstance(self.node, Combiner) else None

    def __exit__(self, *error: object) -> None:
        if self._token is not None:
            _combiner.reset(self._token)


def attr(node: Any, attr_key: str = "", value: Any = None) -> Any:
    """A scope with an attribute; `reduce_scope` says how T.tvm_thread_allreduce folds."""
    del attr_key, value
    return _Attribute(node)


def tvm_thread_allreduce(
    size: Any, value: Any, condition: Any, result: Any, *axes: Any, dtype: Any = None
) -> Deferred:
    """result = value folded over the threads of the axes, which are values of T.get_thread_binding."""
    del size, condition, dtype
    combiner = _combiner.get()
    if combiner is None or not isinstance(result, Load):
        raise TypeTileError(
            "TB245",
            "tvm_thread_allreduce without its reducer",
            why="the reducer says how two values are folded",
            fix="with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), 'reduce_scope', ...):",
        )

    def run(walker: Any, at: Any) -> None:
        extents = walker.threads
        flat = resolve_thread_value(walker, ThreadValue("flat"), at)
        strides: list[tuple[int, int, Any]] = []  # stride, extent, index of each axis that is folded
        for axis in axes:
            for dim, extent in enumerate(extents):
                index = resolve_thread_value(walker, ThreadValue("thread", dim), at)
                if expr_text(as_expr(index)) == expr_text(as_expr(axis)):
                    strides.append((math.prod(extents[:dim]), extent, index))
                    break
            else:
                raise TypeTileError(
                    "TB245",
                    "tvm_thread_allreduce over something else than an axis of the threads",
                    at=at,
                    fix="pass what T.get_thread_binding(dim) gave",
                )
        kind = result.buffer.dtype
        count = math.prod(extents)
        shared = walker.declare(Buffer("", (const(count),), kind, "shared"), "allreduce", at)
        term = Var("term", dtype=kind)
        from tilebench.ir.tile import Bind, Store

        walker.emit(Bind(term, as_expr(value).astype(kind)), at)
        walker.emit(Store(shared, (as_expr(flat),), term), at)
        walker.emit(SyncThreads(), at)
        base: Expr = as_expr(flat)
        for stride, _, index in strides:
            base = base - index * stride
        first = Var("first", dtype=base.dtype)
        walker.emit(Bind(first, base), at)
        offsets = [0]
        for stride, extent, _ in strides:
            offsets = [o + i * stride for o in offsets for i in range(extent)]
        total: Any = None
        for n, offset in enumerate(offsets):
            item = Load(shared, (first + offset,), dtype=kind)
            total = item if total is None else combiner.combine(total, item)
            if n % 16 == 15:  # short expressions
                walker.emit(Store(result.buffer, result.indices, as_expr(total).astype(kind)), at)
                total = Load(result.buffer, result.indices, dtype=kind)
        walker.emit(Store(result.buffer, result.indices, as_expr(total).astype(kind)), at)
        walker.emit(SyncThreads(), at)

    return Deferred(run)
