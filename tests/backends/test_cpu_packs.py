"""Tiles that are packed once for all blocks: which ones, how many, and results as interp gives them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.backends.cpu_running import run_native
from tests.backends.running import integers, run
from tilebench import config
from tilebench.backends.cpu import host as machine
from tilebench.backends.cpu.emit import Emitted, emit
from tilebench.backends.cpu.gemm import panels
from tilebench.backends.cpu.packs import SHARED_BYTES, Pack, Side, packable, table
from tilebench.backends.cpu.shared import plan
from tilebench.ir.dtype import encode, parse_dtype
from tilebench.ir.tile import Kernel
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import clear
from tilebench.ops.examples import Draft
from tilebench.ops.gemm import gemm
from tilebench.passes.check import check
from tilebench.targets import parse
from tilebench.targets.cpu import VectorIsa

RNG = np.random.default_rng(6)


@pytest.fixture(autouse=True)
def _memory_only() -> Any:
    """Nothing of these tests goes to the user's store."""
    with config.using(cache_dir=None):
        yield


def product(
    m: int,
    n: int,
    k: int,
    bm: int = 32,
    bn: int = 32,
    bk: int = 32,
    *,
    inout: bool = False,
    spy: bool = False,
) -> Kernel:
    """C = A @ B; inout: block (x, y) also writes to A; spy: B's tile is read by a copy too."""
    d = Draft("product", (-(-n // bn), -(-m // bm)), threads=32)
    a = d.tensor("A", (m, k), "float32", "inout" if inout else "in")
    b, c = d.tensor("B", (k, n), "float32"), d.tensor("C", (m, n), "float32", "out")
    bx, by = d.blocks
    a_s, b_s = d.shared("A_s", (bm, bk), "float32"), d.shared("B_s", (bk, bn), "float32")
    acc = d.fragment("acc", (bm, bn), "float32")
    d.add(clear(acc))
    with d.pipelined(-(-k // bk)) as ko:
        d.add(copy(a[by * bm, ko * bk], a_s))
        d.add(copy(b[ko * bk, bx * bn], b_s))
        d.add(gemm(a_s, b_s, acc))
    if spy:
        d.add(copy(b_s, c[by * bm, bx * bn]))
    d.add(copy(acc, c[by * bm, bx * bn]))
    if inout:
        d.add(copy(acc, a[by * bm, bx * bn]))
    return d.kernel()


def emitted(kernel: Kernel, lanes: int = 8, tile: tuple[int, int] = (6, 16)) -> Emitted:
    """The kernel written for a machine of this kind."""
    return emit(check(kernel, parse("cpu")), lanes, tile)


def counts(kernel: Kernel, grid: tuple[int, ...]) -> list[int | None]:
    """Tiles in the table of each pack."""
    ranges = {v: (0, g - 1) for v, g in zip(kernel.blocks, grid, strict=True)}
    found = [table(p, ranges, int(np.prod(grid))) for p in emitted(kernel).packs]
    return [t.count if t is not None else None for t in found]


def test_each_tile_of_both_operands_has_one_place() -> None:
    # K = 1024 in chunks of 256: 4 rows of blocks and 3 columns.
    assert counts(product(128, 96, 1024), (3, 4)) == [4 * 4, 3 * 4]


def test_a_tile_that_one_block_reads_is_not_shared() -> None:
    # One column of blocks: nobody else reads the tiles of A.
    assert counts(product(128, 32, 1024), (1, 4)) == [None, 4]


def test_heads_of_a_group_share_their_tiles() -> None:
    d = Draft("grouped", (4, 8), threads=32)
    q, k = d.tensor("Q", (8, 128, 32), "float32"), d.tensor("K", (2, 64, 32), "float32")
    o = d.tensor("O", (8, 128, 64), "float32", "out")
    bx, by = d.blocks
    q_s, k_s = d.shared("Q_s", (32, 32), "float32"), d.shared("K_s", (64, 32), "float32")
    acc = d.fragment("acc", (32, 64), "float32")
    d.add(copy(q[by, bx * 32, 0], q_s))
    d.add(copy(k[by // 4, 0, 0], k_s))
    d.add(gemm(q_s, k_s, acc, transpose_B=True, clear_accum=True))
    d.add(copy(acc, o[by, bx * 32, 0]))
    kernel = d.kernel()
    assert counts(kernel, (4, 8)) == [2]
    x, y = integers(RNG, 8, 128, 32, dtype="float32"), integers(RNG, 2, 64, 32, dtype="float32")
    out = np.zeros((8, 128, 64), np.float32)
    run_native(kernel, x, y, out)
    assert np.array_equal(out, x @ y.repeat(4, axis=0).transpose(0, 2, 1))


def test_a_tensor_that_is_written_is_not_packed() -> None:
    packs = emitted(product(64, 64, 64, inout=True)).packs
    assert [p.source.name for p in packs] == ["B"]


def test_a_tile_that_something_else_reads_stays_a_tile() -> None:
    kernel = product(64, 64, 64, spy=True)
    assert {b.name for b in packable(kernel)} == {"A_s"}
    assert {b.name: s for b, s in packable(product(64, 64, 64)).items()} == {
        "A_s": Side("A", 1, 32, 32),
        "B_s": Side("B", 0, 32, 32),
    }


def test_a_launch_shares_no_more_than_its_limit_and_packs_the_rest_in_each_block() -> None:
    kernel = product(128, 96, 1024)
    ranges = {v: (0, g - 1) for v, g in zip(kernel.blocks, (3, 4), strict=True)}
    a, b = emitted(kernel).packs
    big = replace(a, bytes=SHARED_BYTES // 8)
    made = plan([big, b], ranges, 12)
    assert made.states == 12
    assert made.bytes == 12 * b.bytes
    assert made.slots[:2] == (0, 0)
    assert made.at == (2 + 2 * len(a.keys),)


@pytest.mark.parametrize("shape", [(64, 64, 96), (50, 37, 70), (33, 100, 600), (7, 5, 300), (128, 96, 513)])
def test_tails_are_filled_with_zeros(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    kernel = product(m, n, k)
    x, y = integers(RNG, m, k, dtype="float32"), integers(RNG, k, n, dtype="float32")
    first, second = np.zeros((m, n), np.float32), np.zeros((m, n), np.float32)
    run(kernel, x, y, first)
    run_native(kernel, x, y, second)
    assert np.array_equal(first, second)


def test_the_next_launch_packs_anew() -> None:
    kernel = product(64, 64, 320)
    x, y, out = np.ones((64, 320), np.float32), np.ones((320, 64), np.float32), np.zeros((64, 64), np.float32)
    built = run_native(kernel, x, y, out)
    assert (out == 320).all()
    x[:], y[:] = 2, 3
    run_native(kernel, x, y, out, built=built)
    assert (out == 6 * 320).all()


@pytest.mark.parametrize("size", [1, 5, 16, 17, 80, 128])
@pytest.mark.parametrize(("lanes", "tile"), [(16, (14, 32)), (8, (6, 16)), (4, (8, 12)), (1, (2, 2))])
def test_panels_cover_every_row_and_column_once(size: int, lanes: int, tile: tuple[int, int]) -> None:
    for operand in ("A", "B"):
        at = 0
        for group in panels(operand, size, lanes, tile, "float"):
            assert group.first == at
            at += group.width * group.count
            assert group.width <= tile[operand == "B"]
        assert at == size


def test_a_pack_says_what_its_tiles_take() -> None:
    a, b = emitted(product(64, 64, 1024)).packs
    assert isinstance(a, Pack)
    # 32 rows and K = 256 in f32, and room for the last store of a row.
    assert (a.bytes, b.bytes) == (32 * 256 * 4 + 64, 32 * 256 * 4 + 64)
    assert a.units == b.units[::-1] == (32, 256)


@pytest.mark.parametrize("isa", ["avx512", "avx2", "neon", "scalar"])
@pytest.mark.parametrize("transposed", [(False, False), (True, True)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int8"])
def test_code_for_vectors_of_other_machines_is_right_here_too(
    isa: VectorIsa, transposed: tuple[bool, bool], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM splits the vectors that this machine does not have. Tails in M, N and K, several chunks of K."""
    own = machine.host()
    fake = replace(own, facts=replace(own.facts, isa=isa))
    monkeypatch.setattr(machine, "host", lambda: fake)
    ta, tb = transposed
    m, n, k, bm, bn, bk = 75, 100, 300, 30, 36, 32
    wide = {"int8": "int32", "float64": "float64"}.get(dtype, "float32")
    d = Draft("any", (3, 3), threads=32)
    a = d.tensor("A", (k, m) if ta else (m, k), dtype)
    b = d.tensor("B", (n, k) if tb else (k, n), dtype)
    c = d.tensor("C", (m, n), wide, "out")
    bx, by = d.blocks
    a_s = d.shared("A_s", (bk, bm) if ta else (bm, bk), dtype)
    b_s = d.shared("B_s", (bn, bk) if tb else (bk, bn), dtype)
    acc = d.fragment("acc", (bm, bn), wide)
    d.add(clear(acc))
    with d.pipelined(-(-k // bk)) as ko:
        d.add(copy(a[ko * bk, by * bm] if ta else a[by * bm, ko * bk], a_s))
        d.add(copy(b[bx * bn, ko * bk] if tb else b[ko * bk, bx * bn], b_s))
        d.add(gemm(a_s, b_s, acc, ta, tb))
    d.add(copy(acc, c[by * bm, bx * bn]))
    kernel = d.kernel()
    sizes = ((k, m) if ta else (m, k)), ((n, k) if tb else (k, n))
    x, y = (encode(integers(RNG, *s, dtype=np.float64), parse_dtype(dtype)) for s in sizes)
    first, second = np.zeros((m, n), wide), np.zeros((m, n), wide)
    run(kernel, x, y, first)
    built = run_native(kernel, x, y, second)
    assert len(built.emitted.packs) == 2
    assert np.array_equal(first, second)
