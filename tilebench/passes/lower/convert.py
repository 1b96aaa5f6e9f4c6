"""Fragments through shared scratch: how a thread gets at elements that other threads hold."""

from __future__ import annotations

from collections.abc import Sequence

from tilebench.ir.dtype import int32
from tilebench.ir.expr import Load, Var
from tilebench.ir.thread import Memory
from tilebench.ir.tile import Buffer, Store
from tilebench.layouts import FragmentLayout
from tilebench.passes.indices import flat_index
from tilebench.passes.lower.builder import Builder


def _names(rank: int) -> tuple[Var, ...]:
    return tuple(Var("ijkl"[d % 4], dtype=int32) for d in range(rank))


def spill(b: Builder, buffer: Buffer, memory: Memory, *, first: bool = True, last: bool = True) -> None:
    """Write a fragment to scratch, row-major, each element by one of its holders; barriers before the first, after the last."""
    from tilebench.passes.lower.nest import Nest

    if first:
        b.barrier("shared scratch may still be read from its last use")
    layout = b.layouts[buffer]
    assert isinstance(layout, FragmentLayout)
    names = _names(layout.rank)
    value = Load(buffer, names, dtype=buffer.dtype)
    body = Store(memory, (flat_index(names, layout.shape),), value)
    Nest(b, names, layout.shape, body, layout, None).run()
    if last:
        b.barrier(f"{buffer.name} is read from scratch by other threads")


def unspill(b: Builder, buffer: Buffer, memory: Memory, *, first: bool = True) -> None:
    """Read a fragment back from scratch, in every holder."""
    from tilebench.passes.lower.nest import Nest

    if first:
        b.barrier(f"{buffer.name} was written to scratch by other threads")
    layout = b.layouts[buffer]
    assert isinstance(layout, FragmentLayout)
    names = _names(layout.rank)
    value = Load(memory, (flat_index(names, layout.shape),), dtype=buffer.dtype)
    Nest(b, names, layout.shape, Store(buffer, names, value), layout, None).run()


def flat_names(shape: Sequence[int]) -> tuple[Var, ...]:
    """Fresh loop variables for a tile of this shape."""
    return _names(len(shape))
