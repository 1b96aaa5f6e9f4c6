from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layouts.expressions import Recorded, operations_of, value_of
from tilebench.errors import LayoutError
from tilebench.layouts import (
    NONE,
    SW32,
    SW64,
    SW128,
    SharedLayout,
    bank_conflicts,
    column_major,
    from_function,
    padded,
    recognised,
    row_major,
    swizzled,
    swizzled_transposed,
)

BITS = st.sampled_from([8, 16, 32, 64])
SHAPES = st.one_of(
    st.tuples(st.integers(1, 20), st.sampled_from([8, 16, 24, 32, 40, 48, 64, 80, 96, 128, 192])),
    st.tuples(st.integers(1, 3), st.sampled_from([1, 4, 8, 12]), st.sampled_from([16, 64, 80])),
)


@st.composite
def layouts(draw: st.DrawFn) -> SharedLayout:
    shape, bits = draw(SHAPES), draw(BITS)
    kinds: list[Callable[[], SharedLayout]] = [
        lambda: row_major(shape, bits),
        lambda: padded(shape, bits, draw(st.integers(1, 9))),
        lambda: swizzled(shape, bits, draw(st.sampled_from([32, 64, 128]))),
        lambda: row_major(shape, bits).transpose(),
        lambda: swizzled(shape, bits).transpose(),
    ]
    return draw(st.sampled_from(kinds))()


@given(layouts())
def test_every_element_has_a_place_of_its_own_within_the_size(layout: SharedLayout) -> None:
    offsets = layout.offsets()
    assert layout.is_injective()
    assert offsets.min() >= 0
    assert offsets.max() == layout.size - 1
    assert layout.size_bytes == layout.size * layout.itemsize_bits // 8
    assert layout.alignment in (16, 128, 256, 512, 1024)


@given(layouts())
def test_offset_is_strides_panels_then_xor_on_bytes(layout: SharedLayout) -> None:
    index = np.indices(layout.shape)
    linear = np.zeros(layout.shape, np.int64)
    for d in range(layout.rank):
        x = index[d]
        if d == layout.inner and layout.panel is not None:
            linear += x // layout.panel * layout.panel_stride + x % layout.panel
        else:
            linear += x * layout.strides[d]
    step = layout.itemsize_bits // 8
    byte = linear * step
    byte ^= (byte >> layout.swizzle.shift) & layout.swizzle.mask
    assert np.array_equal(layout.offsets() * step, byte)
    assert np.array_equal(np.broadcast_to(layout.byte_offset(*index), layout.shape), byte)


@given(layouts(), st.data())
def test_expressions_agree_with_the_table_and_have_no_idle_operation(
    layout: SharedLayout, data: st.DataObject
) -> None:
    index = [data.draw(st.integers(0, n - 1)) for n in layout.shape]
    expected = int(layout.offsets()[tuple(index)])
    assert layout.offset(*index) == expected
    for mask in range(1 << layout.rank):
        mixed = [Recorded(x) if mask >> d & 1 else x for d, x in enumerate(index)]
        found = layout.offset(*mixed)
        assert value_of(found) == expected
        if not layout.swizzle.bits:
            assert set(operations_of(found)) <= {"add", "mul", "floordiv", "mod"}


