"""Dimensions of 2**31 elements and more: indices along them are calculated in 64 bits.

`x[bx * 512 + i]` of 32-bit block and loop numbers would wrap around; a program means the element. (Where only
all dimensions together have so many elements, the back ends add up in 64 bits.)
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tilebench.ir.dtype import int64
from tilebench.ir.expr import Binary, Cast, Const, Expr, Load, Unary, binary, cast, int_value, unary
from tilebench.ir.rewrite import transform, variables, walk
from tilebench.ir.tile import AtomicRMW, Buffer, Kernel, Region, Store

INT32_MAX = 2**31 - 1
_ARITHMETIC = ("add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max")
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def wide_indices(kernel: Kernel) -> Kernel:
    """The kernel with 64-bit indices along its large dimensions and 64-bit guards; itself without such."""
    tensors = [p.value for p in kernel.params if isinstance(p.value, Buffer)]
    large = {b: _large(b) for b in (*tensors, *kernel.buffers) if b.scope == "global"}
    if not any(map(any, large.values())):
        return kernel

    def wide(buffer: Buffer, numbers: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(
            widened(e) if is_large else e for e, is_large in zip(numbers, large[buffer], strict=True)
        )

    def rule(node: Any) -> Any:
        if isinstance(node, Load | Store | AtomicRMW) and any(large.get(node.buffer, ())):
            return dataclasses.replace(node, indices=wide(node.buffer, node.indices))
        if isinstance(node, Region) and any(large.get(node.buffer, ())):
            return dataclasses.replace(node, offsets=wide(node.buffer, node.offsets))
        if isinstance(node, Binary) and node.op in _COMPARISONS and node.left.dtype == int64:
            return binary(node.op, _uncast(node.left), _uncast(node.right), node.loc)
        return None

    return dataclasses.replace(kernel, body=transform(kernel.body, rule))


def _large(buffer: Buffer) -> tuple[bool, ...]:
    """For each dimension whether it has, or at some call may have, more elements than 32 bits count."""
    return tuple(
        any(v.dtype.bits > 32 for v in variables(e)) if (n := int_value(e)) is None else n > INT32_MAX
        for e in buffer.shape
    )


def widened(e: Expr) -> Expr:
    """The same number, every step of it in 64 bits. What memory holds is taken as it is."""
    match e:
        case Const() if not e.dtype.is_float:
            return Const(e.value, dtype=int64, loc=e.loc)
        case Binary() if e.op in _ARITHMETIC and e.dtype.kind == "int":
            return binary(e.op, widened(e.left), widened(e.right), e.loc)
        case Unary(op="neg") if e.dtype.kind == "int":
            return unary("neg", widened(e.value))
        case Cast() if e.dtype == int64:
            return widened(e.value) if e.value.dtype.kind == "int" else e
        case _:
            return cast(e, int64)


def _uncast(e: Expr) -> Expr:
    """A side of a comparison in 64 bits: of index arithmetic every step."""
    if isinstance(e, Cast) and e.value.dtype.is_int and not any(isinstance(n, Load) for n in walk(e)):
        return widened(e)
    return e


__all__ = ["wide_indices", "widened"]
