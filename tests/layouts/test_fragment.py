from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.layouts.expressions import Recorded, operations_of, value_of
from tests.layouts.strategies import fragments, power_of_two_fragments
from tilebench.errors import LayoutError
from tilebench.layouts import (
    Digit,
    FragmentLayout,
    access_indices,
    affine_over_digits,
    blocked,
    f2,
    mma_accumulator,
    mma_c,
    replicated,
)

EXAMPLE = FragmentLayout((4, 4), (Digit(2, 1, 1), Digit(2, 0, 2)), (Digit(2, 1, 2), Digit(2, 0, 1)))
"""The worked example of fragment.py's header."""


def brute_force(layout: FragmentLayout) -> dict[tuple[int, int], tuple[int, ...]]:
    """Coordinates of each place, straight from the definition of the digits."""
    out: dict[tuple[int, int], tuple[int, ...]] = {}
    for t, r in product(range(layout.threads), range(layout.registers)):
        coordinate = [0] * layout.rank
        for index, digits in ((t, layout.thread), (r, layout.reg)):
            for d in digits:
                index, value = divmod(index, d.size)
                if d.dim is not None:
                    coordinate[d.dim] += value * d.stride
        out[t, r] = tuple(coordinate)
    return out


def inside(layout: FragmentLayout, coordinate: tuple[int, ...]) -> bool:
    return all(0 <= c < n for c, n in zip(coordinate, layout.shape, strict=True))


def test_worked_example_of_the_header() -> None:
    grid = [[EXAMPLE.holders(i, j) for j in range(4)] for i in range(4)]
    assert grid[0] == [[(0, 0)], [(0, 1)], [(1, 0)], [(1, 1)]]
    assert grid[3] == [[(2, 2)], [(2, 3)], [(3, 2)], [(3, 3)]]
    sums = EXAMPLE.project(1)
    assert sums.reg == (Digit(2, 0, 2),)
    assert sums.thread == (Digit(2, None), Digit(2, 0, 1))
    assert sums.holders(2) == [(0, 1), (1, 1)]
    assert sums.owner_digits == ((1, 2),)


@given(fragments())
def test_enumeration_is_the_definition(layout: FragmentLayout) -> None:
    coords, valid, elements = layout.coords(), layout.valid(), layout.elements()
    for (t, r), coordinate in brute_force(layout).items():
        assert tuple(coords[t, r]) == coordinate
        assert valid[t, r] == inside(layout, coordinate)
        flat = int(np.ravel_multi_index(coordinate, layout.shape)) if inside(layout, coordinate) else -1
        assert elements[t, r] == flat
    outside = [
        any(not 0 <= c[d] < layout.shape[d] for c in brute_force(layout).values()) for d in range(layout.rank)
    ]
    assert layout.padded_dims == tuple(outside)


@given(fragments(), st.data())
def test_expression_equals_enumeration_and_has_no_idle_operation(
    layout: FragmentLayout, data: st.DataObject
) -> None:
    t = data.draw(st.integers(0, layout.threads - 1))
    r = data.draw(st.integers(0, layout.registers - 1))
    expected = tuple(layout.coords()[t, r])
    assert layout.coordinate(t, r) == expected
    for thread, reg in ((Recorded(t), Recorded(r)), (Recorded(t), r), (t, Recorded(r))):
        found = layout.coordinate(thread, reg)
        assert tuple(map(value_of, found)) == expected
        assert {op for x in found for op in operations_of(x)} <= {"add", "mul", "floordiv", "mod"}
    dense = layout.coordinate(np.arange(layout.threads)[:, None], np.arange(layout.registers)[None, :])
    for d in range(layout.rank):
        assert np.array_equal(np.broadcast_to(dense[d], layout.valid().shape), layout.coords()[..., d])


def test_expression_of_an_mma_accumulator_is_short() -> None:
    i, j = mma_c().coordinate(Recorded(13), 2)
    assert (value_of(i), operations_of(i)) == (11, ("floordiv", "add"))
    assert (value_of(j), operations_of(j)) == (2, ("mod", "mul"))


