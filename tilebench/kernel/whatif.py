"""`whatif`: the tunables of a kernel as sliders: predicted figures at once, the compile behind them, points
kept.

A choice of values goes through three states. *predicted*: the program is read anew and taken through the
passes to its byte map (10 to 40 ms), the model gives its time; registers are an estimate. *compiled*: NVRTC
ran in a process of its own, registers and spills are its log's. *illegal*: why it cannot be, in the
compiler's words. Predictions are for a GPU: the kernel's own architecture, or sm_90a when it runs on the
CPU. On request a point is also run and measured on this machine (kernel/whatif_run.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilebench import compiler
from tilebench.errors import LaunchError, TileError
from tilebench.ir import tile
from tilebench.ir.expr import Var
from tilebench.ir.thread import Program
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.compiling import Cancelled, Compile
from tilebench.kernel.factory import Factory, factory_of, tunables
from tilebench.kernel.target import resolve
from tilebench.kernel.whatif_panel import Panel
from tilebench.kernel.whatif_run import Inputs, inputs_of, last_inputs, local_target, run_and_measure
from tilebench.passes.stages import Allocated, Lowered, Partitioned, Placed, Scheduled
from tilebench.profiling import model, registers
from tilebench.profiling.work import count, evaluate
from tilebench.report import (
    CompareInfo,
    Figure,
    Report,
    Resources,
    RooflineInfo,
    RooflinePoint,
    TimelineInfo,
    TriedPoint,
    Tunable,
    WhatIfInfo,
)
from tilebench.targets import Occupancy, Target, occupancy, parse

USER_ERRORS = (TileError, AssertionError, ArithmeticError, TypeError, ValueError)
"""What a factory may raise for values that do not go together; the text becomes the reason."""
LARGEST_SWEEP = 4096
LONGEST_REASON = 240

Config = Mapping[str, Any]


MOST_VALUES = 64
"""Places of one slider."""


def whatif(
    kernel_or_factory: Any,
    *,
    target: Any = None,
    args: Sequence[Any] | None = None,
    ref: Callable[..., Any] | None = None,
    **values: Any,
) -> WhatIf:
    """Sliders over the tunables of a kernel or factory, as an object that a notebook displays.

    values: a list gives what a tunable may be, anything else fixes a parameter: `whatif(gemm, M=4096, N=4096,
    K=4096, block_M=[64, 128], num_stages=[2, 3, 4])`. Without lists the tunables are found by name and
    default. target: 'cuda:sm_XX' to predict for; args: the inputs that `measure` runs with, one for each
    parameter (None: those of a Result, or of a call of the kernel, else made up); ref: a PyTorch function to
    compare with, as in `run`. Of a Result of `run` it is the kernel that is taken. Raises LaunchError TB602,
    TB640, TB641 (see kernel/factory.py), TB617 for a list of none or too many.
    """
    lists: dict[str, Any] = {k: v for k, v in values.items() if isinstance(v, list | tuple | range)}
    fixed = {k: v for k, v in values.items() if k not in lists}
    for name, given in lists.items():
        if not 0 < len(given) <= MOST_VALUES:
            raise LaunchError(
                "TB617",
                f"{name} has {len(given):,} values to slide over",
                why=f"a slider has 1 to {MOST_VALUES}: each is tried",
                fix=f"name the ones of interest: {name}=[64, 128]; or fix it: {name}=64",
            )
    thing, last = _with_inputs(kernel_or_factory)
    factory = factory_of(thing, fixed)
    made = WhatIf(factory, tunables(factory, lists), _gpu(target if target is not None else factory.target))
    if isinstance(thing, Kernel):
        made.of_kernel(thing)
    made.inputs = last if args is None else Inputs({}, "the inputs given", tuple(args))
    made.ref = ref
    return made


def _with_inputs(thing: Any) -> tuple[Any, Inputs]:
    """A kernel or factory, and the inputs that it was last run with."""
    if isinstance(thing, Kernel):
        return thing, last_inputs(thing)
    kernel = getattr(thing, "kernel", None)
    if isinstance(kernel, Kernel):
        return kernel, inputs_of(kernel, getattr(thing, "values", ()), "the inputs of its run")
    return thing, Inputs()


def _gpu(target: Any) -> Target:
    """The GPU that predictions are for."""
    resolved = resolve(target)
    return parse(f"cuda:{resolved.arch}") if resolved.arch else parse("cuda:sm_90a")


class WhatIf:
    """What has been tried. `predict`, `compile`, `keep` and `sweep` are what the sliders do, as plain
    calls.
    """

    def __init__(self, factory: Factory, choices: Mapping[str, tuple[Any, ...]], target: Target) -> None:
        self.factory, self.choices, self.target = factory, dict(choices), target
        self.base: dict[str, Any] = {k: factory.config[k] for k in choices}
        self.kept: list[Report] = []
        self._tried: dict[tuple[Any, ...], TriedPoint] = {}
        self._timelines: dict[tuple[Any, ...], TimelineInfo] = {}
        self._kernels: dict[tuple[Any, ...], Kernel] = {}
        self._lock = threading.RLock()
        self._panel: Panel | None = None
        self._symbols: dict[str, int] = {}
        self._id = ""
        self.inputs = Inputs()
        self.ref: Callable[..., Any] | None = None
        self._runners: dict[tuple[Any, ...], Kernel] = {}

    def of_kernel(self, kernel: Kernel) -> None:
        """Share the selection bus of this kernel's views, and the extents of its last call."""
        from tilebench.kernel.facts import identity

        self._id = identity(kernel)
        call = kernel.last_call
        self._symbols = {v.name: n for v, n in call.symbols.items()} if call is not None else {}

    # -------------------------------------------------------------- points

    def settle(self, given: Config) -> dict[str, Any]:
        """A value for every tunable: the given ones, else the base's. Raises ValueError for others."""
        for name, value in given.items():
            if name not in self.choices:
                raise ValueError(f"{name!r} is not a tunable; they are {', '.join(self.choices)}")
            if value not in self.choices[name]:
                known = ", ".join(map(str, self.choices[name]))
                raise ValueError(f"{name}={value!r} is not offered; it may be {known}")
        return {**self.base, **given}

    def of_text(self, given: Mapping[str, str]) -> dict[str, Any]:
        """The values that texts stand for. Raises ValueError as `settle` does."""
        named = {k: {str(v): v for v in values} for k, values in self.choices.items()}
        return self.settle({k: named.get(k, {}).get(v, v) for k, v in given.items()})

    def _key(self, chosen: Config) -> tuple[Any, ...]:
        return tuple(str(chosen[k]) for k in self.choices)

    def predict(self, **given: Any) -> TriedPoint:
        """The point at these values, predicted; what is known of it already is not worked out again."""
        chosen = self.settle(given)
        key = self._key(chosen)
        with self._lock:
            if key not in self._tried:
                start = time.perf_counter()
                point, drawn = _predicted(self.factory, chosen, self.target, self._symbols)
                ms = round((time.perf_counter() - start) * 1e3, 1)
                self._tried[key] = replace(point, milliseconds=ms)
                if drawn is not None:
                    self._timelines[key] = drawn
            return self._tried[key]

    def compile(self, *, begun: Callable[[Compile], None] | None = None, **given: Any) -> TriedPoint:
        """The point at these values, compiled in a process of its own.

        begun: is told the Compile, which may be cancelled. Raises Cancelled then; an illegal point is
        returned.
        """
        point = self.predict(**given)
        if point.state != "predicted":
            return point
        chosen = self.settle(given)
        key = self._key(chosen)
        start = time.perf_counter()
        try:
            kernel = _compiled(self.factory, chosen, self.target, begun)
        except USER_ERRORS as error:
            made = replace(point, state="illegal", reason=_reason(error), point=None)
        else:
            made = _with_binary(point, kernel, self.target, self._symbols)
            self._kernels[key] = kernel
        made = replace(made, milliseconds=round((time.perf_counter() - start) * 1e3, 1))
        with self._lock:
            self._tried[key] = replace(made, kept=self._tried[key].kept)
            return self._tried[key]

    def measure(
        self,
        *,
        begun: Callable[[Compile], None] | None = None,
        ended: Callable[[], bool] = lambda: False,
        said: Callable[[str], None] = lambda text: None,
        **given: Any,
    ) -> TriedPoint:
        """The point at these values, run on this machine: checked against the reference, then timed.

        It runs on the GPU that is here, else on the CPU. begun: as in `compile`; ended: whether to stop,
        asked between steps; said: is told what goes on. Raises Cancelled. What goes wrong is the point's
        `problem`; what was known of it stays.
        """
        here = local_target()
        point = self.compile(begun=begun, **given) if here == self.target else self.predict(**given)
        if point.state == "illegal":
            return point
        chosen = self.settle(given)
        key = self._key(chosen)
        try:
            if key not in self._runners:
                own = self._kernels.get(key) if here == self.target else None
                self._runners[key] = own or Kernel(self.factory.make(chosen), here, config=_texts(chosen))
            kernel = self._runners[key]
            made = run_and_measure(kernel, self.inputs.named(kernel), self.ref, ended, said)
        except Cancelled:
            raise
        except USER_ERRORS as error:
            changes: dict[str, Any] = {"problem": _reason(error)}
        else:
            changes = {"measured": made.time, "ok": made.ok, "verdict": made.verdict, "problem": ""}
        with self._lock:
            point = self._tried[key] = replace(self._tried[key], **changes)
        self._show_again()
        return point

    def keep(self, **given: Any) -> Report:
        """Pin the point at these values: it is compiled, its report joins `kept`, the roofline and the
        difference card.

        Raises ValueError for an illegal point.
        """
        point = self.compile(**given)
        if point.state == "illegal":
            raise ValueError(f"this point cannot be kept: {point.reason}")
        key = self._key(self.settle(given))
        report = self._kernels[key].report()
        with self._lock:
            self.kept = [r for r in self.kept if r.id != report.id] + [report]
            self._tried[key] = replace(self._tried[key], kept=True)
        self._show_again()
        return report

    def sweep(self) -> tuple[TriedPoint, ...]:
        """Predict every combination, best first. Raises ValueError when there are more than LARGEST_SWEEP."""
        combinations = list(self._combinations())
        if len(combinations) > LARGEST_SWEEP:
            raise ValueError(f"{len(combinations)} combinations: give fewer values to sweep over")
        points = [self.predict(**c) for c in combinations]
        self._show_again()
        return tuple(sorted(points, key=_microseconds))

    def _combinations(self) -> Iterator[dict[str, Any]]:
        import itertools

        for values in itertools.product(*self.choices.values()):
            yield dict(zip(self.choices, values, strict=True))

    def neighbours(self, chosen: Config) -> Iterator[tuple[str, Any, TriedPoint]]:
        """(tunable, value, point) of every point that one slider reaches from here."""
        for name, values in self.choices.items():
            for value in values:
                if value != chosen[name]:
                    yield name, value, self.predict(**{**chosen, name: value})

    @property
    def points(self) -> tuple[TriedPoint, ...]:
        """What has been tried, in order."""
        with self._lock:
            return tuple(self._tried.values())

    # -------------------------------------------------------------- what is shown

    def info(self) -> WhatIfInfo:
        """Tunables and points, for the report."""
        offered = tuple(
            Tunable(k, tuple(map(str, values)), str(self.base[k])) for k, values in self.choices.items()
        )
        device = model.device_for(self.target.arch or "")
        base = {k: str(v) for k, v in self.base.items()}
        return WhatIfInfo(offered, self.points, device.name if device else "", base)

    def roofline(self) -> RooflineInfo | None:
        """The roofline with the base and every kept point on it, as a path."""
        base = self.predict()
        first = base.point if base.point is not None else None
        kept = [p.point for p in self.points if p.kept and p.point is not None and p.config != base.config]
        points = [p for p in (first, *kept) if p is not None]
        device = model.device_for(self.target.arch or "")
        if not points or device is None:
            return None
        last = next(p for p in reversed(self.points) if p.point == points[-1])
        time_us = points[-1].time_us
        return RooflineInfo(
            device.name,
            model.gpu_roofs(device),
            tuple(points),
            time_us.value if time_us else 0.0,
            last.limiter,
        )

    def compare(self) -> CompareInfo | None:
        """The base against the point kept last; None when none was kept."""
        from tilebench.views.compare import compare

        base = self._kernels.get(self._key(self.base))
        if not self.kept or base is None:
            return None
        return compare(base.report(), self.kept[-1])

    def report(self) -> Report:
        """A report that holds what has been tried: the board's tabs are whatif, roofline, timeline,
        compare.
        """
        base = self.predict()
        key = self._key(self.base)
        drawn = self._timelines.get(key)
        prim = self._prim()
        source = prim.loc.source if prim is not None and prim.loc is not None else None
        return Report(
            id=self._id or base.id or f"whatif-{self.factory.name}"[:60],
            name=self.factory.name,
            target=str(self.target),
            source=source.text if source else "",
            first_line=source.first_line if source else 1,
            config={k: str(v) for k, v in self.base.items()},
            verdict=self._words(),
            resources=base.resources,
            timelines=(drawn,) if drawn else (),
            roofline=self.roofline(),
            compare=self.compare(),
            whatif=self.info(),
        )

    def _prim(self) -> tile.Kernel | None:
        try:
            return self.factory.make(self.base)
        except USER_ERRORS:
            return None  # the base itself is illegal: its point says why

    def _words(self) -> str:
        us = _microseconds(self.predict())
        base = f"as it is {us:.4g} us (predicted)" if us < float("inf") else "as it is illegal or unknown"
        return f"sliders over {', '.join(self.choices)}; {base}"

    @property
    def panel(self) -> Panel:
        """The live view, made on first use."""
        if self._panel is None:
            self._panel = Panel(self)
        return self._panel

    def _show_again(self) -> None:
        """What was tried is in every output that shows this, so that it is saved with the notebook."""
        if self._panel is not None:
            self._panel.refresh()

    def _ipython_display_(self) -> None:
        self.panel.display()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        del include, exclude
        return self.panel.bundle()

    def __repr__(self) -> str:
        from tilebench.views.whatif import text

        return text(self.report())


