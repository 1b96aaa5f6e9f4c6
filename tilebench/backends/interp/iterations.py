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
        """Raise SyncError TB430 when one iteration reads an element that another one writes, be it by a view.

        sizes: the shape of a buffer's storage.
        """
        for root in dict.fromkeys(b.data for b in self.writes):
            unit = min(_size(b) for b in (*self.writes, *self.reads) if b.data is root)
            writer = np.full(int(np.prod(sizes(root))) * _size(root) // unit, -1, np.int64)
            written_at: list[Loc | None] = []
            for buffer, writes in self.writes.items():
                for touch in writes if buffer.data is root else ():
                    writer[_units(touch, _size(buffer) // unit)] = touch.iterations[:, None]
                    written_at.append(touch.at)
            for buffer, reads in self.reads.items():
                for touch in reads if buffer.data is root else ():
                    owner = writer[_units(touch, _size(buffer) // unit)]
                    bad = np.argwhere((owner >= 0) & (owner != touch.iterations[:, None]))
                    if len(bad):
                        first, part = (int(k) for k in bad[0])
                        writing = int(owner[first, part])
                        raise self._race(buffer, touch, first, writing, written_at[0], sizes(buffer), where)

    def _race(
        self,
        buffer: Buffer,
        touch: Touch,
        first: int,
        writing: int,
        written_at: Loc | None,
        shape: tuple[int, ...],
        where: str,
    ) -> SyncError:
        place = np.unravel_index(int(touch.elements[first]), shape)
        element = ", ".join(str(int(p)) for p in place)
        reader, other = self.text(int(touch.iterations[first])), self.text(writing)
        return SyncError(
            "TB430",
            f"{buffer.name}[{element}] is read by {reader} and written by {other} of one T.Parallel, {where}",
            at=touch.at,
            why="iterations run in no order, so the old or the new value may be read",
            fix=f"write to another buffer than {buffer.name}, or split the loop in two",
            notes=[(written_at, "written here")] if written_at is not touch.at else (),
        )


def _size(buffer: Buffer) -> int:
    return buffer.dtype.storage_dtype.itemsize


def _units(touch: Touch, each: int) -> np.ndarray:
    """The units of storage of each element, [elements, each]."""
    return touch.elements.reshape(-1, 1) * each + np.arange(each)
