"""The byte map of shared memory: no two buffers that live at one time share bytes, and what does not fit is
explained.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tests.passes.emulated import assert_emulated_is_interp
from tests.passes.pipelined_kernels import attention, pipelined_gemm
from tests.passes.test_sync import random_program
from tilebench.compiler import analyse
from tilebench.errors import TargetError
from tilebench.ir.rewrite import children, walk
from tilebench.ir.tile import Buffer, For, If, Kernel, Seq, Stmt, Versioned, While
from tilebench.layouts import SharedLayout
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import clear
from tilebench.ops.examples import Draft
from tilebench.passes.memory import lifetimes
from tilebench.passes.regions import overwrites, own_touches, touches
from tilebench.passes.stages import Allocated, Placed, Scheduled
from tilebench.targets import parse

TARGET = parse("emu:sm_80")


def allocated(kernel: Kernel, target: str = "emu:sm_80") -> Allocated:
    return analyse(kernel, parse(target)).stage(Allocated)


def by_name(stage: Allocated) -> dict[str, Any]:
    return {b.name: s for b, s in stage.slots.items()}


def chain(count: int, size: int = 64, reuse: bool = True) -> Kernel:
    """A tile that goes through `count` shared buffers, each used once."""
    d = Draft("chain")
    A, B, x = (
        d.tensor("A", (size, 64), "float16"),
        d.tensor("B", (size, 64), "float16", "out"),
        d.fragment("x", (size, 64), "float16"),
    )
    d.add(copy(A, x))
    for i in range(count):
        s = d.shared(f"s{i}", (size, 64), "float16")
        d.add(copy(x, s), copy(s, x))
    d.add(copy(x, B))
    if not reuse:
        d.attributes["pass_configs"] = {"TL_DISABLE_SHARED_MEMORY_REUSE": True}
    return d.kernel()


def test_buffers_that_do_not_meet_share_bytes() -> None:
    stage = allocated(chain(5))
    assert {s.offset for s in stage.slots.values()} == {0}
    assert stage.shared_bytes == 64 * 64 * 2
    assert_emulated_is_interp(chain(5))


def test_reuse_can_be_switched_off() -> None:
    stage = allocated(chain(5, reuse=False))
    assert stage.shared_bytes == 5 * 64 * 64 * 2
    assert len({s.offset for s in stage.slots.values()}) == 5


def test_the_output_tile_of_attention_takes_the_place_of_an_operand() -> None:
    slots = by_name(allocated(attention(256, stages=2)))
    assert slots["O_s"].offset in (slots["K_s"].offset, slots["V_s"].offset, slots["Q_s"].offset)
    assert slots["K_s"].size == 2 * 64 * 64 * 2


def test_swizzled_buffers_and_their_versions_are_aligned() -> None:
    stage = allocated(pipelined_gemm(128, 96, 256, tile=(64, 48, 32), stages=3))
    placed = stage.scheduled.placed
    for buffer, slot in stage.slots.items():
        layout = placed.layouts[buffer]
        assert isinstance(layout, SharedLayout)
        copies = stage.scheduled.versions[buffer]
        alignment = layout.alignment if layout.swizzle.bits else 16
        assert slot.offset % alignment == 0
        assert slot.size % copies == 0
        assert slot.size // copies % alignment == 0
        assert slot.size // copies >= layout.size_bytes


def test_a_buffer_carried_between_iterations_lives_through_the_loop() -> None:
    d = Draft("carried")
    A, B, x = (
        d.tensor("A", (4 * 64, 64), "int32"),
        d.tensor("B", (64, 64), "int32", "out"),
        d.fragment("x", (64, 64), "int32"),
    )
    total, tile_, other = (d.shared(n, (64, 64), "int32") for n in ("total", "tile", "other"))
    d.add(clear(total), clear(x))
    with d.serial(4) as k:
        d.add(copy(A[k * 64, 0], tile_))
        with d.parallel(64, 64) as (i, j):
            d.store(total, (i, j), total[i, j] + tile_[63 - i, j])
        d.add(copy(total, x), copy(x, other), copy(other, x))
    d.add(copy(x, B))
    kernel = d.kernel()
    slots = by_name(allocated(kernel))
    assert slots["tile"].offset == slots["other"].offset, "each iteration writes them anew"
    assert slots["total"].offset != slots["tile"].offset
    assert_emulated_is_interp(kernel)


def test_too_much_says_where_the_bytes_go() -> None:
    with pytest.raises(TargetError) as error:
        allocated(pipelined_gemm(512, 512, 512, tile=(128, 256, 64), stages=4, threads=256), "emu:sm_80")
    assert error.value.code == "TB521"
    assert (
        error.value.render()
        == """\
