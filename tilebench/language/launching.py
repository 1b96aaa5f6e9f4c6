"""The launch in force: block and thread names, and what they are as expressions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tilebench.errors import Loc, SyntaxTileError, TypeTileError
from tilebench.ir.dtype import int32
from tilebench.ir.expr import Expr, Var, as_expr, binary, const
from tilebench.ir.launches import own_buffers
from tilebench.ir.rewrite import Node, children, walk
from tilebench.ir.tile import AtomicRMW, Bind, Buffer, For, Parallel, Pipelined, Region
from tilebench.language.markers import ConstVar, LaunchSpec, ThreadRange, ThreadValue

if TYPE_CHECKING:
    from tilebench.language.walker import Launched, Walker


def enter_launch(walker: Walker, spec: LaunchSpec, at: Loc) -> tuple[Var, ...]:
    """`with T.Kernel(...)`: sets grid, threads and block variables; returns the block variables.

    A second one, behind the first, begins the launch that follows it.
    """
    if walker.inside or len(walker.bodies) > 1:
        raise SyntaxTileError(
            "TB108",
            "a T.Kernel inside of another" if walker.inside else "a T.Kernel under a condition of the run",
            at=at,
            why="a block cannot launch blocks, and the launches of a program are settled when it is compiled",
            fix="put it behind the other: launches run one after the other",
        )
    if walker.launch is None:
        walker.first_launch()
    else:
        walker.next_launch()
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
    walker.launched_at = at
    walker.blocks = tuple(Var(n, dtype=int32) for n in ("bx", "by", "bz")[: len(grid)])
    return walker.blocks


def refuse_foreign(launched: Sequence[Launched]) -> None:
    """Raise SyntaxTileError TB105 where a launch names a value, a tile or an index of another one."""
    if len(launched) == 1:
        return
    owner: dict[Var | Buffer, int] = {}
    for number, one in enumerate(launched):
        owner.update(dict.fromkeys((*one.blocks, one.thread), number))
        owner.update({b: number for b in one.buffers if not b.workspace})
        for node in walk(one.body):
            match node:
                case Bind() | For() | Pipelined():
                    owner[node.var] = number
                case Parallel():
                    owner.update(dict.fromkeys(node.vars, number))
                case AtomicRMW() if node.result is not None:
                    owner[node.result] = number
                case _:
                    pass
    for number, one in enumerate(launched):
        for part in (one.body, *one.grid):
            for node, at in _located(part, one.at):
                for named in own_buffers(node) if not isinstance(node, Var) else (node,):
                    if owner.get(named, number) != number:
                        raise SyntaxTileError(
                            "TB105",
                            f"{named.name} belongs to another launch",
                            at=at,
                            why="tiles, threads and the values that they compute end with their launch",
                            fix="write it to a tensor or a workspace (T.alloc_global), and read it here",
                        )


def _located(node: Node, at: Loc | None) -> Iterator[tuple[Node, Loc | None]]:
    here = at if isinstance(node, Region) else getattr(node, "loc", None) or at
    yield node, here
    for child in children(node):
        yield from _located(child, here)


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
