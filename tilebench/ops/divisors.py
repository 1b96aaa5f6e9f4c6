"""What is known to divide an index: whether an address is a multiple of a vector."""

from __future__ import annotations

from math import gcd

from tilebench.ir.expr import Binary, Cast, Const, Expr, Select, Unary, int_value
from tilebench.ir.tile import Region
from tilebench.layouts import SharedLayout

ANY = 1 << 30
"""Divides 0, for our purposes."""


def known_divisor(e: Expr) -> int:
    """A power of two or other number that certainly divides the integer expression; ANY for 0."""
    match e:
        case Const() if not e.dtype.is_float:
            return abs(int(e.value)) or ANY
        case Binary(op="add" | "sub" | "min" | "max"):
            return gcd(known_divisor(e.left), known_divisor(e.right))
        case Binary(op="mul"):
            return min(ANY, known_divisor(e.left) * known_divisor(e.right))
        case Binary(op="floormod" | "truncmod") if k := int_value(e.right):
            return gcd(known_divisor(e.left), abs(k))
        case Binary(op="shl") if (k := int_value(e.right)) is not None and 0 <= k < 30:
            return min(ANY, known_divisor(e.left) << k)
        case Select():
            return gcd(known_divisor(e.then), known_divisor(e.orelse))
        case Unary(op="neg"):
            return known_divisor(e.value)
        case Cast() if e.dtype.is_int and e.value.dtype.is_int:
            return known_divisor(e.value)
        case _:
            return 1


def whole_chunks(region: Region, layout: SharedLayout, lanes: int) -> bool:
    """Whether every `lanes` neighbours along the last dimension of a shared region, from its start on, are
    together and aligned.

    The region's extent along it is the caller's concern.
    """
    if layout.table is not None or layout.inner != layout.rank - 1 or layout.strides[-1] != 1:
        return False
    if layout.panel is not None and (layout.panel % lanes or layout.panel_stride % lanes):
        return False
    if layout.swizzle.bits and lanes * layout.itemsize_bits > 128:
        return False
    steps = zip(region.offsets[:-1], region.extents[:-1], layout.shape[:-1], layout.strides[:-1], strict=True)
    rows = all(
        s % lanes == 0 or n == 1 or (known_divisor(o) * s % lanes == 0 and e == 1) for o, e, n, s in steps
    )
    return rows and known_divisor(region.offsets[-1]) % lanes == 0
