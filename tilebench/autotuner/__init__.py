"""`tilebench.autotuner`: `autotune`, and its form as an object, under TileLang's names."""

from __future__ import annotations

from typing import Any

from tilebench.autotuner.param import AutotuneResult, CompileArgs, ProfileArgs
from tilebench.autotuner.tuner import AutoTuner
from tilebench.kernel.tune_inputs import get_autotune_inputs, set_autotune_inputs

__all__ = [
    "AutoTuner",
    "AutotuneResult",
    "CompileArgs",
    "ProfileArgs",
    "autotune",
    "get_autotune_inputs",
    "set_autotune_inputs",
]


def autotune(*args: Any, **named: Any) -> Any:
    """`tilebench.autotune`."""
    import tilebench

    return tilebench.autotune(*args, **named)
