"""`tilebench.layout`: layouts that a program chooses, under TileLang's names."""

from __future__ import annotations

from tilebench.language.layout import (
    Fragment,
    Layout,
    make_full_bank_swizzled_layout,
    make_fully_replicated_layout_fragment,
    make_gemm_fragment_8x8,
    make_gemm_fragment_8x8_transposed,
    make_half_bank_swizzled_layout,
    make_linear_layout,
    make_quarter_bank_swizzled_layout,
    make_swizzled_layout,
    make_wgmma_swizzled_layout,
)

__all__ = [
    "Fragment",
    "Layout",
    "make_full_bank_swizzled_layout",
    "make_fully_replicated_layout_fragment",
    "make_gemm_fragment_8x8",
    "make_gemm_fragment_8x8_transposed",
    "make_half_bank_swizzled_layout",
    "make_linear_layout",
    "make_quarter_bank_swizzled_layout",
    "make_swizzled_layout",
    "make_wgmma_swizzled_layout",
]
