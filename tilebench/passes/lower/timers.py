"""Stamps of the time around the statements of a thread program, where the kernel asks for them
(ir/timers.py).

One thread of each warp of the block that is timed writes them; all others only count on, so that no branch
is added where products are under way. Where one statement follows another, one stamp serves both. Without
the kernel's attribute nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from tilebench.ir.dtype import int32
from tilebench.ir.expr import Expr, Var, binary, const, select
from tilebench.ir.rewrite import walk
from tilebench.ir.thread import Memory
from tilebench.ir.tile import Acquire, For, Issue, Kernel, Parallel, Stmt, SyncThreads, TileOp, Wait
from tilebench.ir.timers import (
    ATTRIBUTE,
    EACH,
    PARAMETER,
    Header,
    ReadCounter,
    TimerSite,
    Timestamp,
    What,
    first_record,
    opens,
)
from tilebench.ops.gemm import Gemm
from tilebench.passes.persistent import FACT
from tilebench.passes.regions import uses

if TYPE_CHECKING:
    from tilebench.passes.lower.builder import Builder


@dataclass
class Timers:
    """The stamps of one role. sites: those of the whole program, shared by its roles; tiles: the loop over
    the tiles of a persistent block; blocks, grid: what numbers the block; open: a statement with stamps is
    being lowered.
    """

    buffer: Memory
    at: Memory
    end: Memory
    capacity: int
    blocks: tuple[Var, ...]
    grid: tuple[Expr, ...]
    tiles: Stmt | None
    sites: list[TimerSite] = field(default_factory=list[TimerSite])
    open: bool = False


def start(b: Builder, blocks: Sequence[Var], beside: Timers | None = None) -> None:
    """Give the builder of a role its timers, when its kernel has them. beside: those of another role."""
    kernel = b.kernel
    capacity = kernel.attributes.get(ATTRIBUTE)
    if not capacity:
        return
    buffer = next(
        b.globals[p.value] for p in kernel.params if p.name == PARAMETER and not isinstance(p.value, Var)
    )
    at, end = b.registers("timer_at", 1, int32), b.registers("timer_end", 1, int32)
    sites = list[TimerSite]() if beside is None else beside.sites
    b.timers = Timers(
        buffer, at, end, int(capacity), tuple(blocks), kernel.grid, _tiles(kernel, b.stage.body), sites
    )


def _tiles(kernel: Kernel, body: Stmt) -> Stmt | None:
    if not kernel.attributes.get(FACT):
        return None
    return next((n for n in walk(body) if isinstance(n, For)), None)


def begin(b: Builder) -> None:
    """The role's first counters: which SM it is on, the GPU's time, the SM's clock."""
    t = b.timers
    if t is None:
        return
    flat: Expr = t.blocks[-1]
    for block, extent in zip(reversed(t.blocks[:-1]), reversed(t.grid[:-1]), strict=True):
        flat = flat * extent + block
    warp = b.thread // 32
    first = const(first_record(b.kernel, 0, t.capacity)) + warp * t.capacity
    chosen = binary("eq", b.load(t.buffer, 0), flat)
    elected = binary("eq", b.thread % 32, const(0))
    b.store(t.at, 0, first)
    b.store(t.end, 0, select(binary("and", chosen, elected), first + t.capacity, const(0)))
    with b.when(_writes(b, t)):
        _counter(b, t, Header.SM, "sm")
        _counter(b, t, Header.TIME_BEGIN, "time")
        _counter(b, t, Header.CLOCK_BEGIN, "clock")


def end(b: Builder) -> None:
    """The role's last counters, and how many records there were."""
    t = b.timers
    if t is None:
        return
    with b.when(_writes(b, t)):
        _counter(b, t, Header.CLOCK_END, "clock")
        _counter(b, t, Header.TIME_END, "time")
        first = const(first_record(b.kernel, 0, t.capacity)) + b.thread // 32 * t.capacity
        b.store(t.buffer, _header(b, Header.COUNT), b.load(t.at, 0) - first)


def _writes(b: Builder, t: Timers) -> Expr:
    return binary("gt", b.load(t.end, 0), const(0))


def _header(b: Builder, word: Header) -> Expr:
    return (b.thread // 32 + 1) * int(Header.WORDS) + int(word)


def _counter(b: Builder, t: Timers, word: Header, counter: Literal["clock", "time", "sm"]) -> None:
    b.emit(ReadCounter(t.buffer, b.simple(_header(b, word)), counter))


@contextmanager
def timed(b: Builder, s: Stmt, what: What | None = None) -> Generator[None]:
    """Stamps before and after what is emitted for a statement; none where nothing is, where threads go
    their own ways, or within a statement that has stamps.

    what: as TimerSite (None: by the kind of statement).
    """
    t = b.timers
    kind = what or (None if t is None else _kind(s))
    if t is None or kind is None or t.open or b.diverged or b.nest is not None or b.asynchronous:
        yield
        return
    if isinstance(s, TileOp | Parallel) and s in b.per_thread:
        yield
        return
    if kind == "work" and not b.kernel.attributes.get(EACH) and (known := _computing(b, t, s)) is not None:
        with _with_it(b, t, known, s):
            yield
        return
    site = next(
        (k for k, known in enumerate(t.sites) if known.stmt is s and known.what == kind), len(t.sites)
    )
    if site == len(t.sites):
        t.sites.append(TimerSite(kind, s))
    body, before = b.body, b.body[-1] if b.body else None
    merged = kind != "tile" and isinstance(before, Timestamp) and before.tag % 2 == 0
    if merged:
        body.pop()  # what is opened now closes what was open
    first = Timestamp(t.buffer, t.at, t.end, opens(site), loc=s.loc)
    b.emit(first)
    t.open = kind != "tile"
    yield
    t.open = False
    if body[-1] is first:
        body.pop()
        if merged and before is not None:
            body.append(before)
        return
    b.emit(Timestamp(t.buffer, t.at, t.end, opens(site) + 1, loc=s.loc))


def _computing(b: Builder, t: Timers, s: Stmt) -> int | None:
    """The site that has just been closed, when it and `s` only compute."""
    before = b.body[-1] if b.body else None
    if not isinstance(before, Timestamp) or before.tag % 2 or not _only_computes(s):
        return None
    known = before.tag // 2 - 1
    return known if t.sites[known].what == "work" and _only_computes(t.sites[known].stmt) else None


def _only_computes(s: Stmt) -> bool:
    return not isinstance(s, Gemm) and all(b.scope != "global" for part in uses(s) for b in part)


@contextmanager
def _with_it(b: Builder, t: Timers, known: int, s: Stmt) -> Generator[None]:
    """What is emitted inside joins a site that has just been closed."""
    body, closing = b.body, b.body.pop()
    length = len(body)
    t.open = True
    yield
    t.open = False
    site = t.sites[known]
    if len(body) > length and all(x is not s for x in site.more):
        t.sites[known] = replace(site, more=(*site.more, s))
    body.append(closing)


@contextmanager
def tiled(b: Builder, loop: Stmt) -> Generator[None]:
    """Stamps around each tile of a persistent block, when `loop` is the loop over its tiles."""
    if b.timers is None or loop is not b.timers.tiles:
        yield
        return
    with timed(b, loop, "tile"):
        yield


def _kind(s: Stmt) -> What | None:
    match s:
        case TileOp() | Parallel():
            return "work"
        case Issue():
            return "issue"
        case Wait() | SyncThreads():
            return "wait"
        case Acquire() if not s.again:
            return "wait"
        case _:
            return None


__all__ = ["Timers", "begin", "end", "start", "tiled", "timed"]
