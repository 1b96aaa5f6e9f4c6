"""`T.reduce_*`, `T.any_of`, `T.all_of`: one dimension of a tile folded away."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast, get_args

import numpy as np

from tilebench.errors import TypeTileError, nearest
from tilebench.ir.dtype import DType, bool_, float32, round_to
from tilebench.ir.expr import Expr, Load, binary, call, const, to_bool
from tilebench.ir.folds import combined
from tilebench.ir.rewrite import seq
from tilebench.ir.tile import Buffer, For, Kernel, Region, Stmt, whole
from tilebench.ops.base import BlockValues, Cost, Effect, Op, ReduceKind, as_region, register
from tilebench.ops.regions import (
    Walk,
    accumulator,
    element_count,
    is_private,
    normal_dim,
    on_chip,
    region_bytes,
    shape_text,
    squeezed,
    var_load,
    var_store,
    writable,
)


@register
@dataclass(frozen=True, eq=False)
class Reduce(Op):
    """destination = fold of source along `dim` (of source.shape); not `clear`: folded into its old value.

    destination.shape is source.shape without `dim`, or with extent 1 there. kinds any/all take booleans.
    nan_propagate: max and min give NaN when an element is NaN (else NaN is passed over, and a row of NaNs
    alone gives the identity, -inf for max). Elements are cast to `accumulator_dtype` (float32 for a narrower
    float destination, else the destination's own type), folded there in any order, and rounded once; integers
    wrap around. absmax and abssum start from 0 and take |x| of elements, not of the old value. Sums overflow
    to inf.
    """

    kind: ReduceKind
    source: Region
    destination: Region
    dim: int
    clear: bool = True
    nan_propagate: bool = False
    batch: int = 1
    """How many values threads exchange at a time, when that was asked for; no result depends on it."""

    @property
    def reads(self) -> tuple[Region, ...]:
        return (self.source,) if self.clear else (self.source, self.destination)

    @property
    def writes(self) -> tuple[Region, ...]:
        return (self.destination,)

    @property
    def accumulator_dtype(self) -> DType:
        """The type that the fold runs in."""
        dtype = self.destination.dtype
        if self.kind in ("any", "all"):
            return bool_
        return float32 if dtype.is_float and dtype.bits < 32 else dtype

    @property
    def identity(self) -> int | float | bool:
        """The value that the fold starts from."""
        dtype = self.accumulator_dtype
        match self.kind:
            case "max":
                return -math.inf if dtype.is_float else dtype.min
            case "min":
                return math.inf if dtype.is_float else dtype.max
            case "bitand":
                return -1 if dtype.kind == "int" else dtype.max
            case "any":
                return False
            case "all":
                return True
            case _:
                return 0

    def check(self) -> None:
        a, b = self.source, self.destination
        name = f"reduce_{self.kind}" if self.kind not in ("any", "all") else f"{self.kind}_of"
        on_chip(a, name)
        on_chip(b, name)
        if not 0 <= self.dim < len(a.shape):
            normal_dim(self.dim, len(a.shape), name)
        rest = a.shape[: self.dim] + a.shape[self.dim + 1 :]
        if squeezed(b.shape) != squeezed(rest):
            raise TypeTileError(
                "TB241",
                f"{name}: {a.buffer.name} is {shape_text(a.shape)}, so folding dim {self.dim} gives "
                f"{shape_text(rest)}; "
                f"{b.buffer.name} is {shape_text(b.shape)}",
                fix=f"allocate {b.buffer.name} with shape "
                f"({', '.join(map(str, rest)) or '1'}{',' * (len(rest) == 1)}), "
                "or fold another dim",
            )
        if self.kind in ("any", "all"):
            return
        legal = a.dtype.is_int if self.kind.startswith("bit") else a.dtype.is_float or a.dtype.is_int
        if not legal or a.dtype.is_float != b.dtype.is_float or b.dtype.kind == "bool":
            kinds = (
                "integers"
                if self.kind.startswith("bit")
                else "numbers of one kind (floats to floats, integers to integers)"
            )
            raise TypeTileError(
                "TB242",
                f"{name} of {a.dtype} ({a.buffer.name}) into {b.dtype} ({b.buffer.name})",
                why=f"{name} works on {kinds}",
                fix="copy the tile to a buffer of the wanted type first"
                if legal
                else f"{name} needs an integer buffer",
            )
        if a.buffer is b.buffer:
            raise TypeTileError(
                "TB243",
                f"{name}: {a.buffer.name} is both the source and the destination",
                why="the result would overwrite elements that are still to be read",
                fix="give the result a buffer of its own",
            )
        if b.buffer.scope == "local" and a.buffer.scope != "local":
            raise TypeTileError(
                "TB244",
                f"{name}: {b.buffer.name} is local to each thread, {a.buffer.name} is {a.buffer.scope}",
                why="a local array belongs to one thread; the fold of a tile belongs to the block",
                fix=f"T.alloc_fragment for {b.buffer.name}",
            )
        writable(a, name)
        writable(b, name)

    def run(self, block: BlockValues) -> None:
        values = block.read(self.source)
        dtype = self.accumulator_dtype
        if self.kind in ("any", "all"):
            out = (np.any if self.kind == "any" else np.all)(values != 0, axis=self.dim)
            if not self.clear:
                old = block.read(self.destination).reshape(out.shape) != 0
                out = out | old if self.kind == "any" else out & old
            block.write(self.destination, out.reshape(self.destination.shape))
            return
        values = round_to(values.astype(dtype.compute_dtype), dtype) if self.source.dtype != dtype else values
        if self.kind in ("absmax", "abssum"):
            values = np.abs(values)
        out = self._fold(values, dtype)
        if not self.clear:
            old = block.read(self.destination).reshape(out.shape).astype(dtype.compute_dtype)
            out = _COMBINE[self.kind](out, old)
            if self.nan_propagate and self.kind in ("max", "min", "absmax"):
                out = np.where(np.isnan(old), old, out)
        block.write(self.destination, out.reshape(self.destination.shape))

    def _fold(self, values: np.ndarray, dtype: DType) -> np.ndarray:
        compute = dtype.compute_dtype
        start = np.asarray(self.identity).astype(compute)
        if self.kind in ("sum", "abssum"):
            return np.sum(values, axis=self.dim, dtype=compute)
        folded = _COMBINE[self.kind].reduce(values, axis=self.dim)
        out = _COMBINE[self.kind](folded, start)
        if self.nan_propagate and dtype.is_float:
            out = np.where(np.isnan(values).any(axis=self.dim), np.asarray(np.nan, compute), out)
        return out

    def cost(self) -> Cost:
        return Cost(
            flops=float(element_count(self.source)),
            read={self.source.buffer.scope: region_bytes(self.source)},
            written={self.destination.buffer.scope: region_bytes(self.destination)},
        )

    def combine(self, a: Expr, b: Expr) -> Expr:
        """One step of the fold: `a` so far, `b` the next element (made positive by `prepare`), both
        accumulator_dtype."""
        match self.kind:
            case "any":
                return binary("or", a, b)
            case "all":
                return binary("and", a, b)
            case "sum" | "abssum":
                return combined("sum", False, a, b)
            case "max" | "absmax":
                return combined("max", self.nan_propagate, a, b)
            case "min" | "bitand" | "bitor" | "bitxor":
                return combined(self.kind, self.nan_propagate, a, b)

    def prepare(self, element: Expr) -> Expr:
        """An element of the source as the fold takes it: cast, and |x| for absmax and abssum."""
        if self.kind in ("any", "all"):
            return to_bool(element)
        value = element.astype(self.accumulator_dtype)
        return call("abs", (value,), value.dtype) if self.kind in ("absmax", "abssum") else value

    def expand(self) -> Stmt:
        shape, dim, dtype = self.source.shape, self.dim, self.accumulator_dtype
        rest = shape[:dim] + shape[dim + 1 :]
        walk = Walk(squeezed(rest), "ijlmnp")
        k = walk.inner("k", shape[dim])
        before = len(squeezed(shape[:dim]))
        point = (*walk.vars[:before], *((k,) if shape[dim] != 1 else ()), *walk.vars[before:])
        total = accumulator("total", dtype)
        element = self.prepare(walk.read(self.source, point))
        start: Expr = const(self.identity, dtype)
        if not self.clear:
            old = walk.read(self.destination, walk.vars)
            start = to_bool(old) if dtype.kind == "bool" else old.astype(dtype)
        result = var_load(total).astype(self.destination.dtype)
        return walk.parallel(
            seq(
                var_store(total, start),
                For(k, const(0), const(shape[dim]), var_store(total, self.combine(var_load(total), element))),
                walk.write(self.destination, walk.vars, result),
            ),
            private=is_private(self.source, self.destination),
        )


_COMBINE: dict[str, np.ufunc] = {
    "sum": np.add,
    "abssum": np.add,
    "max": np.fmax,
    "min": np.fmin,
    "absmax": np.fmax,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
}


def _reduce(
    kind: ReduceKind,
    buffer: Any,
    out: Any,
    dim: int,
    clear: bool,
    nan_propagate: bool = False,
    batch: int = 1,
) -> Reduce:
    source = as_region(buffer, "the buffer to reduce")
    name = f"reduce_{kind}"
    if batch < 1:
        raise TypeTileError(
            "TB245", f"{name}: batch={batch}: batch must be >= 1", fix="leave batch out: all rows go together"
        )
    where = normal_dim(dim, len(source.shape), name)
    rest = source.shape[:where] + source.shape[where + 1 :]
    destination = as_region(out, "the result", rest or (1,))
    return Reduce(kind, source, destination, where, clear, nan_propagate, batch)


def reduce(
    buffer: Buffer | Region,
    out: Buffer | Region,
    reduce_type: str,
    dim: int,
    clear: bool,
    batch: int = 1,
    nan_propagate: bool = False,
    annotations: Any = None,
) -> Stmt:
    """Fold dimension `dim` by reduce_type: sum, max, min, absmax, abssum, bitand, bitor, bitxor, any, all."""
    kinds = get_args(ReduceKind)
    if reduce_type not in kinds:
        raise TypeTileError(
            "TB245",
            f"reduce_type {reduce_type!r} is not known{nearest(str(reduce_type), kinds)}",
            fix=f"one of {', '.join(kinds)}",
        )
    return _reduce(reduce_type, buffer, out, dim, clear, nan_propagate, batch)  # type: ignore[arg-type]


def reduce_sum(
    buffer: Buffer | Region,
    out: Buffer | Region,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    annotations: Any = None,
) -> Stmt:
    """out = sum of `buffer` along `dim`; clear=False adds to out. batch: how many rows threads
    exchange at a time (no value depends on it, nor on annotations)."""
    return _reduce("sum", buffer, out, dim, clear, batch=batch)


def reduce_max(
    buffer: Buffer | Region,
    out: Buffer | Region,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    annotations: Any = None,
) -> Stmt:
    """out = largest element along `dim`; NaN is passed over unless nan_propagate."""
    return _reduce("max", buffer, out, dim, clear, nan_propagate, batch)


def reduce_min(
    buffer: Buffer | Region,
    out: Buffer | Region,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    annotations: Any = None,
) -> Stmt:
    """out = smallest element along `dim`; NaN is passed over unless nan_propagate."""
    return _reduce("min", buffer, out, dim, clear, nan_propagate, batch)


def reduce_absmax(
    buffer: Buffer | Region,
    out: Buffer | Region,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    annotations: Any = None,
) -> Stmt:
    """out = largest |element| along `dim`."""
    return _reduce("absmax", buffer, out, dim, clear, nan_propagate, batch)


def reduce_abssum(
    buffer: Buffer | Region,
    out: Buffer | Region,
    dim: int = -1,
    batch: int = 1,
    clear: bool = True,
    annotations: Any = None,
) -> Stmt:
    """out = sum of |element| along `dim`."""
    return _reduce("abssum", buffer, out, dim, clear, batch=batch)


def reduce_bitand(
    buffer: Buffer | Region,
    out: Buffer | Region,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    annotations: Any = None,
) -> Stmt:
    """out = bitwise and of the elements along `dim`."""
    return _reduce("bitand", buffer, out, dim, clear, batch=batch)


def reduce_bitor(
    buffer: Buffer | Region,
    out: Buffer | Region,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    annotations: Any = None,
) -> Stmt:
    """out = bitwise or of the elements along `dim`."""
    return _reduce("bitor", buffer, out, dim, clear, batch=batch)


def reduce_bitxor(
    buffer: Buffer | Region,
    out: Buffer | Region,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    annotations: Any = None,
) -> Stmt:
    """out = bitwise exclusive or of the elements along `dim`."""
    return _reduce("bitxor", buffer, out, dim, clear, batch=batch)


MAX_LOADED = 256
"""Elements of a global tensor that any_of and all_of load one by one."""


def _loaded(kind: ReduceKind, source: Region) -> Expr:
    """The condition over a slice of a global tensor, which every thread loads for itself."""
    found: Any = None
    for index in np.ndindex(*source.extents):
        place = tuple(o + i for o, i in zip(source.offsets, index, strict=True))
        item = to_bool(Load(source.buffer, place, dtype=source.dtype))
        found = item if found is None else binary("or" if kind == "any" else "and", found, item)
    return cast("Expr", found)


def _logical(kind: ReduceKind, buffer: Any) -> Effect | Expr:
    source = as_region(buffer, "the buffer")
    wide = [d for d, e in enumerate(source.shape) if e != 1]
    if len(wide) > 1:
        raise TypeTileError(
            "TB246",
            f"{kind}_of: {source.buffer.name} is {shape_text(source.shape)}; it folds one dimension",
            fix=f"T.{kind}_of(T.reshape({source.buffer.name}, ({element_count(source)},))) looks at all of it"
            if source.is_whole
            else f"fold rows first: T.reduce({source.buffer.name}, rows, '{kind}', dim=-1, clear=True), "
            f"then T.{kind}_of(rows)",
        )
    if source.buffer.scope == "global" and element_count(source) <= MAX_LOADED:
        return _loaded(kind, source)
    result = Buffer(f"{kind}_of_{source.buffer.name}", (const(1),), bool_, "var")
    dim = wide[0] if wide else len(source.shape) - 1
    return Effect(Reduce(kind, source, whole(result), dim), result[0])


def any_of(buffer: Buffer | Region) -> Effect | Expr:
    """Whether an element of the (one-dimensional) tile is true or not zero."""
    return _logical("any", buffer)


def all_of(buffer: Buffer | Region) -> Effect | Expr:
    """Whether every element of the (one-dimensional) tile is true or not zero."""
    return _logical("all", buffer)


def _example(
    kind: ReduceKind,
    shape: tuple[int, ...],
    dim: int,
    dtype: str,
    out: str,
    scope: str = "fragment",
    clear: bool = True,
    nan: bool = False,
) -> Callable[[], Kernel]:
    def build() -> Kernel:
        from tilebench.ops.copy.spec import copy
        from tilebench.ops.elementwise import fill
        from tilebench.ops.examples import Draft

        d = Draft(f"reduce_{kind}")
        rest = shape[:dim] + shape[dim + 1 :]
        a, b = d.tensor("A", shape, dtype), d.tensor("B", rest, out, "out")
        part = d.fragment("part", shape, dtype) if scope == "fragment" else d.shared("part", shape, dtype)
        total = d.fragment("total", rest, out)
        d.add(copy(a, part))
        if not clear:
            d.add(fill(total, 3))
        d.add(_reduce(kind, part, total, dim, clear, nan), copy(total, b))
        return d.kernel()

    build.__name__ = f"{kind}_{dtype}_{shape_text(shape)}_dim{dim}_{scope}" + ("" if clear else "_merge")
    return build


def _logical_example(kind: ReduceKind, count: int) -> Callable[[], Kernel]:
    def build() -> Kernel:
        from tilebench.ops.copy.spec import copy
        from tilebench.ops.examples import Draft

        d = Draft(f"{kind}_of")
        a, b = d.tensor("A", (count,), "int32"), d.tensor("B", (1,), "int32", "out")
        flags = d.shared("flags", (count,), "bool")
        d.add(copy(a, flags))
        answer = _logical(kind, flags)
        assert isinstance(answer, Effect), "a shared tile is folded by a statement"
        d.store(b, 0, d.add(answer))
        return d.kernel()

    build.__name__ = f"{kind}_of_{count}"
    return build


Reduce.examples = (
    _example("sum", (64, 48), 1, "float32", "float32"),
    _example("sum", (40, 33), 0, "float16", "float32"),
    _example("sum", (32, 64), 1, "float16", "float16"),
    _example("sum", (16, 100), 1, "int8", "int32", "shared"),
    _example("sum", (64, 64), 1, "float32", "float32", clear=False),
    _example("max", (64, 48), 1, "float32", "float32"),
    _example("max", (5, 6, 7), 1, "bfloat16", "bfloat16", "shared"),
    _example("min", (33, 17), 0, "int32", "int32"),
    _example("max", (64, 32), 1, "float32", "float32", clear=False),
    _example("max", (16, 32), 1, "float32", "float32", nan=True),
    _example("absmax", (32, 32), 1, "float16", "float32"),
    _example("abssum", (32, 24), 0, "float32", "float32", clear=False),
    _example("bitand", (16, 20), 1, "int32", "int32"),
    _example("bitor", (16, 20), 0, "uint8", "uint8"),
    _example("bitxor", (24, 16), 1, "int32", "int32", "shared", clear=False),
    _example("sum", (77,), 0, "float32", "float32"),
    _logical_example("any", 100),
    _logical_example("all", 32),
)