@given(fragments())
def test_inverse_finds_exactly_the_holders(layout: FragmentLayout) -> None:
    places = brute_force(layout)
    dense = layout.register_of()
    assert dense.shape == (layout.threads, *layout.shape)
    replication = 0
    for index in np.ndindex(*layout.shape):
        holders = sorted(place for place, coordinate in places.items() if coordinate == index)
        replication = max(replication, len(holders))
        assert layout.holders(*index) == holders
        lowest = {t: min(r for u, r in holders if u == t) for t, _ in holders}
        assert {t: r for t in range(layout.threads) if (r := int(dense[(t, *index)])) >= 0} == lowest
        flat = int(np.ravel_multi_index(index, layout.shape))
        assert np.array_equal(layout.lookup(np.arange(layout.threads), flat), dense[(slice(None), *index)])
    assert layout.replication == replication
    assert layout.covers


@given(fragments())
def test_each_element_has_one_owner_and_the_digits_say_who(layout: FragmentLayout) -> None:
    owner = layout.owner()
    owned = np.sort(layout.elements()[owner])
    assert np.array_equal(owned, np.arange(layout.size))
    conditions = layout.is_owner(np.arange(layout.threads))
    assert conditions is not None
    assert layout.owner_digits is not None
    says = np.logical_and.reduce([c == 0 for c in conditions], initial=True, axis=0) & np.ones(
        layout.threads, bool
    )
    registers = np.array(layout.owner_registers_by_digits)
    assert np.array_equal(owner, says[:, None] & registers & layout.valid())


def test_overlapping_digits_have_no_owner_formula_but_still_one_owner() -> None:
    layout = FragmentLayout((3,), (), (Digit(2, 0, 1), Digit(2, 0, 1)))
    assert layout.owner_digits is None
    assert layout.is_owner(0) is None
    assert layout.owner().sum() == 3


@given(fragments(ranks=(2, 3)), st.data())
def test_projection_keeps_the_threads_of_every_row(layout: FragmentLayout, data: st.DataObject) -> None:
    dim = data.draw(st.integers(0, layout.rank - 1))
    rows = layout.project(dim)
    assert rows.shape == layout.shape[:dim] + layout.shape[dim + 1 :]
    assert rows.threads == layout.threads
    for row in np.ndindex(*rows.shape):
        threads = {t for t, _ in rows.holders(*row)}
        held = {t for k in range(layout.shape[dim]) for t, _ in layout.holders(*row[:dim], k, *row[dim:])}
        assert held <= threads
        if not any(layout.padded_dims):
            assert held == threads
    kept = layout.project(dim, keep=True)
    assert kept.shape == tuple(1 if d == dim else n for d, n in enumerate(layout.shape))
    assert np.array_equal(kept.elements(), rows.elements())


@given(fragments(ranks=(3, 3)))
def test_projections_commute(layout: FragmentLayout) -> None:
    assert layout.project(2).project(0).same_as(layout.project(0).project(1))


@given(fragments(ranks=(1, 2)), st.integers(1, 4), st.data())
def test_projection_undoes_expansion(layout: FragmentLayout, extent: int, data: st.DataObject) -> None:
    dim = data.draw(st.integers(0, layout.rank))
    wide = layout.expand(dim, extent)
    assert wide.registers == layout.registers * extent
    assert wide.project(dim).same_as(layout)
    for index in np.ndindex(*wide.shape):
        row = index[:dim] + index[dim + 1 :]
        assert [t for t, _ in wide.holders(*index)] == [t for t, _ in layout.holders(*row)]
    one = layout.expand(dim)
    assert one.broadcast(dim, extent).same_as(wide)


@given(fragments(), st.data())
def test_permutation_moves_coordinates_only(layout: FragmentLayout, data: st.DataObject) -> None:
    dims = data.draw(st.permutations(range(layout.rank)))
    turned = layout.permute(dims)
    assert np.array_equal(turned.coords(), layout.coords()[..., list(dims)])
    back = [list(dims).index(d) for d in range(layout.rank)]
    assert turned.permute(back) == layout
    other = data.draw(st.permutations(range(layout.rank)))
    assert turned.permute(other) == layout.permute([dims[d] for d in other])


@given(fragments())
def test_reshape_keeps_the_row_major_elements(layout: FragmentLayout) -> None:
    flat = layout.reshape((layout.size,))
    assert np.array_equal(flat.elements(), layout.elements())
    assert flat.reshape(layout.shape).same_as(layout)


