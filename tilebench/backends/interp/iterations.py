"""Which iteration of a Parallel nest touched which element: one that depends on another is a race."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilebench.errors import Loc, SyncError
from tilebench.ir.tile import Buffer


@dataclass(frozen=True)
class Touch:
    """One access of a nest: flat element and flat iteration, side by side."""

    elements: np.ndarray
    iterations: np.ndarray
    at: Loc | None


@dataclass
class Iterations:
    """The accesses of one execution of an outermost nest.

    text: how a flat iteration is written, as in 'i=3, j=0'.
    """

    extents: tuple[int, ...]
    text: Callable[[int], str]
    reads: dict[Buffer, list[Touch]] = field(default_factory=dict[Buffer, "list[Touch]"])
    writes: dict[Buffer, list[Touch]] = field(default_factory=dict[Buffer, "list[Touch]"])

    def note(
        self, buffer: Buffer, elements: Any, iterations: Any, mask: Any, is_write: bool, at: Loc | None
    ) -> None:
        """Remember an access: arrays over the axes, which are broadcast together."""
        shape = np.broadcast_shapes(np.shape(elements), np.shape(iterations), np.shape(mask))
        chosen = np.broadcast_to(mask, shape)
        touch = Touch(
            np.broadcast_to(elements, shape)[chosen], np.broadcast_to(iterations, shape)[chosen], at
        )
        (self.writes if is_write else self.reads).setdefault(buffer, []).append(touch)

    def check(self, sizes: Callable[[Buffer], tuple[int, ...]], where: str) -> None:
        """Raise SyncError TB430 when one iteration reads an element that another one writes."""
        for buffer, writes in self.writes.items():
            shape = sizes(buffer)
            writer = np.full(int(np.prod(shape)), -1, np.int64)
            written_at: list[Loc | None] = []
            for touch in writes:
                writer[touch.elements] = touch.iterations
                written_at.append(touch.at)
            for touch in self.reads.get(buffer, []):
                owner = writer[touch.elements]
                bad = np.nonzero((owner >= 0) & (owner != touch.iterations))[0]
                if bad.size:
                    first = int(bad[0])
                    place = np.unravel_index(int(touch.elements[first]), shape)
                    element = ", ".join(str(int(p)) for p in place)
                    reader, other = self.text(int(touch.iterations[first])), self.text(int(owner[first]))
                    raise SyncError(
                        "TB430",
                        f"{buffer.name}[{element}] is read by {reader} and written by {other} "
                        f"of one T.Parallel, {where}",
                        at=touch.at,
                        why="iterations run in no order, so the old or the new value may be read",
                        fix=f"write to another buffer than {buffer.name}, or split the loop in two",
                        notes=[(written_at[0], "written here")] if written_at[0] is not touch.at else (),
                    )
