"""What a report says of buffers, layouts, ops and stages, one at a time."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.errors import Loc
from tilebench.ir.expr import int_value
from tilebench.ir.rewrite import loads, walk
from tilebench.ir.text import print_kernel, print_program, print_stmt
from tilebench.ir.tile import Buffer, Parallel, Stmt, TileOp
from tilebench.ir.tile import Kernel as TileKernel
from tilebench.kernel import scheduling
from tilebench.layouts import FragmentLayout, SharedLayout, mma_k
from tilebench.ops.base import Op
from tilebench.ops.gemm import Gemm, wgmma
from tilebench.passes.stages import (
    Allocated,
    AnyLayout,
    Lowered,
    Partitioned,
    Placed,
    Scheduled,
    Selected,
    Synchronised,
)
from tilebench.report import (
    BufferInfo,
    CauseInfo,
    DigitInfo,
    LayoutInfo,
    OpInfo,
    SliceInfo,
    Span,
)

if TYPE_CHECKING:
    from tilebench.kernel.compiled import Kernel

TABLE_LIMIT = 1 << 15
"""Layouts without digits are sent as a table up to this many elements."""


def span(at: Loc | None) -> Span | None:
    """A Loc as a Span of the cell: of the outermost call when the node came from a macro."""
    while at is not None and at.call_site is not None:
        at = at.call_site
    return None if at is None else Span(at.line, at.column, at.end_line or at.line, at.end_column)


def line_of(at: Loc | None) -> int:
    """The cell line, 0 for none."""
    place = span(at)
    return place.line if place else 0


def identity(kernel: Kernel) -> str:
    """The kernel's id on the selection bus: a hash of its text, configuration and target."""
    text = print_kernel(kernel.prim).text + str(sorted(kernel.config.items())) + str(kernel.target)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def buffer_info(buffer: Buffer, allocated: Allocated | None) -> BufferInfo:
    """What a view shows of a buffer."""
    sizes = tuple(int_value(s) or 0 for s in buffer.shape)
    size = math.prod(sizes) * buffer.dtype.bytes
    slot = allocated.slots.get(buffer) if allocated else None
    versions = allocated.scheduled.versions.get(buffer, 1) if allocated else 1
    return BufferInfo(
        buffer.name, sizes, buffer.dtype.name, buffer.scope, size, span(buffer.loc),
        slot.offset if slot else None, versions,
        slot.first if slot else 0, slot.last if slot else 0,
    )  # fmt: skip


def layout_info(
    name: str,
    layout: FragmentLayout | SharedLayout,
    bits: int,
    reason: str,
    line: int,
    causes: tuple[CauseInfo, ...] = (),
) -> LayoutInfo:
    """A layout as the views want it: digits or strides where they describe it, else the table."""
    if isinstance(layout, FragmentLayout):
        digits = layout.is_digits
        table = None if digits else layout.elements().astype(np.int32).ravel()
        return LayoutInfo(
            name, "fragment", layout.shape, bits, layout.threads, layout.registers, layout.replication,
            _digits(layout.reg) if digits else (), _digits(layout.thread) if digits else (),
            table=table if table is None or table.size <= TABLE_LIMIT else table[:TABLE_LIMIT],
            formula=layout.describe(grid=False), reason=reason, reason_line=line, chain=causes,
        )  # fmt: skip
    swizzle = layout.swizzle
    table = layout.table
    return LayoutInfo(
        name, "shared", layout.shape, bits, strides=layout.strides, panel=layout.panel or 0,
        panel_stride=layout.panel_stride,
        swizzle=(swizzle.bits, swizzle.base, swizzle.shift),
        table=None if table is None else np.asarray(table).ravel(),
        formula=layout.describe(), reason=reason, reason_line=line, chain=causes,
    )  # fmt: skip


def _digits(digits: Sequence[Any]) -> tuple[DigitInfo, ...]:
    return tuple(DigitInfo(d.size, -1 if d.dim is None else d.dim, d.stride) for d in digits)


def ops_of(kernel: TileKernel) -> dict[Stmt, str]:
    """Ids of the tile ops and parallel loops in program order: 'op0', 'op1' ..."""
    found = [n for n in walk(kernel.body) if isinstance(n, TileOp | Parallel)]
    return {n: f"op{i}" for i, n in enumerate(found)}


def bar_names(kernel: TileKernel) -> dict[Stmt, tuple[str, str, int]]:
    """statement -> (op id, label, cell line), for the bars of the timeline."""
    return {s: (i, type(s).__name__.lower(), line_of(s.loc)) for s, i in ops_of(kernel).items()}


