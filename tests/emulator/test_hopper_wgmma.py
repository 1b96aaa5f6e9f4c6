"""wgmma: operands through descriptors, from registers, and the accumulators, against NumPy.

Operands are laid down by the row-and-chunk rule of the swizzles (chunk c of row r lies at c ^ (r & 7), and so
on), which is another way to say it than the emulator's (bits of absolute addresses).
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulator.build import zeros
from tests.emulator.hopper_build import HopperBuild
from tilebench.ir.dtype import as_dtype, decode, encode
from tilebench.ir.hopper import Descriptor
from tilebench.layouts.atoms import wgmma_a, wgmma_c

XOR = {0: lambda r: 0 * r, 32: lambda r: (r >> 2) & 1, 64: lambda r: (r >> 1) & 3, 128: lambda r: r & 7}


def k_major(tile: np.ndarray, swizzle: int) -> tuple[np.ndarray, Descriptor, list[int]]:
    """Elements of [mn, k] in shared memory, how they lie, and the element offset of each k step."""
    extent, k = tile.shape
    size = tile.itemsize
    e = 16 // size
    image = np.zeros(tile.size, tile.dtype)
    if not swizzle:  # 8 x 16-byte cores: those along mn are neighbours
        for r in range(extent):
            for q in range(k // e):
                at = (q * (extent // 8) + r // 8) * 8 * e + (r % 8) * e
                image[at : at + e] = tile[r, q * e : (q + 1) * e]
        leading = extent * 16
        return image, Descriptor(leading, 128, 0), [s * 2 * leading // size for s in range(k * size // 32)]
    row = swizzle // size
    for r in range(extent):
        for q in range(k // e):
            panel, c = divmod(q, row // e)
            at = panel * extent * row + r * row + (c ^ int(XOR[swizzle](r))) * e
            image[at : at + e] = tile[r, q * e : (q + 1) * e]
    steps = []
    for s in range(k * size // 32):
        panel, inside = divmod(s * 2 * e, row)
        steps.append(panel * extent * row + inside)
    return image, Descriptor(16, 8 * swizzle, swizzle), steps


def mn_major(tile: np.ndarray, swizzle: int) -> tuple[np.ndarray, Descriptor, list[int]]:
    """As `k_major`, with mn contiguous: [mn, k] of 16-bit elements."""
    extent, k = tile.shape
    image = np.zeros(tile.size, tile.dtype)
    if not swizzle:  # cores of 8 k rows x 8 mn: those along k are neighbours
        for kk in range(k):
            for q in range(extent // 8):
                at = (q * (k // 8) + kk // 8) * 64 + (kk % 8) * 8
                image[at : at + 8] = tile[q * 8 : q * 8 + 8, kk]
        return image, Descriptor(128, 128 * (k // 8), 0, True), [s * 128 for s in range(k // 16)]
    row = swizzle // 2
    for kk in range(k):
        for q in range(extent // 8):
            panel, c = divmod(q, row // 8)
            at = panel * k * row + kk * row + (c ^ int(XOR[swizzle](kk))) * 8
            image[at : at + 8] = tile[q * 8 : q * 8 + 8, kk]
    steps = [s * 16 * row for s in range(k // 16)]
    return image, Descriptor(k * swizzle, 8 * swizzle, swizzle, True), steps


def product(
    n: int,
    k: int,
    dtype: str,
    a_swizzle: int = 128,
    b_swizzle: int = 128,
    a_mn: bool = False,
    b_mn: bool = False,
    registers: bool = False,
    sums: str = "float32",
    warpgroups: int = 1,
    keep: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """What the emulator and NumPy give for a[64 * warpgroups, k] @ b[n, k].T (+ c)."""
    kind, total = as_dtype(dtype), as_dtype(sums)
    rng = np.random.default_rng(n * k + a_swizzle + 3 * b_swizzle)
    low = 0 if kind.kind == "uint" else -3
    a = rng.integers(low, 4, (64 * warpgroups, k)).astype(np.float64)
    b = rng.integers(low, 4, (n, k)).astype(np.float64)
    c = rng.integers(-9, 10, (64 * warpgroups, n)).astype(np.float64)
    stored = encode(a.astype(kind.compute_dtype), kind), encode(b.astype(kind.compute_dtype), kind)
    parts = [
        (mn_major if a_mn else k_major)(stored[0][64 * w : 64 * w + 64], a_swizzle) for w in range(warpgroups)
    ]
    a_image, a_steps = np.concatenate([p[0] for p in parts]), parts[0][2]
    b_image, b_descriptor, b_steps = (mn_major if b_mn else k_major)(stored[1], b_swizzle)
    threads = 128 * warpgroups
    h = HopperBuild(threads)
    count = 64 * k // 128
    ga = h.tensor("A", a.size, dtype)
    gb = h.tensor("B", b.size, dtype)
    gc = h.tensor("C", c.size, sums, "inout")
    sa, sb = h.tile("a", a.size, dtype), h.tile("b", b.size, dtype)
    ra, acc = h.regs("ra", count, dtype), h.regs("acc", n // 2, sums)
    e = 16 // kind.bytes
    chunk = h.regs("chunk", e, dtype)
    for memory, source, size in ((sa, ga, a.size), (sb, gb, b.size)):
        with h.loop(size // e // threads + 1) as i, h.when((i * threads + h.tx) * e < size):
            at = (i * threads + h.tx) * e
            h.copy(chunk, 0, source, at, e)
            h.copy(memory, at, chunk, 0, e)
    with h.each(count) as i:
        h.store(ra, i, h.load(ga, h.tx * count + i) if registers else 0)
    with h.each(n // 2) as i:
        h.store(acc, i, h.load(gc, h.tx * (n // 2) + i))
    h.fence_proxy()
    h.sync()
    h.wgmma_fence(acc, ra)
    steps = range(0, count, 16 // kind.bytes)
    h.wgmma(
        n, acc, ra if registers else sa, 0 if registers else (h.tx // 128) * (64 * k),
        list(steps) if registers else a_steps, None if registers else parts[0][1],
        sb, 0, b_steps, b_descriptor, keep,
    )  # fmt: skip
    h.wgmma_commit()
    h.wgmma_wait(0, acc, ra)
    with h.each(n // 2) as i:
        h.store(gc, h.tx * (n // 2) + i, h.load(acc, i))
    image = a_image
    if registers:  # each thread's fragment of each k step
        layout, image = wgmma_a(kind.bits), np.zeros(threads * count, stored[0].dtype)
        each = layout.registers
        for t in range(threads):
            for r in range(count):
                row, col = layout.coordinate(t % 128, r % each)
                image[t * count + r] = stored[0][64 * (t // 128) + row, r // each * layout.shape[1] + col]
    out_layout = wgmma_c(n)
    place = [
        (64 * (t // 128) + row, col)
        for t in range(threads)
        for row, col in (out_layout.coordinate(t % 128, r) for r in range(n // 2))
    ]
    rows, columns = np.array(place).T
    out = encode(c[rows, columns].astype(total.compute_dtype), total)
    result = h.run(image, b_image, out)
    assert result.findings == ()
    got = np.zeros(c.shape)
    got[rows, columns] = decode(out, total)
    assert result.counts.instructions[f"wgmma.m64n{n}k{32 // kind.bytes}"] == warpgroups * len(b_steps)
    return got, a @ b.T + (c if keep else 0)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "tfloat32", "int8", "uint8", "float8_e4m3", "float8_e5m2"]
)
def test_k_major_operands_of_every_type_and_swizzle(dtype: str, swizzle: int) -> None:
    sums = "int32" if as_dtype(dtype).is_int else "float32"
    k = 128 if as_dtype(dtype).bytes == 1 else 64
    got, expected = product(48, k, dtype, swizzle, swizzle, sums=sums, keep=True)
    assert (got == expected).all()


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 32).map(lambda x: 8 * x),
    k=st.sampled_from([16, 32, 64, 128]),
    a_swizzle=st.sampled_from([0, 32, 64, 128]),
    b_swizzle=st.sampled_from([0, 32, 64, 128]),
    a_mn=st.booleans(),
    b_mn=st.booleans(),
    warpgroups=st.sampled_from([1, 2]),
    keep=st.booleans(),
)
def test_any_n_swizzle_and_transposition(
    n: int, k: int, a_swizzle: int, b_swizzle: int, a_mn: bool, b_mn: bool, warpgroups: int, keep: bool
) -> None:
    if not a_mn:
        k = max(k, a_swizzle // 2)
    if not b_mn:
        k = max(k, b_swizzle // 2)
    elif b_swizzle:
        n = max(n // (b_swizzle // 2), 1) * (b_swizzle // 2)
    got, expected = product(
        n, k, "float16", a_swizzle, b_swizzle, a_mn, b_mn, warpgroups=warpgroups, keep=keep
    )
    assert (got == expected).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "tfloat32", "int8", "float8_e4m3"])
@pytest.mark.parametrize("warpgroups", [1, 2])
def test_a_from_registers(dtype: str, warpgroups: int) -> None:
    sums = "int32" if dtype == "int8" else "float32"
    got, expected = product(64, 128, dtype, registers=True, sums=sums, warpgroups=warpgroups, keep=True)
    assert (got == expected).all()


def test_float16_accumulators() -> None:
    got, expected = product(64, 64, "float16", sums="float16", keep=True)
    assert (got == expected).all()


def test_tf32_ignores_the_low_bits_of_its_operands() -> None:
    h = HopperBuild(128)
    out = h.tensor("C", 128 * 4, "float32", "out")
    sa, sb = h.tile("a", 64 * 8, "float32"), h.tile("b", 8 * 8, "float32")
    acc = h.regs("acc", 4, "float32")
    with h.loop(4) as i:
        h.store(sa, i * 128 + h.tx, 1 + 2.0**-12)
    with h.when(h.tx < 64):
        h.store(sb, h.tx, 1.0)
    h.fence_proxy()
    h.sync()
    h.wgmma_fence()
    h.wgmma(8, acc, sa, 0, [0], Descriptor(128, 256, 0), sb, 0, [0], Descriptor(128, 256, 0))
    h.wgmma_commit()
    h.wgmma_wait(0, acc)
    with h.each(4) as i:
        h.store(out, h.tx * 4 + i, h.load(acc, i))
    c = zeros(512, "float32")
    assert h.run(c).findings == ()
    assert (c == 8.0).all()


def test_products_on_the_same_accumulators_apply_in_order() -> None:
    h = HopperBuild(128)
    ga, out = h.tensor("A", 64 * 16, "float16"), h.tensor("C", 128 * 4, "float32", "out")
    sa, acc = h.tile("a", 64 * 16, "float16"), h.regs("acc", 4, "float32")
    with h.loop(8) as i:
        h.store(sa, i * 128 + h.tx, h.load(ga, i * 128 + h.tx))
    h.fence_proxy()
    h.sync()
    h.wgmma_fence()
    layout = Descriptor(1024, 128, 0)
    h.wgmma(8, acc, sa, 0, [0], layout, sa, 0, [0], layout)
    h.wgmma(8, acc, sa, 0, [0], layout, sa, 0, [0], layout, True)
    h.wgmma_commit()
    h.wgmma_wait(0, acc)
    with h.each(4) as i:
        h.store(out, h.tx * 4 + i, h.load(acc, i))
    a = np.random.default_rng(1).integers(-3, 4, (64, 16)).astype(np.float16)
    image, _, _ = k_major(a, 0)
    c = zeros(512, "float32")
    assert h.run(image, c).findings == ()
    layout_c = wgmma_c(8)
    expected = 2 * (a.astype(np.float32) @ a[:8].astype(np.float32).T)
    for t in range(128):
        for r in range(4):
            assert c[t * 4 + r] == expected[layout_c.coordinate(t, r)]
