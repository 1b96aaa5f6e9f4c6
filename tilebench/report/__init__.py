"""`Report`: everything a view shows of one kernel, as plain frozen data that goes to JSON (plus typed
buffers) and back.

Every number is a `Figure` that says where it comes from: predicted (a model), simulated (the emulator counted
it) or measured (with the device's name). MIME type: `application/vnd.tilebench.report+json`; the field `view`
of the MIME payload names the view to show. Nothing here computes: kernel/ and profiling/ fill it, views/ draw
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from tilebench.codec import converted
from tilebench.report.compare import CompareInfo, Delta, LayoutDelta, TextDelta
from tilebench.report.exercise import ClaimInfo, ExerciseInfo
from tilebench.report.figures import Figure, Finding, Provenance, Span
from tilebench.report.performance import (
    Resources,
    Roof,
    RooflineInfo,
    RooflinePoint,
    TimelineBar,
    TimelineInfo,
    TimelineTerm,
)
from tilebench.report.program import (
    Access,
    BufferInfo,
    CauseInfo,
    CodeText,
    DigitInfo,
    LayoutInfo,
    OpInfo,
    PassInfo,
    RoleInfo,
    SliceInfo,
)
from tilebench.report.results import LARGEST_ERROR, LARGEST_RATIO, DiffInfo, WorstElement
from tilebench.report.trace import (
    Box,
    Trace,
    TraceBuffer,
    TraceCheck,
    TraceRead,
    TraceSite,
    TraceStep,
    TraceWrite,
)
from tilebench.report.whatif import TriedPoint, Tunable, WhatIfInfo

REPORT_MIME = "application/vnd.tilebench.report+json"
REPORT_VERSION = 1
VIEWS = (
    "summary", "layout", "smem", "code", "passes", "warps", "timeline", "step", "diff", "roofline", "compare",
    "whatif",
    "findings", "exercise", "board",
)  # fmt: skip
BUS_KEYS = ("kernel", "op", "line", "buffer", "coord", "thread", "reg", "byte", "bank", "instr", "step")
"""Fields of the selection that views share: a view ignores what it cannot map. Shapes: line is a cell line
from 1, coord a list of ints, the rest ints or strings. step: an iteration of `op` where `op` is given (the
timeline), else a step of the trace (time travel).
"""


@dataclass(frozen=True)
class Report:
    """All of it. id: the kernel's identity on the selection bus (hash of its source and configuration)."""

    id: str
    name: str
    target: str
    source: str
    first_line: int = 1
    version: int = REPORT_VERSION
    device: str = ""
    config: dict[str, str] = field(default_factory=dict[str, str])
    verdict: str = ""
    ok: bool | None = None
    params: tuple[BufferInfo, ...] = ()
    buffers: tuple[BufferInfo, ...] = ()
    scratch: BufferInfo | None = None
    statement_lines: tuple[int, ...] = ()
    """The cell line of each statement, by the preorder number that `first` and `last` of buffers count in."""
    layouts: tuple[LayoutInfo, ...] = ()
    ops: tuple[OpInfo, ...] = ()
    accesses: tuple[Access, ...] = ()
    roles: tuple[RoleInfo, ...] = ()
    timelines: tuple[TimelineInfo, ...] = ()
    passes: tuple[PassInfo, ...] = ()
    code: tuple[CodeText, ...] = ()
    resources: Resources = field(default_factory=Resources)
    roofline: RooflineInfo | None = None
    diffs: tuple[DiffInfo, ...] = ()
    findings: tuple[Finding, ...] = ()
    compare: CompareInfo | None = None
    whatif: WhatIfInfo | None = None
    figures: dict[str, Figure] = field(default_factory=dict[str, Figure])
    """compile_ms, run_ms, flops, bytes, nvrtc_ms ... by name."""
    traces: tuple[Trace, ...] = ()
    """Recorded runs of a block, for time travel."""
    exercise: ExerciseInfo | None = None
    schedule: tuple[str, ...] = ()
    """What the compiler chose for the kernel as a whole, a sentence each: who copies, what overlaps ..."""


T = TypeVar("T")


def from_json(kind: type[T], data: Any) -> T:
    """The dataclass `kind` from what `codec.to_json` made.

    Unknown fields are ignored; raises ValueError on a newer version.
    """
    if (
        kind is Report
        and isinstance(data, dict)
        and cast("dict[str, Any]", data).get("version", 0) > REPORT_VERSION
    ):
        raise ValueError(
            f"report version {data['version']} is newer than {REPORT_VERSION}: update tilebench to open it"
        )
    return cast("T", converted(kind, data))


__all__ = [
    "BUS_KEYS",
    "LARGEST_ERROR",
    "LARGEST_RATIO",
    "REPORT_MIME",
    "REPORT_VERSION",
    "VIEWS",
    "Access",
    "Box",
    "BufferInfo",
    "CauseInfo",
    "ClaimInfo",
    "CodeText",
    "CompareInfo",
    "Delta",
    "DiffInfo",
    "DigitInfo",
    "ExerciseInfo",
    "Figure",
    "Finding",
    "LayoutDelta",
    "LayoutInfo",
    "OpInfo",
    "PassInfo",
    "Provenance",
    "Report",
    "Resources",
    "RoleInfo",
    "Roof",
    "RooflineInfo",
    "RooflinePoint",
    "SliceInfo",
    "Span",
    "TextDelta",
    "TimelineBar",
    "TimelineInfo",
    "TimelineTerm",
    "Trace",
    "TraceBuffer",
    "TraceCheck",
    "TraceRead",
    "TraceSite",
    "TraceStep",
    "TraceWrite",
    "TriedPoint",
    "Tunable",
    "WhatIfInfo",
    "WorstElement",
    "from_json",
]
