"""wgmma: operands through their matrix descriptors, products, groups; and setmaxnreg.

How a descriptor finds an element, from the PTX ISA ("Matrix descriptor", "Strides") with every constant as in
HOPPER.md 2.2. A row of the canonical layout holds `span` bytes (the swizzle's, or 16 without one), eight rows
are an atom. With e = 16 / itemsize elements in a 16-byte chunk:

    K contiguous    element (mn, k), chunk q = k / e
        swizzled    (mn % 8) * span + (mn / 8) * stride + q * 16
        plain       (mn % 8) * 16   + (mn / 8) * stride + q * leading
    MN contiguous   element (mn, k), chunk q = mn / e, with c = span / 16 chunks a row
        swizzled    (k % 8) * span + (k / 8) * stride + (q % c) * 16 + (q / c) * leading
        plain       (k % 8) * 16   + (k / 8) * leading + q * stride

The start address of the k step is added, then the swizzle exchanges 16-byte chunks by bits of the absolute
address. All steps of a statement are gathered at once, as chunks, and multiplied by one np.matmul, in pieces
that BLAS keeps on one thread: its thread pool costs milliseconds where cores are busy.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from tilebench.backends.emulator.barriers import StopBlock, Waiting
from tilebench.backends.emulator.bulk import CHUNK
from tilebench.backends.emulator.findings import line
from tilebench.backends.emulator.flights import Flight
from tilebench.ir.dtype import DType, decode

if TYPE_CHECKING:
    from tilebench.backends.emulator.memory import Site
    from tilebench.backends.emulator.race import Granules
    from tilebench.backends.emulator.role import Role
    from tilebench.errors import Loc
    from tilebench.ir.hopper import Descriptor, Wgmma
    from tilebench.ir.thread import Memory

WARPGROUP = 128
ONE_THREAD = 1 << 18  # M * N * K up to which OpenBLAS stays on one thread (its interface/gemm.c)


class Gather(NamedTuple):
    """Chunks of an operand that starts at byte `start % 1024`: [mn or k, ...], from start // 1024 * 64 on.

    low, high: all chunks lie in low..high; dense: and they are all of them.
    """

    chunks: np.ndarray
    low: int
    high: int
    dense: bool


@lru_cache(maxsize=1024)
def gather_plan(
    descriptor: Descriptor, start: int, steps: tuple[int, ...], extent: int, itemsize: int
) -> Gather:
    """Where the chunks of an operand are. start: below 1024; steps: byte offsets; extent: of M or N."""
    d, each = descriptor, 16 // itemsize
    if d.transposed:
        k, q = np.arange(16)[:, None], np.arange(extent // each)[None, :]
        if d.swizzle:
            row = d.swizzle // 16
            at = (k % 8) * d.swizzle + (k // 8) * d.stride + (q % row) * 16 + (q // row) * d.leading
        else:
            at = (k % 8) * 16 + (k // 8) * d.leading + q * d.stride
        where = (np.array(steps)[:, None, None] + at).reshape(-1, extent // each)  # [all k, chunks of mn]
    else:
        mn, q = np.arange(extent)[:, None], np.arange(2)[None, :]
        if d.swizzle:
            at = (mn % 8) * d.swizzle + (mn // 8) * d.stride + q * 16
        else:
            at = (mn % 8) * 16 + (mn // 8) * d.stride + q * d.leading
        where = (at[:, None, :] + np.array(steps)[None, :, None]).reshape(extent, -1)  # [mn, chunks of all k]
    chunks = ((start + where) >> 4).astype(np.intp)
    if d.swizzle:
        chunks ^= (chunks >> 3) & (d.swizzle // 16 - 1)
    low, high = int(chunks.min()), int(chunks.max()) + 1
    return Gather(chunks, low, high, len(np.unique(chunks)) == high - low)


@lru_cache(maxsize=1)
def _halves() -> np.ndarray:
    """float32 of every float16: a look-up is quicker than a conversion."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


