"""Each faulty program of sm_90a is reported with its lines; its right twin is silent, in any order."""

from __future__ import annotations

import pytest

from tests.emulator.hopper_faults import CASES


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("schedule", ["forward", "reverse", 3])
def test_the_fault_is_found_at_its_lines(name: str, schedule: object) -> None:
    case = CASES[name](True)
    result = case.build.run(*case.arguments, schedule=schedule)
    found = [f for f in result.findings if f.kind == case.kind]
    assert found, [f.text for f in result.findings]
    assert all(f.code and f.hint for f in found)
    if case.lines is not None:
        reported = {frozenset(s.line for s in f.spans) for f in found}
        assert frozenset(case.lines) in reported, [f.text for f in found]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("schedule", ["forward", "reverse", 3])
def test_the_right_twin_is_silent(name: str, schedule: object) -> None:
    case = CASES[name](False)
    assert case.build.run(*case.arguments, schedule=schedule).findings == ()
