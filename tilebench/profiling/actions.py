"""What a producer and consumer warpgroups do in a block, as data: read from the scheduled body by
profiling/rings.py, played by profiling/lanes.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilebench.ir.tile import Buffer, Channel, Stmt


@dataclass(frozen=True)
class Fill:
    """The producer starts copies into the ring's next slot. us: of each on the copy engine."""

    channel: Channel
    copies: tuple[tuple[Stmt, float], ...]
    iteration: int
    tile: int


@dataclass(frozen=True)
class Take:
    """The consumers wait for their slot of the ring."""

    channel: Channel


@dataclass(frozen=True)
class Give:
    """They give one back."""

    channel: Channel


@dataclass(frozen=True)
class Multiply:
    """A warpgroup starts its part of a product. us: on the tensor cores; iteration: -1 outside of loops."""

    stmt: Stmt
    us: float
    iteration: int
    tile: int


@dataclass(frozen=True)
class Await:
    """Wait until at most `pending` groups of products are under way."""

    pending: int


@dataclass(frozen=True)
class Compute:
    """A warpgroup's part of a statement. issue, special: microseconds on those units; alone: how long it
    takes when nobody is in the way; moved: on the SM's share of L2 and memory; reaches: global memory is
    waited for; writes: shared tiles.
    """

    stmt: Stmt
    issue: float
    special: float
    alone: float
    iteration: int
    tile: int
    moved: float = 0.0
    reaches: bool = False
    writes: tuple[Buffer, ...] = ()


@dataclass(frozen=True)
class Leave:
    """A tile of the result leaves shared memory by a bulk copy."""

    stmt: Stmt
    us: float
    source: Buffer
    tile: int


@dataclass(frozen=True)
class Mark:
    """The end of an iteration of a loop of `trips` in a tile; its number. spilled: microseconds that
    registers put away and fetched back take in it.
    """

    iteration: int
    tile: int
    trips: int
    spilled: float = 0.0


@dataclass(frozen=True)
class Skip:
    """So many iterations pass at the steady pace. stages: of the loop's rings."""

    trips: int
    tile: int
    stages: int


@dataclass(frozen=True)
class Done:
    """A tile is finished."""

    tile: int


Action = Fill | Take | Give | Multiply | Await | Compute | Leave | Mark | Skip | Done


@dataclass(frozen=True)
class Rings:
    """A block's actions. consumers: warpgroups; tiles: of the block; trips: of each tile's loop; played: the
    tiles that `actions` has, by number; known: whether the program tells how long its loops are.
    """

    actions: tuple[Action, ...]
    consumers: int
    tiles: int
    trips: tuple[int, ...]
    played: tuple[int, ...]
    stages: int
    known: bool = True
    persistent: bool = False
