"""A program on every target that runs here, against the answer that NumPy gives; or where it is refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tilebench
from tilebench.errors import TileError
from tilebench.kernel.emulate import emulate

Array = np.ndarray[Any, Any]
EMULATED = ("emu:sm_90a", "emu:sm_80")
TARGETS = ("interp", "cpu", *EMULATED)


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    """Integers from -3 to 3 without 0."""
    rng = np.random.default_rng(seed)
    return (rng.integers(1, 4, shape) * rng.choice([-1, 1], shape)).astype(dtype)


def poisoned(like: Array) -> Array:
    """An array of this shape and type that holds no right answer."""
    fresh = np.empty_like(like)
    fresh.view(np.uint8)[...] = 0x5B
    return fresh


def check(
    program: Any,
    inputs: Sequence[Array],
    *want: Array,
    start: Sequence[Array] = (),
    numbers: Sequence[int] = (),
    targets: Sequence[str] = TARGETS,
) -> None:
    """The program takes inputs, then its outputs, then numbers; each output must be `want`, bit for bit.

    start: what the outputs hold before (poison). The emulator must find nothing wrong.
    """
    for target in targets:
        before = [v.copy() for v in start] or [poisoned(v) for v in want]
        values = [*(v.copy() for v in inputs), *before, *numbers]
        if target.startswith("emu"):
            result = emulate(tilebench.compile(program, target="interp"), *values, target=target)
            assert not result.findings, f"{target}: {result}"
        else:
            tilebench.compile(program, target=target)(*values)
        for n, (got, right) in enumerate(zip(before, want, strict=True)):
            np.testing.assert_array_equal(got, right, err_msg=f"output {n} on {target}")


def check_on_gpu(
    program: Any,
    inputs: Sequence[Array],
    *want: Array,
    start: Sequence[Array] = (),
    targets: Sequence[str] = (),
) -> None:
    """`check` on this machine's GPU alone."""
    import torch

    del targets
    before = [v.copy() for v in start] or [poisoned(v) for v in want]
    held = [torch.from_numpy(v.copy()).cuda() for v in (*inputs, *before)]
    tilebench.compile(program, target="cuda")(*held)
    torch.cuda.synchronize()
    for got, right in zip(held[len(inputs) :], want, strict=True):
        np.testing.assert_array_equal(got.cpu().numpy(), right)


def repeat_on_gpu(
    case: Callable[..., None], arguments: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test of this folder with arguments of its own, on this machine's GPU alone."""
    monkeypatch.setitem(case.__globals__, "check", check_on_gpu)
    case(*arguments)


def refused(make: Callable[[], Any], code: str, marker: str, target: str = "emu:sm_90a") -> TileError:
    """Making and compiling the program fails with this code, on the line of its text that has `marker`."""
    with pytest.raises(TileError) as caught:
        tilebench.compile(make(), target=target)
    error = caught.value
    assert error.code == code, error
    lines, first = inspect.getsourcelines(make)
    where = [first + n for n, line in enumerate(lines) if marker in line]
    assert error.at is not None, error
    assert error.at.line in where, f"{error}\nexpected on line {where}"
    return error
