"""Consumers in turn: each warpgroup has a tile of the result to itself, and one multiplies after the other.

Where the consumers share a tile they end it together: while both write it out, the tensor cores rest. In
turn, one multiplies while the other writes. Each goes through every other tile of a persistent block with
rows and columns of its own; the ring brings their tiles in order, and two mbarriers hand the turn over.
"""

from __future__ import annotations

from tilebench.ir.dtype import int32
from tilebench.ir.expr import const, int_value
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import (
    Acquire,
    Buffer,
    Channel,
    For,
    Kernel,
    Pipelined,
    Produce,
    Seq,
    Stmt,
    TileOp,
)  # fmt: skip
from tilebench.ops.copy import Copy
from tilebench.ops.elementwise import Fill
from tilebench.ops.gemm import Gemm
from tilebench.passes.occupied import blocks_per_sm
from tilebench.passes.specialise import WARPGROUP

IN_TURN = "TB_CONSUMERS_IN_TURN"
"""Pass config: True lets the one consumer warpgroup of persistent blocks be two, in turn, where the kernel
has nothing but copies, products and elementwise work; False, and left out, does not."""
FACT = "teams"
"""The kernel's attribute: consumers that go through the tiles in turn."""
TEAMS = 2


def teams_of(kernel: Kernel) -> int:
    """How many consumers go through the tiles in turn; 1 when there is one, or they share a tile."""
    return int(kernel.attributes.get(FACT) or 1)


def wanted_teams(kernel: Kernel) -> int:
    """Of a kernel with persistent blocks."""
    if not kernel.configs.get(IN_TURN) or kernel.thread_count != WARPGROUP or blocks_per_sm(kernel) > 1:
        return 1
    loops = [n for n in walk(kernel.body) if isinstance(n, Pipelined)]
    if len(loops) != 1 or rounds_of(loops[0]) is None:
        return 1
    alone = all(isinstance(n, Copy | Gemm | Fill) for n in walk(kernel.body) if isinstance(n, TileOp))
    return TEAMS if alone else 1  # (folds need scratch and barriers of the block's)


def rounds_of(loop: For | Pipelined) -> int | None:
    """Trips of the loop that brings a tile's operands, None when they are not known."""
    start, stop = int_value(loop.start), int_value(loop.stop)
    return None if start is None or stop is None or stop <= start else stop - start


def tile_loop(body: Stmt) -> For | None:
    """The loop over tiles of persistent blocks."""
    parts = body.body if isinstance(body, Seq) else (body,)
    return next((s for s in parts if isinstance(s, For) and concerned(s)), None)


def concerned(s: Stmt) -> bool:
    """Whether a producer brings something within the statement, or consumers wait for it."""
    return any(isinstance(n, Produce | Acquire) for n in walk(s))


def turn_channel() -> Channel:
    """The two mbarriers that hand the turn over, as a ring of one place: its full barrier is the first
    team's, its empty one the second's."""
    slot, phase = (Buffer(f"turn_{n}", (const(1),), int32, "var") for n in ("slot", "phase"))
    return Channel("turn", (), 1, slot, phase)
