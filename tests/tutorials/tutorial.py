"""The cells of a tutorial, and the programs in them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tilebench.kernel.program import define
from tilebench.teach.keep import read

ROOT = Path(__file__).resolve().parents[2]


@cache
def skeleton(stem: str, exercise: str) -> str:
    """The text of an exercise's cell, without its magic line."""
    cells = read(ROOT / "tutorials" / f"{stem}.md").cells
    [cell] = [c for c in cells if f"exercise-{exercise}" in c.metadata.get("tags", ())]
    source: str = cell.source
    return source.split("\n", 1)[1] if source.startswith("%%tile") else source


def program(text: str) -> Any:
    """The tile program of a cell's text, with the line numbers of the notebook's editor."""
    return define(text, {}, first_line=2)[0]


def edited(text: str, *changes: tuple[str, str]) -> str:
    """The text with each first string replaced, which must be there once."""
    for old, new in changes:
        assert text.count(old) == 1, f"{text.count(old)} of {old!r}"
        text = text.replace(old, new)
    return text
