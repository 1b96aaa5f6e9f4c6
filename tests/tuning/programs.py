"""Factories for the tuner's tests."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilebench.language as T

SCALE = 3.0
DTYPE = T.float32


@T.macro
def doubled(X, Y, start, count):  # type: ignore[no-untyped-def]
    for i in T.Parallel(count):
        Y[start + i] = X[start + i] * 2.0


def rounded_up(n: int, to: int) -> int:
    return -(-n // to)


def scale(n: int = 64, B: int = 16, shift: int = 0) -> Any:
    """Y = SCALE * X + shift; shift is an error when it is not 0."""

    @T.prim_func
    def body(X: T.Tensor((n,), DTYPE), Y: T.Tensor((n,), DTYPE)):  # type: ignore[valid-type]
        with T.Kernel(rounded_up(n, B), threads=32) as bx:
            for i in T.Parallel(B):
                Y[bx * B + i] = X[bx * B + i] * SCALE + shift

    return body


def twice(n: int = 64, B: int = 16) -> Any:
    @T.prim_func
    def body(X: T.Tensor((n,), DTYPE), Y: T.Tensor((n,), DTYPE)):  # type: ignore[valid-type]
        with T.Kernel(n // B, threads=32) as bx:
            doubled(X, Y, bx * B, B)

    return body


def half(n: int = 64, B: int = 16) -> Any:
    """Writes the first B elements of every 64: all of them only when B is 64."""

    @T.prim_func
    def body(X: T.Tensor((n,), DTYPE), Y: T.Tensor((n,), DTYPE)):  # type: ignore[valid-type]
        with T.Kernel(n // 64, threads=32) as bx:
            for i in T.Parallel(B):
                Y[bx * 64 + i] = X[bx * 64 + i]

    return body


def fragile(n: int = 64, B: int = 16) -> Any:
    """B = 32 brings its process down, B = 8 raises, B = 48 does not compile."""
    if B == 32:
        np.ctypeslib.ctypes.string_at(0)
    if B == 8:
        raise KeyError("no such tile")

    @T.prim_func
    def body(X: T.Tensor((n,), DTYPE), Y: T.Tensor((n,), DTYPE)):  # type: ignore[valid-type]
        with T.Kernel(n // B, threads=32) as bx:
            for i in T.Parallel(B):
                Y[bx * B + i] = X[bx * B + i] + (nothing if B == 48 else 1.0)  # type: ignore[name-defined] # noqa: F821

    return body
