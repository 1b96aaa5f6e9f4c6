"""The shadow of global memory that several tensors show, a tensor and its views of other dtypes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilebench.backends.emulator.order import Clock
from tilebench.backends.emulator.race import GlobalShadow


@dataclass(frozen=True)
class Window:
    """A shadow by the elements of one tensor, each of `grains` granules of the shadow."""

    shadow: GlobalShadow
    grains: int

    def read(self, e: np.ndarray, t: np.ndarray, site: int, block: int, clock: Clock) -> None:
        """Threads t of `block` read elements e."""
        self.shadow.read(*self._spread(e, t), site, block, clock)

    def write(
        self,
        e: np.ndarray,
        t: np.ndarray,
        site: int,
        block: int,
        clock: Clock,
        *,
        atomic: bool = False,
        same_values: Callable[[], bool] | None = None,
    ) -> None:
        """Threads t of `block` write elements e."""
        self.shadow.write(*self._spread(e, t), site, block, clock, atomic=atomic, same_values=same_values)

    def _spread(self, e: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.grains == 1:
            return e, t
        return (e[:, None] * self.grains + np.arange(self.grains)).reshape(-1), np.repeat(t, self.grains)

    @property
    def written(self) -> np.ndarray:
        """Which elements were written, every byte of them."""
        return np.asarray(self.shadow.written.reshape(-1, self.grains).all(axis=1))