def _microseconds(point: TriedPoint) -> float:
    if point.point is None or point.point.time_us is None:
        return float("inf")
    return point.point.time_us.value


# ------------------------------------------------------------------ one point


def _reason(error: BaseException) -> str:
    if isinstance(error, TileError):
        why = error.why.splitlines()[0] if error.why else ""
        why = "" if why.endswith(":") else why  # a table would follow
        return f"{error.what}: {why}"[:LONGEST_REASON] if why else error.what[:LONGEST_REASON]
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _texts(chosen: Config) -> dict[str, str]:
    return {k: str(v) for k, v in chosen.items()}


def _predicted(
    factory: Factory, chosen: Config, target: Target, symbols: Mapping[str, int]
) -> tuple[TriedPoint, TimelineInfo | None]:
    texts = _texts(chosen)
    try:
        prim = factory.make(chosen)
        stages = compiler.analyse(prim, target, until="memory", as_asked=True)
    except USER_ERRORS as error:
        return TriedPoint(texts, "illegal", _reason(error)), None
    launch = _launch(prim, symbols)
    grid = launch[0] if launch else ()
    arch = target.arch or "sm_90a"
    wanted = registers.estimate(stages.stage(Placed))
    threads = registers.launch_threads(stages.stage(Partitioned))
    used = min(wanted, registers.limit(arch, threads))
    excess = max(0, wanted - registers.held(stages.stage(Partitioned), used))
    shared = stages.stage(Allocated).shared_bytes
    occupied = occupancy(arch, threads, used, shared)
    if occupied.blocks == 0:
        return TriedPoint(texts, "illegal", f"no block fits an SM: {occupied.limiter}"), None
    resources = _resources(used, None, shared, threads, grid, occupied, arch)
    drawn, point, limiter = _timed(stages, launch, occupied, arch, factory.name, texts, 4.0 * excess)
    reason = f"about {excess} registers too many: expect spills" if excess else ""
    return TriedPoint(
        texts, "predicted", reason, resources, point, limiter, id=_id(prim, texts, target),
        program_threads=prim.thread_count,
    ), drawn  # fmt: skip


