"""mbarriers: phases, arrivals, bytes to come, and the order that they carry.

A barrier is in phase 0, 1, 2, ...; a phase completes when all arrivals that the barrier counts have come and
no bytes are missing. A wait for parity p passes when the phase under way has the other parity: a fresh
barrier lets parity 1 pass at once. What a wait may rely on is the *first* phase of that parity that its
threads did not know to be over, whatever else happened to be over when this run came by; so a race is found
in any order of running. Source: PTX ISA, "mbarrier", "mbarrier.test_wait / try_wait".
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tilebench.backends.emulator.barriers import StopBlock, Waiting
from tilebench.backends.emulator.findings import line
from tilebench.backends.emulator.lanes import count, first, groups, members
from tilebench.backends.emulator.order import NOBODY, Order

if TYPE_CHECKING:
    from tilebench.backends.emulator.machine import Block
    from tilebench.backends.emulator.memory import Place
    from tilebench.backends.emulator.role import Role
    from tilebench.errors import Loc

MOST_BYTES = 2**20 - 1
"""The largest tx-count of a phase (PTX ISA, "Tracking asynchronous operations by the mbarrier object")."""


@dataclass(eq=False)
class MBarrier:
    """One barrier of one block.

    pending: arrivals still to come in the phase under way, `phase`; missing: bytes announced and not there
    (negative: there and not announced); history: what is known to be over after 0, 1, 2, ... phases.
    """

    name: str
    count: int
    column: int
    thread: int
    segment: int
    at: Loc | None
    width: int
    visible: bool = False  # to the async proxy
    phase: int = 0
    pending: int = 0
    missing: int = 0
    arriving: Order | None = None
    came: list[Loc | None] = field(default_factory=list[Any])
    history: list[Order] = field(default_factory=list[Order])

    def __post_init__(self) -> None:
        self.pending = self.count
        self.history.append(Order(np.ones(self.width, dtype=np.int32), NOBODY))

    def arrive(self, order: Order, arrivals: int, at: Loc | None) -> None:
        """`arrivals` of threads that give `order`."""
        before = self.arriving
        self.arriving = (
            order
            if before is None
            else Order(np.maximum(before.row, order.row), {**before.told, **order.told})
        )
        self.pending -= arrivals
        self.came.append(at)

    def settle(self) -> None:
        """Complete the phase if nothing is missing."""
        if self.pending or self.missing:
            return
        last, order = self.history[-1], self.arriving
        row = last.row.copy() if order is None else np.maximum(last.row, order.row)
        told = dict(last.told)
        for thread, segment in (order.told if order is not None else NOBODY).items():
            told[thread] = max(told.get(thread, 0), segment)
        self.phase += 1
        row[self.column] = self.phase + 1
        self.history.append(Order(row, told))
        self.pending, self.arriving = self.count, None
        self.came.clear()

    def passes(self, parity: int) -> bool:
        """Whether a wait for `parity` goes on."""
        return self.phase & 1 != parity


class PhaseWait:
    """Threads of a role that wait for a phase."""

    def __init__(self, site: MBarrierSite, barrier: MBarrier, parity: int, thread: int) -> None:
        self.site, self.barrier, self.parity, self.thread = site, barrier, parity, thread

    @property
    def open(self) -> bool:
        """The phase is over."""
        return self.barrier.passes(self.parity)

    @property
    def hopeless(self) -> bool:
        """All arrivals are there, and bytes are missing."""
        return self.barrier.missing > 0 and not self.barrier.pending

    @property
    def places(self) -> tuple[Loc | None, ...]:
        """The wait, and the statements that could end it."""
        return (self.site.at, *(at for at, _ in self.site.suppliers))

    def explain(self) -> str:
        """What is missing, and who brings it."""
        b = self.barrier
        text = (
            f"(thread {self.thread}) waits at {line(self.site.at)} for phase {b.phase} (parity {self.parity})"
        )
        text += f" of {b.name}: {b.count - b.pending} of {b.count} arrivals are there"
        if b.missing > 0:
            text += f", {b.missing} bytes are still to come"
        if self.site.suppliers and b.pending:
            text += (
                f"; arrivals come from {', '.join(f'{line(at)} ({who})' for at, who in self.site.suppliers)}"
            )
        elif b.pending:
            text += "; no statement arrives there"
        return text

    @property
    def hint(self) -> str:
        """The way out."""
        if self.hopeless:
            return "expect as many bytes as the copies that report to this phase bring"
        return "check the parity, the arrivals that the barrier counts, and that each stage is given back"


class MBarrierSite:
    """One statement on mbarriers of one memory. arrivals, bytes: of an init, of an expect."""

    def __init__(self, place: Place, at: Loc | None, column: int, arrivals: int = 0, bytes: int = 0) -> None:
        self.place, self.at, self.column = place, at, column
        self.arrivals, self.bytes = arrivals, bytes
        self.suppliers: tuple[tuple[Loc | None, str], ...] = ()

    # -------------------------------------------------------------- statements

    def init(self, rs: Role, index: Any, mask: Any) -> None:
        """mbarrier.init by each active thread."""
        block = rs.block
        for (i,), active in groups(rs, mask, index):
            key, name = self._key(block, i)
            old = block.mbarriers.get(key)
            if old is not None or count(rs, active) > 1:
                was = old.at if old is not None else self.at
                text = f"{name} is initialised at {line(self.at)} and was already at {line(was)}"
                self._stop(
                    block, "reinit", text, (was, self.at), "initialise each barrier once, by one thread"
                )
            thread = first(rs, active)
            clock = block.clock
            block.mbarriers[key] = MBarrier(
                name, self.arrivals, self.column + i, thread, int(clock.seg[thread >> 5]), self.at,
                clock.unsafe.shape[1],
            )  # fmt: skip

    def arrive(self, rs: Role, index: Any, mask: Any) -> None:
        """One arrival of each active thread, with `bytes` more to come each."""
        block = rs.block
        for (i,), active in groups(rs, mask, index):
            b = self.find(rs, i, active)
            n = count(rs, active)
            if n > b.pending:
                earlier = b.count - b.pending
                text = (
                    f"{n} {'thread arrives' if n == 1 else 'threads arrive'} at {b.name} at {line(self.at)}"
                )
                text += f", {earlier} arrived before," if earlier else ""
                text += f" in one phase of {b.count} arrival{'s' if b.count > 1 else ''}"
                places = tuple(dict.fromkeys((*b.came, self.at)))
                self._stop(
                    block, "arrivals", text, places,
                    f"initialise {b.name} with the arrivals of a phase, or let fewer threads arrive",
                )  # fmt: skip
            warps, threads = members(rs, active)
            b.arrive(block.clock.release(warps, threads), n, self.at)
            b.missing += n * self.bytes
            if b.missing > MOST_BYTES:
                text = f"{b.missing} bytes are expected at {b.name} in one phase, at {line(self.at)}"
                self._stop(block, "bytes", text, (self.at,), f"a phase takes at most {MOST_BYTES} bytes")
            self.settle(block, b)

    def wait(self, rs: Role, index: Any, parity: Any, mask: Any) -> Generator[Waiting, None, None]:
        """Wait for a phase, and come after all that was done before the arrivals of it."""
        clock = rs.block.clock
        for (i, p), active in groups(rs, mask, index, parity):
            b = self.find(rs, i, active)
            if not b.passes(p & 1):
                waiting = PhaseWait(self, b, p & 1, first(rs, active))
                while not waiting.open:
                    yield waiting
            warps, threads = members(rs, active)
            if len(warps):
                known = clock.unsafe[warps, b.column] - 1
                relied = known + ((known & 1) == (p & 1))
                for phases in {int(n) for n in relied}:
                    clock.learn(warps[relied == phases], b.history[min(phases, b.phase)])
            for thread in threads:
                known_here = int(clock.known(thread).row[b.column]) - 1
                phases = known_here + ((known_here & 1) == (p & 1))
                clock.learn_alone(thread, b.history[min(phases, b.phase)])

    def settle(self, block: Block, b: MBarrier) -> None:
        """Complete the phase, or say that it can never be."""
        if not b.pending and b.missing < 0:
            text = f"{-b.missing} bytes more than expected arrive at {b.name} in phase {b.phase}"
            self._stop(
                block,
                "bytes",
                text,
                (*b.came, self.at),
                "expect the bytes of every copy that reports to the phase",
            )
        b.settle()

    # -------------------------------------------------------------- checks

    def find(self, rs: Role, i: int, active: np.ndarray | None, *, copy: bool = False) -> MBarrier:
        """The barrier, initialised and known to be so; copy: a bulk copy reports to it."""
        block = rs.block
        b = block.mbarriers.get(self.place.start + 8 * i) if 0 <= i < self.place.count else None
        if b is None:
            _, name = self._key(block, i)
            text = f"{name} is used at {line(self.at)} before it is initialised"
            self._stop(block, "uninitialised", text, (self.at,), f"initialise {name} first, then a barrier")
        thread = self._blind(rs, b, active)
        if thread is not None:
            self._find(
                block, "order",
                f"{b.name}: thread {thread} uses it at {line(self.at)}, with no barrier after its "
                f"initialisation by thread {b.thread} at {line(b.at)}",
                (b.at, self.at), "put a barrier of all threads after the initialisation",
            )  # fmt: skip
        if copy and not b.visible:
            self._find(
                block, "init-fence",
                f"{b.name}: a bulk copy reports to it at {line(self.at)}, and nothing made its "
                f"initialisation at {line(b.at)} visible to the async proxy",
                (b.at, self.at), "put fence.mbarrier_init after the initialisation, in the same thread",
            )  # fmt: skip
        return b

    def _blind(self, rs: Role, b: MBarrier, active: np.ndarray | None) -> int | None:
        """An active thread that does not know the barrier to be initialised."""
        clock, warp = rs.block.clock, b.thread >> 5
        warps, threads = members(rs, active)
        late = clock.unsafe[warps, warp] <= b.segment
        for w in warps[late].tolist():
            lanes = range(32 * w, 32 * w + 32)
            threads = [*threads, *(t for t in lanes if t != b.thread)]
        for thread in threads:
            if thread != b.thread and clock.known(thread).row[warp] <= b.segment:
                return thread
        return None

    def _key(self, block: Block, i: int) -> tuple[int, str]:
        memory = self.place.memory
        name = block.machine.names.element(memory, i) if memory.static_shape[0] > 1 else self.place.name
        if not 0 <= i < self.place.count:
            text = (
                f"barrier {self.place.name}[{i}] is used at {line(self.at)}, out of 0..{self.place.count - 1}"
            )
            key = ("out-of-bounds", self.place.name, self.at)
            if not block.machine.findings.known(*key):
                block.machine.findings.add(
                    key, "out-of-bounds", "error", f"{text} (block {block.name})", (self.at,),
                    "keep the stage within the ring", "TB273",
                )  # fmt: skip
            raise StopBlock(text)
        return self.place.start + 8 * i, name

    def _find(self, block: Block, what: str, text: str, places: tuple[Loc | None, ...], hint: str) -> None:
        key = ("mbarrier", what, self.place.name, *places)
        if not block.machine.findings.known(*key):
            block.machine.findings.add(
                key, "mbarrier", "error", f"{text} (block {block.name})", places, hint, "TB437"
            )

    def _stop(
        self, block: Block, what: str, text: str, places: tuple[Loc | None, ...], hint: str
    ) -> NoReturn:
        self._find(block, what, text, tuple(dict.fromkeys(places)), hint)
        raise StopBlock(text)


def init_fence(rs: Role, mask: Any) -> None:
    """fence.mbarrier_init: barriers that the active threads initialised are visible to bulk copies."""
    active = rs.active(mask)
    threads = set(rs.tid.tolist() if active is None else rs.tid[active].tolist())
    for b in rs.block.mbarriers.values():
        if b.thread in threads:
            b.visible = True
