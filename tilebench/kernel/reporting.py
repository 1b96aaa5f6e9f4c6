"""From a compiled kernel to its `Report`: facts gathered from the stages, the binary, the model and the last
run.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.backends.cuda import sass
from tilebench.backends.cuda.live import live_registers, mix
from tilebench.backends.emulator.counts import AccessCounts
from tilebench.errors import Loc, TileError
from tilebench.ir.expr import Var, int_value
from tilebench.ir.launches import launches
from tilebench.ir.rewrite import loads, walk
from tilebench.ir.text import print_kernel, print_program, print_stmt
from tilebench.ir.tile import Buffer, Parallel, Stmt, TileOp
from tilebench.ir.tile import Kernel as TileKernel
from tilebench.kernel import accesses, beyond, compile_flags, overlapping, scheduling
from tilebench.kernel.crowded import crowded
from tilebench.kernel.reasons import chain
from tilebench.kernel.slices import slices
from tilebench.kernel.target import device_of
from tilebench.kernel.verdict import explanation, verdict
from tilebench.layouts import FragmentLayout, SharedLayout, mma_k
from tilebench.ops.base import Op
from tilebench.ops.gemm import Gemm, wgmma
from tilebench.passes.memory import numbered
from tilebench.passes.room import widened
from tilebench.passes.stages import (
    Allocated,
    AnyLayout,
    Lowered,
    Partitioned,
    Placed,
    Schedule,
    Scheduled,
    Selected,
    Synchronised,
    Typed,
)
from tilebench.profiling import model
from tilebench.profiling.registers import launch_threads
from tilebench.profiling.work import Work, count
from tilebench.report import (
    Access,
    BufferInfo,
    CauseInfo,
    CodeText,
    DiffInfo,
    DigitInfo,
    Figure,
    Finding,
    LayoutInfo,
    OpInfo,
    PassInfo,
    Report,
    Resources,
    RooflinePoint,
    SliceInfo,
    Span,
)
from tilebench.targets import occupancy

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


# ------------------------------------------------------------------ facts from the stages


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


def _op_info(stmt: Stmt, ident: str, partitioned: Partitioned | None, boxes: tuple[SliceInfo, ...]) -> OpInfo:
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


# ------------------------------------------------------------------ the report


def _brief(layout: AnyLayout) -> str:
    """A layout in one line, without its drawing."""
    return layout.describe(grid=False) if isinstance(layout, FragmentLayout) else layout.describe()


def make_report(
    kernel: Kernel,
    *,
    diffs: Sequence[DiffInfo] = (),
    run_ms: Figure | None = None,
    history: Sequence[Any] = (),
    findings: Iterable[Finding] = (),
    extra: dict[str, Figure] | None = None,
    counts: AccessCounts | None = None,
) -> Report:
    """The Report of a kernel.

    diffs: comparisons made (kernel/verify.py); run_ms: a measured time; history: earlier roofline points;
    counts: what the emulator counted in a run.
    """
    prim = kernel.prim
    source = prim.loc.source if prim.loc else None
    compilation = kernel.compilation
    built = kernel.executable.built
    if kernel.target.kind == "cuda":
        sass.begin(built.binary)  # nvdisasm runs beside what follows
    stages: Any = None
    problem: TileError | None = None
    try:
        stages = kernel.stages()
    except TileError as error:
        if kernel.target.is_gpu:
            raise
        problem = error  # a CPU kernel need not fit a GPU: say so and go on
    found = list(findings)
    if problem is not None:
        text, place = f"no GPU view of this kernel: {problem.what}", span(problem.at)
        found.append(Finding("gpu", "info", text, (place,) if place else (), problem.fix, problem.code))
    if prim.then is not None:
        text = f"{len(launches(prim))} launches: layouts, memory and predicted times are those of the first"
        place = span(prim.then.loc)
        found.append(Finding("launches", "info", text, (place,) if place else ()))
    for buffer, text in widened(compilation.stage(Typed).kernel):
        place = span(buffer.loc)
        found.append(Finding("room", "warning", text, (place,) if place else ()))
    found += [*_silent(kernel, found), *compile_flags.findings(kernel)]
    placed = stages.stage(Placed) if stages else None
    allocated = stages.stage(Allocated) if stages else None
    partitioned = stages.stage(Partitioned) if stages else None
    ids = ops_of(prim)
    grid = kernel.last_call.grid if kernel.last_call else tuple(int_value(g) or 0 for g in prim.grid)
    boxes = slices(prim, grid) if all(grid) else {}
    infos = tuple(_op_info(stmt, ident, partitioned, boxes.get(stmt, ())) for stmt, ident in ids.items())
    arch = (stages.target.arch if stages else None) or "sm_90a"
    work = _work(kernel)
    device_name = device_label(kernel)
    resources = _resources(kernel, stages, arch)
    figures: dict[str, Figure] = dict(extra or {})
    figures |= _compile_figures(kernel)
    if run_ms is not None:
        figures |= _run_figure(kernel, run_ms)
    roofline, timelines = None, ()
    if work is not None:
        figures["flops"] = Figure(work.flops, "FLOP", "predicted", "counted from the program")
        figures["bytes"] = Figure(work.tensor_bytes, "B", "predicted", "each tensor once")
        roofline, timelines = _performance(kernel, work, stages, arch, resources, run_ms, history)
        if roofline is not None:
            figures["predicted_us"] = Figure(
                roofline.predicted_us, "us", "predicted", f"model of {roofline.device}"
            )
    if built.spill_bytes:
        found.append(
            Finding(
                "spill",
                "warning",
                f"{built.spill_bytes} bytes of registers spill to local memory",
                hint="use smaller tiles or more threads",
            )
        )
    if stages is not None:
        found += crowded(stages)
        found += [_fewer(s) for s in stages.stage(Scheduled).schedules if s.wanted]
        lowered: Lowered = stages.stage(Lowered)
        found += [
            Finding("conversion", "info", r.text, tuple(s for s in (span(r.at),) if s))
            for r in lowered.conversions
        ]
    texts, complaint = _code(kernel, stages)
    found += complaint
    touched = _accesses(kernel, stages, infos, counts)
    found += accesses.findings(touched, infos)
    found += explanation(diffs)
    said, ok = verdict(diffs, found, kernel.last_call is not None)
    return Report(
        id=identity(kernel), name=prim.name, target=str(kernel.target), source=source.text if source else "",
        first_line=source.first_line if source else 1, device=device_name,
        config={k: str(v) for k, v in kernel.config.items()}, verdict=said, ok=ok,
        params=tuple(buffer_info(p.value, None) for p in prim.params if isinstance(p.value, Buffer)),
        buffers=tuple(buffer_info(b, allocated) for b in _buffers(prim, allocated)),
        scratch=_scratch(allocated), statement_lines=_statement_lines(allocated),
        layouts=_layouts(placed, ids), ops=infos, accesses=touched,
        roles=scheduling.roles(stages, ids), schedule=scheduling.schedule(stages, prim),
        timelines=timelines, passes=_passes(stages or compilation), code=texts,
        resources=resources,
        roofline=roofline, diffs=tuple(diffs), findings=tuple(found), figures=figures,
    )  # fmt: skip


def _silent(kernel: Kernel, known: Sequence[Finding]) -> list[Finding]:
    """What no run says by itself: tiles beyond their tensors, blocks that write the same elements."""
    seen = {(f.code, s.line) for f in known for s in f.spans}
    made = [*beyond.findings(kernel.prim, _sizes(kernel)), *overlapping.findings(kernel.prim, _sizes(kernel))]
    return [f for f in made if not any((f.code, s.line) in seen for s in f.spans)]


def _compile_figures(kernel: Kernel) -> dict[str, Figure]:
    """How long compiling took; of a kernel that was at hand, how long it took to find it."""
    compilation, built = kernel.compilation, kernel.executable.built
    if kernel.recalled_ms is not None:
        note = "cached: compiled before in this process"
        return {"compile_ms": Figure(kernel.recalled_ms, "ms", "measured", "this machine", note=note)}
    passes_us = sum(s.microseconds for s in compilation.snapshots)
    note = "cached: the binary comes from the store" if built.cached else ""
    figures = {
        "compile_ms": Figure(
            (passes_us + compilation.build_microseconds) / 1e3, "ms", "measured", "this machine", note=note
        )
    }
    for name, ms in built.milliseconds.items():
        if not (built.cached and ms == 0):
            figures[f"{name}_ms"] = Figure(ms, "ms", "measured", "this machine")
    return figures


def _layouts(placed: Placed | None, ids: Mapping[Stmt, str]) -> tuple[LayoutInfo, ...]:
    if placed is None:
        return ()
    infos: list[LayoutInfo] = []
    for buffer, layout in placed.layouts.items():
        reason = placed.reasons.get(buffer)
        infos.append(
            layout_info(
                buffer.name,
                layout,
                buffer.dtype.bits,
                reason.text if reason else "",
                line_of(reason.at) if reason else 0,
                chain(placed, buffer, ids),
            )
        )
    for loop, layout in placed.loops.items():
        reason = placed.reasons.get(loop)
        infos.append(
            layout_info(
                f"loop@{line_of(loop.loc)}",
                layout,
                32,
                reason.text if reason else "",
                line_of(reason.at) if reason else 0,
                chain(placed, loop, ids),
            )
        )
    return tuple(infos)


def _buffers(prim: TileKernel, allocated: Allocated | None) -> list[Buffer]:
    """The program's buffers, then those that passes put into shared memory."""
    own = list(prim.buffers)
    known = {id(b) for b in own}
    return own + [b for b in (allocated.slots if allocated else ()) if id(b) not in known]


