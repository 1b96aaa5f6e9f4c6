"""`T.cumsum`, `T.cummax`: running sum or maximum along one dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tilebench.errors import TypeTileError
from tilebench.ir.dtype import DType, float32, round_to
from tilebench.ir.expr import Expr, binary, const
from tilebench.ir.rewrite import seq
from tilebench.ir.tile import Buffer, For, Kernel, Region, Stmt
from tilebench.ops.base import BlockValues, Cost, Op, register
from tilebench.ops.regions import (
    Walk,
    accumulator,
    element_count,
    is_private,
    normal_dim,
    on_chip,
    pair,
    region_bytes,
    shape_text,
    squeezed,
    var_load,
    var_store,
    writable,
)


@register
@dataclass(frozen=True, eq=False)
class Scan(Op):
    """destination[..., k, ...] = fold of source[..., 0..k, ...] along `dim`; reverse: of k..end.

    Runs in float32 for a narrower float destination, else in the destination's type (integers wrap around),
    and rounds each result once. A running maximum passes over NaN.
    """

    kind: Literal["sum", "max"]
    source: Region
    destination: Region
    dim: int = 0
    reverse: bool = False

    @property
    def reads(self) -> tuple[Region, ...]:
        return (self.source,)

    @property
    def writes(self) -> tuple[Region, ...]:
        return (self.destination,)

    @property
    def accumulator_dtype(self) -> DType:
        """The type that the fold runs in."""
        dtype = self.destination.dtype
        return float32 if dtype.is_float and dtype.bits < 32 else dtype

    @property
    def identity(self) -> int | float:
        """The value that the fold starts from."""
        dtype = self.accumulator_dtype
        return 0 if self.kind == "sum" else -math.inf if dtype.is_float else dtype.min

    def check(self) -> None:
        a, b = self.source, self.destination
        name = f"cum{self.kind}"
        on_chip(a, name)
        on_chip(b, name)
        if not 0 <= self.dim < len(a.shape):
            normal_dim(self.dim, len(a.shape), name)
        if a.shape != b.shape:
            raise TypeTileError(
                "TB247",
                f"{name}: {a.buffer.name} is {shape_text(a.shape)}, {b.buffer.name} is {shape_text(b.shape)}",
                why="each element of the result stands at the place of one of the source",
                fix=f"allocate {b.buffer.name} with shape {a.shape}",
            )
        if a.dtype.is_float != b.dtype.is_float or "bool" in (a.dtype.kind, b.dtype.kind):
            raise TypeTileError(
                "TB248",
                f"{name} of {a.dtype} ({a.buffer.name}) into {b.dtype} ({b.buffer.name})",
                why=f"{name} goes from floats to floats or from integers to integers",
                fix="copy the tile to a buffer of the wanted type first",
            )
        writable(a, name)
        writable(b, name)

    def run(self, block: BlockValues) -> None:
        dtype = self.accumulator_dtype
        values = round_to(block.read(self.source).astype(dtype.compute_dtype), dtype)
        if self.reverse:
            values = np.flip(values, self.dim)
        fold = np.add if self.kind == "sum" else np.fmax
        out = fold.accumulate(values, axis=self.dim)
        if self.kind == "max" and dtype.is_float:
            out = np.fmax(out, np.asarray(-np.inf, dtype.compute_dtype))
        block.write(self.destination, np.flip(out, self.dim) if self.reverse else out)

    def cost(self) -> Cost:
        return Cost(
            flops=float(element_count(self.source)),
            read={self.source.buffer.scope: region_bytes(self.source)},
            written={self.destination.buffer.scope: region_bytes(self.destination)},
        )

    def expand(self) -> Stmt:
        shape, dim, dtype = self.source.shape, self.dim, self.accumulator_dtype
        walk = Walk(squeezed(shape[:dim] + shape[dim + 1 :]), "ijlmnp")
        k = walk.inner("k", shape[dim])
        place: Expr = const(shape[dim] - 1) - k if self.reverse else k
        before = len(squeezed(shape[:dim]))
        point = (*walk.vars[:before], *((place,) if shape[dim] != 1 else ()), *walk.vars[before:])
        total = accumulator("total", dtype)
        element = walk.read(self.source, point).astype(dtype)
        step = binary("add" if self.kind == "sum" else "max", var_load(total), element)
        return walk.parallel(
            seq(
                var_store(total, const(self.identity, dtype)),
                For(
                    k,
                    const(0),
                    const(shape[dim]),
                    seq(var_store(total, step), walk.write(self.destination, point, var_load(total))),
                ),
            ),
            private=is_private(self.source, self.destination),
        )


def _scan(kind: Literal["sum", "max"], src: Any, dst: Any, dim: int, reverse: bool) -> Stmt:
    source, destination = pair(src, src if dst is None else dst, "the source", "the destination")
    return Scan(kind, source, destination, normal_dim(dim, len(source.shape), f"cum{kind}"), reverse)


def cumsum(
    src: Buffer | Region,
    dst: Buffer | Region | None = None,
    dim: int = 0,
    reverse: bool = False,
    annotations: Any = None,
) -> Stmt:
    """Running sum along `dim`, in place when dst is left out; reverse starts at the end."""
    return _scan("sum", src, dst, dim, reverse)


def cummax(
    src: Buffer | Region,
    dst: Buffer | Region | None = None,
    dim: int = 0,
    reverse: bool = False,
    annotations: Any = None,
) -> Stmt:
    """Running maximum along `dim`, in place when dst is left out; reverse starts at the end."""
    return _scan("max", src, dst, dim, reverse)


def _example(
    kind: Literal["sum", "max"],
    shape: tuple[int, ...],
    dim: int,
    dtype: str,
    reverse: bool = False,
    in_place: bool = False,
) -> Callable[[], Kernel]:
    def build() -> Kernel:
        from tilebench.ops.copy.spec import copy
        from tilebench.ops.examples import Draft

        d = Draft(f"cum{kind}")
        a, b = d.tensor("A", shape, dtype), d.tensor("B", shape, dtype, "out")
        one = d.shared("one", shape, dtype)
        two = one if in_place else d.fragment("two", shape, dtype)
        d.add(copy(a, one), _scan(kind, one, two, dim, reverse), copy(two, b))
        return d.kernel()

    build.__name__ = (
        f"cum{kind}_{dtype}_{shape_text(shape)}_dim{dim}" + "_reverse" * reverse + "_in_place" * in_place
    )
    return build


Scan.examples = (
    _example("sum", (64, 32), 1, "float32"),
    _example("sum", (33, 20), 0, "int32", reverse=True),
    _example("sum", (100,), 0, "float32", in_place=True),
    _example("max", (16, 40), 1, "float16"),
    _example("max", (16, 24), 0, "int8", reverse=True, in_place=True),
    _example("sum", (8, 16), 1, "bfloat16"),
)
