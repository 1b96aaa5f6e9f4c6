"""The memory of what this process has compiled: same program, same values, same target, or it misses."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilebench
from tilebench import compiler, config
from tilebench.kernel import recall
from tilebench.kernel.program import define, prepare

PRIM = """
def scale(rows=64):
    @T.prim_func
    def scale_kernel(X: T.Tensor((rows, 32), "float32"), Y: T.Tensor((rows, 32), "float32")):
        with T.Kernel(rows // 16, threads=32) as bx:
            for i, j in T.Parallel(16, 32):
                Y[bx * 16 + i, j] = X[bx * 16 + i, j] * FACTOR
    return scale_kernel

kernel = scale()
"""
FACTORY = PRIM.replace("kernel = scale()", "kernel = tilebench.jit(scale)")
MACRO = """
@T.macro
def twice(A, B, i):
    B[i] = A[i] * helper(2.0)

def helper(x):
    return x + OFFSET

@T.prim_func
def macro_kernel(X: T.Tensor((32,), "float32"), Y: T.Tensor((32,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(32):
            twice(X, Y, i)
"""
EAGER = """
@tilebench.jit
def double(X):
    M = T.const("M")
    X: T.Tensor((M,), "float32")
    Y = T.empty((M,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(M):
            Y[i] = X[i] * 2
    return Y
"""


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The kernels that the compiler was asked to build, in order; nothing is remembered from other tests."""
    recall.memory().clear()
    seen: list[str] = []
    analyse = compiler.analyse

    def counted(kernel: Any, *rest: Any, **named: Any) -> Any:
        seen.append(kernel.name)
        return analyse(kernel, *rest, **named)

    monkeypatch.setattr(compiler, "analyse", counted)
    yield seen
    recall.memory().clear()


def run_cell(text: str, scope: dict[str, Any], target: str = "cuda:sm_90a", **settings: Any) -> Any:
    """One run of a cell, as `%%tile` does it."""
    program, _ = define(text, scope)
    values = (
        np.zeros((settings.get("rows", 64), 32), np.float32),
        np.zeros((settings.get("rows", 64), 32), np.float32),
    )
    return (
        prepare(program, values, settings, target).kernel
        if settings
        else tilebench.compile(program, target=target)
    )


def test_second_run_of_a_cell_compiles_nothing(compiled: list[str]) -> None:
    scope: dict[str, Any] = {"FACTOR": 2.0}
    first, second = (run_cell(PRIM, scope) for _ in range(2))
    assert compiled == ["scale_kernel"]
    assert first is not second
    assert first.executable is second.executable
    assert first.get_kernel_source() == second.get_kernel_source()


def test_a_changed_global_misses(compiled: list[str]) -> None:
    scope: dict[str, Any] = {"FACTOR": 2.0}
    first = run_cell(PRIM, scope)
    scope["FACTOR"] = 3.0
    second = run_cell(PRIM, scope)
    assert len(compiled) == 2
    assert "3.0f" in second.get_kernel_source()
    assert "3.0f" not in first.get_kernel_source()


def test_signs_of_zero_and_types_of_numbers_are_told_apart(compiled: list[str]) -> None:
    for value in (0.0, -0.0, 1.0, 1, True):
        run_cell(PRIM, {"FACTOR": value})
    assert len(compiled) == 5


def test_a_name_in_an_annotation_alone_counts(compiled: list[str]) -> None:
    text = PRIM.replace("T.Tensor((rows, 32)", "T.Tensor((rows + PAD, 32)")
    for pad in (0, 16, 0):
        run_cell(text, {"FACTOR": 2.0, "PAD": pad})
    assert len(compiled) == 2
    late = "from __future__ import annotations\n" + text
    for pad in (0, 16, 0):
        run_cell(late, {"FACTOR": 2.0, "PAD": pad})
    assert len(compiled) == 4


def test_a_changed_helper_of_a_macro_misses(compiled: list[str]) -> None:
    for offset in (1.0, 1.0, 2.0):
        run_cell(MACRO, {"OFFSET": offset})
    assert len(compiled) == 2
    run_cell(MACRO.replace("return x + OFFSET", "return x - OFFSET"), {"OFFSET": 2.0})
    assert len(compiled) == 3


def test_a_changed_setting_misses(compiled: list[str]) -> None:
    scope: dict[str, Any] = {"FACTOR": 2.0}
    first = run_cell(FACTORY, scope, rows=32)
    run_cell(FACTORY, scope, rows=64)
    again = run_cell(FACTORY, scope, rows=32)
    assert len(compiled) == 2
    assert again.executable is first.executable


def test_another_target_misses(compiled: list[str]) -> None:
    scope: dict[str, Any] = {"FACTOR": 2.0}
    for target in ("cuda:sm_90a", "cuda:sm_80", "cpu", "interp", "cuda:sm_90a"):
        run_cell(PRIM, scope, target)
    assert len(compiled) == 4


def test_other_options_and_another_configuration_miss(compiled: list[str]) -> None:
    program, _ = define(PRIM, {"FACTOR": 2.0})
    tilebench.compile(program, target="cuda:sm_90a")
    tilebench.compile(program, target="cuda:sm_90a", pass_configs={"tl.enable_fast_math": True})
    tilebench.compile(program, target="cuda:sm_90a", out_idx=-1)
    with config.using(cache_dir=None):
        tilebench.compile(program, target="cuda:sm_90a")
    assert len(compiled) == 4
    tilebench.compile(program, target="cuda:sm_90a", out_idx=-1)
    assert len(compiled) == 4


def test_a_changed_text_misses_also_in_a_comment(compiled: list[str]) -> None:
    scope: dict[str, Any] = {"FACTOR": 2.0}
    run_cell(PRIM, scope)
    moved = run_cell("# one line down" + PRIM, scope)
    assert len(compiled) == 2
    assert "one line down" in moved.prim.loc.source.text


def test_what_may_change_unseen_is_compiled_each_time(compiled: list[str]) -> None:
    class Settings:
        FACTOR = 2.0

    text = PRIM.replace("FACTOR", "settings.FACTOR")
    first = run_cell(text, {"settings": Settings})
    Settings.FACTOR = 3.0
    second = run_cell(text, {"settings": Settings})
    assert len(compiled) == 2
    assert "3.0f" not in first.get_kernel_source()
    assert "3.0f" in second.get_kernel_source()
    for _ in range(2):
        run_cell(PRIM.replace("FACTOR", "secrets.randbelow(1)"), {"secrets": secrets})
    assert len(compiled) == 4


def test_eager_programs_are_remembered_by_the_shapes_they_are_called_with(compiled: list[str]) -> None:
    for size in (32, 64, 32):
        program, _ = define(EAGER, {})
        program.options["target"] = "interp"
        out = program(np.ones(size, np.float32))
        assert out.tolist() == [2.0] * size
    assert len(compiled) == 2


@pytest.mark.parametrize("target", ["interp", "emu"])
def test_what_a_launch_found_belongs_to_its_kernel(target: str, compiled: list[str]) -> None:
    scope: dict[str, Any] = {"FACTOR": 2.0}
    first, second = (run_cell(PRIM, scope, target) for _ in range(2))
    assert len(compiled) == 1
    assert first.executable is not second.executable
    x, y = np.ones((64, 32), np.float32), np.zeros((64, 32), np.float32)
    second(x, y)
    assert (y == 2).all()


def test_the_oldest_compilations_are_forgotten() -> None:
    memory = recall.Memory()
    kept: Any = object()
    for i in range(recall.ENTRIES + 1):
        memory.put(i, kept)
    assert memory.get(0) is None
    assert memory.get(recall.ENTRIES) is kept
