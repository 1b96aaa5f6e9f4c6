"""Tensor parameters: from annotations and from the tensors of a call to global buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilebench.errors import LaunchError, Loc, TypeTileError
from tilebench.ir.dtype import DType
from tilebench.ir.expr import Expr, as_expr, int_value
from tilebench.ir.tile import Buffer
from tilebench.language.markers import ConstVar, TensorType

if TYPE_CHECKING:
    from tilebench.language.walker import Walker


@dataclass(frozen=True)
class TensorSpec:
    """A tensor that an eager function is called with. strides in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType


def as_buffer(name: str, kind: TensorType, at: Loc | None) -> Buffer:
    """The buffer of a declared parameter."""
    for extent in kind.shape:
        if isinstance(extent, ConstVar):
            raise TypeTileError("TB213", f"{extent.name} is a T.const name", at=at, why="those belong to eager functions, whose tensors determine them", fix="use a number, or T.dynamic")
    shape = tuple(_extent(name, s, at) for s in kind.shape)
    strides = None if kind.strides is None else tuple(as_expr(s) for s in kind.strides)
    return Buffer(name, shape, kind.dtype, "global", strides, loc=at)


def _extent(name: str, value: Any, at: Loc | None) -> Expr:
    try:
        e = as_expr(value if isinstance(value, Expr | int) else int(value))
    except (TypeError, ValueError):
        raise TypeTileError("TB206", f"{name}: an extent is {value!r}", at=at, why="extents are whole numbers or T.dynamic names", fix="T.Tensor((M, N), dtype)") from None
    number = int_value(e)
    if number is not None and number < 0:
        raise TypeTileError("TB206", f"{name}: an extent is {number}", at=at, fix="extents are 0 or more")
    return e


def bind_spec(walker: Walker, name: str, kind: TensorType, at: Loc | None) -> Buffer:
    """An eager function's tensor: its declared shape met with the shape it is called with. T.const names take their values."""
    spec = walker.tensor_specs.get(name)
    if spec is None:
        return as_buffer(name, TensorType(tuple(walker.consts.get(s, s) if isinstance(s, ConstVar) else s for s in kind.shape), kind.dtype, kind.strides), at)
    if not isinstance(spec, TensorSpec):
        raise LaunchError("TB603", f"{name} is declared as a tensor, got {type(spec).__name__}", at=at, fix="pass a tensor")
    if len(spec.shape) != len(kind.shape):
        raise LaunchError("TB604", f"{name} has {len(spec.shape)} dimensions {spec.shape}, expected {len(kind.shape)}", at=at, fix="reshape it")
    shape = tuple(_meet(walker, name, d, declared, actual, at) for d, (declared, actual) in enumerate(zip(kind.shape, spec.shape, strict=True)))
    strides = None
    if kind.strides is not None:
        strides = tuple(_meet(walker, name, d, s, spec.strides[d], at) for d, s in enumerate(kind.strides))
    return Buffer(name, tuple(as_expr(s) for s in shape), kind.dtype, "global", None if strides is None else tuple(as_expr(s) for s in strides), loc=at)


def _meet(walker: Walker, name: str, d: int, declared: Any, actual: int, at: Loc | None) -> Any:
    if isinstance(declared, ConstVar):
        known = walker.consts.setdefault(declared, actual)
        if known != actual:
            raise LaunchError(
                "TB604", f"{name}.shape[{d}] is {actual}, expected {declared.name} = {known}", at=at, why=f"{declared.name} was set by an earlier tensor",
                fix="pass tensors whose shapes fit together",
            )  # fmt: skip
        return actual
    number = int_value(as_expr(declared))
    if number is not None and number != actual:
        raise LaunchError("TB604", f"{name}.shape[{d}] is {actual}, expected {number}", at=at, why="it is declared with that extent", fix="pass tensors whose shapes fit together")
    return declared


def undeclared(name: str, spec: TensorSpec, at: Loc | None) -> Buffer:
    """A tensor argument with no annotation: its own shape, row-major."""
    return Buffer(name, tuple(as_expr(s) for s in spec.shape), spec.dtype, "global", loc=at)
