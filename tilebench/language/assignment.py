"""Assignment: names (values or variables), elements and slices of buffers, annotated names."""

from __future__ import annotations

import ast
from typing import Any, cast

from tilebench.errors import Loc, SyntaxTileError, TypeTileError
from tilebench.ir.dtype import DType, float32, int32
from tilebench.ir.expr import Expr, Load, Var, const
from tilebench.ir.tile import Buffer, Parallel, Region, Store
from tilebench.language.dtypes import ScalarType
from tilebench.language.expressions import operate
from tilebench.language.indexing import element_or_region
from tilebench.language.markers import TensorType, VarSpec
from tilebench.language.scope import Frame
from tilebench.language.walker import Walker


def assign(walker: Walker, node: ast.Assign, frame: Frame) -> None:
    """`a = b = value`, `a, b = b, a`: the value is computed in full before anything is assigned."""
    value = walker.evaluate(node.value, frame)
    several = any(isinstance(t, ast.Tuple | ast.List) for t in node.targets) and isinstance(
        value, tuple | list
    )
    if several:
        value = walker.held(value, frame, node)
    elif len(node.targets) > 1:
        value = walker.bound("held", value, frame, node)
    for target in node.targets:
        set_target(walker, target, value, frame, node)


def set_target(walker: Walker, target: ast.expr, value: Any, frame: Frame, node: ast.AST) -> None:
    """`target = value`."""
    match target:
        case ast.Name():
            set_name(walker, target.id, value, frame, node)
        case ast.Tuple() | ast.List():
            starred = [i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)]
            if starred:
                values = _spread(walker, value, target, starred[0], frame, node)
            else:
                values = walker.unpacked(value, len(target.elts), frame, node)
            for t, v in zip(target.elts, values, strict=True):
                set_target(walker, t.value if isinstance(t, ast.Starred) else t, v, frame, node)
        case ast.Subscript():
            base = walker.evaluate.base(target.value, frame)
            set_element(walker, base, walker.evaluate(target.slice, frame), value, target, frame, node)
        case _:
            raise SyntaxTileError(
                "TB102",
                f"assignment to {ast.unparse(target)}",
                at=frame.loc(target),
                why="only names and elements of buffers can be assigned",
                fix="use a buffer or a T.alloc_var",
            )


def _spread(
    walker: Walker, value: Any, target: ast.Tuple | ast.List, star: int, frame: Frame, node: ast.AST
) -> list[Any]:
    if not isinstance(value, list | tuple):
        return walker.unpacked(value, len(target.elts), frame, node)
    values, after = list(cast("list[Any]", value)), len(target.elts) - star - 1
    if len(values) < star + after:
        raise TypeTileError(
            "TB222",
            f"{len(values)} values for {star + after} names and a rest",
            at=frame.loc(node),
            why="each name takes one value",
            fix="use as many names as values",
        )
    return [*values[:star], values[star : len(values) - after], *values[len(values) - after :]]


def set_name(walker: Walker, name: str, value: Any, frame: Frame, node: ast.AST) -> None:
    """`name = value`: a store when the name is a variable, else a binding."""
    at = frame.loc(node)
    current = frame.names.get(name)
    fresh = isinstance(value, VarSpec) or (isinstance(value, Buffer) and value.name == "")
    if isinstance(current, Buffer) and current.scope == "var" and not isinstance(value, Buffer | VarSpec):
        walker.store(current, (const(0),), value, at)
        return
    if name in frame.references and isinstance(current, Load):
        walker.store(current.buffer, current.indices, value, at)
        return
    if (
        frame.depth
        and name in frame.names
        and frame.bound_at.get(name, 0) < frame.depth
        and not fresh
        and value is not current
    ):
        raise _carried(name, current, at)
    frame.names[name] = walker.named(value, name, frame, node)
    frame.bound_at[name] = frame.depth
    frame.gone.pop(name, None)


def _carried(name: str, current: Any, at: Loc) -> SyntaxTileError:
    if isinstance(current, Expr | int | float | bool) or current is None:
        start = current if isinstance(current, int | float) else 0
        return SyntaxTileError(
            "TB106",
            f"{name} is changed inside a run-time loop or branch",
            at=at,
            why=(
                f"{name} is a value, not a variable: it was bound outside, and the loop would not carry the "
                "new one on"
            ),
            fix=f"declare it before: {name} = T.alloc_var('{_kind(current)}', {start})",
        )
    return SyntaxTileError(
        "TB106",
        f"{name} is bound again inside a run-time loop or branch",
        at=at,
        why=(
            f"{name} is a {type(current).__name__} that is known while the kernel is compiled; the loop's "
            "body is compiled once"
        ),
        fix="use another name, or unroll the loop: for x in (…)",
    )


def _kind(value: Any) -> str:
    if isinstance(value, Expr):
        return value.dtype.name
    return "bool" if isinstance(value, bool) else "int32" if isinstance(value, int) else float32.name


def _type_name(value: Any) -> str:
    return type(value).__name__


