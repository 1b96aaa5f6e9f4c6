"""The difference card judges the kernel: not the emulator's speed, not how long building took."""

from __future__ import annotations

from dataclasses import replace

from tests.views.fixture import load
from tilebench.report import Delta, Figure, Report
from tilebench.views.differences import compare


def timed(target: str, **milliseconds: float) -> Report:
    figures = {k: Figure(v, "ms", "measured", "this machine", rounds=20) for k, v in milliseconds.items()}
    return replace(load(), target=target, figures=figures, accesses=())


def deltas(before: Report, after: Report) -> dict[str, Delta]:
    return {d.what: d for d in compare(before, after).deltas}


def test_how_long_imitating_a_device_took_is_no_time_of_the_kernel() -> None:
    for target, name in (("emu:sm_90", "emulator_time_ms"), ("interp", "interpreter_time_ms")):
        for named in (name, "run_ms"):  # reports of older versions have the latter
            found = deltas(timed(target, **{named: 3.0}), timed(target, **{named: 9.0}))
            assert "time of a run" not in found
            assert not [d for d in found if "time" in d and d != "limited by"]
    real = deltas(timed("cuda:sm_90a", run_ms=3.0), timed("cuda:sm_90a", run_ms=9.0))
    assert real["time of a run"].change.startswith("+200%")


def test_what_building_and_loading_took_is_not_judged() -> None:
    found = deltas(timed("cpu", load_ms=2.28, compile_ms=10.0), timed("cpu", load_ms=3.54, compile_ms=20.0))
    assert {d.verdict for d in found.values()} == {""}


def test_accesses_that_got_worse_are_counted() -> None:
    before = load()
    worse = tuple(
        replace(a, efficiency=0.125) if a.buffer == "C" else replace(a, conflict_ways=4)
        for a in before.accesses
    )
    found = deltas(before, replace(before, accesses=worse))
    used = found["bytes used of C, st.global"]
    assert (used.before, used.after, used.verdict) == ("50% (predicted)", "12% (predicted)", "worse")
    assert found["bank conflicts of A_shared, ldmatrix"].verdict == "worse"
    back = deltas(replace(before, accesses=worse), before)
    assert back["bytes used of C, st.global"].verdict == "better"
