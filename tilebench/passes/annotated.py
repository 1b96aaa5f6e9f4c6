"""Shared tiles whose layout the program gives, other than the one that instructions of the hardware read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilebench.ir.tile import Buffer, Kernel
from tilebench.layouts import SharedLayout, recognised, swizzled


def laid_by_hand(kernel: Kernel) -> frozenset[Buffer]:
    """The shared buffers with a layout of the program's own.

    T.annotate_layout with the hardware's swizzle (make_swizzled_layout) asks for what is chosen anyway.
    """
    given: Mapping[Buffer, Any] = kernel.attributes.get("layouts", {})
    return frozenset(b for b, layout in given.items() if b.scope == "shared" and not _is_usual(b, layout))


def _is_usual(buffer: Buffer, layout: Any) -> bool:
    if hasattr(layout, "bind"):  # T.Layout: the element size comes from the buffer
        layout = layout.bind(buffer)
    if not isinstance(layout, SharedLayout) or layout.shape != buffer.static_shape:
        return False
    usual = swizzled(buffer.static_shape, buffer.dtype.bits)
    return bool(usual.swizzle.bits) and usual in (layout, recognised(layout))
