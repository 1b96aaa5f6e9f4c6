"""`make demo`: execute the showcase without a screen, print one row a kernel, write the page with its
pictures.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

from tilebench.kernel.export import write_report
from tilebench.report import REPORT_MIME, Report, from_json

COLUMNS = (
    "cell",
    "kernel",
    "target",
    "compile ms",
    "registers",
    "spills",
    "shared memory",
    "occupancy",
    "run ms",
    "verdict",
)


def run_demo(notebook: Path, page: Path) -> int:
    """Execute `notebook`, print the table of its reports, write `page`. Returns 1 when anything is wrong."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    if not notebook.exists():
        print(f"{notebook}: no such notebook", file=sys.stderr)
        return 1
    book = cast("Any", nbformat).read(notebook, as_version=4)
    print(f"executing {notebook}: {sum(c.cell_type == 'code' for c in book.cells)} cells", file=sys.stderr)
    client = NotebookClient(
        book,
        on_cell_execute=_told,
        timeout=600,
        kernel_name="python3",
        store_widget_state=False,
        extra_arguments=["--log-level=40"],
        resources={"metadata": {"path": str(notebook.parent)}},
    )
    try:
        client.execute()
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    found = reports_in(book)
    print_table([(cell, report) for cell, report in found])
    complaints = errors_in(book)
    for text in complaints:
        print(text, file=sys.stderr)
    if found:
        write_report([report for _, report in found], page)
        print(f"wrote {page}")
    bad = [report for _, report in found if not report.ok]
    return 1 if bad or complaints or not found else 0


def _told(cell: Any, cell_index: int) -> None:
    """One line for a cell that begins: its number and what it starts with."""
    first = next((line for line in cell.source.splitlines() if line.strip()), "")
    print(f"  cell {cell_index + 1}: {first[:90]}", file=sys.stderr, flush=True)


def reports_in(book: Any) -> list[tuple[int, Report]]:
    """(execution count, report) of every report output of a notebook."""
    found: list[tuple[int, Report]] = []
    for cell in book.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if REPORT_MIME in data:
                payload = data[REPORT_MIME]
                found.append((cell.execution_count or 0, from_json(Report, payload.get("report", payload))))
    return found


def errors_in(book: Any) -> list[str]:
    """Error cards of cells that are not meant to fail (those carry the tag raises-exception)."""
    found: list[str] = []
    for cell in book.cells:
        if "raises-exception" in cell.metadata.get("tags", ()):
            continue
        found.extend(
            str(output["data"]["text/plain"])
            for output in cell.get("outputs", ())
            if "tilebench-error" in str(output.get("data", {}).get("text/html", ""))
        )
    return found


def row(cell: int, report: Report) -> tuple[str, ...]:
    """One line of the table; a dash for what a target does not have."""
    resources, figures = report.resources, report.figures

    def number(name: str) -> str:
        return f"{figures[name].value:.3g}" if name in figures else "-"

    run = f"{number('run_ms')} ({figures['run_ms'].device})" if "run_ms" in figures else "-"
    occupancy = f"{resources.occupancy.value:.0%} (predicted)" if resources.occupancy else "-"
    return (
        f"[{cell}]", report.name, report.target, number("compile_ms"),
        "-" if resources.registers is None else str(resources.registers),
        "-" if resources.spill_bytes is None else f"{resources.spill_bytes} B",
        f"{resources.shared_bytes / 1024:.1f} KiB", occupancy, run, report.verdict,
    )  # fmt: skip


def print_table(found: list[tuple[int, Report]]) -> None:
    """The table of the demo on standard output."""
    rows = [COLUMNS, *(row(cell, report) for cell, report in found)]
    widths = [max(len(r[i]) for r in rows) for i in range(len(COLUMNS))]
    for r in rows:
        print("  ".join(text.ljust(width) for text, width in zip(r, widths, strict=True)).rstrip())
