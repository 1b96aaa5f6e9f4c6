"""A made-up GPU that has a clock: kernels, memsets and graphs take time, events read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.backends.fake_cuda import FakeCuda

FLUSH_US = 80.0


class TimedCuda(FakeCuda):
    """cost: microseconds of a kernel from its grid."""

    def __init__(self, cost: Callable[[tuple[int, ...]], float]) -> None:
        super().__init__()
        self.cost, self.now_us = cost, 0.0
        self.kernels = self.flushes = 0
        self.held: dict[str, int] = {}
        self._events: dict[int, float] = {}
        self._capture: list[tuple[str, float]] | None = None

    def _work(self, kind: str, microseconds: float) -> None:
        if self._capture is not None:
            self._capture.append((kind, microseconds))
            return
        self.now_us += microseconds
        self.kernels += kind == "kernel"
        self.flushes += kind == "flush"

    def run(self, grid: tuple[int, ...] = (1, 1, 1)) -> None:
        """Queue a kernel, as something that is no kernel of ours does."""
        self._work("kernel", self.cost(grid))

    def _launch_kernel(self, function: int, *rest: Any) -> int:
        code = super()._launch_kernel(function, *rest)
        if code == 0:
            self._work("kernel", self.cost(tuple(rest[:3])))
        return code

    def _take(self, what: str, change: int) -> None:
        self.held[what] = self.held.get(what, 0) + change

    def cuMemAlloc(self, size: int) -> tuple[Any, ...]:
        self._take("memory", 1)
        return self._answer("cuMemAlloc", (size,), 0x9000)

    def cuMemFree(self, pointer: int) -> tuple[Any, ...]:
        self._take("memory", -1)
        return self._answer("cuMemFree", (pointer,))

    def cuMemsetD32Async(self, pointer: int, value: int, count: int, stream: Any) -> tuple[Any, ...]:
        self._work("flush", FLUSH_US)
        return self._answer("cuMemsetD32Async", (pointer, value, count, stream))

    def cuEventCreate(self, flags: int) -> tuple[Any, ...]:
        self._take("events", 1)
        return self._answer("cuEventCreate", (flags,), 100 + self.held["events"])

    def cuEventDestroy(self, event: int) -> tuple[Any, ...]:
        self._take("events", -1)
        return self._answer("cuEventDestroy", (event,))

    def cuEventRecord(self, event: int, stream: Any) -> tuple[Any, ...]:
        self._events[event] = self.now_us
        return self._answer("cuEventRecord", (event, stream))

    def cuEventElapsedTime(self, first: int, last: int) -> tuple[Any, ...]:
        milliseconds = (self._events[last] - self._events[first]) / 1e3
        return self._answer("cuEventElapsedTime", (first, last), milliseconds)

    def cuStreamCreate(self, flags: int) -> tuple[Any, ...]:
        self._take("streams", 1)
        return self._answer("cuStreamCreate", (flags,), 0x77)

    def cuStreamDestroy(self, stream: int) -> tuple[Any, ...]:
        self._take("streams", -1)
        return self._answer("cuStreamDestroy", (stream,))

    def cuStreamBeginCapture(self, stream: int, mode: int) -> tuple[Any, ...]:
        self._capture = []
        return self._answer("cuStreamBeginCapture", (stream, mode))

    def cuStreamEndCapture(self, stream: int) -> tuple[Any, ...]:
        graph, self._capture = self._capture, None
        self._take("graphs", 1)
        return self._answer("cuStreamEndCapture", (stream,), graph)

    def cuGraphInstantiate(self, graph: Any, flags: int) -> tuple[Any, ...]:
        self._take("graphs", 1)
        return self._answer("cuGraphInstantiate", (graph, flags), graph)

    def cuGraphLaunch(self, graph: Any, stream: int) -> tuple[Any, ...]:
        for kind, microseconds in graph:
            self._work(kind, microseconds)
        return self._answer("cuGraphLaunch", (len(graph), stream))

    def cuGraphDestroy(self, graph: Any) -> tuple[Any, ...]:
        self._take("graphs", -1)
        return self._answer("cuGraphDestroy", ())

    def cuGraphExecDestroy(self, graph: Any) -> tuple[Any, ...]:
        self._take("graphs", -1)
        return self._answer("cuGraphExecDestroy", ())
