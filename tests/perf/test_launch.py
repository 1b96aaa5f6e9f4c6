"""What a call costs, as ratios of ways of calling in this process."""

from __future__ import annotations

import pytest

from tests.perf import launch
from tilebench.backends.cuda import nvrtc


@pytest.mark.parametrize("make", [launch.five_tensors, launch.small_gemm])
def test_a_known_call_costs_a_fraction_of_a_checked_one(make: object) -> None:
    if not nvrtc.available():
        pytest.skip("no NVRTC on this machine")
    assert callable(make)
    kernel, tensors = make("cpu")
    calls = launch.ways(launch.without_driver(kernel), tensors)
    best = {name: min(t) for name, t in launch.measure(calls, 15, lambda: None).items()}
    print("\n" + ", ".join(f"{name} {t:.1f} us" for name, t in best.items()))
    assert best["plain"] < 0.35 * best["full checks"]  # measured: 0.12
    assert best["bound"] < 0.5 * best["plain"]  # measured: 0.14
