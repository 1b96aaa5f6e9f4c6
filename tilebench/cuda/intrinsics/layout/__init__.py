"""Swizzled layouts of the operands of tensor-core instructions, under TileLang's module names."""

from __future__ import annotations

from tilebench.cuda.intrinsics.layout.mma_layout import get_swizzle_layout, make_mma_swizzle_layout

__all__ = ["get_swizzle_layout", "make_mma_swizzle_layout"]
