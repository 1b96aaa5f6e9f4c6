"""What one block holds while it runs: axes, mask, variables, storage.

A value is a NumPy scalar, or an array with one axis for the threads and one for each surrounding Parallel
variable, of size 1 where it does not vary. `mask` says which of them are active (None: all).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilebench.backends.interp.arithmetic import Value
from tilebench.backends.interp.iterations import Iterations
from tilebench.backends.interp.storage import Cell, poison, viewed
from tilebench.errors import Loc, TypeTileError
from tilebench.ir.dtype import DType
from tilebench.ir.expr import Expr, Var
from tilebench.ir.tile import Buffer

Mask = np.ndarray | None
Plan = tuple[tuple[Var | None, Expr], ...]
"""Each index of an access as (Parallel variable or None) + rest."""


class State:
    """Axes, mask, variables and storage of one block.

    axes: sizes, threads first, then the Parallel variables in force.
    """

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
        self.constants: dict[Expr, Value] = {}
        self.statement: Any = None  # the statement under way, for reports of races between blocks
        self.in_atomic = False
        self.watch: Callable[[Buffer, tuple[int, ...]], Any] | None = None  # a recorder's (record.py)
        self.iterations: Iterations | None = (
            None  # accesses of the Parallel nest under way, when races are looked for
        )

    def evaluate(self, e: Expr) -> Value:
        """The value of an expression (block.py)."""
        raise NotImplementedError

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
        if np.ndim(value) and value.base is not None:
            value = value.copy()  # a slice of a buffer that may be written later
        self.env[var] = (value, len(self.axes))

    def active(self, extra: Value | None = None) -> Mask:
        """The mask, also cut by `extra`."""
        if extra is None:
            return self.mask
        if self.mask is None:
            return np.asarray(extra)
        return self.mask & extra

    def bad_among_active(self, bad: Value) -> Value | None:
        """`bad` among the active elements, None when there is none."""
        if not np.any(bad):
            return None
        if self.mask is None:
            return bad
        here = bad & self.mask
        return here if np.any(here) else None

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

    def cell(self, buffer: Buffer) -> Cell:
        """The storage behind a buffer, made at first use."""
        root = buffer.data
        found = self.cells.get(root)
        if found is None:
            raw = root in self.raw
            private = root.scope in ("local", "var")
            shape = ((1,) if private else ()) + root.static_shape
            valid = np.zeros(shape, bool) if self.check_init else None
            watch = self.watch(root, shape) if self.watch is not None and not private else None
            found = self.cells[root] = Cell(
                poison(shape, root.dtype, raw), root.dtype, raw, int(private), valid, watch
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

    def validity(self, buffer: Buffer, cell: Cell) -> np.ndarray | None:
        """Which elements have been written, as `buffer` sees them; None when that is not tracked."""
        if cell.valid is None or (buffer.view_of is not None and buffer.dtype != cell.dtype):
            return None
        return viewed(cell.valid, buffer, cell.lead) if buffer.view_of is not None else cell.valid

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
            notes=[(buffer.loc, f"{buffer.name} is made here")] if buffer.loc is not None else (),
        )
