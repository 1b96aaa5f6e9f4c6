"""What the emulating back ends note down for time travel: one `Step` for each execution of a statement, with
copies of what it left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilebench.ir.tile import For, Parallel, Pipelined, Stmt

if TYPE_CHECKING:
    import numpy as np

Extents = tuple[tuple[int, ...], tuple[int, ...]]
"""A box: its offsets and its extents."""


class Full(Exception):
    """The recording has reached its limit: the run may end here."""


@dataclass(frozen=True)
class Write:
    """Values (compute form) that a step left in a box of a buffer; mask: which of them it wrote (None: all).

    key: the Buffer, Memory or Var.
    """

    key: Hashable
    box: Extents
    values: np.ndarray
    mask: np.ndarray | None = None


@dataclass(frozen=True)
class Step:
    """One execution of a statement. at: values of the loop variables around it, outermost first."""

    stmt: Stmt
    at: tuple[int, ...]
    writes: tuple[Write, ...]
    reads: tuple[tuple[Hashable, Extents], ...] = ()


@dataclass
class Log:
    """Steps so far. Raises Full beyond the limits: steps, bytes of copies. told: called after each step."""

    step_limit: int
    byte_limit: int
    steps: list[Step] = field(default_factory=list[Step])
    bytes: int = 0
    told: Callable[[], None] | None = None

    def add(self, step: Step) -> None:
        """Note a step."""
        self.steps.append(step)
        self.bytes += sum(w.values.nbytes for w in step.writes)
        if self.told is not None:
            self.told()
        if len(self.steps) >= self.step_limit or self.bytes > self.byte_limit:
            raise Full


def loops_around(body: Stmt) -> dict[Stmt, tuple[Any, ...]]:
    """Variables of the serial loops around each statement, outermost first."""
    found: dict[Stmt, tuple[Any, ...]] = {}

    def visit(s: Stmt, around: tuple[Any, ...]) -> None:
        found[s] = around
        inner = (*around, s.var) if isinstance(s, For | Pipelined) else around
        for child in children_of(s):
            visit(child, inner)

    visit(body, ())
    return found


def children_of(s: Stmt) -> list[Stmt]:
    """The statements directly inside a statement."""
    out: list[Stmt] = []
    for value in vars(s).values():
        if isinstance(value, Stmt):
            out.append(value)
        elif isinstance(value, tuple):
            out.extend(v for v in value if isinstance(v, Stmt))  # type: ignore[reportUnknownVariableType]
    return out


def inside_nests(body: Stmt) -> set[Stmt]:
    """Statements inside a Parallel: no steps of their own, the nest is the step."""
    found: set[Stmt] = set()

    def visit(s: Stmt, within: bool) -> None:
        if within:
            found.add(s)
        for child in children_of(s):
            visit(child, within or isinstance(s, Parallel))

    visit(body, False)
    return found


def union(boxes: Sequence[Extents]) -> Extents:
    """The smallest box around boxes of one buffer."""
    low = tuple(min(b[0][d] for b in boxes) for d in range(len(boxes[0][0])))
    high = tuple(max(b[0][d] + b[1][d] for b in boxes) for d in range(len(low)))
    return low, tuple(h - n for n, h in zip(low, high, strict=True))


def slices(box: Extents) -> tuple[slice, ...]:
    """A box as an index."""
    return tuple(slice(o, o + n) for o, n in zip(*box, strict=True))
