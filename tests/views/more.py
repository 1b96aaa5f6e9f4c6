"""The fixture with what it lacks: a measured timeline beside the predicted one, a history of edits, a
comparison, and points that were tried.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tests.views.fixture import H200, fragment_info, load, shared_info
from tilebench.layouts import atoms
from tilebench.layouts.shared import row_major
from tilebench.report import (
    ClaimInfo,
    CodeText,
    ExerciseInfo,
    Figure,
    Report,
    Resources,
    RooflinePoint,
    TimelineBar,
    TimelineInfo,
    TimelineTerm,
    TriedPoint,
    Tunable,
    WhatIfInfo,
)
from tilebench.views.differences import compare

MODEL = "model of H200 SXM"


def predicted() -> TimelineInfo:
    """The fixture's timeline as one of two waves, with a stretch of 4 us left out after 3 us."""
    base = load().timelines[0]
    bars = tuple(
        replace(b, start_us=b.start_us + 4 * (b.start_us > 3), end_us=b.end_us + 4 * (b.start_us > 3))
        for b in base.bars
        if not b.start_us <= 3 < b.end_us
    )
    end = max(b.end_us for b in bars)
    terms = (
        TimelineTerm("launch", 1, 2.5),
        TimelineTerm("waves of 264 blocks, 2 on each of 132 SMs", 2, end),
        TimelineTerm("last wave of 16 blocks, 1 on an SM", 1, 3.0),
    )
    total = sum(t.count * t.each_us for t in terms)
    return replace(base, bars=bars, arrows=(), cuts=((3.0, 7.0),), terms=terms, total_us=total, device=MODEL)


def measured() -> TimelineInfo:
    """The same block as timers in the kernel saw it: a tenth longer."""
    bars = tuple(
        TimelineBar(
            b.lane,
            b.op,
            b.label,
            round(b.start_us * 1.1, 3),
            round(b.end_us * 1.1, 3),
            b.iteration,
            b.phase,
            b.line,
        )
        for b in load().timelines[0].bars
    )
    return TimelineInfo("measured", bars, load().timelines[0].arrows, "timers in the kernel", device=H200)


TIMED: tuple[tuple[str, str, str, int, Literal["work", "wait", "issue"]], ...] = (
    ("copy", "op1", "copy", 6, "issue"),
    ("copy", "op1", "wait for copies", 6, "wait"),
    ("tensor cores", "op3", "gemm", 8, "work"),
)


def timed(provenance: Literal["measured", "simulated"] = "measured") -> Report:
    """The fixture with two timed warps: waits, work that is only started, products that overlap, an arrow."""
    last = max(b.end_us for b in load().timelines[0].bars)
    bars: list[TimelineBar] = []
    for warp in (0, 1):
        for k in range(4):
            at = last * (0.2 * k + 0.01 * warp)
            ends = (0.0, 0.02, 0.1, 0.34)
            for n, (lane, op, label, line, kind) in enumerate(TIMED):
                start, end = at + ends[n] * last, at + ends[n + 1] * last
                bars.append(TimelineBar(lane, op, label, start, end, k, "steady", line, kind, warp))
    bars = [replace(b, start_us=round(b.start_us, 3), end_us=round(b.end_us, 3)) for b in bars]
    info = TimelineInfo(
        provenance, tuple(bars), ((0, 1), (12, 13)), "block 0 on SM 3, warps 0, 1", device=H200,
        unit="us" if provenance == "measured" else "steps", warps=(0, 1), total_us=97.3,
    )  # fmt: skip
    return replace(load(), timelines=(predicted(), info))


def with_history() -> Report:
    """Four compiles of one kernel on the roofline."""
    report = load()
    assert report.roofline is not None
    last = report.roofline.points[-1]
    times = (80.0, 41.0, 30.0, 21.5)
    points = tuple(
        RooflinePoint(
            "matmul", last.flops, last.bytes,
            Figure(us, "us", "measured" if k == 2 else "predicted", H200 if k == 2 else MODEL),
            f"id{k}", f"num_stages={k + 1}, block_K=32", 0.125 + 0.0625 * (k % 2),
        )
        for k, us in enumerate(times)
    )  # fmt: skip
    bounds = {"tensor cores": 9.1, "L2": 17.4, "memory": 19.3, "FP32 pipes": 0.4}
    return replace(report, roofline=replace(report.roofline, points=points, bounds=bounds))


