"""Tensor parameters: from annotations and from the tensors of a call to global buffers."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilebench.errors import LaunchError, Loc, TypeTileError
from tilebench.ir.dtype import DType, int32
from tilebench.ir.expr import Expr, Var, as_expr, int_value
from tilebench.ir.tile import Buffer
from tilebench.language.markers import ConstVar, TensorType

if TYPE_CHECKING:
    from tilebench.language.walker import Walker


@dataclass(frozen=True)
class TensorSpec:
    """A tensor that an eager function is called with. strides in elements; None: known only at the call."""

    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    dtype: DType


def as_buffer(name: str, kind: TensorType, at: Loc | None) -> Buffer:
    """The buffer of a declared parameter."""
    for extent in kind.shape:
        if isinstance(extent, ConstVar):
            raise TypeTileError(
                "TB213",
                f"{extent.name} is a T.const name",
                at=at,
                why="those belong to eager functions, whose tensors determine them",
                fix="use a number, or T.dynamic",
            )
    shape = tuple(_extent(name, s, at) for s in kind.shape)
    strides = None if kind.strides is None else tuple(as_expr(s) for s in kind.strides)
    return Buffer(name, shape, kind.dtype, "global", strides, loc=at)


def _extent(name: str, value: Any, at: Loc | None) -> Expr:
    try:
        e = as_expr(value if isinstance(value, Expr | int) else int(value))
    except (TypeError, ValueError):
        raise TypeTileError(
            "TB206",
            f"{name}: an extent is {value!r}",
            at=at,
            why="extents are whole numbers below 2**63, or T.dynamic names",
            fix="T.Tensor((M, N), dtype)",
        ) from None
    number = int_value(e)
    if number is not None and number < 0:
        raise TypeTileError(
            "TB206",
            f"{name}: an extent is {number}",
            at=at,
            why="a tensor cannot have fewer than no elements",
            fix="extents are 0 or more",
        )
    return e


def bind_spec(walker: Walker, name: str, kind: TensorType, at: Loc | None) -> Buffer:
    """An eager function's tensor: the declared shape met with that of the call; T.const names take values."""
    spec = walker.tensor_specs.get(name)
    if spec is None:
        return as_buffer(
            name, dataclasses.replace(kind, shape=tuple(walker.evaluate.read(s) for s in kind.shape)), at
        )
    if len(spec.shape) != len(kind.shape):
        raise LaunchError(
            "TB604",
            f"{name} has {len(spec.shape)} dimensions {spec.shape}, expected {len(kind.shape)}",
            at=at,
            why=f"it is declared with {len(kind.shape)}",
            fix="reshape it",
        )
    pairs = enumerate(zip(kind.shape, spec.shape, strict=True))
    shape = tuple(_meet(walker, name, "shape", d, declared, actual, at) for d, (declared, actual) in pairs)
    strides = None
    if kind.strides is not None:
        strides = tuple(
            _meet(walker, name, "strides", d, s, spec.strides[d], at) for d, s in enumerate(kind.strides)
        )
    return Buffer(
        name,
        tuple(as_expr(s) for s in shape),
        kind.dtype,
        "global",
        None if strides is None else tuple(as_expr(s) for s in strides),
        loc=at,
    )


def _meet(
    walker: Walker, name: str, what: str, d: int, declared: Any, actual: int | None, at: Loc | None
) -> Any:
    """One extent or stride: as declared, when the tensor agrees; T.const names take their value here."""
    if isinstance(declared, ConstVar):
        known = walker.consts.setdefault(
            declared, Var(declared.name, dtype=int32) if actual is None else actual
        )
        if isinstance(known, int) and actual is not None and known != actual:
            raise LaunchError(
                "TB604",
                f"{name}.{what}[{d}] is {actual}, expected {declared.name} = {known}",
                at=at,
                why=f"{declared.name} was set by an earlier tensor",
                fix="pass tensors whose shapes fit together",
            )
        return known
    e = _extent(name, declared, at)
    number = int_value(e)
    if number is not None and actual is not None and number != actual:
        raise LaunchError(
            "TB604",
            f"{name}.{what}[{d}] is {actual}, expected {number}",
            at=at,
            why="it is declared with that number",
            fix="pass tensors whose shapes fit together",
        )
    return e


def undeclared(name: str, spec: TensorSpec, at: Loc | None) -> Buffer:
    """A tensor argument with no annotation: its own shape, and strides where it is not row-major."""
    shape = tuple(
        Var(f"{name}_{d}", dtype=int32) if s is None else as_expr(s) for d, s in enumerate(spec.shape)
    )
    return Buffer(name, shape, spec.dtype, "global", strides=_other_strides(spec), loc=at)


def _other_strides(spec: TensorSpec) -> tuple[Expr, ...] | None:
    """The strides of a tensor that is known not to lie row by row."""
    below, plain = 1, True
    for extent, stride in zip(reversed(spec.shape), reversed(spec.strides), strict=True):
        if extent is None or stride is None:
            return None
        plain = plain and (extent == 1 or stride == below)
        below *= extent
    return None if plain or not below else tuple(as_expr(s) for s in spec.strides)


def foreseen_constants(node: ast.FunctionDef, specs: Mapping[str, TensorSpec]) -> dict[str, int]:
    """Values of T.const names that are extents, read ahead: they may be used before the declaration."""
    constants: dict[str, str] = {}  # the name of the program -> the name given to T.const
    values: dict[str, ast.expr] = {}  # other names -> what they are assigned first
    found: dict[str, int] = {}
    for statement in node.body:
        match statement:
            case ast.Assign(
                targets=[target],
                value=ast.Call(func=ast.Attribute(attr="const"), args=[ast.Constant(value=str(text)), *_]),
            ):
                for t, name in zip(_parts(target), text.replace(",", " ").split(), strict=False):
                    if isinstance(t, ast.Name):
                        constants[t.id] = name
            case ast.Assign(targets=[target], value=value):
                several = isinstance(target, ast.Tuple | ast.List)
                for t, v in zip(_parts(target), _parts(value) if several else [value], strict=False):
                    if isinstance(t, ast.Name):
                        values.setdefault(t.id, v)
            case ast.AnnAssign(target=ast.Name(id=tensor), annotation=annotation, value=None) if (
                tensor in specs
            ):
                extents = _parts(_known(_shape(annotation), values))
                for extent, actual in zip(extents, specs[tensor].shape, strict=False):
                    extent = _known(extent, values)
                    if isinstance(extent, ast.Name) and extent.id in constants and actual is not None:
                        found.setdefault(constants[extent.id], actual)
            case _:
                pass
    return found


def _shape(annotation: ast.expr) -> ast.expr:
    """The shape in `T.Tensor(shape, dtype)` or `T.Tensor[shape, dtype]`."""
    match annotation:
        case ast.Call(args=[shape, *_]) | ast.Subscript(slice=ast.Tuple(elts=[shape, *_])):
            return shape
        case _:
            return annotation


def _known(e: ast.expr, values: Mapping[str, ast.expr]) -> ast.expr:
    """What a name was assigned, through a few names."""
    for _ in range(8):
        if not (isinstance(e, ast.Name) and e.id in values):
            break
        e = values[e.id]
    return e


def _parts(e: ast.expr) -> list[ast.expr]:
    return e.elts if isinstance(e, ast.Tuple | ast.List) else [e]
