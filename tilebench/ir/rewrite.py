"""The only traversal of both IRs: children, walk, rebuild, substitute.

Works on every node by its dataclass fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar, cast

from tilebench.ir.expr import Binary, Call, Cast, Expr, Load, Select, Unary, Var, binary, select, unary
from tilebench.ir.expr import cast as cast_expr
from tilebench.ir.tile import Buffer, Region, Seq, Stmt

Node = Expr | Stmt | Region
N = TypeVar("N", Expr, Stmt, Region)


_NO_CHILDREN = frozenset({"loc", "dtype", "id", "because", "annotations"})
"""Fields that hold no part of a node; `because` of a barrier names statements that stand elsewhere."""


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind) if f.name not in _NO_CHILDREN)


_PLAIN = frozenset({
    "str", "int", "bool", "float", "str|None", "int|None", "Number", "BinaryOp", "UnaryOp", "AtomicOp",
    "LoopKind", "ReduceKind", "DType", "Memory", "Buffer", "Buffer|None",
    "tuple[int,...]", "tuple[int,...]|None",
})  # fmt: skip
"""Annotations of fields that hold no node: most fields are such, and a walk spends its time on fields."""


@cache
def _child_fields(kind: type) -> tuple[str, ...]:
    named = {f.name for f in dataclasses.fields(kind) if str(f.type).replace(" ", "") not in _PLAIN}
    return tuple(name for name in _field_names(kind) if name in named)


@cache
def _shape(kind: type[Any]) -> int:
    """1: a node, 2: a tuple or list, 3: a dict, 0: anything else."""
    if issubclass(kind, Expr | Stmt | Region):
        return 1
    return 2 if issubclass(kind, tuple | list) else 3 if issubclass(kind, dict) else 0


def _gather(value: Any, found: list[Node]) -> None:
    shape = _shape(value.__class__)
    if shape == 1:
        found.append(value)
    elif shape:
        for item in value if shape == 2 else value.values():
            _gather(item, found)


def children(node: Node) -> list[Node]:
    """Direct sub-nodes in field order: expressions, statements and regions.

    Variables that a node binds are included.
    """
    found: list[Node] = []
    for name in _child_fields(type(node)):
        value = getattr(node, name)
        shape = _shape(value.__class__)
        if shape == 1:
            found.append(value)
        elif shape:
            _gather(value, found)
    return found


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, outermost first."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        below = children(top)
        if below:
            below.reverse()
            stack += below


def _map_value(value: Any, change: Callable[[Node], Node]) -> Any:
    shape = _shape(value.__class__)
    if shape == 1:
        return change(value)
    if shape == 2 and isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        new = tuple([_map_value(item, change) for item in items])
        return new if any(a is not b for a, b in zip(new, items, strict=True)) else items
    if shape != 3:
        return value
    table = cast("dict[Any, Any]", value)
    fresh = {k: _map_value(v, change) for k, v in table.items()}
    return fresh if any(fresh[k] is not v for k, v in table.items()) else table


def rebuild(node: N, change: Callable[[Any], Any]) -> N:
    """The node with `change` applied to each direct child; itself when nothing changed.

    Expressions are refolded.
    """
    updates: dict[str, Any] = {}
    for name in _child_fields(type(node)):
        old = getattr(node, name)
        new = _map_value(old, change)
        if new is not old:
            updates[name] = new
    if not updates:
        return node
    match node:
        case Binary():
            left, right = updates.get("left", node.left), updates.get("right", node.right)
            if left.dtype == right.dtype or node.op in ("shl", "shr"):
                return cast("N", binary(node.op, left, right, node.loc))
        case Unary():
            return cast("N", unary(node.op, updates["value"], node.loc))
        case Cast():
            return cast("N", cast_expr(updates["value"], node.dtype, node.loc))
        case Select():
            condition, then, orelse = (
                updates.get(k, getattr(node, k)) for k in ("condition", "then", "orelse")
            )
            return cast("N", select(condition, then, orelse, node.loc))
        case _:
            pass
    return dataclasses.replace(node, **updates)


def transform(node: N, rule: Callable[[Node], Node | None]) -> N:
    """Bottom-up rewriting: children first, then `rule` on the node (None keeps it).

    A Stmt rule may return a Seq.
    """

    def change(child: Any) -> Any:
        fresh = rebuild(child, change)
        replaced = rule(fresh)
        return fresh if replaced is None else replaced

    return change(node)


def substitute(node: N, values: Mapping[Var, Expr]) -> N:
    """The node with each variable of `values` replaced by its expression (binding occurrences are left
    alone).
    """
    if not values:
        return node

    def change(child: Any) -> Any:
        if isinstance(child, Var):
            return values.get(child, child)
        return rebuild_keeping_binders(child, change)

    return change(node)


def rebuild_keeping_binders(node: N, change: Callable[[Any], Any]) -> N:
    """`rebuild`, but a Var in a field that binds it (For.var, Parallel.vars, Bind.var, result) stays as it
    is.
    """
    binders = {id(v) for name in ("var", "vars", "result") for v in _vars(getattr(node, name, None))}
    return rebuild(
        node, lambda child: child if id(child) in binders and isinstance(child, Var) else change(child)
    )


def _vars(value: Any) -> tuple[Var, ...]:
    if isinstance(value, Var):
        return (value,)
    return cast("tuple[Var, ...]", value) if isinstance(value, tuple) else ()


def replace_buffers(node: N, buffers: Mapping[Buffer, Buffer]) -> N:
    """The node with buffers exchanged in loads, stores, regions and ops."""

    def change(child: Any) -> Any:
        fresh = rebuild(child, change)
        updates = {
            name: buffers[value]
            for name in _field_names(cast("type[Any]", type(fresh)))
            if isinstance(value := getattr(fresh, name), Buffer) and value in buffers
        }
        return dataclasses.replace(fresh, **updates) if updates else fresh

    return change(node)


def variables(node: Node) -> set[Var]:
    """Every Var below (and including) the node."""
    return {n for n in walk(node) if isinstance(n, Var)}


def loads(node: Node) -> list[Load]:
    """Every Load below the node."""
    return [n for n in walk(node) if isinstance(n, Load)]


def calls(node: Node) -> list[Call]:
    """Every Call below the node."""
    return [n for n in walk(node) if isinstance(n, Call)]


def seq(*parts: Stmt | None) -> Stmt:
    """A flat Seq of the parts (None and empty ones left out); a single part as it is."""
    flat: list[Stmt] = []
    for part in parts:
        if isinstance(part, Seq):
            flat.extend(part.body)
        elif part is not None:
            flat.append(part)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))
