"""Which block touched which element of a tensor last: races between blocks, and outputs that nobody wrote."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, cast

import numpy as np

from tilebench.errors import Loc, SyncError
from tilebench.ir.tile import Buffer

_STATEMENTS = 1 << 20
ATOMIC = -1


def _each(chosen: Any) -> Any:
    """What holds of elements, for all units of each."""
    return chosen[..., None] if np.ndim(chosen) else chosen


class Sharing:
    """Shadow of one tensor: for each element, the block and statement of its last writer and last reader.

    Blocks run in no order, so an element written by one block may not be read or written by another in the
    same launch. Atomic updates are left out. Two blocks may write the same value.

    unit: bytes of the smallest element that a view of the tensor has; an element is as many of them, which
    are the last dimension of the shadow.
    """

    def __init__(self, buffer: Buffer, shape: tuple[int, ...], unit: int) -> None:
        self.buffer, self.unit = buffer, unit
        self.writer = np.zeros((*shape, buffer.dtype.storage_dtype.itemsize // unit), np.int64)
        self.reader = np.zeros_like(self.writer)
        self._windows: dict[Buffer, Sharing] = {}
        self.statements: dict[Any, int] = {}
        self.locs: list[Loc | None] = []
        self.blocks: list[tuple[int, ...]] = []

    def window(self, view: Buffer, shape: tuple[int, ...]) -> Sharing:
        """The same memory by the elements of a view of this shape."""
        found = self._windows.get(view)
        if found is None:
            found = self._windows[view] = copy(self)
            found.buffer = view
            full = (*shape, view.dtype.storage_dtype.itemsize // self.unit)
            found.writer, found.reader = self.writer.reshape(full), self.reader.reshape(full)
        return found

    def _stamp(self, block: tuple[int, ...], node: Any) -> int:
        if not self.blocks or self.blocks[-1] != block:
            self.blocks.append(block)
        number = self.statements.get(node)
        if number is None:
            number = self.statements[node] = len(self.locs)
            self.locs.append(getattr(node, "loc", None))
        return len(self.blocks) * _STATEMENTS + number

    def read(self, place: Any, where: Any, block: tuple[int, ...], node: Any) -> None:
        """Elements data[place] are read where `where` holds. Raises SyncError TB431."""
        stamp = self._stamp(block, node)
        self._refuse(self.writer, place, where, stamp, "read", "written", None)
        np.copyto(part := np.array(self.reader[place]), stamp, where=_each(where))
        self.reader[place] = part

    def write(self, place: Any, where: Any, block: tuple[int, ...], node: Any, changed: Any) -> None:
        """Elements are written. changed: where the new value differs from the old one. Raises SyncError
        TB431."""
        stamp = self._stamp(block, node)
        self._refuse(self.writer, place, where, stamp, "written", "written", changed)
        self._refuse(self.reader, place, where, stamp, "written", "read", changed)
        np.copyto(part := np.array(self.writer[place]), stamp, where=_each(where))
        self.writer[place] = part

    def atomic(self, place: Any) -> None:
        """Elements are updated atomically."""
        self.writer[place] = ATOMIC

    def _refuse(
        self, shadow: np.ndarray, place: Any, where: Any, stamp: int, now: str, before: str, changed: Any
    ) -> None:
        old = np.asarray(shadow[place])
        other = (old > 0) & (old // _STATEMENTS != stamp // _STATEMENTS) & _each(where)
        if changed is not None:
            other = other & _each(changed)
        if not np.any(other):
            return
        first = tuple(int(c[0]) for c in np.nonzero(other))
        shape = shadow.shape[:-1]
        numbers = cast("tuple[np.ndarray, ...]", np.indices(shape, sparse=True))
        full: list[np.ndarray] = [np.asarray(np.broadcast_to(n, shape)[place]) for n in numbers]
        element = ", ".join(str(int(f[first[:-1]])) for f in full)
        code = int(old[first])
        here, there = self.locs[stamp % _STATEMENTS], self.locs[code % _STATEMENTS]
        mine, its = (", ".join(map(str, self.blocks[c // _STATEMENTS - 1])) for c in (stamp, code))
        raise SyncError(
            "TB431",
            f"{self.buffer.name}[{element}] is {before} by block ({its}) and {now} by block ({mine})",
            at=here,
            why="blocks run in no order, at the same time or one after the other, so the result is a "
            "matter of luck",
            fix="let each block write elements of its own, combine with T.atomic_add, or use a second kernel",
            notes=[(there, f"{before} here by the other block")]
            if there is not None and there is not here
            else (),
        )

    def first_unwritten(self) -> tuple[Sequence[int], int] | None:
        """(index of the first element that no block wrote, how many there are), None when all are written."""
        missing = (self.writer == 0).any(axis=-1)
        count = int(missing.sum())
        return (tuple(int(c[0]) for c in np.nonzero(missing)), count) if count else None
