"""A tuning from its candidates to its result: what the log knows, compiles, order, search."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilebench import __version__, config
from tilebench.errors import LaunchError
from tilebench.kernel.compiled import Kernel
from tilebench.kernel.progress import Progress
from tilebench.kernel.target import is_absent
from tilebench.tuning.bench import Bench, Rule, Runner
from tilebench.tuning.build import Compiled, build, facts, keep_binary, read_answer, reason_of
from tilebench.tuning.job import Job, expected_of, setup
from tilebench.tuning.log import Log, config_key, key_of
from tilebench.tuning.portable import Data, NotPortable
from tilebench.tuning.remote import Compilers, Remote, Worker, WorkerDied
from tilebench.tuning.result import Tuning
from tilebench.tuning.search import Plan, Trial, search, winner
from tilebench.tuning.space import Candidate, label

SAFE_KINDS = ("interp", "emu")
"""Targets that run in Python: nothing there can end the process, and compiling takes milliseconds."""


class NothingWorks(LaunchError, RuntimeError):
    """No configuration compiles, runs and is right."""


@dataclass(frozen=True)
class Options:
    """What `autotune` was told; see there."""

    plan: Plan = field(default_factory=Plan)
    rule: Rule = field(default_factory=Rule)
    ref_prog: Callable[..., Any] | None = None
    supply_prog: Callable[..., Any] | None = None
    supply_type: Any = None
    timeout_s: float = 100.0
    executor: Executor | None = None
    workers: int = 0
    log: str | Path | bool = True
    isolate: bool = True


def tune(job: Job, candidates: Sequence[Candidate], options: Options, runner: Runner | None = None) -> Tuning:
    """Decide every candidate and say which is the fastest.

    runner: where candidates run, in place of the one that the target asks for. On a machine without the
    target's GPU nothing is measured: the model's first choice is the best then, and a note says so. Raises
    NothingWorks (TB644) with the reasons.
    """
    start = time.monotonic()
    notes: list[str] = []
    portable = _portable(job, candidates, notes) if job.target.kind not in SAFE_KINDS else None
    log = _log(job, portable, options, notes)
    known = log.read()
    trials = [replace(known.get(config_key(c), Trial({})), config=c) for c in candidates]
    with Progress(f"tuning {job.name}", len(candidates)) as progress:
        done = sum(t.state != "untried" for t in trials)
        if done:
            progress.advance(done)
        missing = [i for i, t in enumerate(trials) if t.state == "untried"]
        with _compiles(job, candidates, missing, portable, options, notes) as (made, pool):
            compiled = _all(made, trials, progress, log, options)
            for answer in compiled.values():
                keep_binary(answer, job.target.arch or "")
            absent = is_absent(job.target) and runner is None
            spare = pool.take() if pool is not None and compiled and not absent else None
        order = sorted(compiled, key=lambda i: (compiled[i].order, i))
        if absent:
            notes.append(f"there is no GPU for {job.target} here: nothing was measured, the model chose")
            trials = [replace(t, reason="not measured") if i in compiled else t for i, t in enumerate(trials)]
            progress.advance(len(compiled))
        elif order:

            def said(number: int, trial: Trial) -> None:
                log.write(trial)
                if number in compiled:
                    progress.advance(note=f"{label(trial.config)}: {trial.state}")

            def begun(trial: Trial) -> None:
                progress.say(label(trial.config))

            with _spared(spare):
                own = runner or _runner(job, candidates, compiled, portable, options, notes, spare)
                with closing(own):
                    trials = search(trials, order, own, options.plan, said, begun, start)
    best = _predicted_best(trials) if absent else winner(trials)
    if best is None:
        raise _nothing(job, trials)
    return Tuning(tuple(trials), best, job.device, tuple(notes))


def _spared(worker: Worker | None) -> AbstractContextManager[Any]:
    """Ends the worker that was taken over from the compiles."""
    return nullcontext() if worker is None else closing(worker)


def _predicted_best(trials: Sequence[Trial]) -> int | None:
    """The trial with the least predicted time; of those without one, the first that compiles."""
    alive = [i for i, t in enumerate(trials) if t.state == "untried"]
    return min(alive, key=lambda i: (trials[i].predicted_us or float("inf"), i), default=None)


def _nothing(job: Job, trials: Sequence[Trial]) -> NothingWorks:
    said = [f"{label(t.config)}: {t.reason or t.state}" for t in trials]
    more = f"\n... and {len(said) - 5} more" if len(said) > 5 else ""
    return NothingWorks(
        "TB644",
        f"autotune: none of the {len(trials)} configurations of {job.name} works",
        why="\n".join(said[:5]) + more,
        fix="the reasons say what to change; skip_check=True times wrong kernels too",
    )


# ------------------------------------------------------------------ what can be sent, and the log


def _portable(job: Job, candidates: Sequence[Candidate], notes: list[str]) -> list[Data] | None:
    """The candidates as requests; None, with a note and a warning, for a program that cannot be sent."""
    try:
        return [job.request(c) for c in candidates]
    except NotPortable as error:
        note = (
            f"{job.name} cannot be sent to other processes ({error}): it is compiled by threads and measured "
            "in this process, which a crash would end"
        )
        notes.append(note)
        warnings.warn(note, stacklevel=5)
        return None


def _log(job: Job, portable: Sequence[Data] | None, options: Options, notes: list[str]) -> Log:
    """Where this tuning is remembered. A program without a text has no key, so it is not."""
    if options.log is False:
        return Log(None, "")
    try:
        about = dict(job.description)
    except NotPortable as error:
        if portable is not None or job.target.kind in SAFE_KINDS:
            notes.append(f"nothing is remembered: the program has no key ({error})")
        return Log(None, "")
    about.pop("config")
    texts = ["\n".join(line for line in text.splitlines() if line) for text, _ in about["program"]["texts"]]
    about["program"] = {
        **about["program"],
        "texts": texts,
    }  # lines may move in their file
    reference = options.ref_prog is not None and options.rule.check == "reference"
    key = key_of(
        {**about, "version": __version__, "rule": vars(options.rule), "reference": reference,
         "threads": config.current().threads}
    )  # fmt: skip
    if options.log is True:
        root = config.current().cache_dir
        return Log(None if root is None else root / "tuning" / f"{job.name}-{key[:12]}.jsonl", key)
    return Log(Path(options.log), key)


# ------------------------------------------------------------------ compiles


@contextmanager
def _compiles(
    job: Job,
    candidates: Sequence[Candidate],
    missing: Sequence[int],
    portable: Sequence[Data] | None,
    options: Options,
    notes: list[str],
) -> Generator[tuple[dict[Any, int], Compilers | None]]:
    """A future of the answer's text for each candidate that is to be compiled, with its number; and the
    workers that compile, where they are our own.
    """

    def here(number: int) -> str:
        try:
            kernel = job.kernel(candidates[number])
            return json.dumps(facts(kernel, {"device": job.device}, 0.0))
        except Exception as error:  # the factory is the user's: whatever it raises is the candidate's reason
            return json.dumps({"reason": reason_of(error)})

    count = max(1, min(options.workers or os.cpu_count() or 1, len(missing)))
    if not missing:
        yield {}, None
        return
    if portable is not None and options.executor is not None:
        yield {options.executor.submit(build, json.dumps(portable[i])): i for i in missing}, None
        return
    if portable is not None:
        pool = Compilers(count)
        try:
            yield {pool.submit(json.dumps(portable[i]), options.timeout_s): i for i in missing}, pool
        finally:
            pool.close()
        return
    if options.executor is not None and not isinstance(options.executor, ThreadPoolExecutor):
        notes.append("the executor was not used: what cannot be sent as text is compiled by threads")
    own = None if isinstance(options.executor, ThreadPoolExecutor) else ThreadPoolExecutor(count)
    threads = own or options.executor
    assert threads is not None, "one of the two"
    try:
        yield {threads.submit(here, i): i for i in missing}, None
    finally:
        if own is not None:
            own.shutdown(wait=True, cancel_futures=True)


def _all(
    made: Mapping[Any, int], trials: list[Trial], progress: Progress, log: Log, options: Options
) -> dict[int, Compiled]:
    """The compiled candidates by number; the trials of the others are decided here."""
    compiled: dict[int, Compiled] = {}
    budget = options.plan.budget_s
    limit = options.timeout_s * max(1, len(made)) if budget is None else budget / 2
    try:
        for done, future in enumerate(as_completed(made, timeout=limit), start=1):
            number = made[future]
            try:
                answer = read_answer(future.result())
            except WorkerDied as error:
                answer = Compiled(f"crashed: the compile: {error}")
            progress.say(f"compiled {done} of {len(made)}")
            if answer.reason:
                state = "crashed" if answer.reason.startswith("crashed") else "failed"
                trials[number] = replace(trials[number], state=state, reason=answer.reason)
                log.write(trials[number])
                progress.advance(note=f"{label(trials[number].config)}: {state}")
                continue
            compiled[number] = answer
            trials[number] = replace(
                trials[number], predicted_us=answer.predicted_us, registers=answer.registers,
                spill_bytes=answer.spill_bytes,
            )  # fmt: skip
    except TimeoutError:
        for future, number in made.items():
            if number not in compiled and trials[number].state == "untried":
                future.cancel()
                trials[number] = replace(trials[number], reason=f"not compiled within {limit:g} s")
    return compiled


# ------------------------------------------------------------------ where candidates run


def _runner(
    job: Job,
    candidates: Sequence[Candidate],
    compiled: Mapping[int, Compiled],
    portable: Sequence[Data] | None,
    options: Options,
    notes: list[str],
    spare: Worker | None,
) -> Runner:
    """A worker process for targets that can end one (`spare`, or a new one), else this process."""
    first = min(compiled, key=lambda i: (compiled[i].order, i))
    kernel = job.kernel(candidates[first])
    inputs = job.inputs(kernel, options.supply_prog, options.supply_type)
    rule, expected = options.rule, None
    if rule.check == "reference" and options.ref_prog is not None:
        expected = expected_of(kernel, inputs, options.ref_prog)

    def local() -> Bench:
        return Bench(lambda number: job.kernel(candidates[number]), inputs, expected, rule)

    if portable is None or not options.isolate:
        return local()
    try:
        message = setup(job, inputs, expected, rule)
    except NotPortable as error:
        notes.append(f"candidates were measured in this process: {error}")
        return local()
    answers = {
        i: json.dumps({"reason": "", "binary": c.binary.portable()})
        for i, c in compiled.items()
        if c.binary is not None
    }
    return Remote(message, dict(enumerate(portable)), answers, options.timeout_s, spare)


def chosen_kernel(job: Job, tuning: Tuning) -> Kernel:
    """The kernel of the best candidate, with its configuration, its time and the trials."""
    assert tuning.best is not None, "tune raises when nothing works"
    trial = tuning[tuning.best]
    kernel = job.kernel(dict(trial.config))
    kernel.config, kernel.latency, kernel.tuning = dict(trial.config), trial.latency_ms, tuning
    return kernel


__all__ = ["NothingWorks", "Options", "chosen_kernel", "tune"]
