"""The command line: `tilebench report FILE.py::kernel`, `doctor`, `device`, `compat`, `demo`."""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilebench.errors import TileError, nearest

COMMANDS = ("report", "doctor", "device", "compat", "demo")
PRINT = Path("-")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code: 0 well, 1 wrong result or broken part, 2 bad usage or program."""
    parser = argparse.ArgumentParser(prog="tilebench", description="a workbench for GPU kernels")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{" + ",".join(COMMANDS) + "}")
    report = commands.add_parser("report", help="compile, run and report a tile program of a file")
    report.add_argument("program", help="FILE.py or FILE.py::NAME, or a report saved as .json or .tbz")
    report.add_argument("--target", default=None, help="auto, interp, emu[:sm_XX], cpu, cuda[:sm_XX]")
    report.add_argument(
        "--json", type=Path, nargs="?", const=PRINT, default=None, metavar="FILE",
        help="write the report as JSON (no FILE: print it)",
    )  # fmt: skip
    report.add_argument(
        "--html", type=Path, nargs="?", const=PRINT, default=None, metavar="FILE",
        help="write the report as a page (no FILE: NAME.html)",
    )  # fmt: skip
    report.add_argument(
        "--save", type=Path, default=None, metavar="FILE.tbz", help="write the report to read back"
    )
    report.add_argument(
        "--set", action="append", default=[], metavar="K=V", help="value of a name (repeatable)"
    )
    report.add_argument(
        "--args",
        default=None,
        metavar="EXPR",
        help="the inputs, in the file's own names: 'torch.ones(64), 2'",
    )
    report.add_argument(
        "--ref", default=None, metavar="EXPR", help="a function of the inputs to compare with"
    )
    report.add_argument("--check", default="static", help="none, static, sim or full")
    report.add_argument(
        "--bench", type=int, nargs="?", const=20, default=0, metavar="N", help="time N rounds (20)"
    )
    report.add_argument("--seed", type=int, default=0, help="seed of made-up inputs")
    report.add_argument("--no-run", dest="launch", action="store_false", help="compile only")
    commands.add_parser("doctor", help="what is here, what is missing, what that costs")
    commands.add_parser("device", help="the GPUs and the CPU of this machine")
    names = commands.add_parser("compat", help="what becomes of TileLang's names here, and why")
    names.add_argument("names", nargs="+", metavar="T.NAME")
    demo = commands.add_parser("demo", help="execute the showcase notebook and print its table")
    demo.add_argument("--notebook", type=Path, default=Path("notebooks/flash_attention.ipynb"))
    demo.add_argument("--html", type=Path, default=Path("build/flash_attention.html"))
    options = parser.parse_args(arguments)
    table = {"report": _report, "doctor": _doctor, "device": _device, "compat": _compat, "demo": _demo}
    try:
        return table[options.command](options)
    except TileError as error:
        print(error.render(), file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has seen enough (| head)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _report(options: argparse.Namespace) -> int:
    from tilebench.codec import to_json
    from tilebench.views.summary import text

    try:
        _check_endings(options)
        report = _made(options)
    except TileError:
        raise
    except (OSError, ValueError) as error:
        print(f"tilebench report: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return 2
    printed = options.json == PRINT
    files = [
        None if printed else options.json,
        Path(f"{report.name}.html") if options.html == PRINT else options.html,
        options.save,
    ]
    try:
        written = _write(report, [f for f in files if f is not None])
    except (OSError, ValueError) as error:
        print(f"tilebench report: {error}", file=sys.stderr)
        return 2
    if printed:
        json.dump(to_json(report), sys.stdout)
        print(file=sys.stdout)
    else:
        print(text(report))
    out = sys.stderr if printed else sys.stdout
    for path in written:
        print(f"wrote {path.resolve()}", file=out)
    return 1 if report.ok is False else 0


def _made(options: argparse.Namespace) -> Any:
    """The report of a program, or the one in a file. Raises OSError, ValueError, TileError."""
    from tilebench.kernel.export import read_report
    from tilebench.kernel.session import run

    path, _, name = options.program.partition("::")
    if Path(path).suffix in (".json", ".tbz"):
        _refuse_to_run(path, name, options)
        return read_report(Path(path))
    program = _text(path)
    namespace: dict[str, Any] = {"__name__": "tile_program", "__file__": path}
    try:
        made = run(
            program, name=name, target=options.target, launch=options.launch, check=options.check,
            bench=options.bench, seed=options.seed, settings=dict(_setting(s) for s in options.set),
            namespace=namespace, cell=path, **_evaluated(options, program, path),
        )  # fmt: skip
    except SystemExit as error:
        raise ValueError(
            f"{path} ends Python as it is read (exit {error.code}): put that under __name__ == '__main__'"
        ) from None
    if not name:
        _say_choice(path, made.kernel.name, namespace)
    return made.report


def _check_endings(options: argparse.Namespace) -> None:
    """Raises ValueError for a file whose name would make it something else."""
    for option, path, ending in (("--json", options.json, ".json"), ("--html", options.html, ".html")):
        if path not in (None, PRINT) and path.suffix != ending:
            raise ValueError(f"{option} {path}: the name of that file ends in {ending}")


def _refuse_to_run(path: str, name: str, options: argparse.Namespace) -> None:
    """Raises ValueError for an option that a saved report cannot follow."""
    given = {
        "--target": options.target, "--set": options.set, "--args": options.args, "--ref": options.ref,
        "--bench": options.bench, f"::{name}": name, "--no-run": not options.launch,
    }  # fmt: skip
    idle = [option for option, value in given.items() if value]
    if idle:
        raise ValueError(f"{path} is a saved report, which is not run again: leave out {', '.join(idle)}")


def _text(path: str) -> str:
    """The text of a program's file. Raises ValueError naming the nearest file there is."""
    if not path:
        raise ValueError("no file is named: FILE.py or FILE.py::NAME")
    if Path(path).suffix == ".ipynb":
        raise ValueError(f"{path} is a notebook: give the text of its %%tile cell in a .py file")
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        folder = Path(path).parent
        near = nearest(Path(path).name, [p.name for p in folder.glob("*.py")]) if folder.is_dir() else ""
        raise ValueError(f"{path}: {error.strerror}{near}") from error
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error


