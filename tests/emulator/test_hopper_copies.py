"""Bulk tensor copies and stmatrix: values against NumPy, at the edges of the tensor and in every swizzle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulator.build import zeros
from tests.emulator.hopper_build import HopperBuild
from tilebench.errors import LaunchError
from tilebench.ir.dtype import as_dtype


def swizzled(image: np.ndarray, swizzle: int) -> np.ndarray:
    """Dense bytes as they lie in shared memory: chunk c of 128-byte line r at c ^ (r & 7) and its kin."""
    chunks = image.reshape(-1, 16)
    if not swizzle:
        return image
    line, c = np.divmod(np.arange(len(chunks)), 8)
    out = np.empty_like(chunks)
    out[line * 8 + (c ^ (line % (swizzle // 16)))] = chunks
    return out.reshape(-1)


def boxed(array: np.ndarray, place: tuple[int, ...], box: tuple[int, ...]) -> np.ndarray:
    """The box (outermost first) at `place`, zeros outside."""
    out = np.zeros(box, array.dtype)
    for index in np.ndindex(*box):
        at = tuple(p + i for p, i in zip(place, index, strict=True))
        if all(0 <= x < n for x, n in zip(at, array.shape, strict=True)):
            out[index] = array[at]
    return out


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_load_brings_the_box_and_zeros_outside_and_a_store_clips(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    dtype = data.draw(st.sampled_from(["float16", "float32", "int8", "bfloat16"]))
    size = as_dtype(dtype).bytes
    swizzle = data.draw(st.sampled_from([0, 32, 64, 128]))
    widest = (swizzle or 64) // 16
    inner = data.draw(st.sampled_from([w for w in (1, 2, 4, 8) if w <= widest])) * 16 // size
    box = (*(data.draw(st.integers(1, 5)) for _ in range(rank - 1)), inner)
    shape = (
        *(data.draw(st.integers(1, 6)) for _ in range(rank - 1)),
        data.draw(st.integers(1, 4)) * 16 // size,
    )
    place = tuple(data.draw(st.integers(-n - 1, n + 1)) for n in shape)
    count = int(np.prod(box))
    array = np.arange(1, int(np.prod(shape)) + 1).astype(as_dtype(dtype).storage_dtype).reshape(shape)
    h = HopperBuild(128)
    ga, gc = h.tensor("A", array.size, dtype), h.tensor("C", count, dtype, "inout")
    gd = h.tensor("D", array.size, dtype, "inout")
    bar = h.barriers("bar")
    s = h.tile("s", -(-count * size // 128) * 128 // size, dtype)
    load, store = (h.map(m, shape[::-1], box[::-1], swizzle) for m in (ga, gd))
    h.ready((bar, 1, 1))
    with h.first(5):
        h.expect(bar, load.bytes)
        h.bulk_load(s, 0, load, place[::-1], bar)
    h.await_(bar, 0)
    if count * size % 128 == 0 or not swizzle:
        with h.loop(-(-count // 128)) as i, h.when(i * 128 + h.tx < count):
            h.store(gc, i * 128 + h.tx, h.load(s, i * 128 + h.tx))
    with h.first(40):
        h.bulk_store(store, place[::-1], s)
        h.bulk_commit()
        h.bulk_wait()
    c, d = zeros(count, dtype), zeros(array.size, dtype)
    result = h.run(array.reshape(-1), c, d)
    assert result.findings == ()
    expected = boxed(array, place, box)
    padded = np.zeros(-(-count * size // 128) * 128, np.uint8)
    padded[: count * size] = expected.reshape(-1).view(np.uint8)
    if count * size % 128 == 0 or not swizzle:
        assert (c.view(np.uint8) == swizzled(padded, swizzle)[: count * size]).all()
    whole = np.zeros_like(array)
    inside = tuple(slice(max(0, p), max(0, min(n, p + b))) for p, b, n in zip(place, box, shape, strict=True))
    whole[inside] = array[inside]
    assert (d.reshape(shape) == whole).all()
    assert (result.counts.instructions["bulk-load"], result.counts.instructions["bulk-store"]) == (1, 1)


@pytest.mark.parametrize("pitch", [16, 24])
def test_a_map_has_the_strides_of_its_tensor(pitch: int) -> None:
    h = HopperBuild(32)
    ga, gc = h.tensor("A", 8 * pitch, "float16"), h.tensor("C", 128, "float16", "out")
    bar, s = h.barriers("bar"), h.tile("s", 128, "float16")
    tensor = h.map(ga, (16, 8), (16, 8), 0, pitch=(pitch,))
    h.ready((bar, 1, 1))
    with h.first():
        h.expect(bar, 256)
        h.bulk_load(s, 0, tensor, (0, 0), bar)
    h.await_(bar, 0)
    with h.loop(4) as i:
        h.store(gc, i * 32 + h.tx, h.load(s, i * 32 + h.tx))
    a, c = np.arange(8 * pitch).astype(np.float16), zeros(128, "float16")
    assert h.run(a, c).findings == ()
    assert (c.reshape(8, 16) == a.reshape(8, pitch)[:, :16]).all()


@pytest.mark.parametrize(
    ("sizes", "box", "swizzle", "pitch", "words"),
    [
        ((16, 4), (4, 4), 0, (), "8 bytes, no multiple of 16"),
        ((512, 4), (264, 1), 0, (), "from 1 to 256"),
        ((128, 4), (128, 4), 128, (), "its swizzle spans 128"),
        ((12, 4), (8, 4), 0, (), "a stride has 24 bytes"),
        ((16, 64), (16, 4), 0, (), "reach beyond the tensor"),
    ],
)
def test_maps_that_the_hardware_does_not_have_are_refused(
    sizes: tuple[int, ...], box: tuple[int, ...], swizzle: int, pitch: tuple[int, ...], words: str
) -> None:
    h = HopperBuild(32)
    ga = h.tensor("A", 512, "float16")
    bar, s = h.barriers("bar"), h.tile("s", 4096, "float16")
    tensor = h.map(ga, sizes, box, swizzle, pitch)
    h.ready((bar, 1, 1))
    with h.first():
        h.expect(bar, tensor.bytes)
        h.bulk_load(s, 0, tensor, (0, 0), bar)
    h.await_(bar, 0)
    with pytest.raises(LaunchError) as caught:
        h.run(zeros(512, "float16"))
    assert caught.value.code == "TB619"
    assert words in caught.value.what


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("matrices", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_stmatrix_is_the_inverse_of_ldmatrix(dtype: str, matrices: int, transpose: bool) -> None:
    size = as_dtype(dtype).bytes
    row, each = 16 // size, 4 // size
    h = HopperBuild(64)
    count = 2 * 8 * matrices * row
    ga, gc = h.tensor("A", count, dtype), h.tensor("C", count, dtype, "out")
    s, t = h.shared("s", count, dtype), h.shared("t", count, dtype)
    r = h.regs("r", matrices * each, dtype)
    with h.loop(count // 64) as i:
        h.store(s, i * 64 + h.tx, h.load(ga, i * 64 + h.tx))
    h.sync()
    at = (h.tx // 32) * (8 * matrices * row) + (h.tx % (8 * matrices)) * row
    h.ldmatrix(r, 0, s, at, matrices, transpose)
    h.stmatrix(t, at, r, 0, matrices, transpose)
    h.sync()
    with h.loop(count // 64) as i:
        h.store(gc, i * 64 + h.tx, h.load(t, i * 64 + h.tx))
    a = np.arange(count).astype(as_dtype(dtype).storage_dtype)
    c = zeros(count, dtype)
    result = h.run(a, c)
    assert result.findings == ()
    assert (c == a).all()
    assert result.counts.instructions["stmatrix"] == 2


@pytest.mark.parametrize(("pitch", "ways"), [(8, 1), (64, 8), (72, 1)])
def test_bank_conflicts_of_stmatrix(pitch: int, ways: int) -> None:
    h = HopperBuild(32)
    s, r = h.shared("s", 32 * pitch, "float16"), h.regs("r", 8, "float16")
    with h.each(8) as i:
        h.store(r, i, 0.0)
    h.stmatrix(s, (h.tx % 32) * pitch, r, 0, 4)
    (access,) = h.run().counts.accesses
    assert (access.kind, access.requests, access.ways_worst) == ("stmatrix", 1, ways)
