"""`tilebench.utils`: helpers of host programs, under TileLang's names."""

from __future__ import annotations

from tilebench.utils.tensor import TensorSupplyType, get_tensor_supply, torch_assert_close

__all__ = ["TensorSupplyType", "get_tensor_supply", "torch_assert_close"]
