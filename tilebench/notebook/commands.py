"""The commands of `%tile`: list, show, diff, doctor, export, clear, config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from IPython.core.error import UsageError

from tilebench import config
from tilebench.errors import nearest
from tilebench.kernel.session import Result


def run(command: str, words: list[str], results: dict[str, Result]) -> Any:
    """Carry out one command."""
    table = {
        "list": _list,
        "show": _show,
        "diff": _diff,
        "doctor": _doctor,
        "export": _export,
        "clear": _clear,
        "config": _config,
    }
    return table[command](words, results)


def _find(name: str, results: dict[str, Result]) -> Result:
    if name not in results:
        raise UsageError(
            f"%tile: no kernel called {name!r}{nearest(name, results)}; there are "
            f"{', '.join(results) or 'none yet'}"
        )
    return results[name]


def _list(words: list[str], results: dict[str, Result]) -> None:
    del words
    for name, result in results.items():
        print(f"{name:20s} {result.kernel.target!s:14s} {result.report.verdict}")
    if not results:
        print("no kernels yet")


def _show(words: list[str], results: dict[str, Result]) -> Any:
    from tilebench.notebook.display import show

    views = [w for w in words if w not in results]
    names = [w for w in words if w in results] or list(results)[-1:]
    if not names:
        raise UsageError("%tile show: no kernel yet")
    return show(_find(names[0], results).report, *views)


def _diff(words: list[str], results: dict[str, Result]) -> Any:
    from tilebench.notebook.display import show_difference

    if len(words) != 2:
        raise UsageError("%tile diff takes two kernels: %tile diff A B")
    return show_difference(_find(words[0], results).report, _find(words[1], results).report)


def _doctor(words: list[str], results: dict[str, Result]) -> None:
    from tilebench.kernel.doctor import doctor_text

    del words, results
    print(doctor_text())


def _export(words: list[str], results: dict[str, Result]) -> None:
    from tilebench.kernel.export import write_report

    if len(words) != 2:
        raise UsageError("%tile export takes a kernel and a file: %tile export NAME report.html (or .json)")
    path = Path(words[1])
    write_report(_find(words[0], results).report, path)
    print(f"wrote {path}")


def _clear(words: list[str], results: dict[str, Result]) -> None:
    for name in words or list(results):
        results.pop(name, None)


def _config(words: list[str], results: dict[str, Result]) -> None:
    del words, results
    current = config.current()
    for name in current.__dataclass_fields__:
        print(f"{name:10s} {getattr(current, name)}")
