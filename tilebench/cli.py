"""The command line: `python -m tilebench.cli report FILE.py::kernel`, `doctor`, `demo`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tilebench.errors import TileError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code: 0 well, 1 wrong result or broken part, 2 bad usage or program."""
    parser = argparse.ArgumentParser(prog="tilebench", description="a workbench for GPU kernels")
    commands = parser.add_subparsers(dest="command", required=True)
    report = commands.add_parser("report", help="compile, run and report a tile program of a file")
    report.add_argument("program", help="FILE.py or FILE.py::NAME")
    report.add_argument("--target", default=None, help="auto, interp, emu[:sm_XX], cpu, cuda[:sm_XX]")
    report.add_argument(
        "--json", type=Path, default=None, metavar="FILE", help="write the report as JSON ('-': print it)"
    )
    report.add_argument("--html", type=Path, default=None, metavar="FILE", help="write the report as a page")
    report.add_argument("--no-run", dest="launch", action="store_false", help="compile only")
    commands.add_parser("doctor", help="what is here, what is missing, what that costs")
    demo = commands.add_parser("demo", help="execute the showcase notebook and print its table")
    demo.add_argument("--notebook", type=Path, default=Path("notebooks/flash_attention.ipynb"))
    demo.add_argument("--html", type=Path, default=Path("build/flash_attention.html"))
    options = parser.parse_args(arguments)
    try:
        return {"report": _report, "doctor": _doctor, "demo": _demo}[options.command](options)
    except TileError as error:
        print(error.render(), file=sys.stderr)
        return 2


def _report(options: argparse.Namespace) -> int:
    from tilebench.kernel.export import write_report
    from tilebench.kernel.session import run
    from tilebench.report import to_json

    path, _, name = options.program.partition("::")
    try:
        text = Path(path).read_text()
    except OSError as error:
        print(f"{path}: {error.strerror}", file=sys.stderr)
        return 2
    result = run(
        text, name=name, target=options.target, launch=options.launch, namespace={"__name__": "tile_program"}
    )
    if options.json is not None and str(options.json) == "-":
        json.dump(to_json(result.report), sys.stdout)
    elif options.json is not None:
        write_report(result.report, options.json)
    if options.html is not None:
        write_report(result.report, options.html)
    if str(options.json) != "-":
        print(f"{result.report.name} for {result.report.target}: {result.report.verdict}")
    return 1 if result.report.ok is False else 0


def _doctor(options: argparse.Namespace) -> int:
    from tilebench.kernel.doctor import doctor_text

    del options
    print(doctor_text())
    return 0


def _demo(options: argparse.Namespace) -> int:
    from tilebench.kernel.demo import run_demo

    return run_demo(options.notebook, options.html)


if __name__ == "__main__":
    sys.exit(main())
