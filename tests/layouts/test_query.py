from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilebench.errors import LayoutError
from tilebench.layouts import (
    Digit,
    FragmentLayout,
    SharedLayout,
    bank_conflicts,
    blocked,
    coalescing,
    conflict_ways,
    conversion,
    from_function,
    ldmatrix_a,
    ldmatrix_b,
    mma_accumulator,
    padded,
    replicated,
    row_major,
    swizzled,
    wavefronts,
    widest_vector,
)
from tilebench.layouts.query import conflict_ways_counted, conflict_ways_linear


def test_bank_conflicts_of_textbook_accesses() -> None:
    lanes = np.arange(32)
    assert bank_conflicts(lanes * 4, 4) == 1
    assert bank_conflicts(lanes * 0, 4) == 1  # broadcast
    assert bank_conflicts(lanes * 8, 4) == 2
    assert bank_conflicts(lanes * 128, 4) == 32
    assert bank_conflicts(lanes * 2, 2) == 1  # two lanes share each word
    assert bank_conflicts(lanes * 8, 8) == 1  # two phases of 16 lanes
    assert bank_conflicts(lanes * 16, 16) == 1  # four phases of 8 lanes
    assert bank_conflicts(lanes * 32, 16) == 2
    assert bank_conflicts(np.full(32, -1), 4) == 0
    assert [wavefronts(lanes * k, w) for k, w in ((4, 4), (8, 8), (16, 16), (32, 16))] == [1, 2, 4, 8]


@st.composite
def accesses(draw: st.DrawFn) -> tuple[FragmentLayout, SharedLayout, int, int]:
    """A linear fragment whose lowest register bits are a vector along the columns, and shared memory."""
    row_bits, column_bits = draw(st.integers(2, 5)), draw(st.integers(4, 7))
    itemsize = draw(st.sampled_from([1, 2, 4, 8]))
    vector_bits = draw(st.integers(0, 4 - itemsize.bit_length() + 1))
    bits = [(0, k) for k in range(row_bits)] + [(1, k) for k in range(vector_bits, column_bits)]
    bits = draw(st.permutations(bits))
    replicas = draw(st.integers(0, 2))
    lanes = [Digit(2, dim, 1 << k) for dim, k in bits[: 5 - replicas]] + [Digit(2, None)] * replicas
    lanes = draw(st.permutations(lanes + [Digit(2, None)] * (5 - len(lanes))))
    rest = [Digit(2, dim, 1 << k) for dim, k in bits[5 - replicas :]]
    warps = draw(st.integers(0, min(2, len(rest))))
    vector = [Digit(2, 1, 1 << k) for k in range(vector_bits)]
    shape = (1 << row_bits, 1 << column_bits)
    fragment = FragmentLayout(shape, (*vector, *rest[warps:]), (*lanes, *rest[:warps]))
    span = draw(st.sampled_from([0, 32, 64, 128]))
    shared = swizzled(shape, itemsize * 8, span) if span else row_major(shape, itemsize * 8)
    return fragment, shared, itemsize, 1 << vector_bits


@given(accesses())
def test_conflicts_by_rank_are_counted_conflicts(
    access: tuple[FragmentLayout, SharedLayout, int, int],
) -> None:
    fragment, shared, itemsize, vector = access
    linear = conflict_ways_linear(fragment, shared, itemsize, vector)
    assert linear is not None
    assert linear == conflict_ways_counted(fragment, shared, itemsize, vector) == conflict_ways(*access)


def test_conflicts_of_user_xor_layouts_by_rank_too() -> None:
    shared = from_function((32, 32), lambda i, j: i * 32 + (i ^ j), 32)
    columns = FragmentLayout((32, 32), (Digit(32, 1, 1),), (Digit(32, 0, 1),))
    assert conflict_ways_linear(columns, shared, 4, 1) == conflict_ways_counted(columns, shared, 4, 1) == 1
    assert conflict_ways(columns, row_major((32, 32), 32), 4, 1) == 32
    assert conflict_ways(columns, padded((32, 32), 32, 1), 4, 1) == 1  # not linear: counted


def test_ldmatrix_has_no_conflicts_in_swizzled_tiles() -> None:
    for columns in (16, 32, 64, 128):
        tile = swizzled((16, columns), 16)
        for addresses in (ldmatrix_a(), ldmatrix_a(16, "km"), ldmatrix_b()):
            part = SharedLayout((16, 16), 16, table=tile.offsets()[:, :16].astype(np.int32))
            assert conflict_ways(addresses, part, 2, 8) == 1
    assert conflict_ways(ldmatrix_a(), row_major((16, 16), 16), 2, 8) == 2


