"""`sweep`: the same program with several values of its names, each compiled, run, checked and timed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilebench.errors import LaunchError, TileError
from tilebench.kernel.progress import Progress
from tilebench.kernel.session import Result, run
from tilebench.report import Figure
from tilebench.views.base import figure_text, html_table

MOST = 64
"""Combinations that one sweep may have."""
ROUNDS = 10


@dataclass(frozen=True)
class Point:
    """One combination: its settings, and its result or the reason why there is none."""

    settings: Mapping[str, Any]
    result: Result | None
    reason: str = ""

    @property
    def time(self) -> Figure | None:
        """The measured time in ms, else what the model predicts for the device."""
        if self.result is None:
            return None
        figures = self.result.report.figures
        return figures.get("run_ms") or figures.get("predicted_us")

    @property
    def milliseconds(self) -> float:
        """For comparing; infinite for a point that is wrong or has no time."""
        if self.result is None or self.time is None or self.result.report.ok is False:
            return math.inf
        return self.time.value / (1e3 if self.time.unit == "us" else 1)


@dataclass(frozen=True)
class Sweep:
    """All points, in the order of the values given. Displays as a table."""

    points: tuple[Point, ...]

    @property
    def best(self) -> Point | None:
        """The fastest point whose result is not wrong; None when there is none."""
        chosen = min(self.points, key=lambda p: p.milliseconds)
        return chosen if chosen.milliseconds < math.inf else None

    def rows(self) -> list[tuple[str, ...]]:
        """(settings, time, registers, shared memory, verdict), the best marked."""
        best = self.best
        return [_row(p, p is best) for p in self.points]

    def __repr__(self) -> str:
        rows = [HEAD, *self.rows()]
        widths = [max(len(r[c]) for r in rows) for c in range(len(HEAD))]
        return "\n".join("  ".join(x.ljust(w) for x, w in zip(r, widths, strict=True)).rstrip() for r in rows)

    def _repr_html_(self) -> str:
        return html_table(HEAD, self.rows())


HEAD = ("", "settings", "time", "registers", "shared bytes", "verdict")


def _row(point: Point, is_best: bool) -> tuple[str, ...]:
    settings = " ".join(f"{k}={v}" for k, v in point.settings.items())
    if point.result is None:
        return ("", settings, "–", "–", "–", f"not possible: {point.reason}")
    report = point.result.report
    registers = "–" if report.resources.registers is None else str(report.resources.registers)
    time = "–" if point.time is None else figure_text(point.time)
    mark = {True: "PASS", False: "FAIL", None: "–"}[report.ok]
    verdict = mark if report.ok is not False else f"{mark}, {report.verdict}"
    return ("best" if is_best else "", settings, time, registers, str(report.resources.shared_bytes), verdict)


def sweep(
    program: Any,
    over: Mapping[str, Sequence[Any]],
    *,
    settings: Mapping[str, Any] | None = None,
    bench: int = 0,
    **options: Any,
) -> Sweep:
    """Run the program with every combination of the values in `over`; options are those of `run`.

    A combination that cannot be compiled, or fails, is kept with its reason. bench: rounds of each timing (0:
    10). Raises LaunchError TB616 for a name that the program does not read, TB617 for too many combinations.
    """
    over = {k: v if isinstance(v, list | tuple | range) else (v,) for k, v in over.items()}
    total = math.prod(len(values) for values in over.values())
    if not over or not 0 < total <= MOST:
        raise LaunchError(
            "TB617",
            f"a sweep of {total if over else 0} combinations",
            why=f"1 to {MOST} are tried: each is compiled, run, checked and timed",
            fix="give fewer values: --sweep BLOCK_M=64,128",
        )
    points: list[Point] = []
    with Progress("sweep", total) as progress:
        for values in itertools.product(*over.values()):
            chosen = dict(zip(over, values, strict=True))
            progress.say(" ".join(f"{k}={v}" for k, v in chosen.items()))
            try:
                result = run(
                    program, settings={**(settings or {}), **chosen}, bench=bench or ROUNDS, **options
                )
                points.append(Point(chosen, result))
            except TileError as error:
                if error.code == "TB616":
                    raise
                points.append(Point(chosen, None, f"[{error.code}] {error.what}"))
            progress.advance()
    return Sweep(tuple(points))