def _evaluated(options: argparse.Namespace, program: str, path: str) -> dict[str, Any]:
    """The values of --args and --ref, in the names that the file defines, and torch."""
    if options.args is None and options.ref is None:
        return {}
    import torch

    from tilebench.kernel.program import define

    scope: dict[str, Any] = {"__name__": "tile_program", "__file__": path, "torch": torch}
    define(program, scope, cell=path)
    made: dict[str, Any] = {}
    for key in ("args", "ref"):
        text = getattr(options, key)
        if text is None:
            continue
        try:
            made[key] = eval(text, scope)
        except Exception as error:
            raise ValueError(f"--{key} {text!r}: {type(error).__name__}: {error}") from error
    if "args" in made and not isinstance(made["args"], tuple | list):
        made["args"] = (made["args"],)
    return made


def _say_choice(path: str, name: str, namespace: dict[str, Any]) -> None:
    """Which program was taken, where a file has several and none was named."""
    from tilebench.kernel.program import as_program

    known = [
        n for n, v in namespace.items() if not n.startswith("_") and as_program(v, namespace) is not None
    ]
    if len(known) > 1:
        said = f"{path} has {', '.join(known)}: the last was taken, {name}; {path}::NAME takes another"
        print(said, file=sys.stderr)


def _setting(item: str) -> tuple[str, Any]:
    """('N', 64) of 'N=64'; a value that is no Python literal is a string."""
    key, equals, value = item.partition("=")
    if not equals or not key.isidentifier():
        raise ValueError(f"--set takes NAME=VALUE, got {item!r}")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


def _write(report: Any, files: Sequence[Path]) -> list[Path]:
    from tilebench.kernel.export import write_report

    for path in files:
        write_report(report, path)
    return list(files)


def _doctor(options: argparse.Namespace) -> int:
    from tilebench.kernel.doctor import doctor_text

    del options
    print(doctor_text())
    return 0


def _compat(options: argparse.Namespace) -> int:
    from tilebench.language.compat import compat

    verdicts = [compat(name) for name in options.names]
    print("\n".join(str(v) for v in verdicts))
    return 0 if all(v.status not in ("refused", "unknown") for v in verdicts) else 1


def _device(options: argparse.Namespace) -> int:
    from tilebench.kernel.devices import devices_text

    del options
    print(devices_text())
    return 0


def _demo(options: argparse.Namespace) -> int:
    from tilebench.kernel.demo import run_demo

    return run_demo(options.notebook, options.html)


if __name__ == "__main__":
    sys.exit(main())