def _id(prim: tile.Kernel, texts: Mapping[str, str], target: Target) -> str:
    from tilebench.kernel.facts import identity

    return identity(Kernel(prim, target, config=texts))


Launch = tuple[tuple[int, ...], dict[Var, int]]
"""The grid of a launch, and its symbols."""


def _launch(prim: tile.Kernel, named: Mapping[str, int]) -> Launch | None:
    """The launch that is predicted: the program's own grid, or that of the kernel's last call; None if
    unknown.
    """
    if any(v.name not in named for v in prim.symbols):
        return None
    symbols = {v: named[v.name] for v in prim.symbols}
    sizes = [evaluate(g, {v: float(n) for v, n in symbols.items()}) for g in prim.grid]
    return None if None in sizes else (tuple(int(n or 0) for n in sizes), symbols)


def _timed(
    stages: compiler.Compilation,
    launch: Launch | None,
    occupied: Occupancy,
    arch: str,
    name: str,
    texts: Mapping[str, str],
    spill_bytes: float,
) -> tuple[TimelineInfo | None, RooflinePoint | None, str]:
    device = model.device_for(arch)
    if device is None or launch is None:
        return None, None, "its extents are known at the call: call the kernel first"
    from tilebench.kernel.facts import bar_names

    prim, (grid, symbols) = stages.kernel, launch
    work = count(prim, grid, symbols)
    names = bar_names(prim)
    made = model.predict(stages.stage(Scheduled), work, device, occupied, grid, symbols, names, spill_bytes)
    time_us = Figure(made.total_us, "us", "predicted", f"model of {device.name}")
    point = RooflinePoint(
        name, work.flops, work.tensor_bytes, time_us, "", model.config_text(texts), occupied.fraction
    )
    return made.timeline, point, made.limiter


