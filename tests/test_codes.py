"""Every error code that the sources use has one meaning, in the table of codes."""

from __future__ import annotations

import re
from pathlib import Path

from tilebench.codes import CODES

ROOT = Path(__file__).resolve().parent.parent
SOURCES = [p for p in sorted((ROOT / "tilebench").rglob("*.py")) if p.name != "codes.py"]


def used() -> dict[str, list[str]]:
    """The files in which each code is raised: where it stands as a string of its own."""
    found: dict[str, list[str]] = {}
    for path in SOURCES:
        for code in re.findall(r'"(TB\d{3})"', path.read_text(encoding="utf-8")):
            found.setdefault(code, []).append(str(path.relative_to(ROOT)))
    return found


def test_every_code_that_is_raised_has_a_meaning() -> None:
    missing = {code: files for code, files in used().items() if code not in CODES}
    assert not missing, "tilebench/codes.py says in one sentence what each code means"


def test_every_code_with_a_meaning_is_raised() -> None:
    assert sorted(set(CODES) - set(used())) == []


def test_codes_stand_in_order_and_no_two_mean_the_same() -> None:
    assert list(CODES) == sorted(CODES)
    assert len(set(CODES.values())) == len(CODES)


def test_codes_named_in_comments_and_documents_exist() -> None:
    texts = [*SOURCES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    named = {code for p in texts for code in re.findall(r"\bTB\d{3}\b", p.read_text(encoding="utf-8"))}
    assert sorted(named - set(CODES)) == []


def test_golden_errors_are_named_after_their_code() -> None:
    folder = ROOT / "tests" / "golden" / "errors"
    wrong = {
        path.name
        for path in folder.glob("TB*")
        if (said := re.search(r"\[(TB\d{3})\]", path.read_text(encoding="utf-8")))
        and not path.name.startswith(said[1])
    }
    assert not wrong
    assert {path.name[:5] for path in folder.glob("TB*")} <= set(CODES)
