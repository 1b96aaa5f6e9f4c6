"""Running a kernel: threads that stay, a context a launch, errors and prints brought back to Python."""

from __future__ import annotations

import ctypes
import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from tilebench.backends.cpu.emit import ABORT, BLOCK, COUNTER, FIRST, GRID, PRINT, SITE, TOTAL, VALUE, Emitted
from tilebench.backends.cpu.indices import Site
from tilebench.errors import TileError, TypeTileError
from tilebench.ir.dtype import decode
from tilebench.ir.expr import int_value
from tilebench.ir.tile import Buffer, Print

Worker = Callable[[int, int], None]
WORKER_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
PRINT_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


@dataclass
class Crew:
    """Threads that wait for work.

    Foreign calls release the GIL; the caller stays free to take a KeyboardInterrupt.
    """

    size: int
    tasks: list[queue.SimpleQueue[Any]] = field(default_factory=list[Any])

    def __post_init__(self) -> None:
        for _ in range(self.size):
            inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
            self.tasks.append(inbox)
            threading.Thread(target=_serve, args=(inbox,), name="tilebench-cpu", daemon=True).start()

    def run(self, function: Worker, context: np.ndarray, arenas: Sequence[int]) -> None:
        """Call function(context, arena) on one thread for each arena; on an interrupt, tell them to stop and
        wait.
        """
        done = threading.Semaphore(0)
        for inbox, arena in zip(self.tasks, arenas, strict=False):
            inbox.put((function, context.ctypes.data, arena, done))
        waiting = len(arenas)
        interrupt: BaseException | None = None
        while waiting:
            try:
                # Looking up now and then also notices an interrupt that came without a signal to this thread.
                if done.acquire(timeout=0.2):
                    waiting -= 1
            except KeyboardInterrupt as error:
                interrupt = error
                context[ABORT] = 1
        if interrupt is not None:
            raise interrupt


def _serve(inbox: queue.SimpleQueue[Any]) -> None:
    while True:
        function, context, arena, done = inbox.get()
        try:
            function(context, arena)
        finally:
            done.release()
            del function, done


@cache
def _crew(size: int, process: int) -> Crew:
    return Crew(size)


def crew(size: int) -> Crew:
    """The threads of this process (a forked child gets its own)."""
    return _crew(size, os.getpid())


def aligned(size: int) -> np.ndarray:
    """Zeroed bytes that start at a multiple of 64."""
    room = np.zeros(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size]


def run(
    emitted: Emitted,
    function: Worker,
    values: Sequence[int | float],
    grid: tuple[int, ...],
    arenas: Sequence[np.ndarray],
    packs: Sequence[int] = (),
) -> None:
    """One launch. values: one for each of emitted.slots (addresses, integers, floats); packs: the i64 of the
    packed tiles.

    Raises what the kernel reports.
    """
    total = 1
    for g in grid:
        total *= g
    if total <= 0:
        return
    context = aligned(8 * (FIRST + len(values) + len(packs) + 1)).view(np.int64)
    context[FIRST + len(values) : FIRST + len(values) + len(packs)] = packs
    context[TOTAL], context[COUNTER] = total, 0
    for d, g in enumerate(grid):
        context[GRID + d] = g
    for number, value in enumerate(values):
        if isinstance(value, float):
            context[FIRST + number : FIRST + number + 1].view(np.float64)[0] = value
        else:
            context[FIRST + number : FIRST + number + 1].view(np.uint64)[0] = value & (2**64 - 1)
    said: list[str] = []

    def note(number: int, block: int, thread: int, pointer: int) -> None:
        said.append(_printed(emitted.prints[number], block, thread, pointer, grid))

    callback = PRINT_TYPE(note)
    context[PRINT] = ctypes.cast(callback, ctypes.c_void_p).value or 0
    used = arenas[: max(1, min(len(arenas), total))]
    try:
        crew(len(arenas)).run(function, context, [a.ctypes.data for a in used])
    finally:
        for text in said:
            print(text)
    number = int(context[SITE])
    if number:
        raise report(emitted.sites[number - 1], int(context[BLOCK]), int(context[VALUE]), grid)


