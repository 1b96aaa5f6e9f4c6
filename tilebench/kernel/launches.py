"""Programs of several `with T.Kernel(...)`: one launch after the other, with the same tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tilebench.ir import tile
from tilebench.kernel.compiled import Kernel
from tilebench.language.launching import THEN
from tilebench.targets import Target


def launches_of(prim: tile.Kernel) -> tuple[tile.Kernel, ...]:
    """The launches of a parsed program in order, each a kernel by itself."""
    first = replace(prim, attributes={k: v for k, v in prim.attributes.items() if k != THEN})
    return (first, *prim.attributes.get(THEN, ()))


class Launches(Kernel):
    """A program of several launches. Each is a kernel by itself, in `parts`: reports, checks and recordings
    are of one of them.
    """

    def __init__(self, prim: tile.Kernel, target: Target, parts: Sequence[Kernel]) -> None:
        super().__init__(prim, target, compilation=parts[0].compilation)
        self.parts = tuple(parts)

    def __call__(self, *values: Any, stream: int | None = None) -> Any:
        """Run all launches in order; otherwise as of any Kernel."""
        full = self.complete(values)
        for part in self.parts:
            part(*full, stream=stream)
        return self._results(full)

    def launch(self, values: Sequence[Any], stream: int | None = None) -> None:
        """Run with a value for every parameter."""
        for part in self.parts:
            part.launch(values, stream)

    def bind(self, *values: Any) -> Callable[[], Any]:
        """A function of no arguments that makes all launches with these tensors, checked once."""
        full = self.complete(values)
        runs, result = [part.bind(*full) for part in self.parts], self._results(full)

        def run() -> Any:
            for one in runs:
                one()
            return result

        return run

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """The texts of all launches."""
        return "\n".join(part.get_kernel_source(kernel_only) for part in self.parts)
