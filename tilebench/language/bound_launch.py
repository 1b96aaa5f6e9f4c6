"""Launches that are spelled as loops: `for bx in T.thread_binding(n, "blockIdx.x")` and what is nested in it.

The loops that stand directly inside each other, outside of T.Kernel, are the axes of the grid and of the
block; the body of the last is what each thread runs. Axes that no loop goes over have one block, one thread.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from tilebench.errors import Loc, TypeTileError
from tilebench.ir.expr import as_expr, int_value
from tilebench.language.launching import enter_launch
from tilebench.language.markers import LaunchSpec, LoopSpec
from tilebench.language.scope import Frame

if TYPE_CHECKING:
    from tilebench.language.walker import Walker

Bound = Callable[["Walker", LoopSpec, Loc], object]


def launch_of_loops(walker: Walker, node: ast.For, loop: LoopSpec, frame: Frame, value_of: Bound) -> None:
    """Walk the loops as a launch. value_of: what the variable of such a loop is, in a launch.

    Raises TypeTileError TB222 for an axis that two loops go over, TB531 for threads that are not known.
    """
    loops = [(node, loop)]
    while len(node.body) == 1 and _binds(inner := node.body[0]):
        assert isinstance(inner, ast.For)
        spec = walker.evaluate(inner.iter, frame)
        assert isinstance(spec, LoopSpec), "T.thread_binding gives a loop"
        loops.append((inner, spec))
        node = inner
    at = frame.loc(loops[0][0].iter)
    extents: dict[tuple[str, int], object] = {}
    for one, spec in loops:
        axis = spec.options["kind"], spec.options["dim"]
        if axis in extents:
            raise TypeTileError(
                "TB222",
                f"two loops go over {axis[0]}Idx.{'xyz'[axis[1]]}",
                at=frame.loc(one.iter),
                why="each axis of a launch has one extent",
                fix="use another axis, or one loop",
            )
        extents[axis] = spec.stop
    grid, threads = _extents(extents, "block"), _extents(extents, "thread")
    counts = [int_value(as_expr(t)) for t in threads]
    if any(t is None or t < 1 for t in counts):
        raise TypeTileError(
            "TB531",
            f"threads={threads}",
            at=at,
            why="a block has one to three axes of threads, known when the kernel is compiled",
            fix='for t in T.thread_binding(128, "threadIdx.x")',
        )
    enter_launch(walker, LaunchSpec(grid, tuple(t or 1 for t in counts)), at)
    for one, spec in loops:
        walker.bind_target(one.target, value_of(walker, spec, frame.loc(one.iter)), frame)
    walker.statements(node.body, frame)
    walker.inside = False


def _binds(node: ast.stmt) -> bool:
    """Whether a statement is a loop over T.thread_binding, by its spelling."""
    if not isinstance(node, ast.For) or not isinstance(node.iter, ast.Call):
        return False
    called = node.iter.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name == "thread_binding"


def _extents(extents: dict[tuple[str, int], object], kind: str) -> tuple[object, ...]:
    most = max((dim for k, dim in extents if k == kind), default=0)
    return tuple(extents.get((kind, d), 1) for d in range(most + 1))


__all__ = ["launch_of_loops"]