@given(fragments())
def test_table_of_a_digit_layout_gives_digits_back(layout: FragmentLayout) -> None:
    found = FragmentLayout.from_table(layout.shape, layout.coords())
    assert found.is_digits
    assert found.same_as(layout)
    assert len(found.reg) <= len(layout.reg)
    assert len(found.thread) <= len(layout.thread)
    as_table = FragmentLayout(layout.shape, table=layout.coords())
    assert as_table.same_as(layout)
    assert as_table != layout
    assert as_table == FragmentLayout(layout.shape, table=layout.coords().copy())
    assert hash(as_table) == hash(FragmentLayout(layout.shape, table=layout.coords().copy()))
    assert layout.simplified().same_as(layout)


@given(fragments())
def test_tables_obey_the_same_laws(layout: FragmentLayout) -> None:
    table = FragmentLayout(layout.shape, table=layout.coords())
    assert np.array_equal(table.owner(), layout.owner())
    assert np.array_equal(table.register_of(), layout.register_of())
    dims = tuple(reversed(range(layout.rank)))
    assert table.permute(dims).same_as(layout.permute(dims))
    assert table.expand(0, 3).same_as(layout.expand(0, 3))
    assert table.replicate(2).same_as(layout.replicate(2))
    if layout.rank > 1 and not any(layout.padded_dims):
        ours, theirs = table.project(0), layout.project(0)
        assert ours.contains(theirs)
        assert theirs.contains(ours)


@given(fragments())
def test_containment(layout: FragmentLayout) -> None:
    everything = replicated(layout.shape, layout.threads)
    assert everything.contains(layout)
    assert layout.contains(layout)
    assert layout.contains(everything) == all(
        len({t for t, _ in layout.holders(*index)}) == layout.threads for index in np.ndindex(*layout.shape)
    )


def test_containment_asks_for_the_same_thread() -> None:
    rows = blocked((8, 4), 8, 4)
    columns = blocked((8, 4), 8, 1)
    assert not rows.contains(columns)
    assert not columns.contains(rows)
    assert not rows.contains(blocked((8, 4), 16, 4))
    assert not rows.contains(blocked((4, 8), 8, 4))
    assert not columns.contains(columns.permute((1, 0)).reshape((8, 4)))


@given(fragments(), st.data())
def test_pullback_along_a_permutation_is_a_permutation(layout: FragmentLayout, data: st.DataObject) -> None:
    dims = data.draw(
        st.permutations(range(layout.rank))
    )  # buffer dimension d is indexed by loop variable dims[d]
    loop_shape = [0] * layout.rank
    for d, k in enumerate(dims):
        loop_shape[k] = layout.shape[d]
    access = [([int(k == dims[d]) for k in range(layout.rank)], 0) for d in range(layout.rank)]
    loop = layout.pullback(access, loop_shape)
    assert loop is not None
    assert loop.shape == tuple(loop_shape)
    by_table = layout.pullback(access_indices(access, loop_shape), loop_shape)
    assert by_table is not None
    registers = layout.uniform_registers(loop, access)
    assert registers is not None
    assert (
        np.array_equal(registers[registers >= 0], np.flatnonzero(layout.valid().any(axis=0)))
        or layout.replication > 1
    )
    for t, r in np.argwhere(loop.valid()):
        index = tuple(loop.coords()[t, r][dims[d]] for d in range(layout.rank))
        assert tuple(layout.coords()[t, r]) == index
    if not any(layout.padded_dims):
        assert by_table.same_as(loop)


@given(fragments(), st.data())
def test_restriction_is_the_slice(layout: FragmentLayout, data: st.DataObject) -> None:
    starts = [data.draw(st.integers(0, n - 1)) for n in layout.shape]
    extents = [data.draw(st.integers(1, n - s)) for n, s in zip(layout.shape, starts, strict=True)]
    part = layout.restrict(starts, extents)
    assert part is not None
    assert part.covers
    for index in np.ndindex(*extents):
        whole = tuple(s + k for s, k in zip(starts, index, strict=True))
        assert {t for t, _ in part.holders(*index)} == {t for t, _ in layout.holders(*whole)}
    assert part.is_digits or any(starts)


def test_half_of_an_accumulator_is_an_accumulator_again() -> None:
    half = mma_accumulator((64, 64), (4, 1)).restrict((0, 32), (64, 32))
    assert half is not None
    assert half.same_as(mma_accumulator((64, 32), (4, 1)))
    assert half.is_digits


def test_loop_shorter_than_its_fragment_keeps_its_formula() -> None:
    rows = mma_accumulator((64, 64), (4, 1)).project(1)
    loop = rows.pullback([([1], 0)], (50,))
    assert loop is not None
    assert loop.is_digits
    assert loop.padded_dims == (True,)
    column = mma_accumulator((64, 64), (4, 1)).pullback([([1], 0), ([0], 5)], (64,))
    assert column is not None
    assert [len(column.holders(i)) for i in range(64)] == [1] * 64
    assert set(np.flatnonzero(column.valid().any(axis=1)) % 4) == {2}  # columns 4 and 5 are in lanes 2 mod 4


