"""The full text of what users read when a layout cannot be: one golden file each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.layouts.expressions import Recorded
from tilebench.errors import LayoutError
from tilebench.layouts import FragmentLayout, conversion, from_function, mma_accumulator, replicated


def test_different_tiles(golden: Callable[[str, str], None]) -> None:
    with pytest.raises(LayoutError) as caught:
        conversion(replicated((128, 64), 32), replicated((128, 32), 32))
    golden("errors/TB302.txt", str(caught.value))


def test_tile_that_the_instruction_does_not_divide(golden: Callable[[str, str], None]) -> None:
    with pytest.raises(LayoutError) as caught:
        mma_accumulator((128, 100), (2, 2))
    golden("errors/TB303.txt", str(caught.value))


def test_user_layouts_without_a_formula(golden: Callable[[str, str], None]) -> None:
    table = FragmentLayout((2, 1), table=np.array([[[1, 0]], [[0, 0]]]))
    with pytest.raises(LayoutError) as caught:
        table.coordinate(Recorded(0), 0)
    golden("errors/TB305-fragment.txt", str(caught.value))
    shared = from_function((3, 5), lambda i, j: (i * 5 + j + 1) % 15, 32)
    with pytest.raises(LayoutError) as caught:
        shared.offset(Recorded(0), 0)
    golden("errors/TB305-shared.txt", str(caught.value))


def test_user_layouts_that_put_two_elements_in_one_place(golden: Callable[[str, str], None]) -> None:
    with pytest.raises(LayoutError) as caught:
        FragmentLayout.from_function((64, 4), lambda i, j: (i, 0), threads=64)
    golden("errors/TB306-fragment.txt", str(caught.value))
    with pytest.raises(LayoutError) as caught:
        from_function((64, 4), lambda i, j: i * 3 + j, 16)
    golden("errors/TB306-shared.txt", str(caught.value))
