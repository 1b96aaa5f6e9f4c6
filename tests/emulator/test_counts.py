"""Bank conflicts and sectors counted from real addresses, against a count bank by bank and known patterns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.emulator.build import Build, zeros
from tests.emulator.kernels import attention, gemm, swizzled
from tilebench.backends.emulator.counts import conflict_ways, phases, sector_counts
from tilebench.ir.expr import Expr


def ways_by_hand(addresses: list[int], width: int, active: list[bool]) -> list[int]:
    """The definition: in each phase, the most distinct words in one bank."""
    out: list[int] = []
    lanes = phases(width)
    for first in range(0, len(addresses), lanes):
        banks: dict[int, set[int]] = {}
        for lane in range(first, first + lanes):
            if active[lane]:
                for word in range(addresses[lane] // 4, (addresses[lane] + max(width, 1) - 1) // 4 + 1):
                    banks.setdefault(word % 32, set()).add(word)
        out.append(max((len(b) for b in banks.values()), default=0))
    return out


@given(
    st.sampled_from([1, 2, 4, 8, 16]),
    st.lists(st.integers(0, 300), min_size=32, max_size=32),
    st.lists(st.booleans(), min_size=32, max_size=32),
)
def test_ways_are_the_most_words_that_one_bank_must_give(
    width: int, places: list[int], active: list[bool]
) -> None:
    addresses = [p * width for p in places]
    assert conflict_ways(np.array(addresses), width).tolist() == ways_by_hand(addresses, width, [True] * 32)
    assert conflict_ways(np.array(addresses), width, np.array(active)).tolist() == ways_by_hand(
        addresses, width, active
    )


@given(st.sampled_from([1, 2, 4, 8, 16]), st.lists(st.integers(0, 300), min_size=32, max_size=32))
def test_sectors_are_the_distinct_32_bytes_that_are_touched(width: int, places: list[int]) -> None:
    touched = {(p * width + i) // 32 for p in places for i in range(width)}
    assert sector_counts(np.array(places) * width, width).tolist() == [len(touched)]


def column_reads(pitch: int, place: str = "pitch") -> int:
    """Ways of 32 lanes reading one column of 4-byte elements with rows `pitch` words apart."""
    b = Build(32)
    s, r = b.shared("s", 32 * pitch, "float32"), b.regs("r", 1, "float32")
    with b.loop(pitch, independent=True) as i:
        b.store(s, i * 32 + b.tx, 0.0)
    b.sync()
    b.store(r, 0, b.load(s, b.tx * pitch if place == "pitch" else b.tx * pitch + (b.tx ^ 5)))
    result = b.run()
    assert result.findings == ()
    return next(a.ways_worst for a in result.counts.accesses if a.kind == "load")


def test_a_column_of_128_byte_rows_has_32_way_conflicts_and_padding_or_a_swizzle_removes_them() -> None:
    assert column_reads(32) == 32
    assert column_reads(33) == 1
    assert column_reads(32, "swizzle") == 1
    assert column_reads(16) == 16
    assert column_reads(8) == 8


def ldmatrix_ways(index: str, pitch: int = 64) -> int:
    b = Build(32)
    s, q = b.shared("s", 16 * max(pitch, 64), "float16"), b.regs("q", 8, "float16")
    with b.loop(16 * max(pitch, 64) // 32, independent=True) as i:
        b.store(s, i * 32 + b.tx, 0.0)
    b.sync()
    row, chunk = b.tx % 16, b.tx // 16
    at: Expr = swizzled(row, chunk, 8) if index == "swizzled" else row * pitch + chunk * 8
    b.ldmatrix(q, 0, s, at, 4)
    result = b.run()
    assert result.findings == ()
    (access,) = (a for a in result.counts.accesses if a.kind == "ldmatrix")
    assert access.requests == 1
    assert access.ways_mean == access.ways_worst
    return access.ways_worst


def test_ldmatrix_of_row_major_128_byte_rows_has_8_way_conflicts() -> None:
    assert ldmatrix_ways("rows") == 8
    assert ldmatrix_ways("swizzled") == 1
    assert ldmatrix_ways("rows", 72) == 1  # padded by 16 bytes
    assert ldmatrix_ways("rows", 32) == 4  # rows of 64 bytes


def test_lanes_on_one_word_share_it() -> None:
    b = Build(32)
    s, r = b.shared("s", 32, "float32"), b.regs("r", 1, "float32")
    b.store(s, b.tx, 0.0)
    b.sync()
    b.store(r, 0, b.load(s, 7))
    assert b.run().counts.worst_ways() == 1


@pytest.mark.parametrize(
    ("stride", "sectors", "efficiency"), [(1, 4, 1.0), (2, 8, 0.5), (8, 32, 0.125), (32, 32, 0.125)]
)
def test_sectors_of_strided_global_loads(stride: int, sectors: int, efficiency: float) -> None:
    b = Build(32)
    a, r = b.tensor("A", 32 * stride, "float32"), b.regs("r", 1, "float32")
    b.store(r, 0, b.load(a, b.tx * stride))
    (access,) = b.run(zeros(32 * stride, "float32")).counts.accesses
    assert (access.requests, access.sectors, access.efficiency) == (1, sectors, efficiency)


def test_inactive_threads_are_not_counted() -> None:
    b = Build(64)
    a, r = b.tensor("A", 64, "float32"), b.regs("r", 1, "float32")
    with b.when(b.tx < 8):
        b.store(r, 0, b.load(a, b.tx))
    (access,) = b.run(zeros(64, "float32")).counts.accesses
    assert (access.requests, access.sectors, access.efficiency) == (1, 1, 1.0)


def test_a_loop_run_as_one_counts_every_iteration() -> None:
    counts: list[object] = []
    for independent in (False, True):
        b = Build(64)
        a, r = b.tensor("A", 64 * 8, "float32"), b.regs("r", 8, "float32")
        s = b.shared("s", 64 * 8, "float32")
        with b.loop(8, independent=independent) as i:
            b.store(r, i, b.load(a, b.tx * 8 + i))
            b.store(s, b.tx * 8 + i, b.load(r, i))
        counts.append(
            [
                (x.requests, x.ways_worst, x.ways_mean, x.sectors)
                for x in b.run(zeros(512, "float32")).counts.accesses
            ]
        )
    assert counts[0] == counts[1] == [(16, 1, 1.0, 16 * 32), (16, 8, 8.0, 0)]


@pytest.mark.parametrize("kernel", ["gemm", "attention"])
def test_swizzled_kernels_have_no_bank_conflicts_and_full_sectors(kernel: str) -> None:
    if kernel == "gemm":
        b, sizes = gemm(128), [("float16", 128 * 128), ("float16", 128 * 128), ("float16", 128 * 128)]
    else:
        b, sizes = (
            attention(2),
            [("float16", 128 * 64), ("float16", 128 * 64), ("float16", 128 * 64), ("float32", 128 * 64)],
        )
    result = b.run(*(zeros(n, d) for d, n in sizes))
    assert result.findings == ()
    assert result.counts.worst_ways() == 1
    assert all(
        a.efficiency == 1.0 for a in result.counts.accesses if a.space == "global" and a.kind == "copy-in"
    )
