"""Single elements of fragments outside of parallel loops: read by all threads, or written by those that hold
them."""

from __future__ import annotations

from collections.abc import Sequence

from tilebench.ir.expr import Expr, Load, binary, const
from tilebench.ir.tile import Buffer
from tilebench.layouts import FragmentLayout
from tilebench.passes.indices import opaque_register
from tilebench.passes.lower.builder import Builder, both
from tilebench.passes.stages import Reason


def _register(b: Builder, buffer: Buffer, indices: Sequence[Expr]) -> Expr | None:
    """The register of buffer[indices] when every thread holds all of the buffer."""
    held = b.layouts[buffer]
    assert isinstance(held, FragmentLayout)
    total: Expr = const(0)
    for d, index in enumerate(indices):
        part = opaque_register(held, d, index, 1)
        if part is None:
            return None
        total = total + part
    index = b.simple(b.expr(total))
    b.want_unrolled(index)
    return index


def fragment_element(b: Builder, e: Load) -> Expr:
    """The value of a fragment element, in every thread."""
    register = _register(b, e.buffer, e.indices)
    memory, layout = b.fragment(e.buffer)
    if register is not None:
        return Load(memory, (register,), dtype=e.dtype, loc=e.loc)
    wanted = [b.expr(i) for i in e.indices]
    scratch = b.scratch(e.dtype, 1)
    b.conversions.append(
        Reason(f"an element of {e.buffer.name} is sent to all threads through shared scratch", e.loc)
    )
    b.barrier("shared scratch may still be read from its last use", scratch)
    with b.loop(layout.registers) as r, b.when(both(_at(b, layout, r, wanted), _owner(b, layout))):
        b.store(scratch, 0, b.load(memory, r))
    b.barrier(f"an element of {e.buffer.name} is read by all threads")
    return b.bind(e.buffer.name, b.load(scratch, 0))


def store_element(b: Builder, buffer: Buffer, indices: Sequence[Expr], value: Expr) -> None:
    """`buffer[indices] = value` by each thread that holds the element; the value is the same in all
    threads."""
    register = _register(b, buffer, indices)
    memory, layout = b.fragment(buffer)
    if register is not None:
        b.store(memory, register, value)
        return
    wanted = [b.expr(i) for i in indices]
    value = b.bind(buffer.name, value)
    with b.loop(layout.registers) as r, b.when(_at(b, layout, r, wanted)):
        b.store(memory, r, value)


def _owner(b: Builder, layout: FragmentLayout) -> Expr | None:
    found: Expr | None = None
    for x in layout.is_owner(b.thread) or ():
        found = both(found, b.simple(binary("eq", x, const(0))))
    return found


def _at(b: Builder, layout: FragmentLayout, register: Expr, wanted: Sequence[Expr]) -> Expr | None:
    found: Expr | None = None
    for x, w in zip(layout.coordinate(b.thread, register), wanted, strict=True):
        found = both(found, b.simple(binary("eq", x, w)))
    return found