def _resources(
    used: int,
    spills: int | None,
    shared: int,
    threads: int,
    grid: tuple[int, ...],
    occupied: Occupancy,
    arch: str,
) -> Resources:
    share = Figure(occupied.fraction, "of warps", "predicted", f"occupancy table of {arch}")
    return Resources(used, spills, shared, threads, grid, occupied.blocks, share, occupied.limiter)


def _compiled(
    factory: Factory, chosen: Config, target: Target, begun: Callable[[Compile], None] | None
) -> Kernel:
    """The kernel, its binary made by a worker process (or found in the store)."""
    from tilebench.backends.cuda.build import is_kept, keep, passed
    from tilebench.backends.cuda.emit import compiled_text, emit
    from tilebench.store import current_store

    prim = factory.make(chosen)
    stages = compiler.analyse(prim, target, as_asked=True)
    program: Program = stages.stage(Lowered).program
    text, arch, flags = compiled_text(emit(program)), target.arch or "sm_90a", passed(program)
    store = current_store()
    if not is_kept(store, text, arch, flags):
        job = Compile(text, arch, flags)
        if begun is not None:
            begun(job)
        ptx, cubin, log, _ = job.wait()
        keep(store, text, arch, ptx, cubin, log, flags)
    return Kernel(prim, target, config=_texts(chosen), compilation=compiler.with_executable(stages))


def _with_binary(point: TriedPoint, kernel: Kernel, target: Target, symbols: Mapping[str, int]) -> TriedPoint:
    """The point with what the compiler's log says, and the time that follows from it."""
    built, prim, arch = kernel.executable.built, kernel.prim, target.arch or "sm_90a"
    if built.registers is None:
        return replace(point, state="compiled", reason="the log names no registers")
    grid = point.resources.grid
    threads = registers.launch_threads(kernel.compilation.stage(Partitioned))
    occupied = occupancy(arch, threads, built.registers, built.shared_bytes)
    resources = _resources(
        built.registers, built.spill_bytes, built.shared_bytes, threads, grid, occupied, arch
    )
    label = point.point.label if point.point else ""
    launch = _launch(prim, symbols)
    _, timed, limiter = _timed(
        kernel.compilation, launch, occupied, arch, label, point.config, built.spill_bytes or 0.0
    )
    spilled = f"{built.spill_bytes} bytes spilled" if built.spill_bytes else ""
    return replace(point, state="compiled", reason=spilled, resources=resources, point=timed, limiter=limiter)


__all__ = ["Cancelled", "WhatIf", "whatif"]
