"""Events, graphs and CUPTI on a GPU that is made up: its kernels take 20 us, overwriting L2 takes 80."""

from __future__ import annotations

import sys
import types
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.profiling.timed_cuda import TimedCuda
from tilebench.backends.cuda.driver import Gpu, GpuError
from tilebench.errors import LaunchError
from tilebench.profiling import gpu_timing
from tilebench.profiling.benchmark import Times, measure


@pytest.fixture
def api() -> TimedCuda:
    return TimedCuda(lambda grid: 20.0)


@pytest.fixture
def here(api: TimedCuda, monkeypatch: pytest.MonkeyPatch) -> TimedCuda:
    """The made-up GPU as the one of this process."""
    made = Gpu(api)
    monkeypatch.setattr(gpu_timing, "gpu", lambda: made)
    return api


def rounds(once_ms: float) -> tuple[int, int]:
    return 2, 30


def freed(api: TimedCuda) -> bool:
    return not any(api.held.values())


def test_an_event_time_is_the_kernels_alone(api: TimedCuda) -> None:
    times = gpu_timing.event_times(api.run, rounds, driver=Gpu(api), stream=5)
    assert times == pytest.approx([0.02] * 30)
    assert api.flushes == 31, "before each timed run, and before the estimate"
    assert api.kernels == 1 + 5 + 2 + 30
    assert {a[1] for n, a in api.calls if n == "cuEventRecord"} == {5}
    assert freed(api)


def test_without_overwriting_no_memory_is_taken(api: TimedCuda) -> None:
    assert gpu_timing.event_times(api.run, rounds, flush=False, driver=Gpu(api)) == pytest.approx([0.02] * 30)
    assert api.flushes == 0
    assert "memory" not in api.held


@pytest.mark.parametrize("flush", [True, False])
def test_a_graphs_time_is_the_kernels_alone(api: TimedCuda, flush: bool) -> None:
    current: list[int] = []

    @contextmanager
    def on_stream(handle: int) -> Generator[None]:
        current.append(handle)
        yield
        current.append(0)

    times = gpu_timing.graph_times(api.run, rounds, flush=flush, driver=Gpu(api), on_stream=on_stream)
    assert times == pytest.approx([0.02] * 10)
    assert current == [0x77, 0]
    launched = [a[0] for n, a in api.calls if n == "cuGraphLaunch"]
    assert max(launched) == (6 if flush else 3), "30 runs are ten launches of three"
    assert freed(api)


def test_what_cannot_be_captured_is_an_error_and_everything_is_freed(api: TimedCuda) -> None:
    count = [0]

    def waits() -> None:
        count[0] += 1
        if count[0] > 6:  # the seventh is the first that is captured
            api.fail["cuLaunchKernel"] = 900
            Gpu.check(made, (900,), "launch the kernel")
        api.run()

    made = Gpu(api)
    with pytest.raises(GpuError, match="could not launch the kernel"):
        gpu_timing.graph_times(waits, rounds, driver=made)
    assert api.held["memory"] == 0
    assert api.held["streams"] == 0
    assert api._capture is None, "the capture was ended"


class FakeCupti:
    """The `cupti` package as far as it is used: a record for each kernel of the made-up GPU."""

    class ActivityKind:
        CONCURRENT_KERNEL, MEMSET = 10, 2

    def __init__(self, api: TimedCuda) -> None:
        self.api, self.enabled = api, False
        plain = api._work

        def work(kind: str, microseconds: float) -> None:
            start = api.now_us
            plain(kind, microseconds)
            if self.enabled:
                number = 10 if kind == "kernel" else 2
                self.records.append(
                    types.SimpleNamespace(kind=number, start=start * 1e3, end=api.now_us * 1e3)
                )

        self.records: list[Any] = []
        api._work = work  # type: ignore[method-assign]

    def activity_register_callbacks(self, room: Any, full: Any) -> None:
        assert room()[0] > 0
        self.full = full

    def activity_enable(self, kind: int) -> None:
        self.enabled = True

    def activity_disable(self, kind: int) -> None:
        self.enabled = False

    def activity_flush_all(self, flag: int) -> None:
        self.full(self.records)


