"""Candidates in a worker process: one that brings it down is discarded, the others go on in another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilebench
from tests.tuning import programs
from tilebench.targets import parse
from tilebench.tuning.bench import Rule
from tilebench.tuning.job import Job, setup
from tilebench.tuning.portable import NotPortable
from tilebench.tuning.remote import Remote, Worker, WorkerDied


def job(factory: Any) -> Job:
    return Job(tilebench.jit(out_idx=[-1], target="cpu")(factory), (64,), {}, parse("cpu"), "")


def remote(made: Job, tiles: list[int]) -> Remote:
    message = setup(made, [np.ones(64, np.float32)], None, Rule())
    return Remote(message, {i: made.request({"B": b}) for i, b in enumerate(tiles)}, {}, 120.0)


def test_a_crash_costs_one_candidate_and_a_restart() -> None:
    runner = remote(job(programs.fragile), [16, 32, 64])
    try:
        assert runner.load(0) == ""
        assert runner.load(1).startswith("crashed: it ended its process (signal 11)")
        assert runner.load(2) == ""
        times, reason = runner.time([0, 2], 2)
        assert not reason
        assert [len(t) for t in times] == [2, 2]
        assert min(min(t) for t in times) > 0
        assert runner.restarts == 1, "the first candidate was loaded again in the second worker"
    finally:
        runner.close()


def test_what_is_wrong_is_said_by_the_worker() -> None:
    runner = remote(job(programs.half), [16])
    try:
        assert runner.load(0) == "wrong result: 48 of 64 elements of Y are never written"
    finally:
        runner.close()


def test_a_worker_that_does_not_answer_in_time_is_given_up() -> None:
    worker = Worker()
    try:
        with pytest.raises(WorkerDied, match=r"did not finish within 0\.01 s"):
            worker.ask({"do": "build"}, [b"{}"], 0.01)
    finally:
        worker.close()


def test_inputs_that_a_worker_would_see_otherwise_are_refused() -> None:
    with pytest.raises(NotPortable, match="not contiguous"):
        setup(job(programs.scale), [np.ones((8, 8), np.float32).T], None, Rule())
