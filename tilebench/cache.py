"""`tilebench.cache`: whether built kernels are kept on disk, by this process's say."""

from __future__ import annotations

from tilebench import config


def disable_cache() -> None:
    """Built kernels are kept in memory alone from now on."""
    config.set_process(cache_dir=None)


def enable_cache() -> None:
    """Built kernels are kept on disk again, where the environment says."""
    config.set_process()


def is_cache_enabled() -> bool:
    """Whether built kernels are kept on disk."""
    return config.current().cache_dir is not None


def clear_cache() -> None:
    """Forget the kernels that this process has compiled."""
    from tilebench.kernel import recall

    recall.memory().clear()
