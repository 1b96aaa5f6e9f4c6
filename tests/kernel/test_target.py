"""Which GPU a kernel is timed on and named after, where there are several."""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilebench
import tilebench.language as T
from tilebench.backends.cuda import driver
from tilebench.kernel import performance
from tilebench.kernel.args import Call
from tilebench.kernel.target import on_device_of


class Tensor:
    """As much of torch's as is asked for."""

    def __init__(self, kind: str, index: int = 0) -> None:
        self.device = SimpleNamespace(type=kind, index=index)


@T.prim_func
def nothing(X: T.Tensor((4,), "float32")):
    with T.Kernel(1, threads=32) as bx:
        X[bx] = 0


@pytest.mark.parametrize(
    ("values", "entered"),
    [
        ([3, Tensor("cpu"), Tensor("cuda", 1), Tensor("cuda", 1)], [1]),
        ([Tensor("cuda", 0)], [0]),
        ([Tensor("cpu"), np.zeros(3), 2.5], []),
    ],
)
def test_what_is_timed_is_timed_on_the_tensors_gpu(
    values: list[Any], entered: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    @contextmanager
    def device(chosen: Any) -> Any:
        seen.append(chosen.index)
        yield

    fake = SimpleNamespace(Tensor=Tensor, cuda=SimpleNamespace(device=device))
    monkeypatch.setitem(sys.modules, "torch", fake)
    with on_device_of(values):
        assert seen == entered


def test_without_torch_there_is_no_current_device_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert isinstance(on_device_of([np.zeros(3)]), nullcontext)


@pytest.mark.parametrize(("device", "index"), [("cuda:1", 1), ("cuda:0", 0), ("", None)])
def test_a_report_names_the_gpu_of_the_last_call(
    device: str, index: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = tilebench.compile(nothing, target="cuda:sm_90a")
    kernel.last_call = Call((), {}, (1,), (), device)
    monkeypatch.setattr(performance, "device_of", lambda target: "cuda")
    monkeypatch.setattr(driver, "available", lambda: True)
    monkeypatch.setattr(driver, "device_name", lambda asked=None: f"GPU {asked}")
    assert performance.device_label(kernel) == f"GPU {index}"
