"""A trace at thread level: the thread program in the emulator."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tilebench import compiler
from tilebench.backends.emulator.compile import compile_program
from tilebench.backends.emulator.record import Registers, ThreadRecorder
from tilebench.backends.emulator.schedule import run_program
from tilebench.backends.recording import Full, Log, Step, loops_around
from tilebench.ir.expr import Var
from tilebench.ir.text import print_stmt
from tilebench.ir.thread import Memory, Program
from tilebench.ir.tile import Stmt
from tilebench.kernel import tracing
from tilebench.kernel.args import Call
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.facts import line_of, ops_of
from tilebench.layouts import FragmentLayout, SharedLayout
from tilebench.passes.stages import Lowered, Placed
from tilebench.report import Trace, TraceBuffer, TraceSite
from tilebench.targets import Target

if TYPE_CHECKING:
    import numpy as np


def thread_trace(
    kernel: Kernel,
    target: Target,
    call: Call,
    block: tuple[int, ...],
    keep: frozenset[str] | None,
    log: Log,
    limit_bytes: int,
) -> Trace:
    """The trace of one block of the thread program for the target's architecture."""
    stages = compiler.analyse(kernel.prim, target, thread_ir=True)
    lowered: Lowered = stages.stage(Lowered)
    placed: Placed = stages.stage(Placed)
    program = lowered.program
    shapes = _shapes(program, call)
    recorder = ThreadRecorder(log, shapes)
    note = ""
    try:
        result = run_program(
            lowered, call.arguments, call.symbols, grid=call.grid, blocks=[block], recorder=recorder,
            compiled=compile_program(program, True, recording=True),
        )  # fmt: skip
        errors = [f.text for f in result.findings if f.severity == "error"]
        note = f"the emulator found: {errors[0]}" if errors else ""
    except Full:
        note = f"the recording ended after {len(log.steps)} steps"
    followed = _followed(log.steps, placed, keep)
    by_line = {line_of(s.loc): ident for s, ident in ops_of(kernel.prim).items()}
    sites = _sites(log.steps, program, by_line)
    base = Trace("thread", block, call.grid, (), (), (), note=note)
    return tracing.assemble(tracing.Noted(log.steps, followed, sites), limit_bytes, base)


def _shapes(program: Program, call: Call) -> dict[Memory, tuple[int, ...]]:
    """Shapes of the row-major tensors, by their flat memories."""
    found: dict[Memory, tuple[int, ...]] = {}
    for param, argument in zip(program.params, call.arguments, strict=True):
        if isinstance(param.value, Var) or param.value not in program.globals:
            continue
        array: np.ndarray | None = getattr(argument, "array", None)
        if array is not None and array.flags.c_contiguous and array.size:
            found[program.globals[param.value]] = array.shape
    return found


def _followed(steps: Sequence[Step], placed: Placed, keep: frozenset[str] | None) -> list[tracing.Followed]:
    boxes = tracing.boxes_of(steps)
    names: dict[str, int] = {}
    found: list[tracing.Followed] = []
    for key in sorted(boxes, key=_order):
        memory = key.memory if isinstance(key, Registers) else key
        assert isinstance(memory, Memory), "a step writes registers or memory"
        name = memory.origin.name if memory.origin is not None else memory.name
        if keep is not None and name not in keep:
            continue
        names[name] = names.get(name, 0) + 1
        unique = name if names[name] == 1 else f"{name} ({names[name]})"
        layout = placed.layouts.get(memory.origin) if memory.origin is not None else None
        line = line_of(memory.origin.loc) if memory.origin is not None else 0
        found.append(_one(key, memory, boxes[key], unique, layout, line))
    return found


def _one(
    key: Hashable, memory: Memory, box: tracing.Extents, name: str, layout: object, line: int
) -> tracing.Followed:
    if isinstance(key, Registers):
        count = memory.static_shape[0]
        holds = ""
        if isinstance(layout, FragmentLayout) and layout.registers == count and memory.origin is not None:
            holds = memory.origin.name
        info = TraceBuffer(
            name, (count, key.threads), memory.dtype.name, "register", holds=holds,
            first_thread=key.first_thread, line=line,
        )  # fmt: skip
        return tracing.Followed(key, info, ((0, 0), info.shape))
    if memory.space == "shared":
        holds = memory.origin.name if isinstance(layout, SharedLayout) and memory.origin is not None else ""
        info = TraceBuffer(
            name, memory.static_shape, memory.dtype.name, "shared", holds=holds, versions=memory.versions,
            line=line,
        )  # fmt: skip
        return tracing.Followed(key, info, ((0,), info.shape))
    info = TraceBuffer(name, box[1], memory.dtype.name, "global", box[0], line=line)
    return tracing.Followed(key, info, box)


def _order(key: Hashable) -> tuple[int, int]:
    memory = key.memory if isinstance(key, Registers) else key
    space = {"shared": 0, "register": 1, "global": 2}
    return (space[memory.space], memory.id) if isinstance(memory, Memory) else (3, 0)


def _sites(
    steps: Sequence[Step], program: Program, by_line: dict[int, str]
) -> tuple[list[TraceSite], dict[Stmt, int]]:
    around: dict[Stmt, tuple[str, ...]] = {}
    for role in program.roles:
        around |= {s: tuple(v.name for v in loops) for s, loops in loops_around(role.body).items()}
    sites, numbers = tracing.sites_of(steps, {}, around, lambda s: line_of(s.loc), (), 1)
    lengths = {numbers[s.stmt]: len(s.at) for s in steps}
    made: list[TraceSite] = []
    for i, site in enumerate(sites):
        stmt = next(s for s, n in numbers.items() if n == i)
        text = print_stmt(stmt).text.splitlines()[0].strip()
        made.append(replace(site, text=text, op=by_line.get(site.line, ""), vars=site.vars[: lengths[i]]))
    return made, numbers
