"""The fragments against PTX ISA's own formulas, written here as the manual writes them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilebench.errors import LayoutError
from tilebench.layouts import (
    FragmentLayout,
    blocked,
    conversion,
    ldmatrix_a,
    ldmatrix_b,
    ldmatrix_result,
    ldmatrix_rows,
    mma_a,
    mma_accumulator,
    mma_b,
    mma_c,
    mma_k,
    mma_operand_a,
    mma_operand_b,
    replicated,
    wgmma_a,
    wgmma_accumulator,
    wgmma_c,
    wgmma_operand_a,
    widest_vector,
)


def ptx_a(bits: int, lane: int, i: int) -> tuple[int, int]:
    group, member = lane >> 2, lane % 4
    if bits == 16:  # m16n8k16
        row = group if i < 2 or 4 <= i < 6 else group + 8
        return row, member * 2 + (i & 1) + (8 if i >= 4 else 0)
    if bits == 32:  # m16n8k8 .tf32
        return (group if i in (0, 2) else group + 8), (member if i in (0, 1) else member + 4)
    row = group if 0 <= i < 4 or 8 <= i < 12 else group + 8  # m16n8k32
    return row, member * 4 + (i & 3) + (16 if i >= 8 else 0)


def ptx_b(bits: int, lane: int, i: int) -> tuple[int, int]:
    group, member = lane >> 2, lane % 4
    if bits == 16:
        return member * 2 + (i & 1) + (8 if i >= 2 else 0), group
    if bits == 32:
        return (member if i == 0 else member + 4), group
    return member * 4 + (i & 3) + (16 if i >= 4 else 0), group


def ptx_c(lane: int, i: int) -> tuple[int, int]:
    group, member = lane >> 2, lane % 4
    return (group if i < 2 else group + 8), member * 2 + (i & 1)


def ptx_wgmma_d(thread: int, i: int) -> tuple[int, int]:
    warp, lane = thread // 32, thread % 32
    return 16 * warp + lane // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + lane % 4 * 2 + i % 2


def check(layout: FragmentLayout, formula: Any) -> None:
    for t in range(layout.threads):
        for r in range(layout.registers):
            assert tuple(layout.coords()[t, r]) == formula(t, r), f"thread {t} register {r}"
    assert layout.covers
    assert layout.replication == 1
    assert not any(layout.padded_dims)


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_mma_operands_are_those_of_the_ptx_isa(bits: int) -> None:
    check(mma_a(bits), lambda t, r: ptx_a(bits, t, r))
    check(mma_b(bits), lambda t, r: ptx_b(bits, t, r))
    assert mma_a(bits).shape == (16, mma_k(bits))
    assert mma_b(bits).shape == (mma_k(bits), 8)


def test_accumulators_are_those_of_the_ptx_isa() -> None:
    check(mma_c(), ptx_c)
    for n in (8, 96, 256):
        check(wgmma_c(n), ptx_wgmma_d)


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_wgmma_register_operand_is_the_mma_operand_of_each_warp(bits: int) -> None:
    def formula(t: int, r: int) -> tuple[int, int]:
        row, k = ptx_a(bits, t % 32, r)
        return row + t // 32 * 16, k

    check(wgmma_a(bits), formula)


@pytest.mark.parametrize(
    ("shape", "warps"), [((64, 64), (2, 2)), ((128, 96), (4, 1)), ((32, 48), (1, 2)), ((48, 8), (3, 1))]
)
def test_accumulator_tiles_atoms_row_major_in_each_warp(
    shape: tuple[int, int], warps: tuple[int, int]
) -> None:
    layout = mma_accumulator(shape, warps)
    rows, columns = shape[0] // warps[0], shape[1] // warps[1]

    def formula(t: int, r: int) -> tuple[int, int]:
        warp, lane = t // 32, t % 32
        atom, i = r // 4, r % 4
        row, column = ptx_c(lane, i)
        m_atom, n_atom = atom // (columns // 8), atom % (columns // 8)
        return warp % warps[0] * rows + m_atom * 16 + row, warp // warps[0] * columns + n_atom * 8 + column

    check(layout, formula)


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_operands_follow_the_warps_of_the_accumulator(bits: int) -> None:
    m, n, k, warps = 64, 32, 64, (2, 2)
    accumulator = mma_accumulator((m, n), warps)
    a, b = mma_operand_a((m, k), warps, bits), mma_operand_b((k, n), warps, bits)
    assert a.replication == b.replication == 2
    assert a.threads == b.threads == accumulator.threads == 128
    for warp in range(4):
        t = slice(32 * warp, 32 * warp + 32)
        rows = set(accumulator.coords()[t, :, 0].ravel())
        columns = set(accumulator.coords()[t, :, 1].ravel())
        assert set(a.coords()[t, :, 0].ravel()) == rows
        assert set(a.coords()[t, :, 1].ravel()) == set(range(k))
        assert set(b.coords()[t, :, 1].ravel()) == columns
        assert set(b.coords()[t, :, 0].ravel()) == set(range(k))
    per_a, per_b = mma_a(bits).registers, mma_b(bits).registers
    k_atoms, n_atoms = k // mma_k(bits), n // 2 // 8
    for r in range(a.registers):  # thread 0 of warp 0: coordinates are the atom's own plus the atom's corner
        atom, i = divmod(r, per_a)
        row, column = ptx_a(bits, 0, i)
        assert tuple(a.coords()[0, r]) == (row + atom // k_atoms * 16, column + atom % k_atoms * mma_k(bits))
    for r in range(b.registers):
        atom, i = divmod(r, per_b)
        row, column = ptx_b(bits, 0, i)
        assert tuple(b.coords()[0, r]) == (row + atom // n_atoms * mma_k(bits), column + atom % n_atoms * 8)
    assert mma_operand_b((n, k), warps, bits, transposed=True) == b.permute((1, 0))


def test_scores_become_the_operand_of_the_second_product_with_no_movement() -> None:
    for m, n in ((64, 64), (128, 96)):
        scores, operand = mma_accumulator((m, n), (4, 1)), mma_operand_a((m, n), (4, 1), 16)
        assert conversion(scores, operand).kind == "none"
        assert conversion(wgmma_accumulator((m, n), 1), wgmma_operand_a((m, n), 1, 16)).kind == "none"
    assert conversion(mma_accumulator((64, 32), (4, 1)), mma_operand_a((64, 32), (4, 1), 8)).kind == "shuffle"


def test_wgmma_accumulator_of_one_warpgroup_is_the_mma_accumulator_of_four_warps() -> None:
    assert wgmma_accumulator((64, 96), 1).same_as(mma_accumulator((64, 96), (4, 1)))
    two = wgmma_accumulator((128, 64), 2)
    check(two, lambda t, r: (ptx_wgmma_d(t % 128, r)[0] + t // 128 * 64, ptx_wgmma_d(t % 128, r)[1]))
    tall = wgmma_accumulator((128, 64), 1)
    check(tall, lambda t, r: (ptx_wgmma_d(t, r % 32)[0] + r // 32 * 64, ptx_wgmma_d(t, r % 32)[1]))
    wide = wgmma_accumulator((64, 64), (1, 2))
    check(wide, lambda t, r: (ptx_wgmma_d(t % 128, r)[0], ptx_wgmma_d(t % 128, r)[1] + t // 128 * 32))


def run_ldmatrix(addresses: FragmentLayout, count: int, trans: bool) -> np.ndarray:
    """Coordinates that ldmatrix.x{count} leaves in [lane, register, element], by the manual's description."""
    per_row = addresses.registers  # elements in the 16 bytes that a lane names
    packed = per_row // 4  # elements per 32-bit register
    rows = addresses.coords()  # [lane, element, dim]
    out = np.empty((32, count, packed, 2), int)
    for lane in range(32):
        for matrix in range(count):
            for e in range(packed):
                if trans:
                    out[lane, matrix, e] = rows[8 * matrix + lane % 4 * 2 + e, lane // 4]
                else:
                    out[lane, matrix, e] = rows[8 * matrix + lane // 4, lane % 4 * packed + e]
    return out


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_ldmatrix_fills_operand_a(bits: int) -> None:
    loaded = run_ldmatrix(ldmatrix_a(bits), 4, False).reshape(32, -1, 2)
    assert np.array_equal(loaded, mma_a(bits).coords())


def test_ldmatrix_trans_fills_operand_a_from_a_transposed_tile() -> None:
    loaded = run_ldmatrix(ldmatrix_a(16, "km"), 4, True).reshape(32, -1, 2)
    assert np.array_equal(loaded[..., ::-1], mma_a(16).coords())


@pytest.mark.parametrize(("bits", "stored"), [(8, "nk"), (16, "nk"), (32, "nk"), (16, "kn")])
def test_ldmatrix_fills_two_operands_b_side_by_side(bits: int, stored: Literal["nk", "kn"]) -> None:
    b = mma_b(bits).coords()
    for count in (2, 4):
        loaded = run_ldmatrix(ldmatrix_b(bits, stored, count), count, stored == "kn").reshape(32, -1, 2)
        loaded = loaded[..., ::-1] if stored == "nk" else loaded
        both = np.concatenate([b, b + np.array([0, 8])], axis=1) if count == 4 else b
        assert np.array_equal(loaded, both)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_result_is_the_8x8_fragment(count: Literal[1, 2, 4], trans: bool) -> None:
    loaded = run_ldmatrix(ldmatrix_rows(count), count, trans).reshape(32, -1, 2)
    assert np.array_equal(loaded, ldmatrix_result(count, trans).coords())


@given(
    st.lists(st.integers(1, 33), min_size=1, max_size=3), st.integers(1, 100), st.sampled_from([1, 2, 4, 8])
)
def test_blocked_holds_each_element_once_for_any_shape_and_threads(
    shape: list[int], threads: int, vector: int
) -> None:
    layout = blocked(shape, threads, vector)
    assert layout.threads == threads
    assert layout.covers
    assert layout.replication == 1
    assert layout.is_digits


@pytest.mark.parametrize(
    ("shape", "threads", "vector", "registers"),
    [
        ((128, 64), 128, 8, 64),
        ((128, 80), 128, 8, 80),
        ((64, 128), 256, 8, 32),
        ((1024,), 128, 4, 8),
        ((1, 128), 32, 4, 4),
        ((128, 4), 128, 8, 8),
        ((32, 32), 96, 1, 11),
    ],
)
def test_blocked_wastes_no_registers_on_common_tiles(
    shape: tuple[int, ...], threads: int, vector: int, registers: int
) -> None:
    layout = blocked(shape, threads, vector)
    assert layout.registers == registers
    strides = [int(np.prod(shape[d + 1 :])) for d in range(len(shape))]
    assert widest_vector(layout, strides, 2 if vector == 8 else 4) >= min(vector, 4) or vector == 1


def test_blocked_lanes_read_consecutive_vectors() -> None:
    layout = blocked((128, 64), 128, 8)
    first = [tuple(layout.coords()[lane, 0]) for lane in range(9)]
    assert first == [(0, 8 * k) for k in range(8)] + [(1, 0)]


def test_blocked_gives_each_warp_whole_rows_where_it_costs_nothing() -> None:
    layout = blocked((8, 4096), 128, 4)
    assert layout.thread_digits(1) == ((1, 32, 4),)
    assert layout.thread_digits(0) == ((32, 4, 1),)
    assert layout.registers == 8 * 4096 // 128


def test_replicated_is_row_major_in_every_thread() -> None:
    layout = replicated((3, 5), 7)
    assert (layout.threads, layout.registers, layout.replication) == (7, 15, 7)
    assert np.array_equal(layout.elements(), np.broadcast_to(np.arange(15), (7, 15)))
    assert layout.is_owner(np.arange(7))[0].tolist() == list(range(7))


def test_tiles_that_atoms_do_not_divide_are_refused_with_the_nearest() -> None:
    with pytest.raises(LayoutError, match=r"TB303.*100x64") as caught:
        mma_accumulator((100, 64), (4, 1))
    assert "128x64" in caught.value.fix
    with pytest.raises(LayoutError, match="TB303"):
        mma_operand_a((64, 8), (4, 1), 16)
    with pytest.raises(LayoutError, match="TB303"):
        wgmma_accumulator((32, 64), 1)
