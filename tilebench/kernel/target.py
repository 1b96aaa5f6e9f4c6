"""Which target `auto` means here, and what each target reads."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib.util import find_spec
from typing import Any

from tilebench.config import current
from tilebench.targets import Target, parse


def resolve(target: Any = None) -> Target:
    """The concrete Target of a `target=` value (None: the configuration's).

    auto is the GPU when there is one, else the CPU through llvmlite, else interp. `cuda` without an
    architecture is the GPU's own, or sm_90a when there is no GPU (compiling always works).
    """
    wanted = parse(current().target if target in (None, "auto") else _text(target))
    if wanted.kind == "auto":
        arch = gpu_arch()
        if arch is not None:
            return parse(f"cuda:{arch}")
        return parse("cpu") if find_spec("llvmlite") is not None else parse("interp")
    if wanted.kind == "cuda" and wanted.arch is None:
        return parse(f"cuda:{gpu_arch() or 'sm_90a'}")
    return wanted


def _text(target: Any) -> Any:
    """TileLang's spellings of targets: dicts and objects with kind and arch pass through; 'c' and 'llvm' are
    the CPU.
    """
    if isinstance(target, str):
        return {"llvm": "cpu", "c": "cpu"}.get(target, target)
    return target


@cache
def gpu_arch() -> str | None:
    """'sm_90a' for the GPU that torch would use, None when there is none or no driver."""
    try:
        from tilebench.backends.cuda import driver
    except ImportError:
        return None
    return driver.arch() if driver.available() else None


def device_of(target: Target) -> str:
    """'cuda' when the target reads device memory, else 'cpu' (also for a GPU that is not here: see
    `is_absent`).
    """
    return "cuda" if target.kind == "cuda" and gpu_arch() is not None else "cpu"


def on_device_of(values: Iterable[Any]) -> AbstractContextManager[Any]:
    """Makes the GPU of these tensors torch's current one: what is timed, stamped and named is then the GPU
    that the kernel runs on. Without a tensor on a GPU nothing changes.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return nullcontext()
    on_gpus = (v.device for v in values if isinstance(v, torch.Tensor) and v.device.type == "cuda")
    device = next(on_gpus, None)
    return nullcontext() if device is None else torch.cuda.device(device)


def is_absent(target: Target) -> bool:
    """Whether the target is a GPU and this machine has none: kernels can be compiled and emulated, not
    launched.
    """
    return target.kind == "cuda" and gpu_arch() is None
