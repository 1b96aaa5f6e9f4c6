"""Programs of several launches: `kernel.then` is the one after it, on the same stream, with its arguments.

A later launch starts when all blocks of the one before have ended, so it sees what they wrote. Parameters are
the same objects in all of them; so is a workspace (T.alloc_global) that more than one of them names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilebench.errors import LaunchError
from tilebench.ir.expr import Expr, Var, const, int_value
from tilebench.ir.rewrite import Node, substitute, walk
from tilebench.ir.tile import Buffer, Kernel, Param, Region


def launches(kernel: Kernel) -> tuple[Kernel, ...]:
    """The launches of a program in order, each still with those behind it."""
    found = [kernel]
    while found[-1].then is not None:
        found.append(found[-1].then)
    return tuple(found)


def in_order(parts: Sequence[Kernel]) -> Kernel:
    """One program of these launches."""
    joined: Kernel | None = None
    for part in reversed(parts):
        joined = replace(part, then=joined)
    assert joined is not None, "a program has a launch"
    return joined


def each_launch(kernel: Kernel, change: Callable[[Kernel], Kernel]) -> Kernel:
    """The program with `change` applied to every launch."""
    return in_order([change(part) for part in launches(kernel)])


def separate(kernel: Kernel) -> tuple[tuple[Kernel, ...], tuple[Buffer, ...]]:
    """(the launches as kernels of their own, the workspaces that they share).

    A shared workspace is a parameter of each kernel, behind the program's; a workspace that one launch alone
    names stays its own.
    """
    parts = launches(kernel)
    named = [named_buffers(part) for part in parts]
    spaces = list(dict.fromkeys(b for part in parts for b in part.buffers if b.workspace))
    shared = tuple(b for b in spaces if sum(b in names for names in named) > 1)
    extra = tuple(Param(b.name, b, "inout", b.loc) for b in shared)
    return tuple(
        replace(
            part,
            params=(*part.params, *extra),
            buffers=tuple(b for b in part.buffers if not b.workspace or (b in names and b not in shared)),
            then=None,
        )
        for part, names in zip(parts, named, strict=True)
    ), shared


def named_buffers(kernel: Kernel) -> set[Buffer]:
    """The buffers that a launch names, and those that they are views of."""
    found: set[Buffer] = set()
    for node in walk(kernel.body):
        found.update(own_buffers(node))
    for buffer in list(found):
        while buffer.view_of is not None:
            buffer = buffer.view_of
            found.add(buffer)
    return found


def own_buffers(node: Node) -> Iterator[Buffer]:
    """The buffers in the fields of one node, not of those below it."""
    if isinstance(node, Region):
        yield node.buffer
    elif dataclasses.is_dataclass(node):
        for f in dataclasses.fields(node):
            value: Any = getattr(node, f.name)
            for item in value if isinstance(value, tuple) else (value,):  # pyright: ignore[reportUnknownVariableType]
                if isinstance(item, Buffer):
                    yield item


def grid_of(kernel: Kernel, known: Mapping[Var, int]) -> tuple[int, ...]:
    """The blocks of a launch along each axis. Raises LaunchError TB604 where an extent is not known."""

    def extent(e: Expr) -> int:
        value = extent_of(e, known)
        if value is None:
            raise LaunchError(
                "TB604",
                "the grid depends on a value that is not an extent",
                at=kernel.loc,
                fix="use shapes or T.dynamic extents",
            )
        return value

    return tuple(extent(e) for e in kernel.grid)


def extent_of(e: Expr, known: Mapping[Var, int]) -> int | None:
    """The number that an extent is in a call with these values; None where they do not determine it."""
    return int_value(substitute(e, {v: const(n, v.dtype) for v, n in known.items()}))


def launches_nothing(kernel: Kernel, grid: tuple[int, ...]) -> bool:
    """Whether a call with this grid has nothing to do; of several launches each looks at its own grid."""
    return 0 in grid and kernel.then is None


__all__ = [
    "each_launch",
    "extent_of",
    "grid_of",
    "in_order",
    "launches",
    "launches_nothing",
    "named_buffers",
    "own_buffers",
    "separate",
]
