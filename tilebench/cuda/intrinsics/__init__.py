"""Swizzles by index, and the product of a warp's tiles spelled instruction by instruction."""

from __future__ import annotations

from typing import Any

from tilebench.language.layout import make_swizzled_layout as make_mma_swizzle_layout

__all__ = ["get_mma_micro_size", "get_swizzle_layout", "make_mma_swizzle_layout"]


def get_swizzle_layout(row: Any, column: Any, row_size: int, dtype: Any) -> tuple[Any, Any]:
    """Where (row, column) of a tile with row_size elements a row goes: 16-byte chunks of a row are exchanged.

    Rows read side by side by a warp then lie in different banks.
    """
    from tilebench.language.dtypes import dtype as as_scalar

    chunk = 128 // as_scalar(dtype).bits
    chunks = max(1, row_size // chunk)
    turn = row // max(1, 8 // chunks) % chunks
    return row, (column // chunk ^ turn) * chunk + column % chunk


def get_mma_micro_size(dtype: Any) -> tuple[int, int, int]:
    """Rows, columns and depth of the tile that one step of a warp multiplies."""
    from tilebench.language.dtypes import dtype as as_scalar

    return 16, 16, 256 // max(8, as_scalar(dtype).bits) if as_scalar(dtype).bits != 64 else 4
