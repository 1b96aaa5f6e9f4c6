"""Orders in which the blocks of a grid are visited."""

from __future__ import annotations


class NoRasterization:
    """Row by row, as the launch numbers them. `T.use_swizzle` chooses another order."""
