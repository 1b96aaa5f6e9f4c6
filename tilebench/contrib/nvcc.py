"""The compute capability of the GPU, in TileLang's spelling."""

from __future__ import annotations

from typing import Any


def get_target_compute_version(target: Any = None) -> str:
    """ "9.0" for an H200: the GPU's, or the one that stands for it where there is none."""
    import torch

    del target
    if torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        return f"{major}.{minor}"
    return "9.0"


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """(9, 0) from "9.0"."""
    major, minor = compute_version.split(".")
    return int(major), int(minor)


def have_fp8(compute_version: str) -> bool:
    """Whether the GPU has 8-bit floats in hardware (sm_89 and later)."""
    return parse_compute_version(compute_version) >= (8, 9)


def have_bf16(compute_version: str) -> bool:
    """Whether the GPU has bfloat16 in hardware (sm_80 and later)."""
    return parse_compute_version(compute_version) >= (8, 0)


def have_tma(target: Any = None) -> bool:
    """Whether the GPU has bulk tensor copies (sm_90 and later)."""
    return parse_compute_version(get_target_compute_version(target)) >= (9, 0)
