"""Tutorials and showcases run from start to end with no GPU, and what is kept is what their sources make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from tilebench.teach.course import hand_out
from tilebench.teach.keep import LIMIT, REPORT_MIME, WIDGET_MIME, execute, read, slim

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "tutorials").glob("*.md"))
SHOWCASES = [
    ROOT / "notebooks" / f"{name}.ipynb"
    for name in (
        "first_kernel", "layouts_and_banks", "pipelines", "attention_step_by_step", "slow_to_fast_gemm",
    )
]  # fmt: skip
KEPT = [
    *(p.with_suffix(".ipynb") for p in TUTORIALS),
    *SHOWCASES,
    ROOT / "notebooks" / "flash_attention.ipynb",
]


def outputs(book: Any) -> list[Any]:
    return [o for c in book.cells for o in c.get("outputs", ())]


@pytest.mark.parametrize("path", [*TUTORIALS, *SHOWCASES], ids=lambda p: p.stem)
def test_it_runs_from_start_to_end(path: Path) -> None:
    book = execute(read(path), path.parent, timeout=120)
    live = [o for o in outputs(book) if REPORT_MIME in o.get("data", {})]
    assert live, "the reports are there as data, for the extension"
    assert all("image/png" in o.data for o in live), "and each has a still picture"
    assert not [o for o in outputs(book) if o.get("name") == "stderr"]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda p: p.stem)
def test_the_kept_tutorial_has_the_cells_of_its_source(path: Path) -> None:
    kept = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    made = read(path)
    assert [(c.cell_type, c.source) for c in kept.cells] == [(c.cell_type, c.source) for c in made.cells], (
        f"python -m tilebench.teach.keep {path.relative_to(ROOT)}"
    )


@pytest.mark.parametrize("path", KEPT, ids=lambda p: p.stem)
def test_what_is_kept_reads_well_without_scripts(path: Path) -> None:
    assert path.stat().st_size <= LIMIT
    book = nbformat.read(path, as_version=4)
    found = outputs(book)
    assert sum("image/png" in o.get("data", {}) for o in found) >= 2
    for output in found:
        data = output.get("data", {})
        assert WIDGET_MIME not in data
        assert REPORT_MIME not in data
        assert "<script" not in str(data.get("text/html", ""))
    assert not [o for o in found if o.output_type == "error"]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda p: p.stem)
def test_exercises_wait_for_an_answer_in_the_kept_tutorial(path: Path) -> None:
    book = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    cards = [
        o.data["text/plain"]
        for o in outputs(book)
        if "tilebench-check" in o.get("data", {}).get("text/html", "")
    ]
    assert len(cards) >= 4
    assert all(" NO " in card for card in cards), "no answer is given away"


def test_a_learner_gets_copies_without_outputs_and_keeps_what_is_there(tmp_path: Path) -> None:
    first, *_ = hand_out(ROOT / "tutorials", tmp_path)
    assert first.name == "01-what-is-a-tile.ipynb"
    assert outputs(nbformat.read(first, as_version=4)) == []
    first.write_text("mine")
    assert hand_out(ROOT / "tutorials", tmp_path)[0].read_text() == "mine"


def test_a_cell_that_is_meant_to_fail_is_kept_with_its_card_alone() -> None:
    card = nbformat.v4.new_output("display_data", {"text/html": '<pre class="tilebench-error">why</pre>'})
    stop = nbformat.v4.new_output("error", ename="TypeTileError", evalue="why", traceback=["stopped"])
    told, bare = (nbformat.v4.new_code_cell(outputs=o) for o in ([card, stop], [stop]))
    kept = slim(nbformat.v4.new_notebook(cells=[told, bare]))
    assert [[o.output_type for o in c.outputs] for c in kept.cells] == [["display_data"], ["error"]]
