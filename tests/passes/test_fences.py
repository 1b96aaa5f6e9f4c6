"""Proxy fences: one before tiles go back that threads have read, none that order nothing."""

from __future__ import annotations

from typing import Any

import tilebench.language as T
from tests.kernels import programs, programs_attention
from tests.passes.exchanging import softmax_loop
from tests.passes.lowering import stage
from tilebench.ir.dtype import int32, uint64
from tilebench.ir.expr import Load, const
from tilebench.ir.hopper import FenceProxyAsync, MBarrierArrive, MBarrierWait, Wgmma
from tilebench.ir.rewrite import seq, walk
from tilebench.ir.thread import Barrier, Role, register_array, shared_memory
from tilebench.ir.tile import Evaluate, For, If, Seq, Stmt, Store
from tilebench.language.parse import parse_prim_func
from tilebench.passes.lower.late_releases import with_late_releases
from tilebench.passes.stages import Lowered


def consumer(program: Any) -> Role:
    return stage(parse_prim_func(program), Lowered).program.roles[0]


def in_the_loop(role: Role) -> list[object]:
    """What the innermost loop with products has."""
    loops = [n for n in walk(role.body) if isinstance(n, For) and any(isinstance(m, Wgmma) for m in walk(n))]
    return list(walk(loops[-1].body))


def count(found: list[object]) -> int:
    return sum(isinstance(n, FenceProxyAsync) for n in found)


def test_a_ring_that_only_products_read_needs_none() -> None:
    made = programs.gemm(256, 256, 256, transpose_B=True, block_M=128, block_N=128, block_K=64, threads=256)
    assert count(in_the_loop(consumer(made))) == 0


def scaled() -> Any:
    """A product whose left tile is read by threads, and its scales."""

    @T.prim_func
    def scaled_kernel(
        A: T.Tensor((512, 64), "float16"), B: T.Tensor((512, 64), "float16"), s: T.Tensor((512,), "float32"),
        C: T.Tensor((64, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a_s = T.alloc_shared((64, 64), "float16")
            b_s = T.alloc_shared((64, 64), "float16")
            s_s = T.alloc_shared((64,), "float32")
            a = T.alloc_fragment((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[k * 64, 0], a_s)
                T.copy(B[k * 64, 0], b_s)
                T.copy(s[k * 64], s_s)
                for i, j in T.Parallel(64, 64):
                    a[i, j] = a_s[i, j] * T.cast(s_s[j], "float16")
                T.gemm(a, b_s, c)
            T.copy(c, C)

    return scaled_kernel


def test_tiles_that_threads_read_go_back_together_behind_one() -> None:
    found = in_the_loop(consumer(scaled()))
    assert count(found) == 1
    assert sum(isinstance(n, MBarrierArrive) for n in found) >= 2


def test_reductions_between_warpgroups_need_none_of_their_own() -> None:
    found = in_the_loop(consumer(softmax_loop()))
    assert count(found) == 1, "the one before the product that reads the tile of weights"


def moved(*between: Stmt) -> list[str]:
    """What stands where when a release, with its fence, is followed by these and another fence."""
    ring, slot = shared_memory("ring", 4, uint64, 0), register_array("slot", 1, int32)
    index = (const(0),)
    release = (
        FenceProxyAsync(),
        MBarrierArrive(ring, const(2)),
        Store(slot, index, Load(slot, index, dtype=int32) + 1),
    )
    body = seq(*release, *between, FenceProxyAsync())
    (role,) = with_late_releases((Role("consumer0", 0, 128, body),))
    assert isinstance(role.body, Seq)
    return [type(s).__name__ for s in role.body.body]


def test_a_release_goes_behind_the_next_fence() -> None:
    other = register_array("other", 2, int32)
    store = Store(other, (const(0),), const(1))
    assert moved(store) == ["Store", "FenceProxyAsync", "MBarrierArrive", "Store"]


def test_a_release_does_not_wait_for_others_or_for_its_own_slot() -> None:
    ring, slot = shared_memory("ring", 4, uint64, 0), register_array("slot", 1, int32)
    for stays in (MBarrierWait(ring, const(0), const(0)), Barrier(1, 256)):
        assert moved(stays).count("FenceProxyAsync") == 2
    assert moved(If(const(True), Barrier(1, 128))).count("FenceProxyAsync") == 2
    counted = Store(slot, (const(0),), const(1))
    body = seq(
        FenceProxyAsync(),
        MBarrierArrive(ring, const(2)),
        counted,
        Evaluate(const(0)),
        counted,
        FenceProxyAsync(),
    )
    (role,) = with_late_releases((Role("consumer0", 0, 128, body),))
    assert sum(isinstance(n, FenceProxyAsync) for n in walk(role.body)) == 2


def test_what_was_done_before_a_loop_is_closed_before_it() -> None:
    """Latent attention reads a tile into registers, and its bytes become those of the weights."""
    body = consumer(programs_attention.mla_decode(1, 128, 256)).body
    flat = [n for n in walk(body) if isinstance(n, FenceProxyAsync | For)]
    loops = [n for n in flat if isinstance(n, For) and any(isinstance(m, Wgmma) for m in walk(n))]
    first = flat.index(loops[0])
    assert isinstance(flat[first - 1], FenceProxyAsync)
    (loop,) = loops
    rare = [m for n in walk(loop) if isinstance(n, If) for m in walk(n) if isinstance(m, FenceProxyAsync)]
    assert count(list(walk(loop))) == 2, "one before the vote, one where weights are written anew"
    assert len(rare) == 1
