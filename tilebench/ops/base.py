"""What every tile op has, and the protocols through which it meets the passes and back ends.

An op is a frozen dataclass deriving from `Op`. Its file holds: fields; `check`; `run` (NumPy: the
specification); `cost`; `expand` (the generic lowering: plain tile IR loops, right on every target); `offers`
(instructions it can use, best first, with the condition and the reason); `place` (what those instructions
require of layouts); `lowerings` (per instruction, thread code through a `ThreadBuilder`); `scratch` (shared
bytes it needs to talk between warps); `examples`; and below it its `T.*` spellings: plain functions from the
user's values to a statement.

A spelling returns a `Stmt` (the front-end appends it), an `Expr`, a `Buffer`, or an `Effect` (statements
first, then a value).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

from tilebench.errors import Loc, TypeTileError
from tilebench.ir.dtype import DType
from tilebench.ir.expr import Expr, Load, as_expr, const, int_value
from tilebench.ir.hopper import TensorMap
from tilebench.ir.thread import Memory
from tilebench.ir.tile import Buffer, Region, Stmt, TileOp, whole
from tilebench.layouts import FragmentLayout, SharedLayout
from tilebench.targets import Target

if TYPE_CHECKING:
    import numpy as np

    from tilebench.ir.tile import Kernel


@dataclass(frozen=True)
class Cost:
    """Work of one execution of an op by one block.

    flops: floating-point operations (an FMA is 2); bytes by scope.
    """

    flops: float = 0.0
    read: Mapping[str, float] = field(default_factory=dict[str, float])
    written: Mapping[str, float] = field(default_factory=dict[str, float])
    transcendentals: float = 0.0


@dataclass(frozen=True)
class Effect:
    """What a spelling returns when it both does something and gives a value: run `stmt`, then use `value`."""

    stmt: Stmt
    value: Any


@dataclass(frozen=True)
class Instruction:
    """A way to carry out an op.

    name: 'mma.m16n8k16', 'cp.async', 'plain', 'shuffle', 'expand' ...; facts: its parameters.
    """

    name: str
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Offer:
    """An instruction that an op could use here, or why it cannot: legal is False and `reason` says what
    stands against it.
    """

    instruction: Instruction
    legal: bool
    reason: str


@dataclass(frozen=True)
class Requirement:
    """A layout that an op needs or would like for a buffer.

    strict: wrong without it; else a wish (heaviest wins); yields: what another instruction asks for does too.
    """

    buffer: Buffer
    layout: FragmentLayout | SharedLayout
    strict: bool
    reason: str
    at: Loc | None = None
    yields: bool = False


class BlockValues(Protocol):
    """What `Op.run` sees of the interpreter: the values of one block.

    Arrays are in compute form (see ir/dtype.py).
    """

    def read(self, region: Region) -> np.ndarray:
        """A copy of the region, shape region.shape; elements outside a global tensor are 0 (or its safe
        value).
        """
        ...

    def write(self, region: Region, values: np.ndarray) -> None:
        """Store values (broadcast to region.shape), rounded to the buffer's dtype; outside elements are
        skipped.
        """
        ...

    def evaluate(self, e: Expr) -> Any:
        """The value of a uniform expression as a NumPy scalar."""
        ...


class PlaceContext(Protocol):
    """What `Op.place` sees: the choice of `select`, the warp partition, and layouts fixed so far."""

    threads: int
    warps: int
    target: Target

    def instruction(self, op: TileOp) -> Instruction:
        """What `select` chose for the op."""
        ...

    def warp_grid(self, op: TileOp) -> tuple[int, int]:
        """(warps along M, warps along N) of a gemm."""
        ...

    def layout(self, buffer: Buffer) -> FragmentLayout | SharedLayout | None:
        """The layout fixed so far, if any."""
        ...


class ThreadBuilder(Protocol):
    """What a lowering writes thread code with. One builder per role; statements go to the innermost open
    body.

    Indices and predicates are Exprs of the thread. The builder stamps each statement with the op's place.
    """

    target: Target
    threads: int
    thread: Expr
    """Flat index of the thread within its role; lane = thread % 32, warp = thread // 32."""
    asynchronous: bool
    """Whether somebody else waits for what the op starts."""

    def instruction(self, op: Any) -> Instruction:
        """What `select` chose for the op."""
        ...

    def emit(self, stmt: Stmt) -> None:
        """Append a statement."""
        ...

    def fragment(self, buffer: Buffer) -> tuple[Memory, FragmentLayout]:
        """The register array that holds this thread's part of a fragment buffer, and its layout."""
        ...

    def shared(self, buffer: Buffer) -> tuple[Memory, SharedLayout, Expr]:
        """Shared memory of a buffer, its layout, and the element offset of the version in force here."""
        ...

    def shared_index(self, region: Region, coordinates: tuple[Expr, ...]) -> tuple[Memory, Expr]:
        """Flat element index of region[coordinates] in shared memory (layout, swizzle, version applied)."""
        ...

    @property
    def warpgroup(self) -> Expr:
        """The number of the thread's warpgroup."""
        ...

    def shared_start(self, region: Region, coordinates: tuple[Expr, ...]) -> tuple[Memory, Expr]:
        """As shared_index, before the swizzle: where a matrix descriptor starts."""
        ...

    def warp_grid(self, op: Any) -> tuple[int, int]:
        """(warps along M, warps along N) of a gemm."""
        ...

    def global_index(self, region: Region, coordinates: tuple[Expr, ...]) -> tuple[Memory, Expr, Expr | None]:
        """Flat element index of region[coordinates] in a global tensor, and the in-bounds predicate (None:
        always).
        """
        ...

    def scratch(self, dtype: DType, count: int) -> Memory:
        """The op's shared scratch (asked for by Op.scratch), viewed as `count` elements of dtype."""
        ...

    def registers(self, name: str, count: int, dtype: DType) -> Memory:
        """A new register array."""
        ...

    def bind(self, name: str, value: Expr) -> Expr:
        """Name a value (a Bind statement) so that it is computed once."""
        ...

    def load(self, memory: Memory, index: Expr | int) -> Expr:
        """memory[index]."""
        ...

    def store(self, memory: Memory, index: Expr | int, value: Expr) -> None:
        """memory[index] = value (cast to its dtype)."""
        ...

    def loop(
        self, extent: int | Expr, *, unroll: bool = True, independent: bool = False, name: str = "r"
    ) -> AbstractContextManager[Expr]:
        """`with b.loop(n) as r:` a For over 0..n-1; extent 1 gives the constant 0 and no loop."""
        ...

    def value(self, e: Expr) -> Expr:
        """A tile-level expression as one of the thread, in int32."""
        ...

    def tensor_map(self, buffer: Buffer, layout: SharedLayout, box: tuple[int, ...]) -> TensorMap:
        """The map of a global tensor with boxes of this size (innermost first), for tiles of this layout."""
        ...

    def condition(self, e: Expr) -> Expr:
        """A tile-level condition as one of the thread, decided where that is possible."""
        ...

    def when(self, condition: Expr | None) -> AbstractContextManager[None]:
        """`with b.when(c):` an If; None or a true constant gives no If."""
        ...

    def barrier(self, because: str) -> None:
        """A barrier of the threads of this role."""
        ...

    def expand(self, stmt: Stmt) -> None:
        """Lower tile-level loops and stores (what Op.expand gives), spread over threads as usual."""
        ...


