"""Operands brought to the layout that an op's instruction requires, where the buffer could not be given
it."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from contextlib import contextmanager

from tilebench.ir.rewrite import replace_buffers
from tilebench.ir.tile import Buffer, whole
from tilebench.layouts import FragmentLayout
from tilebench.ops.base import Op
from tilebench.ops.copy import Copy
from tilebench.passes.lower.builder import Builder
from tilebench.passes.place import context_of
from tilebench.passes.stages import Reason


@contextmanager
def with_required_layouts(b: Builder, op: Op) -> Generator[Op]:
    """The op on temporaries for the fragments whose layout is not the required one; copied in before and out
    after."""
    from tilebench.passes.lower.statements import lower_op

    exchanged: dict[Buffer, Buffer] = {}
    for need in op.place(context_of(b.placed.partitioned, b.layouts)) if _has_fragments(op) else ():
        held = b.layouts.get(need.buffer)
        if (
            not need.strict
            or not isinstance(need.layout, FragmentLayout)
            or not isinstance(held, FragmentLayout)
        ):
            continue
        if held == need.layout or held.same_as(need.layout):
            continue
        fresh = dataclasses.replace(need.buffer, name=f"{need.buffer.name}_operand", id=-need.buffer.id - 1)
        b.add_fragment(fresh, need.layout)
        b.conversions.append(Reason(f"{need.buffer.name} is converted: {need.reason}", op.loc))
        exchanged[need.buffer] = fresh
    if not exchanged:
        yield op
        return
    read = {r.buffer for r in op.reads}
    written = {r.buffer for r in op.writes}
    for old, fresh in exchanged.items():
        if old in read:
            lower_op(b, Copy(whole(old), whole(fresh), loc=op.loc))
    yield _exchanged(op, exchanged)
    for old, fresh in exchanged.items():
        if old in written:
            lower_op(b, Copy(whole(fresh), whole(old), loc=op.loc))


def _has_fragments(op: Op) -> bool:
    return any(r.buffer.scope == "fragment" for r in (*op.reads, *op.writes))


def _exchanged(op: Op, buffers: dict[Buffer, Buffer]) -> Op:
    found = replace_buffers(op, buffers)
    assert isinstance(found, Op)
    return found
