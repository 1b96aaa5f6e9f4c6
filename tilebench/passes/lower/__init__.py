"""Synchronised -> Lowered: tile statements as what one thread runs.

statements.py dispatches; nest.py turns Parallel nests into loops over the registers of a layout; builder.py
holds memories, names and addresses; convert.py and scalar.py reach elements of other threads; reduce.py and
scan.py fold.
"""

from __future__ import annotations

from typing import Any

from tilebench.ir.thread import Program, Role
from tilebench.passes.lower.builder import Builder
from tilebench.passes.lower.rasterise import rasterised_blocks
from tilebench.passes.lower.statements import lower_stmt
from tilebench.passes.stages import Allocated, Lowered, Placed, Scheduled, Slot, Synchronised

__all__ = ["lower", "scratch_bytes"]


def lower(stage: Synchronised) -> Lowered:
    """The thread program of a kernel, one role of all threads."""
    b = Builder(stage)
    blocks = rasterised_blocks(b)
    lower_stmt(b, stage.body)
    kernel = stage.kernel
    facts: dict[str, Any] = {
        k: v for k, v in kernel.attributes.items() if isinstance(v, int | float | str | bool)
    }
    facts["fast_math"] = bool(kernel.attributes.get("pass_configs", {}).get("TL_ENABLE_FAST_MATH", False))
    program = Program(
        name=kernel.name,
        params=kernel.params,
        globals=b.globals,
        symbols=kernel.symbols,
        grid=kernel.grid,
        blocks=blocks,
        thread=kernel.thread,
        threads=b.threads,
        roles=(Role("all", 0, b.threads, b.finish()),),
        registers=tuple(b.registers_used),
        shared=tuple(b.shared_used),
        shared_bytes=b.shared_bytes,
        arch=b.target.arch or "",
        facts=facts,
    )
    return Lowered(stage, program, tuple(b.conversions))


def scratch_bytes(placed: Placed) -> int:
    """Shared bytes that conversions, folds and broadcasts need beyond the buffers: what lowering will ask
    for.

    Found by lowering the body as it was before pipelining, with buffers at made-up addresses.
    """
    kernel = placed.kernel
    slots: dict[Any, Slot] = {}
    for buffer in placed.layouts:
        if buffer.scope == "shared" and buffer.view_of is None:
            size = 1
            for n in buffer.static_shape:
                size *= n
            slots[buffer] = Slot(0, size * 2 * buffer.dtype.bytes, 0, 0)
    scheduled = Scheduled(placed, kernel.body, (), {})
    stage = Synchronised(Allocated(scheduled, slots, None, 0), kernel.body, ())
    b = Builder(stage)
    lower_stmt(b, kernel.body)
    return b.scratch_needed
