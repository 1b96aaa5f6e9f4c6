"""The real kernels at sizes that a test can afford, with tails, for every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.kernels import programs

SMALL = {"block_M": 64, "block_N": 64, "block_K": 32}

EXACT: dict[str, Callable[[], Any]] = {
    f"gemm-{dtype}-{'T' if ta else 'N'}{'T' if tb else 'N'}": (
        lambda dtype=dtype, out=out, acc=acc, ta=ta, tb=tb: programs.gemm(
            100, 72, 88, dtype, out, acc, ta, tb, **SMALL
        )
    )
    for dtype, out, acc in (
        ("float16", "float32", "float32"),
        ("bfloat16", "float32", "float32"),
        ("float32", "float32", "float32"),
        ("int8", "int32", "int32"),
    )
    for ta in (False, True)
    for tb in (False, True)
} | {
    "gemm-one-stage": lambda: programs.gemm(64, 64, 96, num_stages=1, **SMALL),
    "gemm-four-stages": lambda: programs.gemm(64, 64, 96, num_stages=4, **SMALL),
    "gemm-one-trip": lambda: programs.gemm(64, 64, 24, num_stages=3, **SMALL),
    "gemm-256-threads": lambda: programs.gemm(130, 70, 64, threads=256, block_K=32),
    "transpose": lambda: programs.transpose(100, 72),
}
"""On small integers every operation of these is exact: outputs must agree bit for bit."""

BOUNDED: dict[str, Callable[[], Any]] = {
    "softmax": lambda: programs.softmax(13, 200),
    "softmax-odd": lambda: programs.softmax(5, 77, block_M=3, threads=96),
    "rms_norm": lambda: programs.rms_norm(13, 200),
    "mlp": lambda: programs.mlp(70, 72, 48, block_M=64, block_N=64),
    **{
        f"attention-D{dim}{'-causal' if causal else ''}": (
            lambda dim=dim, causal=causal: programs.attention(
                1, 2, 100, 168, dim, causal, block_M=64, block_N=64
            )
        )
        for dim in (64, 80, 96, 128)
        for causal in (False, True)
    },
    "attention-bf16": lambda: programs.attention(1, 2, 64, 128, 64, dtype="bfloat16", block_M=64),
    "attention-f32": lambda: programs.attention(1, 1, 64, 96, 32, dtype="float32", block_M=32, block_N=32),
    "attention-256-threads": lambda: programs.attention(1, 1, 128, 128, 64, threads=256),
    "gqa": lambda: programs.attention(1, 8, 64, 64, 64, kv_heads=2, block_M=64),
}
"""Held to the running error bound of their own arithmetic."""
