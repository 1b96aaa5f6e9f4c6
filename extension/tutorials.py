"""Puts the tutorials beside the built extension, as notebooks without outputs, and an index of them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

SOURCES = "tutorials"
SUMMARY = 200  # characters, at most


def source_files(root: Path) -> list[Path]:
    """The jupytext sources of a checkout's tutorials, in the order of their numbers."""
    return sorted(p for p in (root / SOURCES).glob("[0-9]*") if p.suffix in {".md", ".py"})


def write(root: Path, place: Path) -> None:
    """Write `place`: a notebook for each tutorial, and index.json, a list (perhaps empty) of their files,
    titles and summaries.
    """
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    index: list[dict[str, str]] = []
    for path in source_files(root):
        book = notebook(path)
        name = f"{path.stem}.ipynb"
        (place / name).write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        index.append({"file": name, **described(book)})
    (place / "index.json").write_text(
        json.dumps(index, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def notebook(path: Path) -> dict[str, object]:
    """A tutorial as a notebook with no outputs: the same for the same source."""
    import jupytext

    book = jupytext.read(path)
    cells: list[dict[str, object]] = []
    for k, cell in enumerate(book.cells):
        tags = cell.metadata.get("tags")
        kept: dict[str, object] = {
            "cell_type": cell.cell_type,
            "id": f"cell-{k}",
            "metadata": {"tags": tags} if tags else {},
            "source": cell.source,
        }
        if cell.cell_type == "code":
            kept |= {"execution_count": None, "outputs": []}
        cells.append(kept)
    metadata = {"language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def described(book: dict[str, object]) -> dict[str, str]:
    """The title and the first sentences of a tutorial. Raises ValueError when it has no heading."""
    cells = book["cells"]
    assert isinstance(cells, list)
    text = "\n\n".join(str(c["source"]) for c in cells if c["cell_type"] == "markdown")
    found = re.search(r"^# (.+)\n+([^#\n](?:.+\n?)*)?", text, re.MULTILINE)
    if not found:
        raise ValueError("a tutorial begins with a heading: # its title")
    prose = re.sub(r"^\*\*\w+\.?\*\*\s*|[*`$]", "", (found[2] or "").strip())
    sentences = re.split(r"(?<=[.?!])\s+", " ".join(prose.split()))
    summary = sentences[0]
    for sentence in sentences[1:]:
        if len(summary) + len(sentence) >= SUMMARY:
            break
        summary += f" {sentence}"
    return {"title": re.sub(r"[*`$]", "", found[1]).strip(), "summary": summary}
