"""Turns at a named barrier: one warpgroup passes on (bar.arrive), the other waits for it (bar.sync).

What both must keep to is checked beside: between two meetings of both, each turn is passed on once and taken
once. With two passes, the second completes the barrier by itself and the turn is over before it was taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from tilebench.backends.emulator.barriers import line_of, stop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilebench.backends.emulator.barriers import Waiting
    from tilebench.backends.emulator.machine import Block
    from tilebench.backends.emulator.role import Role
    from tilebench.errors import Loc


HINT = "each turn is passed on by one warpgroup and taken by the other, once between two barriers of both"


@dataclass(eq=False)
class Uses:
    """Of a named barrier since both warpgroups met: passed on and taken, at these lines."""

    id: int
    threads: int
    passed: int = 0
    taken: int = 0
    places: list[Loc | None] = field(default_factory=list[Any])
    hint: str = HINT
    hopeless: bool = False

    @property
    def open(self) -> bool:
        """The one that takes may go on."""
        return self.passed >= self.taken

    def explain(self) -> str:
        """What is missing."""
        return f"waits at {line_of(self.places[0])} for its turn at barrier {self.id}"


class Turns:
    """The named barriers of a block at which warpgroups take turns."""

    def __init__(self) -> None:
        self.uses: dict[int, Uses] = {}

    def use(
        self, rs: Role, id: int, threads: int, take: bool, mask: Any, at: Loc | None
    ) -> Iterator[Waiting]:
        """bar.sync (take) or bar.arrive of a warpgroup, one of two with `threads` together."""
        active = rs.active(mask)
        count = rs.real_threads if active is None else int(active.sum())
        if count == 0:
            return
        if count != threads // 2:
            _broken(rs.block, id, f"{count} threads come, not the {threads // 2} of a warpgroup", (at,))
        u = self.uses.setdefault(id, Uses(id, threads))
        u.passed, u.taken = u.passed + (not take), u.taken + take
        u.places.append(at)
        if max(u.passed, u.taken) > 1:
            what = "taken" if u.taken > 1 else "passed on"
            _broken(rs.block, id, f"it is {what} twice, and both do not meet between", tuple(u.places))
        while take and not u.open:
            yield u

    def settle(self, block: Block, threads: int | None = None) -> None:
        """So many threads (None: all) have met, or are at their end: what was passed on must be taken."""
        for id, u in list(self.uses.items()):
            if threads is None or threads >= u.threads:
                del self.uses[id]
                if u.passed != u.taken:
                    one, other = ("taken", "passed on") if u.taken else ("passed on", "taken")
                    _broken(block, id, f"it is {one} and never {other}", tuple(u.places))


def _broken(block: Block, id: int, why: str, places: tuple[Loc | None, ...]) -> NoReturn:
    lines = ", ".join(dict.fromkeys(map(line_of, places)))
    stop(block, "deadlock", f"turn at barrier {id} ({lines}): {why}", places, HINT)


__all__ = ["Turns"]
