"""ldmatrix and mma against the PTX ISA's formulas, written out lane by lane."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.build import Build, zeros
from tilebench.ir.dtype import as_dtype, decode, encode


def fragment_a(lane: int, register: int, e: int) -> tuple[int, int]:
    """(row, k) of element `register` of A, PTX ISA mma.m16n8k*: groups of e elements a 32-bit register."""
    group, inside = divmod(register, e)
    row = lane // 4 + (8 if group % 2 else 0)
    return row, (lane % 4) * e + inside + (4 * e if group >= 2 else 0)


def fragment_b(lane: int, register: int, e: int) -> tuple[int, int]:
    """(k, column) of element `register` of B."""
    group, inside = divmod(register, e)
    return (lane % 4) * e + inside + 4 * e * group, lane // 4


def fragment_c(lane: int, register: int) -> tuple[int, int]:
    """(row, column) of element `register` of C and D."""
    return lane // 4 + (8 if register >= 2 else 0), (lane % 4) * 2 + register % 2


CASES = [
    (16, "float16", "float32"),
    (8, "float16", "float32"),
    (16, "bfloat16", "float32"),
    (16, "float16", "float16"),
    (8, "float32", "float32"),
    (4, "float32", "float32"),
    (32, "int8", "int32"),
    (32, "uint8", "int32"),
    (16, "int8", "int32"),
    (32, "float8_e4m3", "float32"),
    (32, "float8_e5m2", "float32"),
]


@pytest.mark.parametrize(("k", "dtype", "accumulator"), CASES)
def test_mma_is_the_product_of_its_fragments(k: int, dtype: str, accumulator: str) -> None:
    kind, sum_kind = as_dtype(dtype), as_dtype(accumulator)
    e = 32 // min(32, kind.bits)
    count_a, count_b = k * 16 // 32, k * 8 // 32
    warps, rng = 2, np.random.default_rng(k)
    b = Build(32 * warps)
    ga, gb = b.tensor("A", 64 * count_a, dtype), b.tensor("B", 64 * count_b, dtype)
    gc = b.tensor("C", 64 * 4, accumulator, "inout")
    a, w, d = b.regs("a", count_a, dtype), b.regs("b", count_b, dtype), b.regs("d", 4, accumulator)
    with b.loop(count_a, independent=True) as i:
        b.store(a, i, b.load(ga, b.tx * count_a + i))
    with b.loop(count_b, independent=True) as i:
        b.store(w, i, b.load(gb, b.tx * count_b + i))
    with b.loop(4, independent=True) as i:
        b.store(d, i, b.load(gc, b.tx * 4 + i))
    b.mma(k, d, 0, a, 0, w, 0, "tf32" if dtype == "float32" else "")
    with b.loop(4, independent=True) as i:
        b.store(gc, b.tx * 4 + i, b.load(d, i))
    low, high = (0, 8) if dtype == "uint8" else (-3, 4)
    mats = [
        (rng.integers(low, high, (16, k)), rng.integers(low, high, (k, 8)), rng.integers(-9, 9, (16, 8)))
        for _ in range(warps)
    ]
    xa, xb, xc = np.zeros(64 * count_a), np.zeros(64 * count_b), np.zeros(256)
    for t in range(64):
        ma, mb, mc = mats[t // 32]
        for r in range(count_a):
            xa[t * count_a + r] = ma[fragment_a(t % 32, r, e)]
        for r in range(count_b):
            xb[t * count_b + r] = mb[fragment_b(t % 32, r, e)]
        for r in range(4):
            xc[t * 4 + r] = mc[fragment_c(t % 32, r)]
    sa, sb, sc = (encode(x.astype(q.compute_dtype), q) for x, q in ((xa, kind), (xb, kind), (xc, sum_kind)))
    result = b.run(sa, sb, sc)
    assert result.findings == ()
    assert result.counts.instructions == {f"mma.m16n8k{k}": 2}
    got = decode(sc, sum_kind)
    for t in range(64):
        ma, mb, mc = mats[t // 32]
        expected = ma @ mb + mc
        for r in range(4):
            assert got[t * 4 + r] == expected[fragment_c(t % 32, r)]


def test_tf32_ignores_the_low_bits_of_its_operands() -> None:
    b = Build(32)
    out = b.tensor("C", 128, "float32", "out")
    a, w, d = b.regs("a", 4, "float32"), b.regs("b", 2, "float32"), b.regs("d", 4, "float32")
    for memory, count, value in ((a, 4, 1 + 2.0**-12), (w, 2, 1.0), (d, 4, 0.0)):
        with b.loop(count, independent=True) as i:
            b.store(memory, i, value)
    b.mma(8, d, 0, a, 0, w, 0, "tf32")
    with b.loop(4, independent=True) as i:
        b.store(out, b.tx * 4 + i, b.load(d, i))
    c = zeros(128, "float32")
    b.run(c)
    assert (c == 8.0).all()


def _ldmatrix(dtype: str, matrices: int, transpose: bool) -> tuple[np.ndarray, np.ndarray]:
    kind = as_dtype(dtype)
    size = kind.storage_dtype.itemsize
    row, each = 16 // size, 4 // size
    b = Build(32)
    source = b.tensor("A", 8 * matrices * row, dtype)
    out = b.tensor("C", 32 * matrices * each, dtype, "out")
    s, r = b.shared("s", 8 * matrices * row, dtype), b.regs("r", matrices * each, dtype)
    with b.when(b.tx < 8 * matrices), b.loop(row, independent=True) as i:
        b.store(s, b.tx * row + i, b.load(source, b.tx * row + i))
    b.sync()
    b.ldmatrix(r, 0, s, (b.tx % (8 * matrices)) * row, matrices, transpose)
    with b.loop(matrices * each, independent=True) as i:
        b.store(out, b.tx * (matrices * each) + i, b.load(r, i))
    data = np.arange(8 * matrices * row).astype(np.uint64).astype(kind.storage_dtype)
    c = zeros(32 * matrices * each, dtype)
    result = b.run(data, c)
    assert result.findings == ()
    assert result.counts.worst_ways("s") <= 4  # the stores of 16-byte rows; ldmatrix itself has none:
    assert [x.ways_worst for x in result.counts.accesses if x.kind == "ldmatrix"] == [1]
    return data.reshape(matrices, 8, row), c.reshape(32, matrices, each)


@pytest.mark.parametrize("matrices", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["float16", "int8", "float32", "uint16"])
def test_ldmatrix_gives_lane_l_two_halves_of_row_l_over_4(dtype: str, matrices: int) -> None:
    tiles, got = _ldmatrix(dtype, matrices, False)
    each = got.shape[2]
    for lane in range(32):
        for m in range(matrices):
            c = (lane % 4) * each
            assert (got[lane, m] == tiles[m, lane // 4, c : c + each]).all()


@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_ldmatrix_trans_gives_lane_l_two_rows_of_column_l_over_4(matrices: int) -> None:
    tiles, got = _ldmatrix("uint16", matrices, True)
    for lane in range(32):
        for m in range(matrices):
            r = (lane % 4) * 2
            assert (got[lane, m] == tiles[m, r : r + 2, lane // 4]).all()


def test_mma_in_independent_loops_is_the_same_as_one_by_one() -> None:
    outputs: list[np.ndarray] = []
    for independent in (True, False):
        b = Build(64)
        ga, gb = b.tensor("A", 64 * 24, "float16"), b.tensor("B", 64 * 16, "float16")
        out = b.tensor("C", 64 * 48, "float32", "out")
        a, w, d = b.regs("a", 24, "float16"), b.regs("b", 16, "float16"), b.regs("d", 48, "float32")
        b.copy(a, 0, ga, b.tx * 24, 8)
        b.copy(a, 8, ga, b.tx * 24 + 8, 8)
        b.copy(a, 16, ga, b.tx * 24 + 16, 8)
        b.copy(w, 0, gb, b.tx * 16, 8)
        b.copy(w, 8, gb, b.tx * 16 + 8, 8)
        with b.loop(48, independent=True) as i:
            b.store(d, i, 0.5)
        with b.loop(3, independent=independent) as m, b.loop(4, independent=independent) as n:
            b.mma(16, d, (m * 4 + n) * 4, a, m * 8, w, n * 4)
        with b.loop(48, independent=True) as i:
            b.store(out, b.tx * 48 + i, b.load(d, i))
        rng = np.random.default_rng(1)
        c = zeros(64 * 48, "float32")
        result = b.run(
            rng.integers(-3, 4, 64 * 24).astype(np.float16),
            rng.integers(-3, 4, 64 * 16).astype(np.float16),
            c,
        )
        assert result.findings == ()
        assert result.counts.instructions["mma.m16n8k16"] == 24
        outputs.append(c)
    assert (outputs[0] == outputs[1]).all()
    assert np.ptp(outputs[0]) > 10


def test_mma_by_part_of_a_warp_is_a_finding() -> None:
    b = Build(32)
    a, w, d = b.regs("a", 8, "float16"), b.regs("b", 4, "float16"), b.regs("d", 4, "float32")
    for memory, count in ((a, 8), (w, 4), (d, 4)):
        with b.loop(count, independent=True) as i:
            b.store(memory, i, 0.0)
    with b.when(b.tx < 16):
        line = b.mma(16, d, 0, a, 0, w, 0)
    result = b.run()
    assert [f.kind for f in result.findings] == ["divergence"]
    assert result.findings[0].spans[0].line == line