def test_copies_into_swizzled_tiles_have_no_conflicts() -> None:
    for shape in ((128, 64), (64, 128), (128, 32), (128, 80), (64, 96)):
        assert conflict_ways(blocked(shape, 128, 8), swizzled(shape, 16), 2, 8) <= 2
    assert conflict_ways(blocked((128, 64), 128, 8), swizzled((128, 64), 16), 2, 8) == 1
    assert conflict_ways(mma_accumulator((64, 64), (4, 1)), swizzled((64, 64), 16), 2, 2) == 1


def test_layouts_of_different_tiles_are_not_compared() -> None:
    with pytest.raises(LayoutError, match=r"TB302.*16x16 and 16x32"):
        conflict_ways(ldmatrix_a(), row_major((16, 32), 16), 2, 8)
    with pytest.raises(LayoutError, match=r"TB302.*32 threads and 64 threads"):
        conversion(replicated((4,), 32), replicated((4,), 64))


def test_widest_vector_of_known_pairs() -> None:
    assert widest_vector(blocked((64, 64), 128, 8), (64, 1), 2) == 8
    assert widest_vector(blocked((64, 64), 128, 8), (64, 1), 4) == 4
    assert widest_vector(blocked((64, 64), 128, 8), (68, 1), 2) == 4  # rows only 8-byte aligned
    assert widest_vector(blocked((64, 64), 128, 8), (65, 1), 2) == 1
    assert widest_vector(blocked((64, 64), 128, 8), (1, 64), 2) == 1
    assert widest_vector(blocked((64, 64), 128, 8), swizzled((64, 64), 16), 2) == 8
    assert widest_vector(mma_accumulator((64, 64), (4, 1)), swizzled((64, 64), 16), 2) == 2
    assert widest_vector(blocked((128, 4), 128, 8), (4, 1), 2) == 8  # two whole rows
    assert (
        widest_vector(blocked((4, 12), 32, 8), (12, 1), 2) == 4
    )  # the edge cuts the last vector of 8 in half


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]))
def test_a_vector_is_contiguous_aligned_and_whole(
    rows: int, columns: int, vector: int, itemsize: int
) -> None:
    layout = blocked((rows, columns), 32, vector)
    v = widest_vector(layout, (columns, 1), itemsize)
    assert v * itemsize <= 16
    assert layout.registers % v == 0
    flat = layout.elements().reshape(32, -1, v)
    for group in flat.reshape(-1, v):
        assert (group < 0).all() or (group[0] % v == 0 and (group == group[0] + np.arange(v)).all())


def test_coalescing() -> None:
    lanes = np.arange(32)
    assert coalescing(lanes * 4, 4) == coalescing(lanes * 4, 4)
    assert (coalescing(lanes * 4, 4).sectors, coalescing(lanes * 4, 4).efficiency) == (4, 1.0)
    assert (coalescing(lanes * 16, 16).sectors, coalescing(lanes * 16, 16).efficiency) == (16, 1.0)
    assert (coalescing(lanes * 128, 4).sectors, coalescing(lanes * 128, 4).efficiency) == (32, 0.125)
    assert (coalescing(lanes * 0, 4).sectors, coalescing(lanes * 0, 4).efficiency) == (1, 0.125)
    assert coalescing(np.full(32, -1), 4).sectors == 0


def test_kinds_of_conversion() -> None:
    accumulator = mma_accumulator((64, 32), (4, 1))
    assert conversion(accumulator, accumulator).kind == "none"
    reordered = FragmentLayout(accumulator.shape, accumulator.reg[::-1], accumulator.thread)
    assert conversion(accumulator, reordered).kind == "registers"
    everywhere = replicated((64, 32), 128)
    assert conversion(everywhere, accumulator).kind == "registers"
    moved = conversion(accumulator, blocked((64, 32), 128, 8))
    assert moved.kind == "shared"
    assert moved.bytes == 2 * 64 * 32 * 4
    rows = accumulator.project(1)
    spread = FragmentLayout((64,), (), (Digit(32, 0, 1), Digit(2, 0, 32), Digit(2, None)))
    assert conversion(rows, spread).kind == "shared"
    lane_rows = FragmentLayout((64,), (), (Digit(16, 0, 1), Digit(2, None), Digit(4, 0, 16)))
    shuffled = conversion(rows, lane_rows)
    assert shuffled.kind == "shuffle"
    assert shuffled.shuffles == 2
    assert conversion(rows, lane_rows, itemsize=8).shuffles == 4


@given(st.permutations(range(5)), st.permutations(range(5)))
def test_lane_permutations_are_one_shuffle_or_none(first: list[int], second: list[int]) -> None:
    one = FragmentLayout((32,), (), tuple(Digit(2, 0, 1 << k) for k in first))
    two = FragmentLayout((32,), (), tuple(Digit(2, 0, 1 << k) for k in second))
    expected = ("none", 0) if first == second else ("shuffle", 1)
    found = conversion(one, two)
    assert (found.kind, found.shuffles) == expected
