"""Products under a condition that a block meets as one: they stay under way behind it, and the waits count
the same groups on either side of it. Small tiles that threads read share a ring.
"""

from __future__ import annotations

from typing import Any

import pytest

import tilebench.language as T
from tests.passes.emulated import assert_emulated_is_interp
from tests.passes.test_handover import stage
from tilebench.ir.hopper import Wgmma, WgmmaCommit, WgmmaWait
from tilebench.ir.rewrite import walk
from tilebench.ir.tile import Acquire, If, Issue, Release, Wait
from tilebench.language.parse import parse_prim_func
from tilebench.ops.copy import Copy
from tilebench.passes.stages import Lowered, Scheduled


def program(touched: bool = False, trips: int = 5) -> Any:
    """Even blocks add one product in each iteration, odd ones two. touched: threads look at the first one's
    result between the two.
    """

    @T.prim_func
    def conditional_kernel(
        A: T.Tensor((trips * 64, 64), "float16"), B: T.Tensor((trips * 64, 64), "float16"),
        s: T.Tensor((trips * 64,), "float16"), t: T.Tensor((trips * 64,), "float32"),
        C: T.Tensor((3, 64, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(3, threads=128) as bx:
            a_s = T.alloc_shared((64, 64), "float16")
            b_s = T.alloc_shared((64, 64), "float16")
            s_s = T.alloc_shared((64,), "float16")
            t_s = T.alloc_shared((64,), "float32")
            a = T.alloc_fragment((64, 64), "float16")
            more = T.alloc_fragment((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(trips, num_stages=2):
                T.copy(A[k * 64, 0], a_s)
                T.copy(B[k * 64, 0], b_s)
                T.copy(s[k * 64], s_s)
                T.copy(t[k * 64], t_s)
                for i, j in T.Parallel(64, 64):
                    a[i, j] = a_s[i, j] * s_s[j]
                T.gemm(a, b_s, c)
                if bx % 2 > 0:
                    if touched:
                        for i, j in T.Parallel(64, 64):
                            c[i, j] = c[i, j] + 1.0
                    for i, j in T.Parallel(64, 64):
                        more[i, j] = a_s[j, i] * T.cast(t_s[i], "float16")
                    T.gemm(more, b_s, c)
            T.copy(c, C[bx, :, :])

    return conditional_kernel


@pytest.mark.parametrize("trips", [1, 2, 5])
@pytest.mark.parametrize("touched", [False, True])
def test_they_are_right_in_every_block(touched: bool, trips: int) -> None:
    assert_emulated_is_interp(parse_prim_func(program(touched, trips)), target="emu:sm_90a")


def inner(made: Any) -> tuple[If, list[object]]:
    """The condition with the product, and all statements of the schedule."""
    found = [*walk(stage(parse_prim_func(made), Scheduled).body)]
    (condition,) = (n for n in found if isinstance(n, If) and any(isinstance(m, Issue) for m in walk(n)))
    return condition, found


def between(condition: If, found: list[object]) -> list[object]:
    """What stands between the first product and the condition."""
    issued, end = (
        next(k for k, n in enumerate(found) if wanted(n))
        for wanted in (lambda n: isinstance(n, Issue), lambda n: n is condition)
    )
    return found[issued:end]


def test_the_product_before_it_stays_under_way() -> None:
    condition, found = inner(program())
    assert not any(isinstance(n, Wait) for n in walk(condition))
    empty = [n for n in walk(condition.orelse) if isinstance(n, Issue)]
    assert [n.ops for n in empty] == [()], "a group for the product that is not there"
    assert not any(isinstance(n, Wait) for n in between(condition, found))


def test_both_sides_close_as_many_groups() -> None:
    body = stage(parse_prim_func(program()), Lowered).program.roles[0].body
    (condition,) = (n for n in walk(body) if isinstance(n, If) and any(isinstance(m, Wgmma) for m in walk(n)))
    assert condition.orelse is not None
    sides = (condition.then, condition.orelse)
    assert [sum(isinstance(n, WgmmaCommit) for n in walk(side)) for side in sides] == [1, 1]
    assert not any(isinstance(n, WgmmaWait) for n in walk(condition))


def test_what_threads_touch_is_waited_for() -> None:
    condition, found = inner(program(touched=True))
    assert any(isinstance(n, Wait) for n in between(condition, found))


def test_they_go_back_behind_the_fence_of_a_bulk_store() -> None:
    found = [*walk(stage(parse_prim_func(scaled_rows()), Scheduled).body)]
    store = next(k for k, n in enumerate(found) if isinstance(n, Copy) and n.destination.buffer.name == "C")
    release = next(k for k, n in enumerate(found) if isinstance(n, Release) and "s_s" in n.channel.name)
    assert store < release
    assert_emulated_is_interp(parse_prim_func(scaled_rows()), target="emu:sm_90a")


def scaled_rows() -> Any:
    """A result of each iteration, of rows that threads scale."""

    @T.prim_func
    def scaled_rows_kernel(
        A: T.Tensor((256, 64), "float16"), B: T.Tensor((256, 64), "float16"), s: T.Tensor((256,), "float16"),
        C: T.Tensor((256, 64), "float16"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a_s = T.alloc_shared((64, 64), "float16")
            b_s = T.alloc_shared((64, 64), "float16")
            s_s = T.alloc_shared((64,), "float16")
            a = T.alloc_fragment((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k * 64, 0], a_s)
                T.copy(B[k * 64, 0], b_s)
                T.copy(s[k * 64], s_s)
                for i, j in T.Parallel(64, 64):
                    a[i, j] = a_s[i, j] * s_s[j]
                T.gemm(a, b_s, c, clear_accum=True)
                T.copy(c, C[k * 64, 0])

    return scaled_rows_kernel


def test_vectors_come_together() -> None:
    _, found = inner(program())
    rings = {n.channel.name: n.channel for n in found if isinstance(n, Acquire)}
    together = [c for c in rings.values() if {b.name for b in c.buffers} >= {"s_s", "t_s"}]
    assert len(together) == 1
    assert "b_s" not in {b.name for b in together[0].buffers}, "which products alone read"
    assert sum(isinstance(n, Release) and n.channel is together[0] for n in found) == 1
