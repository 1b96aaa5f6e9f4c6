"""Statements of sm_90a (ir/hopper.py) as Python source: operands to values, the rest to objects made here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilebench.backends.emulator.bulk import BulkSite
from tilebench.backends.emulator.mbarriers import MBarrierSite
from tilebench.backends.emulator.warpgroup import WARPGROUP, WgmmaSite
from tilebench.errors import InternalError
from tilebench.ir.expr import Expr, int_value
from tilebench.ir.hopper import (
    BulkCommit,
    BulkLoad,
    BulkStore,
    BulkWait,
    FenceProxyAsync,
    MBarrierArrive,
    MBarrierExpect,
    MBarrierInit,
    MBarrierInitFence,
    MBarrierWait,
    SetMaxRegisters,
    StMatrix,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
    product_columns,
)

if TYPE_CHECKING:
    from tilebench.backends.emulator.statements import Statements
    from tilebench.ir.thread import Memory
    from tilebench.ir.tile import Stmt


def write(w: Statements, s: Stmt) -> bool:
    """Write one statement; false when it is none of these."""
    warps = w.threads // 32
    at = w.constant(w.at)
    match s:
        case MBarrierInit():
            _mbarrier(w, s.barrier, s.index, "init", arrivals=s.arrivals)
        case MBarrierInitFence():
            w.put(f"mbarrier_init_fence(rs, {w.mask_code})")
        case MBarrierArrive():
            w.count("mbarrier.arrive", s.loc, 1)
            _mbarrier(w, s.barrier, s.index, "arrive")
        case MBarrierExpect():
            w.count("mbarrier.expect", s.loc, 1)
            _mbarrier(w, s.barrier, s.index, "arrive", bytes=s.bytes)
        case MBarrierWait():
            w.count("mbarrier.wait", s.loc, 1)
            site = barrier_site(w, s.barrier)
            index, parity = w.index(s.index).code, w.value(s.parity).code
            w.put(f"yield from {w.constant(site)}.wait(rs, {index}, {parity}, {w.mask_code})")
        case BulkLoad():
            w.count("bulk-load", s.loc, 1)
            lanes = s.source.bytes // s.source.memory.dtype.bytes
            site = BulkSite(
                s.source,
                w.access(s.destination, lanes, "bulk-load"),
                w.access(s.source.memory, lanes, "bulk-load"),
                barrier_site(w, s.barrier),
            )
            operands = f"{w.index(s.destination_index).code}, {_tuple(w, s.coordinates)}"
            w.put(f"{w.constant(site)}.load(rs, {operands}, {w.index(s.barrier_index).code}, {w.mask_code})")
        case BulkStore():
            w.count("bulk-store", s.loc, 1)
            lanes = s.destination.bytes // s.destination.memory.dtype.bytes
            site = BulkSite(
                s.destination,
                w.access(s.source, lanes, "bulk-store"),
                w.access(s.destination.memory, lanes, "bulk-store"),
            )
            operands = f"{w.index(s.source_index).code}, {_tuple(w, s.coordinates)}"
            verb = "add" if s.combine else "store"
            w.put(f"{w.constant(site)}.{verb}(rs, {operands}, {w.mask_code})")
        case BulkCommit():
            w.put(f"rs.bulk.commit({w.mask_code})")
        case BulkWait():
            w.put(f"rs.bulk.wait({int(s.pending)}, {bool(s.reading)}, {w.mask_code})")
        case FenceProxyAsync():
            w.count("fence.proxy.async", s.loc, warps)
            w.put(f"rs.fence_proxy({w.mask_code})")
        case Wgmma():
            _wgmma(w, s)
        case WgmmaFence() | WgmmaWait():
            names = w.constant(tuple(s.registers))
            first = f"{int(s.pending)}, " if isinstance(s, WgmmaWait) else ""
            verb = "wait" if isinstance(s, WgmmaWait) else "fence"
            w.put(f"rs.products.{verb}({first}{names}, {w.mask_code}, {at})")
        case WgmmaCommit():
            w.put(f"rs.products.commit({w.mask_code}, {at})")
        case StMatrix():
            _stmatrix(w, s)
        case SetMaxRegisters():
            w.put(
                f"yield from set_max_registers(rs, {int(s.count)}, {bool(s.increase)}, {w.mask_code}, {at})"
            )
        case _:
            return False
    return True


def barrier_site(w: Statements, memory: Memory, arrivals: int = 0, bytes: int = 0) -> MBarrierSite:
    """A statement that uses a barrier in `memory`."""
    site = MBarrierSite(w.places[memory], w.at, w.columns.barriers[memory], arrivals, bytes)
    site.suppliers = w.suppliers.get(memory, ())
    return site


def _mbarrier(
    w: Statements, memory: Memory, index: Expr, verb: str, arrivals: int = 0, bytes: int = 0
) -> None:
    site = w.constant(barrier_site(w, memory, arrivals, bytes))
    w.put(f"{site}.{verb}(rs, {w.index(index).code}, {w.mask_code})")


def _tuple(w: Statements, parts: tuple[Expr, ...]) -> str:
    return f"({''.join(w.value(e).code + ', ' for e in parts)})"


def _wgmma(w: Statements, s: Wgmma) -> None:
    if w.threads % WARPGROUP:
        raise InternalError("TB902", "a product needs roles of whole warpgroups", at=s.loc)
    if not product_columns(s.n, s.d.dtype.name):
        raise InternalError("TB902", f"no wgmma has N = {s.n} for {s.d.dtype}", at=s.loc)
    kind = s.a.dtype
    w.count(f"wgmma.m64n{s.n}k{32 // kind.bytes}", s.loc, w.threads // WARPGROUP * len(s.b_steps))
    a_site = None if s.a_descriptor is None else w.access(s.a, 16 // kind.bytes, "wgmma")
    site = w.constant(WgmmaSite(s, a_site, w.access(s.b, 16 // kind.bytes, "wgmma")))
    keep = w.value(s.accumulate)
    d_index = w.register_index(s.d, s.d_index, s.n // 2, "written")
    d = f"R{w.register_number(s.d)}"
    a, a_index, a_flight = "None", w.index(s.a_index).code, "None"
    if s.a_descriptor is None:
        count = max(s.a_steps) + 4 * (32 // kind.bits)
        start = w.register_index(s.a, s.a_index, count, "read")
        w.check_written(s.a, start, count, product=True)
        a, a_index = f"R{w.register_number(s.a)}", start.code
        _fixed(start.columns, s)
        a_flight = w.flight(s.a)
    _fixed(d_index.columns, s)
    if w.checks and int_value(s.accumulate) != 0:
        w.check_written(s.d, d_index, s.n // 2, product=True, condition=f"np.any({keep.code})")
    w.put(
        f"{site}(rs, {d}, {d_index.code}, {a}, {a_index}, {w.index(s.b_index).code}, {keep.code}, "
        f"{w.mask_code}, {w.flight(s.d)}, {a_flight})"
    )
    w.note_written(s.d, d_index, s.n // 2, product=True)


def _fixed(columns: str, s: Wgmma) -> None:
    if columns != "None":
        raise InternalError(
            "TB902", "the registers of a product start at one that differs between threads", at=s.loc
        )


def _stmatrix(w: Statements, s: StMatrix) -> None:
    itemsize = s.source.dtype.storage_dtype.itemsize
    w.count("stmatrix", s.loc, w.threads // 32)
    count = s.matrices * (4 // itemsize)
    start = w.register_index(s.source, s.source_index, count, "read")
    w.check_written(s.source, start, count)
    index = w.index(s.destination_index)
    site = w.site(s.destination, 16 // itemsize, "stmatrix")
    values = f"read_rows(R{w.register_number(s.source)}, {start.code}, {start.columns}, {count})"
    w.put(f"stmatrix(rs, {site}, {index.code}, {values}, {w.mask_code}, {s.matrices}, {bool(s.transpose)})")
