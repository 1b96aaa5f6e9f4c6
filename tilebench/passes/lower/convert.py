"""Fragments through shared scratch: how a thread gets at elements that other threads hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from math import prod

from tilebench.ir.expr import Load
from tilebench.ir.rewrite import replace_buffers, walk
from tilebench.ir.tile import AtomicRMW, Buffer, Stmt, Store
from tilebench.layouts import FragmentLayout
from tilebench.passes.lower.builder import Builder
from tilebench.passes.lower.fragments import Loop, overwrites
from tilebench.passes.nodes import loop_names
from tilebench.passes.stages import Reason


@contextmanager
def through_scratch(b: Builder, loop: Loop, body: Stmt, lost: Sequence[Buffer]) -> Generator[Stmt]:
    """The body with the `lost` fragments exchanged for row-major scratch, filled before and read back after.

    Barriers stand before the first write to scratch (its last use may not be over), before the body reads,
    and before the result is read back.
    """
    exchanged: dict[Buffer, Buffer] = {}
    start = 0
    for storage in lost:
        size = prod(storage.static_shape) * storage.dtype.bytes
        for buffer in _views(body, storage):
            twin = dataclasses.replace(buffer, scope="shared", view_of=None, id=-buffer.id - 1)
            b.add_scratch(twin, start)
            exchanged[buffer] = twin
        start = -(-(start + size) // 16) * 16
        text = f"{storage.name} goes through shared scratch here: threads need elements that others hold"
        b.conversions.append(Reason(text, b.loc))
    b.barrier("shared scratch may still be read from its last use")
    filled = [x for x in lost if not overwrites(body, loop, x)]
    for buffer in filled:
        _copy(b, buffer, exchanged[buffer], b.layouts[buffer])
    if filled:
        b.barrier(f"{filled[-1].name} is read from scratch by other threads")
    yield replace_buffers(body, exchanged)
    written = {n.buffer.data for n in walk(body) if isinstance(n, Store | AtomicRMW)}
    back = [x for x in lost if x in written]
    if back:
        b.barrier(f"{back[-1].name} was written to scratch by other threads")
    for buffer in back:
        _copy(b, exchanged[buffer], buffer, b.layouts[buffer])


def _views(body: Stmt, storage: Buffer) -> list[Buffer]:
    """The storage, and the views of it that the body names."""
    found = {storage: None}
    for n in walk(body):
        if isinstance(n, Load | Store | AtomicRMW) and n.buffer.data is storage:
            found[n.buffer] = None
    return list(found)


def _copy(b: Builder, source: Buffer, destination: Buffer, layout: object) -> None:
    from tilebench.passes.lower.nest import lower_nest

    assert isinstance(layout, FragmentLayout)
    names = loop_names(layout.rank)
    body = Store(destination, names, Load(source, names, dtype=source.dtype))
    lower_nest(b, Loop(names, layout.shape, layout), body)
