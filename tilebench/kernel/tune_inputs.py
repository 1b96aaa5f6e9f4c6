"""The values that kernels are measured on while tuning, when the user gives them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

_inputs: ContextVar[list[Any] | None] = ContextVar("tilebench_autotune_inputs", default=None)


@contextmanager
def set_autotune_inputs(*values: Any) -> Generator[None]:
    """`with set_autotune_inputs(a, b):` (or one list): what is measured on inside."""
    single = len(values) == 1 and isinstance(values[0], list | tuple)
    given = cast("list[Any]", values[0] if single else values)
    token = _inputs.set(list(given))
    try:
        yield
    finally:
        _inputs.reset(token)


def get_autotune_inputs() -> list[Any] | None:
    """What `set_autotune_inputs` gave, None outside of it."""
    return _inputs.get()
