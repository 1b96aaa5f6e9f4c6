from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tilebench.layouts import f2

MATRICES = st.lists(st.integers(0, 31), max_size=6)


@given(MATRICES)
def test_rank_is_the_size_of_the_image(columns: list[int]) -> None:
    image = {f2.apply(columns, x) for x in range(1 << len(columns))}
    assert len(image) == 1 << f2.rank(columns)


@given(MATRICES, st.integers(0, 31))
def test_solve_finds_a_preimage_exactly_when_there_is_one(columns: list[int], target: int) -> None:
    x = f2.solve(columns, target)
    if x is None:
        assert target not in {f2.apply(columns, y) for y in range(1 << len(columns))}
    else:
        assert f2.apply(columns, x) == target


@given(st.lists(st.integers(0, 15), min_size=4, max_size=4))
def test_inverse_after_the_matrix_is_the_identity(columns: list[int]) -> None:
    inverse = f2.invert(columns, 4)
    assert (inverse is None) == (f2.rank(columns) < 4)
    if inverse is not None:
        assert f2.compose(inverse, columns) == [1, 2, 4, 8] == f2.compose(columns, inverse)


@given(MATRICES)
def test_kernel_has_the_missing_dimensions(columns: list[int]) -> None:
    basis = f2.kernel(columns)
    assert all(f2.apply(columns, x) == 0 for x in basis)
    assert f2.rank(basis) == len(basis) == len(columns) - f2.rank(columns)
