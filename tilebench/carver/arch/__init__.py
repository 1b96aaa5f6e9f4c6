"""The devices by TileLang's names: `CUDA("cuda")` is the GPU's row of facts."""

from __future__ import annotations

from typing import Any

from tilebench.carver.arch import driver
from tilebench.errors import TargetError

__all__ = ["CDNA", "CUDA", "driver"]


def CUDA(target: str = "cuda") -> Any:
    """The target's facts (tilebench.targets). Without a GPU: those of the H200."""
    from tilebench.targets import parse

    return parse(target if ":" in target else "cuda:sm_90a")


def CDNA(target: str = "hip") -> Any:
    """Refused: tilebench has NVIDIA targets and the CPU."""
    raise TargetError(
        "TB535", f"{target}: AMD devices are not supported", why="there is no such target", fix="CUDA('cuda')"
    )
