"""One block of a kernel: expressions and memory accesses over the axes (threads, iterations of Parallel loops).

A value is a NumPy scalar, or an array with one axis for the threads and one for each surrounding Parallel variable, of size 1
where it does not vary. `mask` says which of them are active (None: all). An access whose indices are plain loop variables is a
slice; every other one is a gather or scatter with bounds checked for the active elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilebench.backends.interp import warp
from tilebench.backends.interp.arithmetic import (
    BINARY,
    DIVISIONS,
    SHIFTS,
    Value,
    constant,
    convert,
    intrinsic,
    settle,
)  # fmt: skip
from tilebench.backends.interp.storage import Cell, poison, root_of, viewed
from tilebench.errors import InternalError, Loc, SyncError, TypeTileError
from tilebench.ir.dtype import DType
from tilebench.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from tilebench.ir.intrinsics import INTRINSICS
from tilebench.ir.simplify import Linear, from_linear, linear
from tilebench.ir.tile import Buffer, Region

Mask = np.ndarray | None
Plan = tuple[tuple[Var | None, Expr], ...]


class Block:
    """Values of one block. axes: sizes of the thread axis and of each Parallel variable in force, outermost first."""

    def __init__(
        self,
        threads: int,
        cells: dict[Buffer, Cell],
        env: dict[Var, Value],
        coordinates: tuple[int, ...],
        raw: frozenset[Buffer],
        safe: dict[Buffer, Value],
        check_init: bool,
        plans: dict[int, tuple[Any, Plan | None]],
    ) -> None:
        self.threads = threads
        self.axes: list[int] = [threads]
        self.parallel: dict[Var, int] = {}
        self.mask: Mask = None
        self.cells = cells
        self.env: dict[Var, tuple[Value, int]] = {v: (x, 1) for v, x in env.items()}
        self.coordinates = coordinates
        self.raw, self.safe, self.check_init = raw, safe, check_init
        self.plans = plans
        self._constants: dict[int, Value] = {}
        self.statement: Any = None  # the statement under way, for reports of races between blocks
        self.in_atomic = False

    # -------------------------------------------------------------- axes

    def iota(self, axis: int, dtype: DType) -> np.ndarray:
        """0, 1, ... along one axis."""
        shape = [1] * len(self.axes)
        shape[axis] = self.axes[axis]
        return np.arange(self.axes[axis], dtype=dtype.compute_dtype).reshape(shape)

    def pad(self, value: Value, made_under: int) -> Value:
        """A value made under fewer axes, with axes of size 1 appended."""
        missing = len(self.axes) - made_under
        if missing and np.ndim(value):
            return value.reshape(value.shape + (1,) * missing)
        return value

    def bind(self, var: Var, value: Value) -> None:
        """Give a variable its value."""
        if isinstance(value, np.ndarray) and value.base is not None:
            value = value.copy()  # a slice of a buffer that may be written later
        self.env[var] = (value, len(self.axes))

    def active(self, extra: Value | None = None) -> Mask:
        """The mask, also cut by `extra`."""
        if extra is None:
            return self.mask
        if self.mask is None:
            return np.asarray(extra)
        return self.mask & extra

    # -------------------------------------------------------------- expressions

    def evaluate(self, e: Expr) -> Value:
        """The value of an expression (see the module's head)."""
        kind = type(e)
        if kind is Const:
            value = self._constants.get(id(e))
            if value is None:
                assert isinstance(e, Const)
                value = self._constants[id(e)] = constant(e.value, e.dtype)
            return value
        if kind is Var:
            assert isinstance(e, Var)
            if e not in self.env:
                raise InternalError("TB902", f"the variable {e.name} has no value here", at=e.loc)
            value, made_under = self.env[e]
            return value if made_under == len(self.axes) else self.pad(value, made_under)
        match e:
            case Load():
                return self.load(e)
            case Binary():
                return self._binary(e)
            case Cast():
                return convert(self.evaluate(e.value), e.value.dtype, e.dtype)
            case Unary():
                return self._unary(e)
            case Select():
                return self._select(e)
            case Call():
                return self._call(e)
            case _:
                raise InternalError(
                    "TB902", f"{type(e).__name__} is no expression that interp knows", at=e.loc
                )

    def _unary(self, e: Unary) -> Value:
        value = self.evaluate(e.value)
        if e.op == "neg":
            return settle(-value, e.dtype)
        return np.logical_not(value) if e.op == "not" else np.invert(value)

    def _binary(self, e: Binary) -> Value:
        a = self.evaluate(e.left)
        if e.op in ("and", "or"):
            return self._logical(e, a)
        b = self.evaluate(e.right)
        if not e.dtype.is_float:
            if e.op in DIVISIONS:
                b = self._nonzero(e, b)
            elif e.op in SHIFTS:
                b = self._shift(e, b)
        out = BINARY[e.op](a, b)
        return out if e.dtype.kind == "bool" else settle(out, e.dtype)

    def _bad(self, bad: Value) -> Value | None:
        """`bad` among the active elements, None when there is none."""
        if not np.any(bad):
            return None
        if self.mask is None:
            return bad
        here = bad & self.mask
        return here if np.any(here) else None

    def _nonzero(self, e: Binary, divisor: Value) -> Value:
        zero = divisor == 0
        bad = self._bad(zero)
        if bad is not None:
            raise TypeTileError(
                "TB263",
                f"integer {'division' if e.op.endswith('div') else 'remainder'} by zero, {self.where(bad)}",
                at=e.loc,
                why="an integer has no quotient by 0",
                fix="guard the division: T.if_then_else(d != 0, x // d, 0)",
            )
        return np.where(zero, divisor.dtype.type(1), divisor) if np.any(zero) else divisor

    def _shift(self, e: Binary, amount: Value) -> Value:
        wrong = (amount < 0) | (amount >= e.dtype.bits)
        bad = self._bad(wrong)
        if bad is not None:
            value = np.broadcast_to(amount, np.shape(bad))[np.nonzero(bad)][0] if np.ndim(bad) else amount
            raise TypeTileError(
                "TB264",
                f"a shift of {e.dtype} by {value}, {self.where(bad)}",
                at=e.loc,
                why=f"{e.dtype} has {e.dtype.bits} bits, so it can be shifted by 0 to {e.dtype.bits - 1}",
                fix="keep the shift below the width, or cast to a wider type",
            )
        return np.where(wrong, amount.dtype.type(0), amount) if np.any(wrong) else amount

    def _logical(self, e: Binary, a: Value) -> Value:
        """`and`, `or`: the right side is evaluated only where the left one leaves it open."""
        if np.ndim(a) == 0:
            if bool(a) == (e.op == "or"):
                return a
            return self.evaluate(e.right)
        b = self._under(a if e.op == "and" else ~a, e.right)
        return BINARY[e.op](a, b)

    def _under(self, condition: Value, e: Expr) -> Value:
        saved, self.mask = self.mask, self.active(condition)
        try:
            return self.evaluate(e)
        finally:
            self.mask = saved

    def _select(self, e: Select) -> Value:
        condition = self.evaluate(e.condition)
        if np.ndim(condition) == 0:
            return self.evaluate(e.then if condition else e.orelse)
        if condition.all():
            return self.evaluate(e.then)
        then = self._under(condition, e.then)
        orelse = self._under(~condition, e.orelse)
        return np.where(condition, then, orelse)

    def _call(self, e: Call) -> Value:
        row = INTRINSICS.get(e.name)
        if row is None:
            raise InternalError("TB902", f"the intrinsic {e.name} is not in ir/intrinsics.py", at=e.loc)
        args = [self.evaluate(a) for a in e.args]
        if row.per_thread and e.name != "dp4a":
            return warp.call(e.name, args, self.threads, len(self.axes), self.mask)
        return intrinsic(e.name, args, e.args[0].dtype if e.args else e.dtype, e.dtype)

    def uniform_int(self, e: Expr) -> int | None:
        """The int that an expression is for all threads and iterations, None when it varies."""
        value = self.evaluate(e)
        if np.ndim(value):
            if value.size != 1 and (value != value.flat[0]).any():
                return None
            value = value.flat[0]
        return int(value)

    # -------------------------------------------------------------- memory

    def cell(self, buffer: Buffer) -> Cell:
        """The storage behind a buffer, made at first use."""
        root = root_of(buffer)
        found = self.cells.get(root)
        if found is None:
            raw = root in self.raw
            private = root.scope in ("local", "var")
            shape = ((1,) if private else ()) + root.static_shape
            valid = np.zeros(shape, bool) if self.check_init else None
            found = self.cells[root] = Cell(
                poison(shape, root.dtype, raw), root.dtype, raw, int(private), valid
            )
        return found

    def array(self, buffer: Buffer) -> tuple[Cell, np.ndarray]:
        """The cell and its data as `buffer` sees it."""
        cell = self.cell(buffer)
        return cell, viewed(cell.data, buffer, cell.lead) if buffer.view_of is not None else cell.data

    def spread(self, buffer: Buffer) -> Cell:
        """The cell of a private buffer with one copy for each thread."""
        cell = self.cell(buffer)
        if cell.data.shape[0] != self.threads:
            repeat = (self.threads,) + (1,) * (cell.data.ndim - 1)
            cell.data = np.tile(cell.data, repeat)
            if cell.valid is not None:
                cell.valid = np.tile(cell.valid, repeat)
        return cell

    def _validity(self, buffer: Buffer, cell: Cell) -> np.ndarray | None:
        if cell.valid is None or (buffer.view_of is not None and buffer.dtype != cell.dtype):
            return None
        return viewed(cell.valid, buffer, cell.lead) if buffer.view_of is not None else cell.valid

    def _plan(self, node: Any, indices: Sequence[Expr]) -> Plan | None:
        """Each index as (Parallel variable or None) + rest, when every variable stands in one index with factor 1."""
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
        """Slices of the buffer and the axes that they run along; None when an index varies otherwise or leaves the buffer."""
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
            return self._load_private(e, cell, data)
        plan = self._plan(e, e.indices)
        cut = self._slices(plan, data.shape) if plan is not None else None
        if cut is not None:
            slices, axes = cut
            part = data[slices]
            if cell.valid is not None:
                self._check_valid(e, cell, slices, axes)
            if cell.sharing is not None:
                cell.sharing.read(slices, self._where(axes), self.coordinates, self.statement)
            if not axes:
                return np.asarray(cell.values(np.asarray(part), e.dtype))[()]
            return cell.values(self._aligned(part, axes), e.dtype)
        indices = self._indices(e.buffer, e.indices, data.shape, e.loc)
        if cell.valid is not None:
            self._check_gathered(e, cell, indices)
        if cell.sharing is not None:
            cell.sharing.read(self._chosen(indices), True, self.coordinates, self.statement)
        return np.asarray(cell.values(data[tuple(indices)], e.dtype))[()]

    def _indices(
        self, buffer: Buffer, indices: Sequence[Expr], shape: tuple[int, ...], at: Loc | None, offset: int = 0
    ) -> list[Value]:
        """Index values, checked where active and set to 0 elsewhere."""
        values = [self.evaluate(i) for i in indices]
        checked: list[Value] = []
        for value, size in zip(values, shape, strict=True):
            outside = (value < 0) | (value >= size)
            if np.any(outside):
                bad = self._bad(outside)
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
            fix="guard it (if, T.if_then_else), or move the tile with T.copy, which clips at the ends of tensors",
        )

    def where(self, bad: Value | None = None) -> str:
        """'block (7, 0, 0), thread 3, i=104' for the first place where `bad` holds."""
        parts = [f"block ({', '.join(map(str, self.coordinates))})"]
        if bad is not None and np.ndim(bad):
            place = [c[0] for c in np.nonzero(bad)]
            if np.shape(bad)[0] > 1:
                parts.append(f"thread {place[0]}")
            for var, axis in self.parallel.items():
                if np.shape(bad)[axis] > 1 or self.axes[axis] == 1:
                    parts.append(f"{var.name}={place[axis]}")
        return ", ".join(parts)

    # -------------------------------------------------------------- private buffers

    def _private_index(self, cell: Cell, indices: list[Value]) -> tuple[Any, ...]:
        lead: list[Any] = []
        for axis in range(cell.lead):
            if cell.data.shape[axis] == 1:
                lead.append(np.zeros((1,) * len(self.axes), np.intp))
            else:
                shape = [1] * len(self.axes)
                shape[axis] = cell.data.shape[axis]
                lead.append(np.arange(cell.data.shape[axis]).reshape(shape))
        return (*lead, *indices)

    def _load_private(self, e: Load, cell: Cell, data: np.ndarray) -> Value:
        indices = self._indices(e.buffer, e.indices, data.shape[cell.lead :], e.loc)
        valid = self._validity(e.buffer, cell)
        if all(np.ndim(i) == 0 for i in indices):
            place = (..., *(int(i) for i in indices))
            part = data[place]
            if valid is not None:
                self._refuse_invalid(e, ~self.pad(valid[place], cell.lead))
            if part.size == 1:
                return np.asarray(cell.values(part.reshape(()), e.dtype))[()]
            return self.pad(cell.values(part, e.dtype), cell.lead)
        place = self._private_index(cell, indices)
        if valid is not None:
            self._refuse_invalid(e, ~valid[place])
        return cell.values(data[place], e.dtype)

    def _store_private(self, buffer: Buffer, indices: list[Value], value: Value, at: Loc | None) -> None:
        cell = self.cell(buffer)
        lanes = max(
            np.shape(v)[0] if np.ndim(v) else 1
            for v in (value, *indices, *([] if self.mask is None else [self.mask]))
        )
        if lanes > 1:
            cell = self.spread(buffer)
        data = viewed(cell.data, buffer, cell.lead)
        new = cell.stored(np.asarray(value), buffer.dtype)
        valid = self._validity(buffer, cell)
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

    # -------------------------------------------------------------- stores

    def store(self, node: Any, buffer: Buffer, indices: Sequence[Expr], value: Value) -> None:
        """Write `value` for each active thread and iteration. Raises SyncError TB430 when two write different values to one place."""
        cell, data = self.array(buffer)
        if cell.lead:
            self._store_private(
                buffer, self._indices(buffer, indices, data.shape[cell.lead :], node.loc), value, node.loc
            )
            return
        plan = self._plan(node, indices)
        cut = self._slices(plan, data.shape) if plan is not None else None
        if cut is not None and self._store_slice(buffer, cell, data, cut, value):
            return
        self._scatter(node, buffer, cell, data, self._indices(buffer, indices, data.shape, node.loc), value)

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
        if cell.sharing is not None:
            place = slices if axes else (*slices, ...)
            cell.sharing.write(place, where, self.coordinates, self.statement, part != stored)
        np.copyto(part, stored, where=where)
        valid = self._validity(buffer, cell)
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
        if cell.sharing is not None:
            place = tuple(full)
            cell.sharing.write(place, True, self.coordinates, self.statement, data[place] != values)
        data[tuple(full)] = values
        valid = self._validity(buffer, cell)
        if valid is not None:
            valid[tuple(full)] = True

    def _where(self, axes: list[int]) -> Any:
        """The mask over the dimensions of a slice along `axes`: where some iteration is active."""
        if self.mask is None:
            return True
        rest = tuple(a for a in range(self.mask.ndim) if a not in axes)
        return self._to_part(self.mask.any(axis=rest, keepdims=True), axes)

    def _chosen(self, indices: list[Value]) -> tuple[np.ndarray, ...]:
        """Indices of the active elements, flat."""
        mask = np.bool_(True) if self.mask is None else self.mask
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
            f"{buffer.name}[{element}] is written by {sides[0]} with {values[pair[0]]} and by {sides[1]} with {values[pair[1]]}, "
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
        places = self._indices(buffer, indices, data.shape[cell.lead :], node.loc)
        mask = self.mask
        shape = np.broadcast_shapes(
            *(np.shape(i) for i in places), np.shape(value), np.shape(mask) if mask is not None else ()
        )
        chosen = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
        full = tuple(np.broadcast_to(i, shape)[chosen].astype(np.intp) for i in places)
        values = np.asarray(np.broadcast_to(value, shape)[chosen])
        if cell.sharing is not None:
            cell.sharing.atomic(full)
        if not wants_old and op != "exch" and buffer.dtype.storage_dtype == buffer.dtype.compute_dtype:
            _ATOMIC[op].at(data, full, values)
            old = None
        else:
            old = self._one_by_one(cell, data, buffer.dtype, full, values, op)
        valid = self._validity(buffer, cell)
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

    # -------------------------------------------------------------- regions (tile ops)

    def box(self, region: Region, lane: int | None) -> list[tuple[int, int]]:
        """(start, extent) in each dimension, for one thread when offsets differ between threads."""
        out: list[tuple[int, int]] = []
        for offset, extent in zip(region.offsets, region.extents, strict=True):
            value = self.evaluate(offset)
            if np.ndim(value):
                value = value.reshape(value.shape[0])[lane if lane is not None and value.shape[0] > 1 else 0]
            out.append((int(value), extent))
        return out

    def _clipped(
        self, region: Region, lane: int | None, shape: tuple[int, ...]
    ) -> tuple[tuple[slice, ...], tuple[slice, ...], bool]:
        """Slices of the buffer, the slices of the tile they fill, and whether the tile is all inside."""
        inside: list[slice] = []
        filled: list[slice] = []
        complete = True
        for dim, ((start, extent), size) in enumerate(zip(self.box(region, lane), shape, strict=True)):
            low, high = max(start, 0), min(start + extent, size)
            if low != start or high != start + extent:
                complete = False
                if region.buffer.scope != "global":
                    raise TypeTileError(
                        "TB273",
                        f"{region.buffer.name}: {start} to {start + extent - 1} is out of 0..{size - 1} in dimension {dim}, {self.where()}",
                        at=region.loc,
                        why=f"a {region.buffer.scope} buffer has no elements outside (only global tensors are clipped)",
                        fix="keep the tile inside the buffer",
                    )
            high = max(high, low)
            if low >= size or high <= 0:
                low = high = 0
            inside.append(slice(low, high))
            filled.append(slice(low - start, high - start) if high > low else slice(0, 0))
        return tuple(inside), tuple(filled), complete

    def _tile(self, region: Region, lane: int | None) -> tuple[Cell, np.ndarray, np.ndarray | None]:
        """The cell, the region's buffer as an array without leading axes, and its validity."""
        cell, data = self.array(region.buffer)
        valid = self._validity(region.buffer, cell)
        for _ in range(cell.lead):
            pick = lane if lane is not None and data.shape[0] > 1 else 0
            data, valid = data[pick], None if valid is None else valid[pick]
        return cell, data, valid

    def read(self, region: Region, lane: int | None = None) -> np.ndarray:
        """A copy of the region's values, shape region.shape; zeros (or the safe value) outside a global tensor."""
        cell, data, valid = self._tile(region, lane)
        inside, filled, complete = self._clipped(region, lane, data.shape)
        part = cell.values(data[inside], region.dtype)
        if valid is not None and not valid[inside].all():
            first = tuple(
                int(c[0]) + s.start for c, s in zip(np.nonzero(~valid[inside]), inside, strict=True)
            )
            raise self.uninitialised(region.buffer, first, region.loc)
        if cell.sharing is not None and not self.in_atomic:
            cell.sharing.read(inside, True, self.coordinates, self.statement)
        if complete:
            return part.reshape(region.shape).copy()
        fill = self.safe.get(region.buffer, 0)
        out = np.full(region.extents, fill, region.dtype.compute_dtype)
        out[filled] = part
        return out.reshape(region.shape)

    def write(self, region: Region, values: np.ndarray, lane: int | None = None) -> None:
        """Store values (broadcast to region.shape), rounded; outside a global tensor they are dropped."""
        cell = self.cell(region.buffer)
        if cell.lead and lane is None and cell.data.shape[0] > 1:
            for every in range(cell.data.shape[0]):
                self.write(region, values, every)
            return
        cell, data, valid = self._tile(region, lane)
        inside, filled, _ = self._clipped(region, lane, data.shape)
        new = np.broadcast_to(values, region.shape).reshape(region.extents)[filled]
        stored = cell.stored(new, region.dtype)
        if cell.sharing is not None:
            if self.in_atomic:
                cell.sharing.atomic(inside)
            else:
                cell.sharing.write(inside, True, self.coordinates, self.statement, data[inside] != stored)
        data[inside] = stored
        if valid is not None:
            valid[inside] = True

    # -------------------------------------------------------------- uninitialised reads

    def uninitialised(
        self, buffer: Buffer, element: Sequence[int], at: Loc | None, bad: Value | None = None
    ) -> TypeTileError:
        """The error for a read of memory that nobody has written."""
        return TypeTileError(
            "TB274",
            f"{buffer.name}[{', '.join(map(str, element))}] is read before it is written, {self.where(bad)}",
            at=at,
            why=f"a {buffer.scope} buffer holds whatever was there before",
            fix=f"T.clear({buffer.name}) or T.fill first; a gemm adds to C unless clear_accum=True",
        )

    def _check_valid(self, e: Load, cell: Cell, slices: tuple[Any, ...], axes: list[int]) -> None:
        valid = self._validity(e.buffer, cell)
        if valid is None:
            return
        part = valid[slices]
        if np.all(part):
            return
        bad = ~self._aligned(np.asarray(part), axes) if axes else ~np.asarray(part)
        self._refuse_invalid(e, bad)

    def _check_gathered(self, e: Load, cell: Cell, indices: list[Value]) -> None:
        valid = self._validity(e.buffer, cell)
        if valid is not None:
            self._refuse_invalid(e, ~np.asarray(valid[tuple(indices)]))

    def _refuse_invalid(self, e: Load, bad: Value) -> None:
        here = self._bad(bad)
        if here is None:
            return
        place = tuple(c[0] for c in np.nonzero(np.atleast_1d(here)))
        numbers = [self.evaluate(i) for i in e.indices]
        element = [
            int(np.broadcast_to(n, np.shape(here))[place]) if np.ndim(here) else int(np.asarray(n).flat[0])
            for n in numbers
        ]
        raise self.uninitialised(e.buffer, element, e.loc, here)


_ATOMIC: dict[str, np.ufunc] = {
    "add": np.add, "max": np.fmax, "min": np.fmin, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


class View:
    """What `Op.run` sees: the block, and of private buffers one thread's copy (ops/base.py, BlockValues)."""

    def __init__(self, block: Block, lane: int | None = None) -> None:
        self.block, self.lane = block, lane

    def read(self, region: Region) -> np.ndarray:
        """See BlockValues.read."""
        return self.block.read(region, self.lane)

    def write(self, region: Region, values: np.ndarray) -> None:
        """See BlockValues.write."""
        self.block.write(region, values, self.lane)

    def evaluate(self, e: Expr) -> Any:
        """See BlockValues.evaluate."""
        value = self.block.evaluate(e)
        if np.ndim(value) and value.size > 1:
            assert self.lane is not None, "a value of one thread in an op of the block"
            return value.reshape(value.shape[0])[self.lane]
        return value if np.ndim(value) == 0 else value.flat[0]
