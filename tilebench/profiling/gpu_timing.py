"""Times on a GPU, through the driver: events around a run, a graph of runs, and CUPTI's own records.

Before each run L2 is overwritten, so that inputs come from memory; the overwriting is queued before the
first event, and keeps the GPU busy while the host queues the run, so the gap between event and kernel is
not in the time. A graph is launched once for many runs: it has no such gap at all, but holds the
overwriting too, which a graph of that alone, launched in turn with it, takes out again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any, cast

from tilebench.backends.cuda.driver import Gpu, gpu
from tilebench.errors import LaunchError

FLUSH_BYTES = 256 << 20
"""Overwritten before each run: more than the L2 cache of any GPU in targets/nvidia.py."""
NON_BLOCKING, RELAXED = 1, 2
"""CU_STREAM_NON_BLOCKING; CU_STREAM_CAPTURE_MODE_RELAXED: torch may allocate while runs are captured."""

Run = Callable[[], Any]


def torch_stream() -> int:
    """The stream that torch works on now, 0 where torch uses no GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0
    return int(torch.cuda.current_stream().cuda_stream)


def on_torch_stream(handle: int) -> AbstractContextManager[Any]:
    """Makes a stream the one that torch, and so a kernel of ours, works on."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return nullcontext()
    external: Any = torch.cuda.ExternalStream(handle)
    return cast("AbstractContextManager[Any]", torch.cuda.stream(external))


class Flush:
    """Memory that is overwritten to empty L2. Freed with the object."""

    def __init__(self, driver: Gpu, size: int = FLUSH_BYTES) -> None:
        self._driver, self._words = driver, size // 4
        driver.enter(driver.current_device())
        self._memory = driver.check(driver.api.cuMemAlloc(size), "allocate memory to overwrite L2 with")

    def __call__(self, stream: int) -> None:
        """Queue the overwriting."""
        queued = self._driver.api.cuMemsetD32Async(self._memory, 0, self._words, stream)
        self._driver.check(queued, "overwrite L2")

    def close(self) -> None:
        """Free the memory."""
        self._driver.check(self._driver.api.cuMemFree(self._memory), "free memory")


class EventTimer:
    """Milliseconds of one run between two events on a stream. flush: whether L2 is overwritten before it."""

    def __init__(self, stream: int, *, flush: bool = True, driver: Gpu | None = None) -> None:
        self._driver, self._stream = driver or gpu(), stream
        check, api = self._driver.check, self._driver.api
        self._driver.enter(self._driver.current_device())
        self._flush = Flush(self._driver) if flush else None
        self._events = [check(api.cuEventCreate(0), "make an event") for _ in range(2)]

    def milliseconds(self, run: Run, times: int = 1) -> float:
        """Milliseconds of a run, the mean of `times` of them back to back. Waits for them."""
        check, api = self._driver.check, self._driver.api
        first, last = self._events
        if self._flush is not None:
            self._flush(self._stream)
        check(api.cuEventRecord(first, self._stream), "record an event")
        for _ in range(times):
            run()
        check(api.cuEventRecord(last, self._stream), "record an event")
        check(api.cuEventSynchronize(last), "wait for the kernel")
        return float(check(api.cuEventElapsedTime(first, last), "read a time")) / times

    def close(self) -> None:
        """Free what was taken."""
        if self._flush is not None:
            self._flush.close()
        for event in self._events:
            self._driver.check(self._driver.api.cuEventDestroy(event), "free an event")


def event_times(
    run: Run,
    rounds: Callable[[float], tuple[int, int]],
    *,
    flush: bool = True,
    driver: Gpu | None = None,
    stream: int | None = None,
) -> list[float]:
    """Milliseconds of each run. rounds: (warm-up, timed) runs, from an estimate of a run's milliseconds."""
    run()
    timer = EventTimer(torch_stream() if stream is None else stream, flush=flush, driver=driver)
    try:
        warm, timed = rounds(max(timer.milliseconds(run, 5), 1e-3))
        for _ in range(warm):
            run()
        return [timer.milliseconds(run) for _ in range(timed)]
    finally:
        timer.close()


# ------------------------------------------------------------------ graphs


@contextmanager
def _captured(driver: Gpu, stream: Any, what: Callable[[], None]) -> Generator[Any]:
    """An executable graph of what `what` queues on the stream."""
    check, api = driver.check, driver.api
    mode = getattr(api, "CUstreamCaptureMode", int)
    check(api.cuStreamBeginCapture(stream, mode(RELAXED)), "begin a graph")
    try:
        what()
    except BaseException:
        api.cuStreamEndCapture(stream)  # the first failure is the one to tell
        raise
    graph = check(api.cuStreamEndCapture(stream), "end a graph")
    made = check(api.cuGraphInstantiate(graph, 0), "make a graph ready")
    try:
        yield made
    finally:
        check(api.cuGraphExecDestroy(made), "free a graph")
        check(api.cuGraphDestroy(graph), "free a graph")