def test_pullback_refuses_what_is_no_layout() -> None:
    layout = blocked((8, 8), 32, 2)
    assert layout.pullback([([1, 0], 0), ([1, 0], 0)], (8, 8)) is None  # (i, i): j says nothing
    assert layout.pullback([([1, 0], 4), ([0, 1], 0)], (8, 8)) is None  # rows 8..11 do not exist
    assert layout.pullback([([1], 0), ([0], 3)], (8,)) is not None  # one column: a slice, fine
    diagonal = layout.pullback([([1], 0), ([1], 0)], (8,))
    assert diagonal is not None
    assert [len(diagonal.holders(i)) for i in range(8)] == [1] * 8


def test_register_of_a_row_vector_in_an_accumulator_loop_is_affine() -> None:
    scores = mma_accumulator((64, 64), (4, 1))
    row_max = scores.project(1)
    registers = row_max.uniform_registers(scores, [([1, 0], 0)])
    assert registers is not None
    sizes = [d.size for d in scores.reg]
    assert affine_over_digits(registers, sizes) == ((0, 1, 0), 0)
    two = mma_accumulator((128, 64), (4, 1))
    registers = two.project(1).uniform_registers(two, [([1, 0], 0)])
    assert registers is not None
    assert affine_over_digits(registers, [d.size for d in two.reg]) == ((0, 1, 0, 2), 0)


def test_registers_that_differ_between_threads_are_not_uniform() -> None:
    layout = FragmentLayout((2, 2), (Digit(2, 1, 1),), (Digit(2, 0, 1),))
    crossed = FragmentLayout((2, 2), table=np.array([[[0, 0], [0, 1]], [[1, 1], [1, 0]]]))
    identity = [([1, 0], 0), ([0, 1], 0)]
    assert crossed.uniform_registers(layout, identity) is None
    assert np.array_equal(crossed.registers_for(layout, identity), [[0, 1], [1, 0]])
    assert layout.permute((1, 0)).uniform_registers(layout, identity) is None  # thread 0 lacks (0, 1)


