"""A kernel through the passes, up to layouts or to its thread program."""

from __future__ import annotations

from typing import TypeVar

from tilebench.compiler import analyse
from tilebench.ir.tile import Kernel
from tilebench.passes.check import check
from tilebench.passes.lower import lower
from tilebench.passes.memory import allocate
from tilebench.passes.pipeline import pipeline
from tilebench.passes.place import place
from tilebench.passes.roles import partition
from tilebench.passes.select import select
from tilebench.passes.stages import Lowered, Placed
from tilebench.passes.sync import synchronise
from tilebench.targets import parse

S = TypeVar("S")


def stage(kernel: Kernel, kind: type[S], target: str = "emu:sm_90a") -> S:
    """The stage of this kind, by the whole order of passes."""
    return analyse(kernel, parse(target)).stage(kind)


def placed(kernel: Kernel, target: str = "emu:sm_80") -> Placed:
    """The kernel with layouts."""
    return place(partition(select(check(kernel, parse(target)))))


def lowered(kernel: Kernel, target: str = "emu:sm_80") -> Lowered:
    """The thread program of a kernel."""
    return lower(synchronise(allocate(pipeline(placed(kernel, target)))))
