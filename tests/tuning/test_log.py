"""The log: what was decided comes back, what is damaged or of another search does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilebench.errors import LaunchError
from tilebench.tuning.log import Log, config_key, key_of
from tilebench.tuning.search import Trial
from tilebench.tuning.space import candidates, label

MEASURED = Trial({"B": 16}, 1.5, "", "measured", (1.4, 1.6), 20, 12.0, 80, 0)
WRONG = Trial({"B": 32}, None, "wrong result: 1 of 2", "wrong")


def test_records_come_back(tmp_path: Path) -> None:
    log = Log(tmp_path / "deep" / "log.jsonl", "key")
    log.write(MEASURED)
    log.write(WRONG)
    found = Log(log.path, "key").read()
    assert found.keys() == {config_key({"B": 16}), config_key({"B": 32})}
    one = found[config_key({"B": 16})]
    assert (one.latency_ms, one.spread, one.rounds, one.registers) == (1.5, (1.4, 1.6), 20, 80)
    assert one.remembered
    assert found[config_key({"B": 32})].reason == "wrong result: 1 of 2"
    assert Log(log.path, "another").read() == {}


def test_the_last_record_counts_and_a_torn_line_does_not(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = Log(path, "key")
    log.write(WRONG)
    with path.open("a") as stream:
        stream.write('{"key": "key", "conf')
    assert Log(path, "key").read()[config_key({"B": 32})].state == "wrong"
    log.write(Trial({"B": 32}, 2.0, "", "measured"))
    with pytest.warns(UserWarning, match="1 lines are not JSON"):
        assert Log(path, "key").read()[config_key({"B": 32})].latency_ms == 2.0


@pytest.mark.parametrize(
    "line",
    ['{"key": "key", "config": "c", "state": "great"}', '{"key": "key", "config": "c", "state": "measured"}',
     '{"key": "key", "config": "c", "state": "measured", "latency_ms": -1}', "[]", "3"],
)  # fmt: skip
def test_records_that_no_search_wrote_are_passed_over(line: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(line + "\n")
    assert Log(path, "key").read() == {}


def test_a_log_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = Log(tmp_path / "file" / "log.jsonl", "key")
    with pytest.warns(UserWarning, match="is not written"):
        log.write(WRONG)
    log.write(WRONG)


def test_a_key_depends_on_every_fact() -> None:
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 2})


def test_candidates_are_lists_products_or_functions() -> None:
    assert candidates([{"B": 1}, {"B": 1}, {"B": 2}]) == [{"B": 1}, {"B": 2}]
    assert candidates({"B": [1, 2], "C": [3]}) == [{"B": 1, "C": 3}, {"B": 2, "C": 3}]
    assert candidates(lambda: [{"B": 1}]) == [{"B": 1}]
    assert candidates(lambda n: [{"B": n}], (7,)) == [{"B": 7}]
    assert label({"B": 1, "C": "x"}) == "B=1 C=x"
    with pytest.raises(LaunchError, match="TB643"):
        candidates([])
    with pytest.raises(LaunchError, match="TB643"):
        candidates([3])
