"""Tile programs lowered and emulated give what interp gives, bit for bit on small integers, with no
finding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tests.backends.running import run
from tests.ops.test_examples import SYMBOL, arguments
from tests.passes.lowering import lowered, placed
from tests.passes.odd_kernels import KERNELS
from tests.passes.random_kernels import random_kernel
from tilebench.backends.emulator import run_program
from tilebench.errors import SyncError
from tilebench.ir.dtype import decode, int32
from tilebench.ir.expr import Load, Var, binary, call, const, int_value, select
from tilebench.ir.rewrite import walk
from tilebench.ir.thread import Barrier, VectorCopy
from tilebench.ir.tile import Buffer, For, Kernel, Store
from tilebench.layouts import FragmentLayout, mma_accumulator, mma_operand_a
from tilebench.ops import OPS
from tilebench.ops.copy import copy
from tilebench.ops.elementwise import fill
from tilebench.ops.examples import Draft
from tilebench.ops.reduce import reduce_max, reduce_sum
from tilebench.passes.lower import scratch_bytes
from tilebench.passes.stages import Lowered

EXAMPLES = [
    pytest.param(example, id=f"{name}-{example.__name__}")
    for name, op in OPS.items()
    if name != "gemm"
    for example in op.examples
]


def assert_emulated_is_interp(kernel: Kernel, seed: int = 1) -> Lowered:
    """Both on the same small integers; the emulator must find nothing."""
    expected, emulated = arguments(kernel, seed, True), arguments(kernel, seed, True)
    run(kernel, *expected)
    stage = lowered(kernel)
    result = run_program(stage.program, emulated, dict.fromkeys(kernel.symbols, SYMBOL))
    assert not [f for f in result.findings if f.severity == "error"]
    for param, a, b in zip(kernel.params, expected, emulated, strict=True):
        assert isinstance(param.value, Buffer)
        x, y = decode(a, param.value.dtype), decode(b, param.value.dtype)
        assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f"), param.name
    return stage


def copies(stage: Lowered) -> Iterator[VectorCopy]:
    return (n for role in stage.program.roles for n in walk(role.body) if isinstance(n, VectorCopy))


def widths(stage: Lowered, space: str) -> set[int]:
    """Bytes of the vector accesses to a space."""
    return {
        n.lanes * m.dtype.bytes for n in copies(stage) for m in (n.source, n.destination) if m.space == space
    }


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example(example: Callable[[], Kernel]) -> None:
    assert_emulated_is_interp(example())


@pytest.mark.parametrize("seed", [*range(24), 285, 289, 292, 294])
def test_random_kernels(seed: int) -> None:
    assert_emulated_is_interp(random_kernel(seed), seed)


@pytest.mark.parametrize("make", KERNELS, ids=lambda f: f.__name__)
def test_odd_kernels(make: Callable[[], Kernel]) -> None:
    assert_emulated_is_interp(make())


def softmax(rows: int, columns: int, threads: int) -> Kernel:
    d = Draft("softmax", (3,), threads)
    A = d.tensor("A", (3 * rows, columns), "float32")
    B = d.tensor("B", (3 * rows, columns), "float32", "out")
    x, top, total = (
        d.fragment("x", (rows, columns), "float32"),
        d.fragment("top", (rows,), "float32"),
        d.fragment("total", (rows,), "float32"),
    )
    d.add(copy(A[d.blocks[0] * rows, 0], x), reduce_max(x, top, dim=1))
    with d.parallel(rows, columns) as (i, j):
        d.store(x, (i, j), x[i, j] - top[i])
    d.add(reduce_sum(x, total, dim=1))
    with d.parallel(rows, columns) as (i, j):
        d.store(x, (i, j), x[i, j] * total[i])
    d.add(copy(x, B[d.blocks[0] * rows, 0]))
    return d.kernel()


@pytest.mark.parametrize(
    ("rows", "columns", "threads"), [(4, 1024, 128), (8, 256, 256), (4, 96, 64), (16, 64, 64)]
)
def test_softmax_needs_shuffles_only_and_moves_16_bytes(rows: int, columns: int, threads: int) -> None:
    stage = assert_emulated_is_interp(softmax(rows, columns, threads))
    assert not stage.conversions
    assert stage.program.shared_bytes == 0
    assert widths(stage, "global") == {16}
    exchanges = [
        n
        for role in stage.program.roles
        for n in walk(role.body)
        if isinstance(n, Barrier) and n.because.startswith("parts")
    ]
    assert not exchanges


def test_a_row_over_several_warps_goes_through_scratch_once_per_fold() -> None:
    stage = assert_emulated_is_interp(softmax(1, 4096, 256))
    assert 0 < stage.program.shared_bytes <= 8 * 4
    assert widths(stage, "global") == {16}


def attention_rows(threads: int, warps: tuple[int, int]) -> Kernel:
    """The online softmax of attention, with S given instead of computed."""
    d = Draft("rows", (2,), threads)
    bx = d.blocks[0]
    S, O = d.tensor("S", (256, 256), "float32"), d.tensor("O", (256, 64), "float16", "out")
    P = d.tensor("P", (256, 256), "float16", "out")
    s, p, o = (
        d.fragment("s", (128, 128), "float32"),
        d.fragment("p", (128, 128), "float16"),
        d.fragment("o", (128, 64), "float32"),
    )
    m, before, scale, total, l = (
        d.fragment(n, (128,), "float32") for n in ("m", "before", "scale", "total", "l")
    )
    d.attributes["layouts"] = {
        s: mma_accumulator((128, 128), warps),
        o: mma_accumulator((128, 64), warps),
        p: mma_operand_a((128, 128), warps, 16),
    }
    d.add(fill(o, 1), fill(l, 0), fill(m, -math.inf))
    with d.serial(2) as k:
        d.add(copy(S[bx * 128, k * 128], s))
        with d.parallel(128, 128) as (i, j):
            d.store(s, (i, j), select(binary("ge", bx * 128 + i, k * 128 + j), s[i, j], const(-math.inf)))
        d.add(copy(m, before), reduce_max(s, m, dim=1, clear=False))
        with d.parallel(128) as (i,):
            d.store(scale, i, call("exp2", (before[i] - m[i],), s.dtype))
        with d.parallel(128, 128) as (i, j):
            d.store(s, (i, j), call("exp2", (s[i, j] - m[i],), s.dtype))
        d.add(reduce_sum(s, total, dim=1))
        with d.parallel(128) as (i,):
            d.store(l, i, l[i] * scale[i] + total[i])
        d.add(copy(s, p), copy(p, P[bx * 128, k * 128]))
        with d.parallel(128, 64) as (i, j):
            d.store(o, (i, j), o[i, j] * scale[i] + l[i])
    d.add(copy(o, O[bx * 128, 0]))
    return d.kernel()


@pytest.mark.parametrize(("threads", "warps"), [(128, (4, 1)), (256, (8, 1))])
def test_attention_rows_follow_the_accumulators(threads: int, warps: tuple[int, int]) -> None:
    kernel = attention_rows(threads, warps)
    stage = placed(kernel)
    names = {b.name: b for b in stage.layouts}
    scores = stage.layouts[names["s"]]
    assert isinstance(scores, FragmentLayout)
    for name in ("m", "before", "scale", "total", "l"):
        held = stage.layouts[names[name]]
        assert isinstance(held, FragmentLayout), name
        assert held.same_as(scores.project(1)), name
    assert all(r.text for r in stage.reasons.values())
    result = lowered(kernel)
    assert not result.conversions
    assert result.program.shared_bytes == 0


def test_the_cast_to_an_operand_is_the_identity_in_every_thread() -> None:
    stage = lowered(attention_rows(128, (4, 1)))
    casts = [
        n
        for role in stage.program.roles
        for n in walk(role.body)
        if isinstance(n, Store) and n.buffer.name == "p"
    ]
    assert len(casts) == 1
    source = next(n for n in walk(casts[0].value) if isinstance(n, Load))
    assert source.buffer.name == "s"
    assert source.indices[0] is casts[0].indices[0]


def test_attention_rows_emulate() -> None:
    kernel = attention_rows(128, (4, 1))
    expected, emulated = arguments(kernel, 3, True), arguments(kernel, 3, True)
    run(kernel, *expected)
    result = run_program(lowered(kernel).program, emulated, {})
    assert not result.findings
    for a, b in zip(expected, emulated, strict=True):
        # exp2 of integers and sums of at most 2 * 128 powers of two, each rounded to float32 once, then to
        # float16
        np.testing.assert_allclose(a.astype(np.float32), b.astype(np.float32), rtol=2.0**-10, atol=2.0**-14)


def test_a_vectorized_loop_of_a_thread_moves_16_bytes() -> None:
    d = Draft("vectorized", (2,), 32)
    t, b, k = d.thread, d.blocks[0], Var("k", dtype=int32)
    A, O = d.tensor("A", (512,), "float16"), d.tensor("O", (512,), "float16", "out")
    L = d.local("L", (8,), "float16")
    d.add(For(k, const(0), const(8), Store(L, (k,), A[b * 256 + t * 8 + k]), kind="vectorized"))
    d.add(For(k, const(0), const(8), Store(O, (b * 256 + t * 8 + k,), L[7 - k]), kind="vectorized"))
    stage = assert_emulated_is_interp(d.kernel())
    assert widths(stage, "global") == {16}


def test_an_exchange_in_divergent_control_flow_is_refused() -> None:
    d = Draft("divergent", (1,), 128)
    A, O = d.tensor("A", (4, 64), "float32"), d.tensor("O", (128,), "float32", "out")
    X = d.fragment("X", (4, 64), "float32")
    d.add(copy(A, X))
    with d.when(binary("lt", d.thread, 32)):
        d.store(O, d.thread, X[3, 5])
    with pytest.raises(SyncError, match="TB414"):
        lowered(d.kernel())


@pytest.mark.parametrize("seed", [3, 9, 17, 25])
def test_scratch_is_known_before_memory_is_laid_out(seed: int) -> None:
    kernel = random_kernel(seed)
    stage = lowered(kernel)
    scratch = [m for m in stage.program.shared if m.name.startswith("scratch")]
    needed = max((m.byte_offset + int_value(m.shape[0]) * m.dtype.bytes for m in scratch), default=0)
    start = -(-stage.synchronised.allocated.shared_bytes // 128) * 128
    assert scratch_bytes(placed(kernel)) == (needed - start if scratch else 0)
