"""A report on disk: JSON or .tbz to read back, one HTML page with its pictures that needs no script and no
network, or its timelines as a .trace.json for Perfetto and chrome://tracing.

A .tbz is a zip archive: `report.json`, in which an array is {"dtype", "shape", "file"}, and the bytes of each
array in `arrays/N`. Nothing in it is executed when it is read, and nothing is written to the disk.
"""

from __future__ import annotations

import base64
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from tilebench.codec import to_json
from tilebench.report import REPORT_VERSION, Report, from_json

ENDINGS = (".tbz", ".json", ".html")
TRACE = ".trace.json"
LARGEST_BYTES = 1 << 30
"""Of an archive's contents: a file that unpacks to more is refused."""


def write_report(report: Report | Sequence[Report], path: Path) -> None:
    """Write one report (.tbz, .json), its timelines alone (.trace.json), or one or several (.html).

    Raises ValueError for another ending.
    """
    reports = [report] if isinstance(report, Report) else list(report)
    if path.suffix not in ENDINGS:
        raise ValueError(f"{path.name}: write a report as {', '.join(ENDINGS)}")
    if path.suffix != ".html" and len(reports) != 1:
        raise ValueError(f"a {path.suffix} file holds one report")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith(TRACE):
        from tilebench.views.timeline import chrome_trace

        path.write_text(json.dumps(chrome_trace(reports[0])))
        return
    match path.suffix:
        case ".json":
            path.write_text(json.dumps(to_json(reports[0])))
        case ".tbz":
            _write_archive(reports[0], path)
        case _:
            from tilebench.views import page

            path.write_text(page(reports))


def read_report(path: Path) -> Report:
    """The report in a .json or .tbz file. Raises ValueError when it is not one."""
    try:
        data = _read_archive(path) if path.suffix == ".tbz" else json.loads(path.read_text())
        if not isinstance(data, dict):
            raise ValueError("no report in it")
        return from_json(Report, data)
    except (KeyError, TypeError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"{path.name} is not a report: {error}") from error


def save(thing: Any, path: str | Path) -> Path:
    """Write the report of a Result, Kernel or Report to a .tbz, .json or .html file, and give its path."""
    report = thing if isinstance(thing, Report) else getattr(thing, "report", None)
    made = report() if callable(report) else report
    if not isinstance(made, Report):
        raise TypeError(f"save() takes a result, a kernel or a report, got {type(thing).__name__}")
    write_report(made, Path(path))
    return Path(path)


def load(path: str | Path) -> Report:
    """The report in a .tbz or .json file, for tilebench.show. Raises ValueError when it is not one."""
    return read_report(Path(path))


def _write_archive(report: Report, path: Path) -> None:
    arrays: list[bytes] = []

    def apart(value: Any) -> Any:
        if isinstance(value, dict):
            known = cast("dict[str, Any]", value)
            if set(known) == {"dtype", "shape", "base64"}:
                arrays.append(base64.b64decode(known["base64"]))
                return {"dtype": known["dtype"], "shape": known["shape"], "file": len(arrays) - 1}
            return {k: apart(v) for k, v in known.items()}
        return [apart(v) for v in cast("list[Any]", value)] if isinstance(value, list) else value

    data = apart(to_json(report))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("report.json", json.dumps({"version": REPORT_VERSION, "report": data}))
        for number, content in enumerate(arrays):
            archive.writestr(f"arrays/{number}", content)


def _read_archive(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        if sum(item.file_size for item in archive.infolist()) > LARGEST_BYTES:
            raise ValueError(f"it unpacks to more than {LARGEST_BYTES >> 20} MiB")
        head = json.loads(archive.read("report.json"))

        def together(value: Any) -> Any:
            if isinstance(value, dict):
                known = cast("dict[str, Any]", value)
                if set(known) == {"dtype", "shape", "file"}:
                    content = archive.read(f"arrays/{int(known['file'])}")
                    text = base64.b64encode(content).decode()
                    return {"dtype": known["dtype"], "shape": known["shape"], "base64": text}
                return {k: together(v) for k, v in known.items()}
            return [together(v) for v in cast("list[Any]", value)] if isinstance(value, list) else value

        return together(head["report"])
