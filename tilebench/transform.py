"""`tilebench.transform`: TileLang's home of PassConfigKey, and passes that can be run by hand.

A pass takes a `tilebench.tvm.IRModule` and gives a new one; `module["main"].script()` shows what it did.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilebench.kernel.options import PassConfigKey
from tilebench.passes.ranges import check_indices, counted_from_end
from tilebench.tvm import Function, IRModule


@dataclass(frozen=True)
class LegalizeNegativeIndex:
    """Indices that are negative whatever their variables are count from the end: `A[-i - 1]` is `A[15 - i]`.

    Compiling does it by itself. Raises TypeTileError TB260 for an index that is outside for sure.
    """

    def __call__(self, module: IRModule) -> IRModule:
        """The module with each function's indices counted from the front."""
        kernels = {name: function.kernel for name, function in module.items()}
        return IRModule({n: Function(counted_from_end(k, check_indices(k))) for n, k in kernels.items()})


__all__ = ["LegalizeNegativeIndex", "PassConfigKey"]
