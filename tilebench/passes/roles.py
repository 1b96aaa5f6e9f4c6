"""Selected -> Partitioned: which threads do what, and how the warps split each gemm.

One role of all threads; or, where select gave the bulk copies to a producer, the program's own threads as
consumers, a warpgroup each, and behind them one warpgroup of which a single thread starts the copies.
Registers move from the producer to the consumers (setmaxnreg) when there are two consumer warpgroups or more
on a multiprocessor: with one, a thread can have 255 anyway. A gemm's warps are laid out by its policy: the
split with the smallest operand traffic (Square), as many as possible along M (FullRow) or N (FullCol).
Dependences overrule Square: a row of the product stays in one warp where the program folds rows (a row's
maximum or sum), or feeds the product to another gemm as its left operand (an accumulator's columns are then
that operand's registers). Gemms into one accumulator share their split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilebench.errors import Loc
from tilebench.ir.rewrite import children, walk
from tilebench.ir.tile import AtomicRMW, Buffer, Parallel, Stmt, Store, TileOp
from tilebench.ops.base import Op
from tilebench.ops.gemm import Gemm, GemmWarpPolicy, wgmma
from tilebench.ops.gemm.place import warp_splits
from tilebench.ops.gemm.wgmma import NAME as WGMMA
from tilebench.ops.reduce import Reduce
from tilebench.passes.occupied import PRODUCER_REGISTERS, blocks_per_sm, consumer_registers
from tilebench.passes.specialise import WARPGROUP
from tilebench.passes.stages import Partitioned, Reason, RoleSpec, Selected
from tilebench.passes.teams import teams_of

PRODUCER = "producer"


def partition(selected: Selected) -> Partitioned:
    """One role, and the warp grid of each gemm on tensor cores."""
    kernel = selected.kernel
    warps = max(1, kernel.thread_count // 32)
    gemms = [
        n
        for n in walk(kernel.body)
        if isinstance(n, Gemm) and selected.instructions[n].name.startswith(("mma", WGMMA))
    ]
    together = _Groups()
    folded: dict[Buffer, Loc | None] = {}
    feeds: dict[Buffer, Loc | None] = {}
    if gemms:
        _connect(kernel.body, together)
        for node in walk(kernel.body):
            if isinstance(node, Reduce) and node.source.buffer.scope == "fragment" and _along_columns(node):
                folded.setdefault(together.of(node.source.buffer), node.loc)
        for g in gemms:
            if g.a.buffer.scope == "fragment":
                feeds.setdefault(together.of(g.a.buffer), g.loc)
    grids: dict[TileOp, tuple[int, int]] = {}
    reasons: dict[TileOp, Reason] = {}
    chosen: dict[Buffer, tuple[tuple[int, int], Loc | None]] = {}
    for g in gemms:
        if selected.instructions[g].name == WGMMA:
            m, n, _ = g.mnk
            possible = [(4 * gm, gn) for gm, gn in wgmma.splits(m, n, kernel.thread_count)]
        else:
            possible = list(warp_splits(*g.mnk[:2], warps))
        tall = selected.instructions[g].name == WGMMA
        grid, reason = _grid(g, warps, possible, tall, together, folded, feeds)
        earlier = chosen.setdefault(g.c.buffer, (grid, g.loc))
        if earlier[0] != grid:
            grid, reason = (
                earlier[0],
                Reason(f"as the earlier product into {g.c.buffer.name}", g.loc, _places(earlier[1])),
            )
        grids[g], reasons[g] = grid, reason
    threads = kernel.thread_count * teams_of(kernel)
    roles, registers = _roles(threads, selected.specialised, blocks_per_sm(kernel))
    return Partitioned(selected, roles, grids, reasons, registers)


def _roles(threads: int, specialised: bool, blocks: int) -> tuple[tuple[RoleSpec, ...], dict[str, int]]:
    """The roles, and the registers that each asks for; blocks: that share a multiprocessor."""
    if not specialised:
        return (RoleSpec("all", 0, threads),), {}
    consumers = threads // WARPGROUP
    roles = [RoleSpec(f"consumer{i}", i * WARPGROUP, WARPGROUP) for i in range(consumers)]
    roles.append(RoleSpec(PRODUCER, threads, WARPGROUP))
    if consumers == 1 and blocks == 1:
        return tuple(roles), {}
    registers = {r.name: consumer_registers(threads, blocks) for r in roles[:-1]}
    return tuple(roles), {**registers, PRODUCER: PRODUCER_REGISTERS}


def _grid(
    g: Gemm,
    warps: int,
    splits: list[tuple[int, int]],
    tall: bool,
    together: _Groups,
    folded: dict[Buffer, Loc | None],
    feeds: dict[Buffer, Loc | None],
) -> tuple[tuple[int, int], Reason]:
    m, n, _ = g.mnk
    most = max(wm * wn for wm, wn in splits)
    splits = [s for s in splits if s[0] * s[1] == most]
    spare = (
        f"; {warps // most} groups of warps do the same, since {m}x{n} has too few 16x8 atoms"
        if most < warps
        else ""
    )
    rows = max(splits, key=lambda s: s[0])
    columns = max(splits, key=lambda s: s[1])
    balanced = min(splits, key=lambda s: (m // s[0] + n // s[1], s[1]))
    c = together.of(g.c.buffer)

    def said(grid: tuple[int, int], why: str, at: Loc | None = None) -> tuple[tuple[int, int], Reason]:
        return grid, Reason(f"{grid[0]}x{grid[1]} warps: {why}{spare}", g.loc, _places(at))

    if g.policy is GemmWarpPolicy.FullCol:
        return said(columns, "FullCol was asked for")
    if g.policy is GemmWarpPolicy.FullRow:
        return said(rows, "FullRow was asked for")
    if g.a.buffer.scope == "fragment":
        return said(rows, f"{g.a.buffer.name} comes from registers, so each warp keeps its rows")
    if c in feeds:
        return said(
            rows, "its rows become the left operand of another gemm, which a warp needs whole", feeds[c]
        )
    if c in folded:
        return said(rows, "its rows are folded, so a row stays in one warp", folded[c])
    if tall:
        return said(rows, "each warpgroup reads all of B once for its own rows")
    return said(
        balanced, f"the least to read from shared memory ({m // balanced[0]}x{n // balanced[1]} for each)"
    )


def _places(at: Loc | None) -> tuple[Loc, ...]:
    return (at,) if at is not None else ()


def _along_columns(op: Reduce) -> bool:
    rank = len(op.source.shape)
    return rank >= 2 and op.dim % rank == rank - 1


class _Groups:
    """Fragments that are combined element by element somewhere, directly or through others."""

    def __init__(self) -> None:
        self._parent: dict[Buffer, Buffer] = {}

    def of(self, buffer: Buffer) -> Buffer:
        """The representative of the buffer's group."""
        while (up := self._parent.get(buffer, buffer)) is not buffer:
            buffer = up
        return buffer

    def join(self, buffers: Iterable[Buffer]) -> None:
        """They belong together."""
        first: Buffer | None = None
        for buffer in buffers:
            root = self.of(buffer)
            first = first or root
            if root is not first:
                self._parent[root] = first


def _connect(s: Stmt, together: _Groups) -> None:
    if isinstance(s, Parallel) or (isinstance(s, Op) and not isinstance(s, Gemm | Reduce)):
        by_shape: dict[tuple[int, ...], list[Buffer]] = {}
        for buffer in _matrices(s):
            by_shape.setdefault(buffer.static_shape, []).append(buffer)
        for group in by_shape.values():
            together.join(group)
        return
    for child in children(s):
        if isinstance(child, Stmt):
            _connect(child, together)


def _matrices(s: Stmt) -> Iterator[Buffer]:
    if isinstance(s, Op):
        found = [r.buffer for r in (*s.reads, *s.writes)]
    else:
        found = [n.buffer for n in walk(s) if isinstance(n, Store | AtomicRMW)]
        found += [b for n in walk(s) if isinstance(b := getattr(n, "buffer", None), Buffer)]
    for buffer in dict.fromkeys(found):
        if buffer.scope == "fragment" and sum(n > 1 for n in buffer.static_shape) >= 2:
            yield buffer
