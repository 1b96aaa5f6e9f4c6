"""The bars of compile time: printed, and held as ratios to NVRTC's time for a fixed text in this process."""

from __future__ import annotations

import pytest

from tests.perf import compile_time as bars
from tilebench.backends.cuda import nvrtc

# Case -> (our passes, NVRTC), in units of NVRTC's time for the reference text: near twice what is measured.
LIMITS = {"softmax": (0.4, 1.8), "gemm": (0.8, 4.0), "attention": (1.6, 6.0), "causal": (1.8, 9.0)}


@pytest.fixture
def unit() -> float:
    """CPU milliseconds of NVRTC for the reference text, measured anew for each case."""
    if not nvrtc.available():
        pytest.skip("no NVRTC on this machine")
    bars.warm_up()
    times = bars.best(bars.reference)
    print("\n" + bars.line("NVRTC, reference text", times.wall["total"], times.cpu["total"]))
    return times.cpu["total"]


@pytest.mark.parametrize("case", bars.CASES, ids=lambda case: case.name)
def test_our_share_of_a_cold_cell_is_small_and_a_second_run_compiles_nothing(
    case: bars.Case, unit: float
) -> None:
    found = bars.measure(case)
    print(f"\n{found}")
    ours, theirs = LIMITS[case.name]
    assert found.times.python < ours * unit
    assert found.times.cpu["nvrtc"] < theirs * unit
    assert found.second.cpu["second compile"] < 0.05 * found.times.cpu["total"]


def test_import_is_no_slower_than_numpys() -> None:
    times = bars.import_times()
    print(
        "\n"
        + bars.line(
            "import tilebench",
            times.wall["total"],
            times.cpu["total"],
            0.0,
            bars.mark(times.cpu["total"], bars.IMPORT_MS),
        )
    )
    peer = bars.import_times("import json, ast, dataclasses, typing, inspect, numpy")
    assert times.cpu["total"] < 2 * peer.cpu["total"]