@pytest.mark.parametrize("swizzle", [SW32, SW64, SW128])
def test_swizzle_is_its_own_inverse_on_each_period(swizzle: Any) -> None:
    offsets = np.arange(swizzle.period)
    moved = swizzle.apply(offsets)
    assert sorted(moved) == list(offsets)
    assert np.array_equal(swizzle.apply(moved), offsets)
    assert np.array_equal(moved // swizzle.span, offsets // swizzle.span)  # rows stay rows
    assert np.array_equal(swizzle.apply(offsets + 3 * swizzle.period), moved + 3 * swizzle.period)


def test_swizzles_are_the_hardware_formulas_on_chunks() -> None:
    # A 16-byte chunk c of row r goes to c ^ (r & 7), c ^ ((r >> 1) & 3), c ^ ((r >> 2) & 1).
    for swizzle, row_bytes, twist in (
        (SW128, 128, lambda r: r & 7),
        (SW64, 64, lambda r: r >> 1 & 3),
        (SW32, 32, lambda r: r >> 2 & 1),
    ):
        for r in range(16):
            for c in range(row_bytes // 16):
                assert swizzle.apply(r * row_bytes + c * 16 + 5) == r * row_bytes + (c ^ twist(r)) * 16 + 5
    assert (SW128.period, SW64.period, SW32.period, NONE.period) == (1024, 512, 256, 1)
    assert (SW128.mask, SW64.mask, SW32.mask) == (0x70, 0x30, 0x10)


@pytest.mark.parametrize(
    ("columns", "bits", "span"),
    [
        (64, 16, 128),
        (128, 16, 128),
        (256, 16, 128),
        (32, 16, 64),
        (16, 16, 32),
        (96, 16, 64),
        (80, 16, 32),
        (128, 8, 128),
        (32, 32, 128),
        (24, 16, 0),
        (20, 16, 0),
    ],
)
def test_swizzle_takes_the_largest_span_that_divides_a_row(columns: int, bits: int, span: int) -> None:
    layout = swizzled((16, columns), bits)
    assert layout.swizzle.span == span
    if span:
        assert layout.panel == span * 8 // bits
        assert layout.alignment == span * 8
        assert layout.size == 16 * columns


@pytest.mark.parametrize("columns", [16, 24, 32, 40, 48, 56, 64, 80, 96, 128, 192, 256])
def test_eight_rows_at_one_chunk_are_conflict_free(columns: int) -> None:
    layout = swizzled((16, columns), 16)
    for chunk in range(columns // 8):
        for row in (0, 8):
            addresses = [layout.byte_offset(row + r, chunk * 8) for r in range(8)] + [-1] * 24
            assert bank_conflicts(addresses, 16) == 1


def test_swizzle_removes_conflicts_of_128_byte_rows() -> None:
    rows = np.arange(8)
    plain = row_major((8, 64), 16).byte_offset(rows, 0 * rows)
    assert bank_conflicts([*plain, *[-1] * 24], 16) == 8
    twisted = swizzled((8, 64), 16).byte_offset(rows, 0 * rows)
    assert bank_conflicts([*twisted, *[-1] * 24], 16) == 1


def test_swizzled_offset_is_short() -> None:
    layout = swizzled((128, 64), 16)
    offset = layout.offset(Recorded(77), 8)
    assert value_of(offset) == 77 * 64 + ((1 ^ 77 % 8) * 8)
    assert sorted(operations_of(offset)) == ["add", "mod", "mul", "mul", "xor"]


def test_transposed_operand_is_the_same_memory_with_its_indices_exchanged() -> None:
    tall = swizzled_transposed((128, 32), 16)  # M-major: 128 contiguous
    assert np.array_equal(tall.offsets(), swizzled((32, 128), 16).offsets().T)
    assert value_of(tall.offset(Recorded(70), Recorded(9))) == tall.offsets()[70, 9]
    assert column_major((3, 5), 16).strides == (1, 3)


def test_leading_index_keeps_whole_operand_tiles() -> None:
    layout = swizzled((3, 64, 128), 16)
    tile = swizzled((64, 128), 16)
    for b in range(3):
        assert np.array_equal(layout.offsets()[b], tile.offsets() + b * 64 * 128)


def test_user_function_that_is_a_known_layout_becomes_it() -> None:
    assert from_function((8, 4), lambda i, j: i * 4 + j, 16) == row_major((8, 4), 16)
    assert from_function((8, 4), lambda i, j: (j, i), 16) == column_major((8, 4), 16)
    assert from_function((8, 4), lambda i, j: i * 6 + j, 16) == padded((8, 4), 16, 2)
    twisted = from_function((16, 64), lambda i, j: i * 64 + ((j // 8) ^ (i % 8)) * 8 + j % 8, 16)
    assert twisted == swizzled((16, 64), 16)


def test_user_xor_becomes_a_formula() -> None:
    layout = from_function((16, 16), lambda i, j: i * 16 + (j ^ i), 32)
    assert layout.table is not None
    assert layout.linear is not None
    for i in (0, 5, 15):
        for j in (0, 7, 12):
            assert value_of(layout.offset(Recorded(i), Recorded(j))) == i * 16 + (j ^ i)
            assert layout.offset(i, j) == i * 16 + (j ^ i)
    assert recognised(layout) is layout


def test_user_table_without_formula_says_so_when_asked_for_one() -> None:
    layout = from_function((3, 5), lambda i, j: (i * 5 + j + 1) % 15, 32)
    assert layout.offset(0, 0) == 1
    assert layout.size == 15
    assert np.array_equal(layout.offset(np.arange(3), np.zeros(3, int)), [1, 6, 11])
    with pytest.raises(LayoutError, match="TB305"):
        layout.offset(Recorded(0), 0)
    assert layout == from_function((3, 5), lambda i, j: (i * 5 + j + 1) % 15, 32)
    assert len({layout, from_function((3, 5), lambda i, j: (i * 5 + j + 1) % 15, 32)}) == 1


def test_user_function_with_a_clash_is_refused() -> None:
    with pytest.raises(LayoutError, match=r"TB306.*\(0, 1\) and \(1, 0\) both at offset 1"):
        from_function((2, 2), lambda i, j: i + j, 32)
    with pytest.raises(LayoutError, match=r"TB306.*negative place -1"):
        from_function((2,), lambda i: i - 1, 32)


@given(st.sampled_from([(8, 16), (16, 64), (4, 8, 32)]), BITS, st.sampled_from([32, 64, 128]))
def test_power_of_two_swizzles_are_linear(shape: tuple[int, ...], bits: int, span: int) -> None:
    assert swizzled(shape, bits, span).linear is not None
    assert padded(shape, bits, 3).linear is None


def test_descriptions_name_the_formula() -> None:
    assert "offset = i*72 + j" in padded((64, 64), 16, 8).describe()
    assert "128-byte swizzle" in swizzled((64, 128), 16).describe()
    assert "j//64*4096 + j%64" in swizzled((64, 128), 16).describe()


def test_four_bit_elements_share_bytes() -> None:
    layout = swizzled((8, 256), 4)
    assert (layout.swizzle, layout.panel, layout.size_bytes) == (SW128, 256, 1024)
    rows = np.arange(8)
    assert np.array_equal(layout.byte_offset(rows, 0 * rows + 33), rows * 128 + ((1 ^ rows) * 16))
