"""Which parameters a kernel reads and writes, from its body."""

from __future__ import annotations

from dataclasses import replace

from tilebench.ir.launches import each_launch, launches
from tilebench.ir.rewrite import loads, walk
from tilebench.ir.tile import AtomicRMW, Buffer, Kernel, Store, TileOp


def accessed(kernel: Kernel) -> tuple[set[Buffer], set[Buffer]]:
    """(buffers read, buffers written) anywhere in the body; views count as what they show."""
    read = {e.buffer.data for e in loads(kernel.body)}
    written: set[Buffer] = set()
    for node in walk(kernel.body):
        match node:
            case Store():
                written.add(node.buffer.data)
            case AtomicRMW():
                written.add(node.buffer.data)
                read.add(node.buffer.data)
            case TileOp():
                read |= {r.buffer.data for r in node.reads}
                written |= {r.buffer.data for r in node.writes}
            case _:
                pass
    return read, written


def with_roles(kernel: Kernel) -> Kernel:
    """The kernel with each parameter's role set: in, out (written, never read) or inout; scalars are in.

    The launches of a program agree: a role is that of all of them together.
    """
    read: set[Buffer] = set()
    written: set[Buffer] = set()
    for part in launches(kernel):
        found = accessed(part)
        read |= found[0]
        written |= found[1]
    params = tuple(
        p
        if not isinstance(p.value, Buffer)
        else replace(
            p,
            role="inout" if p.value in written and p.value in read else "out" if p.value in written else "in",
        )
        for p in kernel.params
    )
    return each_launch(kernel, lambda part: replace(part, params=params))
