"""How long it takes and what limits it: timelines, resources, the roofline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tilebench.report.figures import Figure, Provenance


@dataclass(frozen=True)
class TimelineBar:
    """A bar: op on a lane (resource or role) from start to end, in microseconds, for loop iteration
    `iteration` (-1: none).

    kind: work; wait: nothing but waiting; issue: starting work that goes on behind the bar. warp: whose clock
    was read (measured timelines), -1 for none.
    """

    lane: str
    op: str
    label: str
    start_us: float
    end_us: float
    iteration: int = -1
    phase: Literal["prologue", "steady", "epilogue", ""] = ""
    line: int = 0
    kind: Literal["work", "wait", "issue"] = "work"
    warp: int = -1


@dataclass(frozen=True)
class TimelineTerm:
    """A term of the sum that a launch's time is: `count` times `each_us`."""

    text: str
    count: float
    each_us: float


@dataclass(frozen=True)
class TimelineInfo:
    """Bars with where they come from, and (from bar, to bar) dependences.

    cuts: (from, to) in microseconds of stretches that are left out of the picture, the same work going on in
    them; total_us: the time of the whole launch, the sum of `terms`, one of which is the block that is drawn;
    device: whose costs or clock they are; unit: of all times here: 'us', or 'steps' where a simulated counter
    says what ran before what and not how long it took; warps: those that were timed, of which bars are kept.
    """

    provenance: Provenance
    bars: tuple[TimelineBar, ...]
    arrows: tuple[tuple[int, int], ...] = ()
    note: str = ""
    cuts: tuple[tuple[float, float], ...] = ()
    terms: tuple[TimelineTerm, ...] = ()
    total_us: float = 0.0
    device: str = ""
    unit: Literal["us", "steps"] = "us"
    warps: tuple[int, ...] = ()


@dataclass(frozen=True)
class Resources:
    """What the binary needs.

    registers and spills from the compiler's log; occupancy predicted from the target's table.
    """

    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int = 0
    threads: int = 0
    grid: tuple[int, ...] = ()
    blocks_per_sm: int | None = None
    occupancy: Figure | None = None
    limiter: str = ""


@dataclass(frozen=True)
class Roof:
    """A ceiling of the roofline: slope (bytes/s) or flat (FLOP/s). source: where the number is from."""

    name: str
    kind: Literal["bandwidth", "compute"]
    value: float
    source: str


@dataclass(frozen=True)
class RooflinePoint:
    """A kernel on the roofline. intensity in FLOP/byte; time is predicted, or measured with a device.

    id: the report that it is of; config: its tunables in words; occupancy as a share of the warps.
    """

    label: str
    flops: float
    bytes: float
    time_us: Figure | None
    id: str = ""
    config: str = ""
    occupancy: float | None = None


@dataclass(frozen=True)
class RooflineInfo:
    """Ceilings of one device and the points on it (the last is this compile; earlier ones are history)."""

    device: str
    roofs: tuple[Roof, ...]
    points: tuple[RooflinePoint, ...]
    predicted_us: float = 0.0
    limiter: str = ""
    bounds: dict[str, float] = field(default_factory=dict[str, float])
    """Microseconds that each unit of the device needs at least (predicted), by name."""
