"""The showcase notebooks run from start to end on a machine with no GPU, say what they should, and stay
small.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tilebench.kernel.demo import errors_in

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_the_demo_prints_its_table_and_writes_its_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = subprocess.run(
        [sys.executable, "-m", "tilebench.cli", "demo", "--html", str(page)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    table = done.stdout.splitlines()
    header = next(line for line in table if line.startswith("cell"))
    for column in (
        "target",
        "compile ms",
        "registers",
        "spills",
        "shared memory",
        "occupancy",
        "run ms",
        "verdict",
    ):
        assert column in header
    assert sum("correct against torch and oracle" in line for line in table) == 3
    text = page.read_text()
    assert text.count("data:image/png;base64,") >= 3
    assert "<script" not in text


def test_the_demo_fails_when_something_is_wrong(tmp_path: Path) -> None:
    book = nbformat.read(ROOT / "notebooks" / "flash_attention.ipynb", as_version=4)
    book.cells = [c for c in book.cells if c.cell_type == "code"][:3]
    book.cells[-1].source = book.cells[-1].source.replace("x[i, j] / s[i]", "x[i, j] / s[i] * 1.5")
    broken = tmp_path / "broken.ipynb"
    nbformat.write(book, broken)
    command = [
        sys.executable,
        "-m",
        "tilebench.cli",
        "demo",
        "--notebook",
        str(broken),
        "--html",
        str(tmp_path / "page.html"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    assert "is wrong" in done.stdout


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_kept_notebook_has_pictures_and_is_small(path: Path) -> None:
    assert path.stat().st_size < 300_000
    book = nbformat.read(path, as_version=4)
    assert not errors_in(book)
    shown = [o for c in book.cells for o in c.get("outputs", ()) if "image/png" in o.get("data", {})]
    assert len(shown) >= 4
