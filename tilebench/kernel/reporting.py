"""From a compiled kernel to its `Report`: facts gathered from the stages, the binary, the model and the last
run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilebench.backends.cuda import sass
from tilebench.backends.cuda.live import live_registers, mix
from tilebench.backends.emulator.counts import AccessCounts
from tilebench.errors import TileError
from tilebench.ir.expr import int_value
from tilebench.ir.launches import launches
from tilebench.ir.text import print_kernel, print_program
from tilebench.ir.tile import Buffer, Stmt
from tilebench.ir.tile import Kernel as TileKernel
from tilebench.kernel import accesses, beyond, compile_flags, overlapping, scheduling
from tilebench.kernel.crowded import crowded
from tilebench.kernel.facts import (
    buffer_info,
    identity,
    layout_info,
    line_of,
    op_info,
    ops_of,
    span,
    stage_text,
)
from tilebench.kernel.performance import (
    compile_figures,
    device_label,
    performance,
    resources_of,
    run_figure,
    sizes_of,
    work_of,
)
from tilebench.kernel.reasons import chain
from tilebench.kernel.slices import slices
from tilebench.kernel.verdict import explanation, verdict
from tilebench.passes.memory import numbered
from tilebench.passes.room import widened
from tilebench.passes.stages import (
    Allocated,
    Lowered,
    Partitioned,
    Placed,
    Schedule,
    Scheduled,
    Typed,
)
from tilebench.report import (
    Access,
    BufferInfo,
    CodeText,
    DiffInfo,
    Figure,
    Finding,
    LayoutInfo,
    OpInfo,
    PassInfo,
    Report,
)

if TYPE_CHECKING:
    from tilebench.kernel.compiled import Kernel


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
    infos = tuple(op_info(stmt, ident, partitioned, boxes.get(stmt, ())) for stmt, ident in ids.items())
    arch = (stages.target.arch if stages else None) or "sm_90a"
    work = work_of(kernel)
    device_name = device_label(kernel)
    resources = resources_of(kernel, stages, arch)
    figures: dict[str, Figure] = dict(extra or {})
    figures |= compile_figures(kernel)
    if run_ms is not None:
        figures |= run_figure(kernel, run_ms)
    roofline, timelines = None, ()
    if work is not None:
        figures["flops"] = Figure(work.flops, "FLOP", "predicted", "counted from the program")
        figures["bytes"] = Figure(work.tensor_bytes, "B", "predicted", "each tensor once")
        roofline, timelines = performance(kernel, work, stages, arch, resources, run_ms, history)
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
    sizes = sizes_of(kernel)
    made = [*beyond.findings(kernel.prim, sizes), *overlapping.findings(kernel.prim, sizes)]
    return [f for f in made if not any((f.code, s.line) in seen for s in f.spans)]


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
