"""The value of each stage between a parsed kernel and a thread program: frozen, each holding the one before
it.

A function that needs layouts takes `Placed`: a pass in the wrong place does not type-check. Facts about nodes
are in mappings keyed by node identity, made by one pass and never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tilebench.errors import Loc
from tilebench.ir.expr import Expr
from tilebench.ir.thread import Program
from tilebench.ir.tile import Buffer, Channel, Kernel, Parallel, Pipelined, Stmt, TileOp
from tilebench.layouts import FragmentLayout, SharedLayout
from tilebench.ops.base import Cost, Instruction
from tilebench.targets import Target

AnyLayout = FragmentLayout | SharedLayout


@dataclass(frozen=True)
class Reason:
    """Why something was chosen, in one sentence, with the line that decided it and what it followed from.

    of: the name of the buffer whose layout it was taken from, '' when it was decided here.
    """

    text: str
    at: Loc | None = None
    because: tuple[Loc, ...] = ()
    of: str = ""


@dataclass(frozen=True)
class Typed:
    """passes/check.py: shapes bound, dtypes and scopes legal.

    per_thread: statements that name a thread (else uniform).
    """

    kernel: Kernel
    target: Target
    per_thread: frozenset[Stmt] = frozenset()


@dataclass(frozen=True)
class Selected:
    """passes/select.py: the instruction of each op; declined: instructions not taken, with the reason.

    producer: why copies are the work of warps of their own, or why they are not.
    """

    typed: Typed
    instructions: Mapping[TileOp, Instruction]
    reasons: Mapping[TileOp, Reason]
    declined: Mapping[TileOp, tuple[Reason, ...]]
    specialised: bool = False
    producer: str = ""

    @property
    def kernel(self) -> Kernel:
        """The tile program that the stage is of."""
        return self.typed.kernel


@dataclass(frozen=True)
class RoleSpec:
    """A group of threads: name ('all', 'producer', 'consumer0'), first thread, how many."""

    name: str
    first_thread: int
    threads: int


@dataclass(frozen=True)
class Partitioned:
    """passes/roles.py: roles, and how the warps of a role split each gemm: op -> (warps along M, along N).

    registers: setmaxnreg of each role by name; none where it does not pay.
    """

    selected: Selected
    roles: tuple[RoleSpec, ...]
    warp_grids: Mapping[TileOp, tuple[int, int]]
    reasons: Mapping[TileOp, Reason]
    registers: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def kernel(self) -> Kernel:
        """The tile program that the stage is of."""
        return self.selected.kernel

    @property
    def specialised(self) -> bool:
        """Whether a producer makes the copies."""
        return len(self.roles) > 1


@dataclass(frozen=True)
class Placed:
    """passes/place.py: a layout for every fragment and shared buffer, and for every Parallel nest."""

    partitioned: Partitioned
    layouts: Mapping[Buffer, AnyLayout]
    loops: Mapping[Parallel, FragmentLayout]
    reasons: Mapping[Buffer | Parallel, Reason]

    @property
    def kernel(self) -> Kernel:
        """The tile program that the stage is of."""
        return self.partitioned.kernel


@dataclass(frozen=True)
class ScheduledOp:
    """One statement of a pipelined loop: the stage it runs in (iterations ahead of the last stage), its
    order, its resource.
    """

    stmt: Stmt
    stage: int
    order: int
    resource: Literal["copy", "tensor", "alu"]
    cost: Cost
    asynchronous: bool


@dataclass(frozen=True)
class Schedule:
    """What was decided for one pipelined loop.

    stages: versions of its buffers; ops in program order; why in `reason`; wanted: versions asked for, when
    shared memory has no room for so many. overlap: a product stays under way into the next iteration;
    pinned: ptxas may not move the wait for it ahead of the work that hides it; persistent: blocks go from
    tile to tile, instead of one block a tile; key_tile: how far an iteration gets along the dimension that is
    summed (keys of attention, K of a gemm; 0 without a product); ping_pong: each consumer warpgroup has tiles
    of its own, and they multiply in turn (passes/teams.py).
    """

    loop: Pipelined
    stages: int
    ops: tuple[ScheduledOp, ...]
    reason: Reason
    overlap: bool = False
    persistent: bool = False
    wanted: int = 0
    pinned: bool = False
    key_tile: int = 0
    ping_pong: bool = False


@dataclass(frozen=True)
class Scheduled:
    """passes/pipeline.py: the body with loops opened into prologue, steady state and epilogue; versions of
    buffers.
    """

    placed: Placed
    body: Stmt
    schedules: tuple[Schedule, ...]
    versions: Mapping[Buffer, int]

    @property
    def kernel(self) -> Kernel:
        """The tile program that the stage is of."""
        return self.placed.kernel


@dataclass(frozen=True)
class Slot:
    """Where a shared buffer lives: bytes [offset, offset + size) while statements first..last run, in
    preorder.
    """

    offset: int
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Allocated:
    """passes/memory.py: the byte map of shared memory with lifetimes and reuse.

    scratch: one range shared by all ops.
    """

    scheduled: Scheduled
    slots: Mapping[Buffer, Slot]
    scratch: Slot | None
    shared_bytes: int
    barriers: Mapping[Channel, int] = field(default_factory=dict[Channel, int])
    """Byte offset of each ring's full barriers; its empty ones follow them."""

    @property
    def kernel(self) -> Kernel:
        """The tile program that the stage is of."""
        return self.scheduled.kernel


@dataclass(frozen=True)
class BarrierNote:
    """A barrier and the pair of accesses that needs it: `before` touches `buffer`, then `after` does."""

    barrier: Stmt
    buffer: Buffer
    before: Loc | None
    after: Loc | None
    hazard: Literal["RAW", "WAR", "WAW"]


@dataclass(frozen=True)
class Synchronised:
    """passes/sync.py: the body with SyncThreads put in."""

    allocated: Allocated
    body: Stmt
    notes: tuple[BarrierNote, ...]

    @property
    def kernel(self) -> Kernel:
        """The tile program that the stage is of."""
        return self.allocated.kernel


@dataclass(frozen=True)
class Lowered:
    """passes/lower.py: what one thread runs.

    predicates: facts for the report (guards dropped, conversions made).
    """

    synchronised: Synchronised
    program: Program
    conversions: tuple[Reason, ...] = field(default=())

    @property
    def kernel(self) -> Kernel:
        """The tile program that the stage is of."""
        return self.synchronised.kernel


__all__ = [
    "Allocated", "AnyLayout", "BarrierNote", "Expr", "Lowered", "Partitioned", "Placed", "Reason", "RoleSpec",
    "Schedule", "Scheduled", "ScheduledOp", "Selected", "Slot", "Synchronised", "Typed",
]  # fmt: skip
