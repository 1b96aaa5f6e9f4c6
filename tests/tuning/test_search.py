"""The search, on candidates whose times are made up: drift, noise, crashes, budgets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

from tilebench.tuning.search import FIRST_PAIRS, Plan, Trial, search, winner


class Made:
    """A Runner on a clock of its own. times: milliseconds by candidate; drift: a factor, by the number of the
    reading.
    """

    def __init__(self, times: Sequence[float], drift: Callable[[int], float] = lambda n: 1.0) -> None:
        self.times, self.drift = times, drift
        self.reading = itertools.count()
        self.refused: dict[int, str] = {}
        self.crashing: set[int] = set()
        self.loaded: set[int] = set()
        self.rounds: list[tuple[tuple[int, ...], int]] = []
        self.dropped: list[int] = []

    def load(self, number: int) -> str:
        if number not in self.refused:
            self.loaded.add(number)
        return self.refused.get(number, "")

    def time(self, numbers: Sequence[int], rounds: int) -> tuple[list[list[float]], str]:
        assert set(numbers) <= self.loaded, "only what is loaded is timed"
        self.rounds.append((tuple(numbers), rounds))
        if self.crashing & set(numbers):
            return [], "crashed: it ended its process (signal 11)"
        found: list[list[float]] = [[] for _ in numbers]
        for turn in range(rounds):
            places = range(len(numbers)) if turn % 2 == 0 else reversed(range(len(numbers)))
            for place in places:
                found[place].append(self.times[numbers[place]] * self.drift(next(self.reading)))
        return found, ""

    def drop(self, number: int) -> None:
        self.dropped.append(number)
        self.loaded.discard(number)

    def close(self) -> None:
        self.loaded.clear()


def trials(count: int) -> list[Trial]:
    return [Trial({"B": i}) for i in range(count)]


def run(made: Made, plan: Plan | None = None, order: Sequence[int] | None = None) -> list[Trial]:
    given = trials(len(made.times))
    return search(given, range(len(given)) if order is None else order, made, plan or Plan())


def test_the_fastest_is_found_with_the_times_as_they_are() -> None:
    found = run(Made([2.0, 1.9, 3.0, 1.5, 1.7]), Plan(early_stop_factor=None))
    assert winner(found) == 3
    assert [t.latency_ms for t in found] == pytest.approx([2.0, 1.9, 3.0, 1.5, 1.7])
    assert all(t.state == "measured" and t.rounds >= 5 and t.spread is not None for t in found)


def test_a_clock_that_slows_down_all_the_time_changes_no_choice() -> None:
    """The last candidate is the best by 4 %; the clock loses a third of its speed before it is reached."""
    times = [1.00, 1.02, 1.01, 1.03, 0.96]
    made = Made(times, drift=lambda n: 1.0 + n / 1500)
    found = run(made, Plan(early_stop_factor=None))
    assert winner(found) == 4
    assert next(made.reading) / 1500 > 0.3, "the drift is larger than what is told apart"
    alone = found[0].latency_ms
    assert alone is not None
    assert [t.latency_ms / alone for t in found if t.latency_ms] == pytest.approx(times, rel=0.01)


def test_a_clearly_slower_candidate_gets_three_rounds_only() -> None:
    made = Made([1.0, 1.5, 1.1])
    found = run(made)
    assert [t.state for t in found] == ["measured", "slow", "measured"]
    assert found[1].reason == "1.50 x the best so far after 3 rounds"
    assert found[1].latency_ms == pytest.approx(1.5)
    assert [r for pair, r in made.rounds if 1 in pair] == [FIRST_PAIRS]
    assert 1 in made.dropped


def test_wrong_failing_and_crashing_candidates_are_discarded_with_their_reasons() -> None:
    made = Made([1.0, 0.1, 0.1, 0.1, 0.9])
    made.refused = {1: "wrong result: 3 of 4 elements", 2: "[TB606] elsewhere"}
    made.crashing = {3}
    found = run(made)
    assert [t.state for t in found] == ["measured", "wrong", "failed", "crashed", "measured"]
    assert [bool(t.reason) for t in found] == [False, True, True, True, False]
    assert all(found[i].latency_ms is None for i in (1, 2, 3))
    assert winner(found) == 4


def test_patience_ends_the_search_and_says_so() -> None:
    found = run(Made([1.0, 1.1, 1.1, 0.5]), Plan(patience=2))
    assert winner(found) == 0
    assert (found[3].state, found[3].reason) == ("untried", "2 candidates in a row brought no improvement")


def test_a_spent_budget_ends_the_search_and_says_so() -> None:
    found = run(Made([1.0, 0.5]), Plan(budget_s=-1.0))
    assert winner(found) is None
    assert found[1].reason == "the budget of -1 s was spent"


def test_candidates_are_looked_at_in_the_order_given() -> None:
    made = Made([1.0, 1.1, 0.9])
    run(made, order=[2, 0, 1])
    assert [pair for pair, rounds in made.rounds if rounds == FIRST_PAIRS] == [(2,), (2, 0), (2, 1)]


def test_what_an_earlier_run_measured_takes_part() -> None:
    given = trials(3)
    known = Trial({"B": 0}, latency_ms=8.0, state="measured", remembered=True)
    made = Made([1.0, 0.5, 2.0])
    found = search([known, *given[1:]], [1, 2], made, Plan())
    assert found[1].latency_ms == pytest.approx(4.0), "half of what the log says of the other"
    assert found[0] is known
    assert winner(found) == 1


def test_a_remembered_best_that_fails_now_is_discarded() -> None:
    known = Trial({"B": 0}, latency_ms=8.0, state="measured", remembered=True)
    made = Made([1.0, 0.5])
    made.refused = {0: "[TB610] gone"}
    found = search([known, Trial({"B": 1})], [1], made, Plan())
    assert [t.state for t in found] == ["failed", "measured"]
    assert found[1].latency_ms == pytest.approx(0.5)


def test_close_candidates_meet_in_one_last_round() -> None:
    made = Made([1.0, 1.01, 1.02, 2.0])
    run(made, Plan(early_stop_factor=None))
    assert made.rounds[-1][0] == (0, 1, 2)
