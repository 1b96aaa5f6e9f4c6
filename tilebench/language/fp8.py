"""The 8-bit float types of this machine's GPUs."""

from __future__ import annotations

from typing import Any

from tilebench.language.dtypes import dtype


def determine_fp8_type(fp8_format: str = "e4m3") -> Any:
    """`e4m3` or `e5m2` as a dtype of the language (NVIDIA's: finite e4m3, IEEE-like e5m2)."""
    if fp8_format not in ("e4m3", "e5m2"):
        raise ValueError(f"8-bit floats are 'e4m3' or 'e5m2', not {fp8_format!r}")
    return dtype("float8_e4m3fn" if fp8_format == "e4m3" else "float8_e5m2")


def determine_torch_fp8_type(fp8_format: str = "e4m3") -> Any:
    """The same as torch's dtype."""
    return determine_fp8_type(fp8_format).as_torch()
