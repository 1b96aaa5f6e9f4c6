"""Scheduled -> Allocated: where each shared buffer lives, and when.

Statements are numbered in preorder. A buffer lives from its first to its last access; when a loop may carry
its contents from one iteration to the next, or holds accesses on both sides, over the whole loop. Buffers
that never live at the same time share bytes: each, largest first, takes the lowest place that no contemporary
has. Starts are aligned to what the layout needs, and so is each version of a pipelined buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilebench.errors import TargetError
from tilebench.ir.rewrite import children, walk
from tilebench.ir.tile import Buffer, Channel, For, Pipelined, Produce, Stmt, While
from tilebench.layouts import SharedLayout
from tilebench.ops.atomic import AtomicTile
from tilebench.ops.copy import Copy
from tilebench.ops.copy.bulk import ALIGNMENT as BULK_ALIGNMENT
from tilebench.ops.copy.bulk import NAME as BULK
from tilebench.ops.copy.bulk import STORE
from tilebench.ops.copy.bulk_reduce import NAME as REDUCE
from tilebench.passes.handover import hand_over
from tilebench.passes.regions import Touch, overwrites, own_touches, straight, touches
from tilebench.passes.stages import Allocated, Scheduled, Slot
from tilebench.passes.teams import teams_of, turn_channel

SCRATCH_RESERVE = 32 * 1024
"""Bytes that may be wanted for scratch. Only when they could be too many is it worth lowering the kernel to
know; otherwise lowering puts its scratch behind the buffers.
"""
DEFAULT_LIMIT = 99 * 1024
NO_REUSE = "TL_DISABLE_SHARED_MEMORY_REUSE"


@dataclass(frozen=True)
class Life:
    """A buffer and the statements, by preorder number, between which its contents matter."""

    buffer: Buffer
    first: int
    last: int


LEAST_STAGES = 2
"""Versions with which a producer still runs ahead."""


def allocate(scheduled: Scheduled) -> Allocated:
    """Place every shared buffer.

    Rings that do not fit lose versions, down to two (those of persistent blocks that were to have a tile's
    next operands ahead before all others); the result's `scheduled` is then another one. Raises
    TargetError TB521 with a table of bytes when the buffers do not fit even so.
    """
    try:
        return allocate_as_asked(scheduled)
    except TargetError as error:
        if error.code != "TB521" or not scheduled.placed.partitioned.specialised:
            raise
        for most in range(max(scheduled.versions.values(), default=1) - 1, LEAST_STAGES - 1, -1):
            try:
                return _allocated(hand_over(scheduled.placed, most, ahead=False))
            except TargetError as still:
                if still.code != "TB521":
                    raise
        raise


def allocate_as_asked(scheduled: Scheduled) -> Allocated:
    """Place every shared buffer in all the versions that the program asks for; persistent blocks have no
    tiles ahead when these do not fit beside them. Raises TargetError TB521 when they do not fit.
    """
    try:
        return _allocated(scheduled)
    except TargetError as error:
        if error.code != "TB521" or not scheduled.placed.partitioned.specialised:
            raise
        fewer = hand_over(scheduled.placed, ahead=False)
        if fewer.versions == scheduled.versions:
            raise
        return _allocated(fewer)


def _allocated(scheduled: Scheduled) -> Allocated:
    reuse = not scheduled.kernel.configs.get(NO_REUSE)
    lives = lifetimes(scheduled.body)
    slots: dict[Buffer, Slot] = {}
    moved = _moved(scheduled)
    sized = [(life, *_bytes(life.buffer, scheduled, moved)) for life in lives]
    for life, size, alignment in sorted(sized, key=lambda x: (-x[2], -x[1], x[0].first)):
        others = [s for s in slots.values() if not reuse or (s.first <= life.last and life.first <= s.last)]
        slots[life.buffer] = Slot(_lowest(size, alignment, others), size, life.first, life.last)
    total = max((s.offset + s.size for s in slots.values()), default=0)
    rings = channels_of(scheduled.body)
    if teams_of(scheduled.kernel) > 1:
        rings.append(turn_channel())
    barriers: dict[Channel, int] = {}
    for ring in rings:
        total = -(-total // 8) * 8
        barriers[ring] = total
        total += 2 * 8 * ring.stages
    facts = scheduled.placed.partitioned.selected.typed.target.facts
    limit = facts.shared_per_block if facts is not None else DEFAULT_LIMIT
    scratch = _scratch(scheduled, total) if total + SCRATCH_RESERVE > limit else None
    if scratch is not None:
        total = scratch.offset + scratch.size
    if facts is not None and total > facts.shared_per_block:
        raise _too_much(scheduled, slots, scratch, total, facts.shared_per_block)
    ordered = {life.buffer: slots[life.buffer] for life in lives}
    return Allocated(scheduled, ordered, scratch, total, barriers)


def channels_of(body: Stmt) -> list[Channel]:
    """The rings that a producer fills, in program order."""
    return list(dict.fromkeys(n.channel for n in walk(body) if isinstance(n, Produce)))


def _lowest(size: int, alignment: int, others: Sequence[Slot]) -> int:
    starts = sorted({0, *(-(-(s.offset + s.size) // alignment) * alignment for s in others)})
    return next(x for x in starts if all(x + size <= s.offset or s.offset + s.size <= x for s in others))


def _moved(scheduled: Scheduled) -> set[Buffer]:
    """Tiles that bulk copies bring or send out."""
    chosen = scheduled.placed.partitioned.selected.instructions
    return {
        region.buffer
        for op, instruction in chosen.items()
        if isinstance(op, Copy | AtomicTile) and instruction.name in (BULK, STORE, REDUCE)
        for region in (*op.reads, *op.writes)
        if region.buffer.scope == "shared"
    }


def _bytes(buffer: Buffer, scheduled: Scheduled, moved: set[Buffer]) -> tuple[int, int]:
    """(bytes of all versions, alignment). moved: by bulk copies."""
    layout = scheduled.placed.layouts.get(buffer)
    if isinstance(layout, SharedLayout):
        size, alignment = layout.size_bytes, 1024 if layout.swizzle.bits else 16
    else:
        size, alignment = buffer.dtype.bytes, 16
        for n in buffer.static_shape:
            size *= n
    copies = scheduled.versions.get(buffer, 1)
    alignment = max(
        alignment, layout.alignment if isinstance(layout, SharedLayout) and layout.swizzle.bits else 16
    )
    if buffer in moved:
        alignment = max(alignment, BULK_ALIGNMENT)
    return -(-size // alignment) * alignment * copies, alignment


def _scratch(scheduled: Scheduled, total: int) -> Slot | None:
    from tilebench.passes.lower import scratch_bytes

    size = scratch_bytes(scheduled.placed)
    if not size:
        return None
    last = sum(1 for n in walk(scheduled.body) if isinstance(n, Stmt)) - 1
    return Slot(-(-total // 128) * 128, -(-size // 16) * 16, 0, last)


# -- lifetimes


def lifetimes(body: Stmt) -> list[Life]:
    """How long each shared buffer lives, in order of first use."""
    numbers: dict[Stmt, tuple[int, int]] = {}
    _number(body, numbers)
    found: dict[Buffer, list[Touch]] = {}
    for s in numbers:
        for t in own_touches(s):
            if t.buffer.scope == "shared":
                found.setdefault(t.buffer, []).append(t)
    ahead = {b for ring in channels_of(body) for b in ring.buffers}  # the producer may fill them at once
    # What warpgroups stage on their own shares no bytes: another warpgroup may be far behind.
    ahead |= {n.destination.buffer for n in walk(body) if isinstance(n, Copy) and n.alone}
    lives = [Life(buffer, *_life(buffer, ts, body, numbers)) for buffer, ts in found.items()]
    return [Life(x.buffer, 0, x.last) if x.buffer in ahead else x for x in lives]


def numbered(body: Stmt) -> list[Stmt]:
    """The statements by their preorder number, which `Slot.first` and `Slot.last` count in."""
    numbers: dict[Stmt, tuple[int, int]] = {}
    _number(body, numbers)
    return sorted(numbers, key=lambda s: numbers[s][0])


def _number(s: Stmt, numbers: dict[Stmt, tuple[int, int]]) -> None:
    """Preorder number of each statement, and of the last one below it. A statement that stands twice keeps
    the first.
    """
    start = len(numbers)
    first = s not in numbers
    numbers.setdefault(s, (start, start))
    for child in children(s):
        if isinstance(child, Stmt):
            _number(child, numbers)
    if first:
        numbers[s] = (start, len(numbers) - 1)


def _life(
    buffer: Buffer, ts: Sequence[Touch], body: Stmt, numbers: dict[Stmt, tuple[int, int]]
) -> tuple[int, int]:
    first = min(numbers[t.stmt][0] for t in ts)
    last = max(numbers[t.stmt][0] for t in ts)
    for loop in _loops(body):
        start, end = numbers[loop]
        inside = [start <= numbers[t.stmt][0] <= end for t in ts]
        if any(inside) and not (all(inside) and _written_first(buffer, loop)):
            first, last = min(first, start), max(last, end)
    return first, last


def _loops(s: Stmt) -> Iterator[Stmt]:
    if isinstance(s, For | While | Pipelined):
        yield s
    for child in children(s):
        if isinstance(child, Stmt):
            yield from _loops(child)


def _written_first(buffer: Buffer, loop: Stmt) -> bool:
    """Whether each iteration writes all of the buffer before it reads any of it."""
    if isinstance(loop, While):
        return False
    assert isinstance(loop, For | Pipelined)
    for s in straight(loop.body):
        if any(t.buffer is buffer for t in touches(s)):
            return overwrites(s, buffer)
    return False


# -- the error


def _too_much(
    scheduled: Scheduled, slots: dict[Buffer, Slot], scratch: Slot | None, total: int, limit: int
) -> TargetError:
    rows = [("buffer", "shape", "dtype", "versions", "bytes")]
    largest = max(slots, key=lambda b: slots[b].size)
    for buffer, slot in sorted(slots.items(), key=lambda item: -item[1].size):
        shape = "x".join(map(str, buffer.static_shape))
        rows.append(
            (buffer.name, shape, buffer.dtype.name, str(scheduled.versions.get(buffer, 1)), f"{slot.size:,}")
        )
    if scratch is not None:
        rows.append(("(scratch)", "", "", "", f"{scratch.size:,}"))
    widths = [max(len(r[c]) for r in rows) for c in range(5)]
    table = [
        "  ".join(
            x.rjust(w) if c >= 3 else x.ljust(w) for c, (x, w) in enumerate(zip(r, widths, strict=True))
        )
        for r in rows
    ]
    saved = sum(s.size for s in slots.values()) + (scratch.size if scratch else 0) - total
    if saved > 0:
        table.append(f"({saved:,} bytes are shared by buffers that do not live at the same time)")
    target = scheduled.placed.partitioned.selected.typed.target
    staged = max(scheduled.versions.values(), default=1)
    fix = f"make {largest.name} smaller"
    for fewer in range(staged - 1, 0, -1):
        versions = [
            (slots[b].size // v, v - fewer) for b, v in scheduled.versions.items() if v > fewer and b in slots
        ]
        if total - sum(size * n for size, n in versions) <= limit:
            count = f"{fewer} version{'s' * (fewer > 1)}"
            fix = f"num_stages={fewer} would fit: each pipelined buffer then has {count}; or {fix}"
            break
    return TargetError(
        "TB521",
        f"the block needs {total:,} bytes of shared memory; {target.arch} has {limit:,}",
        at=largest.loc or scheduled.kernel.loc,
        why="\n       ".join(["where they go:", *table]),
        fix=fix,
    )
