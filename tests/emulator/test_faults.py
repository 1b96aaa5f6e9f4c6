"""Each faulty program is reported with its lines; its right twin is silent, in every order of running."""

from __future__ import annotations

import pytest

from tests.emulator.faults import CASES
from tilebench.backends.emulator import role


@pytest.fixture(autouse=True)
def _short_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(role, "LOOP_LIMIT", 1000)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("schedule", ["forward", "reverse", 3])
def test_the_fault_is_found_at_its_lines(name: str, schedule: object) -> None:
    case = CASES[name](True)
    found = [f for f in case.build.run(*case.arguments, schedule=schedule).findings if f.kind == case.kind]
    assert found, f"no finding of kind {case.kind}"
    if case.lines is not None:
        reported = {frozenset(s.line for s in f.spans) for f in found}
        assert frozenset(case.lines) in reported, [f.text for f in found]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("schedule", ["forward", "reverse", 3])
def test_the_right_twin_is_silent(name: str, schedule: object) -> None:
    case = CASES[name](False)
    assert case.build.run(*case.arguments, schedule=schedule).findings == ()
