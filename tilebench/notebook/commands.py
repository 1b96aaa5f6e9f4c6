"""The commands of `%tile`: list, show, diff, device, doctor, export, clear, config."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol, cast

from IPython.core.error import UsageError

from tilebench import config
from tilebench.errors import TileError, nearest
from tilebench.kernel.export import ENDINGS, write_report
from tilebench.kernel.session import Result
from tilebench.report import VIEWS, Report


class Holder(Protocol):
    """What the magics keep: results by key, the variable of each, and changes of the configuration."""

    results: dict[str, Result]
    names: dict[str, str]
    changes: dict[str, Any]


def run(command: str, words: list[str], held: Holder) -> Any:
    """Carry out one command. Raises UsageError."""
    return COMMANDS[command](words, held)


def _find(name: str, results: Mapping[str, Result]) -> Result:
    if name not in results:
        raise UsageError(
            f"%tile: no kernel called {name!r}{nearest(name, results)}; there are "
            f"{', '.join(results) or 'none yet'}"
        )
    return results[name]


def _list(words: list[str], held: Holder) -> None:
    _nothing_more("list", words)
    rows = [("variable", "kernel", "target", "run", "verdict")]
    for key, result in held.results.items():
        figure = result.report.figures.get("run_ms")
        time = "–" if figure is None else f"{figure.value:.3g} ms"
        kernel = result.kernel
        rows.append((held.names.get(key, key), kernel.name, str(kernel.target), time, result.report.verdict))
    if len(rows) == 1:
        print("no kernels yet: a cell that starts with %%tile makes one")
        return
    widths = [max(len(r[c]) for r in rows) for c in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip())


def _show(words: list[str], held: Holder) -> Any:
    from tilebench.notebook.display import show

    views = [w for w in words if w in VIEWS]
    names = [w for w in words if w not in VIEWS]
    if len(names) > 1:
        if all(n in held.results for n in names):
            raise UsageError(
                f"%tile show takes one kernel, got {' and '.join(names)}: %tile diff compares two"
            )
        wrong = next(n for n in names if n not in held.results)
        raise UsageError(
            f"%tile show: {wrong!r} is neither a kernel nor a view{nearest(wrong, (*held.results, *VIEWS))}; "
            f"views are {', '.join(VIEWS)}"
        )
    if not names and not held.results:
        raise UsageError("%tile show: no kernel yet; a cell that starts with %%tile makes one")
    name = names[0] if names else list(held.results)[-1]
    if name not in held.results:
        known = (*held.results, *VIEWS)
        raise UsageError(
            f"%tile show: {name!r} is neither a kernel nor a view{nearest(name, known)}; kernels are "
            f"{', '.join(held.results) or 'none yet'}; views are {', '.join(VIEWS)}"
        )
    return show(_find(name, held.results).report, *views)


def _diff(words: list[str], held: Holder) -> Any:
    from tilebench.notebook.display import show_difference

    if len(words) != 2:
        raise UsageError("%tile diff takes two kernels: %tile diff A B")
    return show_difference(_find(words[0], held.results).report, _find(words[1], held.results).report)


def _device(words: list[str], held: Holder) -> None:
    from tilebench.kernel.devices import devices_text

    _nothing_more("device", words)
    print(devices_text())


def _doctor(words: list[str], held: Holder) -> None:
    from tilebench.kernel.doctor import doctor_text

    _nothing_more("doctor", words)
    print(doctor_text())


def _export(words: list[str], held: Holder) -> None:
    if len(words) != 2:
        raise UsageError(f"%tile export takes a kernel and a file that ends in {', '.join(ENDINGS)} or .cu")
    path, result = Path(words[1]), _find(words[0], held.results)
    if path.suffix == ".cu":
        text = next((c.text for c in result.report.code if c.level == "cuda"), None)
        if text is None:
            raise UsageError(f"%tile export: {words[0]} has no CUDA text")
        try:
            path.write_text(text)
        except OSError as error:
            raise UsageError(f"%tile export: {path}: {error.strerror}") from None
    else:
        save(result.report, path, "%tile export")
    print(f"wrote {path}")


def save(report: Report, path: Path, who: str) -> None:
    """Write a report. Raises UsageError, in the name of what was asked for, when that cannot be."""
    try:
        write_report(report, path)
    except ValueError as error:
        raise UsageError(f"{who}: {error}") from None
    except OSError as error:
        raise UsageError(f"{who}: {path}: {error.strerror or error}") from None


def _clear(words: list[str], held: Holder) -> None:
    for name in words:
        _find(name, held.results)
    gone = list(dict.fromkeys(words)) or list(held.results)
    for name in gone:
        held.results.pop(name)
        held.names.pop(name, None)
    print(f"forgot {', '.join(gone) or 'nothing: there were no kernels'}; variables keep their kernels")


def _config(words: list[str], held: Holder) -> None:
    """Show the configuration, or change it for the magics of this notebook: `%tile config static=1`."""
    known = {f.name: f.type for f in fields(config.Config)}
    changes = dict(held.changes)
    for word in words:
        key, equals, text = word.partition("=")
        if key not in known:
            raise UsageError(f"%tile config: no setting {key!r}{nearest(key, known)}; {', '.join(known)}")
        if not equals:
            raise UsageError(f"%tile config: expected {key}=VALUE ({key}= for the default)")
        if not text:
            changes.pop(key, None)
            continue
        changes[key] = _value(key, text)
    held.changes.clear()
    held.changes.update(changes)
    with config.using(**held.changes):
        current = config.current()
    for name in known:
        mark = "  (changed here)" if name in held.changes else ""
        print(f"{name:10s} {getattr(current, name)}{mark}")


def _value(key: str, text: str) -> Any:
    default = getattr(config.Config(), key)
    if key == "cache_dir":
        return None if text in ("None", "off") else Path(text).expanduser()
    if key == "target":
        from tilebench.targets import parse

        try:
            return str(parse(text))
        except TileError as error:
            raise UsageError(f"%tile config: {error.what}: {error.why}") from None
    if isinstance(default, bool):
        if text.lower() not in ("0", "1", "true", "false", "on", "off"):
            raise UsageError(f"%tile config: {key} is on or off, got {text!r}")
        return text.lower() in ("1", "true", "on")
    try:
        number: Any = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        number = None
    if not isinstance(number, int) or number < 0:
        raise UsageError(f"%tile config: {key} is a whole number, got {text!r}")
    return number


def _nothing_more(command: str, words: list[str]) -> None:
    if words:
        raise UsageError(f"%tile {command} takes no arguments, got {' '.join(words)}")


COMMANDS = cast(
    "dict[str, Callable[[list[str], Holder], Any]]",
    {
        "list": _list,
        "show": _show,
        "diff": _diff,
        "device": _device,
        "doctor": _doctor,
        "export": _export,
        "clear": _clear,
        "config": _config,
    },
)
