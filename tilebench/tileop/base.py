"""How the warps of a block share a product."""

from __future__ import annotations

from tilebench.ops.gemm import GemmWarpPolicy

__all__ = ["GemmWarpPolicy"]
