"""Kernel -> Typed: shapes, dtypes, scopes and indices are legal, and it is known which statements are
per-thread."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from tilebench.errors import SyncError, TargetError, TypeTileError, located
from tilebench.ir.expr import Expr, Load, Var, as_expr, const, int_value
from tilebench.ir.rewrite import children, substitute, transform, walk
from tilebench.ir.solve import determined
from tilebench.ir.tile import (
    AtomicRMW,
    Buffer,
    For,
    If,
    Kernel,
    Parallel,
    Pipelined,
    Region,
    Stmt,
    Store,
    While,
)
from tilebench.ops.base import Op
from tilebench.ops.copy import Copy
from tilebench.passes.apart import take_apart
from tilebench.passes.carried import check_carried
from tilebench.passes.clipped import with_clipped_accesses, with_safe_values
from tilebench.passes.groups import spread_groups
from tilebench.passes.guards import with_guards
from tilebench.passes.large import wide_indices
from tilebench.passes.ranges import check_indices, counted_from_end
from tilebench.passes.room import with_room
from tilebench.passes.stages import Typed
from tilebench.passes.uniform import per_thread_statements
from tilebench.targets import Target

MAX_THREADS = 1024
MAX_GRID_YZ = 65535
MAX_BUFFER_BYTES = 1 << 28
"""More than any machine gives a block; targets have their own, smaller limits."""


def check(kernel: Kernel, target: Target) -> Typed:
    """The kernel with everything legal, or a located TileError.

    Buffers that ops made for themselves are added to kernel.buffers, and the safe values of
    T.annotate_safe_value to the copies that read outside; fragments get the room that their loops use.
    """
    _check_launch(kernel, target)
    kernel = take_apart(wide_indices(spread_groups(with_guards(with_room(_complete(kernel))))), target.is_gpu)
    _check_buffers(kernel)
    for node in walk(kernel.body):
        if isinstance(node, Op):
            with located(node.loc):
                node.check()
        elif isinstance(node, Stmt):
            _check_statement(node)
    _check_loads(kernel.body, None)
    inside = with_safe_values(kernel)
    if check_indices(inside):
        kernel = counted_from_end(kernel, check_indices(kernel))
        inside = with_safe_values(kernel)
    if not target.is_gpu:
        kernel = with_clipped_accesses(inside)
    return Typed(kernel, target, per_thread_statements(kernel))


def _check_launch(kernel: Kernel, target: Target) -> None:
    count = kernel.thread_count
    if not 1 <= len(kernel.grid) <= 3:
        raise TargetError(
            "TB530",
            f"T.Kernel has {len(kernel.grid)} grid axes",
            at=kernel.loc,
            fix="use one to three: T.Kernel(x, y, z, threads=128)",
        )
    if not 1 <= count <= MAX_THREADS or any(t < 1 for t in kernel.threads):
        asked = " x ".join(map(str, kernel.threads))
        total = f" = {count}" if len(kernel.threads) > 1 else ""
        raise TargetError(
            "TB531",
            f"threads={asked}{total} is not a block that a GPU can run",
            at=kernel.loc,
            why=f"a block has 1 to {MAX_THREADS} threads",
            fix=f"threads={min(max(count, 32), MAX_THREADS) if count > 0 else 128}",
        )
    if target.is_gpu and len(kernel.threads) == 3 and kernel.threads[2] > 64:
        raise TargetError(
            "TB532",
            f"{kernel.threads[2]} threads along the third axis",
            at=kernel.loc,
            why="CUDA allows at most 64 there",
            fix="use the first axis",
        )
    for axis, extent in enumerate(kernel.grid):
        size = int_value(extent)
        if size is not None and size < 0:
            raise TargetError(
                "TB533",
                f"the grid has {size} blocks along axis {axis}",
                at=kernel.loc,
                fix="T.ceildiv(n, block) gives the number of blocks",
            )
        if target.is_gpu and axis and size is not None and size > MAX_GRID_YZ:
            raise TargetError(
                "TB534",
                f"the grid has {size} blocks along axis {axis}",
                at=kernel.loc,
                why=f"CUDA allows {MAX_GRID_YZ} blocks along the second and third axis, 2147483647 along "
                "the first",
                fix="put the long axis first",
            )


# ------------------------------------------------------------------ completing the kernel


def _complete(kernel: Kernel) -> Kernel:
    safe: Mapping[Buffer, Any] = kernel.attributes.get("safe_values") or {}
    body = kernel.body
    if safe:

        def rule(node: Any) -> Any:
            if isinstance(node, Copy) and node.source.buffer in safe and node.outside is None:
                value = as_expr(safe[node.source.buffer]).astype(node.source.dtype)
                return dataclasses.replace(node, outside=value)
            return None

        body = transform(body, rule)
    if kernel.thread_count == 1:  # what names the only thread differs between none
        body = substitute(body, {kernel.thread: const(0, kernel.thread.dtype)})
    known = {id(b) for b in kernel.buffers}
    known.update(id(p.value) for p in kernel.params)
    tables = {id(b) for b in kernel.attributes.get("tables", {}).values()}
    extra: list[Buffer] = []
    for node in walk(body):
        if isinstance(node, Load | Store | AtomicRMW | Region) and id(node.buffer) not in known:
            if id(node.buffer) in tables:
                raise TypeTileError(
                    "TB205",
                    f"an element of {node.buffer.name} is used as a number",
                    at=node.loc,
                    why="it is a table of addresses, whose entries T.make_tensor reads",
                    fix="pass the numbers in a tensor of their own",
                )
            known.add(id(node.buffer))
            extra.append(node.buffer)
    if body is kernel.body and not extra:
        return kernel
    return dataclasses.replace(kernel, body=body, buffers=(*kernel.buffers, *extra))


# ------------------------------------------------------------------ buffers and statements


def _check_buffers(kernel: Kernel) -> None:
    tensors = [p.value for p in kernel.params if isinstance(p.value, Buffer)]
    bound = {p.value for p in kernel.params if isinstance(p.value, Var)}
    bound.update(s for b in tensors for s in (*b.shape, *(b.strides or ())) if isinstance(s, Var))
    bound = determined((extent for b in tensors for extent in b.shape), bound)
    for symbol in kernel.symbols:
        if symbol not in bound:
            raise TypeTileError(
                "TB265",
                f"the size {symbol.name} cannot be found from the arguments",
                at=kernel.loc,
                why="a symbolic size must be a dimension or stride of a tensor argument, the one unknown of "
                "a dimension such as 4 * n + 1, or an argument itself",
                fix=f"give some argument a dimension {symbol.name}",
            )
    for buffer in (*tensors, *kernel.buffers):
        if buffer.dtype.lanes > 1:
            raise TypeTileError(
                "TB203",
                f"{buffer.name} has elements of type {buffer.dtype}",
                at=buffer.loc,
                why="vectors are a matter of the access, not of the memory",
                fix="use the scalar element type: accesses are made as wide as they can be",
            )
        if buffer.scope == "global":
            continue
        for dim, extent in enumerate(buffer.shape):
            size = int_value(extent)
            if size is None or size < 1:
                raise TypeTileError(
                    "TB266",
                    f"{buffer.name}: extent {'unknown' if size is None else size} in dimension {dim}",
                    at=buffer.loc,
                    why=f"a {buffer.scope} buffer has a fixed size of at least one element",
                    fix="use a number known at compile time",
                )
        size_bytes = math.prod(buffer.static_shape) * buffer.dtype.bytes
        if size_bytes > MAX_BUFFER_BYTES:
            raise TypeTileError(
                "TB276",
                f"{buffer.name} would be {size_bytes / 2**20:.0f} MiB of {buffer.scope} memory",
                at=buffer.loc,
                why="a block's own memory is some hundred KiB on a GPU, and every block has such a buffer",
                fix="work on a tile of it, or use a global tensor (T.alloc_global)",
            )
        if buffer.view_of is not None:
            _check_view(buffer, buffer.view_of)


def _check_view(buffer: Buffer, base: Buffer) -> None:
    own, theirs = 1, 1
    for extent in buffer.static_shape:
        own *= extent
    for extent in base.static_shape:
        theirs *= extent
    if own * buffer.dtype.bytes != theirs * base.dtype.bytes:
        raise TypeTileError(
            "TB267",
            f"{buffer.name} is {own * buffer.dtype.bytes} bytes, {base.name} is {theirs * base.dtype.bytes}",
            at=buffer.loc,
            why="a view or reshape shows the same bytes with another shape or dtype",
            fix=f"choose a shape of {theirs * base.dtype.bytes // buffer.dtype.bytes} {buffer.dtype} "
            "elements",
        )


def _check_statement(s: Stmt) -> None:
    match s:
        case Store() | AtomicRMW():
            _check_access(s.buffer, s.indices, s)
            if s.value.dtype != s.buffer.dtype:
                raise TypeTileError(
                    "TB262",
                    f"a {s.value.dtype} value is stored to {s.buffer.name}, which holds {s.buffer.dtype}",
                    at=s.loc,
                    fix=f"cast it: T.cast(value, '{s.buffer.dtype}')",
                )
        case If() | While():
            if s.condition.dtype.kind != "bool":
                raise TypeTileError(
                    "TB268", f"a condition of type {s.condition.dtype}", at=s.loc, fix="compare it: x != 0"
                )
        case Parallel():
            if len(s.vars) != len(s.extents) or any(e < 0 for e in s.extents):
                raise TypeTileError(
                    "TB269",
                    f"T.Parallel{s.extents} with {len(s.vars)} loop variables",
                    at=s.loc,
                    fix="one extent, at least 0, for each variable",
                )
            _check_parallel(s)
            check_carried(s)
        case For() if int_value(s.step) == 0:
            raise TypeTileError(
                "TB270", "a loop with step 0 never ends", at=s.loc, fix="use a step other than 0"
            )
        case Pipelined() if s.num_stages < 0:
            raise SyncError(
                "TB420",
                f"num_stages={s.num_stages}",
                at=s.loc,
                why="it counts the copies of each pipelined buffer",
                fix="num_stages=0 is a plain loop, 2 to 4 overlap copies with work",
            )
        case _:
            pass


def _check_parallel(loop: Parallel) -> None:
    for node in walk(loop.body):
        if isinstance(node, Op | Pipelined):
            name = type(node).__name__.lower()
            raise SyncError(
                "TB412",
                f"T.{name} inside T.Parallel",
                at=node.loc,
                why="an iteration of T.Parallel belongs to one thread; a tile op needs the whole block",
                fix="use a serial loop (T.serial) around it, or write the element operation itself",
                notes=[(loop.loc, "the parallel loop")],
            )


def _check_access(buffer: Buffer, indices: tuple[Expr, ...], node: Stmt | Expr) -> None:
    if len(indices) != len(buffer.shape):
        raise TypeTileError(
            "TB261",
            f"{buffer.name} has {len(buffer.shape)} dimensions, but {len(indices)} indices are given",
            at=node.loc,
            why="an element has one index for each dimension",
            fix=f"{buffer.name}[{', '.join('ijklmn'[d % 6] for d in range(len(buffer.shape)))}]",
        )
    for index in indices:
        if not index.dtype.is_int and index.dtype.kind != "bool":
            raise TypeTileError(
                "TB272",
                f"an index of {buffer.name} is {index.dtype}",
                at=index.loc or node.loc,
                why="elements are counted with integers",
                fix="T.cast(index, 'int32')",
            )


def _check_loads(node: Any, at: Any) -> None:
    here = node.loc if getattr(node, "loc", None) is not None else at
    if isinstance(node, Load):
        with located(here):
            _check_access(node.buffer, node.indices, node)
    for child in children(node):
        _check_loads(child, here)
