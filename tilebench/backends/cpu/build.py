"""`build`: Typed -> machine code in this process."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tilebench import config
from tilebench.backends.base import Argument, Built, TensorArgument
from tilebench.backends.cpu import host as machine
from tilebench.backends.cpu.emit import Emitted, emit
from tilebench.backends.cpu.launch import WORKER_TYPE, aligned, run
from tilebench.backends.cpu.shared import Plan, SharedTiles, plan
from tilebench.errors import LaunchError
from tilebench.ir.expr import Expr, Var
from tilebench.ir.simplify import bounds
from tilebench.ir.tile import Buffer
from tilebench.passes.stages import Typed
from tilebench.report import CodeText
from tilebench.store import current_store, make_key
from tilebench.targets import Target

if TYPE_CHECKING:
    import numpy as np


class Native:
    """A kernel as machine code."""

    def __init__(self, typed: Typed, emitted: Emitted, built: Built, loaded: machine.Loaded) -> None:
        self.typed, self.emitted, self.built = typed, emitted, built
        self._loaded = loaded
        self._function = WORKER_TYPE(loaded.address("worker"))
        self._arenas: list[list[np.ndarray]] = []
        self._plan: tuple[tuple[tuple[int, int], ...], Plan] | None = None
        self._lock = threading.Lock()

    @cached_property
    def assembly(self) -> CodeText:
        """The machine code as text, made when asked for."""
        return CodeText("asm", machine.assembly(self.emitted.text))

    def launch(
        self,
        arguments: Sequence[Argument],
        symbols: Mapping[Var, int],
        grid: tuple[int, ...],
        stream: int = 0,
    ) -> None:
        """Run all blocks on the CPU's cores; returns when they are done.

        Raises TileError for what fails while it runs.
        """
        kernel = self.typed.kernel
        known: dict[Var | Buffer, int | float] = {**symbols}
        for param, argument in zip(kernel.params, arguments, strict=True):
            if isinstance(argument, TensorArgument):
                pointer = argument.pointer
                if not pointer and argument.array is not None:
                    pointer = argument.array.ctypes.data
                if not pointer and 0 not in argument.shape:
                    raise LaunchError(
                        "TB606",
                        f"{param.name} is not a tensor in this machine's memory",
                        fix="pass a CPU tensor",
                    )
                known[param.value] = pointer
            else:
                known[param.value] = float(argument) if param.value.dtype.is_float else int(argument)
        ranges = {v: (int(n), int(n)) for v, n in known.items() if isinstance(v, Var) and v.dtype.is_int}
        held: list[np.ndarray] = []
        for item in self.emitted.slots:
            if isinstance(item, Buffer) and item not in known:
                size = item.dtype.bytes
                for extent in item.shape:
                    size *= _number(extent, ranges)
                held.append(aligned(max(size, 1)))
                known[item] = held[-1].ctypes.data
        threads = config.current().threads or os.cpu_count() or 1
        for var, extent in zip(kernel.blocks, grid, strict=True):
            ranges[var] = (0, extent - 1)
        arenas = self._take(threads)
        tiles = SharedTiles(self._plan_of(ranges, grid))
        try:
            values = [known[s] for s in self.emitted.slots]
            run(self.emitted, self._function, values, grid, arenas, tiles.slots)
        finally:
            tiles.release()
            with self._lock:
                self._arenas.append(arenas)

    def _plan_of(self, ranges: Mapping[Var, tuple[int, int]], grid: tuple[int, ...]) -> Plan:
        """The plan of the packed tiles; that of the launch before where nothing has changed."""
        key, found = tuple(ranges.values()), self._plan
        if found is None or found[0] != key:
            found = self._plan = key, plan(self.emitted.packs, ranges, math.prod(grid))
        return found[1]

    def _take(self, count: int) -> list[np.ndarray]:
        with self._lock:
            while self._arenas:
                found = self._arenas.pop()
                if len(found) == count:
                    return found
        return [aligned(max(self.emitted.arena_bytes, 64)) for _ in range(count)]


def _number(e: Expr, ranges: Mapping[Var, tuple[int, int]]) -> int:
    interval = bounds(e, ranges)
    assert interval is not None, "an extent is known at the launch"
    assert interval[0] == interval[1], "an extent is known at the launch"
    return interval[0]


def build(typed: Typed, target: Target) -> Native:
    """Compile the kernel for this machine.

    Raises TargetError TB54x for what a CPU cannot do with a block's threads.
    """
    start = time.perf_counter()
    here = machine.host()
    emitted = emit(typed, here.lanes, here.facts.gemm_tile)
    milliseconds = {"emit": (time.perf_counter() - start) * 1e3}
    import llvmlite.binding as llvm

    version = ".".join(map(str, llvm.llvm_version_info))
    key = make_key("cpu", version, here.name, here.features, emitted.text)
    store = current_store()
    entry = store.get(key)
    if entry is not None:
        code, cached = entry.files["object"], True
    else:
        code, times = machine.compile_text(emitted.text)
        milliseconds.update(times)
        store.put(key, {"object": code}, {"kernel": typed.kernel.name, "target": str(target)})
        cached = False
    begin = time.perf_counter()
    loaded = machine.Loaded(code)
    milliseconds["load"] = (time.perf_counter() - begin) * 1e3
    text = CodeText("llvm", emitted.text, emitted.lines)
    built = Built(
        target,
        (text,),
        shared_bytes=emitted.arena_bytes,
        binary=code,
        entry="worker",
        milliseconds=milliseconds,
        cached=cached,
    )
    return Native(typed, emitted, built, loaded)
