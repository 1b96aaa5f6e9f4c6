"""tilebench: a workbench for GPU kernels that lives in a notebook.

`import tilebench` needs NumPy alone; names below are resolved on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_LAZY = {
    "jit": "tilebench.kernel.decorator",
    "compile": "tilebench.kernel.decorator",
    "par_compile": "tilebench.kernel.decorator",
    "lower": "tilebench.kernel.sources",
    "autotune": "tilebench.tuning.decorator",
    "Kernel": "tilebench.kernel.compiled",
    "emulate": "tilebench.kernel.emulate",
    "record": "tilebench.kernel.record",
    "run": "tilebench.kernel.session",
    "sweep": "tilebench.kernel.sweep",
    "show": "tilebench.notebook.display",
    "whatif": "tilebench.kernel.whatif",
    "compare": "tilebench.notebook.display",
    "save": "tilebench.kernel.export",
    "load": "tilebench.kernel.export",
    "doctor": "tilebench.kernel.doctor",
    "devices": "tilebench.kernel.devices",
    "TileError": "tilebench.errors",
    "dtype": "tilebench.language.dtypes",
    "PassConfigKey": "tilebench.kernel.options",
    "Profiler": "tilebench.kernel.profiler",
    "TensorSupplyType": "tilebench.kernel.profiler",
    "cdiv": "tilebench.math",
    "compat": "tilebench.language.compat",
    "next_power_of_2": "tilebench.math",
    "disable_cache": "tilebench.cache",
    "enable_cache": "tilebench.cache",
    "is_cache_enabled": "tilebench.cache",
    "load_ipython_extension": "tilebench.notebook.load",
    "unload_ipython_extension": "tilebench.notebook.load",
}


_ALSO = {"JITKernel": "Kernel", "DataType": "dtype"}
"""TileLang's other names for the same things."""


def __getattr__(name: str) -> Any:
    if name in _LAZY or name in _ALSO:
        own = _ALSO.get(name, name)
        value = getattr(importlib.import_module(_LAZY[own]), own)
        globals()[name] = value
        return value
    try:
        return importlib.import_module(f"tilebench.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"tilebench.{name}":
            raise
        raise AttributeError(f"module 'tilebench' has no attribute {name!r}{_instead(name)}") from None


def _instead(name: str) -> str:
    """Why a name of TileLang's is not here, and what to use; '' for any other name."""
    if name.startswith("_"):
        return ""
    from tilebench.language.modules import refusal

    known = refusal(name)
    return "" if known is None else f": {known[0]}; instead: {known[1]}"


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY, *_ALSO])