class Products:
    """The products of a role's warpgroups: groups, registers, fences."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.committed = 0
        self.flights: dict[Memory, Flight] = {}
        self.fenced = False

    def flight(self, memory: Memory) -> Flight:
        """The state of a register array that products use."""
        return self.flights.setdefault(memory, Flight(self.role, memory))

    def fence(self, named: tuple[Memory, ...], mask: Any, at: Loc | None) -> None:
        """wgmma.fence."""
        if not _whole(self.role, mask, at, "wgmma.fence"):
            return
        self.fenced = True
        for memory, flight in self.flights.items():
            flight.fence(memory in named)

    def commit(self, mask: Any, at: Loc | None) -> None:
        """wgmma.commit_group."""
        self.committed += _whole(self.role, mask, at, "wgmma.commit_group")

    def wait(self, pending: int, named: tuple[Memory, ...], mask: Any, at: Loc | None) -> None:
        """wgmma.wait_group."""
        if not _whole(self.role, mask, at, "wgmma.wait_group"):
            return
        done = self.committed - pending
        for memory, flight in self.flights.items():
            if flight.busy:
                flight.finish(done, memory in named, at)
        clock = self.role.block.clock
        for group in range(self.role.threads // WARPGROUP):
            warps = self.role.warps[4 * group : 4 * group + 4]
            column = clock.columns.products.get(int(warps[0]) // 4)
            if column is not None and done >= 0:
                clock.raise_column(warps, [], column, done + 1)


def _whole(rs: Role, mask: Any, at: Loc | None, what: str) -> bool:
    """Whether the role runs it, with all of its threads; none do behind a `continue` that all take."""
    active = rs.active(mask)
    if active is not None and not active.any():
        return False
    if active is not None and not active.all():
        rs.block.diverged(
            f"{what} needs every thread of the warpgroup and {int(active.sum())} of {rs.threads} run it", at
        )
    return True


class WgmmaSite:
    """One wgmma statement. a_site, b_site: its accesses of shared memory (a_site None: A is in registers)."""

    def __init__(self, stmt: Wgmma, a_site: Site | None, b_site: Site) -> None:
        self.stmt, self.a_site, self.b_site = stmt, a_site, b_site
        self.at = stmt.loc or b_site.at
        self.n = stmt.n
        kind = stmt.a.dtype
        self.dtype = kind
        self.itemsize = kind.storage_dtype.itemsize
        self.k = 32 // self.itemsize
        self.total_k = self.k * len(stmt.b_steps)
        self.truncate = kind.name in ("float32", "tfloat32")
        self.integer = not kind.is_float
        self.wide = np.dtype(np.float64 if self.integer and self.total_k > 512 else np.float32)
        self.piece = next((r for r in (64, 32, 16) if r * self.n * self.total_k <= ONE_THREAD), 8)
        self.half = kind.name == "float16"
        self.half_sums = stmt.d.dtype == "float16"
        e = 32 // kind.bits
        self.a_rows = (np.array(stmt.a_steps)[:, None] + np.arange(4 * e)).reshape(-1)
        self.a_span = (int(self.a_rows.min()), int(self.a_rows.max()) + 1)
        self.elements = e
        self.a_bytes = tuple(s * self.itemsize for s in stmt.a_steps)
        self.b_bytes = tuple(s * self.itemsize for s in stmt.b_steps)

    def __call__(
        self,
        rs: Role,
        d: np.ndarray,
        d_index: int,
        a: np.ndarray | None,
        a_index: Any,
        b_index: Any,
        accumulate: Any,
        mask: Any,
        sums: Flight | None,
        left: Flight | None,
    ) -> None:
        """d (+)= a @ b for each warpgroup of the role."""
        checks = rs.block.machine.checks
        active = rs.active(mask)
        if not _whole(rs, mask, self.at, "wgmma"):
            return
        group = rs.products.committed + 1
        if checks:
            self._check_registers(rs, d_index, a_index, sums, left, group, bool(np.any(accumulate)))
        for w in range(rs.threads // WARPGROUP):
            columns = slice(w * WARPGROUP, (w + 1) * WARPGROUP)
            if active is not None and not active[columns].any():
                continue
            start_b = self._start(
                rs, self.b_site, self.stmt.b_descriptor, self._uniform(rs, b_index, columns)
            )
            y = self._shared(rs, w, self.b_site, self.stmt.b_descriptor, start_b, self.b_bytes, self.n, group)
            if a is None:
                assert self.a_site is not None
                assert self.stmt.a_descriptor is not None
                start_a = self._start(
                    rs, self.a_site, self.stmt.a_descriptor, self._uniform(rs, a_index, columns)
                )
                x = self._shared(rs, w, self.a_site, self.stmt.a_descriptor, start_a, self.a_bytes, 64, group)
            else:
                x = self._registers(a, a_index, columns)
            keep = accumulate if np.ndim(accumulate) == 0 else self._uniform(rs, accumulate, columns)
            product = np.matmul(x.reshape(-1, self.piece, self.total_k), y.T)
            self._add(d, d_index, columns, product, bool(keep))

    # -------------------------------------------------------------- operands

    def _uniform(self, rs: Role, value: Any, columns: slice) -> int:
        """An operand that is one in all threads of the warpgroup."""
        if np.ndim(value) == 0:
            return int(value)
        values = np.broadcast_to(value, (rs.threads,))[columns]
        if (values != values[0]).any():
            rs.block.diverged("wgmma has operands that differ between threads of its warpgroup", self.at)
        return int(values[0])

    def _start(self, rs: Role, site: Site, descriptor: Descriptor, index: int) -> int:
        """The byte at which an operand starts, before the swizzle."""
        start = site.place.start + index * self.itemsize
        span = descriptor.swizzle
        if start % 16 or (span and (start >> 7) & (span // 16 - 1)):
            period = 8 * span if span else 16
            text = f"an operand of wgmma at {site.place.name}[{index}] starts at byte {start}, not in"
            text += (
                f" the first of the eight rows of its swizzle (a multiple of {period})"
                if span
                else (" a multiple of 16")
            )
            self._stop(
                rs, "misaligned", site, "TB279", f"{text}, at {line(self.at)}",
                f"place the tile at a multiple of {period} bytes and step through it by whole atoms",
            )  # fmt: skip
        return start

    def _shared(
        self,
        rs: Role,
        w: int,
        site: Site,
        descriptor: Descriptor,
        start: int,
        steps: tuple[int, ...],
        extent: int,
        group: int,
    ) -> np.ndarray:
        """An operand [extent, all k] through its descriptor, as float32."""
        block, place = rs.block, site.place
        plan = gather_plan(descriptor, start & 1023, steps, extent, self.itemsize)
        base = start >> 10 << 6
        low, high = (base + plan.low) * 16, (base + plan.high) * 16
        end = place.start + place.count * self.itemsize
        if low < place.start or high > end:
            text = f"wgmma reads bytes {low} to {high - 1} of shared memory, out of {place.name}"
            text += f" ({place.start} to {end - 1}), at {line(self.at)}"
            self._stop(
                rs, "out-of-bounds", site, "TB273", text, "check the descriptor's strides and the k steps"
            )
        found = block.view(CHUNK).take(plan.chunks + base)
        if block.machine.checks:
            self._observe(rs, w, site, plan, base, low, high, group)
        kind = self.stmt.b.dtype if site is self.b_site else self.dtype
        values = self._values(found.view(site.storage), kind)
        return values.T if descriptor.transposed else values

    def _values(self, stored: np.ndarray, kind: DType) -> np.ndarray:
        if self.half:
            return _halves().take(stored.view(np.uint16))
        out = decode(stored, kind).astype(self.wide, copy=False)
        if self.truncate:  # the tensor core ignores the low 13 bits of a tf32 operand
            out = (out.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        return out

    def _registers(self, a: np.ndarray, a_index: int, columns: slice) -> np.ndarray:
        """A [64, all k] from registers: [steps, k half, row half, element] of [warp, g, c]."""
        e = self.elements
        found = a[self.a_rows + a_index, columns].reshape(-1, 2, 2, e, 4, 8, 4)
        x = found.transpose(4, 2, 5, 0, 1, 6, 3).reshape(64, -1).astype(self.wide, copy=False)
        if self.truncate:
            x = (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        return x

    def _add(self, d: np.ndarray, d_index: int, columns: slice, product: np.ndarray, keep: bool) -> None:
        """The product [64, n] to registers [n / 8, row half, 2] of [warp, g, c]."""
        added = product.reshape(4, 2, 8, self.n // 8, 4, 2).transpose(3, 1, 5, 0, 2, 4)
        target = d[d_index : d_index + self.n // 2, columns]
        out = added.reshape(self.n // 2, WARPGROUP)
        if self.integer:
            out = out.astype(np.int64).astype(d.dtype)
        if keep and self.half_sums:
            target[...] = (target.astype(np.float32) + out).astype(np.float16)
        elif keep:
            target += out
        else:
            target[...] = out

    # -------------------------------------------------------------- checks

    def _check_registers(
        self,
        rs: Role,
        d_index: int,
        a_index: Any,
        sums: Flight | None,
        left: Flight | None,
        group: int,
        kept: bool,
    ) -> None:
        if not rs.products.fenced:
            key = ("no-fence", "first", self.at)
            if not rs.block.machine.findings.known(*key):
                text = f"no wgmma.fence stands before the first product, at {line(self.at)}"
                text += f" (block {rs.block.name})"
                rs.block.machine.findings.add(
                    key, "registers", "error", text, (self.at,),
                    f"put wgmma.fence before {line(self.at)}", "TB439",
                )  # fmt: skip
            rs.products.fenced = True
        if left is not None:
            left.issue(group, a_index + self.a_span[0], self.a_span[1] - self.a_span[0], self.at, sums=False)
        if sums is not None:
            sums.issue(group, d_index, self.n // 2, self.at, sums=True, kept=kept)

    def _observe(
        self, rs: Role, w: int, site: Site, plan: Gather, base: int, low: int, high: int, group: int
    ) -> None:
        block, place = rs.block, site.place
        clock = block.clock
        each = 16 // place.granule
        origin = place.shadow - place.region_start // place.granule
        g: Granules
        if plan.dense:
            g = slice(origin + low // place.granule, origin + high // place.granule)
        else:
            chunk = np.unique(plan.chunks) + base
            g = (chunk[:, None] * each + np.arange(each)).reshape(-1) + origin
        warps = rs.warps[4 * w : 4 * w + 4]
        column = clock.columns.products[int(warps[0]) // 4]
        stale = block.shadow.async_read(
            g, clock.known_to_all(warps), -1, column, group, site.number, 32 * column
        )
        if stale is not None:
            block.unfenced(site.number, stale)
        site.tally_of(block).copied(plan.chunks.size * 16)

    def _stop(self, rs: Role, kind: str, site: Site, code: str, text: str, hint: str) -> NoReturn:
        findings = rs.block.machine.findings
        key = (kind, site.place.name, self.at)
        if not findings.known(*key):
            findings.add(key, kind, "error", f"{text} (block {rs.block.name})", (self.at,), hint, code)
        raise StopBlock(text)


# ------------------------------------------------------------------ registers of a warpgroup


def entry_registers(threads: int, blocks: int = 1) -> int:
    """Registers that each thread has when a block of `threads` starts and `blocks` share a multiprocessor."""
    return min(255, 65536 // max(1, threads * blocks)) // 8 * 8


@dataclass(eq=False)
class RegisterPool:
    """The registers of one block that no warpgroup holds. held: registers a thread of each warp."""

    entry: int
    free: int = 0
    held: dict[int, int] | None = None

    def of(self, warp: int) -> int:
        """Registers a thread of a warp."""
        return (self.held or {}).get(warp, self.entry)


class RegisterWait:
    """A role that waits for registers."""

    def __init__(self, pool: RegisterPool, need: int, count: int, at: Loc | None) -> None:
        self.pool, self.need, self.count, self.at = pool, need, count, at

    @property
    def open(self) -> bool:
        """There are enough."""
        return self.pool.free >= self.need

    @property
    def hopeless(self) -> bool:
        """Others may still give some."""
        return False

    @property
    def places(self) -> tuple[Loc | None, ...]:
        """The setmaxnreg."""
        return (self.at,)

    @property
    def hint(self) -> str:
        """The way out."""
        return "the counts of all warpgroups together must not be more than the launch gave them"

    def explain(self) -> str:
        """What is missing."""
        return (
            f"waits at {line(self.at)} for {self.count} registers a thread: it needs {self.need} more, and "
            f"{self.pool.free} of the block are free (a launch gives {self.pool.entry} a thread)"
        )


def set_max_registers(
    rs: Role, count: int, increase: bool, mask: Any, at: Loc | None
) -> Generator[Waiting, None, None]:
    """setmaxnreg by every warp of the role."""
    _whole(rs, mask, at, "setmaxnreg")
    block = rs.block
    pool = block.pool
    held = pool.held = pool.held or {}
    now = pool.of(int(rs.warps[0]))
    if (count < now) if increase else (count > now):
        key = ("setmaxnreg", at)
        if not block.machine.findings.known(*key):
            verb = "increases" if increase else "decreases"
            text = f"setmaxnreg at {line(at)} {verb} the registers of a thread from {now} to {count}"
            text += f" (block {block.name})"
            block.machine.findings.add(
                key, "registers", "error", text, (at,),
                f"a launch of {block.machine.program.threads} threads gives {pool.entry} registers to each",
                "TB536",
            )  # fmt: skip
    need = (count - now) * 32 * len(rs.warps)
    if need > 0:
        waiting = RegisterWait(pool, need, count, at)
        while not waiting.open:
            yield waiting
    pool.free -= need
    for warp in rs.warps.tolist():
        held[warp] = count
