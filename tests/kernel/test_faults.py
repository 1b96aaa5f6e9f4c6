"""Faults of a call that no type shows: tensors that share memory, memory that is gone, loops without end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tilebench
from tilebench.errors import TileError
from tilebench.kernel.program import define

SHIFT = """\
@T.prim_func
def shift(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as bx:
        for i in T.Parallel(64):
            if i > 0:
                Y[i] = X[i - 1]
"""
ROWS = """\
s = T.dynamic("s")

@T.prim_func
def rows(X: T.StridedTensor((32,), (s,), "float32"), Y: T.StridedTensor((32,), (s,), "float32")):
    with T.Kernel(1, threads=32) as bx:
        for i in T.Parallel(32):
            Y[i] = X[i] + 1
"""
SPIN = """\
@T.prim_func
def spin(A: T.Tensor((4,), "int32"), C: T.Tensor((4,), "int32")):
    with T.Kernel(1, threads=32) as bx:
        n = T.alloc_var("int32")
        n = 0
        while n < A[0]:
            C[0] = n
"""


def kernel(text: str, target: str = "interp") -> Any:
    return tilebench.compile(define(text, {}, cell="In[1]")[0], target=target)


def refusal(text: str, *arguments: Any, target: str = "interp") -> TileError:
    with pytest.raises(TileError) as caught:
        kernel(text, target)(*arguments)
    return caught.value


@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_80"])
def test_one_tensor_as_input_and_output_is_refused(target: str, golden: Callable[[str, str], None]) -> None:
    x = torch.zeros(64)
    error = refusal(SHIFT, x, x, target=target)
    golden("errors/TB615-call-input-is-output.txt", error.render() + "\n")


def test_views_that_overlap_are_refused(golden: Callable[[str, str], None]) -> None:
    base = torch.zeros(100)
    error = refusal(SHIFT, base[:64], base[30:94])
    golden("errors/TB615-call-views-overlap.txt", error.render() + "\n")
    array = np.zeros(100, np.float32)
    assert refusal(SHIFT, array[:64], array[36:]).code == "TB615"


def test_views_that_only_lie_beside_each_other_are_not_refused() -> None:
    base = torch.zeros(128)
    kernel(SHIFT)(base[:64], base[64:])
    pairs = torch.zeros(64).reshape(32, 2)
    kernel(ROWS)(pairs[:, 0], pairs[:, 1])
    assert torch.equal(pairs, torch.tensor([0.0, 1.0]).expand(32, 2))
    assert refusal(ROWS, pairs[:, 0], pairs[:, 0]).code == "TB615"


def test_the_same_input_twice_is_not_refused() -> None:
    text = SHIFT.replace("def shift(", 'def add(W: T.Tensor((64,), "float32"), ').replace(
        "X[i - 1]", "X[i] + W[i]"
    )
    x, y = torch.ones(64), torch.zeros(64)
    kernel(text)(x, x, y)
    assert y.sum() == 126


@pytest.mark.parametrize("target", ["interp", "cpu", "emu:sm_80"])
def test_memory_that_was_freed_is_not_read(target: str, golden: Callable[[str, str], None]) -> None:
    x = torch.zeros(64)
    x.untyped_storage().resize_(0)
    error = refusal(SHIFT, x, torch.zeros(64), target=target)
    golden("errors/TB603-call-freed-memory.txt", error.render() + "\n")
    error = refusal(SHIFT, torch.zeros(64, device="meta"), torch.zeros(64), target=target)
    golden("errors/TB603-call-meta-tensor.txt", error.render() + "\n")


def test_a_loop_without_end_is_ended(
    monkeypatch: pytest.MonkeyPatch, golden: Callable[[str, str], None]
) -> None:
    import tilebench.backends.interp.run as run

    monkeypatch.setattr(run, "LOOP_LIMIT", 4096)
    a, c = torch.full((4,), 3, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    error = refusal(SPIN, a, c)
    golden("errors/TB435-endless-loop.txt", error.render() + "\n")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("x.sum()", "T.reduce_sum(x, out"), ("x.max()", "T.reduce_max(x"), ("x.mean()", "divide"),
     ("x.abs()", "T.abs(x[i])"), ("x.T", "T.transpose(x"), ("x.clone()", "T.copy(x"),
     ("x.zero_()", "T.clear(x)")],
)  # fmt: skip
def test_a_method_of_tensors_names_the_op_that_does_it(wrong: str, right: str) -> None:
    text = SHIFT.replace("Y[i] = X[i - 1]", "pass").replace(
        "for i", f'x = T.alloc_fragment((64,), "float32")\n        {wrong}\n        for i'
    )
    with pytest.raises(TileError) as caught:
        kernel(text)
    assert right in caught.value.fix


@pytest.mark.parametrize(
    ("said", "meant"), [("gpu", "cuda"), ("llvm-cpu", ""), ("numpy", "interp"), ("cdua", "cuda")]
)
def test_an_unknown_target_names_the_one_that_was_meant(said: str, meant: str) -> None:
    with pytest.raises(TileError) as caught:
        tilebench.compile(define(SHIFT, {})[0], target=said)
    assert (f"did you mean {meant}?" in caught.value.why) == bool(meant)
