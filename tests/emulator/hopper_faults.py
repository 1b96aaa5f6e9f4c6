"""Faulty thread programs of sm_90a, each with a right twin that differs in one statement.

As in faults.py: a case is a function of `bad`; it gives the program, its arguments, and what the bad one must
report: the kind and the lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.emulator.build import zeros
from tests.emulator.faults import Case
from tests.emulator.hopper_build import HopperBuild
from tilebench.ir.dtype import as_dtype
from tilebench.ir.expr import binary, const
from tilebench.ir.hopper import Descriptor
from tilebench.ir.thread import Memory, Turn

CASES: dict[str, Callable[[bool], Case]] = {}

PLAIN = Descriptor(1024, 128, 0)  # of 64 rows x 16 elements of 16 bits, 8 x 16-byte cores along M first
B_PLAIN = Descriptor(128, 128, 0)  # of 8 rows


def case(function: Callable[[bool], Case]) -> Callable[[bool], Case]:
    CASES[function.__name__] = function
    return function


def _ones(count: int, dtype: str = "float16") -> np.ndarray:
    return np.ones(count, as_dtype(dtype).storage_dtype)


# ------------------------------------------------------------------ mbarriers and bulk loads


class _Copy:
    """A load of 512 float16 into s, to be read by all threads."""

    def __init__(self, threads: int = 128, fence: bool = True, meet: bool = True) -> None:
        h = self.h = HopperBuild(threads)
        self.a, self.c = h.tensor("A", 512, "float16"), h.tensor("C", 512, "float16", "inout")
        self.bar, self.s = h.barriers("bar", 2), h.tile("s", 512, "float16")
        self.map = h.map(self.a, (64, 8), (64, 8), 128)
        with h.first():
            self.init = h.init(self.bar, 1)
            h.init(self.bar, 1, 1)
            if fence:
                h.init_fence()
        if meet:
            h.sync()

    def load(self, bytes: int = 1024, barrier: int = 0) -> int:
        with self.h.first():
            self.h.expect(self.bar, bytes, barrier)
            at = self.h.bulk_load(self.s, 0, self.map, (0, 0), self.bar, barrier)
        return at

    def read(self) -> int:
        with self.h.loop(512 // self.h.threads) as i:
            at = self.h.store(
                self.c, i * self.h.threads + self.h.tx, self.h.load(self.s, i * self.h.threads + self.h.tx)
            )
        return at

    def case(self, kind: str, *lines: int) -> Case:
        return Case(self.h, (_ones(512), zeros(512, "float16")), kind, lines or None)


@case
def read_before_the_wait(bad: bool) -> Case:
    p = _Copy()
    load = p.load()
    if not bad:
        p.h.await_(p.bar, 0)
    return p.case("async-race", load, p.read())


@case
def wait_for_the_other_parity_passes_at_once(bad: bool) -> Case:
    p = _Copy()
    load = p.load()
    with p.h.when(p.h.tx >= 0):
        p.h.await_(p.bar, 1 if bad else 0, 1 if bad else 0)
    return p.case("async-race", load, p.read())


@case
def wait_for_a_parity_that_never_comes(bad: bool) -> Case:
    p = _Copy()
    p.load()
    p.h.await_(p.bar, 0)
    p.read()
    wait = p.h.await_(p.bar, 0 if not bad else 1)
    return p.case("deadlock", wait, 7)


@case
def wait_of_one_thread_only(bad: bool) -> Case:
    p = _Copy(32)
    load = p.load()
    with p.h.first():
        p.h.await_(p.bar, 0)
    if not bad:
        p.h.sync_warp()
    return p.case("async-race", load, p.read())


@case
def more_bytes_expected_than_come(bad: bool) -> Case:
    p = _Copy()
    p.load(2048 if bad else 1024)
    wait = p.h.await_(p.bar, 0)
    p.read()
    return p.case("deadlock", wait, 7)


@case
def fewer_bytes_expected_than_come(bad: bool) -> Case:
    p = _Copy()
    with p.h.first():
        p.h.bulk_load(p.s, 0, p.map, (0, 0), p.bar)
        last = p.h.expect(p.bar, 512 if bad else 1024)
    p.h.await_(p.bar, 0)
    p.read()
    return p.case("mbarrier", last)


@case
def more_arrivals_than_the_barrier_counts(bad: bool) -> Case:
    p = _Copy(32)
    with p.h.when(p.h.tx < (2 if bad else 1)):
        arrive = p.h.arrive(p.bar)
    p.h.await_(p.bar, 0)
    return p.case("mbarrier", arrive)


@case
def barrier_initialised_twice(bad: bool) -> Case:
    p = _Copy()
    with p.h.first():
        again = p.h.init(p.bar, 1) if bad else p.h.arrive(p.bar)
    return p.case("mbarrier", p.init, again)


@case
def barrier_never_initialised(bad: bool) -> Case:
    p = _Copy()
    other = p.h.barriers("other")
    wait = p.h.await_(other if bad else p.bar, 1)
    return p.case("mbarrier", wait)


@case
def barrier_used_before_all_know_that_it_is_there(bad: bool) -> Case:
    p = _Copy(meet=not bad)
    wait = p.h.await_(p.bar, 1)
    return p.case("mbarrier", p.init, wait)


@case
def barrier_that_bulk_copies_do_not_see(bad: bool) -> Case:
    p = _Copy(fence=not bad)
    load = p.load()
    p.h.await_(p.bar, 0)
    p.read()
    return p.case("mbarrier", p.init, load)


@case
def tile_of_a_bulk_copy_between_multiples(bad: bool) -> Case:
    h = HopperBuild(32)
    a, c = h.tensor("A", 512, "float16"), h.tensor("C", 32, "float16", "inout")
    bar = h.barriers("bar")
    s = h.shared("s", 512, "float16", at=1024 + (512 if bad else 0))
    h.ready((bar, 1, 1))
    with h.first():
        h.expect(bar, 1024)
        at = h.bulk_load(s, 0, h.map(a, (64, 8), (64, 8), 128), (0, 0), bar)
    h.await_(bar, 0)
    h.store(c, h.tx, h.load(s, h.tx))
    return Case(h, (_ones(512), zeros(32, "float16")), "misaligned", (at,))


@case
def copy_over_what_threads_still_read(bad: bool) -> Case:
    p = _Copy()
    p.load()
    p.h.await_(p.bar, 0)
    read = p.read()
    p.h.fence_proxy()
    if not bad:
        p.h.sync()
    again = p.load(barrier=1)
    p.h.await_(p.bar, 0, 1)
    p.read()
    return p.case("async-race", read, again)


@case
def copy_over_what_threads_read_without_a_proxy_fence(bad: bool) -> Case:
    p = _Copy()
    p.load()
    p.h.await_(p.bar, 0)
    read = p.read()
    if not bad:
        p.h.fence_proxy()
    p.h.sync()
    again = p.load(barrier=1)
    p.h.await_(p.bar, 0, 1)
    p.read()
    return p.case("proxy-fence", read, again)


@case
def copy_over_what_threads_wrote_without_a_proxy_fence(bad: bool) -> Case:
    p = _Copy()
    with p.h.loop(4) as i:
        write = p.h.store(p.s, i * 128 + p.h.tx, 0.0)
    if not bad:
        p.h.fence_proxy()
    p.h.sync()
    load = p.load()
    p.h.await_(p.bar, 0)
    p.read()
    return p.case("proxy-fence", write, load)


# ------------------------------------------------------------------ rings of a producer and consumers


def _ring(release: str = "", lanes: str = "") -> tuple[HopperBuild, dict[str, int], tuple[Any, ...]]:
    """A producer fills one stage four times; consumers add it up. release, lanes: what is wrong."""
    h = HopperBuild(160)
    a, c = h.tensor("A", 4 * 128, "int32"), h.tensor("C", 128, "int32", "out")
    full, empty = h.barriers("full"), h.barriers("empty")
    s, r, v = h.tile("s", 128, "int32"), h.regs("r", 1, "int32"), h.regs("v", 1, "int32")
    tensor, at = h.map(a, (128, 4), (128, 1)), dict[str, int]()
    h.ready((full, 1, 1), (empty, 1, 4 if lanes else 128))
    h.end_prologue()
    with h.first(), h.loop(4) as k:
        at["empty"] = h.await_(empty, 1 - k % 2)
        h.expect(full, 512)
        at["load"] = h.bulk_load(s, 0, tensor, (0, k), full)
    h.end_role("producer", 0, 32)
    h.store(r, 0, 0)
    with h.loop(4) as k:
        h.await_(full, k % 2)
        if release == "early":
            at["arrive"] = h.arrive(empty)
        at["read"] = h.store(v, 0, h.load(s, (h.tx - 32) ^ 1))
        if release != "unfenced":
            h.fence_proxy()
        if lanes:
            if lanes == "met":
                h.sync_warp()
            with h.when(binary("eq", h.tx % 32, const(0))):
                at["arrive"] = h.arrive(empty)
        elif release in ("", "unfenced"):
            at["arrive"] = h.arrive(empty)
        h.store(r, 0, h.load(r, 0) + h.load(v, 0))
    h.store(c, h.tx - 32, h.load(r, 0))
    h.end_role("consumer", 32, 128)
    return h, at, (np.arange(512, dtype=np.int32), zeros(128, "int32"))


@case
def stage_given_back_before_it_is_read(bad: bool) -> Case:
    h, at, arguments = _ring("early" if bad else "")
    return Case(h, arguments, "async-race", (at["read"], at["load"]))


@case
def stage_given_back_without_a_proxy_fence(bad: bool) -> Case:
    h, at, arguments = _ring("unfenced" if bad else "")
    return Case(h, arguments, "proxy-fence", (at["read"], at["load"]))


@case
def stage_never_given_back(bad: bool) -> Case:
    h, _, arguments = _ring("never" if bad else "")
    return Case(h, arguments, "deadlock", None)


@case
def one_lane_gives_back_what_the_others_still_read(bad: bool) -> Case:
    h, at, arguments = _ring(lanes="apart" if bad else "met")
    return Case(h, arguments, "async-race", (at["read"], at["load"]))


# ------------------------------------------------------------------ bulk stores


def _store(bad: str) -> Case:
    h = HopperBuild(128)
    a, c = h.tensor("A", 128, "float32"), h.tensor("C", 128, "float32", "out")
    s = h.tile("s", 128, "float32")
    tensor = h.map(c, (128,), (128,))
    write = h.store(s, h.tx, h.load(a, h.tx))
    if bad == "one-fence":
        with h.first():
            h.fence_proxy()
    elif bad != "fence":
        h.fence_proxy()
    if bad != "meet":
        h.sync()
    with h.first():
        store = h.bulk_store(tensor, (0,), s)
        h.bulk_commit()
        if bad != "read":
            h.bulk_wait(0, reading=bad != "left")
    h.sync()
    again = h.store(s, h.tx, 0.0)
    if bad == "read":
        with h.first():
            h.bulk_wait()
    kind, lines = {
        "fence": ("proxy-fence", (write, store)),
        "one-fence": ("proxy-fence", (write, store)),
        "meet": ("async-race", (write, store)),
        "read": ("async-race", (store, again)),
    }.get(bad, ("", None))
    return Case(h, (_ones(128, "float32"), zeros(128, "float32")), kind, lines)


@case
def bulk_store_without_a_proxy_fence(bad: bool) -> Case:
    found = _store("fence")
    return found if bad else Case(_store("").build, found.arguments, found.kind, found.lines)


@case
def bulk_store_with_a_proxy_fence_of_another_thread(bad: bool) -> Case:
    found = _store("one-fence")
    return found if bad else Case(_store("").build, found.arguments, found.kind, found.lines)


@case
def bulk_store_before_the_threads_meet(bad: bool) -> Case:
    found = _store("meet")
    return found if bad else Case(_store("").build, found.arguments, found.kind, found.lines)


@case
def source_of_a_bulk_store_overwritten(bad: bool) -> Case:
    found = _store("read")
    return found if bad else Case(_store("").build, found.arguments, found.kind, found.lines)


@case
def bulk_store_that_nobody_waits_for(bad: bool) -> Case:
    h = HopperBuild(32)
    c, s = h.tensor("C", 32, "float32", "out"), h.tile("s", 32, "float32")
    h.store(s, h.tx, 1.0)
    h.fence_proxy()
    h.sync()
    with h.first():
        store = h.bulk_store(h.map(c, (32,), (32,)), (0,), s)
        h.bulk_commit()
        if not bad:
            h.bulk_wait()
    return Case(h, (zeros(32, "float32"),), "async-race", (store,))


@case
def wait_that_leaves_the_group_under_way(bad: bool) -> Case:
    h = HopperBuild(32)
    c, s = h.tensor("C", 64, "float32", "out"), h.tile("s", 64, "float32")
    tensor = h.map(c, (64,), (32,))
    for i in range(2):
        h.store(s, i * 32 + h.tx, 1.0)
    h.fence_proxy()
    h.sync()
    stores = list[int]()
    with h.first():
        for i in range(2):
            stores.append(h.bulk_store(tensor, (i * 32,), s, i * 32))
            h.bulk_commit()
        h.bulk_wait(1, reading=True)
    h.sync()
    again = h.store(s, h.tx + (32 if bad else 0), 2.0)
    with h.first():
        h.bulk_wait()
    return Case(h, (zeros(64, "float32"),), "async-race", (stores[1], again))


# ------------------------------------------------------------------ products


class _Product:
    """acc[64, 8] = a[64, 16] @ b[8, 16].T, written by threads."""

    def __init__(self, fence: bool = True, meet: bool = True) -> None:
        h = self.h = HopperBuild(128)
        self.c = h.tensor("C", 512, "float32", "out")
        self.a, self.b = h.tile("a", 1024, "float16"), h.tile("b", 128, "float16")
        self.acc, self.ra = h.regs("acc", 4, "float32"), h.regs("ra", 8, "float16")
        with h.loop(8) as i:
            self.write = h.store(self.a, i * 128 + h.tx, 1.0)
        h.store(self.b, h.tx, 1.0)
        if fence:
            h.fence_proxy()
        if meet:
            h.sync()

    def multiply(self, keep: bool = False, registers: bool = False) -> int:
        a, layout = (self.ra, None) if registers else (self.a, PLAIN)
        return self.h.wgmma(8, self.acc, a, 0, [0], layout, self.b, 0, [0], B_PLAIN, keep)

    def out(self) -> int:
        with self.h.each(4) as i:
            at = self.h.store(self.c, self.h.tx * 4 + i, self.h.load(self.acc, i))
        return at

    def clear(self, memory: Memory | None = None) -> int:
        memory = memory or self.acc
        with self.h.each(memory.static_shape[0]) as i:
            at = self.h.store(memory, i, 0.0)
        return at

    def case(self, kind: str, *lines: int) -> Case:
        return Case(self.h, (zeros(512, "float32"),), kind, lines or None)


@case
def operands_written_without_a_proxy_fence(bad: bool) -> Case:
    p = _Product(fence=not bad)
    p.h.wgmma_fence()
    at = p.multiply()
    p.h.wgmma_commit()
    p.h.wgmma_wait(0, p.acc)
    p.out()
    return p.case("proxy-fence", p.write, at)


@case
def operands_written_without_a_barrier(bad: bool) -> Case:
    p = _Product(meet=not bad)
    p.h.wgmma_fence()
    at = p.multiply()
    p.h.wgmma_commit()
    p.h.wgmma_wait(0, p.acc)
    p.out()
    return p.case("async-race", p.write, at)


@case
def proxy_fence_behind_the_barrier(bad: bool) -> Case:
    p = _Product(fence=not bad)
    if bad:
        p.h.fence_proxy()
    p.h.wgmma_fence()
    at = p.multiply()
    p.h.wgmma_commit()
    p.h.wgmma_wait(0, p.acc)
    p.out()
    return p.case("proxy-fence", p.write, at)


@case
def accumulators_read_under_way(bad: bool) -> Case:
    p = _Product()
    p.h.wgmma_fence()
    at = p.multiply()
    p.h.wgmma_commit()
    p.h.wgmma_wait(1 if bad else 0, p.acc)
    read = p.out()
    p.h.wgmma_wait(0, p.acc)
    return p.case("registers", at, read)


@case
def accumulators_read_without_a_group(bad: bool) -> Case:
    p = _Product()
    p.h.wgmma_fence()
    at = p.multiply()
    if not bad:
        p.h.wgmma_commit()
    p.h.wgmma_wait(0, p.acc)
    return p.case("registers", at, p.out())


@case
def wait_that_does_not_name_the_accumulators(bad: bool) -> Case:
    p = _Product()
    p.h.wgmma_fence()
    at = p.multiply()
    p.h.wgmma_commit()
    p.h.wgmma_wait(0, *(() if bad else (p.acc,)))
    return p.case("registers", at, p.out())


@case
def no_fence_before_the_first_product(bad: bool) -> Case:
    p = _Product()
    if not bad:
        p.h.wgmma_fence()
    at = p.multiply()
    p.h.wgmma_commit()
    p.h.wgmma_wait(0, p.acc)
    p.out()
    return p.case("registers", at)


@case
def accumulators_written_after_the_fence(bad: bool) -> Case:
    p = _Product()
    p.clear()
    p.h.wgmma_fence(p.acc)
    clear = p.clear() if bad else 0
    at = p.multiply(keep=True)
    p.h.wgmma_commit()
    p.h.wgmma_wait(0, p.acc)
    p.out()
    return p.case("registers", clear, at)


@case
def fence_that_does_not_name_the_accumulators(bad: bool) -> Case:
    p = _Product()
    clear = p.clear()
    p.h.wgmma_fence(*(() if bad else (p.acc,)))
    at = p.multiply(keep=True)
    p.h.wgmma_commit()
    p.h.wgmma_wait(0, p.acc)
    p.out()
    return p.case("registers", clear, at)


@case
def operand_registers_overwritten_under_way(bad: bool) -> Case:
    p = _Product()
    p.clear(p.ra)
    p.h.wgmma_fence(p.ra)
    at = p.multiply(registers=True)
    p.h.wgmma_commit()
    if not bad:
        p.h.wgmma_wait(0, p.acc, p.ra)
    clear = p.clear(p.ra)
    p.h.wgmma_wait(0, p.acc, p.ra)
    p.out()
    return p.case("registers", at, clear)


@case
def operand_tile_overwritten_under_way(bad: bool) -> Case:
    p = _Product()
    p.h.wgmma_fence()
    at = p.multiply()
    p.h.wgmma_commit()
    p.h.wgmma_wait(1 if bad else 0, p.acc)
    p.h.sync()
    again = p.h.store(p.a, p.h.tx, 2.0)
    p.h.wgmma_wait(0, p.acc)
    p.out()
    return p.case("async-race", at, again)


@case
def accumulators_kept_that_nobody_set(bad: bool) -> Case:
    p = _Product()
    p.h.wgmma_fence()
    at = p.multiply(keep=bad)
    p.h.wgmma_commit()
    p.h.wgmma_wait(0, p.acc)
    p.out()
    return p.case("uninitialised", at)


@case
def operand_that_starts_within_the_swizzle(bad: bool) -> Case:
    h = HopperBuild(128)
    c = h.tensor("C", 512, "float32", "out")
    a, acc = h.tile("a", 128 * 64, "float16"), h.regs("acc", 4, "float32")
    with h.loop(64) as i:
        h.store(a, i * 128 + h.tx, 1.0)
    h.fence_proxy()
    h.sync()
    h.wgmma_fence()
    rows = Descriptor(16, 1024, 128)
    at = h.wgmma(8, acc, a, (4 if bad else 8) * 64, [0], rows, a, 0, [0], rows)
    h.wgmma_commit()
    h.wgmma_wait(0, acc)
    with h.each(4) as i:
        h.store(c, h.tx * 4 + i, h.load(acc, i))
    return Case(h, (zeros(512, "float32"),), "misaligned", (at,))


@case
def product_of_part_of_a_warpgroup(bad: bool) -> Case:
    p = _Product()
    p.h.wgmma_fence()
    with p.h.when(p.h.tx < (96 if bad else 128)):
        at = p.multiply()
    p.h.wgmma_commit()
    p.h.wgmma_wait(0, p.acc)
    p.out()
    return p.case("divergence", at)


@case
def stage_given_back_before_the_product_is_over(bad: bool) -> Case:
    h = HopperBuild(256)
    a, c = h.tensor("A", 4 * 4096, "float16"), h.tensor("C", 128 * 4, "float32", "out")
    full, empty = h.barriers("full"), h.barriers("empty")
    s, acc = h.tile("s", 64 * 64, "float16"), h.regs("acc", 4, "float32")
    tensor = h.map(a, (64, 256), (64, 64), 128)
    h.ready((full, 1, 1), (empty, 1, 1))
    h.end_prologue()
    with h.first(), h.loop(4) as k:
        h.await_(empty, 1 - k % 2)
        h.expect(full, 8192)
        load = h.bulk_load(s, 0, tensor, (0, k * 64), full)
    h.end_role("producer", 0, 128)
    rows, steps = Descriptor(16, 1024, 128), (0, 16, 32, 48)
    with h.loop(4) as k:
        h.await_(full, k % 2)
        h.wgmma_fence()
        at = h.wgmma(8, acc, s, 0, steps, rows, s, 0, steps, rows, k > 0)
        h.wgmma_commit()
        h.wgmma_wait(1 if bad else 0)
        with h.first(128):
            h.arrive(empty)
    h.wgmma_wait(0, acc)
    with h.each(4) as i:
        h.store(c, (h.tx - 128) * 4 + i, h.load(acc, i))
    h.end_role("consumer", 128, 128)
    return Case(h, (_ones(4 * 4096), zeros(512, "float32")), "async-race", (at, load))


# ------------------------------------------------------------------ registers of warpgroups


def _shares(producer: int, consumer: int) -> tuple[HopperBuild, int]:
    h = HopperBuild(384)
    c = h.tensor("C", 384, "int32", "out")
    h.set_registers(producer, increase=False)
    h.store(c, h.tx, 1)
    h.end_role("producer", 0, 128)
    at = h.set_registers(consumer, increase=True)
    h.store(c, h.tx, 2)
    h.end_roles("consumer", 128, 128, 2)
    return h, at


@case
def more_registers_than_there_are(bad: bool) -> Case:
    h, at = _shares(40, 240 if bad else 232)
    return Case(h, (zeros(384, "int32"),), "deadlock", (at,))


@case
def registers_taken_where_they_should_be_given(bad: bool) -> Case:
    h = HopperBuild(384)
    c = h.tensor("C", 384, "int32", "out")
    at = h.set_registers(200 if bad else 24, increase=False)
    h.store(c, h.tx, 1)
    h.end_role("all", 0, 384)
    return Case(h, (zeros(384, "int32"),), "deadlock" if bad else "registers", (at,))


# ------------------------------------------------------------------ turns


class _Turns:
    """A warpgroup that passes on, then one that takes."""

    def __init__(self) -> None:
        self.h, self.groups = HopperBuild(256), 0
        self.c = self.h.tensor("C", 256, "float32", "inout")

    def turn(self, take: bool) -> int:
        return self.h.emit(Turn, 1, 256, take)

    def end(self) -> None:
        """The end of a warpgroup's program."""
        self.h.store(self.c, self.h.tx, 1.0)
        self.h.end_role(f"group {self.groups}", 128 * self.groups, 128)
        self.groups += 1

    def case(self, *lines: int) -> Case:
        self.end()
        return Case(self.h, (zeros(256, "float32"),), "deadlock", lines)


@case
def a_turn_that_is_never_passed_on(bad: bool) -> Case:
    p = _Turns()
    with p.h.loop(3):
        if not bad:
            p.turn(False)
        meet = p.h.sync()
    p.end()
    with p.h.loop(3):
        take = p.turn(True)
        p.h.sync()
    return p.case(meet, take)


@case
def a_turn_that_nobody_takes_at_the_end(bad: bool) -> Case:
    p = _Turns()
    passed = p.turn(False)
    p.end()
    if not bad:
        p.turn(True)
    return p.case(passed)


@case
def a_turn_passed_on_again_before_both_meet(bad: bool) -> Case:
    p = _Turns()
    with p.h.loop(3):
        passed = p.turn(False)
        if not bad:
            p.h.sync()
    p.end()
    with p.h.loop(0 if bad else 3):
        p.turn(True)
        p.h.sync()
    return p.case(passed)


@case
def a_turn_of_half_a_warpgroup(bad: bool) -> Case:
    p = _Turns()
    with p.h.when(p.h.tx < (64 if bad else 128)):
        passed = p.turn(False)
    p.end()
    p.turn(True)
    return p.case(passed)
