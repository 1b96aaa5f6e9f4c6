"""Which candidate is the fastest: in the order of the cost model, each against the best so far, in turn.

Every candidate is timed beside the best one so far, the two in alternation, and its time is

    time of the best so far x median over the pairs of (its reading / the best's reading)

so a clock that drifts between the first candidate and the last changes neither. A short first round decides
whether a candidate is worth a long one; the few that end close together meet again at the end.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tilebench.tuning.bench import Runner

State = Literal["measured", "slow", "wrong", "failed", "crashed", "untried"]
FIRST_PAIRS = 3
LEAST_PAIRS, MOST_PAIRS = 5, 200
CLOSE = 1.03
"""Candidates within this factor of the best are timed once more, all in one round."""
FINALISTS = 4
GAIN = 0.99
"""A candidate counts as an improvement, for patience, below this share of the best."""


@dataclass(frozen=True)
class Trial:
    """One configuration and what became of it.

    state: measured; slow (dropped after the first round: its time is of that round); wrong, failed or
    crashed, with the reason; untried (the search ended before it). latency_ms: measured, relative to the
    best of its time; spread: lower and upper quartile of it; rounds: pairs of readings; predicted_us: of
    the model; remembered: the record is of an earlier run.
    """

    config: Mapping[str, Any]
    latency_ms: float | None = None
    reason: str = ""
    state: State = "untried"
    spread: tuple[float, float] | None = None
    rounds: int = 0
    predicted_us: float | None = None
    registers: int | None = None
    spill_bytes: int | None = None
    remembered: bool = False


@dataclass(frozen=True)
class Plan:
    """How long to look. warmup_ms, rep_ms: readings of a candidate take about this long; early_stop_factor: a
    candidate slower than the best by this factor after the first round is dropped (None: never); budget_s:
    no candidate is begun after it; patience: nor after so many in a row without an improvement.
    """

    warmup_ms: float = 25.0
    rep_ms: float = 100.0
    early_stop_factor: float | None = 1.2
    budget_s: float | None = None
    patience: int | None = None


def search(
    trials: Sequence[Trial],
    order: Sequence[int],
    runner: Runner,
    plan: Plan,
    said: Callable[[int, Trial], None] = lambda number, trial: None,
    begun: Callable[[Trial], None] = lambda trial: None,
    start: float | None = None,
) -> list[Trial]:
    """The trials, those named in `order` decided.

    trials: by number; the remembered ones take part with their times. said: is told of each decision at once;
    begun: of the candidate that is looked at now; start: when the budget began (time.monotonic).
    """
    found = list(trials)
    best = _best(found)
    loaded: set[int] = set()
    since, clock = 0, time.monotonic() if start is None else start
    for number in order:
        ended = _ended(plan, clock, since)
        if ended:
            found[number] = replace(found[number], reason=ended)
            continue
        begun(found[number])
        if best is not None and best not in loaded:
            reason = runner.load(best)
            if reason:  # what was right in an earlier run is not now
                found[best] = _discarded(found[best], reason)
                said(best, found[best])
                best = None
            else:
                loaded.add(best)
        trial = _decided(found[number], number, found, best, runner, plan)
        found[number] = trial
        said(number, trial)
        since += 1
        if trial.state != "measured":
            runner.drop(number)
        elif best is None or _ms(trial) < _ms(found[best]):
            since = 0 if best is None or _ms(trial) < GAIN * _ms(found[best]) else since
            if best is not None and _ms(found[best]) > CLOSE * _ms(trial):
                loaded.discard(best)
                runner.drop(best)
            best = number
            loaded.add(number)
        elif _ms(trial) <= CLOSE * _ms(found[best]):
            loaded.add(number)
        else:
            runner.drop(number)
    _final(found, best, loaded, runner, plan, said)
    return found


def _ended(plan: Plan, start: float, since: int) -> str:
    if plan.budget_s is not None and time.monotonic() - start > plan.budget_s:
        return f"the budget of {plan.budget_s:g} s was spent"
    if plan.patience is not None and since >= plan.patience:
        return f"{since} candidates in a row brought no improvement"
    return ""


def _ms(trial: Trial) -> float:
    return float("inf") if trial.latency_ms is None else trial.latency_ms


def _best(trials: Sequence[Trial]) -> int | None:
    known = [i for i, t in enumerate(trials) if t.state == "measured"]
    return min(known, key=lambda i: _ms(trials[i]), default=None)


def _discarded(trial: Trial, reason: str) -> Trial:
    state: State = (
        "crashed" if reason.startswith("crashed") else "wrong" if reason.startswith("wrong") else "failed"
    )
    return replace(trial, state=state, reason=reason, latency_ms=None, remembered=False)


def _decided(
    trial: Trial, number: int, trials: Sequence[Trial], best: int | None, runner: Runner, plan: Plan
) -> Trial:
    """One candidate loaded, checked and timed beside the best."""
    reason = runner.load(number)
    if reason:
        return _discarded(trial, reason)
    pair = [number] if best is None else [best, number]
    first, reason = runner.time(pair, FIRST_PAIRS)
    if reason:
        return _discarded(trial, reason)
    quick = statistics.median(first[-1])
    if best is not None and plan.early_stop_factor is not None:
        estimate = _relative(first, _ms(trials[best]))
        if estimate.latency > plan.early_stop_factor * _ms(trials[best]):
            ratio = estimate.latency / _ms(trials[best])
            return replace(
                trial, state="slow", latency_ms=estimate.latency, spread=estimate.spread,
                rounds=len(first[-1]), reason=f"{ratio:.2f} x the best so far after {FIRST_PAIRS} rounds",
            )  # fmt: skip
    _, reason = runner.time(pair, _pairs(plan.warmup_ms, quick, 0))
    times, again = runner.time(pair, _pairs(plan.rep_ms, quick, LEAST_PAIRS)) if not reason else ([], reason)
    if again:
        return _discarded(trial, again)
    made = _relative(times, None if best is None else _ms(trials[best]))
    return replace(
        trial, state="measured", latency_ms=made.latency, spread=made.spread, rounds=len(times[-1]), reason=""
    )


def _pairs(milliseconds: float, once: float, least: int) -> int:
    return max(least, min(MOST_PAIRS, int(milliseconds / max(once, 1e-4))))


@dataclass(frozen=True)
class _Time:
    latency: float
    spread: tuple[float, float]


def _relative(times: Sequence[Sequence[float]], known: float | None) -> _Time:
    """The time of the last of the candidates, from its readings or from their ratios to the first's."""
    if known is None or len(times) == 1:
        return _Time(statistics.median(times[-1]), _quartiles(times[-1]))
    ratios = [b / a for a, b in zip(times[0], times[-1], strict=True)]
    low, high = _quartiles(ratios)
    return _Time(known * statistics.median(ratios), (known * low, known * high))