Lowering = Callable[[Any, ThreadBuilder], None]


@dataclass(frozen=True, eq=False)
class Op(TileOp):
    """Base class of the tile ops; each subclass registers itself in OPS under its snake-case name."""

    lowerings: ClassVar[Mapping[str, Lowering]] = {}
    examples: ClassVar[tuple[Callable[[], Kernel], ...]] = ()

    def check(self) -> None:
        """Raise a located TypeTileError when shapes, dtypes or scopes are illegal."""
        raise NotImplementedError

    def run(self, block: BlockValues) -> None:
        """Do it in NumPy. This is the specification."""
        raise NotImplementedError

    def cost(self) -> Cost:
        """Work of one execution."""
        raise NotImplementedError

    def expand(self) -> Stmt:
        """The op as plain tile IR: Parallel and For nests of loads, stores and atomics."""
        raise NotImplementedError

    def offers(self, target: Target, threads: int) -> tuple[Offer, ...]:
        """Instructions in order of preference; the first legal one is taken. The last must be legal."""
        return (Offer(Instruction("expand"), True, "spread over the threads element by element"),)

    def place(self, context: PlaceContext) -> tuple[Requirement, ...]:
        """Layout requirements of the selected instruction."""
        return ()

    def scratch(self, context: PlaceContext) -> int:
        """Bytes of shared memory needed to exchange data between warps, beyond the buffers."""
        return 0


OPS: dict[str, type[Op]] = {}
O = TypeVar("O", bound=type[Op])


def register(cls: O) -> O:
    """Class decorator: put an op in OPS, so that the generic tests and the views know it."""
    OPS[cls.__name__.lower()] = cls
    return cls


# ------------------------------------------------------------------ from the user's values to regions

Operand = Buffer | Region | Load


def as_region(value: Any, what: str, extents: tuple[int, ...] | None = None, at: Loc | None = None) -> Region:
    """A region from a Buffer, a slice (Region) or a head address (a Load: extents come from the other side).

    what: the argument's name in messages. A head address with fewer extents than dimensions lines up on the
    trailing dimensions. Raises TypeTileError TB210 for anything else.
    """
    if isinstance(value, Region):
        return value
    if isinstance(value, Buffer):
        if extents is not None and any(int_value(s) is None for s in value.shape):
            return Region(
                value, tuple(const(0) for _ in value.shape), _aligned(len(value.shape), extents), loc=at
            )
        return whole(value)
    if isinstance(value, Load):
        rank = len(value.indices)
        sizes = _aligned(rank, extents) if extents is not None else (1,) * rank
        dropped = (
            frozenset(range(rank - len(extents)))
            if extents is not None and len(extents) < rank
            else frozenset[int]()
        )
        return Region(value.buffer, value.indices, sizes, dropped, loc=value.loc or at)
    raise TypeTileError(
        "TB210",
        f"{what} must be a buffer, a slice of one, or an element that marks where the tile starts; got "
        f"{type(value).__name__}",
        at=at,
        why="a tile op works on tiles of buffers",
        fix="pass A, A[i0:i1, j0:j1] or A[i0, j0]",
    )


def _aligned(rank: int, extents: tuple[int, ...]) -> tuple[int, ...]:
    """Extents padded in front with 1 to `rank`, or with leading ones removed."""
    extra = rank - len(extents)
    if extra >= 0:
        return (1,) * extra + tuple(extents)
    assert all(e == 1 for e in extents[:-extra]), "more extents than dimensions"
    return tuple(extents[-extra:])


def scalar(value: Any, dtype: DType) -> Expr:
    """A scalar operand as an expression of `dtype`."""
    return as_expr(value).astype(dtype)


ReduceKind = Literal["sum", "max", "min", "absmax", "abssum", "bitand", "bitor", "bitxor", "any", "all"]