def graph_times(
    run: Run,
    rounds: Callable[[float], tuple[int, int]],
    *,
    flush: bool = True,
    driver: Gpu | None = None,
    on_stream: Callable[[int], AbstractContextManager[Any]] = on_torch_stream,
    launches: int = 10,
) -> list[float]:
    """Milliseconds of a run, one for each launch of a graph of many runs; launches: how many.

    The runs must work on the stream that `on_stream` makes current, and may not wait for the GPU. A failure
    to capture is a GpuError of the driver.
    """
    driver = driver or gpu()
    check, api = driver.check, driver.api
    driver.enter(driver.current_device())
    stream = check(api.cuStreamCreate(NON_BLOCKING), "make a stream")
    handle = int(stream)
    memory = Flush(driver) if flush else None
    try:
        with on_stream(handle):
            run()
            timer = EventTimer(handle, flush=False, driver=driver)
            warm, timed = rounds(max(timer.milliseconds(run, 5), 1e-3))
            many = max(1, -(-timed // launches))

            def runs() -> None:
                for _ in range(many):
                    if memory is not None:
                        memory(handle)
                    run()

            def flushes() -> None:
                for _ in range(many):
                    assert memory is not None, "captured only when L2 is overwritten"
                    memory(handle)

            def launch(graph: Any) -> Run:
                return lambda: check(api.cuGraphLaunch(graph, stream), "launch a graph")

            with (
                _captured(driver, stream, runs) as whole,
                _captured(driver, stream, flushes) if flush else nullcontext() as rest,
            ):
                for _ in range(max(1, warm // many)):
                    launch(whole)()
                samples: list[float] = []
                for _ in range(launches):
                    other = timer.milliseconds(launch(rest)) if flush else 0.0
                    samples.append(max(timer.milliseconds(launch(whole)) - other, 0.0) / many)
            timer.close()
        return samples
    finally:
        if memory is not None:
            memory.close()
        check(api.cuStreamDestroy(stream), "free a stream")


# ------------------------------------------------------------------ CUPTI


def cupti_times(
    run: Run,
    rounds: Callable[[float], tuple[int, int]],
    *,
    flush: bool = True,
    driver: Gpu | None = None,
    stream: int | None = None,
) -> list[float]:
    """Milliseconds that the kernels of each run were on the GPU, by CUPTI's records, without any gap.

    CUPTI is reached through its Python package, else through PyTorch's profiler. Raises LaunchError TB617
    where neither is there.
    """
    recording = _recording()
    driver = driver or gpu()
    where = torch_stream() if stream is None else stream
    run()
    timer = EventTimer(where, flush=False, driver=driver)
    memory = Flush(driver) if flush else None
    try:
        warm, timed = rounds(max(timer.milliseconds(run, 5), 1e-3))
        for _ in range(warm):
            run()
        driver.check(driver.api.cuCtxSynchronize(), "wait for the device")
        with recording() as records:
            for _ in range(timed):
                if memory is not None:
                    memory(where)
                run()
            driver.check(driver.api.cuCtxSynchronize(), "wait for the device")
    finally:
        timer.close()
        if memory is not None:
            memory.close()
    return _by_run(sorted(records), timed)


def _by_run(records: list[tuple[int, int]], runs: int) -> list[float]:
    """Milliseconds of each run from the (start, end) nanoseconds of its kernels, which are equally many."""
    each, rest = divmod(len(records), runs)
    if not each or rest:
        raise LaunchError(
            "TB617",
            f"CUPTI recorded {len(records)} kernels in {runs} runs",
            why="the time of a run is the sum of its kernels, and every run has as many",
            fix="use backend='event'",
        )
    return [sum(e - s for s, e in records[i * each : (i + 1) * each]) / 1e6 for i in range(runs)]


Records = list[tuple[int, int]]
"""(start, end) of kernels in nanoseconds, filled when the recording ends."""


def _recording() -> Callable[[], AbstractContextManager[Records]]:
    """What records kernels: CUPTI's own package, else PyTorch's profiler, which brings CUPTI along."""
    try:
        cupti = import_module("cupti").cupti
    except (ImportError, OSError) as error:
        torch = sys.modules.get("torch")
        if torch is not None and torch.autograd.kineto_available() and torch.version.cuda:
            return lambda: _recorded_by_torch(torch)
        raise LaunchError(
            "TB617",
            "backend='cupti' needs CUPTI's Python package or PyTorch for CUDA, and neither is here",
            why=f"{type(error).__name__}: {error}",
            fix="pip install cupti-python, or use backend='event' (it hides the launch behind the "
            "overwriting of L2), or fallback='event'",
        ) from None
    return lambda: _recorded(cupti)


@contextmanager
def _recorded(cupti: Any) -> Generator[Records]:
    records: Records = []
    kind = cupti.ActivityKind.CONCURRENT_KERNEL

    def room() -> tuple[int, int]:
        return 8 << 20, 0

    def full(activities: list[Any]) -> None:
        records.extend((int(a.start), int(a.end)) for a in activities if a.kind == kind)

    cupti.activity_register_callbacks(room, full)
    cupti.activity_enable(kind)
    try:
        yield records
        cupti.activity_flush_all(1)
    finally:
        cupti.activity_disable(kind)


@contextmanager
def _recorded_by_torch(torch: Any) -> Generator[Records]:
    """Kernels alone: what overwrites L2 is a memset."""
    records: Records = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        yield records
    for event in profile.events():
        on_gpu = event.device_type == torch.autograd.DeviceType.CUDA
        if on_gpu and not event.name.startswith(("Memset", "Memcpy")):
            at = event.time_range  # microseconds
            records.append((round(at.start * 1e3), round(at.end * 1e3)))
