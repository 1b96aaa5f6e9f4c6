"""The threads of one role in one block: masks, registers, and what they report."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.backends.emulator.arithmetic import poison
from tilebench.backends.emulator.async_copies import CopyQueue
from tilebench.backends.emulator.barriers import StopBlock
from tilebench.backends.emulator.bulk import BulkGroups
from tilebench.backends.emulator.findings import line
from tilebench.backends.emulator.lanes import members
from tilebench.backends.emulator.registers import Validity
from tilebench.backends.emulator.warpgroup import Products

if TYPE_CHECKING:
    from tilebench.backends.emulator.machine import Block
    from tilebench.errors import Loc
    from tilebench.ir.thread import Memory
    from tilebench.ir.thread import Role as RoleSpec

LOOP_LIMIT = 1_000_000  # iterations of data-dependent loops in one block
LOOP_SECONDS = 20.0  # the time after which such loops count as endless


class Role:
    """The threads of one role in one block. `tid`: their numbers in the block, padded to whole warps."""

    def __init__(self, block: Block, spec: RoleSpec) -> None:
        self.block, self.name = block, spec.name
        self.real_threads = spec.threads
        self.threads = -(-spec.threads // 32) * 32
        self.tid = (spec.first_thread + np.arange(self.threads)).astype(np.int32)
        self.lane = np.arange(self.threads) & 31
        self.real = np.arange(self.threads) < spec.threads
        self.padded = self.threads != spec.threads
        self.warps = np.arange(spec.first_thread // 32, (spec.first_thread + self.threads) // 32)
        self.copies = CopyQueue(self)
        self.bulk = BulkGroups(self)
        self.products = Products(self)
        self.iterations = 0
        self.loops_since = 0.0

    def registers(self, memory: Memory) -> np.ndarray:
        """A fresh register array."""
        return poison(memory.dtype, (memory.static_shape[0], self.threads))

    def validity(self, memory: Memory) -> Validity:
        """What is written of a fresh register array."""
        return Validity(memory.static_shape[0], self.threads)

    def finish(self) -> None:
        """The role ends: what is under way lands."""
        self.copies.finish()
        self.bulk.finish()

    def fence_proxy(self, mask: Any) -> None:
        """fence.proxy.async."""
        self.block.clock.fence(*members(self, self.active(mask)))

    def missing(
        self,
        validity: Validity,
        memory: Memory,
        index: Any,
        columns: Any,
        count: int,
        mask: Any,
        at: Loc | None,
    ) -> None:
        """Report a read of registers that were not written."""
        bad = validity.missing(index, columns, count, self.merge(mask))
        if bad is not None:
            self.block.uninitialised_registers(memory, bad, index, self, at)

    def row(self, memory: Memory, index: Any, count: int, mask: Any, at: Loc | None, kind: str) -> Any:
        """A register index that is in range: as it is, or clamped with a finding."""
        limit = memory.static_shape[0] - count
        if isinstance(index, int):
            if 0 <= index <= limit:
                return index
            bad = np.ones(1, dtype=bool)
            if mask is not None:
                bad = bad & np.any(mask)
        else:
            if index.size == 0 or (index.min() >= 0 and index.max() <= limit):
                return index
            bad = (index < 0) | (index > limit)
            if mask is not None:
                each = index.ndim and index.shape[-1] == self.threads
                bad = bad & (mask if each else np.any(mask, axis=-1, keepdims=True))
        if bad.any():
            name = memory.origin.name if memory.origin is not None else memory.name
            key = ("out-of-bounds", name, at)
            if not self.block.machine.findings.known(*key):
                value = (
                    index
                    if isinstance(index, int)
                    else int(index[bad].flat[0] if index.shape == bad.shape else index.flat[0])
                )
                text = f"register {name}[{value}] is {kind}, out of 0..{limit + count - 1}, at {line(at)}"
                text += f" (block {self.block.name})"
                self.block.machine.findings.add(
                    key,
                    "out-of-bounds",
                    "error",
                    text,
                    (at,),
                    "keep the index within the allocation",
                    "TB273",
                )
        return max(0, min(index, limit)) if isinstance(index, int) else np.clip(index, 0, max(limit, 0))

    def merge(self, mask: Any) -> Any:
        """The mask without the threads that only pad the last warp (None: all threads)."""
        if not self.padded:
            return mask
        return self.real if mask is None else mask & self.real

    def active(self, mask: Any) -> np.ndarray | None:
        """Which threads are active [threads], None for all."""
        merged = self.merge(mask)
        if merged is None:
            return None
        merged = np.broadcast_to(merged, (self.threads,))
        return None if not self.padded and merged.all() else merged

    def uniform(self, condition: Any) -> np.ndarray:
        """A condition that is the same in all threads, as a mask."""
        return np.full(self.threads, bool(condition))

    def whole_warps(self, mask: Any, at: Loc | None, what: str) -> Any:
        """The mask of a warp-wide instruction; part of a warp is a finding."""
        if mask is None:
            if self.padded:
                self.block.diverged(
                    f"{what} needs whole warps and the block ends in {self.real_threads % 32} threads", at
                )
            return None
        full = np.broadcast_to(mask, (*np.shape(mask)[:-1], self.threads))
        warps = full.reshape(*full.shape[:-1], -1, 32)
        if (warps.any(axis=-1) != warps.all(axis=-1)).any():
            self.block.diverged(f"{what} is run by part of a warp", at)
        return full

    def sync_warp(self, mask: Any, at: Loc | None) -> None:
        """__syncwarp."""
        active = self.active(mask)
        if active is None:
            self.block.clock.split(self.warps)
            return
        warps = active.reshape(-1, 32)
        if (warps.any(axis=1) & (warps != self.real.reshape(-1, 32)).any(axis=1)).any():
            self.block.diverged("a warp barrier is reached by part of a warp", at)
        if warps.any():
            self.block.clock.split(self.warps[warps.any(axis=1)])

    def tick(self, at: Loc | None) -> None:
        """One iteration of a loop whose end depends on data."""
        self.iterations += 1
        if self.iterations % 1024 != 1:
            return
        now = time.monotonic()
        self.loops_since = self.loops_since or now
        if self.iterations > LOOP_LIMIT or now - self.loops_since > LOOP_SECONDS:
            turns = self.iterations - 1
            text = f"the loop at {line(at)} ran {turns} times without ending (block {self.block.name})"
            key = ("endless", at)
            if not self.block.machine.findings.known(*key):
                self.block.machine.findings.add(
                    key, "endless-loop", "error", text, (at,), "check the condition that ends it", "TB435"
                )
            raise StopBlock(text)

    def divisor(self, divisor: Any, mask: Any, at: Loc | None) -> None:
        """Report an integer division by zero in an active thread."""
        if isinstance(divisor, int):
            if divisor == 0:
                self.block.divided_by_zero(at)
            return
        zero = np.asarray(divisor) == 0
        if zero.any() and (mask is None or bool((zero & mask).any())):
            self.block.divided_by_zero(at)

    def check_assert(self, condition: Any, mask: Any, message: str, at: Loc | None) -> None:
        """Device assertion."""
        bad = ~np.broadcast_to(
            np.asarray(condition, dtype=bool), np.broadcast_shapes(np.shape(condition), (self.threads,))
        )
        merged = self.merge(mask)
        if merged is not None:
            bad = bad & merged
        if bad.any():
            self.block.assertion(message, int(self.tid[int(np.argwhere(bad)[0][-1])]), at)

    def check_step(self, step: Any, mask: Any, at: Loc | None) -> None:
        """A step of a loop that is only known now: 0 stops the block."""
        zero = np.broadcast_to(np.asarray(step) == 0, np.broadcast_shapes(np.shape(step), (self.threads,)))
        merged = self.merge(mask)
        if zero.any() and (merged is None or bool((zero & merged).any())):
            self.block.endless(at)

    def show(self, message: str, values: tuple[Any, ...], mask: Any) -> None:
        """T.print: a line for each active thread, or one where every thread prints the same."""
        active = self.active(mask)
        threads = np.flatnonzero(self.real if active is None else active & self.real)
        full = [np.broadcast_to(np.asarray(v), (self.threads,)) for v in values]
        for t in threads[:1] if mask is None and all(np.ndim(v) == 0 for v in values) else threads:
            text = " ".join([message, *(str(v[t]) for v in full)]).strip()
            self.block.machine.printed.append(f"block {self.block.name} thread {int(self.tid[t])}: {text}")