def _scratch(allocated: Allocated | None) -> BufferInfo | None:
    """The bytes that ops exchange data in, None when there are none that the map names."""
    slot = allocated.scratch if allocated else None
    if slot is None:
        return None
    return BufferInfo(
        "scratch", (slot.size,), "uint8", "shared", slot.size, None, slot.offset, 1, slot.first, slot.last
    )


def _statement_lines(allocated: Allocated | None) -> tuple[int, ...]:
    """The cell line of each statement, by the number that the lifetimes of buffers count in."""
    if allocated is None:
        return ()
    return tuple(line_of(s.loc) for s in numbered(allocated.scheduled.body))


def _accesses(
    kernel: Kernel, stages: Any, ops: Sequence[OpInfo], counts: AccessCounts | None
) -> tuple[Access, ...]:
    """Predicted from the thread program, and simulated when the emulator ran."""
    if stages is None:
        return ()
    symbols = kernel.last_call.symbols if kernel.last_call else None
    found = accesses.predicted(stages.stage(Lowered).program, symbols)
    if counts is None:
        counts = getattr(getattr(kernel.executable, "result", None), "counts", None)
    if counts is not None:
        found += accesses.simulated(counts)
    return accesses.with_ops(found, ops)


def _passes(compilation: Any) -> tuple[PassInfo, ...]:
    infos: list[PassInfo] = []
    before = ""
    for snapshot in compilation.snapshots:
        text, places = stage_text(snapshot.stage)
        lines = tuple(line_of(at) for at in places)
        infos.append(
            PassInfo(snapshot.name, text, round(snapshot.microseconds, 1), text != before, lines=lines)
        )
        before = text
    return tuple(infos)


