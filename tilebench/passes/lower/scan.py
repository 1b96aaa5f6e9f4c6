"""Running folds: each thread folds a run of neighbours in its registers, lanes pass their totals on by
shuffles.

A row of n elements over L lanes of a warp: thread l holds elements l * c .. l * c + c - 1, c = ceil(n / L).

    in the thread      x[r] = x[r - 1] + x[r]                          totals t = x[c - 1]
    between lanes      t = t + shfl_up(t, d) for lanes >= d, d = 1, 2, 4 ..
    back               x[r] = x[r] + (the t of the lane below)
"""

from __future__ import annotations

from math import prod

from tilebench.ir.dtype import DType, int32
from tilebench.ir.expr import Expr, Load, Var, binary, call, cast, const
from tilebench.ir.thread import Memory
from tilebench.ir.tile import Buffer, Parallel, Store
from tilebench.layouts import Digit, FragmentLayout, blocked
from tilebench.ops.scan import Scan
from tilebench.passes.lower.builder import Builder
from tilebench.passes.lower.nest import lower_parallel
from tilebench.passes.nodes import loop_names
from tilebench.passes.place_rules import interned

WARP = 32


def scan_layout(shape: tuple[int, ...], dim: int, threads: int) -> tuple[FragmentLayout, int, int]:
    """(layout, elements of a row in each thread, lanes that share a row): fewest steps for a thread."""
    rest = tuple(n for d, n in enumerate(shape) if d != dim)
    rows, n = prod(rest), shape[dim]

    def cost(lanes: int) -> int:
        groups = threads // lanes
        return -(-n // lanes) * -(-rows // groups) + 2 * (lanes.bit_length() - 1)

    lanes = min((t for t in (1, 2, 4, 8, 16, 32) if threads % t == 0), key=cost)
    run = -(-n // lanes)
    reg = [Digit(run, dim, 1)]
    thread = [Digit(lanes, dim, run)]
    groups = threads // lanes
    if rest:
        outer = blocked(rest, groups, 1)
        where = [d for d in range(len(shape)) if d != dim]
        reg += [Digit(d.size, None if d.dim is None else where[d.dim], d.stride) for d in outer.reg]
        thread += [Digit(d.size, None if d.dim is None else where[d.dim], d.stride) for d in outer.thread]
        groups //= outer.threads
    if groups > 1:
        thread.append(Digit(groups, None))
    layout = FragmentLayout(
        shape, tuple(d for d in reg if d.size > 1), tuple(d for d in thread if d.size > 1)
    )
    return interned(layout), run, lanes


def lower_scan(op: Scan, b: Builder) -> None:
    """Scan op.source along op.dim into op.destination."""
    shape, dtype = op.source.shape, op.accumulator_dtype
    layout, run, lanes = scan_layout(shape, op.dim, b.threads)
    if layout.threads != b.threads:
        b.expand(op.expand())
        return
    running = Buffer("running", tuple(const(n) for n in shape), dtype, "fragment")
    b.add_fragment(running, layout)
    memory, _ = b.fragment(running)
    if any(layout.padded_dims):
        with b.loop(layout.registers, independent=True) as r:
            b.store(memory, r, const(op.identity, dtype))
    names = loop_names(len(shape))
    place = tuple(const(shape[d] - 1) - v if op.reverse and d == op.dim else v for d, v in enumerate(names))
    value = cast(Load(op.source.buffer, op.source.index(place), dtype=op.source.dtype), dtype)
    lower_parallel(b, Parallel(names, shape, Store(running, names, value), layout=layout, loc=op.loc))
    _fold(op, b, memory, layout.registers // run, run, lanes)
    in_place = op.source.buffer.data is op.destination.buffer.data
    if in_place and op.destination.buffer.scope in ("shared", "global"):
        b.barrier("the scan writes over elements that other threads read")
    result = cast(Load(running, names, dtype=dtype), op.destination.dtype)
    store = Store(op.destination.buffer, op.destination.index(place), result, loc=op.loc)
    lower_parallel(b, Parallel(names, shape, store, loc=op.loc))


def _fold(op: Scan, b: Builder, memory: Memory, rows: int, run: int, lanes: int) -> None:
    dtype = op.accumulator_dtype
    with b.loop(rows) as row:
        start = row * run
        with b.loop(run - 1) if run > 1 else b.loop(0) as r:
            at = start + r
            b.store(memory, at + 1, _combine(op, b.load(memory, at), b.load(memory, at + 1)))
        if lanes == 1:
            return
        total = b.registers("total", 1, dtype)
        b.store(total, 0, b.load(memory, start + (run - 1)))
        lane = b.bind("lane", b.simple(b.thread % lanes))
        below = 1
        while below < lanes:
            other = b.bind("other", _shifted(b.load(total, 0), below, dtype))
            with b.when(binary("ge", lane, const(below))):
                b.store(total, 0, _combine(op, other, b.load(total, 0)))
            below *= 2
        before = b.bind("before", _shifted(b.load(total, 0), 1, dtype))
        with b.when(binary("gt", lane, const(0))), b.loop(run, independent=True) as r:
            b.store(memory, start + r, _combine(op, before, b.load(memory, start + r)))


def _combine(op: Scan, before: Expr, value: Expr) -> Expr:
    return binary("add" if op.kind == "sum" else "max", before, value)


def _shifted(value: Expr, lanes: int, dtype: DType) -> Expr:
    """The value of the lane that many below; narrow integers travel as int32."""
    if dtype.bits < 32 and not dtype.is_float:
        return cast(call("shfl_up", (cast(value, int32), const(lanes)), int32), dtype)
    return call("shfl_up", (value, const(lanes)), dtype)


__all__ = ["Var", "lower_scan", "scan_layout"]
