"""The CUDA back end: thread IR -> CUDA C++ text (emit) -> NVRTC (build) -> the driver (driver)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilebench.backends.cuda.emit import Emitted, emit

if TYPE_CHECKING:
    from tilebench.backends.base import Executable
    from tilebench.passes.stages import Lowered
    from tilebench.targets import Target

__all__ = ["Emitted", "build", "emit"]


def build(stage: Lowered, target: Target) -> Executable:
    """The kernel, compiled for the target's architecture; see build.py."""
    from tilebench.backends.cuda.build import build as build_stage

    return build_stage(stage, target)