def _fewer(s: Schedule) -> Finding:
    """A loop whose ring has lost versions."""
    place = span(s.loop.loc)
    text = (
        f"a producer keeps {s.stages} versions of a tile, not {s.wanted}: there is no shared memory for more"
    )
    return Finding(
        "fewer-stages", "warning", text, (place,) if place else (), f"num_stages={s.stages} says so"
    )


def _code(kernel: Kernel, stages: Any) -> tuple[tuple[CodeText, ...], list[Finding]]:
    """The texts, and a finding when the machine code could not be shown."""
    tile = print_kernel(kernel.prim)
    texts = [CodeText("tile", tile.text, tuple(line_of(at) for at in tile.locs))]
    if stages is not None:
        thread = print_program(stages.stage(Lowered).program)
        texts.append(CodeText("thread", thread.text, tuple(line_of(at) for at in thread.locs)))
    built = [_as_read(kernel, c) for c in kernel.executable.built.code]
    complaint: list[Finding] = []
    binary = kernel.executable.built.binary
    if kernel.target.kind == "cuda" and binary and sass.find() is not None:
        try:
            built.append(sass.listing(binary))
        except TileError as error:
            complaint.append(Finding("sass", "info", f"no machine code to show: {error.what}", code="TB514"))
    if stages is not None and kernel.target.kind != "cuda":
        built += _gpu_text(stages)
    known = {t.level for t in texts}
    return tuple(texts + [c for c in built if c.level not in known]), complaint


def _as_read(kernel: Kernel, code: CodeText) -> CodeText:
    """CUDA C++ with the program's names, PTX with its live registers."""
    if code.level == "cuda":
        return replace(code, text=kernel.get_kernel_source())
    if code.level != "ptx":
        return code
    return replace(code, live=live_registers(code.text), mix=mix(code.text))


def _gpu_text(stages: Any) -> list[CodeText]:
    """CUDA C++ of a kernel that runs on the CPU, so that a laptop shows it too."""
    from tilebench.backends.cuda.emit import emit
    from tilebench.backends.cuda.named import with_names

    emitted = emit(stages.stage(Lowered).program)
    return [CodeText("cuda", with_names(emitted.text, emitted.names), tuple(emitted.lines))]


def _work(kernel: Kernel) -> Work | None:
    call = kernel.last_call
    if call is None:
        if kernel.prim.symbols:
            return None
        grid = tuple(int_value(g) for g in kernel.prim.grid)
        if any(g is None for g in grid):
            return None
        return count(kernel.prim, tuple(g for g in grid if g is not None), {})
    return count(kernel.prim, call.grid, _sizes(kernel))


