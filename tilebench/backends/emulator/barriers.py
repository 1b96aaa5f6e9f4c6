"""Barriers between warps: who has arrived, when it opens, and what stands still when it cannot.

A role is a generator; it yields what it waits for (`Waiting`: such a barrier, the phase of an mbarrier,
registers). A barrier opens when as many threads as it counts have arrived. When no generator can go on, the
block is deadlocked and the finding names the waiting threads and lines.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

if TYPE_CHECKING:
    from tilebench.backends.emulator.machine import Block
    from tilebench.backends.emulator.role import Role
    from tilebench.errors import Loc


class StopBlock(Exception):
    """The block cannot go on: a finding says why."""


class Waiting(Protocol):
    """What a role waits for."""

    @property
    def open(self) -> bool:
        """The role may go on."""
        ...

    @property
    def places(self) -> Sequence[Loc | None]:
        """Where the threads wait, and where others should do something."""
        ...

    @property
    def hint(self) -> str:
        """The way out of a deadlock."""
        ...

    @property
    def hopeless(self) -> bool:
        """What is missing cannot come, whatever the other roles do: the cause of a deadlock."""
        ...

    def explain(self) -> str:
        """What is missing: how "role 'all' ..." goes on."""
        ...


@dataclass(eq=False)
class Meeting:
    """One use of a barrier: the warps that came, and how many threads it waits for."""

    id: int
    count: int
    warps: list[np.ndarray] = field(default_factory=list[np.ndarray])
    places: list[Loc | None] = field(default_factory=list[Any])
    predicates: list[np.ndarray] = field(default_factory=list[np.ndarray])
    arrived: int = 0
    open: bool = False
    hopeless: bool = False

    @property
    def hint(self) -> str:
        """The way out of a deadlock."""
        return (
            "every barrier needs as many threads as it counts: check the branch around it and its thread "
            "count"
        )

    def explain(self) -> str:
        """What is missing."""
        at = line_of(self.places[-1])
        return f"waits at {at} for barrier {self.id}: {self.arrived} of {self.count} threads are there"


def barrier(
    rs: Role, id: int, threads: int | None, mask: Any, at: Loc | None, predicate: Any = None
) -> Generator[Waiting, None, np.ndarray]:
    """bar.sync: wait for `threads` (None: the whole block).

    Gives every thread's predicate (of this meeting).
    """
    block = rs.block
    count = block.machine.program.threads if threads is None else threads
    active = rs.active(mask)
    if active is not None and not active.any():
        return np.zeros(0, dtype=bool)
    warps = _warps_of(rs, active, id, count, at)
    meeting = block.meetings.get(id)
    if meeting is None:
        meeting = block.meetings[id] = Meeting(id, count)
    if meeting.count != count:
        stop(
            block,
            "deadlock",
            f"barrier {id} is waited for with {meeting.count} and with {count} threads",
            (meeting.places[0], at),
        )
    meeting.warps.append(warps)
    meeting.places.append(at)
    if predicate is not None:
        p = np.broadcast_to(np.asarray(predicate, dtype=bool), (rs.threads,))
        meeting.predicates.append(p[rs.real] if active is None else p[active])
    meeting.arrived += rs.real_threads if active is None else int(active.sum())
    if meeting.arrived > count:
        text = f"{meeting.arrived} threads arrive at barrier {id}, which counts {count}"
        stop(block, "deadlock", text, tuple(meeting.places))
    if meeting.arrived == count:
        del block.meetings[id]
        block.clock.join(np.unique(np.concatenate(meeting.warps)))
        block.turns.settle(block, count)
        block.barriers += 1
        meeting.open = True
    while not meeting.open:
        yield meeting
    return np.concatenate(meeting.predicates) if meeting.predicates else np.zeros(0, dtype=bool)


def _warps_of(rs: Role, active: np.ndarray | None, id: int, count: int, at: Loc | None) -> np.ndarray:
    if active is None:
        return rs.warps
    whole = active.reshape(-1, 32)
    want = rs.real.reshape(-1, 32)
    partial = whole.any(axis=1) & (whole != want).any(axis=1)
    everyone = count == rs.block.machine.program.threads
    if partial.any() or (everyone and bool((active != rs.real).any())):
        waiting, missing = int(active.sum()), int((rs.real & ~active).sum())
        first = int(rs.tid[np.flatnonzero(rs.real & ~active)[0]])
        never = f"{missing} never {'comes' if missing == 1 else 'come'} (first: thread {first})"
        text = f"barrier at {line_of(at)} is reached by {waiting} threads ({ranges(rs.tid[active])}); {never}"
        stop(
            rs.block, "deadlock", text, (at,),
            "move the barrier out of the branch or loop of the thread: all threads must reach it",
            "TB410",
        )  # fmt: skip
    return rs.warps[whole.any(axis=1)]


def report_deadlock(block: Block, waiting: Sequence[tuple[Role, Waiting]], over: Sequence[str] = ()) -> None:
    """No role can go on; over: roles that have ended."""
    parts = [f"role {rs.name!r} {what.explain()}" for rs, what in waiting]
    if over and any(not isinstance(what, Meeting) for _, what in waiting):
        parts.append(f"{', '.join(map(repr, over))} {'has' if len(over) == 1 else 'have'} ended")
    places = [what.places[-1] if isinstance(what, Meeting) else what.places[0] for _, what in waiting]
    others = [at for _, what in waiting if not isinstance(what, Meeting) for at in what.places[1:]]
    stop(
        block, "deadlock", "deadlock: " + "; ".join(parts), tuple(dict.fromkeys((*places, *others))),
        next((what.hint for _, what in waiting if what.hopeless), waiting[0][1].hint),
    )  # fmt: skip


def ranges(threads: np.ndarray) -> str:
    """Thread numbers as '0 to 15, 32'; at most four ranges."""
    numbers = [int(t) for t in threads]
    parts: list[str] = []
    start = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] != numbers[i - 1] + 1:
            a, b = numbers[start], numbers[i - 1]
            parts.append(f"{a}" if a == b else f"{a} to {b}")
            start = i
    return ", ".join(parts[:4]) + (", ..." if len(parts) > 4 else "")


def line_of(at: Loc | None) -> str:
    """Where, for a message."""
    return "compiler-made code" if at is None else f"line {at.line}"


def stop(
    block: Block, kind: str, text: str, places: tuple[Loc | None, ...], hint: str = "", code: str = "TB433"
) -> NoReturn:
    """Report a finding, once for these places, and end the block."""
    key = (kind, *places)
    if not block.machine.findings.known(*key):
        block.machine.findings.add(key, kind, "error", f"{text} (block {block.name})", places, hint, code)
    raise StopBlock(text)
