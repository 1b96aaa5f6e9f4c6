"""`T.atomic_add/max/min/...`: scalar forms are the AtomicRMW statement; tile forms are this op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from tilebench.errors import ArgumentError, TypeTileError
from tilebench.ir.expr import Expr, Load, Var, as_expr, const
from tilebench.ir.tile import MEMORY_ORDERS, AtomicRMW, Buffer, Kernel, Region, Seq, Stmt
from tilebench.ops.base import (
    BlockValues,
    Cost,
    Effect,
    Lowering,
    Offer,
    Op,
    PlaceContext,
    Requirement,
    as_region,
    register,
    scalar,
)
from tilebench.ops.copy import bulk_reduce
from tilebench.ops.copy.bulk import tile_layout
from tilebench.ops.regions import (
    coordinates,
    element_count,
    extents_of,
    fitting,
    over,
    pair,
    region_bytes,
    shape_text,
    squeezed,
    writable,
)
from tilebench.targets import Target

AtomicOp = Literal["add", "max", "min", "and", "or", "xor"]


@register
@dataclass(frozen=True, eq=False)
class AtomicTile(Op):
    """destination[...] op= value[...] atomically, element by element; value is a tile or one scalar for all.

    Values are cast to the destination's dtype; each addition is rounded to it, integers wrap around, max and
    min pass over NaN. The order among blocks is not defined. Elements outside a global destination are
    skipped.
    """

    lowerings: ClassVar[Mapping[str, Lowering]] = {bulk_reduce.NAME: bulk_reduce.lower}

    op: AtomicOp
    destination: Region
    value: Region | Expr
    order: str = "relaxed"
    bulk: bool = False
    """Asked for as a bulk reduction (use_tma)."""
    alone: bool = False
    """Set by passes: each warpgroup adds columns of its own, so that only its own threads need to meet."""
    by_rows: bool = False
    """Set with it: they are rows instead."""

    @property
    def reads(self) -> tuple[Region, ...]:
        return (self.destination, self.value) if isinstance(self.value, Region) else (self.destination,)

    @property
    def writes(self) -> tuple[Region, ...]:
        return (self.destination,)

    def check(self) -> None:
        target, value = self.destination, self.value
        _check_target(self.op, target.buffer)
        if isinstance(value, Region) and squeezed(value.shape) != squeezed(target.shape):
            raise TypeTileError(
                "TB255",
                f"atomic_{self.op}: {target.buffer.name} is {shape_text(target.shape)}, the value "
                f"{value.buffer.name} is "
                f"{shape_text(value.shape)}",
                why="the tile form combines equal tiles element by element",
                fix=f"take {shape_text(squeezed(target.shape))} of {value.buffer.name}, or pass a scalar",
            )
        writable(target, f"atomic_{self.op}")

    def run(self, block: BlockValues) -> None:
        old = block.read(self.destination)
        if isinstance(self.value, Region):
            values = block.read(self.value).reshape(old.shape)
        else:
            values = np.broadcast_to(np.asarray(block.evaluate(self.value)), old.shape)
        combine = _COMBINE[self.op]
        block.write(self.destination, combine(old, values.astype(old.dtype)))

    def offers(self, target: Target, threads: int) -> tuple[Offer, ...]:
        return (*bulk_reduce.offers(self, target), *super().offers(target, threads))

    def place(self, context: PlaceContext) -> tuple[Requirement, ...]:
        if context.instruction(self).name != bulk_reduce.NAME or not isinstance(self.value, Region):
            return ()
        tile = self.value.buffer
        return (Requirement(tile, tile_layout(tile), True, "as bulk reductions read a tile", self.loc),)

    def cost(self) -> Cost:
        scope, size = self.destination.buffer.scope, region_bytes(self.destination)
        read = {scope: float(size)}
        if isinstance(self.value, Region):
            other = self.value.buffer.scope
            read[other] = read.get(other, 0.0) + region_bytes(self.value)
        return Cost(flops=float(element_count(self.destination)), read=read, written={scope: size})

    def expand(self) -> Stmt:
        target, value = self.destination, self.value

        def body(walk: Any) -> Stmt:
            indices = coordinates(target, walk.vars)
            element = walk.read(value, walk.vars) if isinstance(value, Region) else value
            return walk.guarded(
                target,
                indices,
                AtomicRMW(self.op, target.buffer, indices, element.astype(target.dtype), order=self.order),
            )

        return over(squeezed(target.shape), body)


_COMBINE: dict[str, np.ufunc] = {
    "add": np.add,
    "max": np.fmax,
    "min": np.fmin,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _check_target(op: str, buffer: Buffer) -> None:
    if buffer.scope not in ("global", "shared"):
        raise TypeTileError(
            "TB256",
            f"atomic_{op}: {buffer.name} is a {buffer.scope} buffer",
            why="an atomic update is for memory that several threads reach: global or shared",
            fix=f"write {buffer.name}[...] += value, which nobody else can see",
        )
    bits = op in ("and", "or", "xor")
    if buffer.dtype.kind == "bool" or (bits and not buffer.dtype.is_int) or buffer.dtype.bits < 16:
        raise TypeTileError(
            "TB257",
            f"atomic_{op} on {buffer.dtype} ({buffer.name})",
            why="atomics work on integers of 16 bits and more"
            + ("" if bits else ", float16, bfloat16, float32 and float64"),
            fix=f"give {buffer.name} dtype int32" + ("" if bits else " or float32"),
        )


def _is_scalar(value: Any) -> bool:
    if isinstance(value, Load):
        return value.buffer.scope == "var"
    return isinstance(value, int | float | Expr) or (
        hasattr(value, "item") and not isinstance(value, Buffer | Region)
    )


def _rmw(op: str, dst: Load, value: Any, return_prev: bool, order: str = "relaxed") -> Stmt | Effect:
    _check_target(op, dst.buffer) if op != "exch" else None
    amount = as_expr(value).astype(dst.dtype)
    if not return_prev:
        return AtomicRMW(op, dst.buffer, dst.indices, amount, order=order)
    old = Var(f"{dst.buffer.name}_before", dtype=dst.dtype)
    return Effect(AtomicRMW(op, dst.buffer, dst.indices, amount, old, order), old)


def _atomic(
    op: AtomicOp,
    dst: Any,
    value: Any,
    return_prev: bool,
    memory_order: str | None = None,
    use_tma: bool = False,
) -> Stmt | Effect:
    order = memory_order or "relaxed"
    _ordered(f"atomic_{op}", order, MEMORY_ORDERS)
    if isinstance(dst, Load) and (isinstance(value, Load) or _is_scalar(value)):
        return _rmw(op, dst, value, return_prev, order)
    if return_prev:
        raise TypeTileError(
            "TB258",
            f"atomic_{op}: return_prev gives the old value of one element; {_name(dst)} is a tile here",
            fix="index one element: T.atomic_add(A[i, j], x, return_prev=True) inside T.Parallel",
        )
    if _is_scalar(value):
        destination = as_region(dst, "the destination")
        return AtomicTile(op, destination, scalar(value, destination.dtype), order, use_tma)
    source, destination = pair(value, dst, "the value", "the destination")
    return AtomicTile(op, destination, source, order, use_tma)


def _name(value: Any) -> str:
    return (
        value.name
        if isinstance(value, Buffer)
        else value.buffer.name
        if isinstance(value, Region | Load)
        else str(value)
    )


def atomic_add(
    dst: Buffer | Region | Load,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    use_tma: bool = False,
    annotations: Any = None,
) -> Stmt | Effect:
    """dst += value atomically: one element, or a tile element by element. return_prev (one element): the old
    value.

    memory_order: what other threads of the GPU see before and after it: relaxed (the default), consume,
    acquire, release, acq_rel or seq_cst. use_tma: one bulk reduction of a shared tile, on sm_90 and later.
    """
    return _atomic("add", dst, value, return_prev, memory_order, use_tma)


def atomic_max(
    dst: Buffer | Region | Load,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    annotations: Any = None,
) -> Stmt | Effect:
    """dst = max(dst, value) atomically."""
    return _atomic("max", dst, value, return_prev, memory_order)


def atomic_min(
    dst: Buffer | Region | Load,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    annotations: Any = None,
) -> Stmt | Effect:
    """dst = min(dst, value) atomically."""
    return _atomic("min", dst, value, return_prev, memory_order)


def atomic_or(dst: Buffer | Region | Load, value: Any, memory_order: str | None = None) -> Stmt | Effect:
    """dst |= value atomically (integers)."""
    return _atomic("or", dst, value, False, memory_order)


def _wide(count: int, dst: Any, value: Any, return_prev: bool) -> Stmt | Effect:
    sides: list[Region] = []
    for what, side in (("the destination", dst), ("the value", value)):
        own = extents_of(side)
        rank = len(side.indices) if isinstance(side, Load) else len(own or ())
        sides.append(as_region(side, what, own or fitting((count,), rank, what)))
    to, of = sides
    for region in sides:
        if squeezed(region.shape) != (count,):
            raise TypeTileError(
                "TB259",
                f"atomic_addx{count}: {region.buffer.name} is {shape_text(region.shape)} here, not {count} "
                "neighbours",
                fix=f"give the first element, or a slice of {count}",
            )
    _check_target("add", to.buffer)
    before = [Var(f"{to.buffer.name}_before", dtype=to.dtype) for _ in range(count if return_prev else 0)]
    parts: list[Stmt] = []
    for k in range(count):
        load = Load(of.buffer, coordinates(of, (const(k),)), dtype=of.dtype)
        old = before[k] if return_prev else None
        parts.append(AtomicRMW("add", to.buffer, coordinates(to, (const(k),)), load.astype(to.dtype), old))
    return Effect(Seq(tuple(parts)), tuple(before)) if return_prev else Seq(tuple(parts))


def atomic_addx2(dst: Load | Region, value: Load | Region, return_prev: bool = False) -> Stmt | Effect:
    """Two neighbouring elements, each atomically: dst[i : i + 2] += value[j : j + 2].

    return_prev: the old values, for `prev[0:2] = ...` or two names.
    """
    return _wide(2, dst, value, return_prev)


def atomic_addx4(dst: Load | Region, value: Load | Region, return_prev: bool = False) -> Stmt | Effect:
    """Four neighbouring elements, each atomically: dst[i : i + 4] += value[j : j + 4].

    return_prev: the old values, for `prev[0:4] = ...` or four names.
    """
    return _wide(4, dst, value, return_prev)


def _element(value: Any, name: str) -> Load:
    if isinstance(value, Load):
        return value
    raise TypeTileError(
        "TB259",
        f"{name} takes one element, got {type(value).__name__} {_name(value)}",
        fix="index it, as in A[i]",
    )


_LOAD_ORDERS = ("relaxed", "consume", "acquire", "seq_cst")
_STORE_ORDERS = ("relaxed", "release", "seq_cst")


def _ordered(name: str, memory_order: str, orders: tuple[str, ...]) -> None:
    if memory_order not in orders:
        raise ArgumentError(
            "TB249",
            f"{name} does not support memory_order={memory_order!r}",
            why="a load is ordered before what follows it, a store after what comes before it",
            fix="use one of " + ", ".join(map(repr, orders)),
        )


def atomic_load(src: Load, memory_order: str = "seq_cst") -> Effect:
    """The element as other blocks left it (an atomic addition of zero, so it is never a stale copy)."""
    _ordered("atomic_load", memory_order, _LOAD_ORDERS)
    element = _element(src, "atomic_load")
    out = _rmw("add", element, const(0, element.dtype), True, memory_order)
    assert isinstance(out, Effect)
    return out


def atomic_store(dst: Load, src: Any, memory_order: str = "seq_cst") -> Stmt | Effect:
    """Replace the element atomically."""
    _ordered("atomic_store", memory_order, _STORE_ORDERS)
    return _rmw("exch", _element(dst, "atomic_store"), src, False, memory_order)


def _example(op: AtomicOp, dtype: str, value: str, scope: str = "global") -> Callable[[], Kernel]:
    """Two blocks update one tensor with a tile each (value 'tile') or one number."""

    def build() -> Kernel:
        from tilebench.ops.copy.spec import copy
        from tilebench.ops.elementwise import clear
        from tilebench.ops.examples import Draft, tile

        d = Draft(f"atomic_{op}", (2,))
        (bx,) = d.blocks
        a, b = d.tensor("A", (40, 24), dtype), d.tensor("B", (30, 24), dtype, "inout")
        part = d.shared("part", (20, 24), dtype)
        d.add(copy(a[bx * 20, 0], part))
        amount: Any = part if value == "tile" else -2 if op == "min" else 3
        if scope == "global":
            d.add(_atomic(op, tile(b, (bx * 16, 20), (0, 24)), amount, False))
        else:
            own = d.shared("own", (20, 24), dtype)
            d.add(
                clear(own),
                _atomic(op, own, amount, False),
                _atomic("add", tile(b, (bx * 15, 20), (0, 24)), own, False),
            )
        return d.kernel()

    build.__name__ = f"atomic_{op}_{dtype}_{value}_{scope}"
    return build


AtomicTile.examples = (
    _example("add", "float32", "tile"),
    _example("add", "int32", "tile", "shared"),
    _example("max", "int32", "tile"),
    _example("min", "float32", "scalar"),
    _example("or", "int32", "scalar"),
    _example("add", "float16", "scalar"),
)