def set_element(
    walker: Walker, base: Any, index: Any, value: Any, target: ast.Subscript, frame: Frame, node: ast.AST
) -> None:
    """`base[index] = value`: a store, a fill of a slice, or an item of a Python list or dict."""
    at = frame.loc(node)
    if isinstance(base, Buffer | Region):
        place = element_or_region(base, index, frame.loc(target))
        if isinstance(place, Load):
            walker.store(place.buffer, place.indices, value, at)
        else:
            _set_region(walker, place, value, at, frame, node)
        return
    if not isinstance(base, dict | list):
        raise TypeTileError(
            "TB224",
            f"{_type_name(base)} cannot be assigned by index",
            at=frame.loc(target),
            why="elements of buffers, lists and dicts can",
            fix="assign to elements of buffers",
        )
    if isinstance(index, Expr):
        raise TypeTileError(
            "TB215",
            f"a Python {_type_name(base)} indexed by a value that is known only at run time",
            at=frame.loc(target),
            why="it exists only while the kernel is compiled",
            fix="keep the values in a buffer: T.alloc_local((n,), dtype)",
        )
    table = cast("dict[Any, Any]", base)
    try:
        current = table[index]
    except (KeyError, IndexError, TypeError):
        current = None
    if isinstance(current, Buffer) and current.scope == "var" and not isinstance(value, Buffer | VarSpec):
        walker.store(current, (const(0),), value, at)
        return
    owner = target.value.id if isinstance(target.value, ast.Name) else ""
    if frame.depth and frame.bound_at.get(owner, 0) < frame.depth:
        raise _carried(ast.unparse(target), current, at)
    try:
        table[index] = walker.named(value, f"{owner or 'item'}_{index}", frame, node)
    except (IndexError, TypeError) as error:
        raise TypeTileError(
            "TB211",
            f"this assignment failed: {error}",
            at=at,
            why="it is done by Python while the kernel is compiled",
            fix="correct the index",
        ) from error


def _set_region(walker: Walker, place: Region, value: Any, at: Loc, frame: Frame, node: ast.AST) -> None:
    if isinstance(value, Buffer | Region):
        from tilebench.ops.copy import copy

        walker.emit(copy(value, place), at)
        return
    if isinstance(value, tuple | list):
        size = place.shape[0] if len(place.shape) == 1 else 0
        for k, v in enumerate(walker.unpacked(value, size, frame, node)):
            walker.store(place.buffer, place.index((const(k),)), v, at)
        return
    variables = tuple(Var(f"i{d}", dtype=int32) for d in range(len(place.shape)))
    e = walker.scalar_value(walker.bound("value", value, frame, node), at).astype(place.dtype)
    walker.emit(Parallel(variables, place.shape, Store(place.buffer, place.index(variables), e, loc=at)), at)


def augmented(walker: Walker, node: ast.AugAssign, frame: Frame) -> None:
    """`target op= value`; the index of an element is computed once."""
    if isinstance(node.target, ast.Subscript):
        target = node.target
        base = walker.evaluate.base(target.value, frame)
        index = walker.evaluate(target.slice, frame)
        if isinstance(index, Expr):
            index = walker.bound("index", index, frame, node)
        elif isinstance(index, tuple):
            index = tuple(walker.bound("index", i, frame, node) for i in cast("tuple[Any, ...]", index))
        old: Any = walker.evaluate.item(base, index, target, frame)
        value = operate(walker.evaluate, node.op, old, walker.evaluate(node.value, frame), node, frame)
        set_element(walker, base, index, value, target, frame, node)
        return
    if not isinstance(node.target, ast.Name):
        raise SyntaxTileError(
            "TB102",
            f"assignment to {ast.unparse(node.target)}",
            at=frame.loc(node),
            why="only names and elements of buffers can be assigned",
            fix="use a buffer or a T.alloc_var",
        )
    read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
    value = operate(
        walker.evaluate,
        node.op,
        walker.evaluate(read, frame),
        walker.evaluate(node.value, frame),
        node,
        frame,
    )
    set_name(walker, node.target.id, value, frame, node)


def annotated(walker: Walker, node: ast.AnnAssign, frame: Frame) -> None:
    """`A: T.Tensor[...]` declares an eager function's tensor; `x: T.int32 = 1` a variable."""
    # A declaration names its T.const extents, and checks them: what was read ahead is set aside.
    foreseen, walker.foreseen = walker.foreseen, {}
    try:
        annotation = annotation_of(walker, node.annotation, frame)
    except TypeTileError as error:
        if error.code != "TB213" or not foreseen:
            raise
        walker.foreseen = foreseen  # it computes with one that a later declaration determines
        annotation = annotation_of(walker, node.annotation, frame)
    finally:
        walker.foreseen = foreseen
    at = frame.loc(node)
    if not isinstance(node.target, ast.Name):
        raise SyntaxTileError(
            "TB102",
            f"an annotation at {ast.unparse(node.target)}",
            at=at,
            why="annotations declare names",
            fix="leave the annotation out",
        )
    name = node.target.id
    if isinstance(annotation, TensorType) and node.value is None:
        from tilebench.language.tensors import bind_spec

        frame.names[name] = walker.parameters[name] = bind_spec(walker, name, annotation, at)
        return
    value = walker.evaluate(node.value, frame) if node.value is not None else None
    if isinstance(annotation, DType) and not isinstance(value, Buffer | VarSpec):
        buffer = walker.declare(Buffer("", (const(1),), annotation, "var"), name, at)
        if node.value is not None:
            walker.store(buffer, (const(0),), value, at)
        frame.names[name], frame.bound_at[name] = buffer, frame.depth
        return
    if node.value is not None:
        set_name(walker, name, value, frame, node)


def annotation_of(walker: Walker, node: ast.expr, frame: Frame) -> Any:
    """An annotation's value; strings are parsed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            inner = ast.parse(node.value.strip(), mode="eval").body
        except (SyntaxError, ValueError) as error:
            raise SyntaxTileError(
                "TB100",
                f"this annotation is not Python: {error}",
                at=frame.loc(node),
                why="an annotation in quotes is parsed as Python",
                fix="write the type without quotes",
            ) from None
        for n in ast.walk(inner):
            ast.copy_location(n, node)
        node = inner
    value = walker.evaluate(node, frame)
    return ScalarType(value.name, value.kind, value.bits, value.lanes) if isinstance(value, DType) else value
