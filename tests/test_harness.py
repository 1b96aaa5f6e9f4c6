"""The `golden` fixture compares, explains and rewrites; gpu tests skip, and settings of the user stay out."""

import os
from pathlib import Path

import pytest

from tests import conftest, run


@pytest.fixture
def golden_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(conftest, "GOLDEN", tmp_path)
    return tmp_path


def test_golden_accepts_equal_text(golden_folder: Path) -> None:
    (golden_folder / "a.txt").write_text("one\ntwo\n")
    conftest.compare_golden("a.txt", "one\ntwo", update=False)


def test_golden_shows_the_line_that_changed(golden_folder: Path) -> None:
    (golden_folder / "a.txt").write_text("one\ntwo\n")
    with pytest.raises(pytest.fail.Exception, match=r"(?s)-two\n\+three"):
        conftest.compare_golden("a.txt", "one\nthree", update=False)


def test_golden_asks_for_a_missing_file(golden_folder: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="--update-golden"):
        conftest.compare_golden("b.txt", "one", update=False)
    assert not (golden_folder / "b.txt").exists()


def test_golden_rewrites_on_request(golden_folder: Path) -> None:
    conftest.compare_golden("errors/b.txt", "one", update=True)
    assert (golden_folder / "errors" / "b.txt").read_text() == "one\n"


@pytest.mark.gpu
def test_gpu_marker_runs_only_where_there_is_one() -> None:
    assert conftest.gpu_count() > 0


def test_no_setting_of_the_user_reaches_a_test() -> None:
    assert [name for name in os.environ if name.startswith("TILEBENCH_")] == ["TILEBENCH_CACHE_DIR"]


def test_every_test_file_belongs_to_one_suite() -> None:
    counted = [path for suite in run.SUITES for path in run.test_files(suite)]
    assert sorted(counted) == sorted((run.ROOT / "tests").rglob("test_*.py"))
