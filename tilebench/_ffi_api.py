"""What TileLang has in its C++ library and programs reach by `tilelang._ffi_api`: functions of layouts."""

from __future__ import annotations

from tilebench.language.layout import Layout

__all__ = ["Layout_expand", "Layout_repeat"]


def Layout_repeat(layout: Layout, dim: int, factor: int) -> Layout:
    """`layout.repeat(dim, factor)`. Raises ValueError for a factor below 1 or a dimension there is not."""
    return layout.repeat(dim, factor)


def Layout_expand(layout: Layout, leading_shape: list[int]) -> Layout:
    """`layout.expand(leading_shape)`."""
    return layout.expand(leading_shape)
