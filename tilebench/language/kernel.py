"""`tilebench.language.kernel`: launches, under the name of TileLang's module."""

from __future__ import annotations

from collections.abc import Sequence

from tilebench.language.launch import Kernel, get_thread_binding, get_thread_bindings

__all__ = ["Kernel", "get_thread_binding", "get_thread_bindings", "normalize_threads"]


def normalize_threads(threads: int | Sequence[int] | None) -> list[int]:
    """The three extents of a block of threads: 128 threads where nothing is said, 1 for an axis left out.

    Raises ValueError for an extent below 1, and for more than three of them.
    """
    given = [128] if threads is None else [threads] if isinstance(threads, int) else list(threads)
    if len(given) > 3:
        raise ValueError(f"threads has {len(given)} extents; a block has three axes")
    if any(t <= 0 for t in given):
        raise ValueError(f"threads must be positive, got {threads}")
    return [*given, 1, 1, 1][:3]


_normalize_threads = normalize_threads
