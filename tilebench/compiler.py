"""Runs the stages of passes/ on a kernel, keeps and times each, and builds the result for a target."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Protocol, cast

from tilebench.backends.base import Executable
from tilebench.errors import InternalError, Loc, TileError
from tilebench.ir.tile import Kernel
from tilebench.passes.stages import (
    Allocated,
    Lowered,
    Partitioned,
    Placed,
    Scheduled,
    Selected,
    Synchronised,
    Typed,
)
from tilebench.targets import Target

Stage = Typed | Selected | Partitioned | Placed | Scheduled | Allocated | Synchronised | Lowered


@dataclass(frozen=True)
class Snapshot:
    """What a pass gave and how long it took.

    The text of a stage is made on demand (kernel/passes_text.py).
    """

    name: str
    stage: Stage
    microseconds: float


@dataclass(frozen=True)
class Compilation:
    """A kernel taken through the compiler for one target.

    executable is None when only the stages were asked for.
    """

    kernel: Kernel
    target: Target
    snapshots: tuple[Snapshot, ...]
    executable: Executable | None = None
    build_microseconds: float = 0.0

    def stage(self, kind: type[Any]) -> Any:
        """The stage value of this type, as in `compilation.stage(Placed)`.

        Raises KeyError when it was not reached.
        """
        for snapshot in self.snapshots:
            if isinstance(snapshot.stage, kind):
                return snapshot.stage
        raise KeyError(kind.__name__)

    @property
    def last(self) -> Stage:
        """The last stage reached."""
        return self.snapshots[-1].stage


class BackendModule(Protocol):
    """What a module of backends/ offers."""

    def build(self, stage: Any, target: Target) -> Executable:
        """Make `stage` runnable."""
        ...


BACKENDS: dict[str, tuple[str, bool]] = {
    "interp": ("tilebench.backends.interp", False),
    "cpu": ("tilebench.backends.cpu", False),
    "emu": ("tilebench.backends.emulator", True),
    "cuda": ("tilebench.backends.cuda.build", True),
}
"""target kind -> (module, whether it takes thread IR)."""


def passes() -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """The passes after `check`, in order. Imported here, so that interp needs none of them."""
    from tilebench.passes.lower import lower
    from tilebench.passes.memory import allocate
    from tilebench.passes.pipeline import pipeline
    from tilebench.passes.place import place
    from tilebench.passes.roles import partition
    from tilebench.passes.select import select
    from tilebench.passes.sync import synchronise

    return (
        ("select", select),
        ("roles", partition),
        ("place", place),
        ("pipeline", pipeline),
        ("memory", allocate),
        ("sync", synchronise),
        ("lower", lower),
    )


def analyse(
    kernel: Kernel,
    target: Target,
    *,
    thread_ir: bool | None = None,
    until: str = "",
    as_asked: bool = False,
) -> Compilation:
    """Take the kernel through its stages: to Typed, or to Lowered when the target or thread_ir wants it.

    until: the pass after which to stop, as in `until="memory"`; as_asked: rings that do not fit into shared
    memory are an error (TB521) and do not lose versions, for whoever compares numbers of stages.
    """
    from tilebench.passes.check import check
    from tilebench.passes.memory import allocate, allocate_as_asked

    snapshots: list[Snapshot] = []

    def run(name: str, step: Callable[[], Stage], at: Loc | None) -> Stage:
        start = time.perf_counter()
        try:
            stage = step()
        except TileError:
            raise
        except (
            AssertionError,
            AttributeError,
            IndexError,
            KeyError,
            TypeError,
            ValueError,
            RecursionError,
        ) as error:
            raise InternalError(
                "TB901",
                f"the {name} pass failed ({type(error).__name__}: {error})",
                at=at,
                why="this is a bug of tilebench, not of your program",
                fix="please report it with this cell; --traceback shows the Python stack",
            ) from error
        snapshots.append(Snapshot(name, stage, (time.perf_counter() - start) * 1e6))
        return stage

    stage: Stage = run("check", lambda: check(kernel, target), kernel.loc)
    if BACKENDS[target.kind][1] if thread_ir is None else thread_ir:
        for name, step in passes():
            current = stage
            chosen: Callable[..., Any] = allocate_as_asked if as_asked and step is allocate else step
            stage = run(name, lambda step=chosen, current=current: cast("Stage", step(current)), kernel.loc)
            if isinstance(stage, Allocated) and stage.scheduled is not current:  # its rings were too long
                k = len(snapshots) - 2
                snapshots[k] = replace(snapshots[k], stage=stage.scheduled)
            if name == until:
                break
    return Compilation(kernel, target, tuple(snapshots))


def build(kernel: Kernel, target: Target) -> Compilation:
    """Compile the kernel for the target.

    Raises TileError: what is wrong with the program, or what the target lacks.
    """
    return with_executable(analyse(kernel, target))


def _in_order(first: Compilation) -> Compilation:
    """The compilation of a program of several launches; its stages are the first launch's."""
    from tilebench.backends.sequence import Launches
    from tilebench.ir.launches import separate

    kernels, shared = separate(first.kernel)
    built = [build(kernel, first.target) for kernel in kernels]
    executables = [one.executable for one in built if one.executable is not None]
    spent = sum(one.build_microseconds for one in built)
    return replace(first, executable=Launches(kernels, executables, shared), build_microseconds=spent)


def again(known: Compilation) -> Compilation:
    """The same compilation for another kernel object: what a launch finds belongs to the one that was
    launched.
    """
    if known.target.kind == "interp" or (known.kernel.then is not None and known.target.kind == "emu"):
        return with_executable(known)
    return (
        known if known.target.kind in ("cpu", "cuda") else replace(known, executable=copy(known.executable))
    )


def with_executable(stages: Compilation) -> Compilation:
    """The compilation with a fresh executable."""
    kernel, target = stages.kernel, stages.target
    if kernel.then is not None:
        return _in_order(stages)
    start = time.perf_counter()
    module = cast("BackendModule", import_module(BACKENDS[target.kind][0]))
    executable = module.build(stages.last, target)
    return Compilation(kernel, target, stages.snapshots, executable, (time.perf_counter() - start) * 1e6)
