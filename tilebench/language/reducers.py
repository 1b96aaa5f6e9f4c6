"""Reducers: `r = T.alloc_reducer(M, dtype, op)`, folded into by T.Parallel, read after T.finalize_reducer.

A T.Parallel that folds into a reducer (`r[i] += x[i, j]`, or max, min, &, |, ^) becomes: a fragment of the
terms, the loop that fills it, and T.reduce over the dimensions that the reducer does not have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilebench.errors import Loc, TypeTileError
from tilebench.ir.expr import Binary, Const, Expr, Load, Var, const, int_value
from tilebench.ir.rewrite import transform, walk
from tilebench.ir.rewrite import variables as names_in
from tilebench.ir.tile import Buffer, Region, Stmt, Store
from tilebench.language.alloc import as_shape, dynamic_free
from tilebench.language.dtypes import dtype as as_scalar
from tilebench.language.markers import Deferred
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import fill
from tilebench.ops.reduce import Reduce, reduce

_IR_OP = {"sum": "add", "max": "max", "min": "min", "bitand": "bitand", "bitor": "bitor", "bitxor": "bitxor"}


@dataclass(frozen=True, eq=False)
class Reducer(Buffer):
    """A fragment that T.Parallel loops fold into."""

    op: str = "sum"


class BatchError(TypeTileError):
    """A batch that does not divide the reducer."""


def alloc_reducer(
    shape: Any, dtype: Any = "float32", op: str = "sum", replication: str | None = None
) -> Reducer:
    """A fragment to fold into. op: sum, max, min, bitand, bitor or bitxor. Clear or fill it first.

    replication is accepted: where the partial results are kept is the compiler's choice.
    """
    del replication
    if op not in _IR_OP:
        raise TypeTileError(
            "TB245", f"alloc_reducer: op={op!r} is not known", fix=f"one of {', '.join(_IR_OP)}"
        )
    sizes = dynamic_free(as_shape(shape), "T.alloc_reducer")
    return Reducer("", sizes, as_scalar(dtype), "fragment", op=op)


def identity(op: str, dtype: Any) -> Any:
    """The value that folding leaves as it is."""
    if op in ("sum", "bitor", "bitxor"):
        return const(0, dtype)
    if op == "bitand":
        return const(-1 if dtype.kind == "int" else dtype.max, dtype)
    if dtype.is_float:
        return const(-math.inf if op == "max" else math.inf, dtype)
    return const(dtype.min if op == "max" else dtype.max, dtype)


def reducer_init(reducer: Reducer, init: Any = None) -> Stmt:
    """Set it to `init`, or to the value that folding leaves as it is."""
    return fill(reducer, identity(reducer.op, reducer.dtype) if init is None else init)


def reducer_update(target: Any, value: Any) -> Stmt:
    """Fold a value into an element: `T.reducer_update(r[i], x)`."""
    from tilebench.ir.expr import binary

    if not isinstance(target, Load) or not isinstance(target.buffer, Reducer):
        raise TypeTileError(
            "TB245", "reducer_update folds into an element of a reducer", fix="T.reducer_update(r[i], x)"
        )
    op: Any = _IR_OP[target.buffer.op]
    folded = binary(op, target, value)
    return Store(target.buffer, target.indices, folded.astype(target.buffer.dtype))


def finalize_reducer(
    reducer: Buffer, dst: Any = None, batch: int = 1, annotations: Any = None
) -> Stmt | Deferred | None:
    """Every thread has the result from here on; copied to `dst` when that is given.

    batch: how many elements threads exchange at a time (no value depends on it). Raises BatchError for a
    batch that is not a divisor of the number of elements.
    """
    del annotations
    count = math.prod(reducer.static_shape)
    if batch < 1 or count % batch:
        raise BatchError(
            "TB245",
            f"finalize_reducer: batch={batch}: "
            + (
                "batch must be >= 1"
                if batch < 1
                else f"it exceeds total output elements, {count}"
                if batch > count
                else f"it must evenly divide the {count} output elements"
            ),
            why="that many elements are exchanged at once",
            fix="leave batch out",
        )
    copied = None if dst is None else copy(reducer, dst)
    return copied if batch == 1 else Deferred(lambda walker, at: _batched(walker, reducer, batch, copied, at))


def _batched(walker: Any, reducer: Buffer, batch: int, copied: Stmt | None, at: Loc | None) -> None:
    """The folds into the reducer that were made ahead, in any open body, exchange `batch` at a time."""

    def rule(node: Any) -> Any:
        into = isinstance(node, Reduce) and node.destination.buffer is reducer
        return replace(node, batch=batch) if into else None

    for body in walker.bodies:
        body[:] = [transform(s, rule) for s in body]
    if copied is not None:
        walker.emit(copied, at)


def split(
    walker: Any, variables: Sequence[Var], extents: Sequence[int], body: Stmt, at: Loc | None
) -> tuple[list[Stmt], Stmt, list[Stmt]]:
    """Statements before the loop, its body, and statements after: folds into reducers made explicit."""
    stores = [s for s in walk(body) if isinstance(s, Store) and isinstance(s.buffer, Reducer)]
    before: list[Stmt] = []
    after: list[Stmt] = []
    for number, store in enumerate(stores):
        reducer = store.buffer
        assert isinstance(reducer, Reducer), "chosen above"
        term = _term(store, reducer)
        if term is None:
            continue
        kept = {v for i in store.indices for v in names_in(i)}
        folded = [(v, n) for v, n in zip(variables, extents, strict=True) if v not in kept]
        if not folded:
            continue  # each iteration has its own element: an ordinary store
        if not all(isinstance(i, Var) or int_value(i) is not None for i in store.indices):
            raise TypeTileError(
                "TB245",
                f"{reducer.name} is folded into at a computed index",
                at=store.loc or at,
                why="each element of a reducer collects whole rows of the loop",
                fix="index it by loop variables and constants",
            )
        width = math.prod(n for _, n in folded)
        sizes = dict(zip(variables, extents, strict=True))
        shape = [sizes[i] if isinstance(i, Var) else 1 for i in store.indices]
        partial = walker.declare(
            Buffer("", tuple(const(n) for n in (*shape, width)), reducer.dtype, "fragment"),
            f"{reducer.name}_terms{number or ''}", at,
        )  # fmt: skip
        column: Expr = const(0)
        for v, n in folded:
            column = column * n + v
        place = (*(i if isinstance(i, Var) else const(0) for i in store.indices), column)
        fresh = Store(partial, place, term, loc=store.loc)
        body = transform(body, lambda s, old=store, new=fresh: new if s is old else None)
        before.append(fill(partial, identity(reducer.op, reducer.dtype)))
        starts = tuple(const(0) if isinstance(i, Var) else i for i in store.indices)
        after.append(reduce(partial, Region(reducer, starts, tuple(shape)), reducer.op, -1, False))
    return before, body, after


def _term(store: Store, reducer: Reducer) -> Expr | None:
    """x in `r[i] = r[i] op x`; None for a plain store."""
    value: Any = store.value
    while not isinstance(value, Binary) and hasattr(value, "value") and not isinstance(value, Const):
        value = value.value  # pyright: ignore
    if not isinstance(value, Binary) or value.op != _IR_OP[reducer.op]:
        return None
    for own, other in ((value.left, value.right), (value.right, value.left)):
        if isinstance(own, Load) and own.buffer is reducer and _same(own.indices, store.indices):
            return other.astype(reducer.dtype)
    return None


def _same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return all(
        x is y or (int_value(x) is not None and int_value(x) == int_value(y))
        for x, y in zip(a, b, strict=True)
    )
