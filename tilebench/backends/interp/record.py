"""Recording a block in the interpreter: which elements a statement read and wrote, and what it left there.

A `Watch` stands in each cell's place for `Sharing`: the accesses tell it what they touch.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from tilebench.backends.interp.block import Block
from tilebench.backends.recording import Extents, Log, Step, Write, inside_nests, loops_around, slices, union
from tilebench.ir.expr import Var
from tilebench.ir.tile import AtomicRMW, Bind, Buffer, Kernel, Parallel, Stmt, Store, TileOp


class Watch:
    """The accesses of one root buffer since the last step; the methods are those of `Sharing`.

    shape: of the storage that indices count in; coarse: indices may be those of a view, so that only the
    whole is known.
    """

    def __init__(self, shape: tuple[int, ...], coarse: bool) -> None:
        self.shape, self.coarse = shape, coarse
        self.written: list[tuple[Extents, Any, Any]] = []
        self.seen: list[Extents] = []

    def read(self, place: Any, where: Any, block: tuple[int, ...], node: Any) -> None:
        """Elements are read."""
        del where, block, node
        box = self._box(place)
        if box is not None:
            self.seen.append(box)

    def write(self, place: Any, where: Any, block: tuple[int, ...], node: Any, changed: Any) -> None:
        """Elements are written where `where` holds."""
        del block, node, changed
        box = self._box(place)
        if box is not None and np.any(where):
            self.written.append((box, place, where))

    def atomic(self, place: Any) -> None:
        """Elements are updated."""
        self.write(place, True, (), None, True)

    def window(self, view: Buffer, shape: tuple[int, ...]) -> Watch:
        """Itself: it is coarse where there are views."""
        del view, shape
        return self

    def _box(self, place: Any) -> Extents | None:
        if self.coarse:
            return (0,) * len(self.shape), self.shape
        low: list[int] = []
        size: list[int] = []
        parts = [p for p in place if p is not Ellipsis]
        for part, extent in zip(parts, self.shape, strict=True):
            if isinstance(part, slice):
                start, stop, _ = part.indices(extent)
            elif np.ndim(part) == 0:
                start, stop = int(part), int(part) + 1
            elif np.size(part) == 0:
                return None
            else:
                start, stop = int(np.min(part)), int(np.max(part)) + 1
            if stop <= start:
                return None
            low.append(start)
            size.append(stop - start)
        return tuple(low), tuple(size)

    def take(self) -> tuple[Extents | None, np.ndarray | None, Extents | None]:
        """(box written, which of it (None: all), box read) since the last call."""
        written, seen, self.written, self.seen = self.written, self.seen, [], []
        read = union(seen) if seen else None
        if not written:
            return None, None, read
        box = union([b for b, _, _ in written])
        if self.coarse or any(b == box and _everywhere(p, w) for b, p, w in written):
            return box, None, read
        mask = np.zeros(box[1], bool)
        for _, place, where in written:
            at = tuple(
                _shifted(p, o) for p, o in zip((q for q in place if q is not Ellipsis), box[0], strict=True)
            )
            part = np.array(mask[at])
            np.copyto(part, True, where=where)
            mask[at] = part
        return box, None if mask.all() else mask, read


def _everywhere(place: Any, where: Any) -> bool:
    return all(isinstance(p, slice) or p is Ellipsis or np.ndim(p) == 0 for p in place) and bool(
        np.all(where)
    )


def _shifted(part: Any, by: int) -> Any:
    if isinstance(part, slice):
        start, stop, _ = part.indices(1 << 62)
        return slice(start - by, stop - by)
    return part - by


class Recorder:
    """Notes the steps of one block into `log`. Statements inside a Parallel belong to its step."""

    def __init__(self, kernel: Kernel, log: Log) -> None:
        self.log = log
        self.loops = loops_around(kernel.body)
        self.inside = inside_nests(kernel.body)
        self.watches: dict[Buffer, Watch] = {}
        self.private: set[Buffer] = set()
        self.viewed = {b.data for b in kernel.buffers if b.view_of is not None}

    def watch(self, root: Buffer, shape: tuple[int, ...]) -> Any:
        """What a cell has in place of `Sharing`."""
        found = self.watches.get(root)
        if found is None:
            found = self.watches[root] = Watch(shape, root in self.viewed)
        return found

    def observe(self, block: Block, stmt: Stmt, written: tuple[Buffer, ...]) -> None:
        """After a statement (the interpreter's observer)."""
        self.private.update(r for b in written if (r := b.data).scope in ("local", "var"))
        if stmt in self.inside or not isinstance(stmt, TileOp | Store | AtomicRMW | Bind | Parallel):
            return
        writes: list[Write] = []
        reads: list[tuple[Hashable, Extents]] = []
        for root, watch in self.watches.items():
            box, mask, read = watch.take()
            if read is not None:
                reads.append((root, read))
            if box is not None:
                cell = block.cell(root)
                writes.append(
                    Write(root, box, np.array(cell.values(cell.data[slices(box)], root.dtype)), mask)
                )
        for root in self.private:
            if root in block.cells:
                cell = block.cells[root]
                values = np.array(cell.values(cell.data, root.dtype))
                writes.append(Write(root, ((0,) * values.ndim, values.shape), values))
        self.private.clear()
        if isinstance(stmt, Bind):
            value = np.asarray(block.env[stmt.var][0])
            flat = (
                value.reshape(())
                if value.size == 1
                else value.reshape(-1)
                if value.size == block.threads
                else None
            )
            if flat is not None:
                writes.append(Write(stmt.var, ((0,) * flat.ndim, flat.shape), np.array(flat)))
        self.log.add(Step(stmt, self._at(block, stmt), tuple(writes), tuple(reads)))

    def _at(self, block: Block, stmt: Stmt) -> tuple[int, ...]:
        return tuple(_first(block.env[v][0]) if v in block.env else 0 for v in self.loops.get(stmt, ()))


def _first(value: Any) -> int:
    """A loop variable's value; the first thread's where they differ."""
    return int(np.asarray(value).reshape(-1)[0])


def names_of(kernel: Kernel) -> dict[Stmt, tuple[str, ...]]:
    """Names of the loop variables around each statement."""
    return {
        s: tuple(v.name for v in around if isinstance(v, Var))
        for s, around in loops_around(kernel.body).items()
    }
