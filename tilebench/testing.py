"""`tilebench.testing`: marks (of pytest) and helpers for tests of kernels, under TileLang's names."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

from tilebench.utils.tensor import torch_assert_close

__all__ = [
    "main",
    "process_func",
    "regression",
    "requires_cdna",
    "requires_cuda",
    "requires_cuda_compute_version",
    "requires_cuda_compute_version_eq",
    "requires_cuda_compute_version_ge",
    "requires_cuda_compute_version_gt",
    "requires_cuda_compute_version_le",
    "requires_cuda_compute_version_lt",
    "requires_cuda_or_cdna",
    "requires_gfx950",
    "requires_llvm",
    "requires_metal",
    "requires_package",
    "requires_rocm",
    "set_random_seed",
    "torch_assert_close",
]

_stub = sys.modules.get("tvm")
if _stub is not None and _stub.__spec__ is None:  # made by hand; torch.compile looks modules up by their spec
    _stub.__spec__ = ModuleSpec("tvm", None)

_COMPARE: dict[str, Callable[[tuple[int, int], tuple[int, int]], bool]] = {
    "ge": lambda have, want: have >= want,
    "gt": lambda have, want: have > want,
    "le": lambda have, want: have <= want,
    "lt": lambda have, want: have < want,
    "eq": lambda have, want: have == want,
}


def main() -> None:
    """Run the tests of the file that calls this, and leave with pytest's exit code."""
    import pytest

    sys.exit(pytest.main([inspect.getsourcefile(sys._getframe(1)) or ""]))  # pyright: ignore[reportPrivateUsage]


def set_random_seed(seed: int = 42) -> None:
    """Seed Python, NumPy and torch."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]


def _capability() -> tuple[int, int] | None:
    import torch

    return torch.cuda.get_device_capability() if torch.cuda.is_available() else None


def _unless(holds: bool, reason: str) -> Callable[[Any], Any]:
    import pytest

    return pytest.mark.skipif(not holds, reason=reason)


def requires_cuda(func: Any) -> Any:
    """Skip the test where there is no NVIDIA GPU."""
    return _unless(_capability() is not None, "needs an NVIDIA GPU")(func)


def requires_cuda_compute_version(
    major_version: int, minor_version: int = 0, mode: str = "ge"
) -> Callable[[Any], Any]:
    """Skip the test unless the GPU's compute capability compares with the one given (ge gt le lt eq)."""
    if mode not in _COMPARE:
        raise ValueError(f"mode must be one of {sorted(_COMPARE)}, got {mode!r}")
    have, want = _capability(), (major_version, minor_version)
    holds = have is not None and _COMPARE[mode](have, want)
    return _unless(holds, f"needs compute capability {mode} {major_version}.{minor_version}, this is {have}")


def requires_cuda_compute_version_ge(major_version: int, minor_version: int = 0) -> Callable[[Any], Any]:
    """Skip below this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "ge")


def requires_cuda_compute_version_gt(major_version: int, minor_version: int = 0) -> Callable[[Any], Any]:
    """Skip up to this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "gt")


def requires_cuda_compute_version_le(major_version: int, minor_version: int = 0) -> Callable[[Any], Any]:
    """Skip above this compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "le")


def requires_cuda_compute_version_lt(major_version: int, minor_version: int = 0) -> Callable[[Any], Any]:
    """Skip from this compute capability on."""
    return requires_cuda_compute_version(major_version, minor_version, "lt")


def requires_cuda_compute_version_eq(major_version: int, minor_version: int = 0) -> Callable[[Any], Any]:
    """Skip on every other compute capability."""
    return requires_cuda_compute_version(major_version, minor_version, "eq")


def requires_llvm(func: Any) -> Any:
    """Skip where llvmlite, which the CPU target needs, is missing."""
    from importlib.util import find_spec

    return _unless(find_spec("llvmlite") is not None, "needs llvmlite")(func)


def requires_package(*packages: str) -> Callable[[Any], Any]:
    """Skip where one of the packages is missing."""
    from importlib.util import find_spec

    missing = [p for p in packages if find_spec(p) is None]
    return _unless(not missing, f"needs {', '.join(missing)}")


def _never(func: Any) -> Any:
    return _unless(False, "tilebench has NVIDIA targets and the CPU")(func)


requires_rocm = requires_metal = requires_cdna = requires_gfx950 = _never
"""Skipped: there are no such targets."""
requires_cuda_or_cdna = requires_cuda


def process_func(func: Callable[..., float], name: str | None = None, /, **kwargs: Any) -> None:
    """Call a function that measures a latency, and print it under its name."""
    latency = float(func(**kwargs))
    label = (name or getattr(func, "__module__", "function")).removeprefix("regression_")
    print(f"{label}: {latency:.6g}")


def regression(prefixes: Sequence[str] = ("regression_",), verbose: bool = True) -> None:
    """Call every function of the caller's module whose name begins with one of the prefixes, by name."""
    scope = sys._getframe(1).f_globals  # pyright: ignore[reportPrivateUsage]
    for name in sorted(n for n, v in scope.items() if callable(v) and n.startswith(tuple(prefixes))):
        if verbose:
            print(name)
        scope[name]()
