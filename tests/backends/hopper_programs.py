"""Hand-made thread programs of sm_90a: bulk copies with mbarriers, warpgroup products, and a warp-specialised
GEMM, with no pass in between. The emulator and the GPU run the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilebench.ir.dtype import DType, bfloat16, float16, float32, int32, uint64
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


def gemm(dtype: DType = bfloat16, stages: int = 4) -> Program:
    """C = A @ B.T for A (M, K), B (N, K), C (M, N) of one 16-bit type; sizes are symbolic.

    K and N must be multiples of 8, K at least 1. Block tile 128 x 128 x 64: a producer warpgroup feeds a ring
    of `stages` tiles by bulk loads, two consumer warpgroups multiply 64 rows each and store through stmatrix
    and bulk stores. Grid: (ceil(N / 128), ceil(M / 128)); 384 threads.
    """
    p = Parts()
    M, N, K = (p.symbol(n) for n in "MNK")
    a, b = p.tensor("A", (M, K), dtype), p.tensor("B", (N, K), dtype)
    c = p.tensor("C", (M, N), dtype, "out")
    map_a, map_b, map_c = p.map(a, (64, 128), 128), p.map(b, (64, 128), 128), p.map(c, (64, 64), 128)
    tile = 128 * 64
    tiles_a, tiles_b = p.tile("As", tile, dtype, stages), p.tile("Bs", tile, dtype, stages)
    staged = p.tile("Cs", 64 * 64, dtype, 4)
    full, empty = p.tile("full", stages, uint64), p.tile("empty", stages, uint64)
    acc, packed = p.array("acc", 64, float32), p.array("packed", 64, dtype)
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
                    BulkLoad(tiles_b, slot * tile, map_b, (k * 64, bx * 128), full, slot),
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
                    128,
                    acc,
                    const(0),
                    tiles_a,
                    slot * tile + group * (64 * 64),
                    (0, 16, 32, 48),
                    K_MAJOR,
                    tiles_b,
                    slot * tile,
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
            2,
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
                    (group * 2 + panel) * (64 * 64) + swizzled(row, chunk, 128, dtype.bytes),
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
                        (bx * 128 + i * 64, by * 128 + group * 64),
                        staged,
                        (group * 2 + i) * (64 * 64),
                    )
                    for i in range(2)
                ),
                BulkCommit(),
                BulkWait(0),
            ),
        ),
    )
    return p.program(
        "gemm",
        ((N + 127) // 128, (M + 127) // 128),
        (bx, by),
        t,
        (
            Role("producer", 0, 128, producer),
            Role("consumer 0", 128, 128, consumer),
            Role("consumer 1", 256, 128, consumer),
        ),
        initialised(t, (full, stages, 1), (empty, stages, 2)),
    )
