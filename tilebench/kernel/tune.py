"""What the kernel layer knows of a tuned function; the tuner itself is tilebench/tuning."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilebench.kernel.compiled import Kernel


class TunedFunction(ABC):
    """A `@jit` function (`function`) with the configurations to choose from (`configs`, as the user gave
    them).
    """

    def __init__(self, function: Any, configs: Any) -> None:
        functools.update_wrapper(self, function, updated=())  # its own attributes stay its own
        self.function = function
        self.configs = configs

    @abstractmethod
    def __call__(self, *values: Any, **named: Any) -> Any:
        """As the jit function, with the best configuration for these values."""

    @abstractmethod
    def compile(self, *values: Any, **named: Any) -> Kernel:
        """The Kernel with the best configuration for these values."""
