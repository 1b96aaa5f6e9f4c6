"""The CPU's peaks: the best of short runs, kept, and measured again where a kernel did better."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from tilebench.config import using
from tilebench.profiling import cpu_peaks


@pytest.fixture
def store(tmp_path: Path) -> Generator[Path]:
    fresh()
    with using(cache_dir=tmp_path):
        yield tmp_path / "cpu-peaks.json"
    fresh()


def fresh() -> None:
    """As a new process has it."""
    cpu_peaks._kept.cache_clear()
    cpu_peaks._once_more.cache_clear()


def measuring(monkeypatch: pytest.MonkeyPatch, *results: tuple[float, float]) -> Sequence[int]:
    left = list(results)
    taken: list[int] = []

    def measure() -> tuple[float, float]:
        taken.append(1)
        return left.pop(0)

    monkeypatch.setattr(cpu_peaks, "_measure", measure)
    return taken


def test_the_best_of_several_runs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, lasts = 0.0, iter([0.5, 0.25, 4.0, 0.5, 0.5])

    def run() -> None:
        nonlocal clock
        clock += next(lasts)

    monkeypatch.setattr(time, "perf_counter", lambda: clock)
    assert cpu_peaks._best(1e9, run, 1.0) == 4.0  # three runs, though the second is past
    assert clock == 4.75


def test_peaks_are_measured_once_a_machine(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = measuring(monkeypatch, (100.0, 10.0))
    assert cpu_peaks.peaks() == cpu_peaks.peaks((90.0, 9.0)) == (100.0, 10.0)
    fresh()
    assert cpu_peaks.peaks() == (100.0, 10.0)
    assert len(taken) == 1


def test_a_kernel_above_them_has_them_measured_again_and_the_best_is_kept(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = measuring(monkeypatch, (100.0, 10.0), (300.0, 9.0))
    assert cpu_peaks.peaks() == (100.0, 10.0)
    assert cpu_peaks.peaks((150.0, 1.0)) == (300.0, 10.0)
    assert cpu_peaks.peaks((1.0, 50.0)) == (300.0, 10.0)  # in caches: not measured for every report
    assert len(taken) == 2
    fresh()
    assert cpu_peaks.peaks() == (300.0, 10.0)


@pytest.mark.parametrize("text", ["", "{}", '{"machine": "another", "gflops": 1, "gb_s": 1}', "[1", "[1]"])
def test_a_file_that_says_nothing_of_this_machine_is_written_anew(
    store: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write_text(text)
    measuring(monkeypatch, (7.0, 8.0))
    assert cpu_peaks.peaks() == (7.0, 8.0)
    fresh()
    assert cpu_peaks.peaks() == (7.0, 8.0)


def test_what_is_measured_is_plausible() -> None:
    gflops, gb_s = cpu_peaks._measure()
    assert 0.1 < gflops < 1e6
    assert 0.05 < gb_s < 1e5
