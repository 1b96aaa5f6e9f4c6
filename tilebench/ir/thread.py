"""The thread IR: what one thread runs. Expressions and the statements marked "both" of tile.py, plus what is
below.

Addresses are flat. A memory operand is a `Memory` with an element index: `global` is a pointer argument,
`shared` a byte range of the block's shared memory (layouts, swizzles and versions are already in the index),
`register` an array of one thread (index known at compile time after unrolling wherever speed matters). Load
and Store use `Load(memory, (index,))`. Register arrays hold elements of their dtype; intrinsics that want
packed 32-bit registers take the index of the first element and read consecutive elements. The emulator runs
this; CUDA C++ is a printer of it: nothing is in the emitted text that is not a node here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tilebench.ir.dtype import DType
from tilebench.ir.expr import Expr, Var, const, int_value
from tilebench.ir.tile import Buffer, Param, Stmt

if TYPE_CHECKING:
    from tilebench.ir.hopper import TensorMap
    from tilebench.ir.timers import TimerSite

Space = Literal["global", "shared", "register"]


@dataclass(frozen=True, eq=False)
class Memory(Buffer):
    """Flat storage of a thread program; `shape` is (count,) elements (symbolic for global).

    space: see above; byte_offset: start within the block's shared memory; origin: the tile-level buffer it
    holds (None for scratch); versions: copies of a pipelined buffer, each `shape // versions` elements;
    alignment in bytes; extent: for global, the number of elements spanned, for bounds (None: unknown).
    """

    space: Space = "register"
    byte_offset: int = 0
    origin: Buffer | None = None
    versions: int = 1
    alignment: int = 16


def register_array(name: str, count: int, dtype: DType, origin: Buffer | None = None) -> Memory:
    """A register array of `count` elements a thread."""
    return Memory(name, (const(count),), dtype, "local", space="register", origin=origin)


def shared_memory(
    name: str, count: int, dtype: DType, byte_offset: int, origin: Buffer | None = None, versions: int = 1
) -> Memory:
    """A range of shared memory of `count` elements (all versions together) at `byte_offset`."""
    return Memory(
        name,
        (const(count),),
        dtype,
        "shared",
        space="shared",
        byte_offset=byte_offset,
        origin=origin,
        versions=versions,
    )


def global_memory(buffer: Buffer, count: Expr) -> Memory:
    """The flat memory behind a tensor argument; count: elements spanned."""
    return Memory(buffer.name, (count,), buffer.dtype, "global", space="global", origin=buffer)


@dataclass(frozen=True, eq=False)
class VectorCopy(Stmt):
    """`destination[d + l] = source[s + l]` for l < lanes as one access of lanes * itemsize bytes (1..16,
    aligned).

    One side is registers, the other global or shared; equal dtypes. predicate: false skips it (a load then
    gives zeros when zero_fill, else leaves the registers alone).
    """

    destination: Memory
    destination_index: Expr
    source: Memory
    source_index: Expr
    lanes: int
    predicate: Expr | None = None
    zero_fill: bool = False


@dataclass(frozen=True, eq=False)
class VectorAtomic(Stmt):
    """`destination[d + l] += source[s + l]` for l < lanes as one access (aligned): each element atomically.

    destination: global; source: registers of its dtype. old: registers for the values before, from old_index.
    Source: PTX ISA, red and atom with .v2, .v4 or packed halves.
    """

    destination: Memory
    destination_index: Expr
    source: Memory
    source_index: Expr
    lanes: int
    order: str = "relaxed"
    old: Memory | None = None
    old_index: Expr | None = None


@dataclass(frozen=True, eq=False)
class CpAsync(Stmt):
    """cp.async of lanes elements (4, 8 or 16 bytes) global -> shared. predicate false: zeros are written.

    The source address must be valid to form (in bounds or clamped) even when the predicate is false.
    """

    destination: Memory
    destination_index: Expr
    source: Memory
    source_index: Expr
    lanes: int
    predicate: Expr | None = None


@dataclass(frozen=True, eq=False)
class CpAsyncCommit(Stmt):
    """Close the current cp.async group of this thread (also when it is empty)."""


@dataclass(frozen=True, eq=False)
class CpAsyncWait(Stmt):
    """Wait until at most `pending` groups of this thread are incomplete."""

    pending: int


@dataclass(frozen=True, eq=False)
class Barrier(Stmt):
    """bar.sync id, threads.

    id 0 with threads None is __syncthreads. because: what needs it, for the code view; reuse: it only keeps
    the last readers of this memory from what is written there next.
    """

    id: int = 0
    threads: int | None = None
    because: str = ""
    reuse: Memory | None = None


@dataclass(frozen=True, eq=False)
class Turn(Stmt):
    """Two warpgroups take turns: the one that takes (bar.sync) goes on when the other has passed
    (bar.arrive).

    It says when something runs, not what: no value depends on it, and it orders no memory. Between two
    barriers of both it is passed on once and taken once. threads: of both.
    """

    id: int
    threads: int
    take: bool


@dataclass(frozen=True, eq=False)
class SyncWarp(Stmt):
    """__syncwarp of the full warp."""


@dataclass(frozen=True, eq=False)
class LdMatrix(Stmt):
    """ldmatrix.sync.aligned.m8n8.x{matrices}[.trans].b16: loads `matrices` 8x8 tiles of 16-bit elements (or
    16 bytes a row).

    Lane 8*m + r gives the address of row r of matrix m (source_index, 16-byte aligned). Register m of each
    lane goes to destination[destination_index + m*(4/itemsize) ...]: consecutive elements. Source: PTX ISA,
    ldmatrix.
    """

    destination: Memory
    destination_index: Expr
    source: Memory
    source_index: Expr
    matrices: Literal[1, 2, 4]
    transpose: bool = False


@dataclass(frozen=True, eq=False)
class Mma(Stmt):
    """mma.sync.aligned.m16nNkK.row.col: d += a @ b on one warp, fragments as in layouts/atoms.py.

    shape: (M, N, K); dtypes come from the register arrays a, b, d (operand dtype float32 with kind 'tf32' is
    tfloat32). Source: PTX ISA, mma.
    """

    shape: tuple[int, int, int]
    d: Memory
    d_index: Expr
    a: Memory
    a_index: Expr
    b: Memory
    b_index: Expr
    kind: str = ""


@dataclass(frozen=True)
class Role:
    """A contiguous range of threads that runs one body."""

    name: str
    first_thread: int
    threads: int
    body: Stmt


@dataclass(frozen=True, eq=False)
class Program:
    """A lowered kernel: `prologue` is run by all threads, then each role runs its body.

    One role of all threads, or producers and consumers: ranges of whole warpgroups. Roles with one and the
    same body object are written to the text once; the emulator runs each on its own.

    params: as in Kernel; globals: Buffer -> its flat Memory; symbols: scalar arguments appended after the
    params; blocks/thread: the Vars for blockIdx and the flat thread index in the block; grid in Exprs of
    symbols; shared_bytes: dynamic shared memory; registers: every register array used (declared at the top of
    its role); tensor_maps: passed behind params, symbols and workspaces; facts: free-form numbers for the
    report (min_blocks, swizzle_panel ...); timers: what the numbers of Timestamps stand for.
    """

    name: str
    params: tuple[Param, ...]
    globals: Mapping[Buffer, Memory]
    symbols: tuple[Var, ...]
    grid: tuple[Expr, ...]
    blocks: tuple[Var, ...]
    thread: Var
    threads: int
    roles: tuple[Role, ...]
    registers: tuple[Memory, ...]
    shared: tuple[Memory, ...]
    shared_bytes: int
    arch: str
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    prologue: Stmt | None = None
    tensor_maps: tuple[TensorMap, ...] = ()
    timers: tuple[TimerSite, ...] = ()

    def launched(self, grid: tuple[int, ...]) -> tuple[int, ...]:
        """The grid to launch for a kernel whose own grid is `grid`: fewer, persistent blocks, or the same."""
        if not self.facts.get("persistent"):
            return grid
        return tuple(int_value(n) or 1 for n in self.grid)
