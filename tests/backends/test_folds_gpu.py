"""Folds of halves and of batches on a GPU: the programs of tests/traps/test_folds.py, and all there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.compiles import programs
from tests.traps import test_folds as cases
from tests.traps.running import check_on_gpu
from tilebench.ir.dtype import encode

pytestmark = pytest.mark.gpu


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
    monkeypatch.setattr(cases, "check", check_on_gpu)
    case(*arguments)


def test_folds_with_nan_are_what_the_emulator_says() -> None:
    from tests.backends.test_hopper_values import on_emulator, on_gpu

    program = programs.folds("sm_90a")
    rng = np.random.default_rng(7)
    values: dict[str, np.ndarray] = {}
    for p in program.params:
        x = rng.integers(1, 9, 128).astype(p.value.dtype.compute_dtype)
        if p.value.dtype.is_float:
            x[::31] = np.nan
        values[p.name] = encode(x, p.value.dtype)
    want, found = on_emulator(program, values), on_gpu(program, values)
    for name, x in want.items():
        np.testing.assert_array_equal(found[name], x, name)
