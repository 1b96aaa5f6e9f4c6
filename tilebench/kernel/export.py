"""A report on disk: JSON to read back, or one HTML page with its pictures that needs no script and no
network.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tilebench.report import Report, from_json, to_json


def write_report(report: Report | Sequence[Report], path: Path) -> None:
    """Write one report (.json) or one or several (.html). Raises ValueError for another ending."""
    reports = [report] if isinstance(report, Report) else list(report)
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".json":
            if len(reports) != 1:
                raise ValueError("a .json file holds one report")
            path.write_text(json.dumps(to_json(reports[0])))
        case ".html":
            from tilebench.views import page

            path.write_text(page(reports))
        case _:
            raise ValueError(f"{path.name}: write a report as .json or .html")


def read_report(path: Path) -> Report:
    """The report in a .json file. Raises ValueError when it is not one."""
    return from_json(Report, json.loads(path.read_text()))
