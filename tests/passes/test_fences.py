"""Proxy fences: one before tiles go back that threads have read, none that order nothing."""

from __future__ import annotations

from typing import Any

import tilebench.language as T
from tests.kernels import programs, programs_attention
from tests.passes.exchanging import softmax_loop
from tests.passes.lowering import stage
from tilebench.ir.hopper import FenceProxyAsync, MBarrierArrive, Wgmma
from tilebench.ir.rewrite import walk
from tilebench.ir.thread import Role
from tilebench.ir.tile import For, If
from tilebench.language.parse import parse_prim_func
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
