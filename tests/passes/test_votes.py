"""T.any_of and T.all_of over threads of several warps: one barrier that votes, of the block or of a role."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import tilebench.language as T
from tests.passes.emulated import assert_emulated_is_interp
from tests.passes.lowering import lowered, stage
from tilebench.backends.cuda.emit import emit
from tilebench.ir.expr import Call
from tilebench.ir.rewrite import walk
from tilebench.ir.thread import Barrier
from tilebench.ir.tile import Kernel, Stmt
from tilebench.language.parse import parse_prim_func
from tilebench.ops.copy import copy
from tilebench.ops.examples import Draft
from tilebench.ops.reduce import all_of, any_of
from tilebench.passes.stages import Lowered

Fold = Callable[[Any], Any]
FOLDS: dict[str, Fold] = {"any": any_of, "all": all_of}


def voting(fold: Fold, count: int, threads: int) -> Kernel:
    d = Draft("voting", threads=threads)
    a, b = d.tensor("A", (count,), "int32"), d.tensor("B", (1,), "int32", "out")
    x, flags = d.fragment("x", (count,), "int32"), d.fragment("flags", (count,), "bool")
    d.add(copy(a, x))
    with d.parallel(count) as (i,):
        d.store(flags, i, x[i] > -3)
    d.store(b, 0, d.add(fold(flags)))
    return d.kernel()


def calls(s: Stmt) -> list[str]:
    names = [n.name for n in walk(s) if isinstance(n, Call)]
    return [n for n in names if n.startswith(("syncthreads", "barrier", "shfl"))]


@pytest.mark.parametrize("kind", FOLDS)
@pytest.mark.parametrize("count", [100, 128, 384])
def test_the_block_meets_once(kind: str, count: int) -> None:
    kernel = voting(FOLDS[kind], count, 128)
    (role,) = lowered(kernel).program.roles
    assert calls(role.body) == [f"syncthreads_{'or' if kind == 'any' else 'and'}"]
    assert not any(isinstance(n, Barrier) for n in walk(role.body))
    for seed in range(4):
        assert_emulated_is_interp(kernel, seed)


def test_lanes_of_one_warp_shuffle() -> None:
    kernel = voting(any_of, 32, 32)
    (role,) = lowered(kernel).program.roles
    assert calls(role.body) == ["shfl_xor"] * 5
    assert_emulated_is_interp(kernel)


def skipping(policy: T.GemmWarpPolicy = T.GemmWarpPolicy.FullCol) -> Any:
    """Products whose results are doubled where one of them is large."""

    @T.prim_func
    def skipping_kernel(
        A: T.Tensor((256, 64), "float16"), B: T.Tensor((256, 64), "float16"), O: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            total = T.alloc_fragment((64, 64), "float32")
            large = T.alloc_fragment((64, 64), "bool")
            T.clear(total)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k * 64, 0], a)
                T.copy(B[k * 64, 0], b)
                T.clear(s)
                T.gemm(a, b, s, transpose_B=True, policy=policy)
                for i, j in T.Parallel(64, 64):
                    large[i, j] = s[i, j] > 120.0
                if T.any_of(T.reshape(large, (64 * 64,))):
                    for i, j in T.Parallel(64, 64):
                        total[i, j] = total[i, j] * 2.0
                for i, j in T.Parallel(64, 64):
                    total[i, j] += s[i, j]
            T.copy(total, O)

    return skipping_kernel


def test_the_consumers_meet_and_their_producer_takes_no_part() -> None:
    kernel = parse_prim_func(skipping())
    low: Lowered = stage(kernel, Lowered)
    consumers = [r for r in low.program.roles if r.name != "producer"]
    assert calls(consumers[0].body) == ["barrier_or"]
    assert sum(r.threads for r in consumers) == 256
    assert "barrier_or<1, 256>(" in emit(low.program).text
    for seed in range(3):
        assert_emulated_is_interp(kernel, seed, "emu:sm_90a")


def test_a_warpgroups_number_is_asked_of_lane_0_on_wish() -> None:
    def shuffles(configs: dict[str, bool]) -> int:
        kernel = parse_prim_func(skipping())
        kernel = dataclasses.replace(kernel, attributes={**kernel.attributes, "pass_configs": configs})
        low: Lowered = stage(kernel, Lowered)
        if configs:
            assert_emulated_is_interp(kernel, 1, "emu:sm_90a")
        return calls(low.program.roles[0].body).count("shfl")

    assert shuffles({}) == 0
    assert shuffles({"TB_UNIFORM_WARPGROUP": True}) == 1
