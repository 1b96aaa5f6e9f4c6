"""Choices of a kernel's tunables, and what is known of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tilebench.report.figures import Figure
from tilebench.report.performance import Resources, RooflinePoint


@dataclass(frozen=True)
class Tunable:
    """A parameter of a kernel that can be changed: its values as text, in order; value: the one in force."""

    name: str
    values: tuple[str, ...]
    value: str


@dataclass(frozen=True)
class TriedPoint:
    """One choice of the tunables and what is known of it.

    state: 'predicted' (from the stages, nothing compiled: registers are an estimate), 'compiled' (registers
    and spills from the compiler's log), 'illegal' (reason says why); point: on the roofline, its time
    predicted; milliseconds: what finding this out took; kept: pinned by the user; id: of the report, once
    compiled. measured: the time of a launch, where it was run; ok and verdict: whether its result was right;
    problem: why running it failed. program_threads: of a block, as the program says, where the compiler adds
    more (0: not known).
    """

    config: dict[str, str]
    state: Literal["predicted", "compiled", "illegal"]
    reason: str = ""
    resources: Resources = field(default_factory=Resources)
    point: RooflinePoint | None = None
    limiter: str = ""
    milliseconds: float = 0.0
    kept: bool = False
    id: str = ""
    measured: Figure | None = None
    ok: bool | None = None
    verdict: str = ""
    problem: str = ""
    program_threads: int = 0


@dataclass(frozen=True)
class WhatIfInfo:
    """The tunables of a kernel, the points tried so far, and the device that predictions are for."""

    tunables: tuple[Tunable, ...]
    tried: tuple[TriedPoint, ...]
    device: str = ""
    base: dict[str, str] = field(default_factory=dict[str, str])