@given(st.lists(st.integers(1, 4), max_size=4), st.data())
def test_affine_over_digits(sizes: list[int], data: st.DataObject) -> None:
    coeffs = [data.draw(st.integers(0, 9)) for _ in sizes]
    const = data.draw(st.integers(0, 9))
    values = []
    for r in range(int(np.prod(sizes, dtype=int))):
        value = const
        for size, coeff in zip(sizes, coeffs, strict=True):
            r, digit = divmod(r, size)
            value += digit * coeff
        values.append(value)
    expected = tuple(c if s > 1 else 0 for c, s in zip(coeffs, sizes, strict=True))
    assert affine_over_digits(values, sizes) == (expected, const)
    if len(values) > 1:
        k = data.draw(st.integers(0, len(values) - 1))
        spoiled = [*values[:k], values[k] + 1, *values[k + 1 :]]
        found = affine_over_digits(spoiled, sizes)
        if found is not None:  # one digit of size 2, say: any values are affine
            coeffs2, const2 = found
            digits = list(zip(coeffs2, _below(sizes), sizes, strict=True))
            assert [
                const2 + sum(c * (r // b % s) for c, b, s in digits) for r in range(len(values))
            ] == spoiled


def _below(sizes: list[int]) -> list[int]:
    return [int(np.prod(sizes[:k], dtype=int)) for k in range(len(sizes))]


def test_affine_over_digits_refuses_holes_and_curves() -> None:
    assert affine_over_digits([0, 1, 2, 4], [4]) is None
    assert affine_over_digits([0, 1, 2, 4], [2, 2]) is None
    assert affine_over_digits([0, 1, 5, 6], [2, 2]) == ((1, 5), 0)
    assert affine_over_digits([-1, 3], [2]) == ((0,), 3)  # an entry below 0 does not matter
    assert affine_over_digits([0, -1, 2, 3, 8, 9, -1, -1], [4, 2]) == ((1, 8), 0)
    assert affine_over_digits([0, -1, 2, 3, 8, 9, 9, -1], [4, 2]) is None


@given(power_of_two_fragments())
def test_f2_columns_give_the_coordinates(layout: FragmentLayout) -> None:
    linear = layout.to_linear()
    assert linear is not None
    for t, r in product(range(layout.threads), range(layout.registers)):
        packed = f2.apply(linear.thread, t) ^ f2.apply(linear.reg, r)
        assert packed == linear.pack([int(c) for c in layout.coords()[t, r]])


def test_odd_digits_have_no_f2_columns() -> None:
    assert blocked((4, 96), 32, 1).to_linear() is None or blocked((4, 96), 32, 1).padded_dims != (
        False,
        False,
    )
    assert FragmentLayout((6,), (Digit(3, 0, 1),), (Digit(2, 0, 3),)).to_linear() is None
    assert FragmentLayout((3,), (), (Digit(2, 0, 1), Digit(2, 0, 1))).to_linear() is None


def test_user_function_becomes_digits_where_it_is_one() -> None:
    layout = FragmentLayout.from_function((16, 8), lambda i, j: (i % 8 * 4 + j // 2, i // 8 * 2 + j % 2))
    assert layout.is_digits
    assert layout.same_as(mma_c())
    rows = FragmentLayout.from_function((8,), lambda i, rep: (i * 4 + rep, 0), replicate=4)
    assert rows.thread == (Digit(4, None), Digit(8, 0, 1))
    rotated = FragmentLayout.from_function((4,), lambda i: ((i + 1) % 4, 0))
    assert not rotated.is_digits
    assert rotated.covers
    assert rotated.holders(3) == [(0, 0)]


def test_user_function_with_a_clash_is_refused() -> None:
    with pytest.raises(LayoutError, match=r"TB306.*\(0, 0\) and \(0, 1\) both in thread 0, register 0"):
        FragmentLayout.from_function((2, 2), lambda i, j: (i, 0))
    with pytest.raises(LayoutError, match=r"TB306.*thread 4"):
        FragmentLayout.from_function((8,), lambda i: (i, 0), threads=4)


def test_table_has_no_expression() -> None:
    table = FragmentLayout((2,), table=np.array([[[1]], [[0]]]))
    assert table.coordinate(0, 0) == (1,)
    assert np.array_equal(table.coordinate(np.arange(2), 0)[0], [1, 0])
    with pytest.raises(LayoutError, match="TB305"):
        table.coordinate(Recorded(0), 0)


@given(fragments(ranks=(1, 2)))
@settings(max_examples=50)
def test_described_formula_is_true(layout: FragmentLayout) -> None:
    from tilebench.layouts.describe import element_formula, place_formula

    text = layout.describe()
    assert text.startswith("x".join(map(str, layout.shape)))
    formulas = element_formula(layout)
    assert formulas is not None
    for d, formula in enumerate(formulas):
        for t, r in (
            (0, 0),
            (layout.threads - 1, layout.registers - 1),
            (layout.threads // 2, layout.registers // 2),
        ):
            assert eval(formula.split(" = ")[1], {"t": t, "r": r}) == layout.coords()[t, r, d]
    place = place_formula(layout)
    if place is not None and layout.replication == 1:
        for index in np.ndindex(*layout.shape):
            names = dict(zip("ij", index, strict=False))
            assert [
                (eval(place[0].split(" = ")[1], {}, names), eval(place[1].split(" = ")[1], {}, names))
            ] == (layout.holders(*index))


@given(fragments())
def test_digits_of_each_dimension_rebuild_the_layout(layout: FragmentLayout) -> None:
    for index, digits_of, axis in (
        (layout.threads, layout.thread_digits, 0),
        (layout.registers, layout.register_digits, 1),
    ):
        for dim in range(layout.rank):
            values = np.arange(index)
            moved = sum(values // divisor % size * stride for divisor, size, stride in digits_of(dim))
            place = layout.coords()[:, 0] if axis == 0 else layout.coords()[0]
            assert np.array_equal(np.broadcast_to(moved, index), place[:, dim])
        assert all(stride == 0 for _, _, stride in digits_of(None))


def test_row_sum_of_an_accumulator_needs_two_shuffles() -> None:
    scores = mma_accumulator((64, 64), (4, 1))
    assert scores.thread_digits(1) == ((1, 4, 2),)  # four neighbouring lanes: xor 1, xor 2
    assert scores.register_digits(1) == ((1, 2, 1), (4, 8, 8))
    assert scores.project(1).thread_digits(None) == ((1, 4, 0),)
