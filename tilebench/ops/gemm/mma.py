"""A gemm through mma.sync: each warp multiplies its rows by its columns, 16x8 atoms, operands from shared
memory or registers.

Per step of K: ldmatrix brings the warp's rows of A and columns of B to registers, then every pair of atoms is
multiplied. Shared operands are read in whichever direction they are stored; ldmatrix transposes 16-bit
elements on the way, other widths that would need it are read one by one. Source of the fragments and
addresses: layouts/atoms.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tilebench.ir.expr import Expr, const
from tilebench.ir.thread import LdMatrix, Memory, Mma
from tilebench.ir.tile import Region
from tilebench.layouts import FragmentLayout, mma_a, mma_accumulator, mma_b, mma_k
from tilebench.ops.base import ThreadBuilder
from tilebench.ops.divisors import whole_chunks
from tilebench.ops.gemm.place import lifted, warp_splits

if TYPE_CHECKING:
    from tilebench.ops.gemm.spec import Gemm


@dataclass(frozen=True)
class _Warp:
    """What one warp has to do: atoms along M, N, K, its first row and column, and the lane."""

    rows: int
    columns: int
    steps: int
    first_row: Expr
    first_column: Expr
    lane: Expr


def lower(op: Gemm, b: ThreadBuilder) -> None:
    """Thread code of the product."""
    m, n, k = op.mnk
    bits = op.a.dtype.bits
    step, e = mma_k(bits), 32 // bits
    c, _ = b.fragment(op.c.buffer)
    wm, wn = _warp_grid(op, b)
    lane = b.bind("lane", b.thread % 32)
    warp = b.thread // 32
    first_row = b.bind("warp_row", warp % wm * (m // wm)) if wm > 1 else const(0)
    first_column = b.bind("warp_column", warp // wm % wn * (n // wn)) if wn > 1 else const(0)
    w = _Warp(m // wm // 16, n // wn // 8, k // step, first_row, first_column, lane)
    kind = "tf32" if op.a.dtype == "tfloat32" else ""
    if op.clear_accum:
        with b.loop(w.rows * w.columns * 4, independent=True) as r:
            b.store(c, r, const(0, c.dtype))
    a_memory = (
        b.fragment(op.a.buffer)[0]
        if op.a.buffer.scope == "fragment"
        else b.registers("a", w.rows * 4 * e, op.a.dtype)
    )
    b_memory = (
        b.fragment(op.b.buffer)[0]
        if op.b.buffer.scope == "fragment"
        else b.registers("b", w.columns * 2 * e, op.b.dtype)
    )
    with b.loop(w.steps, name="k") as kk:
        a_start, b_start = const(0), const(0)
        if op.a.buffer.scope == "fragment":
            a_start = kk * (4 * e)
        else:
            _load_a(op.a, op.transpose_a, b, w, kk * step, a_memory)
        if op.b.buffer.scope == "fragment":
            b_start = kk * (w.columns * 2 * e)
        else:
            _load_b(op.b, not op.transpose_b, b, w, kk * step, b_memory)
        a_pitch = 4 * e * (w.steps if op.a.buffer.scope == "fragment" else 1)
        with (
            b.loop(w.rows, independent=True, name="mi") as i,
            b.loop(w.columns, independent=True, name="ni") as j,
        ):
            b.emit(
                Mma(
                    (16, 8, step),
                    c,
                    (i * w.columns + j) * 4,
                    a_memory,
                    a_start + i * a_pitch,
                    b_memory,
                    b_start + j * (2 * e),
                    kind,
                )
            )


def _warp_grid(op: Gemm, b: ThreadBuilder) -> tuple[int, int]:
    """How the warps split C: read off its layout."""
    m, n, _ = op.mnk
    _, held = b.fragment(op.c.buffer)
    warps = b.threads // 32
    found = [
        (g, lifted(op.c, mma_accumulator((m, n), g).replicate(warps // (g[0] * g[1]))))
        for g in warp_splits(m, n, warps)
    ]
    for grid, layout in found:
        if layout == held:
            return grid
    for grid, layout in found:
        if layout.threads == held.threads and layout.registers == held.registers and layout.same_as(held):
            return grid
    raise AssertionError(f"{op.c.buffer.name} is no accumulator of mma.sync")


def _matrix(region: Region, i: Expr, j: Expr) -> tuple[Expr, ...]:
    """Coordinates of element (i, j) of a matrix that may have unit dimensions in front."""
    return (*(const(0) for _ in region.shape[:-2]), i, j)


def _load_a(region: Region, stored_km: bool, b: ThreadBuilder, w: _Warp, k: Expr, registers: Memory) -> None:
    """A's atoms for one step of K: rows first_row.., columns k.. ."""
    bits = region.dtype.bits
    e, lane = 32 // bits, w.lane
    with_ldmatrix = _has_chunks(region, b) and (bits == 16 or not stored_km)
    with b.loop(w.rows, independent=True, name="mi") as i:
        row = w.first_row + i * 16
        if not with_ldmatrix:
            _one_by_one(region, stored_km, b, mma_a(bits), row, k, lane, registers, i * (4 * e), 4 * e)
        else:
            _ldmatrix_a(region, stored_km, b, lane, row, k, registers, i * (4 * e))


