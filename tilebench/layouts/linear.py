"""The F2 form of a fragment layout: bits of the thread and register index XORed into the coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilebench.layouts.digits import Digit
    from tilebench.layouts.fragment import FragmentLayout


@dataclass(frozen=True)
class Linear:
    """A layout as columns over F2: bit k of the index XORs columns[k] into the coordinates.

    Coordinates are packed with the last dimension in the lowest bits, dimension d having dim_bits[d] bits.
    """

    reg: tuple[int, ...]
    thread: tuple[int, ...]
    dim_bits: tuple[int, ...]

    def pack(self, coordinate: Sequence[int]) -> int:
        """The packed form of a coordinate (in range)."""
        packed = 0
        for value, bits in zip(coordinate, self.dim_bits, strict=True):
            packed = packed << bits | value
        return packed


def linear_form(layout: FragmentLayout) -> Linear | None:
    """`FragmentLayout.to_linear`: digits that share no bit, so that adding them is XORing them."""
    if layout.table is not None:
        return None
    used = [0] * layout.rank
    for d in (*layout.reg, *layout.thread):
        if d.size & (d.size - 1) or d.stride < 0 or d.stride & (d.stride - 1):
            return None
        if d.dim is not None:
            bits = (d.size - 1) * d.stride
            if used[d.dim] & bits:
                return None
            used[d.dim] |= bits
    dim_bits = tuple(
        max((n - 1).bit_length(), u.bit_length()) for n, u in zip(layout.shape, used, strict=True)
    )
    lowest = [sum(dim_bits[d + 1 :]) for d in range(layout.rank)]

    def columns(digits: Sequence[Digit]) -> tuple[int, ...]:
        return tuple(
            0 if d.dim is None else d.stride << (bit + lowest[d.dim])
            for d in digits
            for bit in range(d.size.bit_length() - 1)
        )

    return Linear(columns(layout.reg), columns(layout.thread), dim_bits)
