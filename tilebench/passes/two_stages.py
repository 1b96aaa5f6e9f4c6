"""The order of a loop's statements when the later of two stages runs an iteration behind.

In the steady state an iteration holds the early statements of iteration k and the late ones of k - 1. An
early statement may overtake a late one of the iteration before it only when neither writes what the other
touches; a late statement comes an iteration after every early one of its own, so it never overtakes those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilebench.ir.rewrite import variables, walk
from tilebench.ir.tile import Bind, Buffer, Stmt
from tilebench.passes.regions import uses


@dataclass(frozen=True)
class Plan:
    """steady: all statements in the order of the steady state; late: those of the iteration before."""

    steady: tuple[Stmt, ...]
    late: tuple[Stmt, ...]


def staged_order(parts: Sequence[Stmt], places: Mapping[Stmt, tuple[int, int]]) -> Plan | None:
    """The plan. places: (stage, order) by statement, -1 for what is open: early, at its place in the text.

    None when there are not two stages, one after the other, or when their order breaks a dependence.
    """
    stages = {stage for stage, _ in places.values() if stage >= 0}
    if len(stages) != 2 or max(stages) - min(stages) != 1:
        return None
    late = {p for p in parts if places.get(p, (-1, -1))[0] == max(stages)}
    ranked = [p for p in parts if places.get(p, (-1, -1))[1] >= 0]
    wanted = iter(sorted(ranked, key=lambda p: places[p][1]))
    held = set(ranked)
    steady = [next(wanted) if p in held else p for p in parts]
    text = {p: k for k, p in enumerate(parts)}
    turn = {p: k for k, p in enumerate(steady)}
    for p in parts:
        for q in parts:
            if p is q or not conflict(p, q) or (isinstance(p, Bind) and q in late):
                continue  # (names are written out in what is late)
            if (p in late) == (q in late):
                wrong = text[p] < text[q] and turn[p] > turn[q]
            else:  # p early, q late: the next p must not come before q, and q not be needed by its own p
                wrong = p not in late and (turn[p] < turn[q] or text[q] < text[p])
            if wrong:
                return None
    return Plan(tuple(steady), tuple(p for p in steady if p in late))


def conflict(a: Stmt, b: Stmt) -> bool:
    """Whether two statements must keep their order, whichever comes first."""
    return depends(a, b) or depends(b, a)


def buffers_of(s: Stmt) -> set[Buffer]:
    """Every buffer that a statement names."""
    return set[Buffer]().union(*uses(s))


def fragments_of(s: Stmt) -> frozenset[Buffer]:
    """The fragments among them."""
    return frozenset(b for b in buffers_of(s) if b.scope == "fragment")


def depends(later: Stmt, earlier: Stmt) -> bool:
    """Whether two statements must keep their order."""
    if uses(later)[1] & buffers_of(earlier) or uses(earlier)[1] & buffers_of(later):
        return True
    bound = {n.var for n in walk(earlier) if isinstance(n, Bind)}
    return bool(bound & variables(later))


__all__ = ["Plan", "buffers_of", "conflict", "depends", "fragments_of", "staged_order"]
