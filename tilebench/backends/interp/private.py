"""Buffers that each thread, and each iteration of a nest, has for itself: local arrays and scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilebench.backends.interp.arithmetic import Value
from tilebench.backends.interp.state import State
from tilebench.backends.interp.storage import Cell, viewed
from tilebench.errors import Loc, SyncError, TypeTileError
from tilebench.ir.expr import Expr, Load
from tilebench.ir.tile import Buffer


class Private(State):
    """Accesses of local and var buffers, and the index checks that all accesses share."""

    def checked_indices(
        self, buffer: Buffer, indices: Sequence[Expr], shape: tuple[int, ...], at: Loc | None, offset: int = 0
    ) -> list[Value]:
        """Index values, checked where active and set to 0 elsewhere."""
        values = [self.evaluate(i) for i in indices]
        checked: list[Value] = []
        for value, size in zip(values, shape, strict=True):
            outside = (value < 0) | (value >= size)
            if np.any(outside):
                bad = self.bad_among_active(outside)
                if bad is not None:
                    raise self._out_of_bounds(buffer, values, shape, bad, at)
                value = np.where(outside, 0, value)
            checked.append(value)
        return checked

    def _out_of_bounds(
        self, buffer: Buffer, values: list[Value], shape: tuple[int, ...], bad: Value, at: Loc | None
    ) -> TypeTileError:
        place = tuple(c[0] for c in np.nonzero(np.atleast_1d(bad)))
        numbers = [int(np.broadcast_to(v, np.shape(bad))[place]) if np.ndim(bad) else int(v) for v in values]
        dim = next(d for d, (n, size) in enumerate(zip(numbers, shape, strict=True)) if not 0 <= n < size)
        extent = shape[dim]
        element = f"{buffer.name}[{', '.join(map(str, numbers))}]"
        inside = f"0..{extent - 1}" if extent else "an empty tensor"
        where = f" in dimension {dim}" if len(shape) > 1 else ""
        negative = numbers[dim] < 0
        return TypeTileError(
            "TB273",
            f"{element} is out of {inside}{where}, {self.where(bad)}",
            at=at,
            why="a negative index at run time does not count from the end"
            if negative
            else f"{buffer.name} has {extent} elements there",
            fix="guard it (if, T.if_then_else), or move the tile with T.copy, which clips at the ends of "
            "tensors",
        )

    def _private_index(self, cell: Cell, indices: list[Value]) -> tuple[Any, ...]:
        lead: list[Any] = []
        for axis in range(cell.lead):
            if cell.data.shape[axis] == 1:
                lead.append(np.zeros((1,) * len(self.axes), np.intp))
            else:
                shape = [1] * len(self.axes)
                shape[axis] = cell.data.shape[axis]
                numbers = np.arange(int(cell.data.shape[axis]))
                lead.append(numbers.reshape(shape))
        return (*lead, *indices)

    def load_private(self, e: Load, cell: Cell, data: np.ndarray) -> Value:
        """An element of each thread's own copy."""
        indices = self.checked_indices(e.buffer, e.indices, data.shape[cell.lead :], e.loc)
        valid = self.validity(e.buffer, cell)
        if all(np.ndim(i) == 0 for i in indices):
            place = (..., *(int(i) for i in indices))
            part = data[place]
            if valid is not None:
                self.refuse_invalid(e, ~self.pad(valid[place], cell.lead))
            if part.size == 1:
                return np.asarray(cell.values(part.reshape(()), e.dtype))[()]
            return self.pad(cell.values(part, e.dtype), cell.lead)
        place = self._private_index(cell, indices)
        if valid is not None:
            self.refuse_invalid(e, ~valid[place])
        return cell.values(data[place], e.dtype)

    def store_private(self, buffer: Buffer, indices: list[Value], value: Value, at: Loc | None) -> None:
        """Write to the copies of the active threads, which are told apart once they differ."""
        cell = self.cell(buffer)
        lanes = max(
            np.shape(v)[0] if np.ndim(v) else 1
            for v in (value, *indices, *([] if self.mask is None else [self.mask]))
        )
        if lanes > 1:
            cell = self.spread(buffer)
        data = viewed(cell.data, buffer, cell.lead)
        new = cell.stored(np.asarray(value), buffer.dtype)
        valid = self.validity(buffer, cell)
        depth = cell.lead
        if all(np.ndim(i) == 0 for i in indices):
            place = (..., *(int(i) for i in indices))
            part = data[place]
            if new.ndim > depth:
                new = self._fold_axes(buffer, new, depth, at)
            where = True if self.mask is None else self._fold_axes(buffer, self.mask, depth, at)
            np.copyto(part, new, where=where)
            if valid is not None:
                np.copyto(valid[place], True, where=where)
            return
        place = self._private_index(cell, indices)
        shape = np.broadcast_shapes(
            *(np.shape(p) for p in place), np.shape(new), np.shape(self.mask) if self.mask is not None else ()
        )
        full = tuple(np.broadcast_to(p, shape) for p in place)
        values = np.broadcast_to(new, shape)
        if self.mask is not None:
            chosen = np.broadcast_to(self.mask, shape)
            full, values = tuple(p[chosen] for p in full), values[chosen]
        data[full] = values
        if valid is not None:
            valid[full] = True

    def _fold_axes(self, buffer: Buffer, value: np.ndarray, depth: int, at: Loc | None) -> np.ndarray:
        """A value over all axes as one over the first `depth`; the rest must not vary."""
        if value.ndim <= depth:
            return value
        if any(n != 1 for n in value.shape[depth:]):
            raise SyncError(
                "TB413",
                f"{buffer.name} would get a different value in each iteration of T.Parallel",
                at=at,
                why="the iterations run on different threads, in no order",
                fix=f"store to an element of a tile, or use a serial loop for {buffer.name}",
            )
        return value.reshape(value.shape[:depth])

    def refuse_invalid(self, e: Load, bad: Value) -> None:
        """Raise TypeTileError TB274 when an active element is `bad`: read before it was written."""
        here = self.bad_among_active(bad)
        if here is None:
            return
        place = tuple(c[0] for c in np.nonzero(np.atleast_1d(here)))
        numbers = [self.evaluate(i) for i in e.indices]
        element = [
            int(np.broadcast_to(n, np.shape(here))[place]) if np.ndim(here) else int(np.asarray(n).flat[0])
            for n in numbers
        ]
        raise self.uninitialised(e.buffer, element, e.loc, here)