def test_cuptis_time_is_the_sum_of_a_runs_kernels(api: TimedCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    cupti = FakeCupti(api)
    monkeypatch.setitem(sys.modules, "cupti", types.SimpleNamespace(cupti=cupti))

    def two() -> None:
        api.run()
        api.run()

    times = gpu_timing.cupti_times(two, rounds, driver=Gpu(api), stream=0)
    assert times == pytest.approx([0.04] * 30)
    assert not cupti.enabled
    assert freed(api)


class FakeProfiler:
    """PyTorch's profiler as far as it is used, over the made-up GPU: kernels, memsets, host calls."""

    def __init__(self, api: TimedCuda) -> None:
        self.cupti = FakeCupti(api)

    def profile(self, activities: list[Any]) -> FakeProfiler:
        assert activities == ["cuda"]
        return self

    def __enter__(self) -> FakeProfiler:
        self.cupti.enabled = True
        return self

    def __exit__(self, *_: object) -> None:
        self.cupti.enabled = False

    def events(self) -> list[Any]:
        def event(device: str, name: str, record: Any) -> Any:
            at = types.SimpleNamespace(start=record.start / 1e3, end=record.end / 1e3)
            return types.SimpleNamespace(device_type=device, name=name, time_range=at)

        names = {10: "tile_kernel", 2: "Memset (Device)"}
        found = [event("cuda", names[r.kind], r) for r in self.cupti.records]
        return [event("cpu", "cudaDeviceSynchronize", self.cupti.records[0]), *found]


def test_where_cuptis_package_is_not_pytorchs_profiler_records(
    api: TimedCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiler = FakeProfiler(api)
    torch = types.SimpleNamespace(
        autograd=types.SimpleNamespace(
            kineto_available=lambda: True, DeviceType=types.SimpleNamespace(CUDA="cuda")
        ),
        version=types.SimpleNamespace(cuda="13.0"),
        cuda=types.SimpleNamespace(is_initialized=lambda: False),
        profiler=types.SimpleNamespace(
            profile=profiler.profile, ProfilerActivity=types.SimpleNamespace(CUDA="cuda")
        ),
    )
    monkeypatch.setitem(sys.modules, "cupti", None)
    monkeypatch.setitem(sys.modules, "torch", torch)

    def two() -> None:
        api.run()
        api.run()

    times = gpu_timing.cupti_times(two, rounds, driver=Gpu(api), stream=0)
    assert times == pytest.approx([0.04] * 30)
    assert freed(api)


def test_kernels_that_cannot_be_shared_out_are_an_error() -> None:
    with pytest.raises(LaunchError, match=r"TB617.*3 kernels in 2 runs"):
        gpu_timing._by_run([(0, 1), (1, 2), (2, 3)], 2)


@pytest.mark.parametrize("backend", ["event", "cudagraph"])
def test_measure_takes_the_backend_asked_for(here: TimedCuda, backend: str) -> None:
    times = measure(here.run, rep_ms=1, device="cuda", backend=backend)
    assert times.median == pytest.approx(0.02)
    assert times.rounds == (50 if backend == "event" else 10)
    assert times.spread == pytest.approx(0)
    assert ("cuGraphLaunch" in {n for n, _ in here.calls}) == (backend == "cudagraph")


def test_a_missing_cupti_is_said_and_replaced_only_when_asked(
    here: TimedCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupti", None)
    with pytest.raises(LaunchError, match=r"TB617(?s:.*)pip install cupti-python"):
        measure(here.run, device="cuda", backend="cupti")
    with pytest.warns(UserWarning, match="backend 'event' is used"):
        times = measure(here.run, rep_ms=1, device="cuda", backend="cupti", fallback="event")
    assert times.median == pytest.approx(0.02)


def test_a_backend_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="'event', 'cupti', 'cudagraph'"):
        measure(lambda: None, backend="clock")


def test_samples_have_a_median_a_spread_and_their_number() -> None:
    times = Times((4.0, 1.0, 2.0, 3.0))
    assert (times.median, times.rounds) == (2.5, 4)
    assert times.quartiles == (1.75, 3.25)
    assert times.spread == pytest.approx(0.6)
    assert times.summary("times") is times
    assert times.summary("all") == [4.0, 1.0, 2.0, 3.0]
    assert times.summary("mean") == 2.5
