"""ldmatrix and mma: fragments are permutations of registers and lanes, so both are transpositions and one
matrix product.

With g = lane / 4 and c = lane % 4, and e elements in a 32-bit register (PTX ISA, mma.m16n8k*): A's registers
count (k half, row half, e) from the slowest, row = 8 * half + g, k = 4e * half + e * c + element; B's count
(k half, e) with column g; C and D count (row half, 2) with column 2c + element. Where an mma stands in loops
that run as one, the atoms of all iterations are gathered to one product per warp: loop axes that only A
follows become more rows, those that only B follows more columns, those of both a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.backends.emulator.memory import Site
from tilebench.backends.emulator.registers import extent, spread
from tilebench.ir.dtype import decode, encode

if TYPE_CHECKING:
    from tilebench.backends.emulator.role import Role
    from tilebench.errors import Loc
    from tilebench.ir.thread import Mma


def ldmatrix(rs: Role, site: Site, index: Any, mask: Any, matrices: int, transpose: bool) -> np.ndarray:
    """Registers [matrices * elements, loops..., threads] of ldmatrix.x{matrices}.

    Index: the row address of each lane.
    """
    mask = rs.whole_warps(mask, site.at, "ldmatrix")
    shape = extent(rs.threads, index, mask)
    use = mask
    if matrices < 4:
        named = rs.lane < 8 * matrices
        use = named if mask is None else named & mask
    raw = site.raw(rs, index, use)  # [loops, threads, 16 / itemsize]
    halves = np.ascontiguousarray(raw).view(np.uint16).reshape(*shape[:-1], -1, 32, 8)
    tiles = halves[..., : 8 * matrices, :].reshape(*halves.shape[:-2], matrices, 8, 8)
    if transpose:
        tiles = tiles.swapaxes(-1, -2)
    # [loops, warps, matrices, row, 4 lanes, 2 halves] -> [matrices, loops, warps, row, 4 lanes, 2 halves]
    lanes = np.moveaxis(tiles.reshape(*tiles.shape[:-1], 4, 2), -4, 0)
    packed = np.ascontiguousarray(lanes).view(site.storage)  # last axis: elements of one 32-bit register
    elements = packed.shape[-1]
    registers = packed.reshape(matrices, *shape, elements)
    values = decode(np.moveaxis(registers, -1, 1), site.dtype)
    return values.reshape(matrices * elements, *shape)


def stmatrix(
    rs: Role, site: Site, index: Any, values: np.ndarray, mask: Any, matrices: int, transpose: bool
) -> None:
    """stmatrix.x{matrices}: the inverse of `ldmatrix`. values: [matrices * elements, loops..., threads]."""
    mask = rs.whole_warps(mask, site.at, "stmatrix")
    shape = extent(rs.threads, index, mask, values[0])
    stored = encode(spread(values, (len(values), *shape)), site.dtype)
    elements = len(values) // matrices
    registers = np.moveaxis(
        stored.reshape(matrices, elements, *shape), 1, -1
    )  # [matrices, loops, threads, e]
    packed = np.ascontiguousarray(registers).view(np.uint16).reshape(matrices, *shape[:-1], -1, 8, 4, 2)
    tiles = np.moveaxis(packed.reshape(*packed.shape[:-3], 8, 8), 0, -3)  # [loops, warps, matrices, row, 8]
    if transpose:
        tiles = tiles.swapaxes(-1, -2)
    rows = np.zeros((*tiles.shape[:-3], 32, 8), np.uint16)
    rows[..., : 8 * matrices, :] = tiles.reshape(*tiles.shape[:-3], 8 * matrices, 8)
    use = mask
    if matrices < 4:
        named = rs.lane < 8 * matrices
        use = named if mask is None else named & mask
    site.put_raw(rs, index, rows.reshape(*shape, 8).view(site.storage), use)


class MmaSite:
    """One mma statement."""

    def __init__(self, stmt: Mma) -> None:
        self.at: Loc | None = stmt.loc
        _, _, k = stmt.shape
        bits = 32 if stmt.a.dtype.bits == 32 else stmt.a.dtype.bits
        self.e = 32 // bits
        self.halves = k // (4 * self.e)
        self.k = k
        self.truncate = stmt.a.dtype.name in ("float32", "tfloat32")
        self.accumulator = stmt.d.dtype
        self.integer = not stmt.d.dtype.is_float
        self.planned: tuple[Any, Any, Any] | None = None
        self.plan = _plan(0, 0, 0)

    def __call__(
        self,
        rs: Role,
        d: np.ndarray,
        d_index: Any,
        a: np.ndarray,
        a_index: Any,
        b: np.ndarray,
        b_index: Any,
        mask: Any,
    ) -> None:
        """d += a @ b for all warps and all iterations in the index arrays (ints, or arrays of loop axes)."""
        mask = rs.whole_warps(mask, self.at, "mma")
        if self.planned is None or any(
            x is not y for x, y in zip(self.planned, (d_index, a_index, b_index), strict=True)
        ):
            self.planned, self.plan = (d_index, a_index, b_index), _plan(d_index, a_index, b_index)
        di, ai, bi = self.plan
        batch, rows, columns = di.shape
        e, halves, warps = self.e, self.halves, rs.threads // 32
        left = a[ai[:, :, None] + np.arange(2 * e * halves)].reshape(batch, rows, halves, 2, e, warps, 8, 4)
        right = b[bi[:, :, None] + np.arange(e * halves)].reshape(batch, columns, halves, e, warps, 8, 4)
        x = self._operand(left.transpose(0, 5, 1, 3, 6, 2, 7, 4)).reshape(batch, warps, 16 * rows, self.k)
        y = self._operand(right.transpose(0, 4, 2, 6, 3, 1, 5)).reshape(batch, warps, self.k, 8 * columns)
        product = np.matmul(x, y).reshape(batch, warps, rows, 2, 8, columns, 4, 2)
        added = product.transpose(0, 2, 5, 3, 7, 1, 4, 6).reshape(batch * rows * columns, 4, rs.threads)
        where = (di.reshape(-1, 1) + np.arange(4)).reshape(-1)
        added = added.reshape(-1, rs.threads)
        if self.integer:
            added = added.astype(np.int64).astype(d.dtype)
        if len(where) and where[-1] - where[0] == len(where) - 1 and (np.diff(where) == 1).all():
            target: Any = slice(int(where[0]), int(where[0]) + len(where))
        else:
            target = where
        if mask is not None:
            on = (
                np.broadcast_to(mask, (rs.threads,))
                if np.ndim(mask) == 1
                else _mask_rows(mask, d_index, rs.threads, di)
            )
            added = np.where(on, added, np.zeros((), added.dtype))
        if self.accumulator == "float16":
            d[target] = (d[target].astype(np.float32) + added).astype(np.float16)
        else:
            d[target] += added

    def _operand(self, values: np.ndarray) -> np.ndarray:
        out = np.ascontiguousarray(values, dtype=np.float32)
        if self.truncate:  # the tensor core ignores the low 13 bits of a tf32 operand
            out = (out.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        return out


def _plan(d_index: Any, a_index: Any, b_index: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start registers of d [batch, rows, columns], a [batch, rows] and b [batch, columns]."""
    if isinstance(d_index, int) and isinstance(a_index, int) and isinstance(b_index, int):
        return np.array([[[d_index]]]), np.array([[a_index]]), np.array([[b_index]])
    shape = np.broadcast_shapes(np.shape(d_index), np.shape(a_index), np.shape(b_index))
    n = len(shape)
    a, b = (np.asarray(x).reshape((1,) * (n - np.ndim(x)) + np.shape(x)) for x in (a_index, b_index))
    d = np.broadcast_to(d_index, shape)
    rows = [i for i in range(n) if a.shape[i] > 1 and b.shape[i] == 1]
    columns = [i for i in range(n) if b.shape[i] > 1 and a.shape[i] == 1]
    batch = [i for i in range(n) if i not in rows and i not in columns]
    sizes = [int(np.prod([shape[i] for i in part], dtype=np.int64)) for part in (batch, rows, columns)]
    over = tuple(shape[i] if i in batch else 0 for i in range(n))
    a = np.broadcast_to(a, tuple(o or s for o, s in zip(over, a.shape, strict=True)))
    b = np.broadcast_to(b, tuple(o or s for o, s in zip(over, b.shape, strict=True)))
    return (
        d.transpose(batch + rows + columns).reshape(sizes),
        a.transpose(batch + rows + columns).reshape(sizes[0], sizes[1]),
        b.transpose(batch + rows + columns).reshape(sizes[0], sizes[2]),
    )


def _mask_rows(mask: np.ndarray, d_index: Any, threads: int, di: np.ndarray) -> np.ndarray:
    """The mask [loops..., threads] as rows of the flat d registers [batch * rows * columns * 4, threads]."""
    shape = np.broadcast_shapes(np.shape(d_index), mask.shape[:-1])
    full = np.broadcast_to(mask, (*shape, threads)).reshape(-1, threads)
    by_start = {int(s): row for s, row in zip(np.broadcast_to(d_index, shape).reshape(-1), full, strict=True)}
    return np.repeat(np.stack([by_start[int(s)] for s in di.reshape(-1)]), 4, axis=0)