def _ldmatrix_a(
    region: Region,
    stored_km: bool,
    b: ThreadBuilder,
    lane: Expr,
    row: Expr,
    k: Expr,
    registers: Memory,
    start: Expr,
) -> None:
    if stored_km:
        at = _matrix(region, k + lane % 8 + lane // 16 * 8, row + lane // 8 % 2 * 8)
    else:
        at = _matrix(region, row + lane % 16, k + lane // 16 * (128 // region.dtype.bits))
    memory, index = b.shared_index(region, at)
    b.emit(LdMatrix(registers, start, memory, index, 4, stored_km))


def _load_b(region: Region, stored_kn: bool, b: ThreadBuilder, w: _Warp, k: Expr, registers: Memory) -> None:
    """B's atoms for one step of K: columns first_column.., rows k.. . Two atoms at a time."""
    bits = region.dtype.bits
    e = 32 // bits
    if not _has_chunks(region, b) or (bits != 16 and stored_kn):
        with b.loop(w.columns, independent=True, name="ni") as j:
            column = w.first_column + j * 8
            _one_by_one(
                region, not stored_kn, b, mma_b(bits), k, column, w.lane, registers, j * (2 * e), 2 * e
            )
        return
    pairs, single = divmod(w.columns, 2)
    if pairs:
        with b.loop(pairs, independent=True, name="ni") as j:
            _ldmatrix_b(region, stored_kn, b, w.lane, k, w.first_column + j * 16, registers, j * (4 * e), 4)
    if single:
        column = w.first_column + pairs * 16
        _ldmatrix_b(region, stored_kn, b, w.lane % 16, k, column, registers, const(pairs * 4 * e), 2)


def _ldmatrix_b(
    region: Region,
    stored_kn: bool,
    b: ThreadBuilder,
    lane: Expr,
    k: Expr,
    column: Expr,
    registers: Memory,
    start: Expr,
    matrices: Literal[2, 4],
) -> None:
    chunk = 128 // region.dtype.bits
    if stored_kn:
        at = _matrix(region, k + lane % 16, column + lane // 16 * 8)
    else:
        at = _matrix(region, column + lane % 8 + lane // 16 * 8, k + lane // 8 % 2 * chunk)
    memory, index = b.shared_index(region, at)
    b.emit(LdMatrix(registers, start, memory, index, matrices, stored_kn))


def _has_chunks(region: Region, b: ThreadBuilder) -> bool:
    """Whether rows of 16 bytes can be read: what ldmatrix needs."""
    _, layout, _ = b.shared(region.buffer)
    return whole_chunks(region, layout, 128 // region.dtype.bits)


def _one_by_one(
    region: Region,
    swapped: bool,
    b: ThreadBuilder,
    atom: FragmentLayout,
    row: Expr,
    column: Expr,
    lane: Expr,
    registers: Memory,
    start: Expr,
    count: int,
) -> None:
    """An atom's registers from single elements of shared memory; swapped: the region is stored transposed."""
    with b.loop(count, independent=True, name="r") as r:
        i, j = atom.coordinate(lane, r)
        at = _matrix(region, column + j, row + i) if swapped else _matrix(region, row + i, column + j)
        memory, index = b.shared_index(region, at)
        b.store(registers, start + r, b.load(memory, index))
