"""Running a thread program: blocks in order, the roles of a block in turns, and what was found."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tilebench.backends.base import Argument, TensorArgument
from tilebench.backends.emulator.alias import Window
from tilebench.backends.emulator.barriers import StopBlock, Waiting, report_deadlock
from tilebench.backends.emulator.compile import CompiledProgram, CompiledRole, compile_program
from tilebench.backends.emulator.counts import AccessCount, AccessCounts, Tally
from tilebench.backends.emulator.findings import Findings
from tilebench.backends.emulator.machine import Block, Machine, block_index
from tilebench.backends.emulator.names import Names
from tilebench.backends.emulator.race import GlobalShadow
from tilebench.backends.emulator.role import Role
from tilebench.errors import LaunchError, Loc, located
from tilebench.ir.expr import Var
from tilebench.ir.simplify import bounds
from tilebench.ir.thread import Memory, Program
from tilebench.ir.tile import Buffer
from tilebench.passes.stages import Lowered
from tilebench.report import Finding

Schedule = Literal["forward", "reverse"] | int
"""Order of blocks, and of the roles within one: forward, reverse, or shuffled by a seed."""


@dataclass(frozen=True)
class EmulationResult:
    """What a run found and counted. unwritten: elements of each output never written (when all blocks ran).

    blocks: how many ran; steps: statements executed that are counted; barriers: openings over all blocks;
    printed: lines of T.print. places: where each finding's statements stand, for errors that show the line.
    """

    findings: tuple[Finding, ...]
    counts: AccessCounts
    steps: int
    barriers: int
    blocks: int
    unwritten: Mapping[str, int]
    printed: tuple[str, ...]
    first_error: tuple[Finding, tuple[Loc | None, ...]] | None = None


def run_program(
    code: Program | Lowered,
    arguments: Sequence[Argument | np.ndarray],
    symbols: Mapping[Var, int],
    grid: tuple[int, ...] | None = None,
    blocks: Sequence[int | tuple[int, ...]] | None = None,
    schedule: Schedule = "forward",
    checks: bool = True,
    compiled: CompiledProgram | None = None,
    recorder: Any = None,
) -> EmulationResult:
    """Run a thread program on arrays in storage form, which are changed in place.

    code: a Lowered names elements in findings by coordinates in tiles, a bare Program by flat indices;
    arguments: in the order of the program's params, tensors as TensorArgument or NumPy arrays; grid: in
    blocks (None: from program.grid); blocks: the blocks to run, as (x, y, z) or flat numbers (x fastest),
    None for all; checks: shadow memory and counts (bounds are always checked); recorder: a ThreadRecorder,
    with code that was compiled for recording.
    Raises LaunchError when an argument is no array or the grid is unknown.
    """
    program = code.program if isinstance(code, Lowered) else code
    values: dict[Var, Any] = dict(symbols)
    arrays: dict[Buffer, np.ndarray] = {}
    scalars: list[Any] = []
    for param, argument in zip(program.params, arguments, strict=True):
        if isinstance(param.value, Var):
            number = _scalar(argument, param.value)
            scalars.append(number)
            values[param.value] = number
            continue
        array = argument.array if isinstance(argument, TensorArgument) else argument
        if not isinstance(array, np.ndarray):
            raise LaunchError(
                "TB606",
                f"{param.name} has no NumPy memory",
                why="the emulator runs in NumPy",
                fix="pass a NumPy array or a CPU tensor",
            )
        arrays[param.value] = array
    compiled = compiled or compile_program(program, checks)
    grid = program.launched(grid) if grid else tuple(_extent(e, values) for e in program.grid)
    total = int(np.prod(grid, dtype=np.int64))
    chosen = list(range(total)) if blocks is None else [_number(b, grid) for b in blocks]
    findings = Findings()
    machine = _machine(program, compiled, arrays, values, grid, findings, checks, schedule)
    placed = code.synchronised.allocated.scheduled.placed if isinstance(code, Lowered) else None
    machine.recorder = recorder
    machine.names = Names(placed.layouts if placed else None, _row_major_shapes(program, arrays))
    rng = random.Random(schedule) if isinstance(schedule, int) else None
    if rng is not None:
        rng.shuffle(chosen)
    elif schedule == "reverse":
        chosen.reverse()
    known = [*scalars, *(int(symbols[v]) for v in program.symbols)]
    with np.errstate(all="ignore"), located(None):
        for number in chosen:
            _run_block(machine, compiled, number, known, schedule, rng)
    complete = blocks is None
    unwritten = _unwritten(program, compiled, machine, arrays, findings) if checks and complete else {}
    return EmulationResult(
        findings.all(), _counts(compiled, machine), sum(machine.executed), machine.barriers, len(chosen),
        unwritten,
        tuple(machine.printed), findings.first_error(),
    )  # fmt: skip


def _number(block: int | tuple[int, ...], grid: tuple[int, ...]) -> int:
    """The flat number of a block. Raises LaunchError TB614 for one outside the grid."""
    index = block if isinstance(block, tuple) else block_index(int(block), grid)
    if (
        len(index) != len(grid)
        or any(not 0 <= i < n for i, n in zip(index, grid, strict=True))
        or (not isinstance(block, tuple) and block < 0)
    ):
        raise LaunchError(
            "TB614",
            f"block {block} is not in the grid {grid}",
            fix=f"name blocks as tuples below {grid}, or by number",
        )
    if not isinstance(block, tuple) and block >= int(np.prod(grid)):
        raise LaunchError(
            "TB614",
            f"block {block} is not in the grid {grid}",
            fix=f"blocks are numbered 0 to {int(np.prod(grid)) - 1}",
        )
    number = 0
    for i, n in zip(reversed(index), reversed(grid), strict=True):
        number = number * n + i
    return number


def _scalar(argument: Any, var: Var) -> Any:
    if var.dtype.is_float:
        return var.dtype.compute_dtype.type(argument)
    return bool(argument) if var.dtype.kind == "bool" else int(argument)


def _extent(e: Any, values: Mapping[Var, int]) -> int:
    known = bounds(e, {v: (int(x), int(x)) for v, x in values.items()})
    if known is None or known[0] != known[1]:
        raise LaunchError(
            "TB604", "the grid depends on a value that is not an extent", fix="give the grid of the launch"
        )
    return known[0]


def _flat(array: np.ndarray) -> tuple[np.ndarray, int]:
    """The memory that a strided array spans as one flat array, and the index of element [0, ..., 0] in it."""
    if array.size == 0:
        return np.zeros(0, dtype=array.dtype), 0
    steps = [s // array.itemsize for s in array.strides]
    low = sum((n - 1) * s for n, s in zip(array.shape, steps, strict=True) if s < 0)
    high = sum((n - 1) * s for n, s in zip(array.shape, steps, strict=True) if s > 0)
    start = (
        array[tuple(n - 1 if s < 0 else 0 for n, s in zip(array.shape, steps, strict=True))] if low else array
    )
    base = start if not low else array[tuple(slice(None, None, -1) if s < 0 else slice(None) for s in steps)]
    view = np.lib.stride_tricks.as_strided(
        base, shape=(high - low + 1,), strides=(array.itemsize,), writeable=array.flags.writeable
    )
    return view, -low


def _row_major_shapes(program: Program, arrays: Mapping[Buffer, np.ndarray]) -> dict[Memory, tuple[int, ...]]:
    found = {program.globals[b]: a for b, a in arrays.items() if b in program.globals}
    return {memory: a.shape for memory, a in found.items() if a.flags.c_contiguous}


def _machine(
    program: Program,
    compiled: CompiledProgram,
    arrays: Mapping[Buffer, np.ndarray],
    values: Mapping[Var, int],
    grid: tuple[int, ...],
    findings: Findings,
    checks: bool,
    schedule: Schedule,
) -> Machine:
    flat: list[np.ndarray] = []
    origins: list[int] = []
    for buffer, memory in program.globals.items():
        array = arrays.get(buffer)
        base = buffer.data
        if base is not buffer:
            at = list(program.globals).index(base)
            view = flat[at].view(memory.dtype.storage_dtype)
            flat.append(view)
            origins.append(origins[at] * flat[at].itemsize // view.itemsize)
            continue
        if array is None:
            assert buffer.workspace, f"{buffer.name} is neither an argument nor a workspace"
            array = np.zeros(_extent(memory.shape[0], values), dtype=memory.dtype.storage_dtype)
        view, origin = _flat(array)
        flat.append(view)
        origins.append(origin)
    spans, shadows = [len(a) for a in flat], list[Window | None]([None] * len(flat))
    machine = Machine(
        program, flat, origins, spans, grid, compiled.sites, compiled.granules, shadows, findings,
        checks=checks, reverse_lanes=schedule == "reverse", executed=[0] * len(compiled.counted),
        slots=compiled.slots, values=values, columns=compiled.columns,
    )  # fmt: skip
    if checks:
        written, read = set[int](), set[int]()
        for site in compiled.sites:
            if not site.place.shared:
                (written if site.kind in ("store", "copy-out", "atomic", "bulk-store") else read).add(
                    site.place.slot
                )
                if site.kind == "atomic":
                    read.add(site.place.slot)
        for slots in _aliases(program):
            if written & slots:
                unit = min(flat[slot].itemsize for slot in slots)
                granules = max(flat[slot].nbytes for slot in slots) // unit
                shadow = GlobalShadow(granules, program.threads, bool(read & slots), machine.global_race)
                for slot in slots:
                    machine.global_shadows[slot] = Window(shadow, flat[slot].itemsize // unit)
    return machine


def _aliases(program: Program) -> list[set[int]]:
    """The slots of each tensor with those of its views."""
    found: dict[Buffer, set[int]] = {}
    for slot, buffer in enumerate(program.globals):
        found.setdefault(buffer.data, set()).add(slot)
    return list(found.values())


def _run_block(
    machine: Machine,
    compiled: CompiledProgram,
    number: int,
    known: list[Any],
    schedule: Schedule,
    rng: random.Random | None,
) -> None:
    block = Block(machine, number)
    try:
        if compiled.prologue is not None:
            _run_roles(block, (compiled.prologue,), known, schedule, rng)
        _run_roles(block, compiled.roles, known, schedule, rng)
    except StopBlock:
        pass  # the finding says why
    finally:
        machine.barriers += block.barriers


def _run_roles(
    block: Block,
    roles: Sequence[CompiledRole],
    known: list[Any],
    schedule: Schedule,
    rng: random.Random | None,
) -> None:
    """Run roles in turns until all have ended. Raises StopBlock when they cannot."""
    running: list[tuple[Role, Any, Waiting | None]] = []
    over: list[str] = []
    for role in roles:
        state = Role(block, role.spec)
        running.append((state, role.run(state, *block.index, *known), None))
    try:
        while running:
            if rng is not None:
                rng.shuffle(running)
            elif schedule == "reverse":
                running.reverse()
            moved = False
            for item in list(running):
                state, generator, waiting = item
                if waiting is not None and not waiting.open:
                    continue
                moved = True
                place = running.index(item)
                try:
                    running[place] = (state, generator, next(generator))
                except StopIteration:
                    running.pop(place)
                    over.append(state.name)
            if not moved:
                report_deadlock(
                    block, [(state, what) for state, _, what in running if what is not None], over
                )
        block.turns.settle(block)
    finally:
        for _, generator, _ in running:
            generator.close()


def _element_numbers(array: np.ndarray) -> np.ndarray:
    """Where each element of an array is in its memory, in elements from [0, ..., 0]."""
    numbers = np.zeros(array.shape, dtype=np.intp)
    for index, stride in zip(np.indices(array.shape, sparse=True), array.strides, strict=True):
        numbers += index * (stride // array.itemsize)
    return numbers


def _unwritten(
    program: Program,
    compiled: CompiledProgram,
    machine: Machine,
    arrays: Mapping[Buffer, np.ndarray],
    findings: Findings,
) -> dict[str, int]:
    """Elements of outputs that no block wrote, each output with a finding that names the first."""
    counts: dict[str, int] = {}
    for param in program.params:
        if param.role != "out" or not isinstance(param.value, Buffer):
            continue
        slot = compiled.slots[program.globals[param.value]]
        shadow, array = machine.global_shadows[slot], arrays[param.value]
        if array.size == 0:
            continue
        written = np.zeros(machine.spans[slot], dtype=bool) if shadow is None else shadow.written
        index = _element_numbers(array) + machine.origins[slot]
        missing = ~written[index]
        if missing.any():
            counts[param.name] = int(missing.sum())
            first = ", ".join(str(int(i)) for i in np.argwhere(missing)[0])
            text = f"{counts[param.name]} of {array.size} elements of {param.name} are never written"
            text += f" (first: {param.name}[{first}])"
            findings.add(
                ("unwritten", param.name),
                "unwritten",
                "warning",
                text,
                (param.loc,),
                "check the grid and the guard of the last tile",
                "TB278",
            )
    return counts


def _counts(compiled: CompiledProgram, machine: Machine) -> AccessCounts:
    accesses: list[AccessCount] = []
    for site in compiled.sites:
        t = machine.tallies.get(site.number, Tally())
        useful = t.active_lanes * site.width + t.bytes_moved
        accesses.append(
            AccessCount(
                site.place.name, "shared" if site.place.shared else "global", site.kind, site.width, site.at,
                t.requests,
                t.ways_worst, t.ways_sum / t.phase_count if t.phase_count else 1.0, t.sectors,
                useful / (32 * t.sectors) if t.sectors else 1.0,
            )
        )  # fmt: skip
    instructions: dict[str, int] = {}
    for (kind, times), executed in zip(compiled.counted, machine.executed, strict=True):
        instructions[kind] = instructions.get(kind, 0) + times * executed
    return AccessCounts(tuple(accesses), instructions)
