"""The configuration, and the one reader of os.environ."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Config:
    """target: default of `target=` ('auto' picks the GPU when there is one); cache_dir: the store of built
    kernels (None: memory only); static: still images instead of widgets; threads: CPU threads (0: one a
    core); traceback: show Python stacks; verbose: say what is compiled; pass_configs: of every kernel that
    says nothing else.
    """

    target: str = "auto"
    cache_dir: Path | None = None
    static: bool = False
    threads: int = 0
    traceback: bool = False
    verbose: bool = False
    pass_configs: tuple[tuple[object, object], ...] = ()


def _from_environment() -> Config:
    env = os.environ
    cache = env.get("TILEBENCH_CACHE_DIR")
    if cache is None:
        base = env.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        cache = os.path.join(base, "tilebench")
    off = env.get("TILEBENCH_DISABLE_CACHE", "") in ("1", "true") or cache == ""
    return Config(
        target=env.get("TILEBENCH_TARGET", "auto"),
        cache_dir=None if off else Path(cache),
        static=env.get("TILEBENCH_STATIC", "") in ("1", "true"),
        threads=int(env.get("TILEBENCH_THREADS", "0") or 0),
        traceback=env.get("TILEBENCH_TRACEBACK", "") in ("1", "true"),
        verbose=env.get("TILEBENCH_VERBOSE", "") in ("1", "true"),
    )


_process: dict[str, object] = {}
_override: ContextVar[Config | None] = ContextVar("tilebench_config", default=None)


def current() -> Config:
    """The configuration in force: `using`'s, else `set_process`'s changes of the environment's."""
    return _override.get() or replace(_from_environment(), **_process)  # type: ignore[arg-type]


def set_process(**changes: object) -> None:
    """Fields of the configuration for the rest of this process, instead of those set before."""
    replace(_from_environment(), **changes)  # type: ignore[arg-type]  # TypeError on a field there is not
    _process.clear()
    _process.update(changes)


@contextmanager
def using(**changes: object) -> Generator[Config]:
    """`with using(target='cpu'):` changes fields of the configuration inside the block."""
    fresh = replace(current(), **changes)  # type: ignore[arg-type]
    token = _override.set(fresh)
    try:
        yield fresh
    finally:
        _override.reset(token)
