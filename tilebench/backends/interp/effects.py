"""Statements with an effect on the outside: barriers, assertions, printing."""

from __future__ import annotations

import numpy as np

from tilebench.backends.interp.block import Block
from tilebench.errors import SyncError, TypeTileError
from tilebench.ir.rewrite import calls
from tilebench.ir.text import print_stmt
from tilebench.ir.tile import Assert, Evaluate, Print, Stmt


class Effects:
    """Effects of the statements of one block."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def everyone(self, s: Stmt, what: str) -> None:
        """Raise SyncError TB410 unless all threads of the block are here."""
        mask = self.block.mask
        if mask is None or mask.all():
            return
        active = (
            np.broadcast_to(mask, (self.block.threads, *mask.shape[1:]))
            .reshape(self.block.threads, -1)
            .any(axis=1)
        )
        waiting = np.nonzero(active)[0]
        missing = np.nonzero(~active)[0]
        raise SyncError(
            "TB410",
            f"{what} that only {len(waiting)} of {self.block.threads} threads reach, {self.block.where()}",
            at=s.loc,
            why=f"threads {_ranges(waiting)} would wait for ever for threads {_ranges(missing)}",
            fix="move it out of the if or loop, so that every thread of the block reaches it",
        )

    def barrier_call(self, s: Evaluate) -> None:
        """Barriers with a vote are for every thread."""
        for c in calls(s):
            if c.name.startswith("syncthreads"):
                self.everyone(s, f"T.{c.name}")

    def check_assertion(self, s: Assert) -> None:
        """Raise TypeTileError TB275 when the condition is false for an active thread."""
        ok = self.block.evaluate(s.condition)
        bad = np.logical_not(ok) if self.block.mask is None else np.logical_not(ok) & self.block.mask
        if np.any(bad):
            raise TypeTileError(
                "TB275",
                f"device_assert failed: {s.message or print_stmt(s).text}, {self.block.where(bad)}",
                at=s.loc,
                why="the condition was false when the kernel ran",
            )

    def print_values(self, s: Print) -> None:
        """Print a buffer once, scalars once for each active thread and iteration where they differ."""
        block = self.block
        head = f"block ({', '.join(map(str, block.coordinates))})"
        message = f"{s.message} " if s.message else ""
        if s.buffer is not None:
            cell, data = block.array(s.buffer)
            print(f"{head}: {message}{s.buffer.name} =\n{cell.values(data, s.buffer.dtype)}")
            return
        values = [block.evaluate(v) for v in s.values]
        if all(np.ndim(v) == 0 for v in values) and block.mask is None:
            print(f"{head}: {message}{' '.join(map(str, values))}")
            return
        masks = [block.mask] if block.mask is not None else []
        shape = np.broadcast_shapes(*(np.shape(v) for v in (*values, *masks)))
        chosen = np.ones(shape, bool) if block.mask is None else np.broadcast_to(block.mask, shape)
        for place in np.argwhere(chosen):
            at = tuple(place)
            threads = f", thread {at[0]}" if shape and shape[0] > 1 else ""
            loops = "".join(f", {v.name}={at[a]}" for v, a in block.parallel.items() if shape[a] > 1)
            print(
                f"{head}{threads}{loops}: "
                f"{message}{' '.join(str(np.broadcast_to(v, shape)[at]) for v in values)}"
            )


def _ranges(numbers: np.ndarray) -> str:
    """'0 to 15, 64' for a rising list of numbers."""
    parts: list[str] = []
    for n in numbers.tolist():
        if parts and int(parts[-1].split(" to ")[-1]) == n - 1:
            parts[-1] = f"{parts[-1].split(' to ')[0]} to {n}"
        else:
            parts.append(str(n))
    return ", ".join(parts[:4]) + (" ..." if len(parts) > 4 else "")