def changed() -> Report:
    """The fixture after an edit: layouts, registers, spills, one stage more."""
    report = load()
    other = atoms.mma_accumulator((128, 128), (4, 1))
    plain = row_major((128, 32), 16)
    layouts = (
        fragment_info("C_local", other, 32, "accumulator over 4 x 1 warps", 12),
        report.layouts[1],
        shared_info("A_shared", plain, "no swizzle", 12),
        *report.layouts[3:],
    )
    code = tuple(
        CodeText(c.level, c.text.replace("cp.async.wait_group 1", "cp.async.wait_group 2"), c.lines)
        if c.level == "ptx"
        else c
        for c in report.code
    )
    return replace(
        report,
        id="f1x7ure00002",
        source=report.source.replace("num_stages=3", "num_stages=4"),
        config={"num_stages": "4"},
        verdict="correct against oracle",
        ok=True,
        layouts=layouts,
        code=code,
        resources=Resources(
            200, 16, 65536, 128, (4, 4), 2,
            Figure(0.125, "of warps", "predicted", "occupancy table of sm_90a"), "shared memory",
        ),
        figures={**report.figures, "predicted_us": Figure(19.0, "us", "predicted", f"model of {H200}")},
    )  # fmt: skip


def compared() -> Report:
    """The report after the edit, with what changed."""
    after = changed()
    return replace(after, compare=compare(load(), after))


def tried(
    stages: int, block: int, us: float | None, state: str = "predicted", reason: str = "", kept: bool = False
) -> TriedPoint:
    """A point of two tunables."""
    config = {"num_stages": str(stages), "block_M": str(block)}
    point = None
    if us is not None:
        time = Figure(us, "us", "predicted", MODEL)
        point = RooflinePoint("matmul", 2.7e8, 2.1e6, time, "", "", 0.1875)
    occupancy = Figure(0.1875, "of warps", "predicted", "occupancy table of sm_90a")
    resources = Resources(
        160 + stages,
        0 if state == "compiled" else None,
        16384 * stages,
        128,
        (4, 4),
        3,
        occupancy,
        "registers",
    )
    return TriedPoint(config, state, reason, resources, point, "memory", 12.0, kept)  # type: ignore[arg-type]


def sliding() -> Report:
    """Six points of two tunables: one kept, one illegal."""
    info = WhatIfInfo(
        (
            Tunable("num_stages", ("1", "2", "3", "4", "8"), "3"),
            Tunable("block_M", ("64", "128", "256"), "128"),
        ),
        (
            tried(3, 128, 21.5, "compiled"),
            tried(2, 128, 26.0),
            tried(4, 128, 20.1, "compiled", kept=True),
            tried(1, 128, 44.0),
            tried(3, 64, 25.0),
            tried(8, 128, None, "illegal", "the block needs 256 KiB of shared memory: sm_90a has 227"),
        ),
        "H200 SXM",
        {"num_stages": "3", "block_M": "128"},
    )
    return replace(with_history(), whatif=info, diffs=(), findings=(), compare=compared().compare)


def examined() -> ExerciseInfo:
    """An exercise with a claim that holds, one that does not, and one that was not looked at."""
    return ExerciseInfo(
        "t00.q1",
        "The product of two matrices",
        (
            ClaimInfo("the program compiles and runs", True, "4 x 4 blocks"),
            ClaimInfo(
                "every element of C is the product's",
                False,
                "C[4, 67] is 3.5 where 2.25 is right",
                "the accumulator kept what was in it",
                "line 12, step 4, row 4, column 67",
                "T.clear, and when it is called",
                12,
                4,
                (4, 67),
            ),
            ClaimInfo("C is written once", None, "the values are wrong"),
        ),
        ("What does C_local hold before the first product?", "T.clear(C_local) goes before the loop."),
    )


def everything() -> Report:
    """A report with data for every view."""
    base = with_history()
    return replace(
        base,
        timelines=(predicted(), measured()),
        compare=compared().compare,
        whatif=sliding().whatif,
        exercise=examined(),
    )