def op_info(stmt: Stmt, ident: str, partitioned: Partitioned | None, boxes: tuple[SliceInfo, ...]) -> OpInfo:
    """What a view shows of an op. boxes: the parts of tensors that a block touches."""
    text = print_stmt(stmt).text.splitlines()[0]
    if isinstance(stmt, Parallel):
        reads = sorted({e.buffer.name for e in loads(stmt.body)})
        writes = sorted(
            {b.name for n in walk(stmt.body) if isinstance(b := getattr(n, "buffer", None), Buffer)}
            - set(reads)
        )
        return OpInfo(
            ident, "parallel", text, span(stmt.loc), "per element", "", (), tuple(reads), tuple(writes),
            role=scheduling.role_of(stmt, partitioned), slices=boxes,
        )  # fmt: skip
    assert isinstance(stmt, Op), "tile ops derive from Op"
    cost = stmt.cost()
    instruction, reason, declined, grid = "", "", (), (1, 1)
    if partitioned is not None and stmt in partitioned.selected.instructions:
        selected = partitioned.selected
        instruction = selected.instructions[stmt].name
        reason = selected.reasons[stmt].text if stmt in selected.reasons else ""
        declined = tuple(r.text for r in selected.declined.get(stmt, ()))
        grid = partitioned.warp_grids.get(stmt, (1, 1))
    elif partitioned is not None:
        instruction = scheduling.instruction_of(stmt, partitioned)
        reason = "through shared memory" if instruction else ""
    moved = sum(cost.read.values()) + sum(cost.written.values())
    operands, transposed, atom = product(stmt, instruction, grid)
    return OpInfo(
        ident, type(stmt).__name__.lower(), text, span(stmt.loc), instruction, reason, declined,
        tuple(r.buffer.name for r in stmt.reads), tuple(r.buffer.name for r in stmt.writes), cost.flops,
        moved, scheduling.role_of(stmt, partitioned), grid, operands, transposed, atom, boxes,
    )  # fmt: skip


_ATOM = re.compile(r"m(\d+)n(\d+)k(\d+)")


def product(
    op: Op, instruction: str, split: tuple[int, int]
) -> tuple[tuple[str, ...], tuple[bool, ...], tuple[int, ...]]:
    """(names of A, B, C; whether A and B are transposed; M, N, K of an instruction) of a gemm, else empty.

    split: the warps along M and along N.
    """
    if not isinstance(op, Gemm):
        return (), (), ()
    found = _ATOM.search(instruction)
    atom = tuple(int(x) for x in found.groups()) if found else ()
    if instruction == wgmma.NAME:
        atom = (wgmma.ROWS, wgmma.columns_of(op.mnk[1] // split[1], op.c.dtype.name), mma_k(op.a.dtype.bits))
    return (op.a.buffer.name, op.b.buffer.name, op.c.buffer.name), (op.transpose_a, op.transpose_b), atom


def stage_text(stage: Any) -> tuple[str, tuple[Loc | None, ...]]:
    """The text of a stage for the passes view, with the place that each line came from."""
    match stage:
        case Lowered():
            printed = print_program(stage.program)
            return printed.text, printed.locs
        case Synchronised() | Scheduled():
            printed = print_stmt(stage.body)
            return printed.text, printed.locs
        case Selected():
            rows = [
                (f"{print_stmt(op).text.splitlines()[0]}  ->  {i.name}", op.loc)
                for op, i in stage.instructions.items()
            ]
        case Partitioned():
            rows = [
                (f"role {r.name}: threads {r.first_thread}..{r.first_thread + r.threads - 1}", None)
                for r in stage.roles
            ]
            rows += [
                (f"{print_stmt(op).text.splitlines()[0]}  ->  warps {g[0]} x {g[1]}", op.loc)
                for op, g in stage.warp_grids.items()
            ]
        case Placed():
            rows = [(f"{b.name}: {_brief(layout)}", b.loc) for b, layout in stage.layouts.items()]
        case Allocated():
            rows = [
                (f"{b.name}: bytes {s.offset}..{s.offset + s.size - 1}, live {s.first}..{s.last}", b.loc)
                for b, s in stage.slots.items()
            ]
            rows.append((f"total {stage.shared_bytes} bytes", None))
        case _:
            printed = print_kernel(stage.kernel)
            return printed.text, printed.locs
    lines = [(line, at) for text, at in rows for line in text.splitlines()]
    return "\n".join(text for text, _ in lines), tuple(at for _, at in lines)


def _brief(layout: AnyLayout) -> str:
    """A layout in one line, without its drawing."""
    return layout.describe(grid=False) if isinstance(layout, FragmentLayout) else layout.describe()
