"""`tilebench.transform`: TileLang's home of PassConfigKey."""

from __future__ import annotations

from tilebench.kernel.options import PassConfigKey

__all__ = ["PassConfigKey"]
