"""A kernel as one LLVM module: `worker(context, arena)` claims blocks by an atomic addition and runs each.

The context is an array of i64: see the constants below. `fail` keeps the first error and tells everyone to
stop.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilebench.backends.cpu.indices import Place, Site
from tilebench.backends.cpu.packs import Pack, packable, written
from tilebench.backends.cpu.text import V, compute_type, i64
from tilebench.backends.cpu.threads import spread_buffers
from tilebench.backends.cpu.tiles import Tiles
from tilebench.ir.dtype import int64
from tilebench.ir.expr import Var, int_value
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import Buffer, Print
from tilebench.passes.stages import Typed

COUNTER, TOTAL, ABORT, SITE, BLOCK, VALUE, PRINT, GRID = 0, 8, 16, 24, 25, 26, 27, 28
FIRST = 32
"""Slots of the context; those of the packs (packing.py) come last. COUNTER, TOTAL and ABORT are on
cache lines of their own.
"""


@dataclass(frozen=True)
class Emitted:
    """A module's text, the user's line of each of its lines, and what the launch needs."""

    text: str
    lines: tuple[int, ...]
    sites: tuple[Site, ...]
    prints: tuple[Print, ...]
    slots: tuple[Buffer | Var, ...]
    arena_bytes: int
    packs: tuple[Pack, ...]


def emit(typed: Typed, lanes: int, tile: tuple[int, int]) -> Emitted:
    """Write the kernel for vectors of `lanes` f32 values and a register tile of `tile`."""
    kernel = typed.kernel
    w = Tiles()
    w.prepare()
    w.loops, w.prints, w.slots, w.staged = [], [], {}, {}
    w.functions, w.function_text, w.scratch_places = {}, [], {}
    w.kernel = kernel
    w.sides, w.packs, w.packed, w.steps = packable(kernel), [], {}, []
    w.untouched = {p.value for p in kernel.params if isinstance(p.value, Buffer)} - written(kernel)
    w.width_of_host, w.tile_of_host = lanes, tile
    w.thread_var, w.threads = kernel.thread, kernel.thread_count
    w.spread, w.per_thread = spread_buffers(kernel, typed.per_thread)
    slots: list[Buffer | Var] = [p.value for p in kernel.params]
    slots += [s for s in kernel.symbols if not any(s is x for x in slots)]
    slots += [
        b
        for b in kernel.buffers
        if b.scope == "global" and b.view_of is None and not any(b is x for x in slots)
    ]
    _arguments(w, slots)
    for d, (var, extent) in enumerate(zip(kernel.blocks, kernel.grid, strict=True)):
        size = int_value(extent)
        w.ranges[var] = (0, size - 1 if size is not None else 2**31 - 2)
        w.env[var] = w.narrow(V(f"%b{d}", int64), var.dtype)
    w.ranges[kernel.thread] = (0, kernel.thread_count - 1)
    for symbol in kernel.symbols:
        w.ranges.setdefault(symbol, (0, 2**31 - 1))
    w.start("body")
    w.statement(kernel.body)
    if not w.closed:
        w.finish()
    text, lines = _module(w, len(kernel.grid), FIRST + len(slots))
    prints = tuple(w.prints) if any(isinstance(n, Print) for n in walk(kernel.body)) else ()
    return Emitted(text, lines, tuple(w.sites), prints, tuple(slots), w.arena_bytes, tuple(w.packs))


def _arguments(w: Tiles, slots: list[Buffer | Var]) -> None:
    for number, item in enumerate(slots):
        p = w.op(f"getelementptr i64, ptr %ctx, i64 {FIRST + number}")
        if isinstance(item, Buffer):
            continue
        kind = compute_type(item.dtype)
        if item.dtype.is_float:
            wide = w.op(f"load double, ptr {p}")
            value = wide if kind == "double" else w.op(f"fptrunc double {wide} to float")
        else:
            word = w.op(f"load i64, ptr {p}")
            value = word if kind == "i64" else w.op(f"trunc i64 {word} to {kind}")
        w.env[item] = V(value, item.dtype)
    for number, item in enumerate(slots):
        if not isinstance(item, Buffer):
            continue
        p = w.op(f"getelementptr i64, ptr %ctx, i64 {FIRST + number}")
        base = w.op(f"load ptr, ptr {p}")
        shape = tuple(w.extent(s) for s in item.shape)
        if item.strides is not None:
            strides = tuple(w.extent(s) for s in item.strides)
        else:
            steps = [i64(1)] * len(shape)
            for d in reversed(range(len(shape) - 1)):
                steps[d] = w.times(steps[d + 1], shape[d + 1])
            strides = tuple(steps)
        w.places_of[item] = Place(base, shape, strides, 0)


_HEAD = """\
define internal void @fail(ptr %ctx, i64 %site, i64 %n, i64 %value) cold noinline {
  %s = getelementptr i64, ptr %ctx, i64 {SITE}
  %pair = cmpxchg ptr %s, i64 0, i64 %site monotonic monotonic
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %say, label %out
say:
  %b = getelementptr i64, ptr %ctx, i64 {BLOCK}
  store i64 %n, ptr %b
  %v = getelementptr i64, ptr %ctx, i64 {VALUE}
  store i64 %value, ptr %v
  br label %out
out:
  %a = getelementptr i64, ptr %ctx, i64 {ABORT}
  store atomic i64 1, ptr %a seq_cst, align 8
  ret void
}
define void @worker(ptr %ctx, ptr %arena) #0 {
  %c = getelementptr i64, ptr %ctx, i64 {COUNTER}
  %t = getelementptr i64, ptr %ctx, i64 {TOTAL}
  %total = load i64, ptr %t
  %a = getelementptr i64, ptr %ctx, i64 {ABORT}
  br label %next
