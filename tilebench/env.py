"""`tilebench.env`: what the environment says, under TileLang's names (read-only)."""

from __future__ import annotations

from typing import Any

from tilebench import config
from tilebench.cache import disable_cache, enable_cache, is_cache_enabled

__all__ = ["disable_cache", "enable_cache", "env", "is_cache_enabled"]


class _Environment:
    """TILELANG_CACHE_DIR is the folder of built kernels, or None."""

    @property
    def TILELANG_CACHE_DIR(self) -> str | None:
        """The folder where built kernels are kept."""
        folder = config.current().cache_dir
        return None if folder is None else str(folder)

    def is_cache_enabled(self) -> bool:
        """Whether built kernels are kept on disk."""
        return is_cache_enabled()


env = _Environment()


def __getattr__(name: str) -> Any:
    if name == "TILELANG_CACHE_DIR":
        return env.TILELANG_CACHE_DIR
    raise AttributeError(f"module 'tilebench.env' has no attribute {name!r}")
