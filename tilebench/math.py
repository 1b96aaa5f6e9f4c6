"""`tilebench.math`: whole numbers that a host program computes with."""

from __future__ import annotations


def next_power_of_2(x: int) -> int:
    """The least power of two that is at least x (1 for x below 2)."""
    return 1 << max(int(x) - 1, 0).bit_length()


def cdiv(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)
