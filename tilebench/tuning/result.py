"""What a search found, as an object that prints as a table: `kernel.tuning`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilebench.report import Figure
from tilebench.tuning.search import Trial
from tilebench.tuning.space import label
from tilebench.views.base import figure_text, html_table

HEAD = ("", "configuration", "time", "predicted", "registers", "spills", "what became of it")


@dataclass(frozen=True)
class Tuning:
    """The trials in the order of the configurations. best: the number of the chosen one; device: where they
    were measured; notes: what was done in another way than asked, and why.
    """

    trials: tuple[Trial, ...]
    best: int | None = None
    device: str = ""
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials)

    def __len__(self) -> int:
        return len(self.trials)

    def __getitem__(self, number: int) -> Trial:
        return self.trials[number]

    def rows(self) -> list[tuple[str, ...]]:
        """The chosen one first, then the measured ones by their time, then the others."""
        by_time = sorted(
            range(len(self.trials)),
            key=lambda i: (i != self.best, self.trials[i].latency_ms or float("inf"), i),
        )
        return [self._row(i, self.trials[i]) for i in by_time]

    def _row(self, number: int, trial: Trial) -> tuple[str, ...]:
        low, high = trial.spread or (None, None)
        time, predicted = "–", "–"
        if trial.latency_ms is not None:
            time = figure_text(
                Figure(trial.latency_ms, "ms", "measured", self.device, low, high, trial.rounds)
            )
        if trial.predicted_us is not None:
            predicted = f"{trial.predicted_us:.4g} us"
        words = trial.state + (f": {trial.reason}" if trial.reason else "")
        return (
            "best" if number == self.best else "", label(trial.config), time, predicted,
            *("–" if n is None else str(n) for n in (trial.registers, trial.spill_bytes)),
            words + (" (from the log)" if trial.remembered else ""),
        )  # fmt: skip

    def __repr__(self) -> str:
        rows = [HEAD, *self.rows()]
        widths = [max(len(r[c]) for r in rows) for c in range(len(HEAD))]
        lines = ["  ".join(x.ljust(w) for x, w in zip(r, widths, strict=True)).rstrip() for r in rows]
        return "\n".join([*lines, *(f"note: {n}" for n in self.notes)])

    def _repr_html_(self) -> Any:
        return html_table(HEAD, self.rows())
