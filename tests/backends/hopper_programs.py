"""Hand-made thread programs of sm_90a: bulk copies with mbarriers, warpgroup products, and a warp-specialised
GEMM, with no pass in between. The emulator and the GPU run the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tilebench.ir.dtype import DTYPES, DType, bfloat16, float16, float32, int32, uint64
from tilebench.ir.expr import Expr, Load, Var, as_expr, binary, cast, const
from tilebench.ir.hopper import (
    BulkCommit,
    BulkLoad,
    BulkStore,
    BulkWait,
    Descriptor,
    FenceProxyAsync,
    MBarrierArrive,
    MBarrierExpect,
    MBarrierInit,
    MBarrierInitFence,
    MBarrierWait,
    SetMaxRegisters,
    StMatrix,
    TensorMap,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from tilebench.ir.rewrite import seq
from tilebench.ir.thread import (
    Barrier,
    Memory,
    Program,
    Role,
    VectorCopy,
    global_memory,
    register_array,
    shared_memory,
)
from tilebench.ir.tile import Bind, Buffer, For, If, Param, Stmt, Store

K_MAJOR = Descriptor(16, 1024, 128)
"""Rows of 128 bytes of K, eight-row atoms of 1024 bytes."""


@dataclass
class Parts:
    """What a program is put together from. bytes: shared memory so far."""

    params: list[Param] = field(default_factory=list[Param])
    memories: dict[Buffer, Memory] = field(default_factory=dict[Buffer, Memory])
    symbols: list[Var] = field(default_factory=list[Var])
    shared: list[Memory] = field(default_factory=list[Memory])
    registers: list[Memory] = field(default_factory=list[Memory])
    maps: list[TensorMap] = field(default_factory=list[TensorMap])
    bytes: int = 0

    def symbol(self, name: str) -> Var:
        """A dynamic extent."""
        self.symbols.append(Var(name, dtype=int32))
        return self.symbols[-1]

    def tensor(self, name: str, shape: tuple[Expr | int, ...], dtype: DType, role: str = "in") -> Memory:
        """A contiguous tensor argument."""
        sizes = tuple(as_expr(n) for n in shape)
        buffer = Buffer(name, sizes, dtype, "global")
        count = sizes[0]
        for n in sizes[1:]:
            count = count * n
        self.params.append(Param(name, buffer, role))  # type: ignore[arg-type]
        self.memories[buffer] = global_memory(buffer, count)
        return self.memories[buffer]

    def tile(self, name: str, count: int, dtype: DType, versions: int = 1) -> Memory:
        """`versions` tiles of `count` elements in shared memory, from a multiple of 1024 bytes."""
        start = -(-self.bytes // 1024) * 1024
        self.shared.append(shared_memory(name, count * versions, dtype, start, versions=versions))
        self.bytes = start + count * versions * dtype.bytes
        return self.shared[-1]

    def array(self, name: str, count: int, dtype: DType) -> Memory:
        """A register array."""
        self.registers.append(register_array(name, count, dtype))
        return self.registers[-1]

    def map(self, memory: Memory, box: tuple[int, ...], swizzle: int) -> TensorMap:
        """How bulk copies see a contiguous tensor; box innermost first."""
        origin = memory.origin
        assert origin is not None
        sizes = tuple(reversed(origin.shape))
        strides: list[Expr] = []
        for n in sizes[:-1]:
            strides.append(strides[-1] * n if strides else n)
        self.maps.append(TensorMap(f"{memory.name}_map", memory, sizes, tuple(strides), box, swizzle))
        return self.maps[-1]

    def program(
        self,
        name: str,
        grid: tuple[Expr | int, ...],
        blocks: tuple[Var, ...],
        thread: Var,
        roles: tuple[Role, ...],
        prologue: Stmt | None,
    ) -> Program:
        """The whole."""
        return Program(
            name,
            tuple(self.params),
            self.memories,
            tuple(self.symbols),
            tuple(as_expr(g) for g in grid),
            blocks,
            thread,
            roles[-1].first_thread + roles[-1].threads,
            roles,
            tuple(self.registers),
            tuple(self.shared),
            self.bytes,
            "sm_90a",
            prologue=prologue,
            tensor_maps=tuple(self.maps),
        )


def variable(name: str) -> Var:
    """An int32 variable."""
    return Var(name, dtype=int32)


def equal(a: Expr, b: Expr | int) -> Expr:
    """a == b."""
    return binary("eq", a, as_expr(b))


def unrolled(count: int, var: Var, *body: Stmt) -> For:
    """An unrolled loop over 0..count-1."""
    return For(var, const(0), const(count), seq(*body), kind="unroll")


def initialised(thread: Var, *barriers: tuple[Memory, int, int]) -> Stmt:
    """Thread 0 initialises (barriers, how many, arrivals each); afterwards all threads may use them."""
    inits = [MBarrierInit(b, const(i), arrivals) for b, count, arrivals in barriers for i in range(count)]
    return seq(If(equal(thread, 0), seq(*inits, MBarrierInitFence())), Barrier())


def swizzled(row: Expr, chunk: Expr, span: int, itemsize: int) -> Expr:
    """The element at which 16-byte chunk `chunk` of row `row` lies; rows are `span` bytes (0: 128, plain)."""
    mixed = chunk
    if span:
        mixed = chunk ^ (row // (128 // span) % (span // 16))
    return row * ((span or 128) // itemsize) + mixed * (16 // itemsize)


def copy(rank: int = 2, swizzle: int = 128) -> Program:
    """Y = 2 X for float16 tensors of symbolic shape ([B,] M, N), by boxes of 64 x (64, 32 or 16) elements.

    In by a bulk load into swizzled shared memory, through registers, out by a bulk store of a plain tile;
    tails are clipped. N must be a multiple of 8. Grid: (ceil(N / width), ceil(M / 64)[, B]); 128 threads.
    """
    p = Parts()
    width = (swizzle or 128) // 2
    chunks = width // 8
    names = ("B", "M", "N")[3 - rank :]
    shape = tuple(p.symbol(n) for n in names)
    x, y = p.tensor("X", shape, float16), p.tensor("Y", shape, float16, "out")
    box = (width, 64, 1)[:rank]
    source, target = p.map(x, box, swizzle), p.map(y, box, 0)
    tile, plain = p.tile("tile", 64 * width, float16), p.tile("plain", 64 * width, float16)
    full = p.tile("full", 1, uint64)
    r = p.array("r", 8, float16)
    blocks = tuple(variable(n) for n in ("bx", "by", "bz")[:rank])
    t, i, j = variable("t"), variable("i"), variable("j")
    coordinates = (blocks[0] * width, blocks[1] * 64, *blocks[2:])
    place = i * 128 + t  # of a 16-byte chunk in the plain tile
    body = seq(
        If(
            equal(t, 0),
            seq(
                MBarrierExpect(full, const(0), source.bytes),
                BulkLoad(tile, const(0), source, coordinates, full, const(0)),
            ),
        ),
        MBarrierWait(full, const(0), const(0)),
        unrolled(
            64 * chunks // 128,
            i,
            VectorCopy(r, const(0), tile, swizzled(place // chunks, place % chunks, swizzle, 2), 8),
            unrolled(8, j, Store(r, (j,), cast(Load(r, (j,), dtype=float16) * 2.0, float16))),
            VectorCopy(plain, place * 8, r, const(0), 8),
        ),
        FenceProxyAsync(),
        Barrier(),
        If(
            equal(t, 0),
            seq(
                BulkStore(target, coordinates, plain, const(0)),
                BulkCommit(),
                BulkWait(0, reading=True),
                BulkWait(0),
            ),
        ),
    )
    sizes = tuple(reversed(shape))
    grid = ((sizes[0] + (width - 1)) // width, (sizes[1] + 63) // 64, *sizes[2:])
    return p.program(
        f"copy{rank}d_{swizzle}", grid, blocks, t, (Role("all", 0, 128, body),), initialised(t, (full, 1, 1))
    )


def gemm(dtype: DType = bfloat16, stages: int = 4, n: int = 128) -> Program:
    """C = A @ B.T for A (M, K), B (N, K), C (M, N) of one 16-bit type; sizes are symbolic.

    K and N must be multiples of 8, K at least 1. Block tile 128 x n x 64, n a multiple of 64: a producer
    warpgroup feeds a ring of two or more `stages` by bulk loads, two consumer warpgroups multiply 64 rows
    each and store through stmatrix and bulk stores. Grid: (ceil(N / n), ceil(M / 128)); 384 threads.
    """
    assert stages > 1, "a stage is given back after the next was multiplied"
    p = Parts()
    M, N, K = (p.symbol(n) for n in "MNK")
    a, b = p.tensor("A", (M, K), dtype), p.tensor("B", (N, K), dtype)
    c = p.tensor("C", (M, N), dtype, "out")
    map_a, map_b, map_c = p.map(a, (64, 128), 128), p.map(b, (64, n), 128), p.map(c, (64, 64), 128)
    tile, tile_b, panels = 128 * 64, n * 64, n // 64
    tiles_a, tiles_b = p.tile("As", tile, dtype, stages), p.tile("Bs", tile_b, dtype, stages)
    staged = p.tile("Cs", 64 * 64, dtype, 2 * panels)
    full, empty = p.tile("full", stages, uint64), p.tile("empty", stages, uint64)
    acc, packed = p.array("acc", n // 2, float32), p.array("packed", n // 2, dtype)
    bx, by, t, k, k2 = (variable(n) for n in ("bx", "by", "t", "k", "k"))
    steps = (K + 63) // 64

    def ring(k: Var) -> tuple[Expr, Expr]:
        """(stage, phase parity) of iteration k."""
        return k % stages, k // stages % 2

    slot, phase = ring(k)
    producer = seq(
        SetMaxRegisters(24, increase=False),
        If(
            equal(t, 0),
            For(
                k,
                const(0),
                steps,
                seq(
                    MBarrierWait(empty, slot, 1 - phase),
                    MBarrierExpect(full, slot, map_a.bytes + map_b.bytes),
                    BulkLoad(tiles_a, slot * tile, map_a, (k * 64, by * 128), full, slot),
                    BulkLoad(tiles_b, slot * tile_b, map_b, (k * 64, bx * n), full, slot),
                ),
            ),
        ),
    )

    slot, phase = ring(k2)
    group, tid, lane, row = (variable(n) for n in ("group", "tid", "lane", "row"))
    panel, block, e = variable("panel"), variable("block"), variable("e")
    first = (panel * 4 + block) * 8  # of eight accumulators: 16 columns
    chunk = block * 2 + lane // 16
    consumer = seq(
        SetMaxRegisters(240, increase=True),
        Bind(group, t // 128 - 1),
        Bind(tid, t % 128),
        For(
            k2,
            const(0),
            steps,
            seq(
                MBarrierWait(full, slot, phase),
                WgmmaFence(),
                Wgmma(
                    n,
                    acc,
                    const(0),
                    tiles_a,
                    slot * tile + group * (64 * 64),
                    (0, 16, 32, 48),
                    K_MAJOR,
                    tiles_b,
                    slot * tile_b,
                    (0, 16, 32, 48),
                    K_MAJOR,
                    binary("ne", k2, const(0)),
                ),
                WgmmaCommit(),
                WgmmaWait(1),
                If(
                    binary("and", equal(tid, 0), k2 > 0),
                    MBarrierArrive(empty, (k2 + (stages - 1)) % stages),
                ),
            ),
        ),
        WgmmaWait(0, (acc,)),
        Bind(lane, tid % 32),
        Bind(row, tid // 32 * 16 + lane % 16),
        unrolled(
            panels,
            panel,
            unrolled(
                4,
                block,
                unrolled(
                    8,
                    e,
                    Store(packed, (first + e,), cast(Load(acc, (first + e,), dtype=float32), dtype)),
                ),
                StMatrix(
                    staged,
                    (group * panels + panel) * (64 * 64) + swizzled(row, chunk, 128, dtype.bytes),
                    packed,
                    first,
                    4,
                ),
            ),
        ),
        FenceProxyAsync(),
        If(equal(group, 0), Barrier(1, 128), Barrier(2, 128)),
        If(
            equal(tid, 0),
            seq(
                *(
                    BulkStore(
                        map_c,
                        (bx * n + i * 64, by * 128 + group * 64),
                        staged,
                        (group * panels + i) * (64 * 64),
                    )
                    for i in range(panels)
                ),
                BulkCommit(),
                BulkWait(0),
            ),
        ),
    )
    return p.program(
        "gemm",
        ((N + (n - 1)) // n, (M + 127) // 128),
        (bx, by),
        t,
        (
            Role("producer", 0, 128, producer),
            Role("consumer 0", 128, 128, consumer),
            Role("consumer 1", 256, 128, consumer),
        ),
        initialised(t, (full, stages, 1), (empty, stages, 2)),
    )


@dataclass(frozen=True)
class Product:
    """One warpgroup's D (64, n) = [D +] A (64, k) @ B (k, n).

    a_from: A in registers, or stored (64, k) or (k, 64); b_from: B stored (n, k) or (k, n); swizzle: span of
    both in shared memory, 0 for none (then both along k).
    """

    a: DType = bfloat16
    b: DType = bfloat16
    d: DType = float32
    n: int = 64
    k: int = 64
    a_from: Literal["registers", "mk", "km"] = "mk"
    b_from: Literal["nk", "kn"] = "nk"
    swizzle: int = 128
    accumulate: bool = False

    def __str__(self) -> str:
        flags = f"{self.a_from}-{self.b_from}-sw{self.swizzle}{'-acc' if self.accumulate else ''}"
        return f"{self.a}-{self.b}-{self.d}-n{self.n}k{self.k}-{flags}"


def _operand(
    p: Parts, case: Product, memory: Memory, stored: str, rows: int
) -> tuple[Memory, TensorMap, list[tuple[int, tuple[int, int]]], tuple[int, ...], Descriptor]:
    """(tile, map, copies as (element, coordinates), k steps, descriptor) of an operand in shared memory.

    It is cut into panels as wide as the swizzle's span, one behind the other.
    """
    size, k = memory.dtype.bytes, case.k
    span = case.swizzle or 16
    width, step = span // size, 32 // size  # elements of a panel's row, of a k step
    along_k = stored.endswith("k")
    high, wide = (rows, k) if along_k else (k, rows)
    panel = high * width
    map_ = p.map(memory, (width, high), case.swizzle)
    copies = [(i * panel, (i * width, 0)) for i in range(wide // width)]
    if not along_k:
        far, near = panel * size, 8 * span
        leading, stride = (far, near) if case.swizzle else (near, far)
        descriptor = Descriptor(leading, stride, case.swizzle, transposed=True)
        steps = tuple(i * step * width for i in range(k // step))
    elif case.swizzle:
        descriptor = Descriptor(16, 8 * span, case.swizzle)
        steps = tuple(i * step // width * panel + i * step % width for i in range(k // step))
    else:
        descriptor = Descriptor(panel * size, 128, 0)
        steps = tuple(i * 2 * panel for i in range(k // step))
    return p.tile(memory.name, rows * k, memory.dtype), map_, copies, steps, descriptor


def product(case: Product) -> Program:
    """The program of a case: params A, B, D as stored (D row-major), one block of 128 threads."""
    p = Parts()
    a = p.tensor("A", (case.k, 64) if case.a_from == "km" else (64, case.k), case.a)
    b = p.tensor("B", (case.n, case.k) if case.b_from == "nk" else (case.k, case.n), case.b)
    d = p.tensor("D", (64, case.n), case.d, "inout" if case.accumulate else "out")
    t, i, j = variable("t"), variable("i"), variable("j")
    lane, warp = t % 32, t // 32
    acc = p.array("acc", case.n // 2, case.d)
    place = (warp * 16 + lane // 4 + i // 2 % 2 * 8) * case.n + i // 4 * 8 + lane % 4 * 2 + i % 2
    full = p.tile("full", 1, uint64)
    copies: list[Stmt] = []
    total = 0

    def fetch(tile: Memory, map_: TensorMap, pieces: list[tuple[int, tuple[int, int]]]) -> int:
        for element, at in pieces:
            coordinates = tuple(as_expr(c) for c in at)
            copies.append(BulkLoad(tile, const(element), map_, coordinates, full, const(0)))
        return len(pieces) * map_.bytes

    tile_b, map_b, pieces, steps_b, how_b = _operand(p, case, b, case.b_from, case.n)
    total += fetch(tile_b, map_b, pieces)
    registers: Stmt | None = None
    if case.a_from == "registers":
        e = 4 // case.a.bytes  # elements of a 32-bit register
        tile_a, how_a = p.array("fragments", case.k // 2, case.a), None
        steps_a = tuple(s * 4 * e for s in range(len(steps_b)))
        row = warp * 16 + lane // 4 + j // e % 2 * 8
        column = j // (4 * e) * (8 * e) + j // (2 * e) % 2 * (4 * e) + lane % 4 * e + j % e
        fragment = Load(a, (row * case.k + column,), dtype=case.a)
        registers = unrolled(case.k // 2, j, Store(tile_a, (j,), fragment))
    else:
        tile_a, map_a, pieces, steps_a, how_a = _operand(p, case, a, case.a_from, 64)
        total += fetch(tile_a, map_a, pieces)
    before = unrolled(case.n // 2, i, Store(acc, (i,), Load(d, (place,), dtype=case.d)))
    written = (*((acc,) if case.accumulate else ()), *((tile_a,) if how_a is None else ()))
    body = seq(
        If(equal(t, 0), seq(MBarrierExpect(full, const(0), total), *copies)),
        before if case.accumulate else None,
        registers,
        MBarrierWait(full, const(0), const(0)),
        WgmmaFence(written),
        Wgmma(
            case.n,
            acc,
            const(0),
            tile_a,
            const(0),
            steps_a,
            how_a,
            tile_b,
            const(0),
            steps_b,
            how_b,
            as_expr(case.accumulate),
        ),
        WgmmaCommit(),
        WgmmaWait(0, (acc,)),
        unrolled(case.n // 2, i, Store(d, (place,), Load(acc, (i,), dtype=case.d))),
    )
    blocks = (variable("bx"),)
    return p.program("product", (1,), blocks, t, (Role("all", 0, 128, body),), initialised(t, (full, 1, 1)))


_B, _F, _T, _I, _U = bfloat16, float16, float32, DTYPES["int8"], DTYPES["uint8"]
_E4, _E5, _S = DTYPES["float8_e4m3"], DTYPES["float8_e5m2"], int32
PRODUCTS = (
    Product(),
    Product(n=256, k=128),
    Product(n=8, k=16, swizzle=32),
    Product(n=176, accumulate=True),
    Product(b_from="kn", n=128, k=128),
    Product(a_from="km", n=24),
    Product(a_from="km", b_from="kn", n=192, accumulate=True),
    Product(a_from="registers", n=128, k=128),
    Product(a_from="registers", b_from="kn", n=64, k=160, accumulate=True),
    Product(_F, _F, n=40, swizzle=64),
    Product(_F, _F, b_from="kn", n=96, swizzle=64),
    Product(_F, _F, a_from="mk", b_from="kn", n=16, k=32, swizzle=32),
    Product(_F, _F, n=72, swizzle=0),
    Product(_F, _F, b_from="kn", n=72, k=64, swizzle=0),
    Product(_F, _F, _F, n=128, accumulate=True),
    Product(_F, _F, _F, a_from="registers", n=104),
    Product(_T, _T, n=80, k=64),
    Product(_T, _T, a_from="registers", n=32, k=64, accumulate=True),
    Product(_E4, _E4, n=128, k=256),
    Product(_E4, _E5, n=64, k=128, accumulate=True),
    Product(_E5, _E4, _F, n=48, k=128),
    Product(_E5, _E5, a_from="registers", n=16, k=64, swizzle=64),
    Product(_I, _I, _S, n=224, k=128),
    Product(_U, _I, _S, n=24, k=128, accumulate=True),
    Product(_U, _U, _S, a_from="registers", n=64, k=128),
)
"""Every pair of types, every placement, every swizzle, few and many columns."""


def scattered(matrices: Literal[1, 2, 4], transpose: bool) -> Program:
    """Y = the shared tile (8 * matrices, 8) after one stmatrix of X (32, 2 * matrices), float16, one warp."""
    p = Parts()
    x = p.tensor("X", (32, 2 * matrices), float16)
    y = p.tensor("Y", (8 * matrices, 8), float16, "out")
    tile, r = p.tile("tile", 64 * matrices, float16), p.array("r", 2 * matrices, float16)
    t, i = variable("t"), variable("i")
    body = seq(
        unrolled(2 * matrices, i, Store(r, (i,), Load(x, (t * (2 * matrices) + i,), dtype=float16))),
        StMatrix(tile, t % (8 * matrices) * 8, r, const(0), matrices, transpose),
        Barrier(),
        unrolled(2 * matrices, i, Store(y, (i * 32 + t,), Load(tile, (i * 32 + t,), dtype=float16))),
    )
    return p.program("scattered", (1,), (variable("bx"),), t, (Role("all", 0, 32, body),), None)


MOVED = (24, 6, 5, 4, 3)
"""Sizes of `moved`'s tensors, innermost first."""
MOVED_BOX = (16, 4, 2, 2, 2)
MOVED_FROM = (16, -1, 4, 0, -1)


