"""`record`: run one block of a kernel and keep what every step did, for time travel.

At tile level the specification runs (backends/interp), one step a statement of the cell. At thread level the
emulator runs the thread program, one step a statement of it, all threads together.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from tilebench import compiler
from tilebench.backends.recording import Full, Log, Step
from tilebench.errors import LaunchError, TileError, nearest
from tilebench.ir.launches import launches
from tilebench.ir.tile import Buffer
from tilebench.kernel import args as arguments
from tilebench.kernel import tracing, verify
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.emulate import refuse_several
from tilebench.kernel.facts import line_of, ops_of
from tilebench.kernel.progress import Progress
from tilebench.kernel.reporting import make_report
from tilebench.kernel.writers import worst_block
from tilebench.passes.stages import Typed
from tilebench.report import Report, Trace, TraceStep
from tilebench.targets import parse
from tilebench.views import trace as codec

if TYPE_CHECKING:
    import numpy as np

LIVE_BYTES = 1_300_000
"""Of a trace's packed values; with the rest of a report it stays below 1.5 MB."""
STEP_LIMIT, COPY_LIMIT = 20_000, 512 << 20
"""Steps, and bytes of copies, at which a recording ends early."""
Level = Literal["tile", "thread"]


@dataclass(frozen=True)
class Moment:
    """What a reference function is asked about: the state after a step.

    step: its number; line and op: of the statement; at: loop variables by name; values: what each buffer
    holds, by name (copies are yours to make); inputs: the kernel's arguments by name.
    """

    step: int
    line: int
    op: str
    at: Mapping[str, int]
    values: Mapping[str, np.ndarray]
    inputs: Mapping[str, np.ndarray]


Reference = Callable[[Moment], Mapping[str, Any] | None] | Literal["oracle"] | None
"""'oracle': float64 with error bounds. A function gives what buffers should hold after a step, by name, or
None where it has nothing to say.
"""


@dataclass(frozen=True)
class Wanted:
    """What a recording is compared with: see `record`. values: the tensors as given."""

    reference: Reference | Callable[..., Any]
    ref: Callable[..., Any] | None
    values: Sequence[Any]
    rtol: float | None
    atol: float | None


@dataclass(frozen=True)
class Recording:
    """A recorded block: the trace, and the kernel's report with it. Displays as the step view."""

    trace: Trace
    report: Report
    seconds: float = 0.0

    @property
    def steps(self) -> tuple[TraceStep, ...]:
        """The steps, in order."""
        return self.trace.steps

    def value(self, buffer: str, step: int = -1) -> np.ndarray:
        """What a buffer held after a step (-1: the last); NaN where nothing was written yet.

        Raises KeyError naming the buffers that there are.
        """
        number = self._buffer(buffer)
        return codec.Replay(self.trace).to(self._step(step)).values[number].copy()

    def who_wrote(self, buffer: str, element: Sequence[int], step: int = -1) -> int | None:
        """The step that last wrote an element (in the tensor's own indices), up to `step`; None: nobody.

        Steps count from 0, here and in every view. Raises IndexError for an element that there is not.
        """
        number = self._buffer(buffer)
        info = self.trace.buffers[number]
        if len(element) != len(info.shape):
            raise IndexError(f"{buffer} takes {len(info.shape)} indices, got {tuple(element)}")
        origin = info.origin or (0,) * len(element)
        place = tuple(int(e) - o for e, o in zip(element, origin, strict=True))
        if any(not 0 <= p < n for p, n in zip(place, info.shape, strict=True)):
            parts = ", ".join(f"{o}..{o + n - 1}" for o, n in zip(origin, info.shape, strict=True))
            raise IndexError(f"{buffer}{list(element)} is outside of what this block holds of it: {parts}")
        data = codec.inflated(self.trace)
        for k in range(self._step(step), -1, -1):
            for w in self.trace.steps[k].writes:
                offsets, extents = codec.split(w.box)
                if w.buffer == number and all(
                    o <= p < o + n for p, o, n in zip(place, offsets, extents, strict=True)
                ):
                    mask = codec.mask_of(data, w)
                    if mask is None or mask[tuple(p - o for p, o in zip(place, offsets, strict=True))]:
                        return k
        return None

    def find(self, condition: Callable[[Moment], bool]) -> int | None:
        """The first step after which the condition holds; None: never."""
        for moment in moments(self.trace):
            if condition(moment):
                return moment.step
        return None

    def first_nan(self) -> int | None:
        """The first step that wrote a NaN."""
        return next((k for k, s in enumerate(self.steps) if any(w.nan for w in s.writes)), None)

    def first_wrong(self) -> int | None:
        """The first step that the reference contradicts."""
        return next((k for k, s in enumerate(self.steps) if any(c.wrong for c in s.checks)), None)

    def _buffer(self, name: str) -> int:
        names = [b.name for b in self.trace.buffers]
        if name not in names:
            raise KeyError(f"{name}{nearest(name, names)}: the trace has {', '.join(names)}")
        return names.index(name)

    def _step(self, step: int) -> int:
        if not -len(self.steps) <= step < len(self.steps):
            raise IndexError(f"step {step}: there are {len(self.steps)}")
        return step % len(self.steps)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from tilebench.views import Board

        del include, exclude
        views = ("step", "exercise") if self.report.exercise is not None else ("step",)
        return Board(self.report, views)._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]

    def __repr__(self) -> str:
        from tilebench.views import step

        return f"{step.sentence(self.trace)} (recorded in {self.seconds:.2f} s)"


