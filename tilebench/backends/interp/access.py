"""Loads, stores and atomic updates of elements.

An access whose indices are plain loop variables is a slice; every other one is a gather or scatter with
bounds checked for the active elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilebench.backends.interp.arithmetic import Value, settle
from tilebench.backends.interp.private import Private
from tilebench.backends.interp.state import Plan
from tilebench.backends.interp.storage import Cell
from tilebench.errors import SyncError
from tilebench.ir.dtype import DType
from tilebench.ir.expr import Expr, Load, Var
from tilebench.ir.simplify import Linear, from_linear, linear
from tilebench.ir.tile import Buffer


class Access(Private):
    """Accesses of tensors, shared memory and fragments, element by element."""

    def _plan(self, node: Any, indices: Sequence[Expr]) -> Plan | None:
        """Each index as (Parallel variable or None) + rest, when every variable stands in one index with
        factor 1."""
        known = self.plans.get(id(node))
        if known is not None:
            return known[1]
        plan = self._make_plan(indices)
        self.plans[id(node)] = (node, plan)
        return plan

    def _make_plan(self, indices: Sequence[Expr]) -> Plan | None:
        parts: list[tuple[Var | None, Expr]] = []
        seen: set[Var] = set()
        for index in indices:
            form = linear(index)
            loops = [t for t, _ in form.terms if isinstance(t, Var) and t in self.parallel]
            if not loops:
                parts.append((None, index))
                continue
            var = loops[0]
            if len(loops) > 1 or form.coefficient(var) != 1 or var in seen:
                return None
            seen.add(var)
            rest = Linear(tuple((t, c) for t, c in form.terms if t is not var), form.constant)
            parts.append((var, from_linear(rest)))
        return tuple(parts)

    def _slices(self, plan: Plan, shape: tuple[int, ...]) -> tuple[tuple[Any, ...], list[int]] | None:
        """Slices of the buffer and the axes that they run along; None when an index varies otherwise or
        leaves the buffer."""
        slices: list[Any] = []
        axes: list[int] = []
        for (var, rest), size in zip(plan, shape, strict=True):
            start = self.evaluate(rest)
            if np.ndim(start):
                return None
            low = int(start)
            if var is None:
                if not 0 <= low < size:
                    return None
                slices.append(low)
                continue
            axis = self.parallel[var]
            if low < 0 or low + self.axes[axis] > size:
                return None
            slices.append(slice(low, low + self.axes[axis]))
            axes.append(axis)
        return tuple(slices), axes

    def _aligned(self, part: np.ndarray, axes: list[int]) -> np.ndarray:
        """An array whose dimensions run along `axes`, with its dimensions in the order of all axes."""
        order = sorted(range(len(axes)), key=axes.__getitem__)
        if order != list(range(len(axes))):
            part = part.transpose(order)
        shape = [1] * len(self.axes)
        for axis in axes:
            shape[axis] = self.axes[axis]
        return part.reshape(shape)

    def load(self, e: Load) -> Value:
        """An element for each active thread and iteration."""
        cell, data = self.array(e.buffer)
        if cell.lead:
            return self.load_private(e, cell, data)
        plan = self._plan(e, e.indices)
        cut = self._slices(plan, data.shape) if plan is not None else None
        if cut is not None:
            slices, axes = cut
            part = data[slices]
            if cell.valid is not None:
                self._check_valid(e, cell, slices, axes)
            if self.iterations is not None:
                self._note(e.buffer, self._numbers(data.shape, slices, axes), False)
            if (sharing := cell.seen_by(e.buffer, data.shape)) is not None:
                sharing.read(slices, self._where(axes), self.coordinates, self.statement)
            if not axes:
                return np.asarray(cell.values(np.asarray(part), e.dtype))[()]
            return cell.values(self._aligned(part, axes), e.dtype)
        indices = self.checked_indices(e.buffer, e.indices, data.shape, e.loc)
        if cell.valid is not None:
            self._check_gathered(e, cell, indices)
        if self.iterations is not None:
            self._note(e.buffer, self._flat(data.shape, indices), False)
        if (sharing := cell.seen_by(e.buffer, data.shape)) is not None:
            sharing.read(self._chosen(indices), True, self.coordinates, self.statement)
        return np.asarray(cell.values(data[tuple(indices)], e.dtype))[()]

    # -------------------------------------------------------------- stores

    def store(self, node: Any, buffer: Buffer, indices: Sequence[Expr], value: Value) -> None:
        """Write `value` for each active thread and iteration. Raises SyncError TB430 when two write different
        values to one place."""
        cell, data = self.array(buffer)
        if cell.lead:
            self.store_private(
                buffer,
                self.checked_indices(buffer, indices, data.shape[cell.lead :], node.loc),
                value,
                node.loc,
            )
            return
        plan = self._plan(node, indices)
        cut = self._slices(plan, data.shape) if plan is not None else None
        if cut is not None and self._store_slice(buffer, cell, data, cut, value):
            return
        self._scatter(
            node, buffer, cell, data, self.checked_indices(buffer, indices, data.shape, node.loc), value
        )

    def _store_slice(
        self,
        buffer: Buffer,
        cell: Cell,
        data: np.ndarray,
        cut: tuple[tuple[Any, ...], list[int]],
        value: Value,
    ) -> bool:
        slices, axes = cut
        mask = self.mask
        for varying in (value, mask):
            if varying is not None and any(
                n != 1 and axis not in axes for axis, n in enumerate(np.shape(varying))
            ):
                return False  # more than one value for an element
        part = data[slices] if axes else data[(*slices, ...)]
        new = self._to_part(np.asarray(value), axes)
        where: Any = True if mask is None else self._to_part(mask, axes)
        stored = cell.stored(new, buffer.dtype)
        if self.iterations is not None:
            self._note(buffer, self._numbers(data.shape, slices, axes), True)
        if (sharing := cell.seen_by(buffer, data.shape)) is not None:
            place = slices if axes else (*slices, ...)
            sharing.write(place, where, self.coordinates, self.statement, part != stored)
        np.copyto(part, stored, where=where)
        valid = self.validity(buffer, cell)
        if valid is not None:
            np.copyto(valid[slices] if axes else valid[(*slices, ...)], True, where=where)
        return True

    def _to_part(self, value: np.ndarray, axes: list[int]) -> np.ndarray:
        """A value over all axes with its dimensions in the order of a buffer's slices."""
        if value.ndim == 0:
            return value
        rest = [a for a in range(value.ndim) if a not in axes]
        return value.transpose(*axes, *rest).reshape([value.shape[a] for a in axes])

    def _scatter(
        self, node: Any, buffer: Buffer, cell: Cell, data: np.ndarray, indices: list[Value], value: Value
    ) -> None:
        mask = self.mask
        if self.iterations is not None:
            self._note(buffer, self._flat(data.shape, indices), True)
        shape = np.broadcast_shapes(
            *(np.shape(i) for i in indices), np.shape(value), np.shape(mask) if mask is not None else ()
        )
        full = [np.broadcast_to(i, shape) for i in indices]
        values = np.broadcast_to(cell.stored(np.asarray(value), buffer.dtype), shape)
        if mask is not None:
            chosen = np.broadcast_to(mask, shape)
            where = np.nonzero(chosen)
            full, values = [i[chosen] for i in full], values[chosen]
        else:
            where = None
            full, values = [i.ravel() for i in full], values.ravel()
        if values.size > 1:
            self._refuse_conflicts(node, buffer, full, values, data.shape, shape, where)
        if (sharing := cell.seen_by(buffer, data.shape)) is not None:
            place = tuple(full)
            sharing.write(place, True, self.coordinates, self.statement, data[place] != values)
        data[tuple(full)] = values
        valid = self.validity(buffer, cell)
        if valid is not None:
            valid[tuple(full)] = True

    def _note(self, buffer: Buffer, elements: Value, is_write: bool) -> None:
        """Tell the nest under way which elements its iterations touch."""
        assert self.iterations is not None
        extents = self.iterations.extents
        inner = (1,) * (len(self.axes) - 1 - len(extents))
        numbers = np.arange(math.prod(extents)).reshape(1, *extents, *inner)
        mask = np.ones((), bool) if self.mask is None else self.mask
        at = getattr(self.statement, "loc", None)
        self.iterations.note(buffer, elements, numbers, mask, is_write, at)

    def _flat(self, shape: tuple[int, ...], indices: list[Value]) -> Value:
        """Flat element numbers of index values."""
        flat: Value = np.zeros((), np.int64)
        for index, size in zip(indices, shape, strict=True):
            flat = flat * size + index
        return flat

    def _numbers(self, shape: tuple[int, ...], slices: tuple[Any, ...], axes: list[int]) -> Value:
        """Flat element numbers of a slice, over all axes."""
        indices: list[Value] = []
        for d, (part, size) in enumerate(zip(slices, shape, strict=True)):
            numbers = np.atleast_1d(np.arange(size)[part])
            indices.append(numbers.reshape([-1 if d == n else 1 for n in range(len(slices))]))
        flat = self._flat(shape, indices)
        kept = flat[tuple(slice(None) if isinstance(part, slice) else 0 for part in slices)]
        return self._aligned(kept, axes) if axes else kept

    def _where(self, axes: list[int]) -> Any:
        """The mask over the dimensions of a slice along `axes`: where some iteration is active."""
        if self.mask is None:
            return True
        rest = tuple(a for a in range(self.mask.ndim) if a not in axes)
        return self._to_part(np.asarray(self.mask.any(axis=rest, keepdims=True)), axes)

    def _chosen(self, indices: list[Value]) -> tuple[np.ndarray, ...]:
        """Indices of the active elements, flat."""
        mask = np.ones((), bool) if self.mask is None else self.mask
        shape = np.broadcast_shapes(*(np.shape(i) for i in indices), np.shape(mask))
        chosen = np.broadcast_to(mask, shape)
        return tuple(np.broadcast_to(i, shape)[chosen] for i in indices)

    def _refuse_conflicts(
        self,
        node: Any,
        buffer: Buffer,
        full: list[np.ndarray],
        values: np.ndarray,
        extents: tuple[int, ...],
        shape: tuple[int, ...],
        where: tuple[np.ndarray, ...] | None,
    ) -> None:
        flat = (
            np.ravel_multi_index(tuple(i.astype(np.intp) for i in full), extents)
            if full
            else np.zeros(values.size, np.intp)
        )
        order = np.argsort(flat, kind="stable")
        same = flat[order][1:] == flat[order][:-1]
        if not same.any():
            return
        bits = np.ascontiguousarray(values).view(np.dtype((np.void, values.dtype.itemsize)))
        differ = same & (bits[order][1:] != bits[order][:-1])
        if not differ.any():
            return
        at = int(np.nonzero(differ)[0][0])
        pair = (int(order[at]), int(order[at + 1]))
        element = ", ".join(str(int(i[pair[0]])) for i in full)
        sides = [self._place_text(p, shape, where) for p in pair]
        raise SyncError(
            "TB430",
            f"{buffer.name}[{element}] is written by {sides[0]} with {values[pair[0]]} and by {sides[1]} "
            f"with {values[pair[1]]}, "
            f"{self.where()}",
            at=node.loc,
            why="iterations of T.Parallel and threads run in no order, so either value may remain",
            fix=f"give each its own element of {buffer.name}, or combine them: T.atomic_add, T.reduce_sum",
        )

    def _place_text(self, number: int, shape: tuple[int, ...], where: tuple[np.ndarray, ...] | None) -> str:
        place = (
            [int(w[number]) for w in where]
            if where is not None
            else [int(p) for p in np.unravel_index(number, shape)]
        )
        parts = [f"thread {place[0]}"] if shape and shape[0] > 1 else []
        parts += [f"{v.name}={place[a]}" for v, a in self.parallel.items() if a < len(shape) and shape[a] > 1]
        return ", ".join(parts) or "one iteration"

    # -------------------------------------------------------------- atomics

    def atomic(
        self, node: Any, buffer: Buffer, indices: Sequence[Expr], value: Value, op: str, wants_old: bool
    ) -> Value | None:
        """op= for each active thread and iteration, one after the other; the old values when asked for."""
        cell, data = self.array(buffer)
        places = self.checked_indices(buffer, indices, data.shape[cell.lead :], node.loc)
        mask = self.mask
        shape = np.broadcast_shapes(
            *(np.shape(i) for i in places), np.shape(value), np.shape(mask) if mask is not None else ()
        )
        chosen = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
        full = tuple(np.broadcast_to(i, shape)[chosen].astype(np.intp) for i in places)
        values = np.asarray(np.broadcast_to(value, shape)[chosen])
        if (sharing := cell.seen_by(buffer, data.shape)) is not None:
            sharing.atomic(full)
        if not wants_old and op != "exch" and buffer.dtype.storage_dtype == buffer.dtype.compute_dtype:
            _ATOMIC[op].at(data, full, values)
            old = None
        else:
            old = self._one_by_one(cell, data, buffer.dtype, full, values, op)
        valid = self.validity(buffer, cell)
        if valid is not None:
            valid[full] = True
        if not wants_old:
            return None
        assert old is not None
        out = np.zeros(shape, buffer.dtype.compute_dtype)
        out[chosen] = old
        return out[()]

    def _one_by_one(
        self,
        cell: Cell,
        data: np.ndarray,
        dtype: DType,
        full: tuple[np.ndarray, ...],
        values: np.ndarray,
        op: str,
    ) -> np.ndarray:
        """Rounds in which each element is touched at most once."""
        flat = np.ravel_multi_index(full, data.shape) if full else np.zeros(values.size, np.intp)
        order = np.argsort(flat, kind="stable")
        ordered = flat[order]
        starts = np.r_[True, ordered[1:] != ordered[:-1]] if ordered.size else np.zeros(0, bool)
        first = (
            np.maximum.accumulate(np.where(starts, np.arange(ordered.size), 0))
            if ordered.size
            else np.zeros(0, np.intp)
        )
        rank = np.empty(ordered.size, np.intp)
        rank[order] = np.arange(ordered.size) - first
        old = np.zeros(values.shape, dtype.compute_dtype)
        for r in range(int(rank.max()) + 1 if rank.size else 0):
            now = rank == r
            place = tuple(i[now] for i in full)
            before = np.asarray(cell.values(data[place], dtype))
            old[now] = before
            after = values[now] if op == "exch" else _ATOMIC[op](before, values[now].astype(before.dtype))
            data[place] = cell.stored(np.asarray(settle(after, dtype)), dtype)
        return old

    def _check_valid(self, e: Load, cell: Cell, slices: tuple[Any, ...], axes: list[int]) -> None:
        valid = self.validity(e.buffer, cell)
        if valid is None:
            return
        part = valid[slices]
        if np.all(part):
            return
        bad = ~self._aligned(np.asarray(part), axes) if axes else ~np.asarray(part)
        self.refuse_invalid(e, bad)

    def _check_gathered(self, e: Load, cell: Cell, indices: list[Value]) -> None:
        valid = self.validity(e.buffer, cell)
        if valid is not None:
            self.refuse_invalid(e, ~np.asarray(valid[tuple(indices)]))


_ATOMIC: dict[str, np.ufunc] = {
    "add": np.add,
    "max": np.fmax,
    "min": np.fmin,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
