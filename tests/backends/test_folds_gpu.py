"""Folds of halves and of batches on a GPU: the programs of tests/traps/test_folds.py, all there are, NaNs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tilebench
from tests.compiles import programs
from tests.traps import test_folds as cases
from tests.traps.running import repeat_on_gpu
from tilebench.ir.dtype import CANONICAL_NAN, encode
from tilebench.ir.thread import Program

COPY = """\
@T.prim_func
def keep(X: T.Tensor((4,), "{dtype}"), Y: T.Tensor((4,), "{dtype}")):
    with T.Kernel(1, threads=32) as b:
        for i in T.Parallel(4):
            Y[i] = X[i]
"""


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("case", "arguments"),
    [
        *((cases.test_the_largest_and_smallest_half, (k, shape, dim, t))
          for k in ("max", "min", "absmax")
          for shape, dim, t in (((64, 128), 1, 256), ((64, 128), 0, 256), ((128, 2), 1, 128),
                                ((1, 256), 1, 64), ((6, 128), 1, 32), ((33, 20), 0, 32))),
        (cases.test_sums_of_halves_are_float32_all_the_way, ()),
        *((cases.test_no_result_depends_on_how_many_go_at_a_time, (k, d))
          for k in ("sum", "max", "absmax") for d in ("float32", "int32", "float16", "int64")),
        *((cases.test_arrays_of_each_thread, (k, dim, keep))
          for k in ("max", "absmax") for dim in (0, 1) for keep in (False, True)),
        (cases.test_rows_over_several_warps_are_folded_in_halves_too, ()),
    ],
)  # fmt: skip
def test_the_programs_of_the_traps(
    case: Callable[..., None], arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    repeat_on_gpu(case, arguments, monkeypatch)


def values_with_nan(program: Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    values: dict[str, np.ndarray] = {}
    for p in program.params:
        x = rng.integers(1, 9, 128).astype(p.value.dtype.compute_dtype)
        if p.value.dtype.is_float:
            x[::31] = np.nan
        values[p.name] = encode(x, p.value.dtype)
    return values


def bits_of_halves(x: np.ndarray) -> np.ndarray:
    """Halves as their bits, where a NaN is one of many; all else as it is, where a NaN is a NaN."""
    return x.view(np.uint16) if x.itemsize == 2 else x


@pytest.mark.gpu
def test_folds_with_nan_are_what_the_emulator_says() -> None:
    from tests.backends.test_hopper_values import on_emulator, on_gpu

    program = programs.folds("sm_90a")
    values = values_with_nan(program)
    want, found = on_emulator(program, values), on_gpu(program, values)
    for name, x in want.items():
        np.testing.assert_array_equal(bits_of_halves(found[name]), bits_of_halves(x), name)


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_emulator_gives_the_nan_of_the_instructions(dtype: str, op: str) -> None:
    """max.NaN and min.NaN of halves give 0x7fff, whichever NaN goes in; what is copied keeps its bits."""
    from tests.backends.test_hopper_values import on_emulator

    program = programs.folds("sm_90a")
    got = on_emulator(program, values_with_nan(program))[f"y_{dtype}_{op}"].view(np.uint16)
    quiet = {"float16": 0x7C00, "bfloat16": 0x7F80}[dtype]
    broken = got[(got & quiet) == quiet]
    assert broken.size >= 4
    assert set(broken.tolist()) == {CANONICAL_NAN}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_comparison_takes_any_nan_for_a_nan(dtype: str) -> None:
    kind = {"float16": torch.float16, "bfloat16": torch.bfloat16}[dtype]
    ones = torch.ones(4, dtype=kind)
    got, want = ones.clone(), ones.clone()
    got.view(torch.int16)[1] = CANONICAL_NAN
    want[1] = float("nan")
    result = tilebench.run(COPY.format(dtype=dtype), args=(got, torch.empty_like(got)), ref=lambda x: want,
                           target="cpu", check="static")  # fmt: skip
    torch_diff = next(d for d in result.report.diffs if d.against == "torch")
    assert (torch_diff.verdict, torch_diff.wrong) == ("pass", 0)
