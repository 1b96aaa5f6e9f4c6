"""Notebooks as they are kept: executed, with their still pictures, small, and readable where no script runs.

    python -m tilebench.teach.keep notebooks/first_kernel.ipynb tutorials/06-online-softmax.md

executes each (a .md source gives the .ipynb beside it) and writes it without live widgets.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

from tilebench.report import REPORT_MIME

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
LIMIT = 300_000
"""Bytes of a kept notebook."""
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def read(path: Path) -> Any:
    """A notebook from .ipynb, or from a jupytext .md."""
    if path.suffix == ".md":
        import jupytext  # pyright: ignore[reportMissingTypeStubs] # it ships none

        book = cast("Any", jupytext).read(path)
        book.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
        for k, cell in enumerate(book.cells):
            cell.id = f"cell-{k}"
        return book
    import nbformat

    return cast("Any", nbformat).read(path, as_version=4)


def execute(book: Any, folder: Path, timeout: int = 300) -> Any:
    """Execute all cells in `folder`, without storing widgets.

    Raises CellExecutionError of nbclient, and ValueError with the text of a tile program's error.
    """
    from nbclient import NotebookClient

    from tilebench.kernel.demo import errors_in

    client = NotebookClient(
        book,
        timeout=timeout,
        kernel_name="python3",
        store_widget_state=False,
        extra_arguments=["--log-level=40"],
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()
    complaints = errors_in(book)
    if complaints:
        raise ValueError("\n\n".join(complaints))
    return book


def slim(book: Any) -> Any:
    """Drop what needs a kernel or the extension to show (widgets, reports as data, times of execution) and
    the line that says that a cell stopped below the card that says why; join text that was printed piece by
    piece.
    """
    book.metadata.pop("widgets", None)
    for cell in book.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type != "code":
            continue
        joined: list[Any] = []
        is_told = any("tilebench-error" in o.get("data", {}).get("text/html", "") for o in cell.outputs)
        for output in cell.outputs:
            if is_told and output.output_type == "error":
                continue
            data = output.get("data", {})
            for mime in (WIDGET_MIME, REPORT_MIME):
                data.pop(mime, None)
            if joined and output.get("name") and joined[-1].get("name") == output.get("name"):
                joined[-1].text += output.text
            else:
                joined.append(output)
        cell.outputs = joined
    return book


def keep(path: Path) -> Path:
    """Execute a notebook or source and write it as it is kept. Raises ValueError when it is over LIMIT."""
    import nbformat

    book = slim(execute(read(path), path.parent))
    target = path.with_suffix(".ipynb")
    text = cast("str", cast("Any", nbformat).writes(book)) + "\n"
    if len(text.encode()) > LIMIT:
        raise ValueError(f"{target.name} has {len(text.encode())} bytes, more than {LIMIT}")
    target.write_text(text, encoding="utf-8")
    return target


def main(names: list[str]) -> int:
    """Keep the notebooks named; prints each with its size."""
    for name in names:
        made = keep(Path(name))
        print(f"{made}: {made.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
