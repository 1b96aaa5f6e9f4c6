"""Vectors of atomics on a GPU: the programs of tests/traps/test_atomics.py, and every vector there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.compiles import programs
from tests.traps import test_atomics as cases
from tests.traps.running import repeat_on_gpu
from tilebench.ir.dtype import decode

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("case", "arguments"),
    [
        *((cases.test_a_tile_is_added_whatever_its_width, (r, c, of, to, scope))
          for r, c in ((8, 64), (5, 24), (3, 7)) for scope in ("shared", "fragment")
          for of, to in (("float32", "float32"), ("float16", "float16"), ("float16", "float32"))),
        (cases.test_a_tail_beyond_the_tensor_is_left_out, ()),
        (cases.test_rows_that_start_anywhere_are_added_one_by_one, ()),
        *((cases.test_vectors_by_name, (d, w)) for d in ("float32", "float16") for w in (2, 4)),
        (cases.test_vectors_at_rows_that_data_name, ()),
        (cases.test_vectors_at_an_odd_place_are_single_elements, ()),
        *((cases.test_old_values_of_vectors, (w, d, t))
          for w in (2, 4) for d in ("float32", "float16") for t in (1, 32)),
        (cases.test_values_that_depend_on_the_one_before_stay_apart, ()),
        *((cases.test_an_order_is_kept_in_every_width, (d, o, n))
          for d in ("float32", "float16", "int32")
          for o, n in (("acquire", 2), ("acq_rel", 4), ("seq_cst", 5))),
        (cases.test_loads_and_stores_are_ordered, ()),
        *((cases.test_bulk_reductions_that_the_program_asks_for, (d, s, t))
          for d in cases.BULK for s, t in (((16, 16), 128), ((16, 24), 32), ((64, 128), 256))),
        (cases.test_a_bulk_reduction_is_clipped_to_the_tensor, ()),
        (cases.test_a_tensor_that_is_read_again_has_its_sums, ()),
    ],
)  # fmt: skip
def test_the_programs_of_the_traps(
    case: Callable[..., None], arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    repeat_on_gpu(case, arguments, monkeypatch)


def test_every_vector_is_added_element_by_element() -> None:
    from tests.backends.test_hopper_values import on_gpu

    program = programs.vector_atomics("sm_90a")
    values = {
        p.name: np.zeros(int(p.value.shape[0].value), p.value.dtype.storage_dtype)  # type: ignore[union-attr]
        for p in program.params
    }
    found = on_gpu(program, values)
    for p in program.params:
        if p.name.startswith("x_"):
            lanes = int(p.name.rsplit("_", 1)[1])
            got = decode(found[p.name], p.value.dtype).reshape(16, lanes)
            np.testing.assert_array_equal(got, np.tile(4 * (2 * np.arange(lanes) + 1), (16, 1)), p.name)
