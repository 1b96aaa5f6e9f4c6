"""The layouts that hardware and the compiler start from, each a handful of digits with its PTX ISA figure.

Sections are cited by title: their numbers change from one version of the PTX ISA to the next.
In the figures a lane is named by groupID = lane / 4 (g) and threadID_in_group = lane % 4 (c).
Operand A is (M, K), B is (K, N), C and D are (M, N).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal

from tilebench.layouts.digits import Digit
from tilebench.layouts.fragment import FragmentLayout

M, K, N = 0, 1, 1  # dimensions of the operands below: A (M, K), C (M, N); B spells its own (K=0, N=1)


def mma_k(bits: int) -> int:
    """The K extent of the mma.m16n8 instruction for operands of `bits`: 256 bits of K per row."""
    assert bits in (8, 16, 32), f"mma has no {bits}-bit operands here"
    return 256 // bits


def mma_a(bits: int) -> FragmentLayout:
    """Operand A (16, 256/bits) of one mma.m16n8.

    16 bits: a0, a1 in row g, columns 2c, 2c+1; a2, a3 in row g+8; a4..a7 the same 8 columns on.
    32 and 8 bits: the same with 1 and 4 elements in place of 2. PTX ISA, "Matrix Fragments for mma.m16n8k16
    with floating point type", "... mma.m16n8k8" (.tf32), "... mma.m16n8k32".
    """
    e = 32 // bits
    return FragmentLayout(
        (16, mma_k(bits)),
        reg=(Digit(e, K, 1), Digit(2, M, 8), Digit(2, K, 4 * e)),
        thread=(Digit(4, K, e), Digit(8, M, 1)),
    )


def mma_b(bits: int) -> FragmentLayout:
    """Operand B (256/bits, 8) of one mma.m16n8.

    PTX ISA, the figures of matrix B in the sections that `mma_a` names.
    """
    e = 32 // bits
    return FragmentLayout(
        (mma_k(bits), 8),
        reg=(Digit(e, 0, 1), Digit(2, 0, 4 * e)),
        thread=(Digit(4, 0, e), Digit(8, 1, 1)),
    )


def mma_c() -> FragmentLayout:
    """C and D (16, 8) of one mma.m16n8: c0,c1 in row g, columns 2c, 2c+1; c2,c3 in row g+8.

    PTX ISA, the figures of matrices C and D in the sections that `mma_a` names.
    """
    return FragmentLayout((16, 8), (Digit(2, N, 1), Digit(2, M, 8)), (Digit(4, N, 2), Digit(8, M, 1)))


def wgmma_c(n: int) -> FragmentLayout:
    """D (64, n) of one wgmma.m64nNk*: warp w holds rows 16w..16w+15 as mma_c tiles.

    PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16", figure of matrix D.
    """
    _divides("wgmma accumulator", (64, n), (64, 8))
    return FragmentLayout(
        (64, n),
        (Digit(2, N, 1), Digit(2, M, 8), Digit(n // 8, N, 8)),
        (Digit(4, N, 2), Digit(8, M, 1), Digit(4, M, 16)),
    )


def wgmma_a(bits: int) -> FragmentLayout:
    """A (64, 256/bits) of one wgmma from registers: mma_a in each warp.

    PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16" (and k8, k32), figure of matrix A.
    """
    atom = mma_a(bits)
    return FragmentLayout((64, mma_k(bits)), atom.reg, (*atom.thread, Digit(4, M, 16)))


# -- tiles of atoms
# Each warp
# owns a contiguous block of the tile; warps count along M first (so four warps along M are a warpgroup's
# accumulator). Outside an atom's own registers the atoms are row-major.


def mma_accumulator(shape: tuple[int, int], warps: tuple[int, int]) -> FragmentLayout:
    """C of a block's (M, N) tile over warps (wm, wn): warp w owns rows of w % wm and columns of w // wm.

    Raises LayoutError TB303 when M is no multiple of 16 * wm or N none of 8 * wn.
    """
    (m, n), (wm, wn) = shape, warps
    _divides("mma accumulator", shape, (16 * wm, 8 * wn))
    atom = mma_c()
    return FragmentLayout(
        shape,
        (*atom.reg, *_atoms(Digit(n // wn // 8, N, 8), Digit(m // wm // 16, M, 16))),
        (*atom.thread, Digit(wm, M, m // wm), Digit(wn, N, n // wn)),
    )


def mma_operand_a(shape: tuple[int, int], warps: tuple[int, int], bits: int) -> FragmentLayout:
    """A of a block's (M, K) tile in registers: each warp its rows and all of K.

    The wn warps of a row hold the same. Raises LayoutError TB303 when 16 * wm or 256/bits is no divisor.
    """
    (m, k), (wm, wn) = shape, warps
    _divides("mma operand A", shape, (16 * wm, mma_k(bits)))
    atom = mma_a(bits)
    return FragmentLayout(
        shape,
        (*atom.reg, *_atoms(Digit(k // mma_k(bits), K, mma_k(bits)), Digit(m // wm // 16, M, 16))),
        (*atom.thread, Digit(wm, M, m // wm), Digit(wn, None)),
    )


def mma_operand_b(
    shape: tuple[int, int], warps: tuple[int, int], bits: int, transposed: bool = False
) -> FragmentLayout:
    """B of a block's (K, N) tile in registers: each warp its columns and all of K, the same in all wm warps.

    transposed: the shape is (N, K), the same elements in the same registers.
    """
    k, n = shape[::-1] if transposed else shape
    wm, wn = warps
    _divides("mma operand B", (k, n), (mma_k(bits), 8 * wn))
    atom = mma_b(bits)
    layout = FragmentLayout(
        (k, n),
        (*atom.reg, *_atoms(Digit(n // wn // 8, 1, 8), Digit(k // mma_k(bits), 0, mma_k(bits)))),
        (*atom.thread, Digit(wm, None), Digit(wn, 1, n // wn)),
    )
    return layout.permute((1, 0)) if transposed else layout


def wgmma_accumulator(shape: tuple[int, int], warpgroups: int | tuple[int, int]) -> FragmentLayout:
    """D of a block's (M, N) tile over warpgroups: so many along M, or (gm, gn).

    A warpgroup has several m64 atoms when M asks for it.
    Raises LayoutError TB303 when 64 * gm or 8 * gn is no divisor.
    """
    m, n = shape
    gm, gn = warpgroups if isinstance(warpgroups, tuple) else (warpgroups, 1)
    _divides("wgmma accumulator", shape, (64 * gm, 8 * gn))
    atom = wgmma_c(8)
    return FragmentLayout(
        shape,
        (*atom.reg[:2], *_atoms(Digit(n // gn // 8, N, 8), Digit(m // gm // 64, M, 64))),
        (*atom.thread, Digit(gm, M, m // gm), Digit(gn, N, n // gn)),
    )


def wgmma_operand_a(shape: tuple[int, int], warpgroups: int | tuple[int, int], bits: int) -> FragmentLayout:
    """A of a block's (M, K) tile in registers for wgmma, replicated over the warpgroups along N."""
    m, k = shape
    gm, gn = warpgroups if isinstance(warpgroups, tuple) else (warpgroups, 1)
    _divides("wgmma operand A", shape, (64 * gm, mma_k(bits)))
    atom = wgmma_a(bits)
    return FragmentLayout(
        shape,
        (*atom.reg, *_atoms(Digit(k // mma_k(bits), K, mma_k(bits)), Digit(m // gm // 64, M, 64))),
        (*atom.thread, Digit(gm, M, m // gm), Digit(gn, None)),
    )


# -- ldmatrix
# The
# layouts say which 16 bytes each lane's address names: thread = lane, register = element within the 16 bytes,
# in the coordinates of the tile as it is stored. Lanes whose address is not used are replicas.


def ldmatrix_a(bits: int = 16, stored: Literal["mk", "km"] = "mk") -> FragmentLayout:
    """Addresses of ldmatrix.x4 for one mma_a; 'km' is a tile stored as [K][M], read with .trans.

    For 'mk' lane l names row l % 16 and chunk l // 16. Matrix i takes its row addresses from lanes 8i..8i+7
    and lands in register i. PTX ISA, "Warp-level matrix load instruction: ldmatrix".
    """
    e = 128 // bits
    if stored == "mk":
        return FragmentLayout(
            (16, 2 * e), (Digit(e, 1, 1),), (Digit(8, 0, 1), Digit(2, 0, 8), Digit(2, 1, e))
        )
    assert bits == 16, "ldmatrix.trans transposes 16-bit elements only"
    return FragmentLayout((16, 16), (Digit(8, 1, 1),), (Digit(8, 0, 1), Digit(2, 1, 8), Digit(2, 0, 8)))


def ldmatrix_b(
    bits: int = 16, stored: Literal["nk", "kn"] = "nk", count: Literal[2, 4] = 4
) -> FragmentLayout:
    """Addresses of ldmatrix for mma_b; 'kn' is a tile stored as [K][N], read with .trans.

    x4 feeds two n8 atoms side by side, x2 one. PTX ISA, as `ldmatrix_a`.
    """
    e = 128 // bits
    top = 2 if count == 4 else 1
    spare = () if count == 4 else (Digit(2, None),)
    if stored == "nk":
        thread = (Digit(8, 0, 1), Digit(2, 1, e), Digit(top, 0, 8), *spare)
        return FragmentLayout((8 * top, 2 * e), (Digit(e, 1, 1),), thread)
    assert bits == 16, "ldmatrix.trans transposes 16-bit elements only"
    thread = (Digit(8, 0, 1), Digit(2, 0, 8), Digit(top, 1, 8), *spare)
    return FragmentLayout((16, 8 * top), (Digit(8, 1, 1),), thread)


def ldmatrix_rows(count: Literal[1, 2, 4], bits: int = 16) -> FragmentLayout:
    """Addresses of ldmatrix.x{count} on matrices stacked along rows: lane l names row l % (8 * count)."""
    e = 128 // bits
    return FragmentLayout(
        (8 * count, e), (Digit(e, 1, 1),), (Digit(8 * count, 0, 1), Digit(4 // count, None))
    )


def ldmatrix_result(count: Literal[1, 2, 4], trans: bool = False) -> FragmentLayout:
    """Where ldmatrix.x{count}.b16 puts matrices stacked along rows.

    Lane l has row l // 4 of each, elements 2 * (l % 4) and the next.

    trans: every 8x8 matrix transposed on the way. PTX ISA, the figure of ldmatrix's m8n8 fragment.
    """
    if trans:
        return FragmentLayout(
            (8 * count, 8), (Digit(2, 0, 1), Digit(count, 0, 8)), (Digit(4, 0, 2), Digit(8, 1, 1))
        )
    return FragmentLayout(
        (8 * count, 8), (Digit(2, 1, 1), Digit(count, 0, 8)), (Digit(4, 1, 2), Digit(8, 0, 1))
    )


# -- free layouts


def replicated(shape: Sequence[int], threads: int) -> FragmentLayout:
    """Every thread holds the whole tile, row-major in its registers."""
    shape = tuple(shape)
    reg = tuple(Digit(shape[d], d, 1) for d in reversed(range(len(shape))) if shape[d] > 1)
    return FragmentLayout(shape, reg, (Digit(threads, None),) if threads > 1 else ())


def blocked(shape: Sequence[int], threads: int, vector: int = 1) -> FragmentLayout:
    """The free vectorised partition, row-major: `vector` neighbours, then lanes, then warps, then registers.

    Each element has exactly one holder, for any shape and any number of threads; what does not divide becomes
    padding (threads or registers outside the shape). A vector longer than a row takes whole rows when it is a
    multiple.
    """
    shape = tuple(shape)
    reg, reach = _vector_digits(shape, vector)
    left = [-(-n // r) for n, r in zip(shape, reach, strict=True)]  # vectors along each dimension
    rest = threads
    thread: list[Digit] = []
    outer: list[Digit] = []
    for d in reversed(range(len(shape))):
        if d == 0:
            along = rest
        elif prod(left[:d]) == 1:
            along = rest  # nothing above: let the row's threads run on into padding rather than lose them
        else:
            along = _split(left[d], rest, prod(left[:d]), reach[d])
        thread.append(Digit(along, d, reach[d]))
        steps = -(-left[d] // along)
        outer.append(Digit(steps, d, reach[d] * along))
        rest //= along
    keep = [x for x in thread if x.size > 1]
    return FragmentLayout(shape, (*reg, *(x for x in outer if x.size > 1)), tuple(keep))


def _vector_digits(shape: tuple[int, ...], vector: int) -> tuple[list[Digit], list[int]]:
    reach = [1] * len(shape)
    reg: list[Digit] = []
    left = vector
    for d in reversed(range(len(shape))):
        if left == 1:
            break
        take = min(left, shape[d])
        while left % take or (take < left and take != shape[d]):
            take -= 1
            if take == 1:
                break
        reach[d] = take
        if take > 1:
            reg.append(Digit(take, d, 1))
        left //= take
        if take != shape[d]:
            break
    return reg, reach


def _split(along: int, threads: int, above: int, vector: int) -> int:
    """How many of `threads` (a divisor) go along a dimension of `along` vectors, `above` rows being above it.

    Fewest registers wins; ties go to the longest run within a warp, so that warps own whole rows. Runs under
    8 elements or two vectors count double (they touch a memory sector for less than its 32 bytes).
    """
    wanted = min(along, max(2, -(-8 // vector)))

    def cost(t: int) -> tuple[int, int]:
        registers = -(-along // t) * -(-above // (threads // t))
        return registers * (2 if t < wanted else 1), -t if t <= 32 else t

    return min((t for t in range(1, threads + 1) if threads % t == 0), key=cost)


def _atoms(inner: Digit, outer: Digit) -> tuple[Digit, ...]:
    return tuple(d for d in (inner, outer) if d.size > 1)


def _divides(name: str, shape: Sequence[int], by: Sequence[int]) -> None:
    if any(n % b or n < b for n, b in zip(shape, by, strict=True)):
        from tilebench.errors import LayoutError

        nearest = "x".join(str(-(-n // b) * b) for n, b in zip(shape, by, strict=True))
        raise LayoutError(
            "TB303",
            f"a {'x'.join(map(str, shape))} tile cannot be an {name}",
            why=f"its warps and instructions need multiples of {'x'.join(map(str, by))}",
            fix=f"use {nearest}, or fewer warps",
        )
