"""Templates that recommend configurations from the device's facts."""

from __future__ import annotations

from typing import Any

from tilebench.errors import TargetError


class MatmulTemplate:
    """Refused when it is asked for hints: configurations are found by tuning."""

    def __init__(self, **shape: Any) -> None:
        self.shape = shape

    def with_arch(self, arch: Any) -> MatmulTemplate:
        """The template for a device."""
        del arch
        return self

    def recommend_hints(self, topk: int = 10) -> list[Any]:
        """Raises TargetError TB535."""
        raise TargetError(
            "TB535",
            f"there is no cost model that recommends {topk} configurations",
            why="tilebench measures candidates",
            fix="tilebench.autotune(configs={'block_M': [64, 128], ...})",
        )
