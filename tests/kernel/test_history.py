"""Compiles of one kernel in a row: a path on the roofline, and what changed since the last one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.views.fixture import load
from tests.views.more import changed, everything, with_history
from tilebench.kernel.export import save
from tilebench.kernel.history import REMEMBERED, continued
from tilebench.report import Report


def test_the_first_compile_has_no_past() -> None:
    assert continued(load(), None) is load()


def test_a_second_compile_has_the_first_on_its_roofline_and_on_its_card() -> None:
    before, after = load(), changed()
    made = continued(after, before)
    assert made.roofline is not None
    assert before.roofline is not None
    assert len(made.roofline.points) == 2 * len(before.roofline.points)
    assert made.roofline.points[0] == before.roofline.points[0]
    assert made.compare is not None
    assert "num_stages" in {d.what for d in made.compare.deltas}


def test_the_same_compile_again_adds_nothing() -> None:
    first = with_history()
    made = continued(first, first)
    assert made.roofline == first.roofline
    assert made.compare is None


def test_points_of_another_device_are_left_out() -> None:
    before = load()
    assert before.roofline is not None
    other = replace(before, roofline=replace(before.roofline, device="this CPU"))
    made = continued(changed(), other)
    assert made.roofline == changed().roofline


def test_a_long_path_is_cut_at_its_beginning() -> None:
    report: Report | None = None
    for k in range(REMEMBERED + 5):
        roofline = with_history().roofline
        assert roofline is not None
        point = replace(roofline.points[0], id=f"k{k}", config=f"num_stages={k}")
        now = replace(load(), id=f"k{k}", roofline=replace(roofline, points=(point,)))
        report = continued(now, report)
    assert report is not None
    assert report.roofline is not None
    assert [p.id for p in report.roofline.points][-1] == f"k{REMEMBERED + 4}"
    assert len(report.roofline.points) == REMEMBERED + 1


def test_timelines_are_written_for_perfetto(tmp_path: Path) -> None:
    path = save(everything(), tmp_path / "matmul.trace.json")
    events = json.loads(path.read_text())["traceEvents"]
    assert sum(e["ph"] == "X" for e in events) == sum(len(t.bars) for t in everything().timelines)
