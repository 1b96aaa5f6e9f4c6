"""`order=`, `stage=` and `group=` of T.Pipelined: the schedule of a loop, given by hand.

Entry i is about the i-th statement of the body (or the i-th group of them); names bound to a value are not
counted. stage: 0 runs first, the largest stage is the iteration itself, smaller ones run ahead; -1 leaves a
copy to the compiler. order: the place among the statements of an iteration, -1 likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilebench.errors import SyncError
from tilebench.ir.tile import Bind, Buffer, Pipelined, Stmt
from tilebench.passes.regions import uses


@dataclass(frozen=True)
class Table:
    """One stage and order for each statement of the body; None for the names bound in it."""

    stages: tuple[int | None, ...]
    orders: tuple[int | None, ...]

    @property
    def last(self) -> int:
        """The stage of the iteration itself."""
        return max((s for s in self.stages if s is not None), default=0)

    def ahead(self, index: int) -> bool:
        """Whether the statement may run ahead of its iteration."""
        stage = self.stages[index]
        return stage is None or stage < self.last or self.last <= 0

    def arrange(self, parts: Sequence[Stmt]) -> list[Stmt]:
        """The statements in the order asked for. Statements of several stages keep the order in which they
        were written.
        """
        staged = {s for s in self.stages if s is not None and s >= 0}
        if len(staged) > 2 or all(o is None for o in self.orders):
            return list(parts)
        movable = [
            k
            for k, s in enumerate(self.stages)
            if s is not None and s == self.last and (self.orders[k] or 0) >= 0
        ]
        wanted = sorted(movable, key=lambda k: self.orders[k] or 0)
        out = list(parts)
        for place, k in zip(movable, wanted, strict=True):
            out[place] = parts[k]
        return out


def read_table(loop: Pipelined, parts: Sequence[Stmt]) -> Table | None:
    """The table of a loop, None when it has none. Raises SyncError TB421 to TB423 when it is no schedule of
    the body.
    """
    if loop.order is None and loop.stage is None:
        return None
    counted = [k for k, p in enumerate(parts) if not isinstance(p, Bind)]
    groups = loop.group if loop.group is not None else tuple((i,) for i in range(len(counted)))
    if sorted(i for g in groups for i in g) != list(range(len(counted))):
        named = sorted(i for g in groups for i in g)
        raise _wrong(
            loop,
            "TB421",
            f"group= names statements {named}; the loop has {len(counted)}",
            "each statement is in one group, and names bound to a value are not counted",
        )
    for name, values in (("order", loop.order), ("stage", loop.stage)):
        if values is not None and len(values) != len(groups):
            what = "groups" if loop.group is not None else "statements"
            raise _wrong(loop, "TB421", f"{name}= has {len(values)} entries for {len(groups)} {what}",
                         "one entry for each; names bound to a value are not counted")  # fmt: skip
    if loop.order is not None:
        given = [o for o in loop.order if o >= 0]
        if len(set(given)) != len(given):
            raise _wrong(
                loop,
                "TB422",
                f"order={list(loop.order)} gives two statements one place",
                "use each number once",
            )
    if loop.stage is not None and any(s < -1 for s in loop.stage):
        raise _wrong(
            loop,
            "TB422",
            f"stage={list(loop.stage)} has a stage below -1",
            "count stages from 0; -1 leaves a copy to the compiler",
        )
    stages: list[int | None] = [None] * len(parts)
    orders: list[int | None] = [None] * len(parts)
    for g, members in enumerate(groups):
        for i in members:
            stages[counted[i]] = loop.stage[g] if loop.stage is not None else 0
            orders[counted[i]] = loop.order[g] if loop.order is not None else None
    table = Table(tuple(stages), tuple(orders))
    _check_dependences(loop, parts, table)
    return table


def _check_dependences(loop: Pipelined, parts: Sequence[Stmt], table: Table) -> None:
    arranged = table.arrange(parts)
    place = {id(p): k for k, p in enumerate(arranged)}
    for k, later in enumerate(parts):
        for earlier in parts[:k]:
            if place[id(later)] > place[id(earlier)]:
                continue
            shared = _conflict(earlier, later)
            if shared is not None:
                raise SyncError(
                    "TB423",
                    f"order= runs this before a statement that it depends on: both use {shared.name}",
                    at=later.loc or loop.loc,
                    why="statements of one stage that touch one buffer keep their order, when one writes",
                    fix="give it a larger number in order=, or leave order= out",
                    notes=[(earlier.loc, "the statement it must come after")],
                )


def _conflict(a: Stmt, b: Stmt) -> Buffer | None:
    (ra, wa), (rb, wb) = uses(a), uses(b)
    return next(iter((wa & (rb | wb)) | (ra & wb)), None)


def _wrong(loop: Pipelined, code: str, what: str, fix: str) -> SyncError:
    return SyncError(
        code,
        f"T.Pipelined: {what}",
        at=loop.loc,
        why="order=, stage= and group= are the schedule of the loop's statements",
        fix=fix,
    )
