"""The state that a thread program runs in: the launch (`Machine`) and one block of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tilebench.backends.emulator.alias import Window
from tilebench.backends.emulator.barriers import Meeting, StopBlock
from tilebench.backends.emulator.counts import Tally
from tilebench.backends.emulator.findings import Findings, line
from tilebench.backends.emulator.names import Names
from tilebench.backends.emulator.order import Clock, Columns
from tilebench.backends.emulator.race import Conflict, Shadow, Stale
from tilebench.backends.emulator.turns import Turns
from tilebench.backends.emulator.warpgroup import RegisterPool, entry_registers

if TYPE_CHECKING:
    from tilebench.backends.emulator.bulk import MapView
    from tilebench.backends.emulator.mbarriers import MBarrier
    from tilebench.backends.emulator.memory import Site
    from tilebench.backends.emulator.role import Role
    from tilebench.errors import Loc
    from tilebench.ir.expr import Var
    from tilebench.ir.hopper import TensorMap
    from tilebench.ir.thread import Memory, Program


@dataclass
class Machine:
    """One launch.

    Arrays, origins, spans: the flat global arrays, where element 0 is in them, how many elements.
    """

    program: Program
    arrays: list[np.ndarray]
    origins: list[int]
    spans: list[int]
    grid: tuple[int, ...]
    sites: Sequence[Site]
    shared_granules: int
    global_shadows: list[Window | None]
    findings: Findings
    names: Names = field(default_factory=Names)
    checks: bool = True
    reverse_lanes: bool = False
    tallies: dict[int, Tally] = field(default_factory=dict[int, Tally])
    executed: list[int] = field(default_factory=list[int])
    slots: Mapping[Memory, int] = field(default_factory=dict["Memory", int])
    values: Mapping[Var, Any] = field(default_factory=dict["Var", Any])
    maps: dict[TensorMap, MapView] = field(default_factory=dict["TensorMap", "MapView"])
    columns: Columns | None = None
    barriers: int = 0
    printed: list[str] = field(default_factory=list[str])
    stamps: int = 0
    recorder: Any = None  # record.ThreadRecorder, told of every write

    def global_race(self, site: int, conflict: Conflict) -> None:
        """Two blocks, or two threads of one, on one element of global memory."""
        later = self.sites[site]
        earlier = self.sites[conflict.earlier_site]
        key = ("race", conflict.kind, later.place.name, *_pair(earlier, later))
        if self.findings.known(*key):
            return
        threads = self.program.threads
        (b0, t0), (b1, t1) = divmod(conflict.earlier_thread, threads), divmod(conflict.later_thread, threads)
        slot = later.place.slot
        shadow = self.global_shadows[slot]
        assert shadow is not None, "it told of the conflict"
        number = conflict.granule // shadow.grains - self.origins[slot]
        element = self.names.element(later.place.memory, number)
        if earlier.place.memory is not later.place.memory:
            element += f" (the memory of {earlier.place.name})"
        verb0, verb1 = (
            ("reads" if conflict.kind == "WAR" else "writes"),
            ("reads" if conflict.kind == "RAW" else "writes"),
        )
        same = conflict.kind == "WAW-same"
        if b0 == b1:
            first, second = f"thread {t0}", f"thread {t1}"
            end = f", with no barrier between (block {self.name(b0)})"
            hint = _hint(earlier.at, later.at, warp=False)
        else:
            first, second = f"block {self.name(b0)} thread {t0}", f"block {self.name(b1)} thread {t1}"
            end = ""
            hint = "blocks are not ordered: let one block own the element, or use an atomic operation"
        text = f"{element}: {first} {verb0} it at {line(earlier.at)}"
        text += f" and {second} {verb1} it at {line(later.at)}{end}"
        if same:
            text += "; both write the same value"
        self.findings.add(
            key,
            "race",
            "warning" if same else "error",
            text,
            (earlier.at, later.at),
            hint,
            "TB431" if b0 != b1 else "TB430",
        )

    def name(self, number: int) -> str:
        """A block as the user numbers it: 7, or (1, 3)."""
        index = block_index(number, self.grid)
        return str(index[0]) if len(index) == 1 else str(index)


def block_index(number: int, grid: tuple[int, ...]) -> tuple[int, ...]:
    """(x, y, z) of a flat block number; x is the fastest."""
    out: list[int] = []
    for extent in grid:
        number, i = divmod(number, max(1, extent))
        out.append(i)
    return tuple(out)


class Block:
    """One block: its shared memory, its clock, the barriers in use."""

    def __init__(self, machine: Machine, number: int) -> None:
        program = machine.program
        self.machine, self.number = machine, number
        self.index = block_index(number, machine.grid)
        end = max(
            [m.byte_offset + m.static_shape[0] * m.dtype.storage_dtype.itemsize for m in program.shared],
            default=0,
        )
        self.shared = np.full(-(-max(program.shared_bytes, end, 16) // 16) * 16, 0xA5, dtype=np.uint8)
        self.views: dict[np.dtype[Any], np.ndarray] = {}
        self.clock = Clock(-(-program.threads // 32), machine.columns)
        self.shadow = Shadow(
            max(1, machine.shared_granules), self.clock, self.shared_race, self.uninitialised
        )
        self.meetings: dict[int, Meeting] = {}
        self.turns = Turns()
        self.mbarriers: dict[int, MBarrier] = {}
        self.pool = RegisterPool(
            entry_registers(program.threads, max(1, int(program.facts.get("min_blocks", 1) or 1)))
        )
        self.barriers = 0

    @property
    def name(self) -> str:
        """The block as the user numbers it."""
        return self.machine.name(self.number)

    def view(self, dtype: np.dtype[Any]) -> np.ndarray:
        """All shared memory as elements of a storage dtype."""
        found = self.views.get(dtype)
        if found is None:
            found = self.views[dtype] = self.shared.view(dtype)
        return found

    # -------------------------------------------------------------- findings

    def _element(self, site: Site, granule: int) -> str:
        place = site.place
        byte = (granule - place.shadow) * place.granule + place.region_start - place.start
        return self.machine.names.element(place.memory, byte // site.itemsize)

    def _add_async(self, key: tuple[Any, ...], text: str, hint: str, earlier: Site, later: Site) -> None:
        told = f"{text} (block {self.name})"
        self.machine.findings.add(key, "async-race", "error", told, (earlier.at, later.at), hint, "TB432")

    def shared_race(self, site: int, conflict: Conflict) -> None:
        """Two threads on one granule of shared memory, not ordered by a barrier."""
        machine = self.machine
        later, earlier = machine.sites[site], machine.sites[conflict.earlier_site]
        key = ("race", conflict.kind, later.place.name, *_pair(earlier, later))
        if machine.findings.known(*key):
            return
        element = self._element(later, conflict.granule)
        alias = (
            ""
            if earlier.place.name == later.place.name
            else f" (the same bytes as {self._element(earlier, conflict.granule)})"
        )
        t0, t1 = conflict.earlier_thread, conflict.later_thread
        verb0, verb1 = (
            ("reads" if conflict.kind == "WAR" else "writes"),
            ("reads" if conflict.kind.startswith("RAW") else "writes"),
        )
        if max(t0, t1) >= 32 * self.clock.warps:
            text, hint = async_conflict(self.clock.columns, f"{element}{alias}", conflict, earlier, later)
            self._add_async(key, text, hint, earlier, later)
            return
        where = f"{element}{alias}: thread {t0} {verb0} it at {line(earlier.at)}"
        where += f" and thread {t1} {verb1} it at {line(later.at)}"
        if conflict.kind.endswith("async"):
            text = f"{element}{alias}: thread {t1} {verb1} it at {line(later.at)}"
            text += f" while thread {t0}'s asynchronous copy of {line(earlier.at)} is still under way"
            hint = f"wait for the copy (and a barrier, when other threads read) before {line(later.at)}"
            self._add_async(key, text, hint, earlier, later)
            return
        same = conflict.kind == "WAW-same"
        text = f"{where}, with no barrier between (block {self.name})" + (
            "; both write the same value" if same else ""
        )
        code = "TB432" if earlier.kind == "cp.async" or later.kind == "cp.async" else "TB430"
        hint = _hint(earlier.at, later.at, warp=t0 >> 5 == t1 >> 5)
        machine.findings.add(
            key, "race", "warning" if same else "error", text, (earlier.at, later.at), hint, code
        )

    def unfenced(self, site: int, stale: Stale) -> None:
        """An access of a thread that the async proxy need not come behind."""
        machine = self.machine
        later, earlier = machine.sites[site], machine.sites[stale.site]
        key = ("proxy-fence", later.place.name, *_pair(earlier, later))
        if machine.findings.known(*key):
            return
        verb = "overwrites it" if later.kind == "bulk-load" else "reads it"
        does = "reads" if stale.read else "writes"
        text = f"{self._element(later, stale.granule)}: thread {stale.thread} {does} it at {line(earlier.at)}"
        text += f" and {agent_of(later)} {verb}, with no fence.proxy.async of that thread between"
        text += f" (block {self.name})"
        machine.findings.add(
            key, "proxy-fence", "error", text, (earlier.at, later.at),
            f"put fence.proxy.async after {line(earlier.at)}, in every thread that {does}, then a barrier",
            "TB436",
        )  # fmt: skip

    def store_left(self, at: Loc | None) -> None:
        """A bulk store that nobody waited for."""
        key = ("bulk-left", at)
        if not self.machine.findings.known(*key):
            text = f"the bulk store of {line(at)} is not waited for before its role ends (block {self.name})"
            self.machine.findings.add(
                key, "async-race", "error", text, (at,),
                "commit the group and wait for it: shared memory is gone when the block is", "TB432",
            )  # fmt: skip

    def uninitialised(self, site: int, granule: int, thread: int) -> None:
        """A read of shared memory that nobody wrote."""
        s = self.machine.sites[site]
        key = ("uninitialised", s.place.name, s.at or s.number)
        if self.machine.findings.known(*key):
            return
        text = f"{self._element(s, granule)} is read at {line(s.at)} before anything was written there"
        who = f"thread {thread}" if thread < 32 * self.clock.warps else agent_of(s)
        text += f" (block {self.name}, {who})"
        self.machine.findings.add(
            key, "uninitialised", "error", text, (s.at,), f"fill or copy into {s.place.name} first", "TB274"
        )

    def uninitialised_registers(
        self, memory: Memory, bad: np.ndarray, index: Any, rs: Role, at: Loc | None
    ) -> None:
        """A read of a register that this thread never wrote."""
        name = memory.origin.name if memory.origin is not None else memory.name
        key = ("uninitialised-register", name, at)
        if self.machine.findings.known(*key):
            return
        where = np.argwhere(bad)[0]
        first = (
            index
            if isinstance(index, int)
            else int(
                np.broadcast_to(
                    index, bad.shape[1:] if np.ndim(index) == bad.ndim - 1 else bad.shape[1:-1]
                ).flat[0]
            )
        )
        element = self.machine.names.register(memory, first + int(where[0]), int(rs.tid[where[-1]]))
        text = f"{element} is read at {line(at)} before it was written"
        text += f" (block {self.name}, thread {int(rs.tid[where[-1]])})"
        self.machine.findings.add(
            key, "uninitialised", "error", text, (at,), f"clear or fill {name} first", "TB274"
        )

    def out_of_bounds(
        self, site: Site, rs: Role, index: np.ndarray, bad: np.ndarray, low: int, count: int
    ) -> None:
        """An access outside its memory."""
        key = ("out-of-bounds", site.place.name, site.at or site.number)
        if self.machine.findings.known(*key):
            return
        where = tuple(int(x) for x in np.argwhere(bad)[0])
        value = int(index[where])
        value = (
            value
            if value < low
            else max(value, min(value + site.lanes - 1, low + count) if site.lanes > 1 else value)
        )
        verb = "written" if site.kind in ("store", "copy-out", "atomic", "cp.async") else "read"
        text = f"{site.place.name}[{value}] is {verb}, out of {low}..{low + count - 1}, at {line(site.at)}"
        text += f" (block {self.name}, thread {int(rs.tid[where[-1]])})"
        hint = "guard the access with the extent, or give the tile a size that divides it"
        self.machine.findings.add(key, "out-of-bounds", "error", text, (site.at,), hint, "TB273")

    def misaligned(self, site: Site, rs: Role, index: np.ndarray, addresses: np.ndarray, mask: Any) -> None:
        """A vector access at an address that is no multiple of its width."""
        key = ("misaligned", site.place.name, site.at or site.number)
        bad = (addresses & (site.width - 1)) != 0
        if mask is not None:
            bad = bad & mask
        if not bad.any() or self.machine.findings.known(*key):
            return
        where = tuple(int(x) for x in np.argwhere(bad)[0])
        text = f"a {site.width}-byte access at {site.place.name}[{int(index[where])}] is not aligned to"
        text += (
            f" {site.width} bytes, at {line(site.at)} (block {self.name}, thread {int(rs.tid[where[-1]])})"
        )
        self.machine.findings.add(
            key,
            "misaligned",
            "error",
            text,
            (site.at,),
            "use an offset and a row length that are multiples of the vector",
            "TB279",
        )

    def diverged(self, what: str, at: Loc | None) -> None:
        """A warp-wide instruction that only part of a warp runs."""
        key = ("divergence", at, what.split(" ")[0])
        if not self.machine.findings.known(*key):
            text = f"{what}, at {line(at)} (block {self.name})"
            self.machine.findings.add(
                key,
                "divergence",
                "error",
                text,
                (at,),
                "every lane of the warp must run it: move it out of the branch",
                "TB434",
            )

    def divided_by_zero(self, at: Loc | None) -> None:
        """An integer division by zero; the result is 0."""
        key = ("division", at)
        if not self.machine.findings.known(*key):
            self.machine.findings.add(
                key,
                "division-by-zero",
                "error",
                f"an integer is divided by zero at {line(at)} (block {self.name})",
                (at,),
                code="TB263",
            )

    def endless(self, at: Loc | None) -> None:
        """A loop with step 0 stops the block."""
        key = ("step", at)
        if not self.machine.findings.known(*key):
            text = f"a loop with step 0 never ends, at {line(at)} (block {self.name})"
            self.machine.findings.add(key, "step", "error", text, (at,), "use a step other than 0", "TB270")
        raise StopBlock("a loop with step 0")

    def assertion(self, message: str, thread: int, at: Loc | None) -> None:
        """A device assertion that failed stops the block."""
        key = ("assert", at, message)
        if not self.machine.findings.known(*key):
            text = f"assertion failed at {line(at)}: {message} (block {self.name}, thread {thread})"
            self.machine.findings.add(key, "assert", "error", text, (at,), code="TB275")
        raise StopBlock(message)


def agent_of(site: Site) -> str:
    """What runs beside the threads for a statement: 'the product of line 12'."""
    name = {"bulk-load": "bulk load", "bulk-store": "bulk store", "wgmma": "product"}[site.kind]
    return f"the {name} of {line(site.at)}"


def async_conflict(
    columns: Columns, element: str, conflict: Conflict, earlier: Site, later: Site
) -> tuple[str, str]:
    """A race with what runs beside the threads: what happens, and the way out."""
    limit = 32 * columns.warps

    def who(thread: int, site: Site) -> str:
        return f"thread {thread} ({line(site.at)})" if thread < limit else agent_of(site)

    first, second = who(conflict.earlier_thread, earlier), who(conflict.later_thread, later)
    if conflict.kind.startswith("RAW"):
        text = f"{element}: {second} reads it while {first} may still write it"
    elif conflict.kind == "WAR":
        text = f"{element}: {second} overwrites it while {first} may still read it"
    else:
        text = f"{element}: {second} overwrites it while {first} may still write it"
    if conflict.earlier_thread < limit:
        return (
            text,
            f"let the threads of {line(earlier.at)} meet {second} at a barrier, or arrive where it waits",
        )
    if earlier.kind == "bulk-load":
        return text, f"wait for the phase of the mbarrier that {first} reports to, before {line(later.at)}"
    if earlier.kind == "bulk-store":
        return (
            text,
            f"wait for the group of {first} (.read is enough), then a barrier, before {line(later.at)}",
        )
    if conflict.later_thread < limit:
        return text, f"wait for the group of {first}, then a barrier, before {line(later.at)}"
    return text, f"wait for the group of {first}, then arrive at the barrier that {second} waits for"


def _pair(earlier: Site, later: Site) -> tuple[object, object]:
    """What makes two accesses the same pair as before: their lines, or the statements without lines."""
    return tuple(
        (site.at.source.name, site.at.line) if site.at is not None else site.number
        for site in (earlier, later)
    )  # type: ignore[return-value]


def _hint(a: Loc | None, b: Loc | None, *, warp: bool) -> str:
    call = "T.sync_threads()" if not warp else "T.sync_threads() (T.sync_warp() is enough within a warp)"
    if a is not None and b is not None and a.line != b.line:
        return (
            f"put {call} between {line(a)} and {line(b)}"
            if a.line < b.line
            else f"put {call} at the end of the loop, after {line(a)}"
        )
    return f"give each thread its own element, or put {call} between the two accesses"