TargetError[TB521]: the block needs 196,608 bytes of shared memory; sm_80 has 166,912
  why: where they go:
       buffer  shape   dtype    versions    bytes
       B_s     64x256  float16         4  131,072
       A_s     128x64  float16         4   65,536
  fix: num_stages=3 would fit: each pipelined buffer then has 3 versions; or make B_s smaller"""
    )


def test_too_much_without_a_pipeline() -> None:
    d = Draft("large")
    A, s = d.tensor("A", (320, 256), "float32", "inout"), d.shared("s", (320, 256), "float32")
    d.add(copy(A, s), copy(s, A))
    with pytest.raises(TargetError) as error:
        allocated(d.kernel(), "emu:sm_90")
    assert error.value.what == "the block needs 327,680 bytes of shared memory; sm_90 has 232,448"
    assert error.value.fix == "make s smaller"


# -- property: replay executions and see that nobody reads bytes that another buffer has overwritten


def replay(s: Stmt, rng: random.Random, slots: dict[Buffer, Any], owner: dict[int, Buffer]) -> str:
    """Run `s`; owner: which buffer wrote a byte last. A read of a buffer must find its own bytes."""
    if isinstance(s, Seq):
        return next((end for part in s.body if (end := replay(part, rng, slots, owner))), "")
    for t in own_touches(s):
        if t.buffer.scope != "shared":
            continue
        slot = slots[t.buffer]
        if t.mode == "read":
            taken = {owner.get(b, t.buffer) for b in range(slot.offset, slot.offset + slot.size, 16)}
            assert taken == {t.buffer}, f"{t.buffer.name} was overwritten by {[b.name for b in taken]}"
    body = [c for c in children(s) if isinstance(c, Stmt)]
    if isinstance(s, For | While):
        for _ in range(rng.randrange(1, 3)):
            if replay(s.body, rng, slots, owner) == "break":
                break
        return ""
    if isinstance(s, If):
        return replay(rng.choice(body), rng, slots, owner)
    for part in body:
        end = replay(part, rng, slots, owner)
        if end:
            return end
    for t in own_touches(s):
        if t.buffer.scope == "shared" and t.mode != "read":
            slot = slots[t.buffer]
            owner.update(dict.fromkeys(range(slot.offset, slot.offset + slot.size, 16), t.buffer))
    kind = type(s).__name__
    return kind.lower() if kind in ("Break", "Continue") else ""


@pytest.mark.parametrize("seed", range(30))
def test_nobody_reads_what_another_buffer_left(seed: int) -> None:
    stage = allocated(random_program(seed))
    for run in range(20):
        replay(stage.scheduled.body, random.Random(run), dict(stage.slots), {})


@pytest.mark.parametrize(
    "kernel",
    [
        lambda: chain(6),
        lambda: attention(256),
        lambda: pipelined_gemm(128, 128, 256),
        lambda: random_program(3),
    ],
)
def test_live_ranges_do_not_overlap(kernel: Any) -> None:
    stage = allocated(kernel())
    for (a, x), (b, y) in itertools.combinations(stage.slots.items(), 2):
        together = x.first <= y.last and y.first <= x.last
        overlap = x.offset < y.offset + y.size and y.offset < x.offset + x.size
        assert not (together and overlap), f"{a.name} and {b.name}"
    assert {life.buffer for life in lifetimes(stage.scheduled.body)} == set(stage.slots)


def test_views_have_the_storage_of_their_buffer() -> None:
    from tilebench.ir.expr import const

    d = Draft("views")
    A, B, x = (
        d.tensor("A", (64, 32), "int32"),
        d.tensor("B", (32, 64), "int32", "out"),
        d.fragment("x", (32, 64), "int32"),
    )
    s = d.shared("s", (64, 32), "int32")
    view = Buffer("v", (const(32), const(64)), s.dtype, "shared", view_of=s)
    d.add(copy(A, s), copy(view, x), copy(x, B))
    stage = allocated(d.kernel())
    assert list(stage.slots) == [s]
    assert_emulated_is_interp(d.kernel())


def test_what_overwrites_a_buffer() -> None:
    stage = analyse(attention(256), TARGET).stage(Scheduled)
    shared = [b for b in stage.kernel.buffers if b.scope == "shared"]
    whole = {
        b.name: sum(
            overwrites(n, b)
            for n in walk(stage.body)
            if isinstance(n, Stmt) and not isinstance(n, Seq | Versioned)
        )
        for b in shared
    }
    assert whole == {"Q_s": 1, "O_s": 1, "K_s": 2, "V_s": 2}
    assert all(t.buffer.scope in ("shared", "global") for t in touches(stage.body))
    assert isinstance(stage.placed, Placed)
