"""The tile IR: what the user wrote, as statements over buffers and regions, each with its place in the cell.

Statements are frozen and compared by identity; facts about them (layouts, roles, instructions, versions) live
in mappings made by the passes (passes/stages.py). Statements marked "both" also occur in thread programs
(ir/thread.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, cast

from tilebench.errors import Loc
from tilebench.ir.dtype import DType
from tilebench.ir.expr import Expr, Load, Var, as_expr, binary, const, select

Scope = Literal["global", "shared", "fragment", "local", "var"]
LoopKind = Literal["serial", "unroll", "vectorized"]
_ids = count()


@dataclass(frozen=True, eq=False)
class Buffer:
    """Named storage for a tile or tensor. Identity is what counts: two equal buffers are still two.

    name: the user's name (never pasted into generated text; backends mangle by index).
    shape: extents; ints everywhere but in global tensors, whose symbolic extents are Vars of the kernel.
    scope: global (tensor argument) | shared (block) | fragment (tile spread over the block's registers)
           | local (one array per thread) | var (one scalar per thread, shape (1,)).
    strides: in elements, global tensors only; None is row-major.
    view_of: the buffer whose storage this one reinterprets row-major (T.view / T.reshape), else None.
    workspace: a global buffer that is allocated for each launch (T.alloc_global), not an argument.
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    scope: Scope
    strides: tuple[Expr, ...] | None = None
    view_of: Buffer | None = None
    workspace: bool = False
    loc: Loc | None = field(default=None, repr=False)
    id: int = field(default_factory=lambda: next(_ids), repr=False)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The extents as ints. Raises AssertionError for symbolic ones (only global tensors have those)."""
        from tilebench.ir.expr import int_value

        sizes = tuple(int_value(s) for s in self.shape)
        assert all(s is not None for s in sizes), f"{self.name} has a symbolic shape"
        return tuple(s for s in sizes if s is not None)

    @property
    def data(self) -> Buffer:
        """The buffer whose storage this is: what a view is of, else itself."""
        return self if self.view_of is None else self.view_of.data

    def same_as(self, other: object) -> bool:
        """Whether the other is this very buffer."""
        return self is other

    def __getitem__(self, index: Any) -> Load:
        """An element load: for tests, ops and passes. The front-end handles the user's own indexing."""
        indices = cast("tuple[Any, ...]", index) if isinstance(index, tuple) else (index,)
        return Load(self, tuple(as_expr(i) for i in indices), dtype=self.dtype)


@dataclass(frozen=True, eq=False)
class Region:
    """A box of a buffer: `buffer[offset : offset + extent, ...]`, one offset and one int extent per
    dimension.

    A dimension that the user indexed with a scalar has extent 1 and is listed in `dropped`: it does not count
    as a dimension of the tile.
    """

    buffer: Buffer
    offsets: tuple[Expr, ...]
    extents: tuple[int, ...]
    dropped: frozenset[int] = frozenset()
    loc: Loc | None = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the dimensions that count."""
        return tuple(e for d, e in enumerate(self.extents) if d not in self.dropped)

    @property
    def dtype(self) -> DType:
        """The buffer's element type."""
        return self.buffer.dtype

    @property
    def is_whole(self) -> bool:
        """Whether the region is all of its buffer."""
        from tilebench.ir.expr import int_value, is_const

        return all(is_const(o, 0) for o in self.offsets) and all(
            int_value(s) == e for s, e in zip(self.buffer.shape, self.extents, strict=True)
        )

    def index(self, coordinates: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Buffer indices of the element at `coordinates` of the tile (one per dimension of `shape`)."""
        rest = iter(coordinates)
        return tuple(o if d in self.dropped else o + next(rest) for d, o in enumerate(self.offsets))


def whole(buffer: Buffer) -> Region:
    """All of a statically shaped buffer as a region."""
    return Region(buffer, tuple(const(0) for _ in buffer.shape), buffer.static_shape, loc=buffer.loc)


# ------------------------------------------------------------------ statements


@dataclass(frozen=True, eq=False)
class Stmt:
    """Base of all statements."""

    loc: Loc | None = field(default=None, kw_only=True, repr=False)


@dataclass(frozen=True, eq=False)
class Seq(Stmt):
    """Statements in order (both)."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False)
class For(Stmt):
    """`for var in range(start, stop, step)`: serial, unroll (expanded by the target), vectorized (both).

    independent: no iteration reads what another writes (set by passes; lets the emulator run them as one).
    factor: how many iterations `unroll` writes out at a time, 0 for all.
    """

    var: Var
    start: Expr
    stop: Expr
    body: Stmt
    step: Expr = field(default_factory=lambda: const(1))
    kind: LoopKind = "serial"
    independent: bool = False
    factor: int = 0


@dataclass(frozen=True, eq=False)
class Parallel(Stmt):
    """`for i, j in T.Parallel(M, N)`: independent iterations, spread over the block by a layout (tile level).

    extents: ints; layout: the user's loop_layout, else None; coalesced_width: the user's, in elements; alone:
    set by passes, each warpgroup fills a part of a shared tile of its own.
    """

    vars: tuple[Var, ...]
    extents: tuple[int, ...]
    body: Stmt
    coalesced_width: int | None = None
    layout: Any = None
    alone: bool = False


@dataclass(frozen=True, eq=False)
class Pipelined(Stmt):
    """`for var in T.Pipelined(start, stop, num_stages=S)` (tile level). order/stage: TileLang's tables, or
    None.

    num_stages is the number of versions that a pipelined shared buffer gets; 0 and 1 are a plain loop.
    """

    var: Var
    start: Expr
    stop: Expr
    body: Stmt
    num_stages: int = 0
    order: tuple[int, ...] | None = None
    stage: tuple[int, ...] | None = None
    group: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, eq=False)
class While(Stmt):
    """`while condition` (both)."""

    condition: Expr
    body: Stmt


@dataclass(frozen=True, eq=False)
class If(Stmt):
    """`if` on a run-time value (both). At tile level uniform unless passes/check.py says per-thread."""

    condition: Expr
    then: Stmt
    orelse: Stmt | None = None


@dataclass(frozen=True, eq=False)
class Break(Stmt):
    """Leaves the innermost serial or while loop (both)."""


@dataclass(frozen=True, eq=False)
class Continue(Stmt):
    """Next iteration of the innermost serial or while loop (both)."""


@dataclass(frozen=True, eq=False)
class Bind(Stmt):
    """`var = value`, once; visible in the rest of the enclosing Seq (both)."""

    var: Var
    value: Expr


@dataclass(frozen=True, eq=False)
class Store(Stmt):
    """`buffer[indices] = value`; the value already has the buffer's dtype (both; one flat index at thread
    level).
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, eq=False)
class AtomicRMW(Stmt):
    """`buffer[indices] op= value` atomically (both).

    op: add max min and or xor exch. result: the old value's Var. order: one of MEMORY_ORDERS, what other
    threads of the GPU see before and after it.
    """

    op: str
    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    result: Var | None = None
    order: str = "relaxed"


MEMORY_ORDERS = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")
"""The orders of C++; the place of each is its number there and in the emitted text."""


@dataclass(frozen=True, eq=False)
class Evaluate(Stmt):
    """A call for its effect (both)."""

    value: Expr


@dataclass(frozen=True, eq=False)
class Assert(Stmt):
    """Device assertion: stops the kernel with `message` when false (both)."""

    condition: Expr
    message: str


@dataclass(frozen=True, eq=False)
class Print(Stmt):
    """`T.print`: scalars, or a whole buffer (tile level: buffer is not None) (both)."""

    message: str
    values: tuple[Expr, ...] = ()
    buffer: Buffer | None = None


@dataclass(frozen=True, eq=False)
class SyncThreads(Stmt):
    """A barrier of all threads of the block, written by the user or put in by passes/sync.py (tile level).

    group: each warpgroup meets on its own.
    """

    because: tuple[tuple[Stmt, Stmt], ...] = ()
    group: bool = False


@dataclass(frozen=True, eq=False)
class TileOp(Stmt):
    """Base of the tile ops in tilebench/ops: executed by the block as one.

    See ops/base.py for what each has. annotations: the program's own, by name; they change nothing.
    """

    annotations: tuple[tuple[str, Any], ...] = field(default=(), kw_only=True, repr=False)

    @property
    def reads(self) -> tuple[Region, ...]:
        """Regions whose old contents matter."""
        raise NotImplementedError

    @property
    def writes(self) -> tuple[Region, ...]:
        """Regions that are written."""
        raise NotImplementedError


# ------------------------------------------------------------------ what the pipeline pass adds


@dataclass(frozen=True, eq=False)
class Token:
    """Names one stream of asynchronous work. kind: 'cp_async' (commit groups), 'bulk' (mbarrier), 'wgmma'."""

    name: str
    kind: Literal["cp_async", "bulk", "wgmma"]


@dataclass(frozen=True, eq=False)
class Issue(Stmt):
    """Start `ops` asynchronously as one group of `token` (empty `ops` still closes a group) (tile level)."""

    token: Token
    ops: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False)
class Wait(Stmt):
    """Block until at most `pending` groups of `token` are still under way (tile level).

    After it the issuing thread sees the data; other threads see it after the next barrier. buffers: fragments
    that belong to the threads again (of warpgroup products).
    """

    token: Token
    pending: int
    buffers: tuple[Buffer, ...] = ()


@dataclass(frozen=True, eq=False)
class Versioned(Stmt):
    """Inside `body`, each buffer in `versions` means its copy number `versions[buffer]` (tile level)."""

    versions: Mapping[Buffer, Expr]
    body: Stmt


# ------------------------------------------------------------------ producers and consumers


@dataclass(frozen=True, eq=False)
class Channel:
    """A ring of `stages` versions of `buffers`, filled by a producer and emptied by the other threads.

    Each version has a full and an empty mbarrier. slot, phase: var buffers in which each side counts where it
    is in the ring: version number, and the parity of the barriers' phase. elected: one thread of a warpgroup
    gives a version back for all, since only products read it; else every thread does.
    """

    name: str
    buffers: tuple[Buffer, ...]
    stages: int
    slot: Buffer
    phase: Buffer
    elected: bool = True

    @property
    def version(self) -> Expr:
        """The version in turn, as an expression."""
        return Load(self.slot, (const(0),), dtype=self.slot.dtype) if self.stages > 1 else const(0)

    @property
    def previous(self) -> Expr:
        """The version before it."""
        slot = self.version
        return select(binary("eq", slot, const(0)), const(self.stages - 1), slot - 1)


@dataclass(frozen=True, eq=False)
class Produce(Stmt):
    """The producer waits for its slot of the ring to be empty, starts the copies into it, and goes on to the
    next slot (tile level).
    """

    channel: Channel
    copies: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False)
class Acquire(Stmt):
    """The consumers wait until their slot of the ring is full (tile level).

    again: it is known to be full, and asking once more only keeps the compiler from moving what follows
    ahead.
    """

    channel: Channel
    again: bool = False


@dataclass(frozen=True, eq=False)
class Release(Stmt):
    """The consumers give a slot of the ring back, their own or the one that they had before it, when
    `condition` holds; then they go on to the next slot (`advance`) (tile level).

    fence: threads have read it, and a load may be under way still when its thread arrives: the async proxy,
    which overwrites the slot, comes behind it only after fence.proxy.async.
    """

    channel: Channel
    give: Literal["own", "previous", "none"] = "own"
    advance: bool = True
    condition: Expr | None = None
    fence: bool = False


# ------------------------------------------------------------------ the kernel


@dataclass(frozen=True)
class Param:
    """One argument of the kernel in call order: a global Buffer or a scalar Var."""

    name: str
    value: Buffer | Var
    role: Literal["in", "out", "inout"] = "in"
    loc: Loc | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Kernel:
    """A whole tile program.

    params in call order; out_idx: positions allocated by the call and returned; symbols: Vars of the dynamic
    shapes, bound at the call from the tensors' extents; grid: 1 to 3 extents (Exprs of symbols); blocks:
    their Vars; threads: up to 3 extents; thread: the flat thread Var (threadIdx.x + threadIdx.y * X + ...);
    buffers: everything allocated in the body, in order; attributes: annotations by name (layouts: {Buffer:
    user layout}, swizzle_panel, safe_values, min_blocks, pass_configs ...); then: the launch after it, with
    the same params (ir/launches.py).
    """

    name: str
    params: tuple[Param, ...]
    grid: tuple[Expr, ...]
    blocks: tuple[Var, ...]
    threads: tuple[int, ...]
    thread: Var
    buffers: tuple[Buffer, ...]
    body: Stmt
    symbols: tuple[Var, ...] = ()
    out_idx: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    loc: Loc | None = field(default=None, repr=False)
    then: Kernel | None = field(default=None, repr=False)

    @property
    def configs(self) -> Mapping[str, Any]:
        """The pass configs that it is compiled with, by name."""
        return self.attributes.get("pass_configs", {})

    @property
    def compile_flags(self) -> tuple[str, ...]:
        """Flags for the CUDA compiler, as the user wrote them: those of the pass configs, then the others."""
        given = self.configs.get("TL_DEVICE_COMPILE_FLAGS") or ()
        first = (given,) if isinstance(given, str) else tuple(map(str, given))
        return (*first, *self.attributes.get("compile_flags", ()))

    @property
    def thread_count(self) -> int:
        """Threads of a block."""
        total = 1
        for extent in self.threads:
            total *= extent
        return total
