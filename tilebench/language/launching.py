"""The launch in force: block and thread names, and what they are as expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilebench.errors import Loc, SyntaxTileError, TypeTileError
from tilebench.ir.dtype import int32
from tilebench.ir.expr import Expr, Var, as_expr, binary, const
from tilebench.language.markers import ConstVar, LaunchSpec, ThreadRange, ThreadValue

if TYPE_CHECKING:
    from tilebench.language.walker import Walker


THEN = "then"
"""The attribute of a parsed Kernel that holds the launches after its own, as Kernels (kernel/launches.py)."""


def enter_launch(walker: Walker, spec: LaunchSpec, at: Loc) -> tuple[Var, ...]:
    """`with T.Kernel(...)`: sets grid, threads and block variables; returns the block variables."""
    if walker.inside or len(walker.bodies) > 1:
        raise SyntaxTileError(
            "TB108",
            "a T.Kernel inside of " + ("another" if walker.inside else "a run-time loop or branch"),
            at=at,
            why="the launches of a program follow each other",
            fix="write one `with T.Kernel(...)` after the other",
        )
    if walker.launch is not None:
        walker.end_launch(at)
    grid: list[Expr] = []
    for axis, extent in enumerate(spec.grid):
        if isinstance(extent, ConstVar):
            raise TypeTileError(
                "TB213",
                f"{extent.name} is not known here",
                at=at,
                why="T.const names are determined by the shapes of the arguments",
                fix="declare an input tensor that has it as an extent first",
            )
        e = as_expr(extent)
        if e.dtype.is_float:
            raise TypeTileError(
                "TB217",
                f"grid axis {axis} is a {e.dtype}",
                at=at,
                why="the number of blocks is a whole number",
                fix="T.ceildiv(n, block), or // for division",
            )
        grid.append(e)
    walker.launch, walker.grid, walker.threads, walker.inside = spec, tuple(grid), spec.threads, True
    walker.blocks = tuple(Var(n, dtype=int32) for n in ("bx", "by", "bz")[: len(grid)])
    return walker.blocks


def _axis(values: tuple[Any, ...], dim: int, default: Any) -> Any:
    return values[dim] if dim < len(values) else default


def resolve_thread_value(walker: Walker, value: ThreadValue, at: Loc | None) -> Any:
    """A thread or block name as an expression of the launch."""
    if not walker.inside:
        raise SyntaxTileError(
            "TB108",
            "a thread is named outside of T.Kernel",
            at=at,
            why="only a launch has threads and blocks",
            fix="put it under `with T.Kernel(...)`",
        )
    thread: Expr = walker.thread
    match value.kind:
        case "thread":
            return _thread_axis(walker, value.dim)
        case "threads":
            return tuple(_thread_axis(walker, d) for d in range(3))
        case "block":
            return _axis(walker.blocks, value.dim, const(0))
        case "blocks":
            return tuple(_axis(walker.blocks, d, const(0)) for d in range(3))
        case "thread_extent":
            return _axis(walker.threads, value.dim, 1)
        case "block_extent":
            return _axis(walker.grid, value.dim, 1)
        case "thread_extents":
            return tuple(_axis(walker.threads, d, 1) for d in range(3))
        case "block_extents":
            return tuple(_axis(walker.grid, d, 1) for d in range(3))
        case "lane":
            return thread % 32
        case "warp":
            return thread // 32
        case "warp_group":
            return thread // 128
        case "flat":
            return thread


def _thread_axis(walker: Walker, dim: int) -> Expr:
    flat: Expr = walker.thread
    extents = walker.threads
    if dim >= len(extents):
        return const(0)
    if len(extents) == 1:
        return flat
    before = 1
    for n in extents[:dim]:
        before *= n
    part = flat // before
    return part % extents[dim] if dim < len(extents) - 1 else part


def thread_range(walker: Walker, value: ThreadRange, at: Loc) -> Expr:
    """The condition of `with T.ws(...)`: the thread's group of 128 is one of them."""
    group = resolve_thread_value(walker, ThreadValue("warp_group"), at)
    condition: Any = False
    for number in value.groups:
        condition = binary("or", condition, group == int(number))
    return as_expr(condition)
