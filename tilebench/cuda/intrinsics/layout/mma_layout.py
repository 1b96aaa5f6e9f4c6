"""The swizzle of mma's operands in shared memory."""

from __future__ import annotations

from tilebench.cuda.intrinsics import get_swizzle_layout, make_mma_swizzle_layout

__all__ = ["get_swizzle_layout", "make_mma_swizzle_layout"]