def moved(rank: int) -> Program:
    """Y[0:16, 0:4, ...] = X[16:32, -1:3, 4:6, 0:2, -1:1] of the first `rank` dimensions, innermost first.

    What is outside of X is zero. float32; one block of 32 threads.
    """
    p = Parts()
    shape = tuple(reversed(MOVED[:rank]))
    x, y = p.tensor("X", shape, float32), p.tensor("Y", shape, float32, "inout")
    source, target = p.map(x, MOVED_BOX[:rank], 0), p.map(y, MOVED_BOX[:rank], 0)
    tile, full = p.tile("tile", source.bytes // 4, float32), p.tile("full", 1, uint64)
    t = variable("t")
    start, zeros = (tuple(as_expr(c) for c in cs[:rank]) for cs in (MOVED_FROM, (0,) * 5))
    body = If(
        equal(t, 0),
        seq(
            MBarrierExpect(full, const(0), source.bytes),
            BulkLoad(tile, const(0), source, start, full, const(0)),
            MBarrierWait(full, const(0), const(0)),
            BulkStore(target, zeros, tile, const(0)),
            BulkCommit(),
            BulkWait(0),
        ),
    )
    return p.program(
        f"moved{rank}d", (1,), (variable("bx"),), t, (Role("all", 0, 32, body),), initialised(t, (full, 1, 1))
    )


def chained(dtype: DType = float16) -> Program:
    """O (64, 128) = sum over blocks j of 64 rows of (Q (64, 128) @ K_j.T) @ V_j, with K, V (S, 128).

    The first product's accumulators become operand A of the second in registers; O is float32, S symbolic and
    at least 1; rows past S read as zeros. One block of 128 threads.
    """
    p = Parts()
    S = p.symbol("S")
    q, k, v = p.tensor("Q", (64, 128), dtype), p.tensor("K", (S, 128), dtype), p.tensor("V", (S, 128), dtype)
    o = p.tensor("O", (64, 128), float32, "out")
    maps = [p.map(x, (64, 64), 128) for x in (q, k, v)]
    tiles = [p.tile(f"{x.name}s", 64 * 128, dtype) for x in (q, k, v)]
    full = p.tile("full", 1, uint64)
    scores, weights = p.array("scores", 32, float32), p.array("weights", 32, dtype)
    acc = p.array("acc", 64, float32)
    t, i, j = variable("t"), variable("i"), variable("j")
    lane, warp = t % 32, t // 32
    panels = tuple(h * 64 * 64 + s * 16 for h in range(2) for s in range(4))

    def fetch(which: int, row: Expr) -> list[Stmt]:
        return [
            BulkLoad(tiles[which], const(h * 64 * 64), maps[which], (const(h * 64), row), full, const(0))
            for h in range(2)
        ]

    place = (warp * 16 + lane // 4 + i // 2 % 2 * 8) * 128 + i // 4 * 8 + lane % 4 * 2 + i % 2
    first = seq(MBarrierExpect(full, const(0), 3 * 64 * 128 * dtype.bytes), *fetch(0, const(0)))
    later = MBarrierExpect(full, const(0), 2 * 64 * 128 * dtype.bytes)
    step = seq(
        If(equal(t, 0), seq(If(equal(j, 0), first, later), *fetch(1, j * 64), *fetch(2, j * 64))),
        MBarrierWait(full, const(0), j % 2),
        WgmmaFence(),
        Wgmma(
            64, scores, const(0), tiles[0], const(0), panels, K_MAJOR, tiles[1], const(0), panels, K_MAJOR,
            as_expr(False),
        ),
        WgmmaCommit(),
        WgmmaWait(0, (scores,)),
        unrolled(32, i, Store(weights, (i,), cast(Load(scores, (i,), dtype=float32), dtype))),
        WgmmaFence((weights, acc)),
        Wgmma(
            128, acc, const(0), weights, const(0), (0, 8, 16, 24), None, tiles[2], const(0),
            (0, 1024, 2048, 3072), Descriptor(64 * 128, 1024, 128, transposed=True), as_expr(True),
        ),
        WgmmaCommit(),
        WgmmaWait(0, (acc, weights)),
        Barrier(),
    )  # fmt: skip
    body = seq(
        unrolled(64, i, Store(acc, (i,), const(0.0, float32))),
        For(j, const(0), (S + 63) // 64, step),
        unrolled(64, i, Store(o, (place,), Load(acc, (i,), dtype=float32))),
    )
    blocks = (variable("bx"),)
    return p.program("chained", (1,), blocks, t, (Role("all", 0, 128, body),), initialised(t, (full, 1, 1)))
