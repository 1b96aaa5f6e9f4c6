"""Any executor compiles the candidates: what goes to it is `build` and a string."""

from __future__ import annotations

import importlib.util
import multiprocessing
from collections.abc import Generator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

import tilebench
from tests.tuning import programs


class Listening(Executor):
    """Another executor, and what it was given."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.given = inner, []

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        self.given.append((function, arguments))
        return self.inner.submit(function, *arguments, **named)  # type: ignore[no-any-return]


@contextmanager
def dask() -> Generator[Any]:
    if importlib.util.find_spec("distributed") is None:
        pytest.skip("dask's distributed is not installed: pip install 'tilebench[cluster]'")
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client.get_executor()


@contextmanager
def threads() -> Generator[Any]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@contextmanager
def processes() -> Generator[Any]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("executor", [threads, processes, dask], ids=lambda f: f.__name__)
def test_an_executor_compiles_the_candidates(executor: Any) -> None:
    jitted = tilebench.jit(out_idx=[-1], target="cuda:sm_90a")(programs.scale)
    with executor() as pool:
        listening = Listening(pool)
        kernel = tilebench.autotune(configs={"B": [32, 64, 128]}, executor=listening, log=False)(jitted)(4096)
    assert [len(arguments) for _, arguments in listening.given] == [1, 1, 1]
    assert all(isinstance(arguments[0], str) for _, arguments in listening.given)
    assert [t.registers is not None for t in kernel.tuning] == [True, True, True]
    assert kernel.executable.built.cached, "the binary came from the executor"