def _sizes(kernel: Kernel) -> dict[Var, int]:
    """What the last call says of sizes: the symbols of its shapes, and whole numbers that were passed."""
    if kernel.last_call is None:
        return {}
    numbers = {p.value: kernel.last_values.get(p.name) for p in kernel.params if isinstance(p.value, Var)}
    whole = {v: n for v, n in numbers.items() if isinstance(n, int)}
    return {**whole, **kernel.last_call.symbols}


def device_label(kernel: Kernel) -> str:
    """The name of the GPU (that of the last call) or CPU that the kernel runs on, '' when there is none."""
    if device_of(kernel.target) == "cuda":
        try:
            from tilebench.backends.cuda import driver

            last = kernel.last_call.device if kernel.last_call else ""
            index = int(last.removeprefix("cuda:")) if last.startswith("cuda:") else None
            return driver.device_name(index) if driver.available() else ""
        except ImportError:
            return ""
    from tilebench.profiling.cpu_peaks import cpu_name

    return cpu_name()


def _resources(kernel: Kernel, stages: Any, arch: str) -> Resources:
    built = kernel.executable.built
    threads = launch_threads(stages.stage(Partitioned)) if stages is not None else kernel.prim.thread_count
    grid = kernel.last_call.grid if kernel.last_call else tuple(int_value(g) or 0 for g in kernel.prim.grid)
    shared = built.shared_bytes
    if stages is not None:
        shared = stages.stage(Allocated).shared_bytes
    if stages is None or (not kernel.target.is_gpu and built.registers is None):
        return Resources(None, None, shared, threads, grid)
    if built.registers is None:
        return Resources(None, None, shared, threads, grid)
    occupied = occupancy(arch, threads, built.registers, shared)
    figure = Figure(occupied.fraction, "of warps", "predicted", f"occupancy table of {arch}")
    return Resources(
        built.registers, built.spill_bytes, shared, threads, grid, occupied.blocks, figure, occupied.limiter
    )


IMITATIONS = {"emu": "emulator_time_ms", "interp": "interpreter_time_ms"}
"""What a run's time is called where the kernel's device is imitated."""


def _run_figure(kernel: Kernel, time: Figure) -> dict[str, Figure]:
    """The time of a run, by the name of what it is: how long imitating a device took is no time of the
    kernel.
    """
    name = IMITATIONS.get(kernel.target.kind)
    if name is None:
        return {"run_ms": time}
    notes = [time.note] if time.note else []
    return {name: replace(time, note="; ".join([*notes, "of imitating it, not a time of the kernel"]))}


def _performance(
    kernel: Kernel,
    work: Work,
    stages: Any,
    arch: str,
    resources: Resources,
    run_ms: Figure | None,
    history: Sequence[Any],
) -> tuple[Any, tuple[Any, ...]]:
    runs_there = kernel.target.kind in (
        "cuda",
        "cpu",
    )  # how long emulating or interpreting took says nothing of the device
    measured = (
        Figure(run_ms.value * 1e3, "us", run_ms.provenance, run_ms.device) if run_ms and runs_there else None
    )
    timelines: tuple[Any, ...] = ()
    device = model.device_for(arch, device_label(kernel) if kernel.target.is_gpu else "")
    occupied = occupancy(arch, resources.threads, resources.registers or 64, resources.shared_bytes)
    prediction: model.Prediction | None = None
    if stages is not None and device is not None:
        names = bar_names(kernel.prim)
        call = kernel.last_call
        grid = call.grid if call else tuple(int_value(g) or 0 for g in kernel.prim.grid)
        prediction = model.predict(
            stages.stage(Scheduled), work, device, occupied, grid, _sizes(kernel), names,
            resources.spill_bytes or 0.0,
        )  # fmt: skip
        timelines = (prediction.timeline,) if prediction.timeline.bars else ()
    point = RooflinePoint(
        kernel.name, 0.0, 0.0, None, identity(kernel), model.config_text(kernel.config),
        resources.occupancy.value if resources.occupancy else None,
    )  # fmt: skip
    if kernel.target.is_gpu:
        if device is None or prediction is None:
            return None, timelines
        info = model.gpu_roofline(work, device, prediction, measured, point)
    else:
        from tilebench.profiling.cpu_peaks import cpu_name, peaks

        us = measured.value if measured else 0.0
        gflops, gb_s = peaks((work.flops / us / 1e3, work.tensor_bytes / us / 1e3) if us else (0.0, 0.0))
        info = model.cpu_roofline(work, cpu_name(), gflops, gb_s, measured, point)
    if history:
        import dataclasses

        info = dataclasses.replace(info, points=(*history, *info.points))
    return info, timelines