def _quartiles(samples: Sequence[float]) -> tuple[float, float]:
    if len(samples) < 4:
        return min(samples), max(samples)
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, high


def _final(
    trials: list[Trial],
    best: int | None,
    loaded: set[int],
    runner: Runner,
    plan: Plan,
    said: Callable[[int, Trial], None],
) -> None:
    """The candidates that end close to the best are timed in one round; their times are of that round."""
    if best is None:
        return
    close = sorted(
        (n for n in loaded if trials[n].state == "measured" and _ms(trials[n]) <= CLOSE * _ms(trials[best])),
        key=lambda n: _ms(trials[n]),
    )[:FINALISTS]
    if len(close) < 2 or close[0] != best:
        return
    times, reason = runner.time(close, _pairs(plan.rep_ms, _ms(trials[best]), LEAST_PAIRS))
    if reason:
        return  # their times of before stand
    known = _ms(trials[best])
    for place, number in enumerate(close[1:], start=1):
        made = _relative([times[0], times[place]], known)
        trials[number] = replace(
            trials[number], latency_ms=made.latency, spread=made.spread, rounds=len(times[place])
        )
        said(number, trials[number])


def winner(trials: Sequence[Trial]) -> int | None:
    """The number of the fastest measured trial; of equals the first."""
    return _best(trials)
