"""Fragments that are smaller than the loops over them, given the room that the loops use.

    s = T.alloc_fragment([heads], "float32")        # 8 elements
    for i in T.Parallel(64):
        s[i] = Sinks[h]                             # one for each row: 64

Where a fragment of one dimension is only ever indexed by the variables of T.Parallel loops, its iterations
are all that it holds, and its declared size means nothing else: it gets theirs, and the kernel says so. A
fragment that a tile op names, or that is indexed in any other way, viewed, or laid out by the user keeps its
size.
"""

from __future__ import annotations

from dataclasses import replace

from tilebench.ir.expr import Expr, Load, Var, const, int_value
from tilebench.ir.rewrite import Node, children, replace_buffers
from tilebench.ir.tile import AtomicRMW, Buffer, Kernel, Parallel, Region, Store

WIDENED = "widened"
"""The attribute of a kernel that names such fragments: (buffer, elements declared)."""


def with_room(kernel: Kernel) -> Kernel:
    """The kernel with such fragments as large as their loops; itself where there are none."""
    own = [
        b
        for b in kernel.buffers
        if b.scope == "fragment"
        and len(b.shape) == 1
        and b.view_of is None
        and int_value(b.shape[0]) is not None
    ]
    taken = {b.view_of for b in kernel.buffers} | set(kernel.attributes.get("layouts") or ())
    used: dict[Buffer, int] = {b: 0 for b in own if b not in taken}
    if used:
        _uses(kernel.body, {}, used)
    wide = {
        b: replace(b, shape=(const(count, b.shape[0].dtype),))
        for b, count in used.items()
        if count > (int_value(b.shape[0]) or 0)
    }
    if not wide:
        return kernel
    known = tuple((new, int_value(old.shape[0])) for old, new in wide.items())
    return replace(
        kernel,
        body=replace_buffers(kernel.body, wide),
        buffers=tuple(wide.get(b, b) for b in kernel.buffers),
        attributes={**kernel.attributes, WIDENED: known},
    )


def _uses(node: Node, loops: dict[Var, int], used: dict[Buffer, int]) -> None:
    """Note the elements that accesses need; buffers that are used in another way are dropped."""
    match node:
        case Parallel():
            loops = {**loops, **dict(zip(node.vars, node.extents, strict=True))}
        case Load() | Store() | AtomicRMW():
            _note(node.buffer, node.indices, loops, used)
        case Region():
            used.pop(node.buffer, None)
        case _:
            pass
    for child in children(node):
        _uses(child, loops, used)


def _note(buffer: Buffer, indices: tuple[Expr, ...], loops: dict[Var, int], used: dict[Buffer, int]) -> None:
    if buffer not in used:
        return
    index = indices[0]
    if isinstance(index, Var) and index in loops:
        used[buffer] = max(used[buffer], loops[index])
    else:
        del used[buffer]


def widened(kernel: Kernel) -> list[tuple[Buffer, str]]:
    """The fragments that were given room, with a sentence for each."""
    found: list[tuple[Buffer, str]] = []
    for b, declared in kernel.attributes.get(WIDENED, ()):
        elements = "1 element" if declared == 1 else f"{declared} elements"
        text = f"{b.name} is declared with {elements}, and the loops over it have {int_value(b.shape[0])}"
        found.append((b, f"{text}: it was given one for each iteration"))
    return found


__all__ = ["WIDENED", "widened", "with_room"]
