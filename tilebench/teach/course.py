"""`make course`: the learner's own copies of the tutorials, without outputs, and JupyterLab on the first.

    python -m tilebench.teach.course tutorials build/course

A copy that is there already is left alone: it may hold a learner's work.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast


def blank(path: Path) -> str:
    """The text of a notebook without outputs, so that nothing is given away."""
    import nbformat

    book = cast("Any", nbformat).read(path, as_version=4)
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return cast("str", cast("Any", nbformat).writes(book)) + "\n"


def hand_out(source: Path, folder: Path) -> list[Path]:
    """Copies of all tutorials of `source` in `folder`, in their order; those that are there stay."""
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    for path in sorted(source.glob("[0-9]*.ipynb")):
        copy = folder / path.name
        if not copy.exists():
            copy.write_text(blank(path), encoding="utf-8")
        made.append(copy)
    return made


def main(names: list[str]) -> int:
    """Hand out, and print the first tutorial's path."""
    source, folder = (Path(n) for n in names)
    made = hand_out(source, folder)
    if not made:
        print(f"{source}: no tutorials", file=sys.stderr)
        return 1
    print(made[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