def place_text(block: int, grid: tuple[int, ...]) -> str:
    """'block (3, 0, 0)'."""
    place: list[int] = []
    for g in grid:
        place.append(block % g)
        block //= g
    return f"block ({', '.join(map(str, place + [0] * (3 - len(place))))})"


def report(site: Site, block: int, value: int, grid: tuple[int, ...]) -> TileError:
    """The error of a place that failed."""
    where = place_text(block, grid)
    match site.kind:
        case "bounds":
            buffer = site.buffer
            assert buffer is not None
            dims = ", ".join(str(value) if d == site.dim else ":" for d in range(len(buffer.shape)))
            return TypeTileError(
                "TB273",
                f"{buffer.name}[{dims}] is out of {_range(buffer, site.dim)}, {where}",
                at=site.at,
                why="a negative index at run time does not count from the end"
                if value < 0
                else f"{buffer.name} has no element there",
                fix="guard it (if, T.if_then_else), or move the tile with T.copy, which clips at the "
                "ends of tensors",
            )
        case "zero":
            return TypeTileError(
                "TB263",
                f"integer {'division' if site.text.endswith('div') else 'remainder'} by zero, {where}",
                at=site.at,
                why="an integer has no quotient by 0",
                fix="guard the division: T.if_then_else(d != 0, x // d, 0)",
            )
        case "shift":
            bits = site.dtype.bits if site.dtype is not None else 32
            return TypeTileError(
                "TB264",
                f"a shift of {site.dtype} by {value}, {where}",
                at=site.at,
                why=f"{site.dtype} has {bits} bits, so it can be shifted by 0 to {bits - 1}",
                fix="keep the shift below the width, or cast to a wider type",
            )
        case "step":
            return TypeTileError(
                "TB270", f"a loop with step 0 never ends, {where}", at=site.at, fix="use a step other than 0"
            )
        case "power":
            return TypeTileError(
                "TB271",
                f"an integer to a negative power, {where}",
                at=site.at,
                why="the result is no integer",
                fix="cast the base to float32 first",
            )
        case _:
            return TypeTileError(
                "TB275",
                f"device_assert failed: {site.text or 'the condition is false'}, {where}",
                at=site.at,
                why="the condition was false when the kernel ran",
            )


def _range(buffer: Buffer, dim: int) -> str:
    size = int_value(buffer.shape[dim])
    inside = "the tensor" if size is None else f"0..{size - 1}" if size else "an empty tensor"
    return inside + (f" in dimension {dim}" if len(buffer.shape) > 1 else "")


def _printed(s: Print, block: int, thread: int, pointer: int, grid: tuple[int, ...]) -> str:
    head = place_text(block, grid) + (f", thread {thread}" if thread >= 0 else "")
    message = f"{s.message} " if s.message else ""
    if s.buffer is not None:
        sizes = s.buffer.static_shape
        count = int(np.prod(sizes, dtype=np.int64))
        raw = (ctypes.c_uint8 * (count * s.buffer.dtype.bytes)).from_address(pointer)
        values = np.frombuffer(memoryview(raw), s.buffer.dtype.storage_dtype).reshape(sizes)
        return f"{head}: {message}{s.buffer.name} =\n{decode(values.copy(), s.buffer.dtype)}"
    parts: list[str] = []
    for k, e in enumerate(s.values):
        if e.dtype.is_float:
            number = ctypes.c_double.from_address(pointer + 8 * k).value
            parts.append(str(e.dtype.compute_dtype.type(number)))
        else:
            whole = ctypes.c_int64.from_address(pointer + 8 * k).value
            parts.append(str(bool(whole) if e.dtype.kind == "bool" else whole))
    return f"{head}: {message}{' '.join(parts)}"
