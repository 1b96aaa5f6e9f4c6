"""`T.gemm`: C += A @ B on tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, cast

import numpy as np

from tilebench.errors import TypeTileError
from tilebench.ir.dtype import float32
from tilebench.ir.expr import Expr, const
from tilebench.ir.rewrite import seq
from tilebench.ir.tile import Buffer, For, Region, Stmt
from tilebench.ops.base import (
    BlockValues,
    Cost,
    Lowering,
    Offer,
    Op,
    PlaceContext,
    Requirement,
    as_region,
    register,
)
from tilebench.ops.gemm import fma, mma, place, wgmma
from tilebench.ops.regions import (
    Walk,
    accumulator,
    load,
    region_bytes,
    shape_text,
    var_load,
    var_store,
    writable,
)
from tilebench.targets import Target


class GemmWarpPolicy(Enum):
    """How the warps split M x N: Square balances, FullRow puts all along M, FullCol all along N."""

    Square = 0
    FullRow = 1
    FullCol = 2


ACCUMULATORS: dict[str, tuple[str, ...]] = {
    "float16": ("float32", "float16"),
    "bfloat16": ("float32",),
    "float32": ("float32",),
    "tfloat32": ("float32",),
    "float64": ("float64",),
    "float8_e4m3": ("float32", "float16"),
    "float8_e5m2": ("float32", "float16"),
    "int8": ("int32",),
    "uint8": ("int32",),
    "int4": ("int32",),
    "uint4": ("int32",),
}
"""Operand dtype -> legal dtypes of c, the usual one first. Source: PTX ISA, mma."""


@register
@dataclass(frozen=True, eq=False)
class Gemm(Op):
    """c[M, N] += op(a) @ op(b), accumulated in c's dtype; clear_accum: c = op(a) @ op(b).

    a is [M, K] ([K, M] when transpose_a), b is [K, N] ([N, K] when transpose_b), each shared or fragment; c
    is a fragment. Products of 16-bit and 8-bit floats are exact in float32; sums round in float32 in any
    order (float64 for float64), and once more to c's dtype at the end. Integer sums wrap around in int32.
    float32 operands may be rounded to tf32 (10 mantissa bits, nearest) by targets that multiply them on
    tensor cores. inf and NaN follow IEEE arithmetic.
    """

    lowerings: ClassVar[Mapping[str, Lowering]] = {
        "mma.m16n8k16": mma.lower,
        "mma.m16n8k8": mma.lower,
        "mma.m16n8k32": mma.lower,
        "fma": fma.lower,
        "wgmma": wgmma.lower,
    }

    a: Region
    b: Region
    c: Region
    transpose_a: bool = False
    transpose_b: bool = False
    policy: GemmWarpPolicy = GemmWarpPolicy.Square
    clear_accum: bool = False
    keep: Expr | None = None
    """Set by passes: the old c counts only where this (the same for all threads) is true."""

    @property
    def reads(self) -> tuple[Region, ...]:
        return (self.a, self.b) if self.clear_accum else (self.a, self.b, self.c)

    @property
    def writes(self) -> tuple[Region, ...]:
        return (self.c,)

    @property
    def mnk(self) -> tuple[int, int, int]:
        """(M, N, K) of this product."""
        m, k = self.a.shape[-2:][:: -1 if self.transpose_a else 1]
        return m, self.c.shape[-1], k

    def check(self) -> None:
        for name, region, scopes in (
            ("A", self.a, ("shared", "fragment")),
            ("B", self.b, ("shared", "fragment")),
            ("C", self.c, ("fragment",)),
        ):
            if len(region.shape) < 2 or any(e != 1 for e in region.shape[:-2]):
                raise TypeTileError(
                    "TB290",
                    f"gemm: {name} ({region.buffer.name}) is {shape_text(region.shape)}, not a matrix",
                    why="gemm multiplies the last two dimensions; those in front must be 1",
                    fix=f"pass a 2-D slice, such as {region.buffer.name}[0, :, :]",
                )
            if region.buffer.scope not in scopes:
                raise TypeTileError(
                    "TB291",
                    f"gemm: {name} ({region.buffer.name}) is a {region.buffer.scope} buffer",
                    why=f"{name} must be in {' or '.join(scopes)} memory",
                    fix=f"copy it first: T.copy({region.buffer.name}[...], "
                    f"{region.buffer.name}_{scopes[0]}) with "
                    f"T.alloc_{scopes[0]}",
                )
            writable(region, "gemm")
        self._check_shapes()
        self._check_dtypes()

    def _check_shapes(self) -> None:
        a, b, c = (r.shape[-2:] for r in (self.a, self.b, self.c))
        m, k = a[::-1] if self.transpose_a else a
        k2, n = b[::-1] if self.transpose_b else b
        ta, tb = ", transpose_A" * self.transpose_a, ", transpose_B" * self.transpose_b
        a_text = f"A ({self.a.buffer.name}{ta}) is {shape_text(a)}"
        said = f"{a_text}, B ({self.b.buffer.name}{tb}) is {shape_text(b)}"
        if k != k2:
            hint = ""
            if k == n and c == (m, k2):
                hint = f"transpose_B={not self.transpose_b}, if B holds it so; otherwise "
            elif m == k2 and c == (k, n):
                hint = f"transpose_A={not self.transpose_a}, if A holds it so; otherwise "
            elif m == n and c == (k, k2):
                hint = (
                    f"transpose_A={not self.transpose_a} and transpose_B={not self.transpose_b}, "
                    "if A and B hold it so; otherwise "
                )
            raise TypeTileError(
                "TB292",
                f"gemm: K is {k} in A but {k2} in B: {said}, C ({self.c.buffer.name}) is {shape_text(c)}",
                why="A is M x K (K x M when transposed) and B is K x N (N x K when transposed)",
                fix=f"{hint}give both the same K",
            )
        if c != (m, n):
            raise TypeTileError(
                "TB293",
                f"gemm: C ({self.c.buffer.name}) is {shape_text(c)}, but A @ B is {m}x{n}: {said}",
                fix=f"T.alloc_fragment(({m}, {n}), ...) for {self.c.buffer.name}",
            )

    def _check_dtypes(self) -> None:
        a, b, c = self.a.dtype, self.b.dtype, self.c.dtype
        both_fp8 = a.is_float and b.is_float and a.bits == b.bits == 8
        both_int = a.is_int and b.is_int and a.bits == b.bits
        if a != b and not both_fp8 and not both_int:
            raise TypeTileError(
                "TB294",
                f"gemm: A ({self.a.buffer.name}) is {a}, B ({self.b.buffer.name}) is {b}",
                why="both operands have one dtype (the two fp8 formats may be mixed, and signed with "
                "unsigned integers)",
                fix=f"copy one of them to a {a} or {b} buffer first: T.copy converts",
            )
        legal = ACCUMULATORS.get(a.name)
        if legal is None:
            raise TypeTileError(
                "TB295",
                f"gemm: operands of {a} have no matrix product",
                fix=f"operands may be {', '.join(ACCUMULATORS)}",
            )
        if c.name not in legal:
            raise TypeTileError(
                "TB296",
                f"gemm: {a} x {b} cannot accumulate in {c} ({self.c.buffer.name})",
                why=f"{a} operands accumulate in {' or '.join(legal)}",
                fix=f"T.alloc_fragment({self.c.shape}, '{legal[0]}') for {self.c.buffer.name}",
            )

    def run(self, block: BlockValues) -> None:
        m, n, _ = self.mnk
        a, b = block.read(self.a), block.read(self.b)
        a, b = a.reshape(a.shape[-2:]), b.reshape(b.shape[-2:])
        a, b = (a.T if self.transpose_a else a), (b.T if self.transpose_b else b)
        c = self.c.dtype
        # Integers of 8 bits: every partial sum is exact in float64 (BLAS has no integer product).
        wide = np.float64 if c.is_int or c == "float64" else np.float32
        out = tile_product(a.astype(wide), b.astype(wide))
        if not self.clear_accum:
            out = out + block.read(self.c).reshape(m, n).astype(wide)
        if c.is_int:
            out = out.astype(np.int64).astype(np.int32)
        block.write(self.c, out.reshape(self.c.shape))

    def offers(self, target: Target, threads: int) -> tuple[Offer, ...]:
        return place.offers(self, target, threads)

    def place(self, context: PlaceContext) -> tuple[Requirement, ...]:
        return place.requirements(self, context)

    def cost(self) -> Cost:
        m, n, k = self.mnk
        read: dict[str, float] = {}
        for region in self.reads:
            scope = region.buffer.scope
            read[scope] = read.get(scope, 0.0) + region_bytes(region)
        return Cost(flops=2.0 * m * n * k, read=read, written={self.c.buffer.scope: region_bytes(self.c)})

    def expand(self) -> Stmt:
        m, n, k_count = self.mnk
        walk = Walk((m, n))
        i, j = walk.vars
        k = walk.inner("k", k_count)
        dtype = self.c.dtype
        wide = accumulator("total", dtype if dtype.bits >= 32 else float32)
        a_point = (k, i) if self.transpose_a else (i, k)
        b_point = (j, k) if self.transpose_b else (k, j)
        product = _at(self.a, a_point).astype(wide.dtype) * _at(self.b, b_point).astype(wide.dtype)
        c = _at(self.c, (i, j))
        start = const(0, wide.dtype) if self.clear_accum else c.astype(wide.dtype)
        body = seq(
            var_store(wide, start),
            For(k, const(0), const(k_count), var_store(wide, var_load(wide) + product)),
            walk.write(self.c, _wide_point(self.c, (i, j)), var_load(wide)),
        )
        return walk.parallel(body)


def tile_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b, in slabs of rows that BLAS computes on the calling thread.

    OpenBLAS starts threads above M * N * K = 2**18; for a tile they gain nothing, and on a busy machine
    they wait for each other (60 ms instead of 0.3 ms for 128 x 128 x 32).
    """
    rows = max(1, (1 << 18) // max(1, b.size))
    if rows >= a.shape[0]:
        return np.matmul(a, b)
    out = np.empty((a.shape[0], b.shape[1]), a.dtype)
    for start in range(0, a.shape[0], rows):
        np.matmul(a[start : start + rows], b, out=out[start : start + rows])
    return out


def _wide_point(region: Region, point: tuple[Any, Any]) -> tuple[Any, ...]:
    """`point` without the coordinates of unit dimensions."""
    return tuple(p for p, e in zip(point, region.shape[-2:], strict=True) if e != 1)


def _at(region: Region, point: tuple[Any, Any]) -> Any:
    return load(region, _wide_point(region, point))


def gemm(
    A: Buffer | Region,
    B: Buffer | Region,
    C: Buffer | Region,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: bool = False,
    k_pack: int = 1,
    mbar: Any = None,
    annotations: Any = None,
) -> Stmt:
    """C += A @ B on tiles in shared memory or fragments; clear_accum overwrites C.

    policy says how the warps split the M x N tile. k_pack and annotations change nothing here; mbar must be
    None.
    """
    if mbar is not None:
        raise TypeTileError(
            "TB297",
            "gemm: mbar= asks for a product that signals a barrier when it is done",
            why="only asynchronous products of newer hardware do; this gemm is finished when the next "
            "statement starts",
            fix="leave mbar out",
        )
    if not isinstance(cast("object", policy), GemmWarpPolicy):
        raise TypeTileError(
            "TB298", f"gemm: policy is {policy!r}", fix="T.GemmWarpPolicy.Square, .FullRow or .FullCol"
        )
    return Gemm(
        as_region(A, "A"),
        as_region(B, "B"),
        as_region(C, "C"),
        bool(transpose_A),
        bool(transpose_B),
        policy,
        bool(clear_accum),
    )