next:
  %stop = load atomic i64, ptr %a monotonic, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %out, label %claim
claim:
  %n = atomicrmw add ptr %c, i64 1 monotonic
  %done = icmp sge i64 %n, %total
  br i1 %done, label %out, label %run
run:
  call void @block(ptr %ctx, ptr %arena, i64 %n)
  br label %next
out:
  ret void
}
"""


def _module(w: Tiles, axes: int, packs: int) -> tuple[str, tuple[int, ...]]:
    head = _HEAD
    for name, number in (
        ("SITE", SITE), ("BLOCK", BLOCK), ("VALUE", VALUE), ("ABORT", ABORT), ("COUNTER", COUNTER),
        ("TOTAL", TOTAL),
    ):  # fmt: skip
        head = head.replace(f"{{{name}}}", str(number))
    lines = head.splitlines()
    places = [0] * len(lines)
    front = ["define internal void @block(ptr %ctx, ptr noalias align 64 %arena, i64 %n) #0 {", "entry:"]
    front += [
        f"  %abort = getelementptr i64, ptr %ctx, i64 {ABORT}",
        f"  %printp = getelementptr i64, ptr %ctx, i64 {PRINT}",
        "  %print = load ptr, ptr %printp",
        f"  %packs = getelementptr i64, ptr %ctx, i64 {packs}",
    ]
    rest = "%n"
    for d in range(axes):
        front += [
            f"  %g{d}p = getelementptr i64, ptr %ctx, i64 {GRID + d}",
            f"  %g{d} = load i64, ptr %g{d}p",
        ]
        if d == axes - 1:
            front.append(f"  %b{d} = add i64 {rest}, 0")
        else:
            front += [f"  %b{d} = urem i64 {rest}, %g{d}", f"  %r{d} = udiv i64 {rest}, %g{d}"]
            rest = f"%r{d}"
    front += w.allocas
    lines += front
    places += [0] * len(front)
    lines += w.lines
    places += w.places
    tail = ["}", *"\n".join(w.function_text).splitlines()]
    tail += sorted(set(w.declares.values()))
    tail.append('attributes #0 = { nounwind "frame-pointer"="none" }')
    tail.append('!0 = !{!"branch_weights", i32 1, i32 100000}')
    tail += _alias_facts(len(w.scopes) + 1)
    lines += tail
    places += [0] * len(tail)
    return "\n".join(lines) + "\n", tuple(places)


def _alias_facts(count: int) -> list[str]:
    """Each buffer of the block is apart from all others; scope 0 is the arguments."""
    out = ["!1 = distinct !{!1}"]
    out += [f"!{10000 + k} = distinct !{{!{10000 + k}, !1}}" for k in range(count)]
    for k in range(count):
        others = ", ".join(f"!{10000 + j}" for j in range(count) if j != k)
        out += [f"!{100 + 2 * k} = !{{!{10000 + k}}}", f"!{101 + 2 * k} = !{{{others}}}"]
    return out