def moments(trace: Trace, inputs: Mapping[str, np.ndarray] | None = None) -> Iterator[Moment]:
    """The state after each step of a trace."""
    replay = codec.Replay(trace)
    for k, step in enumerate(trace.steps):
        replay.to(k)
        site = trace.sites[step.site]
        values = {b.name: v for b, v in zip(trace.buffers, replay.values, strict=True)}
        yield Moment(
            k, site.line, site.name, dict(zip(site.vars, step.at, strict=False)), values, inputs or {}
        )


def record(
    kernel: Any,
    *values: Any,
    block: Sequence[int] | None = (0, 0, 0),
    buffers: Sequence[str] | None = None,
    level: Level = "tile",
    reference: Reference | Callable[..., Any] = None,
    rtol: float | None = None,
    atol: float | None = None,
    limit_bytes: int = LIVE_BYTES,
    target: str | None = None,
    report: Report | None = None,
    seed: int = 0,
    args: Sequence[Any] | None = None,
    ref: Callable[..., Any] | None = None,
) -> Recording:
    """Run one block and keep every step. The values are not changed.

    kernel: a Kernel or a tile program; values, or args as in `run`: its tensors (none: made up from `seed`);
    block: its index
    (None: the one that wrote the worst element of `report`, when an output is wrong there, else the first);
    buffers: names to follow (None: all); reference: see `Reference`, with rtol and atol for a function
    (None: 16 units of the coarsest float type that is followed); ref: as in `run`, a function of the inputs
    that gives the outputs, compared when the block has written them (a `reference` that takes another number
    of arguments than one is such a function too); target: 'emu:sm_XX' for the thread level
    (None: the kernel's architecture, else sm_90a); report: the kernel's own, when it is at hand.
    An error of the program ends the recording, and the trace says so (`trace.stopped`). Raises LaunchError
    TB614 for a block outside the grid, TB617 for two of the same, TB618 for a buffer that there is not.
    """
    start = time.perf_counter()
    for given, names in (((values, args), "args= and tensors"), ((ref, reference), "ref= and reference=")):
        if all(x is not None and x != () for x in given):
            raise LaunchError("TB617", f"record() was given both {names}", fix="leave one of them out")
    if level not in ("tile", "thread"):
        raise LaunchError("TB617", f"level={level!r} is no level of steps", fix="use 'tile' or 'thread'")
    values = tuple(args) if args is not None else values
    if callable(reference) and not _takes_one(reference):
        ref, reference = reference, None
    if isinstance(kernel, Kernel):
        full = kernel.complete(values)
    else:
        from tilebench.kernel.program import prepare

        prepared = prepare(kernel, list(values) or None, {}, "interp" if level == "tile" else "emu", seed)
        kernel, full = prepared.kernel, list(prepared.values)
    refuse_several(kernel, "record()")
    if target is not None and parse(target).arch != kernel.target.arch:
        # the layouts of a report are those of its target
        kernel, report = Kernel(kernel.prim, parse(target), config=kernel.config), None
    if block is None:
        block = (worst_block(report) if report is not None else None) or (0, 0, 0)
    trace = trace_of(
        kernel, full, block=block, buffers=buffers, level=level, reference=reference, ref=ref, rtol=rtol,
        atol=atol, limit_bytes=limit_bytes, target=target,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    whole = with_traces(report if report is not None else make_report(kernel), trace)
    return Recording(trace, whole, seconds)


def _takes_one(function: Callable[..., Any]) -> bool:
    """Whether it can be called with one argument, as a function of a Moment is."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # a builtin that does not say
        return True
    return True


def with_traces(report: Report, *traces: Trace) -> Report:
    """The report with these traces in place of those of the same level."""
    levels = {t.level for t in traces}
    return replace(report, traces=(*(t for t in report.traces if t.level not in levels), *traces))


def trace_of(
    kernel: Kernel,
    values: Sequence[Any],
    *,
    block: Sequence[int] = (0, 0, 0),
    buffers: Sequence[str] | None = None,
    level: Level = "tile",
    reference: Reference | Callable[..., Any] = None,
    ref: Callable[..., Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    limit_bytes: int = LIVE_BYTES,
    target: str | None = None,
) -> Trace:
    """The trace of one block. values: one for each parameter, as before the launch; they are not changed.

    Options as in `record`.
    """
    host = verify.snapshot([v.detach().cpu() if hasattr(v, "detach") else v for v in values])
    call = arguments.bind(kernel.prim, host, "cpu", host_arrays=True)
    place = _block(block, call.grid)
    keep = _names(kernel, buffers)
    with Progress(f"recording {kernel.name}", 0) as progress:
        log = Log(STEP_LIMIT, COPY_LIMIT, told=progress.advance)
        if level == "thread":
            from tilebench.kernel.record_threads import thread_trace

            machine = parse(target or f"emu:{kernel.target.arch or 'sm_90a'}")
            trace = thread_trace(kernel, machine, call, place, keep, log, limit_bytes)
            if reference is None and ref is None:
                return trace
            said = "nothing was compared with the reference: that is done at tile level"
            return replace(trace, note="; ".join(t for t in (trace.note, said) if t))
        wanted = Wanted(reference, ref, values, rtol, atol)
        return _tile_trace(kernel, call, host, place, keep, log, wanted, limit_bytes)


def _block(block: Sequence[int], grid: tuple[int, ...]) -> tuple[int, ...]:
    try:
        place = tuple(int(i) for i in block)
    except (TypeError, ValueError):
        raise LaunchError(
            "TB614",
            f"{block!r} is no block: its place is made of whole numbers",
            fix=f"name one below {grid}",
        ) from None
    place = (*place, *(0 for _ in range(len(grid) - len(place))))
    extra = place[len(grid) :]
    if any(extra) or any(not 0 <= i < n for i, n in zip(place, grid, strict=False)):
        raise LaunchError(
            "TB614",
            f"block {tuple(block)} is not in the grid {grid}",
            fix=f"name a block below {grid}",
        )
    return place[: len(grid)]


def _names(kernel: Kernel, buffers: Sequence[str] | None) -> frozenset[str] | None:
    if buffers is None:
        return None
    buffers = (buffers,) if isinstance(buffers, str) else buffers
    known = [b.name for b in kernel.prim.buffers] + [p.name for p in kernel.params]
    for name in buffers:
        if name not in known:
            raise LaunchError(
                "TB618",
                f"{kernel.name} has no buffer called {name}{nearest(name, known)}",
                fix=f"its buffers are {', '.join(known)}",
            )
    return frozenset(buffers)


def _tile_trace(
    kernel: Kernel,
    call: arguments.Call,
    host: Sequence[Any],
    place: tuple[int, ...],
    keep: frozenset[str] | None,
    log: Log,
    wanted: Wanted,
    limit_bytes: int,
) -> Trace:
    from tilebench.backends.interp.build import build
    from tilebench.backends.interp.record import Recorder, names_of

    target = parse("interp")
    typed: Typed = compiler.analyse(kernel.prim, target).stage(Typed)
    prim = typed.kernel
    recorder = Recorder(prim, log)
    executable = build(typed, target, observer=recorder.observe)
    executable.watch = recorder.watch
    inputs = {
        p.name: verify.host_values(v, p.name)[0]
        for p, v in zip(kernel.params, host, strict=True)
        if isinstance(p.value, Buffer)
    }
    fresh = (
        arguments.bind(kernel.prim, verify.snapshot(host), "cpu", host_arrays=True)
        if wanted.reference == "oracle"
        else None
    )
    stopped, note = "", ""
    try:
        executable.launch(call.arguments, call.symbols, call.grid, blocks=[place])
    except Full:
        note = f"the recording ended after {len(log.steps)} steps"
    except TileError as error:
        stopped = f"[{error.code}] {error.what}"
    tensors = [p.value for p in prim.params if isinstance(p.value, Buffer)]
    outputs = [p.value for p in prim.params if isinstance(p.value, Buffer) and p.role != "in"]
    order = [b for b in tensors if b not in outputs] + [b for b in prim.buffers if b not in tensors] + outputs
    followed = tracing.tile_buffers(
        log.steps, order, prim.thread_count, lambda n: line_of(n.loc) if isinstance(n, Buffer) else 0, keep
    )
    source = prim.loc.source if prim.loc else None
    sites = tracing.sites_of(
        log.steps, ops_of(prim), names_of(prim), lambda s: line_of(s.loc),
        source.text.split("\n") if source else (), source.first_line if source else 1,
    )  # fmt: skip
    if kernel.prim.then is not None:
        first = f"the first of {len(launches(kernel.prim))} launches"
        note = f"{note}; {first}" if note else first
    base = Trace("tile", place, call.grid, (), (), (), note=note, stopped=stopped)
    noted = tracing.Noted(log.steps, followed, sites)
    checks: dict[int, list[tracing.Check]] = {}
    if fresh is not None:
        from tilebench.kernel.record_reference import oracle_checks

        checks, text = oracle_checks(prim, fresh, place, log.steps)
        base = replace(base, reference=text)
    elif callable(wanted.reference):
        from tilebench.kernel.record_reference import function_checks

        plain = tracing.assemble(noted, 1 << 60, base)
        tolerance = wanted.rtol, wanted.atol
        checks, text = function_checks(wanted.reference, moments(plain, inputs), followed, tolerance)
        base = replace(base, reference=text)
    elif wanted.ref is not None:
        from tilebench.kernel.record_reference import output_checks

        plain = tracing.assemble(noted, 1 << 60, base)
        checks, text = output_checks(plain, _outputs(kernel, host, place, wanted), followed)
        text += verify.rule_text(wanted.atol, wanted.rtol) or "twice the running error bound"
        base = replace(base, reference=text)
    return tracing.assemble(replace(noted, checks=checks), limit_bytes, base)


def _outputs(
    kernel: Kernel, host: Sequence[Any], place: tuple[int, ...], wanted: Wanted
) -> dict[str, verify.Reference]:
    """What each output should be by the user's function of the inputs."""
    from tilebench.kernel.checks import reference_values

    assert wanted.ref is not None, "asked for with a function"
    oracle = verify.oracle_references(kernel, host, blocks=[place])
    names = {p.name: k for k, p in enumerate(kernel.params) if p.role != "in"}
    made = reference_values(kernel, wanted.values, wanted.ref, list(names))
    return {
        name: verify.users_reference(
            name, want, verify.host_values(host[names[name]], name)[0].shape, oracle.get(name), wanted.atol,
            wanted.rtol,
        )
        for name, want in made.items()
    }  # fmt: skip


def steps_on(trace: Trace, line: int) -> list[int]:
    """The steps of a cell line."""
    return [k for k, s in enumerate(trace.steps) if trace.sites[s.site].line == line]


__all__ = [
    "Level",
    "Moment",
    "Recording",
    "Reference",
    "Step",
    "record",
    "steps_on",
    "trace_of",
    "with_traces",
]
